//! Coming back: an agent is wrapped, Herdr goes away with all that runs in it, and what was reported to it
//! is typed into a new login shell.

#![allow(clippy::panic, clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "resume/cannot.rs"]
mod cannot;
#[path = "resume/known.rs"]
mod known;
#[path = "resume/list.rs"]
mod list;
#[path = "resume/reported.rs"]
mod reported;
#[path = "resume/restored.rs"]
mod restored;
mod support;
#[path = "resume/user.rs"]
mod user;
