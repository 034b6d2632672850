//! The link: how processes that are not Rust, and scripts, take part in a presence.
//!
//! JSON-RPC 2.0 over a private Unix socket, one message a line. The variable
//! [`SOCKET_VARIABLE`] names the socket and [`SESSION_VARIABLE`] the session; `wrap` sets both for
//! its agent. A process of the agent may report and ask; there is no method to answer with.

mod client;
mod protocol;
mod server;

pub(crate) use client::{CallError, Client};
pub(crate) use protocol::{
    ApproveParams, ApproveResult, AskParams, AskResult, HerdrStatus, OptionParam, SayKind,
    SayParams, StateParams, StateWord, StatusResult, code, method,
};
pub(crate) use server::Server;

/// The environment variable that names the link's socket.
pub const SOCKET_VARIABLE: &str = "AGENT_PRESENCE_SOCKET";

/// The environment variable that names the session.
pub const SESSION_VARIABLE: &str = "AGENT_PRESENCE_SESSION";
