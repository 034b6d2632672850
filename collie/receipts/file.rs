//! Receipts on disk: JSON lines, synced before an answer leaves.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::memory::Index;
use super::{Lookup, Receipt, ReceiptGroup, ReceiptStore, StoredAnswer, StoredSend};
use crate::collie::log::Log;
use crate::collie::trouble::Trouble;
use crate::os::private::private_folder;

/// How often a disk that has failed is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// How many accepted texts wait at most; the oldest go first.
const SENDS_LIMIT: usize = 1000;
/// How many lines are appended between two looks at whether most of them are of no use any more.
const LOOK_EVERY: usize = 1024;

/// Receipts in an append-only file of JSON lines, mode 0600, in a private folder.
///
/// A receipt is on the disk (`fdatasync`) before the answer leaves. An action says that it begins
/// before it runs, so that none runs twice: one that had begun when the process ended is answered
/// `receipt-dropped` afterwards. A line that a crash has torn is cut off at the next start, and one
/// that the disk has damaged is left out.
///
/// So a send waits for the disk twice, and an answer, whose receipt is what makes it happen, once.
/// Neither wait can go: without the first an action runs twice after a power cut, without the second
/// the first answer to it is lost. Space that is reserved ahead would make both a quarter shorter,
/// but then the disk may write the end of a line before its beginning, and a torn line is no longer
/// told from a broken one.
#[derive(Debug)]
pub struct FileReceipts {
    disk: Mutex<Disk>,
    known: Mutex<Known>,
    /// Who is told that the disk fails. None: whoever wants to write is.
    trouble: Option<Trouble>,
}

#[derive(Debug)]
struct Disk {
    log: Log,
    /// The log lacks what was said since then.
    failed_at: Option<Instant>,
}

#[derive(Debug, Default)]
struct Known {
    index: Index,
    /// Begun, and neither kept nor abandoned.
    begun: HashSet<String>,
    /// By pane and ask, each with a number of its own.
    untaken: HashMap<(String, String), (u64, StoredAnswer)>,
    answers: u64,
    /// Accepted texts that are not in the chat, the oldest first, and whether the agent was being
    /// given each.
    sends: Vec<(StoredSend, bool)>,
}

/// One line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Begin(String),
    Put(Receipt),
    Abandon(String),
    Taken(String, String),
    /// The agent is being given a text.
    Giving(String),
    /// A text is in the chat, or was refused there.
    Delivered(String),
    /// A pane's receipts are dropped.
    Forgotten(String),
    /// Written by a rewrite only: digests of the dropped ids.
    Dropped(Vec<u64>),
    /// Written by a rewrite only: an answer that waits, and whose receipt was dropped.
    Untaken(StoredAnswer),
    /// Written by a rewrite only: a text that waits, and whether the agent was being given it.
    Undelivered(StoredSend, bool),
}

impl Known {
    fn apply(&mut self, line: Line) {
        match line {
            Line::Begin(id) => {
                self.begun.insert(id);
            }
            Line::Abandon(id) => {
                self.begun.remove(&id);
            }
            Line::Put(receipt) => {
                self.begun.remove(&receipt.request_id);
                if let Some(answer) = &receipt.answer {
                    self.wait(answer.clone());
                }
                if let Some(send) = &receipt.send {
                    self.send(send.clone(), false);
                }
                self.index.put(receipt);
            }
            Line::Taken(pane, ask) => {
                self.untaken.remove(&(pane, ask));
            }
            Line::Giving(id) => {
                if let Some((_, given)) = self.send_mut(&id) {
                    *given = true;
                }
            }
            Line::Delivered(id) => self.sends.retain(|(send, _)| send.request_id != id),
            Line::Forgotten(pane) => self.index.drop_group(&ReceiptGroup::Pane(pane)),
            Line::Dropped(digests) => self.index.drop_digests(digests),
            Line::Untaken(answer) => self.wait(answer),
            Line::Undelivered(send, given) => self.send(send, given),
        }
    }

    fn send_mut(&mut self, request_id: &str) -> Option<&mut (StoredSend, bool)> {
        self.sends.iter_mut().find(|(send, _)| send.request_id == request_id)
    }

    fn send(&mut self, send: StoredSend, given: bool) {
        self.sends.retain(|(known, _)| known.request_id != send.request_id);
        self.sends.push((send, given));
        if self.sends.len() > SENDS_LIMIT {
            self.sends.remove(0);
        }
    }

    fn wait(&mut self, answer: StoredAnswer) {
        self.answers += 1;
        let key = (answer.pane_id.clone(), answer.ask_id.clone());
        self.untaken.insert(key, (self.answers, answer));
    }

