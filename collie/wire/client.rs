//! A client of the durable wire: what the phone's side says, over a private socket.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::route::percent_encoded;
use super::{
    AnswerValue, ErrorView, EventsView, Hello, HistoryItems, HistoryRows, StateView, Target,
    WireRange, Written,
};

/// How long an answer may take, unless said. A join waits for the first one's answer, so this is not short.
const PATIENCE: Duration = Duration::from_secs(30);

/// A blocking client of one durable agent, with one kept connection.
///
/// A request whose connection breaks is made once more on a new one: the request id sees to it that
/// nothing runs twice.
#[derive(Debug)]
pub struct Client {
    socket: PathBuf,
    connection: Option<BufReader<UnixStream>>,
    patience: Duration,
}

/// Why a request of a [`Client`] has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The agent refused: a code of the wire, with its sentence.
    #[error("{}: {}", .0.code, .0.message)]
    Refused(Box<ErrorView>),
    /// Nobody answers at the socket, or the connection broke.
    #[error("no answer at {socket}: {source}")]
    Io {
        /// The socket.
        socket: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The answer is not of the durable wire.
    #[error("the answer is not of the durable wire: {0}")]
    Shape(String),
}

struct Reply {
    status: u16,
    etag: Option<String>,
    body: Vec<u8>,
}

impl Client {
    /// A client of the agent at `socket`. It connects with the first request.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into(), connection: None, patience: PATIENCE }
    }

    /// How long a part of an answer may take; 30 s unless said. An agent that is stopped gives none.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The socket's path.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Who is there, and what it can do.
    ///
    /// # Errors
    /// As every request: refused, not there, or not of the wire.
    pub fn hello(&mut self) -> Result<Hello, ClientError> {
        self.get("hello")
    }

    /// Says which versions this side speaks, as Collie does once for each start of the agent.
    ///
    /// # Errors
    /// As every request; `wire-mismatch` where the ranges do not meet.
    pub fn say_hello(&mut self, wire: WireRange, version: &str) -> Result<Hello, ClientError> {
        let body = json!({"wire": wire, "collie": version});
        parse(&self.request("POST", "hello", None, Some(&body))?)
    }

    /// The whole layout and its tag; `None` where `etag` is still its tag.
    ///
    /// # Errors
    /// As every request.
    pub fn state(
        &mut self,
        etag: Option<&str>,
    ) -> Result<Option<(String, StateView)>, ClientError> {
        let reply = self.request("GET", "state", etag, None)?;
        if reply.status == 304 {
            return Ok(None);
        }
        let etag = reply.etag.clone().unwrap_or_default();
        parse(&reply).map(|view| Some((etag, view)))
    }

    /// The events of a pane after `cursor`, or its full view.
    ///
    /// # Errors
    /// As every request.
    pub fn events(&mut self, pane: &str, cursor: Option<&str>) -> Result<EventsView, ClientError> {
        let after = cursor.map(|cursor| format!("?after={}", percent_encoded(cursor)));
        let pane = percent_encoded(pane);
        self.get(&format!("panes/{pane}/events{}", after.unwrap_or_default()))
    }

    /// Conversations of the agent's own store, newest first: at most `limit`, 1 to 200. `after` is the `next`
    /// of the part before.
    ///
    /// # Errors
    /// As every request; `not-supported` where the cap is off.
    pub fn history(
        &mut self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<HistoryRows, ClientError> {
        self.get(&format!("history{}", part(after, limit)))
    }

    /// Items of one of them, newest first, likewise.
    ///
    /// # Errors
    /// As every request; `unknown-session`.
    pub fn history_items(
        &mut self,
        session_id: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<HistoryItems, ClientError> {
        let session = percent_encoded(session_id);
        self.get(&format!("history/{session}{}", part(after, limit)))
    }

    /// Answers an ask. `hash` is the one of the ask that the person saw.
    ///
    /// # Errors
    /// As every request; `ask-closed` with `decidedBy` where somebody was faster.
    pub fn answer(
        &mut self,
        pane: &str,
        ask: &str,
        answer: &AnswerValue,
        hash: Option<&str>,
        request_id: &str,
    ) -> Result<Written, ClientError> {
        let mut fields = fields([("answer", json!(answer))]);
        insert(&mut fields, "hash", hash);
        let route = format!("panes/{}/asks/{}", percent_encoded(pane), percent_encoded(ask));
        self.write(&route, fields, request_id)
    }

    /// Sends text for the turn after `turn_id`, or into it.
    ///
    /// # Errors
    /// As every request; `ask-open` and `turn-moved`.
    pub fn send(
        &mut self,
        pane: &str,
        text: &str,
        turn_id: Option<&str>,
        steer: bool,
        request_id: &str,
    ) -> Result<Written, ClientError> {
        let mut fields = fields([("text", json!(text))]);
        insert(&mut fields, "turnId", turn_id);
        if steer {
            fields.insert("steer".to_owned(), true.into());
        }
        self.write(&format!("panes/{}/send", percent_encoded(pane)), fields, request_id)
    }

    /// Stops the running turn.
    ///
    /// # Errors
    /// As every request.
    pub fn stop(
        &mut self,
        pane: &str,
        turn_id: Option<&str>,
        request_id: &str,
    ) -> Result<Written, ClientError> {
        let mut fields = Map::new();
        insert(&mut fields, "turnId", turn_id);
        self.write(&format!("panes/{}/stop", percent_encoded(pane)), fields, request_id)
    }

    /// Taps a button of a pane.
    ///
    /// # Errors
    /// As every request.
    pub fn tap(
        &mut self,
        pane: &str,
        action: &str,
        item_id: Option<&str>,
        request_id: &str,
    ) -> Result<Written, ClientError> {
        let mut fields = Map::new();
        insert(&mut fields, "itemId", item_id);
        let route = format!("panes/{}/actions/{}", percent_encoded(pane), percent_encoded(action));
        self.write(&route, fields, request_id)
    }

    /// Gives a pane, tab or workspace another title.
    ///
    /// # Errors
    /// As every request.
    pub fn rename(
        &mut self,
        target: &Target,
        title: &str,
        request_id: &str,
    ) -> Result<Written, ClientError> {
        let fields = fields([("target", json!(target)), ("title", json!(title))]);
        self.write("rename", fields, request_id)
    }

    /// Closes a pane, tab or workspace.
    ///
    /// # Errors
    /// As every request.
    pub fn close(&mut self, target: &Target, request_id: &str) -> Result<Written, ClientError> {
        self.write("close", fields([("target", json!(target))]), request_id)
    }

    /// Brings back a closed conversation.
    ///
    /// # Errors
    /// As every request.
    pub fn reopen(&mut self, session_id: &str, request_id: &str) -> Result<Written, ClientError> {
        self.write("reopen", fields([("sessionId", json!(session_id))]), request_id)
    }

    /// Starts a new conversation.
    ///
    /// # Errors
    /// As every request.
    pub fn start(
        &mut self,
        starter: &str,
        workspace: Option<&str>,
        text: Option<&str>,
        request_id: &str,
    ) -> Result<Written, ClientError> {
        let mut fields = fields([("starterId", json!(starter))]);
        insert(&mut fields, "workspaceId", workspace);
        insert(&mut fields, "text", text);
        self.write("start", fields, request_id)
    }

    fn get<T: DeserializeOwned>(&mut self, route: &str) -> Result<T, ClientError> {
        parse(&self.request("GET", route, None, None)?)
    }

    fn write(
        &mut self,
        route: &str,
        mut fields: Map<String, Value>,
        request_id: &str,
    ) -> Result<Written, ClientError> {
        fields.insert("requestId".to_owned(), request_id.into());
        parse(&self.request("POST", route, None, Some(&Value::Object(fields)))?)
    }

    fn request(
        &mut self,
        method: &str,
        route: &str,
        etag: Option<&str>,
        body: Option<&Value>,
    ) -> Result<Reply, ClientError> {
        let body = body.map(Value::to_string);
        let mut text = format!("{method} /durable/v1/{route} HTTP/1.1\r\nhost: localhost\r\n");
        if let Some(etag) = etag {
            text.extend(["if-none-match: ", etag, "\r\n"]);
        }
        if let Some(body) = &body {
            let length = body.len().to_string();
            text.push_str("content-type: application/json\r\n");
            text.extend(["content-length: ", &length, "\r\n"]);
        }
        text.push_str("\r\n");
        text.push_str(body.as_deref().unwrap_or_default());

        let kept = self.connection.take();
        let reply = match kept.map(|connection| exchange(connection, text.as_bytes())) {
            Some(Ok(reply)) => Ok(reply),
            Some(Err(_)) | None => {
                self.connect().and_then(|connection| exchange(connection, text.as_bytes()))
            }
        };
        let (reply, connection) =
            reply.map_err(|source| ClientError::Io { socket: self.socket.clone(), source })?;
        self.connection = Some(connection);
        refused_or(reply)
    }

    fn connect(&self) -> io::Result<BufReader<UnixStream>> {
        let stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(self.patience))?;
        stream.set_write_timeout(Some(self.patience))?;
        Ok(BufReader::new(stream))
    }
}

