//! JSON-RPC 2.0 as the link speaks it: requests, answers, notifications, error codes.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// The longest line in either direction, in bytes, its end included.
pub(crate) const LINE_LIMIT: usize = 1024 * 1024;

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
    /// No wish of this request id waits for this connection.
    pub(crate) const UNKNOWN_WISH: i64 = -32004;
    /// Nobody can be asked: Collie is off.
    pub(crate) const NOBODY_TO_ASK: i64 = -32002;
    /// More requests at once than a connection may have.
    pub(crate) const TOO_MANY_REQUESTS: i64 = -32003;
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

/// Something that the presence says unasked, as one line.
pub(crate) fn notification(method: &str, params: &impl Serialize) -> Vec<u8> {
    let notification = serde_json::json!({"jsonrpc": "2.0", "method": method, "params": params});
    let mut line = notification.to_string().into_bytes();
    line.push(b'\n');
    line
}