    /// What is known, in as few lines as say it.
    fn lines(&self) -> Vec<Line> {
        let mut lines = vec![Line::Dropped(self.index.dropped_digests())];
        for receipt in self.index.oldest_first() {
            let receipt = Receipt { send: None, ..receipt.clone() };
            lines.push(Line::Put(receipt));
        }
        // After the receipts, which have brought back answers that were taken.
        for answer in self.index.oldest_first().filter_map(|receipt| receipt.answer.as_ref()) {
            let key = (answer.pane_id.clone(), answer.ask_id.clone());
            if !self.untaken.contains_key(&key) {
                lines.push(Line::Taken(key.0, key.1));
            }
        }
        lines.extend(self.untaken.values().map(|(_, answer)| Line::Untaken(answer.clone())));
        lines
            .extend(self.sends.iter().cloned().map(|(send, given)| Line::Undelivered(send, given)));
        lines.extend(self.begun.iter().cloned().map(Line::Begin));
        lines
    }
}

impl FileReceipts {
    /// Opens the receipts at `path`, or begins them. One process at a time.
    ///
    /// # Errors
    /// The folder or the file is not private, another process has it, it is something else or of a
    /// later version, or the system refuses.
    pub fn open(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            private_folder(folder).map_err(io::Error::other)?;
        }
        let receipts = Self::open_in_folder(path, None)?;
        if let Err(error) = receipts.tidy() {
            tracing::warn!(%error, path = %path.display(), "receipts stay longer than they have to");
        }
        Ok(receipts)
    }

    /// As [`open`](Self::open), in a folder that is there, and without tidying, which may take as long as the
    /// start itself. With `trouble`, a disk that fails later is told there, and receipts are kept in memory
    /// until it works again.
    pub(crate) fn open_in_folder(path: &Path, trouble: Option<Trouble>) -> io::Result<Self> {
        let mut known = Known::default();
        let log = Log::open(path, "receipts", |record| match serde_json::from_slice(record) {
            Ok(line) => {
                known.apply(line);
                true
            }
            Err(_) => false,
        })?;
        log.sync()?;
        let disk = Disk { log, failed_at: None };
        Ok(Self { disk: Mutex::new(disk), known: Mutex::new(known), trouble })
    }

    /// Writes the file anew where most of it is of no use any more.
    ///
    /// # Errors
    /// It could not be written, and stays as it was.
    pub(crate) fn tidy(&self) -> io::Result<()> {
        let mut disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        disk.tidy(|| self.known().lines())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A pane is forgotten, and its receipts with it: they would pile up for ever.
    ///
    /// # Errors
    /// It could not be written.
    pub(crate) fn forget_pane(&self, pane_id: &str) -> io::Result<()> {
        let group = ReceiptGroup::Pane(pane_id.to_owned());
        let line = Line::Forgotten(pane_id.to_owned());
        self.append_if(line, false, |known| known.index.has_group(&group))
    }

    /// Whether this raising of an ask was answered, as far as receipts are kept.
    pub(crate) fn was_answered(&self, pane_id: &str, ask_id: &str, raised: &str) -> bool {
        let known = self.known();
        let mut answers = known.index.oldest_first().filter_map(|receipt| receipt.answer.as_ref());
        answers.any(|answer| {
            answer.pane_id == pane_id && answer.ask_id == ask_id && answer.raised == raised
        })
    }

    /// The number of the answer to an ask that is not taken yet.
    pub(crate) fn untaken_number(&self, pane_id: &str, ask_id: &str) -> Option<u64> {
        let key = (pane_id.to_owned(), ask_id.to_owned());
        Some(self.known().untaken.get(&key)?.0)
    }

    /// As `taken`, of the answer of this number alone: meanwhile the ask may have been raised anew.
    pub(crate) fn taken_if(&self, pane_id: &str, ask_id: &str, number: u64) -> io::Result<()> {
        let key = (pane_id.to_owned(), ask_id.to_owned());
        let line = Line::Taken(key.0.clone(), key.1.clone());
        self.append_if(line, false, |known| {
            known.untaken.get(&key).is_some_and(|it| it.0 == number)
        })
    }

    fn append(&self, line: Line, durably: bool) -> io::Result<()> {
        self.append_if(line, durably, |_| true)
    }

    /// Appends a line if that is right when its turn has come.
    fn append_if(
        &self,
        line: Line,
        durably: bool,
        is_right: impl FnOnce(&Known) -> bool,
    ) -> io::Result<()> {
        let mut disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_right(&self.known()) {
            return Ok(());
        }
        let failed = match (disk.failed_at, &self.trouble) {
            (Some(_), _) => None,
            (None, None) => {
                disk.log.append(&line, durably)?;
                None
            }
            (None, Some(_)) => disk.log.append(&line, durably).err(),
        };
        self.known().apply(line);
        // What is known changes below the disk's lock only, so it is not locked for longer.
        let lines = || self.known().lines();
        let failed = match disk.failed_at {
            // All of it, with what was said meanwhile.
            Some(at) if at.elapsed() >= RETRY => {
                let written = disk.log.rewrite(lines());
                disk.failed_at = None;
                written.err()
            }
            None if disk.log.lines().is_multiple_of(LOOK_EVERY) || disk.log.is_long() => {
                disk.tidy(lines).err().or(failed)
            }
            _ => failed,
        };
        if let (Some(error), Some(trouble)) = (&failed, &self.trouble) {
            disk.failed_at = Some(Instant::now());
            trouble.tell(error);
        }
        Ok(())
    }
}

