//! The messages of the link.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::collie::DecidedBy;
use crate::session::State;

/// The longest line in either direction, in bytes, its end included.
pub(crate) const LINE_LIMIT: usize = 1024 * 1024;

/// The names of the methods.
pub(crate) mod method {
    /// The agent says what it is doing: [`super::StateParams`] to an empty object.
    pub(crate) const STATE: &str = "state";
    /// The agent says something in the chat: [`super::SayParams`] to [`super::SayResult`].
    pub(crate) const SAY: &str = "say";
    /// The agent asks for a choice: [`super::AskParams`] to [`super::AskResult`].
    pub(crate) const ASK: &str = "ask";
    /// The agent asks whether a tool may run: [`super::ApproveParams`] to
    /// [`super::ApproveResult`].
    pub(crate) const APPROVE: &str = "approve";
    /// Where the presence is seen, and how that goes: an empty object to [`super::StatusResult`].
    pub(crate) const STATUS: &str = "status";
}

/// The error codes: JSON-RPC's own, then ours.
pub(crate) mod code {
    /// The line is not JSON.
    pub(crate) const PARSE_ERROR: i64 = -32700;
    /// The line is JSON, but not a request.
    pub(crate) const INVALID_REQUEST: i64 = -32600;
    /// There is no such method.
    pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters do not fit the method.
    pub(crate) const INVALID_PARAMS: i64 = -32602;
    /// There is no session of that id here.
    pub(crate) const UNKNOWN_SESSION: i64 = -32001;
    /// Nobody can be asked: Collie is off.
    pub(crate) const NOBODY_TO_ASK: i64 = -32002;
    /// More requests at once than a connection may have.
    pub(crate) const TOO_MANY_REQUESTS: i64 = -32003;
}

/// A state as the link writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StateWord {
    /// Nothing runs; the user may give the next task.
    Idle,
    /// A turn runs.
    Working,
    /// The agent needs the user before it can go on.
    Blocked,
}

impl From<StateWord> for State {
    fn from(word: StateWord) -> Self {
        match word {
            StateWord::Idle => Self::Idle,
            StateWord::Working => Self::Working,
            StateWord::Blocked => Self::Blocked,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StateParams {
    pub(crate) session: String,
    pub(crate) state: StateWord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SayParams {
    pub(crate) session: String,
    #[serde(default)]
    pub(crate) kind: SayKind,
    pub(crate) text: String,
}

/// Who says something, or how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SayKind {
    /// The user.
    User,
    /// The agent.
    #[default]
    Reply,
    /// The agent, to itself.
    Thinking,
    /// The agent, in Markdown.
    Markdown,
    /// A line about the conversation.
    Notice,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SayResult {
    /// The id of the item in the chat.
    pub(crate) id: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OptionParam {
    pub(crate) id: String,
    pub(crate) label: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AskParams {
    pub(crate) session: String,
    pub(crate) title: String,
    /// 2 to 20 of them.
    pub(crate) options: Vec<OptionParam>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_ms: Option<u64>,
}

/// How an ask ended. `option_ids` is there only when it was answered.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AskResult {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) option_ids: Option<Vec<String>>,
    pub(crate) decided_by: DecidedBy,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApproveParams {
    pub(crate) session: String,
    pub(crate) tool: String,
    /// The arguments of the call, by name.
    #[serde(default)]
    pub(crate) arguments: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_ms: Option<u64>,
}

/// Whether the tool may run. A timeout never approves.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApproveResult {
    pub(crate) approved: bool,
    pub(crate) decided_by: DecidedBy,
    pub(crate) ask_id: String,
}

/// Where the presence is seen, and how that goes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusResult {
    pub(crate) agent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) herdr: Option<HerdrStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) collie: Option<CollieStatus>,
}

/// How the Herdr face is.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HerdrStatus {
    pub(crate) pane: String,
    /// `socket` or `cli`: the way that worked last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) transport: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// The last state that Herdr took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reported: Option<StateWord>,
    /// Whether everything wanted was taken.
    pub(crate) settled: bool,
    /// `pending`, `agrees`, `differs` or `unavailable`: what Herdr showed when it was asked.
    pub(crate) read_back: String,
    /// Whom Herdr shows instead, and how, where that differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shown_instead: Option<String>,
    /// `unchecked`, `ours`, `foreign` or `unknown`.
    pub(crate) ownership: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_error: Option<String>,
    pub(crate) seq: u64,
}

/// How the Collie face is: the socket that it serves, or why none.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CollieStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) socket: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) off: Option<String>,
}

/// A request as it came. `id` is kept as it was written, because it goes back unchanged; without it
/// the request is a notification, and gets no answer.
#[derive(Debug, Deserialize)]
pub(crate) struct Request<'a> {
    pub(crate) jsonrpc: String,
    #[serde(borrow, default)]
    pub(crate) id: Option<&'a RawValue>,
    pub(crate) method: String,
    #[serde(borrow, default)]
    pub(crate) params: Option<&'a RawValue>,
}

/// What goes wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ErrorObject {
    pub(crate) code: i64,
    pub(crate) message: String,
}

impl ErrorObject {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// An answer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Response {
    pub(crate) jsonrpc: String,
    pub(crate) id: Box<RawValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<ErrorObject>,
}

impl Response {
    /// The answer to `id`, or to nobody (`null`) when the request could not be read that far.
    pub(crate) fn new(id: Option<Box<RawValue>>, outcome: Result<Value, ErrorObject>) -> Self {
        let (result, error) = match outcome {
            Ok(result) => (Some(result), None),
            Err(error) => (None, Some(error)),
        };
        let id = id.unwrap_or_else(|| RawValue::NULL.to_owned());
        Self { jsonrpc: "2.0".to_owned(), id, result, error }
    }

    /// The answer as one line.
    pub(crate) fn line(&self) -> Vec<u8> {
        // Strings and values of our own making always serialise.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}
