//! One durable agent, followed by a thread of its own: a stopped agent must not stop the screen.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use super::chat::Chat;
use crate::collie::wire::{Hello, HistoryRow, PaneView};
use crate::collie::{AnswerValue, Client, ClientError};
use crate::os::random;

/// How often the agent is polled. Collie itself takes 2 s; here somebody looks.
const POLL_EVERY: Duration = Duration::from_millis(250);

/// How much of a history is read at once: all that may be.
const PART: usize = 200;

/// How many parts of the list of conversations are read at most.
const PARTS: usize = 10;

/// What the person here wants of an agent.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Act {
    /// An answer, to the very card that was seen.
    Answer { pane: String, ask: String, hash: String, value: AnswerValue },
    /// Text for the next turn, or into the running one.
    Send { pane: String, text: String, steer: bool },
    /// The running turn is to stop.
    Stop { pane: String },
    /// The past conversations are to be listed.
    List,
    /// One of them is to be read.
    Read { session: String },
    /// Older items are to be read: of a pane, or of the past conversation that is read.
    Older { pane: Option<String>, session: String },
    /// A past conversation is to go on.
    Reopen { session: String },
}

/// What is known of an agent.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) hello: Option<Hello>,
    pub(super) panes: Vec<PaneView>,
    pub(super) chats: HashMap<String, Arc<Chat>>,
    /// The conversations of its history, open ones too, as they were when they were listed.
    pub(super) conversations: Vec<HistoryRow>,
    /// The one that is read, and its session's id.
    pub(super) read: Option<(String, Arc<Chat>)>,
    /// Why nothing newer is known.
    pub(super) trouble: Option<String>,
    /// What came of the last act.
    pub(super) outcome: Option<String>,
}

/// An agent that is followed until this is dropped.
#[derive(Debug)]
pub(super) struct Feed {
    socket: PathBuf,
    acts: Sender<Act>,
    news: Receiver<Snapshot>,
    newest: Snapshot,
}

impl Feed {
    pub(super) fn start(socket: PathBuf) -> io::Result<Self> {
        let (acts, to_do) = mpsc::channel();
        let (tell, news) = mpsc::channel();
        let mut follower = Follower::new(&socket);
        thread::Builder::new()
            .name("watch".to_owned())
            .spawn(move || follower.follow(&to_do, &tell))?;
        Ok(Self { socket, acts, news, newest: Snapshot::default() })
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(super) fn newest(&self) -> &Snapshot {
        &self.newest
    }

    /// Takes in what came; whether anything did.
    pub(super) fn catch_up(&mut self) -> bool {
        let newest = self.news.try_iter().last();
        let came = newest.is_some();
        if let Some(newest) = newest {
            self.newest = newest;
        }
        came
    }

    pub(super) fn act(&self, act: Act) {
        // The thread ends only with this feed.
        let _ = self.acts.send(act);
    }
}

struct Follower {
    client: Client,
    etag: Option<String>,
    known: Snapshot,
}

impl Follower {
    fn new(socket: &Path) -> Self {
        Self { client: Client::new(socket), etag: None, known: Snapshot::default() }
    }

