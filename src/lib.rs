//! A coding agent says once what it is doing, and is seen in two places at the same time: in
//! [Herdr](herdr), a terminal workspace manager, and in [Collie](collie), on the phone.

#[path = "../collie/mod.rs"]
pub mod collie;
#[path = "../herdr/mod.rs"]
pub mod herdr;
mod os;
pub mod wrap;

pub use os::clock::{Clock, SystemClock};
