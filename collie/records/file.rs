//! Records in a folder.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::writer::{Entry, GRACE, Index, Line, Note, Taken, Writer};
use super::{ChatRecord, PaneRecord, chat};
use crate::collie::core::Json;
use crate::collie::history::{History, HistoryPage, part};
use crate::collie::hooks::HookError;
use crate::collie::id::digest_hex;
use crate::collie::log::Log;
use crate::collie::receipts::FileReceipts;
use crate::collie::time::from_iso;
use crate::collie::trouble::Trouble;
use crate::collie::wire::{HistoryItems, HistoryRow, HistoryRows, Item};
use crate::os::kept_file::private_folder;

/// How many conversations are kept, and for how long after their last word.
const CONVERSATIONS: usize = 500;
const AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How much of all chats is kept.
const CHAT_BYTES: u64 = 256 * 1024 * 1024;
/// How much may wait for a slow disk.
const WAITING: usize = 64 * 1024 * 1024;
/// How long the end waits for the last words to be written.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// How long a read of the history waits for what was said before it to be written.
const FLUSH: Duration = Duration::from_secs(2);

/// What outlives the process: conversations with the newest 2,000 items of their chats, open asks,
/// answers, receipts, and texts that were accepted and not yet taken. Clones are the same records.
///
/// A folder of its own holds three kinds of append-only JSON lines with checksums: `receipts`, which
/// are synced before an action is answered; `panes`, what is open; and a file for each chat in `chat`.
/// The last two are written by a thread, and never waited for. A torn end is cut off, a damaged line
/// left out. Conversations go 30 days after their last word, or when there are more than 500 of them,
/// or 256 MiB of chats.
///
/// A disk that fails later degrades to memory: one warning is logged, and [`trouble`](Self::trouble)
/// says it.
#[derive(Clone)]
pub struct FileRecords {
    folder: Arc<Path>,
    receipts: Arc<FileReceipts>,
    index: Arc<Mutex<Index>>,
    thread: Arc<Thread>,
    waiting: Arc<AtomicUsize>,
    trouble: Trouble,
}

/// The thread that writes.
struct Thread {
    /// None only while this is dropped.
    notes: Option<Sender<Note>>,
    done: Mutex<Receiver<()>>,
}

impl Thread {
    fn note(&self, note: Note) -> bool {
        self.notes.as_ref().is_some_and(|notes| notes.send(note).is_ok())
    }
}

impl Drop for Thread {
    /// The last handle is gone: what was noted is written, and the files are let go of.
    fn drop(&mut self) {
        drop(self.notes.take());
        let done = self.done.get_mut().unwrap_or_else(PoisonError::into_inner);
        // A disk that hangs must hold up nobody.
        let _ = done.recv_timeout(LAST_WORDS);
    }
}

impl fmt::Debug for FileRecords {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FileRecords").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl FileRecords {
    /// Opens the records in `folder`, which is made (0700) and is theirs alone. One process at a time.
    /// Chats are not read here, so that a start does not wait for them.
    ///
    /// # Errors
    /// The folder or a file is not private, another process has them ([`io::ErrorKind::WouldBlock`]),
    /// they are of a later version, or the system refuses: a read-only or full disk, for one.
    pub fn open(folder: &Path) -> io::Result<Self> {
        private_folder(folder)?;
        let trouble = Trouble::new(folder);
        // The first lock: who has it has them all.
        let receipts =
            FileReceipts::open_in_folder(&folder.join("receipts"), Some(trouble.clone()))?;
        let chat_folder = folder.join("chat");
        private_folder(&chat_folder)?;
        let mut index = Index::new();
        let panes = Log::open(&folder.join("panes"), "panes", |record| {
            let Ok(Line::Pane(record)) = serde_json::from_slice(record) else {
                return false;
            };
            let is_uncounted = record.is_open;
            index.insert(record.session_id.clone(), Entry { record, is_uncounted });
            true
        })?;
        for entry in index.values_mut() {
            entry.record.is_open = false;
        }
        for pane_id in forget(&mut index, &chat_folder, SystemTime::now()) {
            receipts.forget_pane(&pane_id)?;
        }
        let index = Arc::new(Mutex::new(index));
        let receipts = Arc::new(receipts);
        let waiting = Arc::new(AtomicUsize::new(0));
        let writer = Writer {
            panes,
            index: index.clone(),
            chat_folder,
            receipts: receipts.clone(),
            trouble: trouble.clone(),
            waiting: waiting.clone(),
            failed_at: None,
            chats: HashMap::new(),
            partials: HashMap::new(),
            partials_due: None,
            taken: Vec::new(),
        };
        let (notes, received) = mpsc::channel();
        let (tell, done) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("records".to_owned());
        thread.spawn(move || {
            writer.run(&received);
            let _ = tell.send(());
        })?;
        let thread = Arc::new(Thread { notes: Some(notes), done: Mutex::new(done) });
        Ok(Self { folder: folder.into(), receipts, index, thread, waiting, trouble })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What went wrong with the disk first, if anything did: what changed since then is in memory only,
    /// unless the disk has recovered.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.first()
    }

