//! One connection of the link, from its first line to its end.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::messages::{DroppedParams, LinkStatus, WishParams, method};
use super::methods::{self, Asked, Outcome};
use super::protocol::{ErrorObject, LINE_LIMIT, Request, Response, code, notification};
use crate::os::peer::Peer;
use crate::presence::{Block, Inbox, Presence, Session, Wish};

/// How many asks, and how many blocks, may be open on one connection at once.
const REQUESTS_IN_FLIGHT: usize = 256;

/// For how long a reader may leave its answers lying before it is dropped.
const SLOW_READER_LIMIT: Duration = Duration::from_secs(10);

/// What outlives a connection: the sessions that were opened over it, which stay open when it ends, and
/// why it was dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opened(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    sessions: Vec<Session>,
    dropped: Option<LinkStatus>,
}

impl Opened {
    pub(super) fn add(&self, session: Session) {
        let mut kept = lock(&self.0);
        kept.sessions.retain(Session::is_open);
        kept.sessions.push(session);
    }

    fn note_drop(&self, why: &Dropped) {
        let mut kept = lock(&self.0);
        let dropped = kept.dropped.as_ref().map_or(0, |before| before.dropped) + 1;
        kept.dropped = Some(LinkStatus { dropped, reason: why.to_string() });
    }

    /// What became of connections that were dropped, for the status.
    pub(super) fn dropped(&self) -> Option<LinkStatus> {
        lock(&self.0).dropped.clone()
    }
}

/// Wishes that were told to this connection and have no answer yet, by their request ids.
type Wishes = Arc<Mutex<HashMap<String, Wish>>>;

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// A process of the agent.
    OfAgent,
    /// The agent itself: the presence ends with it.
    Agent,
}

/// Serves one connection until it ends. What it still asks then is withdrawn, unless the agent itself has
/// gone, which may come back; and what it was asked is refused: who could answer is gone.
///
/// # Errors
/// Why the connection was dropped, where that was not its client's own doing.
pub(crate) async fn serve(
    stream: UnixStream,
    presence: Presence,
    opened: Opened,
    whom: Served,
) -> Result<(), Dropped> {
    let served = serve_until_end(stream, presence, opened.clone(), whom).await;
    if let Err(dropped) = &served {
        opened.note_drop(dropped);
    }
    served
}

async fn serve_until_end(
    stream: UnixStream,
    presence: Presence,
    opened: Opened,
    whom: Served,
) -> Result<(), Dropped> {
    if !Peer::of(&stream).map_err(Dropped::Unknown)?.is_same_user() {
        return Err(Dropped::OtherUser);
    }
    let (reader, writer) = stream.into_split();
    let (answers, to_write) = mpsc::channel(REQUESTS_IN_FLIGHT);
    let mut connection = Connection {
        presence,
        opened,
        nested: Vec::new(),
        answers,
        wishes: Wishes::default(),
        asks: HashMap::new(),
        blocks: HashMap::new(),
        blocks_given: 0,
        tasks: JoinSet::new(),
    };
    let mut writing = std::pin::pin!(write_answers(writer, to_write));
    tokio::select! {
        () = connection.read(reader) => {}
        ended = &mut writing => return ended,
    }
    if whom == Served::Agent {
        connection.presence.leave();
    }
    // The answers that are there already are written, for a client that said all at once.
    drop(connection);
    writing.await
}

/// Why a connection was dropped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Dropped {
    #[error("another user is refused")]
    OtherUser,
    #[error("the system does not say who connects: {0}")]
    Unknown(#[source] io::Error),
    #[error("nobody read an answer for {} s", SLOW_READER_LIMIT.as_secs())]
    SlowReader,
}

/// What is known of one connection.
pub(super) struct Connection {
    pub(super) presence: Presence,
    pub(super) opened: Opened,
    /// Sessions of agents inside the presence's own, each of which ends with its connection.
    pub(super) nested: Vec<Session>,
    answers: mpsc::Sender<Vec<u8>>,
    wishes: Wishes,
    /// The open asks, by the JSON text of their requests' ids.
    asks: HashMap<String, (Session, String)>,
    /// The reasons to be blocked, which end with the connection.
    blocks: HashMap<u64, Block>,
    blocks_given: u64,
    /// Asks that wait for the user, which give their requests' ids, and subscriptions.
    tasks: JoinSet<Option<String>>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.nested.drain(..).for_each(Session::close);
    }
}