/// Which part of a list is asked for.
fn part(after: Option<&str>, limit: usize) -> String {
    let after = after.map(|after| format!("&after={}", percent_encoded(after)));
    format!("?limit={limit}{}", after.unwrap_or_default())
}

fn fields<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn insert(fields: &mut Map<String, Value>, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        fields.insert(name.to_owned(), value.into());
    }
}

fn exchange(
    mut connection: BufReader<UnixStream>,
    request: &[u8],
) -> io::Result<(Reply, BufReader<UnixStream>)> {
    connection.get_mut().write_all(request)?;
    let status_line = read_line(&mut connection)?;
    let status = status_line
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3)?.parse().ok())
        .ok_or_else(|| io::Error::other("no HTTP/1.1 status line"))?;
    let mut reply = Reply { status, etag: None, body: Vec::new() };
    let mut length = 0;
    loop {
        let line = read_line(&mut connection)?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().map_err(io::Error::other)?,
            "etag" => reply.etag = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    if status != 304 {
        // Not `with_capacity(length)`: the length is the other side's word.
        connection.by_ref().take(length).read_to_end(&mut reply.body)?;
    }
    Ok((reply, connection))
}

fn read_line(connection: &mut BufReader<UnixStream>) -> io::Result<String> {
    let mut line = Vec::new();
    connection.by_ref().take(16 * 1024).read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let line = String::from_utf8(line).map_err(io::Error::other)?;
    Ok(line.trim_end_matches('\r').to_owned())
}

fn refused_or(reply: Reply) -> Result<Reply, ClientError> {
    if reply.status < 400 {
        return Ok(reply);
    }
    let body: Value = parse_bytes(&reply.body)?;
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    let (code, message) = (text("code"), text("message"));
    Err(ClientError::Refused(Box::new(ErrorView { status: reply.status, code, message, body })))
}

fn parse<T: DeserializeOwned>(reply: &Reply) -> Result<T, ClientError> {
    parse_bytes(&reply.body)
}

fn parse_bytes<T: DeserializeOwned>(body: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(body).map_err(|error| ClientError::Shape(error.to_string()))
}