    /// Waits until everything that was noted is written, for `limit` at most; whether it is. Not
    /// synced: it survives the process, not a power cut.
    pub fn flush(&self, limit: Duration) -> bool {
        let (done, written) = mpsc::sync_channel(1);
        self.thread.note(Note::Flush(done)) && written.recv_timeout(limit).is_ok()
    }

    pub(crate) fn receipts(&self) -> Arc<FileReceipts> {
        self.receipts.clone()
    }

    /// What is known of a conversation from before.
    pub(crate) fn pane(&self, session_id: &str) -> Option<PaneRecord> {
        Some(lock(&self.index).get(session_id)?.record.clone())
    }

    /// Notes what is true of a conversation now.
    pub(crate) fn put_pane(&self, record: PaneRecord) {
        {
            let entry = Entry { record: record.clone(), is_uncounted: true };
            lock(&self.index).insert(record.session_id.clone(), entry);
        }
        self.note(Note::Pane(record));
    }

    /// Notes an item of a chat, new or rewritten.
    pub(crate) fn put_item(&self, session_id: &str, id: &str, item: Json, partial: bool) {
        let size = item.raw().get().len();
        if self.waiting.fetch_add(size, Ordering::Relaxed) > WAITING {
            self.waiting.fetch_sub(size, Ordering::Relaxed);
            return self.trouble.tell(&io::Error::other("the disk is too slow for the chat"));
        }
        let (session_id, id) = (session_id.into(), id.to_owned());
        self.note(Note::Item { session_id, id, item, partial });
    }

    /// Notes that the agent has the answer to an ask.
    pub(crate) fn taken(&self, pane_id: &str, ask_id: &str) {
        self.taken_after(pane_id, ask_id, GRACE);
    }

    /// Notes that the answer to an ask, if there is one, is for no ask that is raised later.
    pub(crate) fn is_over(&self, pane_id: &str, ask_id: &str) {
        self.taken_after(pane_id, ask_id, Duration::ZERO);
    }

    fn taken_after(&self, pane_id: &str, ask_id: &str, after: Duration) {
        if let Some(number) = self.receipts.untaken_number(pane_id, ask_id) {
            let (pane_id, ask_id) = (pane_id.to_owned(), ask_id.to_owned());
            let at = Instant::now() + after;
            self.note(Note::Taken(Taken { pane_id, ask_id, number, at }));
        }
    }

    /// Notes a change of a receipt that need not be durable.
    pub(crate) fn later(
        &self,
        change: impl FnOnce(&FileReceipts) -> io::Result<()> + Send + 'static,
    ) {
        self.note(Note::Receipt(Box::new(change)));
    }

    fn note(&self, note: Note) {
        if !self.thread.note(note) {
            self.trouble.tell(&io::Error::other("the thread that writes has ended"));
        }
    }