/// What came of reading a line.
enum Line {
    Whole,
    TooLong,
    End,
}

/// Reads one line, without its end.
async fn read_line(reader: &mut BufReader<OwnedReadHalf>, line: &mut Vec<u8>) -> Line {
    let limit = u64::try_from(LINE_LIMIT).unwrap_or(u64::MAX);
    let mut is_first_part = true;
    loop {
        line.clear();
        if reader.take(limit).read_until(b'\n', line).await.is_err() {
            return Line::End;
        }
        match (line.pop_if(|last| *last == b'\n'), is_first_part) {
            (Some(_), true) => return Line::Whole,
            (Some(_), false) => return Line::TooLong,
            (None, _) if line.len() < LINE_LIMIT => return Line::End,
            // The rest of the line is skipped, and the connection lives on.
            (None, _) => is_first_part = false,
        }
    }
}

impl Connection {
    async fn read(&mut self, reader: OwnedReadHalf) {
        let mut reader = BufReader::new(reader);
        let mut line = Vec::new();
        loop {
            let (id, outcome) = match read_line(&mut reader, &mut line).await {
                Line::Whole => self.dispatch(&line),
                Line::TooLong => {
                    let error = format!("the line is longer than {LINE_LIMIT} bytes");
                    (Some(Id::Unreadable), refused(code::INVALID_REQUEST, error))
                }
                // The commands and the link's clients keep both directions open, so the end of one
                // is taken as the end of both.
                Line::End => return,
            };
            while let Some(Ok(ended)) = self.tasks.try_join_next() {
                if let Some(ended) = ended {
                    self.asks.remove(&ended);
                }
            }
            match outcome {
                Outcome::Done(outcome) => {
                    if answer(&self.answers, id, outcome).await.is_none() {
                        return;
                    }
                }
                Outcome::Asked(asked) => self.wait_for_user(id, asked),
                Outcome::Subscribed(inbox) => {
                    if answer(&self.answers, id, Ok(Value::Object(serde_json::Map::new())))
                        .await
                        .is_none()
                    {
                        return;
                    }
                    let wishes = Arc::clone(&self.wishes);
                    self.tasks.spawn(tell_wishes(inbox, self.answers.clone(), wishes));
                }
            }
        }
    }

    fn wait_for_user(&mut self, id: Option<Id>, asked: Asked) {
        let answers = self.answers.clone();
        let key = match &id {
            Some(Id::Given(id)) => Some(id.get().to_owned()),
            _ => None,
        };
        if let Some(key) = &key {
            self.asks.insert(key.clone(), (asked.session.clone(), asked.ask_id()));
        }
        self.tasks.spawn(async move {
            answer(&answers, id, asked.wait().await).await;
            key
        });
    }

