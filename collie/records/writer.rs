//! The thread that writes what nobody waits for: who notes something may hold the core's lock, and may
//! be the agent.

use std::collections::{HashMap, hash_map};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::PaneRecord;
use super::chat::Chat;
use crate::collie::core::Json;
use crate::collie::log::Log;
use crate::collie::receipts::FileReceipts;
use crate::collie::trouble::Trouble;

/// How often a text that grows is written.
const PARTIAL_PAUSE: Duration = Duration::from_secs(1);
/// How long the agent has an answer before it counts as taken. Between its having the answer and its
/// having noted what it did with it, it may end: then it asks again, and is to have it again.
pub(super) const GRACE: Duration = Duration::from_secs(2);
/// How often a disk that has failed is tried again.
const RETRY: Duration = Duration::from_secs(10);

/// Something to be written.
pub(super) enum Note {
    Pane(PaneRecord),
    Item {
        session_id: Arc<str>,
        id: String,
        item: Json,
        /// Its text still grows.
        partial: bool,
    },
    /// The agent has an answer.
    Taken(Taken),
    /// A change of a receipt that need not be durable.
    Receipt(ReceiptChange),
    /// Tells when everything before it is written.
    Flush(SyncSender<()>),
}

pub(super) type ReceiptChange = Box<dyn FnOnce(&FileReceipts) -> io::Result<()> + Send>;

/// An answer to an ask of a pane, by its number, and when it counts as taken.
pub(super) struct Taken {
    pub(super) pane_id: String,
    pub(super) ask_id: String,
    pub(super) number: u64,
    pub(super) at: Instant,
}

/// A line of the log of conversations.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Line {
    Pane(PaneRecord),
}

/// What is known of the conversations, by session.
pub(super) type Index = HashMap<String, Entry>;

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) record: PaneRecord,
    /// It is open, or was when the process ended: its items are to be counted.
    pub(super) is_uncounted: bool,
}

pub(super) struct Writer {
    pub(super) panes: Log,
    pub(super) index: Arc<Mutex<Index>>,
    pub(super) chat_folder: PathBuf,
    pub(super) receipts: Arc<FileReceipts>,
    pub(super) trouble: Trouble,
    /// How many bytes of items wait to be written.
    pub(super) waiting: Arc<AtomicUsize>,
    /// The log of conversations lacks what was said since then.
    pub(super) failed_at: Option<Instant>,
    pub(super) chats: HashMap<Arc<str>, Chat>,
    /// The newest text of each item that grows.
    pub(super) partials: HashMap<(Arc<str>, String), Json>,
    pub(super) partials_due: Option<Instant>,
    /// Answers that the agent has had since a moment ago.
    pub(super) taken: Vec<Taken>,
}

impl Writer {
    /// Writes until nobody can note anything any more.
    pub(super) fn run(mut self, notes: &Receiver<Note>) {
        self.tidy();
        loop {
            let due = self.partials_due.into_iter().chain(self.taken.iter().map(|taken| taken.at));
            let next = match due.min() {
                None => notes.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => notes.recv_timeout(at.saturating_duration_since(Instant::now())),
            };
            match next {
                Ok(note) => self.write(note),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.write_due(Instant::now());
        }
        // What was taken a moment ago is not noted: the agent may not have come to use it.
        self.write_partials();
    }

    /// Here, and not while the records are opened, which the start waits for.
    fn tidy(&mut self) {
        self.told(self.receipts.tidy());
        let index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        if self.panes.is_wasteful(index.len()) {
            let all = index.values().map(|entry| Line::Pane(entry.record.clone()));
            let written = self.panes.rewrite(all);
            drop(index);
            self.told(written);
        }
    }

    fn write_due(&mut self, now: Instant) {
        if self.partials_due.is_some_and(|at| at <= now) {
            self.write_partials();
        }
        let (due, not_yet): (Vec<Taken>, _) =
            std::mem::take(&mut self.taken).into_iter().partition(|taken| taken.at <= now);
        self.taken = not_yet;
        for Taken { pane_id, ask_id, number, .. } in due {
            self.told(self.receipts.taken_if(&pane_id, &ask_id, number));
        }
    }

    fn write(&mut self, note: Note) {
        match note {
            Note::Pane(record) => self.pane(record),
            Note::Item { session_id, id, item, partial } => {
                self.waiting.fetch_sub(item.raw().get().len(), Ordering::Relaxed);
                if partial {
                    self.partials.insert((session_id, id), item);
                    self.partials_due.get_or_insert_with(|| Instant::now() + PARTIAL_PAUSE);
                } else {
                    let key = (session_id, id);
                    self.partials.remove(&key);
                    self.item(&key.0, &item);
                }
            }
            Note::Taken(taken) => self.taken.push(taken),
            Note::Receipt(change) => self.told(change(&self.receipts)),
            Note::Flush(done) => {
                self.write_partials();
                // Who waited may have given up.
                let _ = done.send(());
            }
        }
    }

    fn write_partials(&mut self) {
        self.partials_due = None;
        for ((session_id, _), item) in std::mem::take(&mut self.partials) {
            self.item(&session_id, &item);
        }
    }

    fn item(&mut self, session_id: &Arc<str>, item: &Json) {
        let written = self.append_item(session_id, item);
        self.told(written);
    }

    fn append_item(&mut self, session_id: &Arc<str>, item: &Json) -> io::Result<()> {
        let chat = match self.chats.entry(session_id.clone()) {
            hash_map::Entry::Occupied(open) => open.into_mut(),
            hash_map::Entry::Vacant(place) => {
                let path = super::file::chat_path(&self.chat_folder, session_id);
                place.insert(Chat::open(&path)?)
            }
        };
        chat.append(item)
    }

    fn pane(&mut self, mut record: PaneRecord) {
        let mut counted = None;
        if !record.is_open {
            self.write_partials();
            // It is opened again if more is said.
            self.chats.remove(record.session_id.as_str());
            let path = super::file::chat_path(&self.chat_folder, &record.session_id);
            counted = super::chat::count(&path).ok();
        }
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(items), Some(entry)) = (counted, index.get_mut(&record.session_id)) {
            record.items = items;
            entry.record.items = items;
            // Unless it was opened again meanwhile.
            entry.is_uncounted = entry.record.is_open;
        }
        let all = || index.values().map(|entry| Line::Pane(entry.record.clone()));
        let written = match self.failed_at {
            Some(at) if at.elapsed() < RETRY => Ok(()),
            Some(_) => {
                self.failed_at = None;
                self.panes.rewrite(all())
            }
            None if self.panes.is_wasteful(index.len()) => self.panes.rewrite(all()),
            None => self.panes.append(&Line::Pane(record), false),
        };
        drop(index);
        if written.is_err() {
            self.failed_at = Some(Instant::now());
        }
        self.told(written);
    }

    fn told(&self, written: io::Result<()>) {
        if let Err(error) = written {
            self.trouble.tell(&error);
        }
    }
}
