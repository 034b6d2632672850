//! A coding agent says once what it is doing, and is seen in two places at the same time: in
//! Herdr, a terminal workspace manager, and in Collie, on the phone. Outside both it is quiet, and
//! the agent does not notice.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use agent_presence::Presence;
//! use agent_presence::presence::{Takes, Wanted};
//!
//! let takes = Takes { send: true, stop: true, ..Takes::NONE };
//! let presence = Presence::builder("my-agent").takes(takes).start()?;
//! let session = presence
//!     .session("sess-42")
//!     .title("Fix the build")
//!     .resume(["my-agent", "--resume", "sess-42"])? // which rule broke, if one did
//!     .open()?;
//!
//! session.working(); // Returns at once, whatever Herdr and the phone do.
//! let reply = session.reply("reply-1");
//! reply.partial("Looking at")?;
//! reply.done("Looking at the build log.")?;
//!
//! # if false {
//! // A card on the phone; both places say "blocked" until a person has answered.
//! let verdict = session.approve("bash", serde_json::json!({"command": "make"})).raise()?.wait();
//! if verdict.approved { /* run it */ }
//! # }
//! session.idle();
//!
//! // What the phone sends, each once and in order.
//! while let Some(wish) = session.inbox().try_recv() {
//!     if let Wanted::Send { text } = wish.accept() { /* the next turn */ }
//! }
//! session.release(); // The user quit. Dropping it without this is not a quit.
//! # Ok(())
//! # }
//! ```
//!
//! `examples/agent.rs` is a whole small agent, and `examples/agent.py` and `examples/agent.mjs` are
//! the same over the [`link`].
//!
//! # Layout
//!
//! - [`presence`]: one agent and its sessions, in both places. Start here. Its two chapters
//!   [Cancel safety](presence#cancel-safety) and [Stability](presence#stability) hold for the crate.
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
mod store;
pub mod wrap;

pub use os::clock::{Clock, SystemClock};
pub use presence::{Presence, Session};
pub use session::{SessionId, SessionIdError, State};
