//! Collie: the session of an agent on the phone.
//!
//! This is a durable agent's SDK: it speaks our draft of Collie's durable wire v1, HTTP/1.1 on a
//! private Unix socket, which Collie dials and polls. It can be used alone, without the rest of the
//! crate. `collie/WIRE.md` is the wire; `collie/CONFORMANCE.md` says what each `N049` of this
//! documentation means.
//!
//! ```no_run
//! use agent_presence::collie::{self, AskInput, AskOption, Options, PaneOptions};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let collie = collie::open(Options { host_name: Some("desk".into()), ..Options::default() }).await?;
//! let pane = collie
//!     .workspace("hello", "Hello")?
//!     .tab("main", "Main")?
//!     .pane("hello-1", PaneOptions { title: "Hello".into(), ..PaneOptions::default() })?;
//! collie.ready();
//! println!("listening on {}", collie.address().display());
//! let yes_or_no = [AskOption::new("yes", "Yes"), AskOption::new("no", "No")];
//! let answer = pane.ask(AskInput::choice("Shall we?", yes_or_no).tool_call_id("q1"))?.await?;
//! println!("answer: {}", answer.option_ids()[0]);
//! collie.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Cancel safety
//! Dropping an [`Ask`] withdraws its card. Dropping the future of [`Core::handle`] stops nothing: an
//! action that has begun runs to its end, and its receipt is kept. Dropping a [`Collie`] removes its
//! socket at once; [`Collie::close`] lets running requests end first.
//!
//! # Stability
//! The names of [`wire`] follow an experimental wire (N001, N002) and change with it.

mod answer;
mod approval;
mod ask;
mod clean;
mod core;
mod history;
mod hooks;
mod id;
mod item;
mod layout;
mod log;
mod newest;
mod pane;
mod receipts;
mod records;
mod rule;
mod serve;
mod time;
mod trouble;
mod waiter;
pub mod wire;

pub use answer::{Answer, AskClosed};
pub use approval::{Approval, approval_of, arguments_view, call_summary};
pub use ask::{AskError, AskInput};
pub use core::{Caller, Core, CoreOptions, Request, Response, Warn};
pub use history::{History, HistoryPage, MemoryHistory};
pub use hooks::{
    ActionRequest, CloseRequest, HookError, Hooks, NoHooks, RenameRequest, ReopenRequest,
    SendRequest, SharedHooks, StartRequest, StopRequest,
};
pub use id::{ID_LIMIT, ask_id_for, check_id};
pub use layout::{Tab, Workspace};
pub use pane::{Pane, PaneEdit, PaneError, PaneOptions, SessionId};
pub use receipts::{
    FileReceipts, Lookup, MemoryReceipts, RECEIPTS_PER_GROUP, Receipt, ReceiptGroup, ReceiptStore,
    StoredAnswer, StoredSend,
};
pub use records::FileRecords;
pub use rule::RuleError;
pub use serve::{
    Collie, Loopback, OpenError, Options, Tokens, open, serve_loopback, serve_private,
};
pub use waiter::Ask;
pub use wire::client::{Client, ClientError};
pub use wire::{
    ActionView, AnswerValue, AskKind, AskOption, AskView, BadgeTone, CallerCheck, Caps, DecidedBy,
    Field, FieldKind, Item, NoticeLevel, PaneState, Push, StarterView, Target, ToolStatus,
};
