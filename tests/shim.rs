//! The shim through the real command: what the user's options do, how the state follows from what the
//! agent shows, what the chat gets of it, and how the phone types.

#![allow(clippy::panic, clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "shim/bounds.rs"]
mod bounds;
#[path = "shim/chats.rs"]
mod chats;
#[path = "shim/killed.rs"]
mod killed;
#[path = "shim/nested.rs"]
mod nested;
#[path = "shim/options.rs"]
mod options;
#[path = "shim/signals.rs"]
mod signals;
mod support;
#[path = "shim/typing.rs"]
mod typing;
#[path = "shim/user.rs"]
mod user;
