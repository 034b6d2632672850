//! A coding agent says once what it is doing, and is seen in two places at the same time: in
//! Herdr, a terminal workspace manager, and in Collie, on the phone.
//!
//! # Layout
//!
//! - [`presence`]: one agent and its sessions, in both places. Start here.
//! - [`herdr`]: the Herdr face, usable alone.
//! - [`collie`]: the Collie face, usable alone.
//! - [`link`]: the way in for scripts and for processes that are not Rust.
//! - [`wrap`]: any agent in a PTY, changed in nothing.
//! - [`cli`]: the command line.

pub mod cli;
#[path = "../collie/mod.rs"]
pub mod collie;
#[path = "../herdr/mod.rs"]
pub mod herdr;
pub mod link;
mod os;
pub mod presence;
mod session;
pub mod wrap;

pub use os::clock::{Clock, SystemClock};
pub use presence::{Presence, Session};
pub use session::{SessionId, SessionIdError, State};