impl Disk {
    fn tidy(&mut self, lines: impl FnOnce() -> Vec<Line>) -> io::Result<()> {
        if !self.log.is_wasteful(0) {
            return Ok(());
        }
        let kept = lines();
        if self.log.is_wasteful(kept.len()) {
            self.log.rewrite(kept)?;
        }
        Ok(())
    }
}

impl ReceiptStore for FileReceipts {
    fn get(&self, request_id: &str) -> Lookup {
        let known = self.known();
        match known.index.get(request_id) {
            Lookup::New if known.begun.contains(request_id) => Lookup::Dropped,
            found => found,
        }
    }

    fn begin(&self, request_id: &str) -> io::Result<()> {
        self.append(Line::Begin(request_id.to_owned()), true)
    }

    fn put(&self, receipt: Receipt) -> io::Result<()> {
        self.append(Line::Put(receipt), true)
    }

    fn abandon(&self, request_id: &str) -> io::Result<()> {
        self.append(Line::Abandon(request_id.to_owned()), false)
    }

    fn taken(&self, pane_id: &str, ask_id: &str) -> io::Result<()> {
        let key = (pane_id.to_owned(), ask_id.to_owned());
        if !self.known().untaken.contains_key(&key) {
            return Ok(());
        }
        self.append(Line::Taken(key.0, key.1), false)
    }

    fn untaken(&self) -> Vec<StoredAnswer> {
        self.known().untaken.values().map(|(_, answer)| answer.clone()).collect()
    }

    fn giving(&self, request_id: &str) -> io::Result<()> {
        if !self.known().sends.iter().any(|(send, _)| send.request_id == request_id) {
            return Ok(());
        }
        self.append(Line::Giving(request_id.to_owned()), false)
    }

    fn delivered(&self, request_id: &str) -> io::Result<()> {
        if !self.known().sends.iter().any(|(send, _)| send.request_id == request_id) {
            return Ok(());
        }
        self.append(Line::Delivered(request_id.to_owned()), false)
    }

    fn undelivered(&self) -> Vec<(StoredSend, bool)> {
        self.known().sends.clone()
    }

    fn may_block(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::collie::wire::AnswerValue;

    fn receipt(id: &str, answer: Option<StoredAnswer>) -> Receipt {
        Receipt {
            request_id: id.to_owned(),
            group: ReceiptGroup::Pane("p".to_owned()),
            digest: "d".to_owned(),
            body: "{}".to_owned(),
            answer,
            send: None,
        }
    }

    fn answer() -> StoredAnswer {
        StoredAnswer {
            pane_id: "p".to_owned(),
            ask_id: "q".to_owned(),
            hash: "h".to_owned(),
            value: AnswerValue::Options(vec!["allow".to_owned()]),
            decided_at: "2026-11-30T14:53:46.120Z".to_owned(),
            raised: "i:1".to_owned(),
        }
    }

    #[test]
    fn what_was_kept_is_there_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own/receipts");
        let store = FileReceipts::open(&path).unwrap();
        store.put(receipt("a", Some(answer()))).unwrap();
        store.begin("b").unwrap();
        store.begin("c").unwrap();
        store.abandon("c").unwrap();
        drop(store);
        let store = FileReceipts::open(&path).unwrap();
        assert_eq!(store.get("a"), Lookup::Kept(Box::new(receipt("a", Some(answer())))));
        assert_eq!(store.get("b"), Lookup::Dropped, "it may have run");
        assert_eq!(store.get("c"), Lookup::New);
        assert_eq!(store.untaken(), [answer()]);
        store.taken("p", "q").unwrap();
        drop(store);
        assert_eq!(FileReceipts::open(&path).unwrap().untaken(), []);
    }