    /// Takes a request apart and does it, all but waiting for the user.
    fn dispatch(&mut self, line: &[u8]) -> (Option<Id>, Outcome) {
        // An array would be read as a request by position: batches are not taken.
        if line.trim_ascii_start().first() == Some(&b'[') {
            return (
                Some(Id::Unreadable),
                refused(code::INVALID_REQUEST, "batches are not taken: send one request a line"),
            );
        }
        let request: Request<'_> = match serde_json::from_slice(line) {
            Ok(request) => request,
            Err(error) => {
                let code = if error.is_data() { code::INVALID_REQUEST } else { code::PARSE_ERROR };
                return (Some(Id::Unreadable), refused(code, error.to_string()));
            }
        };
        if request.id.is_some_and(|id| id.get().starts_with(['{', '[', 't', 'f'])) {
            let error = "`id` has to be a string or a number";
            return (Some(Id::Unreadable), refused(code::INVALID_REQUEST, error));
        }
        let id = request.id.map(|id| Id::Given(id.to_owned()));
        if request.jsonrpc != "2.0" {
            return (id, refused(code::INVALID_REQUEST, "`jsonrpc` has to be \"2.0\""));
        }
        let is_ask = matches!(request.method.as_str(), method::ASK | method::APPROVE);
        if is_ask && self.asks.len() >= REQUESTS_IN_FLIGHT {
            let error = format!("more than {REQUESTS_IN_FLIGHT} asks on one connection");
            return (id, refused(code::TOO_MANY_REQUESTS, error));
        }
        (id, methods::run(self, &request).unwrap_or_else(|error| Outcome::Done(Err(error))))
    }

    /// The wish of this request id, to be answered.
    pub(super) fn take_wish(&self, request_id: &str) -> Result<Wish, ErrorObject> {
        lock(&self.wishes).remove(request_id).ok_or_else(|| {
            let error =
                format!("no wish `{request_id}` waits here: it was answered, or time is up");
            ErrorObject::new(code::UNKNOWN_WISH, error)
        })
    }

    /// Keeps a reason to be blocked, and gives its number.
    pub(super) fn keep_block(&mut self, block: Block) -> Result<u64, ErrorObject> {
        if self.blocks.len() >= REQUESTS_IN_FLIGHT {
            let error = format!("more than {REQUESTS_IN_FLIGHT} blocks on one connection");
            return Err(ErrorObject::new(code::TOO_MANY_REQUESTS, error));
        }
        self.blocks_given += 1;
        self.blocks.insert(self.blocks_given, block);
        Ok(self.blocks_given)
    }

    /// The reason of this number, to be dropped.
    pub(super) fn take_block(&mut self, number: u64) -> Result<Block, ErrorObject> {
        self.blocks.remove(&number).ok_or_else(|| {
            ErrorObject::new(code::INVALID_PARAMS, format!("no `block` {number} stands here"))
        })
    }

    /// Closes the card of an ask of this connection.
    pub(super) fn withdraw(&self, request: &RawValue) -> Result<(), ErrorObject> {
        let (session, ask) = self.asks.get(request.get()).ok_or_else(|| {
            let error = format!("no open ask of request {} here", request.get());
            ErrorObject::new(code::INVALID_PARAMS, error)
        })?;
        session.withdraw(ask);
        Ok(())
    }
}

/// Tells this connection what the phone wants. One that gives no answer in time is refused.
async fn tell_wishes(
    inbox: Inbox,
    answers: mpsc::Sender<Vec<u8>>,
    wishes: Wishes,
) -> Option<String> {
    while let Some(wish) = inbox.recv().await {
        let id = wish.request_id().to_owned();
        let params = WishParams::of(&id, wish.session_id(), wish.wanted());
        let line = notification(method::WISH, &params);
        lock(&wishes).insert(id.clone(), wish);
        if answers.send(line).await.is_err() {
            // The connection has ended, and the wish is refused with the others.
            return None;
        }
        let (wishes, patience) = (Arc::downgrade(&wishes), inbox.patience());
        tokio::spawn(async move {
            tokio::time::sleep(patience).await;
            if let Some(wishes) = wishes.upgrade() {
                let late = lock(&wishes).remove(&id);
                if let Some(late) = late {
                    late.refuse("The agent did not take it in time.");
                }
            }
        });
    }
    None
}

/// To whom an answer goes.
enum Id {
    /// To the request of this id.
    Given(Box<RawValue>),
    /// To a request whose id could not be read.
    Unreadable,
}