    /// The chat of a conversation, as far as it is written. Blocks. Every text is final, since who wrote
    /// it is gone.
    pub(crate) fn chat(&self, session_id: &str) -> io::Result<ChatRecord> {
        let mut record = chat::read(&chat_path(&self.folder.join("chat"), session_id))?;
        for (_, item) in &mut record.items {
            if item.raw().get().contains(r#""partial":true"#)
                && let Ok(growing) = serde_json::from_str::<Item>(item.raw().get())
            {
                *item = Json::of(&growing.with_partial(false));
            }
        }
        Ok(record)
    }

    /// Conversations, the oldest first, with their items counted. Blocks.
    fn all_rows(&self) -> Vec<HistoryRow> {
        self.flush(FLUSH);
        let uncounted: Vec<String> = lock(&self.index)
            .values()
            .filter(|entry| entry.is_uncounted)
            .map(|entry| entry.record.session_id.clone())
            .collect();
        for session_id in uncounted {
            let counted = chat::count(&chat_path(&self.folder.join("chat"), &session_id));
            if let (Ok(items), Some(entry)) = (counted, lock(&self.index).get_mut(&session_id)) {
                entry.record.items = items;
            }
        }
        let index = lock(&self.index);
        let mut rows: Vec<HistoryRow> = index.values().map(|entry| entry.record.row()).collect();
        drop(index);
        rows.sort_by(|one, other| (&one.started_at, &one.id).cmp(&(&other.started_at, &other.id)));
        rows
    }

    /// Items of a conversation, the oldest first. Blocks.
    fn all_items(&self, session_id: &str) -> io::Result<Option<Vec<Item>>> {
        let Some(record) = self.pane(session_id) else {
            return Ok(None);
        };
        self.flush(FLUSH);
        let chat = if record.is_open {
            chat::read(&chat_path(&self.folder.join("chat"), session_id))?
        } else {
            self.chat(session_id)?
        };
        let items = chat.items.iter();
        Ok(Some(
            items.filter_map(|(_, item)| serde_json::from_str(item.raw().get()).ok()).collect(),
        ))
    }
}

impl History for FileRecords {
    async fn rows(&self, page: HistoryPage) -> Result<HistoryRows, HookError> {
        let records = self.clone();
        let rows = tokio::task::spawn_blocking(move || records.all_rows());
        let (rows, next) = part(&rows.await.map_err(HookError::failed)?, &page);
        Ok(HistoryRows { rows, next })
    }

    async fn items(
        &self,
        session_id: String,
        page: HistoryPage,
    ) -> Result<Option<HistoryItems>, HookError> {
        let records = self.clone();
        let items = tokio::task::spawn_blocking(move || records.all_items(&session_id));
        let items = items.await.map_err(HookError::failed)?.map_err(HookError::failed)?;
        Ok(items.map(|items| {
            let (items, next) = part(&items, &page);
            HistoryItems { items, next }
        }))
    }
}

pub(super) fn chat_path(folder: &Path, session_id: &str) -> PathBuf {
    // An id may hold what a file name may not, and be longer.
    folder.join(digest_hex(&[session_id.as_bytes()]))
}

fn lock(index: &Mutex<Index>) -> MutexGuard<'_, Index> {
    index.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets go of what is too old, and of the oldest of what is too much. Gives the panes that nobody knows any
/// more.
fn forget(index: &mut Index, chat_folder: &Path, now: SystemTime) -> HashSet<String> {
    let age = |at: SystemTime| now.duration_since(at).unwrap_or_default();
    let mut found: Vec<(SystemTime, u64, String)> = index
        .values()
        .map(|Entry { record, .. }| {
            let file = fs::symlink_metadata(chat_path(chat_folder, &record.session_id));
            let said = file.as_ref().ok().and_then(|file| file.modified().ok());
            let noted = record.ended_at.as_ref().unwrap_or(&record.started_at);
            let last = said.max(from_iso(noted)).unwrap_or(SystemTime::UNIX_EPOCH);
            (last, file.map_or(0, |file| file.len()), record.session_id.clone())
        })
        .collect();
    found.sort_by_key(|found| Reverse(found.0));
    let mut bytes = 0;
    let mut forgotten = HashSet::new();
    for (place, (last, size, session_id)) in found.into_iter().enumerate() {
        bytes += size;
        if place >= CONVERSATIONS || bytes > CHAT_BYTES || age(last) > AGE {
            forgotten.extend(index.remove(&session_id).map(|entry| entry.record.pane_id));
            remove(&chat_path(chat_folder, &session_id));
        }
    }
    // A chat whose conversation is not known, because its line was damaged, goes by its age alone.
    let known: HashSet<PathBuf> =
        index.keys().map(|session_id| chat_path(chat_folder, session_id)).collect();
    for file in chat_folder.read_dir().into_iter().flatten().flatten() {
        let path = file.path();
        let said = || file.metadata().and_then(|file| file.modified()).ok();
        if !known.contains(&path) && said().is_some_and(|said| age(said) > AGE) {
            remove(&path);
        }
    }
    for entry in index.values() {
        forgotten.remove(&entry.record.pane_id);
    }
    forgotten
}

fn remove(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::debug!(%error, path = %path.display(), "an old chat stays");
        }
        _ => {}
    }
}
