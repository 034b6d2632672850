//! What a session is: its state, its turn, its open asks. No I/O, and no clock of its own: every
//! call that depends on time is told the time.
//!
//! The truth is one: the effective state is blocked while an ask is open or another reason holds the
//! agent up, else it is what the most trusted signal says. Both faces are told the same value, so they always agree.

mod model;
mod signal;

pub(crate) use model::{Model, ReasonKey, Shown};
pub use model::{SessionId, SessionIdError, State};
pub(crate) use signal::Rank;