    /// Its receipts are gone with it, and what they were for is still not done again.
    #[test]
    fn a_forgotten_pane_takes_its_receipts_along() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own/receipts");
        let store = FileReceipts::open(&path).unwrap();
        store.put(receipt("a", None)).unwrap();
        let other = ReceiptGroup::Pane("other".to_owned());
        store.put(Receipt { group: other, ..receipt("b", None) }).unwrap();
        store.forget_pane("p").unwrap();
        let length = fs::metadata(&path).unwrap().len();
        store.forget_pane("p").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), length, "it is said once");
        drop(store);
        let store = FileReceipts::open(&path).unwrap();
        assert_eq!(store.get("a"), Lookup::Dropped);
        assert!(matches!(store.get("b"), Lookup::Kept(_)));
    }

    /// However long the texts are that were delivered, and however few.
    #[test]
    fn a_file_of_long_lines_is_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own/receipts");
        let store = FileReceipts::open(&path).unwrap();
        let text = "x".repeat(64 * 1024);
        for number in 0..200 {
            let id = format!("r{number}");
            let send = StoredSend {
                pane_id: "p".to_owned(),
                request_id: id.clone(),
                text: text.clone(),
                steer: false,
            };
            store.put(Receipt { send: Some(send), ..receipt(&id, None) }).unwrap();
            store.delivered(&id).unwrap();
        }
        let length = fs::metadata(&path).unwrap().len();
        assert!(length < 5 * 1024 * 1024, "{length} bytes");
        drop(store);
        let store = FileReceipts::open(&path).unwrap();
        assert!(matches!(store.get("r0"), Lookup::Kept(_)));
        assert_eq!(store.undelivered(), []);
    }

    #[test]
    fn a_tail_torn_at_any_byte_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own/receipts");
        let store = FileReceipts::open(&path).unwrap();
        store.put(receipt("a", None)).unwrap();
        let first = fs::metadata(&path).unwrap().len();
        store.put(receipt("b", None)).unwrap();
        drop(store);
        let whole = fs::read(&path).unwrap();
        for length in first..whole.len() as u64 {
            fs::write(&path, &whole[..usize::try_from(length).unwrap()]).unwrap();
            let store = FileReceipts::open(&path).unwrap();
            assert!(matches!(store.get("a"), Lookup::Kept(_)));
            assert_eq!(store.get("b"), Lookup::New, "torn at {length}");
            store.put(receipt("c", None)).unwrap();
            drop(store);
            assert!(matches!(FileReceipts::open(&path).unwrap().get("c"), Lookup::Kept(_)));
        }
    }

    #[test]
    fn n112_a_long_file_is_rewritten_and_forgets_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own/receipts");
        let store = FileReceipts::open(&path).unwrap();
        store.put(receipt("first", Some(answer()))).unwrap();
        store.begin("hanging").unwrap();
        for number in 0..5000 {
            store.append(Line::Put(receipt(&format!("r{number}"), None)), false).unwrap();
        }
        drop(store);
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines < 4200, "{lines}: written anew on the way");
        let store = FileReceipts::open(&path).unwrap();
        assert_eq!(store.get("first"), Lookup::Dropped);
        assert_eq!(store.get("r0"), Lookup::Dropped);
        assert!(matches!(store.get("r4999"), Lookup::Kept(_)));
        assert_eq!(store.get("hanging"), Lookup::Dropped);
        assert_eq!(store.get("never"), Lookup::New);
        assert_eq!(store.untaken(), [answer()]);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_damaged_line_is_left_out_and_a_second_process_stays_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own/receipts");
        let store = FileReceipts::open(&path).unwrap();
        let second = FileReceipts::open(&path).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::WouldBlock);
        store.begin("a").unwrap();
        store.put(receipt("a", None)).unwrap();
        store.put(receipt("b", None)).unwrap();
        drop(store);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replacen("\"requestId\":\"a\"", "\"requestId\":\"x\"", 1)).unwrap();
        let store = FileReceipts::open(&path).unwrap();
        assert_eq!(store.get("a"), Lookup::Dropped, "it had begun, and does not run again");
        assert_eq!(store.get("x"), Lookup::New);
        assert!(matches!(store.get("b"), Lookup::Kept(_)));
        drop(store);
        assert!(!fs::read_to_string(&path).unwrap().contains("\"x\""), "it was written anew");
    }

    #[test]
    fn an_accepted_text_waits_until_it_is_in_the_chat() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own/receipts");
        let send = |id: &str| StoredSend {
            pane_id: "p".to_owned(),
            request_id: id.to_owned(),
            text: "go on".to_owned(),
            steer: false,
        };
        let store = FileReceipts::open(&path).unwrap();
        for id in ["a", "b", "c"] {
            store.put(Receipt { send: Some(send(id)), ..receipt(id, None) }).unwrap();
        }
        store.delivered("b").unwrap();
        store.giving("c").unwrap();
        drop(store);
        let store = FileReceipts::open(&path).unwrap();
        assert_eq!(store.undelivered(), [(send("a"), false), (send("c"), true)]);
        store.disk.lock().unwrap().log.rewrite(store.known().lines()).unwrap();
        drop(store);
        let store = FileReceipts::open(&path).unwrap();
        assert_eq!(store.undelivered(), [(send("a"), false), (send("c"), true)]);
        assert!(matches!(store.get("b"), Lookup::Kept(_)));
    }
}
