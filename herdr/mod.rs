//! Herdr: the state of an agent on the desk.
//!
//! Herdr is a terminal workspace manager. A program in one of its panes may say what it is doing
//! (idle, working, blocked), which command brings its session back, and that it is gone. This module
//! says it: in the background, newest first, and again until Herdr shows it.
//!
//! ```no_run
//! use agent_presence::herdr::{
//!     AgentName, Detection, Environment, Reporter, ReporterOptions, ResumeCommand, Source, State,
//! };
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let Detection::Inside(environment) = Environment::detect() else {
//!     return Ok(()); // Outside Herdr there is nobody to report to.
//! };
//! let reporter = Reporter::start(
//!     environment,
//!     Source::new("my-agent")?,
//!     AgentName::new("my-agent")?,
//!     ReporterOptions::default(),
//! )?;
//! reporter.report(State::Working, None);
//! reporter.session("sess-42", Some(ResumeCommand::new(["my-agent", "--resume", "sess-42"])?));
//! reporter.report(State::Idle, None);
//! reporter.release(); // The user quit.
//! reporter.finish(Duration::from_millis(300));
//! # Ok(())
//! # }
//! ```
//!
//! # Layout
//! - `environment`: are we in a pane of Herdr, and in which.
//! - `identity`: who reports, checked by Herdr's rules.
//! - `resume_command`: the command that brings a session back, checked likewise.
//! - `metadata`: what a person reads beside the state.
//! - `reporter`: the handle, and the thread behind it.
//! - `slots`: what is wanted, one slot for each field; `latest`: the newest value only.
//! - `plan`: what to send next, and what an answer means. No I/O.
//! - `sequence`: the rising number of each report, kept on disk.
//! - `report`: every JSON name and every CLI word of Herdr's reports.
//! - `transport`: the socket, and the CLI as its fallback.
//! - `sessions`: named sessions, by the program; its words and what it saves.
//! - `status`, `inspect`: what `doctor` tells.
//!
//! How Herdr behaves is written down in `herdr/PROTOCOL.md`, by numbers such as `H012`.

mod environment;
mod identity;
mod inspect;
mod latest;
mod metadata;
mod plan;
mod report;
mod reporter;
mod resume_command;
mod sequence;
mod sessions;
mod slots;
mod status;
mod sync;
mod text;
mod transport;

pub use environment::{Detection, Environment};
pub use identity::{AgentName, IdentityError, Source, is_known_agent};
pub use inspect::Inspection;
pub use metadata::Metadata;
pub use report::State;
pub use reporter::{Reporter, ReporterOptions};
pub use resume_command::{ResumeCommand, ResumeCommandError};
pub use sequence::default_state_folder;
pub use sessions::{NamedSession, Sessions, SessionsError, saved_commands, write_quiet_config};
pub use status::{Ownership, ReadBack, Status, TransportKind};
