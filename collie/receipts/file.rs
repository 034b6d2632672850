//! Receipts on disk: JSON lines, synced before an answer leaves.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::memory::Index;
use super::{Lookup, Receipt, ReceiptStore, StoredAnswer};
use crate::collie::lines;
use crate::os::private::locked_file;

/// Receipts in an append-only file of JSON lines, mode 0600, in a private folder.
///
/// A receipt is on the disk (`fdatasync`) before the answer leaves. An action says that it begins
/// before it runs, so that none runs twice: one that had begun when the process ended is answered
/// `receipt-dropped` afterwards. A line that a crash has torn is cut off at the next start.
///
/// So a send waits for the disk twice, and an answer, whose receipt is what makes it happen, once.
/// Neither wait can go: without the first an action runs twice after a power cut, without the second
/// the first answer to it is lost. Space that is reserved ahead would make both a quarter shorter,
/// but then the disk may write the end of a line before its beginning, and a torn line is no longer
/// told from a broken one.
#[derive(Debug)]
pub struct FileReceipts {
    file: Mutex<File>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    index: Index,
    /// Begun, and neither kept nor abandoned.
    begun: HashSet<String>,
    /// By pane and ask.
    untaken: HashMap<(String, String), StoredAnswer>,
}

/// One line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Begin(String),
    Put(Receipt),
    Abandon(String),
    Taken(String, String),
    /// Written by [`rewrite`] only: digests of the dropped ids.
    Dropped(Vec<u64>),
    /// Written by [`rewrite`] only: an answer that waits, and whose receipt was dropped.
    Untaken(StoredAnswer),
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
                self.index.put(receipt);
            }
            Line::Taken(pane, ask) => {
                self.untaken.remove(&(pane, ask));
            }
            Line::Dropped(digests) => self.index.drop_digests(digests),
            Line::Untaken(answer) => self.wait(answer),
        }
    }

    fn wait(&mut self, answer: StoredAnswer) {
        self.untaken.insert((answer.pane_id.clone(), answer.ask_id.clone()), answer);
    }

    /// What is known, in as few lines as say it.
    fn lines(&self) -> Vec<Line> {
        let mut lines = vec![Line::Dropped(self.index.dropped_digests())];
        for receipt in self.index.oldest_first() {
            lines.push(Line::Put(receipt.clone()));
        }
        // After the receipts, which have brought back answers that were taken.
        for answer in self.index.oldest_first().filter_map(|receipt| receipt.answer.as_ref()) {
            let key = (answer.pane_id.clone(), answer.ask_id.clone());
            if !self.untaken.contains_key(&key) {
                lines.push(Line::Taken(key.0, key.1));
            }
        }
        lines.extend(self.untaken.values().cloned().map(Line::Untaken));
        lines.extend(self.begun.iter().cloned().map(Line::Begin));
        lines
    }
}

impl FileReceipts {
    /// Opens the receipts at `path`, or begins them. One process at a time.
    ///
    /// # Errors
    /// The file is another user's or open to others, is locked by another process, holds a line
    /// (but a torn last one) that is none, or the system refuses.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut known = Known::default();
        let mut lines = 0;
        let mut file = lines::open(path, |line| {
            lines += 1;
            known.apply(line);
        })?;
        file.sync_data()?;
        let kept = known.lines();
        // Not before most of it is of no use any more, so that no start is much slower than others.
        if lines > 1000 + 2 * kept.len() {
            file = rewrite(path, &kept)?;
        }
        lines::sync_folder(path)?;
        Ok(Self { file: Mutex::new(file), known: Mutex::new(known) })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(&self, line: Line, durably: bool) -> io::Result<()> {
        {
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            lines::append(&mut file, &line, durably)?;
        }
        self.known().apply(line);
        Ok(())
    }
}

/// Writes a new file beside the old one, and puts it in its place when it is whole and durable.
fn rewrite(path: &Path, lines: &[Line]) -> io::Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let beside = Path::new(&name);
    // Locked before it is in its place, so that nobody else takes it there.
    let held = || io::Error::from(io::ErrorKind::WouldBlock);
    let mut file = locked_file(beside).map_err(io::Error::other)?.ok_or_else(held)?;
    file.set_len(0)?;
    let mut text = Vec::new();
    for line in lines {
        serde_json::to_writer(&mut text, line)?;
        text.push(b'\n');
    }
    file.write_all(&text)?;
    file.sync_all()?;
    std::fs::rename(beside, path)?;
    Ok(file)
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
        self.known().untaken.values().cloned().collect()
    }

    fn may_block(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::ReceiptGroup;
    use super::*;
    use crate::collie::wire::AnswerValue;

    fn receipt(id: &str, answer: Option<StoredAnswer>) -> Receipt {
        Receipt {
            request_id: id.to_owned(),
            group: ReceiptGroup::Pane("p".to_owned()),
            digest: "d".to_owned(),
            body: "{}".to_owned(),
            answer,
        }
    }

    fn answer() -> StoredAnswer {
        StoredAnswer {
            pane_id: "p".to_owned(),
            ask_id: "q".to_owned(),
            hash: "h".to_owned(),
            value: AnswerValue::Options(vec!["allow".to_owned()]),
            decided_at: "2026-11-30T14:53:46.120Z".to_owned(),
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
        let long = fs::metadata(&path).unwrap().len();
        let reopened = || FileReceipts::open(&path).unwrap();
        // Once to rewrite it, once to read what was rewritten.
        drop(reopened());
        assert!(fs::metadata(&path).unwrap().len() < long / 2);
        let store = reopened();
        assert_eq!(store.get("first"), Lookup::Dropped);
        assert_eq!(store.get("r0"), Lookup::Dropped);
        assert!(matches!(store.get("r4999"), Lookup::Kept(_)));
        assert_eq!(store.get("hanging"), Lookup::Dropped);
        assert_eq!(store.get("never"), Lookup::New);
        assert_eq!(store.untaken(), [answer()]);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_broken_line_or_a_second_process_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own/receipts");
        let _first = FileReceipts::open(&path).unwrap();
        assert!(FileReceipts::open(&path).is_err());
        let other = folder.path().join("own/other");
        drop(FileReceipts::open(&other).unwrap());
        fs::write(&other, "{\"put\":1}\n").unwrap();
        assert_eq!(FileReceipts::open(&other).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
