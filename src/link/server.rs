//! The presence's end of the link.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::protocol::{
    ApproveParams, ApproveResult, AskParams, AskResult, CollieStatus, ErrorObject, HerdrStatus,
    LINE_LIMIT, Request, Response, SayKind, SayParams, SayResult, StateParams, StateWord,
    StatusResult, code, method,
};
use crate::collie::DecidedBy;
use crate::herdr::{self, Ownership, ReadBack, TransportKind};
use crate::os::peer::Peer;
use crate::os::private::{PrivateSocket, PrivateSocketError};
use crate::presence::{AskError, FaceStatus, Presence, Session};

/// How many asks may be open on one connection at once.
const REQUESTS_IN_FLIGHT: usize = 256;

/// For how long a reader may leave its answers lying before it is dropped.
const SLOW_READER_LIMIT: Duration = Duration::from_secs(10);

/// Serves the link of a presence on a private socket, until it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    path: PathBuf,
    accepting: tokio::task::AbortHandle,
}

impl Server {
    /// Binds the socket and serves it on the presence's own thread.
    pub(crate) fn start(presence: &Presence, path: &Path) -> Result<Self, PrivateSocketError> {
        let socket = PrivateSocket::bind(path)?;
        let accepting = presence.spawn(accept(socket, presence.clone()));
        Ok(Self { path: path.to_owned(), accepting })
    }

