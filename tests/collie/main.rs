//! The Collie face as the phone sees it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends by a panic"
)]

#[path = "../support/mod.rs"]
mod support;

mod agent;
mod asks;
mod contract;
mod edge;
mod fuzzed;
mod hooks;
mod killed;
mod model;
mod oracle;
mod records;
mod rig;
mod slice;
mod whole;