fn refused(code: i64, message: impl Into<String>) -> Outcome {
    Outcome::Done(Err(ErrorObject::new(code, message)))
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

async fn write_answers(
    mut writer: OwnedWriteHalf,
    mut answers: mpsc::Receiver<Vec<u8>>,
) -> Result<(), Dropped> {
    while let Some(line) = answers.recv().await {
        let mut left = line.as_slice();
        while !left.is_empty() {
            match tokio::time::timeout(SLOW_READER_LIMIT, writer.write(left)).await {
                Ok(Ok(count)) => left = &left[count..],
                // The client went away by itself.
                Ok(Err(_)) => return Ok(()),
                Err(_) => {
                    say_goodbye(&writer, left);
                    return Err(Dropped::SlowReader);
                }
            }
        }
    }
    Ok(())
}

/// Tells a slow reader why it is dropped, if there is room for that behind the line that it left lying:
/// without waiting, and past tokio, which knows only that there was no room.
fn say_goodbye(writer: &OwnedWriteHalf, left: &[u8]) {
    let reason = Dropped::SlowReader.to_string();
    let goodbye = notification(method::DROPPED, &DroppedParams { reason: &reason });
    if let Ok(socket) = writer.as_ref().as_fd().try_clone_to_owned() {
        let mut socket = std::os::unix::net::UnixStream::from(socket);
        let _ = socket.write(&[left, &goodbye].concat());
    }
}

/// The lock's value. None of the critical sections here can leave it half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(id: Option<Box<RawValue>>, code: i64) -> String {
        let line = Response::new(id, Err(ErrorObject::new(code, "why"))).line();
        String::from_utf8(line).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_nothing_is_dropped_and_who_reads_slowly_is_not() {
        let line = || vec![b'x'; 4 << 20];
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (answers, to_write) = mpsc::channel(1);
        answers.send(line()).await.unwrap();
        let begun = tokio::time::Instant::now();
        let dropped = write_answers(ours.into_split().1, to_write).await.unwrap_err();
        assert_eq!(dropped.to_string(), "nobody read an answer for 10 s");
        assert_eq!(begun.elapsed(), SLOW_READER_LIMIT);
        drop(theirs);

        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let (answers, to_write) = mpsc::channel(1);
        answers.send(line()).await.unwrap();
        drop(answers);
        let reading = async {
            let mut read = 0;
            let mut buffer = vec![0; 1 << 20];
            while read < 4 << 20 {
                tokio::time::sleep(SLOW_READER_LIMIT / 2).await;
                read += theirs.read(&mut buffer).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(write_answers(ours.into_split().1, to_write), reading);
        assert!(written.is_ok());
    }

    /// A reader that takes a little, but too little for the system to say that there is room, is told why
    /// it is dropped, after the line that it left lying.
    #[tokio::test(start_paused = true)]
    async fn who_is_dropped_is_told_why_if_there_is_room() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let (answers, to_write) = mpsc::channel(64);
        let writing = tokio::spawn(write_answers(ours.into_split().1, to_write));
        let line = [vec![b'x'; 4095], vec![b'\n']].concat();
        while tokio::time::timeout(Duration::from_secs(1), answers.reserve()).await.is_ok() {
            answers.send(line.clone()).await.unwrap();
        }
        let mut read = vec![0; 16 * 1024];
        theirs.read_exact(&mut read).await.unwrap();
        assert!(matches!(writing.await.unwrap(), Err(Dropped::SlowReader)));
        theirs.read_to_end(&mut read).await.unwrap();
        let text = String::from_utf8(read).unwrap();
        let mut lines = text.lines().rev();
        let goodbye: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
        assert_eq!(goodbye["method"], "dropped");
        assert_eq!(goodbye["params"]["reason"], "nobody read an answer for 10 s");
        assert!(lines.all(|line| line.len() == 4095), "whole lines before it");
    }

    /// Why a connection was dropped is in the status, for who asks on another one.
    #[tokio::test(start_paused = true)]
    async fn the_status_tells_of_a_connection_that_was_dropped() {
        let presence = Presence::builder("toy").without_collie().without_herdr().start().unwrap();
        let opened = Opened::default();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let serving = tokio::spawn(serve(ours, presence.clone(), opened.clone(), Served::OfAgent));
        // Its answers are as long as the requests' ids, and nobody reads them.
        let id = "x".repeat(10_000);
        let request = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{id}\",\"method\":\"status\"}}\n");
        let begun = tokio::time::Instant::now();
        while theirs.write_all(request.as_bytes()).await.is_ok() {}
        assert!(matches!(serving.await.unwrap(), Err(Dropped::SlowReader)));
        assert_eq!(begun.elapsed(), SLOW_READER_LIMIT);

        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let serving = tokio::spawn(serve(ours, presence, opened, Served::OfAgent));
        theirs.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\"}\n").await.unwrap();
        let mut answer = String::new();
        BufReader::new(&mut theirs).read_line(&mut answer).await.unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let link = serde_json::json!({"dropped": 1, "reason": "nobody read an answer for 10 s"});
        assert_eq!(answer["result"]["link"], link);
        drop(theirs);
        assert!(serving.await.unwrap().is_ok());
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
