//! The refusals of the wire: status, code, sentence.

use serde_json::{Map, Value, json};

use super::{DecidedBy, Hello};

/// A refusal, before it becomes a body.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// Further fields of the body.
    pub(crate) more: Map<String, Value>,
    /// A header that the status asks for.
    pub(crate) header: Option<(&'static str, &'static str)>,
}

impl Refusal {
    fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), more: Map::new(), header: None }
    }

    fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "bad-request", message)
    }

    pub(crate) fn bad_token() -> Self {
        let refusal = Self::new(401, "bad-token", "The bearer token is missing or wrong.");
        Self { header: Some(("www-authenticate", "Bearer")), ..refusal }
    }

    pub(crate) fn caller_refused() -> Self {
        let message = "The agent, and what it started, may read but not decide.";
        Self::new(403, "caller-refused", message)
    }

    pub(crate) fn unknown_path() -> Self {
        Self::new(404, "unknown-path", "The durable wire has no such path.")
    }

    pub(crate) fn unknown_pane() -> Self {
        Self::new(404, "unknown-pane", "There is no such pane.")
    }

    pub(crate) fn unknown_ask() -> Self {
        Self::new(404, "unknown-ask", "The pane has no such ask.")
    }

    pub(crate) fn unknown_session() -> Self {
        Self::new(404, "unknown-session", "There is no such session.")
    }

    pub(crate) fn unknown_action() -> Self {
        Self::new(404, "unknown-action", "The pane has no such action.")
    }

    pub(crate) fn unknown_starter() -> Self {
        Self::new(404, "unknown-starter", "There is no such starter.")
    }

    pub(crate) fn unknown_target() -> Self {
        Self::new(404, "unknown-target", "There is no such pane, tab or workspace.")
    }

    pub(crate) fn method_not_allowed(allow: &'static str) -> Self {
        let message = format!("This path takes {allow} only.");
        let refusal = Self::new(405, "method-not-allowed", message);
        Self { header: Some(("allow", allow)), ..refusal }
    }

    pub(crate) fn not_supported(what: &str) -> Self {
        Self::new(409, "not-supported", format!("This agent does not take {what}."))
    }

    pub(crate) fn ask_open(ask_id: &str) -> Self {
        Self::new(409, "ask-open", "A question is open: answer it first, or steer, or stop.")
            .with("askId", ask_id)
    }

    pub(crate) fn turn_moved(turn_id: Option<&str>) -> Self {
        let refusal = Self::new(409, "turn-moved", "Another turn has begun since.");
        match turn_id {
            Some(turn_id) => refusal.with("turnId", turn_id),
            None => refusal,
        }
    }

    pub(crate) fn ask_closed(decided_by: DecidedBy, decided_at: &str) -> Self {
        Self::new(409, "ask-closed", "The question was decided already.")
            .with("decidedBy", json!(decided_by))
            .with("decidedAt", decided_at)
    }

    pub(crate) fn ask_changed(ask: Value) -> Self {
        Self::new(409, "ask-changed", "The question is not the one that was answered.")
            .with("ask", ask)
    }

    pub(crate) fn refused(reason: &str) -> Self {
        Self::new(409, "refused", "The agent refused.").with("reason", reason)
    }

    pub(crate) fn wire_mismatch(hello: &Hello) -> Self {
        Self::new(409, "wire-mismatch", "The two sides speak no version of the wire in common.")
            .with("wire", json!(hello.wire))
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "too-large", message)
    }

    pub(crate) fn not_json() -> Self {
        Self::new(415, "not-json", "A write is JSON: content-type application/json.")
    }

    pub(crate) fn receipt_dropped() -> Self {
        let message = "What became of this request is no longer known, so nothing was run.";
        Self::new(500, "receipt-dropped", message)
    }

    pub(crate) fn failed() -> Self {
        let message = "The agent failed at this; nothing is stored and it may be tried again.";
        Self::new(500, "failed", message)
    }

    pub(crate) fn starting() -> Self {
        let refusal = Self::new(503, "starting", "The agent is starting.");
        Self { header: Some(("retry-after", "1")), ..refusal }
    }

    /// The body: `error` and `code` are the same word, because Collie has used both.
    pub(crate) fn body(&self) -> String {
        let mut body = self.more.clone();
        body.insert("error".to_owned(), self.code.into());
        body.insert("code".to_owned(), self.code.into());
        body.insert("message".to_owned(), self.message.as_str().into());
        Value::Object(body).to_string()
    }
}

/// A refusal, as a client reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorView {
    /// The HTTP status; not in the body.
    pub status: u16,
    /// The code, such as `ask-closed`.
    pub code: String,
    /// One sentence.
    pub message: String,
    /// All of the body.
    pub body: Value,
}
