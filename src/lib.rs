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
//! - [`presence`]: one agent and its sessions, in both places. Start here.
//! - [`herdr`]: the Herdr face, usable alone.
//! - [`collie`]: the Collie face, usable alone.
//! - [`link`]: the way in for scripts and for processes that are not Rust.
//! - [`wrap`]: any agent in a PTY, changed in nothing.
//! - [`cli`]: the command line.
//!
//! # Threads and executors
//!
//! A [`Presence`] has one background thread with a runtime of its own. Every call works from a plain
//! thread, inside any of tokio's runtimes and on any other executor; none waits for a face, and none
//! fails because a face is slow, full or gone. Three block, and say so:
//! [`Ask::wait`](presence::Ask::wait) (and that of an approval), [`Inbox::wait`](presence::Inbox::wait)
//! and, for at most 300 ms, [`Presence::close`]. In an asynchronous task, await the ask, and
//! [`Inbox::recv`](presence::Inbox::recv).
//!
//! # After a restart
//!
//! Herdr runs the session's [resume command](presence::SessionBuilder::resume) in the restored pane. On the
//! phone, a session that is opened again under its id is the same one, with its chat, its open cards and their
//! answers, if the presence is [durable](presence::Builder::durable), which is off unless said.
//!
//! # Cancel safety
//!
//! - An [`Ask`](presence::Ask) or [`Approval`](presence::Approval) that is dropped before it is answered
//!   withdraws its card, and both places are back at what the agent said last. Neither a later answer nor
//!   a timeout has any effect. One exception: where the question names its
//!   [call](presence::Question::call) and the phone was faster than the drop, the answer is kept, and
//!   given to the same question when it is raised again.
//! - An approval that is awaited as a question is raised when it is polled first: dropped before that, it
//!   was never asked.
//! - [`Inbox::recv`](presence::Inbox::recv) that is dropped before it gave a wish has taken none.
//! - A [`Wish`](presence::Wish) that is dropped without an answer is refused; the phone says so.
//! - A [`Block`](presence::Block) that is dropped is over.
//! - A [`Session`] or a [`Presence`] that is dropped is no quit: what was said last stays, and only
//!   [`Session::release`] and [`Presence::release`] let go of the pane.
//! - All other calls return at once and leave nothing half done.
//!
//! Over the [`link`] the end of a connection is the drop of all that it had.
//!
//! # Stability
//!
//! The names here are ours and follow semantic versioning; none is of a crate that we are built on, but
//! for `serde_json`'s `Value` and `Map`. Two kinds are the wire's own, which is experimental, and change
//! with it: what comes from [`collie`] (items, fields, kinds of asks, targets), and what
//! [`Presence::herdr_status`] tells of Herdr. The link's methods and fields follow the same rule: new
//! ones may come in any version, and a program has to pass over what it does not know.

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
