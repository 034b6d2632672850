//! One durable agent, followed by a thread of its own: a stopped agent must not stop the screen.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use super::chat::Chat;
use crate::collie::wire::{Hello, PaneView};
use crate::collie::{AnswerValue, Client, ClientError};
use crate::os::random;

/// How often the agent is polled. Collie itself takes 2 s; here somebody looks.
const POLL_EVERY: Duration = Duration::from_millis(250);

/// An answer to give, to the very card that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) pane: String,
    pub(super) ask: String,
    pub(super) hash: String,
    pub(super) option: String,
}

/// What is known of an agent.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) hello: Option<Hello>,
    pub(super) panes: Vec<PaneView>,
    pub(super) chats: HashMap<String, Chat>,
    /// Why nothing newer is known.
    pub(super) trouble: Option<String>,
    /// What came of the last answer.
    pub(super) outcome: Option<String>,
}

/// An agent that is followed until this is dropped.
#[derive(Debug)]
pub(super) struct Feed {
    socket: PathBuf,
    answers: Sender<Answer>,
    news: Receiver<Snapshot>,
    newest: Snapshot,
}

impl Feed {
    pub(super) fn start(socket: PathBuf) -> io::Result<Self> {
        let (answers, to_give) = mpsc::channel();
        let (tell, news) = mpsc::channel();
        let mut follower = Follower::new(&socket);
        thread::Builder::new()
            .name("watch".to_owned())
            .spawn(move || follower.follow(&to_give, &tell))?;
        Ok(Self { socket, answers, news, newest: Snapshot::default() })
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

    pub(super) fn answer(&self, answer: Answer) {
        // The thread ends only with this feed.
        let _ = self.answers.send(answer);
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

    fn follow(&mut self, answers: &Receiver<Answer>, tell: &Sender<Snapshot>) {
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
            match answers.recv_timeout(POLL_EVERY) {
                Ok(answer) => {
                    self.known.outcome = Some(self.give(&answer));
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

    /// Gives an answer; what came of it, in words.
    fn give(&mut self, answer: &Answer) -> String {
        let Ok(request_id) = random::hex(16) else {
            return "no answer was given: the system gives no randomness".to_owned();
        };
        let value = AnswerValue::Options(vec![answer.option.clone()]);
        let hash = Some(answer.hash.as_str());
        match self.client.answer(&answer.pane, &answer.ask, &value, hash, &request_id) {
            Ok(_) => format!("answered: {}", answer.option),
            Err(error) => format!("not answered: {error}"),
        }
    }
}