    fn follow(&mut self, acts: &Receiver<Act>, tell: &Sender<Snapshot>) {
        loop {
            let changed = match self.poll() {
                Ok(changed) => changed,
                Err(error) => {
                    let trouble = Some(error.to_string());
                    let changed = self.known.trouble != trouble;
                    self.known = Snapshot { trouble, ..Snapshot::default() };
                    self.etag = None;
                    changed
                }
            };
            if changed && tell.send(self.known.clone()).is_err() {
                return;
            }
            match acts.recv_timeout(POLL_EVERY) {
                Ok(act) => {
                    self.known.outcome = self.act(&act);
                    if tell.send(self.known.clone()).is_err() {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Brings what is known up to date; whether anything changed.
    fn poll(&mut self) -> Result<bool, ClientError> {
        let Some((etag, state)) = self.client.state(self.etag.as_deref())? else {
            return Ok(false);
        };
        if self.known.hello.as_ref().is_none_or(|hello| hello.instance != state.instance) {
            self.known.hello = Some(self.client.hello()?);
            self.known.chats.clear();
        }
        self.known.chats.retain(|id, _| state.panes.iter().any(|pane| pane.id == *id));
        for pane in &state.panes {
            let chat = self.known.chats.entry(pane.id.clone()).or_default();
            if chat.cursor() == Some(pane.cursor.as_str()) {
                continue;
            }
            let chat = Arc::make_mut(chat);
            while chat.cursor() != Some(pane.cursor.as_str()) {
                let events = self.client.events(&pane.id, chat.cursor())?;
                let more = events.more == Some(true);
                chat.take_in(events);
                if !more {
                    break;
                }
            }
        }
        self.known.panes = state.panes;
        self.known.trouble = None;
        self.etag = Some(etag);
        Ok(true)
    }

    fn list(&mut self) -> Result<(), ClientError> {
        let (mut rows, mut after) = (Vec::new(), None);
        for _ in 0..PARTS {
            let part = self.client.history(after.as_deref(), PART)?;
            rows.extend(part.rows);
            after = part.next;
            if after.is_none() {
                break;
            }
        }
        self.known.conversations = rows;
        Ok(())
    }

    fn read_older(&mut self, pane: Option<&str>, session: &str) -> Result<(), ClientError> {
        let chat = match pane {
            Some(pane) => self.known.chats.get_mut(pane),
            None => {
                self.known.read.as_mut().filter(|read| read.0 == session).map(|read| &mut read.1)
            }
        };
        let Some(chat) = chat else { return Ok(()) };
        let client = &mut self.client;
        Arc::make_mut(chat).read_older(|after| client.history_items(session, after, PART))
    }

    /// Does something; what came of it, in words, where the screen does not show it.
    fn act(&mut self, act: &Act) -> Option<String> {
        let Ok(request_id) = random::hex(16) else {
            return Some("nothing was done: the system gives no randomness".to_owned());
        };
        Some(match act {
            Act::List => return trouble(self.list()),
            Act::Read { session } => {
                self.known.read = Some((session.clone(), Arc::default()));
                return trouble(self.read_older(None, session));
            }
            Act::Older { pane, session } => {
                return trouble(self.read_older(pane.as_deref(), session));
            }
            Act::Answer { pane, ask, hash, value } => {
                match self.client.answer(pane, ask, value, Some(hash), &request_id) {
                    Ok(_) => format!("answered: {}", words(value)),
                    Err(error) => format!("not answered: {}", reason(&error)),
                }
            }
            Act::Send { pane, text, steer } => {
                match self.client.send(pane, text, None, *steer, &request_id) {
                    Ok(written) if written.queued == Some(true) => {
                        "sent: it waits for the end of the turn".to_owned()
                    }
                    Ok(_) => "sent".to_owned(),
                    Err(error) => format!("not sent: {}", reason(&error)),
                }
            }
            Act::Stop { pane } => match self.client.stop(pane, None, &request_id) {
                Ok(_) => "stopped".to_owned(),
                Err(error) => format!("not stopped: {}", reason(&error)),
            },
            Act::Reopen { session } => match self.client.reopen(session, &request_id) {
                Ok(_) => "it goes on".to_owned(),
                Err(error) => format!("not reopened: {}", reason(&error)),
            },
        })
    }
}

/// Why the history was not read, if it was not.
fn trouble(read: Result<(), ClientError>) -> Option<String> {
    read.err().map(|error| format!("not read: {}", reason(&error)))
}

/// The agent's own reason, where it gave one.
fn reason(error: &ClientError) -> String {
    match error {
        ClientError::Refused(view) => match view.body["reason"].as_str() {
            Some(reason) => reason.to_owned(),
            None => error.to_string(),
        },
        _ => error.to_string(),
    }
}

fn words(value: &AnswerValue) -> String {
    match value {
        AnswerValue::Options(ids) => ids.join(", "),
        AnswerValue::Text(text) => text.clone(),
        AnswerValue::Values(_) => "the form".to_owned(),
    }
}