    /// Where it listens.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(socket: PrivateSocket, presence: Presence) {
    let PrivateSocket { listener, guard: _removes_the_socket_at_the_end } = socket;
    let listener = match UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::warn!(%error, "the link cannot listen");
            return;
        }
    };
    // Dropped with this task, and the connections with it.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, presence.clone()));
                }
                Err(error) => {
                    // Out of file descriptors, most likely: it passes, and a busy loop would not help.
                    tracing::warn!(%error, "the link cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Serves one connection until it ends. What it still asks then is withdrawn: who asked is gone.
async fn serve(stream: UnixStream, presence: Presence) {
    match Peer::of(&stream) {
        Ok(peer) if peer.is_same_user() => {}
        Ok(_) => return tracing::warn!("the link refused another user"),
        Err(error) => return tracing::warn!(%error, "the link cannot tell who connects"),
    }
    let (reader, writer) = stream.into_split();
    let (answers, to_write) = mpsc::channel(REQUESTS_IN_FLIGHT);
    tokio::select! {
        () = read_requests(reader, &presence, answers) => {}
        () = write_answers(writer, to_write) => {}
    }
}

/// Reads one line, without its end. `None`: the connection ended, or the line is too long.
async fn read_line(reader: &mut BufReader<OwnedReadHalf>, line: &mut Vec<u8>) -> Option<()> {
    line.clear();
    let limit = u64::try_from(LINE_LIMIT).unwrap_or(u64::MAX);
    reader.take(limit).read_until(b'\n', line).await.ok()?;
    line.pop_if(|last| *last == b'\n').map(|_| ())
}

async fn read_requests(reader: OwnedReadHalf, presence: &Presence, answers: mpsc::Sender<Vec<u8>>) {
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    let mut asks = JoinSet::new();
    while read_line(&mut reader, &mut line).await.is_some() {
        while asks.try_join_next().is_some() {}
        let (id, outcome) = dispatch(&line, presence, asks.len());
        match outcome {
            Dispatched::Done(outcome) => {
                if answer(&answers, id, outcome).await.is_none() {
                    return;
                }
            }
            Dispatched::Asked(waiting) => {
                let answers = answers.clone();
                asks.spawn(async move { answer(&answers, id, waiting.wait().await).await });
            }
        }
    }
    // A client that has said all it will say may still read: its asks stay open until it goes away,
    // which the end of its stream does not tell. The commands and the link's clients keep both
    // directions open, so the end of one is taken as the end of both.
}

/// Queues an answer; a notification gets none. `None`: nobody reads them any more.
async fn answer(
    answers: &mpsc::Sender<Vec<u8>>,
    id: Option<Id>,
    outcome: Result<Value, ErrorObject>,
) -> Option<()> {
    let id = match id {
        Some(Id::Given(id)) => Some(id),
        Some(Id::Unreadable) => None,
        None => return Some(()),
    };
    answers.send(Response::new(id, outcome).line()).await.ok()
}

async fn write_answers(mut writer: OwnedWriteHalf, mut answers: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = answers.recv().await {
        match tokio::time::timeout(SLOW_READER_LIMIT, writer.write_all(&line)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
            Err(_) => return tracing::warn!("the link dropped a client that does not read"),
        }
    }
}

/// To whom an answer goes.
enum Id {
    /// To the request of this id.
    Given(Box<RawValue>),
    /// To a request whose id could not be read.
    Unreadable,
}

/// What came of a request so far.
enum Dispatched {
    Done(Result<Value, ErrorObject>),
    Asked(Asked),
}

/// An ask that waits for the user.
enum Asked {
    Choice(crate::presence::Ask),
    Approval(crate::presence::Approval),
}

impl Asked {
    async fn wait(self) -> Result<Value, ErrorObject> {
        match self {
            Self::Choice(ask) => {
                let result = match ask.await {
                    Ok(answer) => AskResult {
                        option_ids: Some(answer.option_ids().to_vec()),
                        decided_by: DecidedBy::Phone,
                    },
                    Err(closed) => AskResult { option_ids: None, decided_by: closed.decided_by },
                };
                to_value(&result)
            }
            Self::Approval(approval) => {
                let verdict = approval.await;
                to_value(&ApproveResult {
                    approved: verdict.approved,
                    decided_by: verdict.decided_by,
                    ask_id: verdict.ask_id,
                })
            }
        }
    }
}

fn to_value(result: &impl Serialize) -> Result<Value, ErrorObject> {
    serde_json::to_value(result)
        .map_err(|error| ErrorObject::new(code::INVALID_REQUEST, error.to_string()))
}

/// Takes a request apart and does it, all but waiting for the user.
fn dispatch(line: &[u8], presence: &Presence, asks_open: usize) -> (Option<Id>, Dispatched) {
    let request: Request<'_> = match serde_json::from_slice(line) {
        Ok(request) => request,
        Err(error) => {
            let code = if error.is_data() { code::INVALID_REQUEST } else { code::PARSE_ERROR };
            let error = ErrorObject::new(code, error.to_string());
            return (Some(Id::Unreadable), Dispatched::Done(Err(error)));
        }
    };
    let id = request.id.map(|id| Id::Given(id.to_owned()));
    if request.jsonrpc != "2.0" {
        let error = ErrorObject::new(code::INVALID_REQUEST, "`jsonrpc` has to be \"2.0\"");
        return (id, Dispatched::Done(Err(error)));
    }
    let dispatched = match request.method.as_str() {
        method::STATE => Dispatched::Done(state(&request, presence)),
        method::SAY => Dispatched::Done(say(&request, presence)),
        method::STATUS => Dispatched::Done(status(presence)),
        method::ASK | method::APPROVE if asks_open >= REQUESTS_IN_FLIGHT => {
            let limit = format!("more than {REQUESTS_IN_FLIGHT} asks on one connection");
            Dispatched::Done(Err(ErrorObject::new(code::TOO_MANY_REQUESTS, limit)))
        }
        method::ASK => asked(ask(&request, presence)),
        method::APPROVE => asked(approve(&request, presence)),
        unknown => {
            let error = format!("there is no method `{unknown}`");
            Dispatched::Done(Err(ErrorObject::new(code::METHOD_NOT_FOUND, error)))
        }
    };
    (id, dispatched)
}

fn asked(outcome: Result<Asked, ErrorObject>) -> Dispatched {
    outcome.map_or_else(|error| Dispatched::Done(Err(error)), Dispatched::Asked)
}

fn params<P: DeserializeOwned>(request: &Request<'_>) -> Result<P, ErrorObject> {
    let text = request.params.map_or("{}", RawValue::get);
    serde_json::from_str(text)
        .map_err(|error| ErrorObject::new(code::INVALID_PARAMS, format!("`params`: {error}")))
}

fn session(presence: &Presence, id: &str) -> Result<Session, ErrorObject> {
    presence.find(id).ok_or_else(|| {
        ErrorObject::new(code::UNKNOWN_SESSION, format!("there is no session `{id}` here"))
    })
}

fn state(request: &Request<'_>, presence: &Presence) -> Result<Value, ErrorObject> {
    let StateParams { session: id, state, message } = params(request)?;
    let session = session(presence, &id)?;
    session.state(state.into(), message.as_deref());
    // Who reads the pane after this answer sees the state in it.
    session.publish();
    Ok(json!({}))
}

fn say(request: &Request<'_>, presence: &Presence) -> Result<Value, ErrorObject> {
    let SayParams { session: id, kind, text } = params(request)?;
    let session = session(presence, &id)?;
    let said = match kind {
        SayKind::User => session.heard(&text),
        SayKind::Reply => session.say(&text),
        SayKind::Thinking => session.think(&text),
        SayKind::Markdown => session.say_markdown(&text),
        SayKind::Notice => session.notice(&text),
    };
    let id = said.map_err(|error| ErrorObject::new(code::INVALID_PARAMS, error.to_string()))?;
    to_value(&SayResult { id })
}

fn status(presence: &Presence) -> Result<Value, ErrorObject> {
    let status = presence.status();
    let herdr = match (status.herdr, presence.herdr_status()) {
        (FaceStatus::On(pane), Some(herdr)) => Some(herdr_status(pane, herdr)),
        _ => None,
    };
    let collie = match status.collie {
        FaceStatus::On(socket) => Some(CollieStatus { socket: Some(socket), off: None }),
        FaceStatus::Off(why) => Some(CollieStatus { socket: None, off: Some(why) }),
        FaceStatus::Absent => None,
    };
    to_value(&StatusResult { agent: presence.agent().to_owned(), herdr, collie })
}

fn herdr_status(pane: String, status: herdr::Status) -> HerdrStatus {
    let (read_back, shown_instead) = match status.read_back {
        ReadBack::Pending => ("pending", None),
        ReadBack::Agrees => ("agrees", None),
        ReadBack::Unavailable => ("unavailable", None),
        ReadBack::Differs { agent, state } => {
            let agent = agent.unwrap_or_else(|| "nobody".to_owned());
            ("differs", Some(format!("{agent}, {}", state.as_deref().unwrap_or("no state"))))
        }
    };
    let ownership = match status.ownership {
        Ownership::Unchecked => "unchecked",
        Ownership::Ours => "ours",
        Ownership::Foreign { .. } => "foreign",
        Ownership::Unknown => "unknown",
    };
    let transport = status.transport.map(|kind| match kind {
        TransportKind::Socket => "socket",
        TransportKind::Cli => "cli",
    });
    HerdrStatus {
        pane,
        transport: transport.map(str::to_owned),
        version: status.version,
        reported: status.reported.map(|state| match state {
            herdr::State::Idle => StateWord::Idle,
            herdr::State::Working => StateWord::Working,
            herdr::State::Blocked => StateWord::Blocked,
        }),
        settled: status.settled,
        read_back: read_back.to_owned(),
        shown_instead,
        ownership: ownership.to_owned(),
        last_error: status.last_error,
        seq: status.seq,
    }
}

fn ask(request: &Request<'_>, presence: &Presence) -> Result<Asked, ErrorObject> {
    let AskParams { session: id, title, options, timeout_ms } = params(request)?;
    let mut question = session(presence, &id)?.ask(&title);
    for option in options {
        question = question.option(&option.id, &option.label);
    }
    if let Some(milliseconds) = timeout_ms {
        question = question.timeout(Duration::from_millis(milliseconds));
    }
    question.raise().map(Asked::Choice).map_err(|error| ask_error(&error))
}

fn approve(request: &Request<'_>, presence: &Presence) -> Result<Asked, ErrorObject> {
    let ApproveParams { session: id, tool, arguments, timeout_ms } = params(request)?;
    let mut question = session(presence, &id)?.approve(&tool, arguments);
    if let Some(milliseconds) = timeout_ms {
        question = question.timeout(Duration::from_millis(milliseconds));
    }
    question.raise().map(Asked::Approval).map_err(|error| ask_error(&error))
}

fn ask_error(error: &AskError) -> ErrorObject {
    let code = match error {
        AskError::NobodyToAsk { .. } => code::NOBODY_TO_ASK,
        _ => code::INVALID_PARAMS,
    };
    ErrorObject::new(code, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(id: Option<Box<RawValue>>, code: i64) -> String {
        let line = Response::new(id, Err(ErrorObject::new(code, "why"))).line();
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn an_answer_is_one_line_and_names_the_request() {
        let id = RawValue::from_string("\"seven\"".to_owned()).unwrap();
        assert_eq!(
            error(Some(id), code::METHOD_NOT_FOUND),
            "{\"jsonrpc\":\"2.0\",\"id\":\"seven\",\"error\":{\"code\":-32601,\"message\":\"why\"}}\n"
        );
        assert_eq!(
            error(None, code::PARSE_ERROR),
            "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"why\"}}\n"
        );
    }
}
