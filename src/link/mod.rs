//! The link: how processes that are not Rust, and scripts, take part in a presence.
//!
//! JSON-RPC 2.0, one message a line: over a private Unix socket inside a wrapped agent, and over
//! stdin and stdout of `agent-presence link --agent NAME`. [`SOCKET_VARIABLE`] names the socket and
//! [`SESSION_VARIABLE`] the session; `wrap` sets both for its agent. A process of the agent may
//! report and ask; there is no method to answer with.
//!
//! `src/link/LINK.md` is the page for its users, with a transcript, and `src/link/schema.json` the
//! shapes of all messages.

mod client;
mod connection;
mod messages;
mod methods;
mod protocol;
mod server;
mod status;

pub(crate) use client::{CallError, Client};
pub(crate) use connection::{Opened, Served, serve};
pub(crate) use messages::{
    AcceptParams, ApproveParams, ApproveResult, AskParams, AskResult, AskWord, Evidence,
    GlanceResult, HerdrStatus, ItemParams, NestedParams, OpenParams, RefuseParams, SayKind,
    SayParams, SessionParams, StateParams, StateWord, StatusParams, StatusResult, SubscribeParams,
    WishReceived, method,
};
pub(crate) use protocol::code;
pub(crate) use server::Server;

/// The environment variable that names the link's socket.
pub const SOCKET_VARIABLE: &str = "AGENT_PRESENCE_SOCKET";

/// The environment variable that names the session.
pub const SESSION_VARIABLE: &str = "AGENT_PRESENCE_SESSION";
