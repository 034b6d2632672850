//! The shim through the real command: what the user's options do, how the state follows from what the
//! agent shows, what the chat gets of it, and how the phone types.

#![allow(clippy::panic, clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "shim/options.rs"]
mod options;
mod support;
#[path = "shim/user.rs"]
mod user;
