//! The Collie face as the phone sees it.

#[path = "../support/mod.rs"]
mod support;

mod agent;
mod asks;
mod rig;
mod slice;
mod whole;
