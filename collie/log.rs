//! Logs: files of JSON lines, each with a checksum, that are only appended to, read whole at the
//! start, and written anew when most of them is of no use any more.
//!
//! A line is `{"crc":"1f2e3d4c",` and the rest of its record. The first one says what log it is, and of
//! which version.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::os::private::locked_file;

/// The version of the lines that this program writes.
const VERSION: u32 = 1;
/// How many lines and bytes a log has at least before it is written anew, however few are of use.
const LEAST_LINES: usize = 1000;
const LEAST_BYTES: u64 = 4 * 1024 * 1024;
/// What comes before the part of a line that its checksum is over.
const PREFIX: usize = r#"{"crc":"00000000","#.len();

/// A log that this process, and no other, writes to.
#[derive(Debug)]
pub(crate) struct Log {
    file: File,
    path: PathBuf,
    kind: &'static str,
    /// Where the last whole line ends.
    end: u64,
    /// How many records it holds.
    lines: usize,
    /// How long it was when all of it was of use; 0 if that is not known.
    useful: u64,
    /// Lines were left out because they, or the first one, were damaged.
    is_damaged: bool,
    /// Half a line may stand at the end, and could not be cut off.
    has_rest: bool,
}

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    log: String,
    version: u32,
}

/// What reading found, beside the records.
#[derive(Debug, Default)]
struct Found {
    has_header: bool,
    records: usize,
    damaged: usize,
    /// How many bytes are whole lines.
    whole: usize,
    bytes: usize,
}

impl Found {
    fn warn(&self, path: &Path) {
        if self.damaged > 0 {
            let (path, lines) = (path.display(), self.damaged);
            tracing::warn!(%path, lines, "damaged lines are left out, and what they said is forgotten");
        }
        if self.whole < self.bytes {
            let (path, bytes) = (path.display(), self.bytes - self.whole);
            tracing::info!(%path, bytes, "an unfinished line at the end is left out");
        }
    }
}

impl Log {
    /// Opens the log at `path`, or begins it, and gives each of its records to `each`, which says
    /// whether it is one. The folder is the caller's to make.
    ///
    /// # Errors
    /// The file is not private, another process has it, it is another log or of a later version, or
    /// the system refuses.
    pub(crate) fn open(
        path: &Path,
        kind: &'static str,
        mut each: impl FnMut(&[u8]) -> bool,
    ) -> io::Result<Self> {
        let held = || {
            let message = format!("another process has {}", path.display());
            io::Error::new(io::ErrorKind::WouldBlock, message)
        };
        let mut file = locked_file(path).map_err(io::Error::other)?.ok_or_else(held)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let is_begun = text.is_empty() || header(kind)?.starts_with(&text);
        let found = scan(&mut text, path, kind, &mut each)?;
        let is_strange = !is_begun && !found.has_header && found.records == 0;
        if is_strange {
            // Nothing in it is ours. It may be somebody's all the same.
            let aside = beside(path, ".damaged");
            tracing::warn!(path = %path.display(), aside = %aside.display(), "put aside: not a log");
            std::fs::rename(path, &aside)?;
            file = locked_file(path).map_err(io::Error::other)?.ok_or_else(held)?;
        }
        found.warn(path);
        let mut log = Self {
            file,
            path: path.to_owned(),
            kind,
            end: 0,
            lines: found.records,
            useful: 0,
            is_damaged: found.damaged > 0,
            has_rest: false,
        };
        if is_begun || is_strange {
            log.is_damaged = false;
            log.cut()?;
            log.write(&header(kind)?, false)?;
        } else {
            log.end = found.whole as u64;
            // Nobody was told of a torn tail: it goes, so that the next line begins a line.
            log.cut()?;
        }
        Ok(log)
    }

    /// How many records it holds.
    pub(crate) fn lines(&self) -> usize {
        self.lines
    }

    /// Whether it is to be written anew, when so many records say all: most of it is of no use any more, by
    /// their number or, since some are long, by their length. Not before, so that each record is written
    /// three times at most. Also where a part of it is damaged.
    pub(crate) fn is_wasteful(&self, kept: usize) -> bool {
        self.is_damaged || self.lines > LEAST_LINES + 2 * kept || self.is_long()
    }

    /// Whether it is by its length, which needs no count.
    pub(crate) fn is_long(&self) -> bool {
        self.end > LEAST_BYTES + 2 * self.useful
    }

    /// Its length in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.end
    }

    /// Damaged lines were left out, and are still there until it is written anew.
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// Adds a record, and waits for the disk if `durably`. One that fails leaves nothing behind.
    pub(crate) fn append(&mut self, record: &impl Serialize, durably: bool) -> io::Result<()> {
        self.write(&line(record)?, durably)?;
        self.lines += 1;
        Ok(())
    }

    fn write(&mut self, line: &[u8], durably: bool) -> io::Result<()> {
        if self.has_rest {
            // What stands there ends here, and is a damaged line of its own.
            self.file.write_all(b"\n")?;
            self.has_rest = false;
        }
        let written = self.file.write_all(line);
        let written = written.and_then(|()| if durably { self.file.sync_data() } else { Ok(()) });
        match written {
            Ok(()) => {
                self.end = self.file.stream_position()?;
                Ok(())
            }
            Err(error) => {
                // Half a line, or one that may not be durable, must not stay before the next.
                self.has_rest = self.cut().is_err();
                Err(error)
            }
        }
    }

    fn cut(&mut self) -> io::Result<()> {
        self.file.set_len(self.end)?;
        self.file.seek(SeekFrom::Start(self.end)).map(drop)
    }

    /// Writes the log anew beside the old one, and puts it in its place when it is whole and durable.
    pub(crate) fn rewrite<R: Serialize>(
        &mut self,
        records: impl IntoIterator<Item = R>,
    ) -> io::Result<()> {
        let path = beside(&self.path, ".new");
        // Locked before it is in its place, so that nobody else takes it there.
        let held = || io::Error::from(io::ErrorKind::WouldBlock);
        let mut file = locked_file(&path).map_err(io::Error::other)?.ok_or_else(held)?;
        let written = rewritten(&mut file, self.kind, records).and_then(|counted| {
            std::fs::rename(&path, &self.path)?;
            Ok(counted)
        });
        match written {
            Ok((lines, end)) => {
                (self.file, self.lines, self.end, self.useful) = (file, lines, end, end);
                (self.is_damaged, self.has_rest) = (false, false);
                sync_folder(&self.path)
            }
            Err(error) => {
                // It takes room that the disk may not have.
                let _ = std::fs::remove_file(&path);
                Err(error)
            }
        }
    }

    /// Makes what was appended durable, and the file's name in its folder.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()?;
        sync_folder(&self.path)
    }
}

fn rewritten<R: Serialize>(
    file: &mut File,
    kind: &str,
    records: impl IntoIterator<Item = R>,
) -> io::Result<(usize, u64)> {
    file.set_len(0)?;
    let mut lines = 0;
    let mut out = io::BufWriter::with_capacity(256 * 1024, &mut *file);
    out.write_all(&header(kind)?)?;
    for record in records {
        out.write_all(&line(&record)?)?;
        lines += 1;
    }
    out.flush()?;
    drop(out);
    file.sync_all()?;
    Ok((lines, file.stream_position()?))
}

/// Reads a log that may be written to meanwhile, and changes nothing.
pub(crate) fn read(
    path: &Path,
    kind: &'static str,
    mut each: impl FnMut(&[u8]) -> bool,
) -> io::Result<()> {
    let mut text = std::fs::read(path)?;
    scan(&mut text, path, kind, &mut each).map(drop)
}

/// Gives the records of `text` to `each`.
fn scan(
    text: &mut [u8],
    path: &Path,
    kind: &str,
    each: &mut impl FnMut(&[u8]) -> bool,
) -> io::Result<Found> {
    let whole = memchr::memrchr(b'\n', text).map_or(0, |end| end + 1);
    let mut found = Found { whole, bytes: text.len(), ..Found::default() };
    let mut begin = 0;
    while let Some(length) = memchr::memchr(b'\n', &text[begin..whole]) {
        let line = &mut text[begin..begin + length];
        let is_first = begin == 0;
        begin += length + 1;
        if line.is_empty() {
            continue;
        }
        match record(line) {
            Some(record) if is_first && check_header(record, path, kind)? => {
                found.has_header = true;
            }
            Some(record) if each(record) => found.records += 1,
            _ => found.damaged += 1,
        }
    }
    Ok(found)
}

/// Whether a record is the first line, and one that can be gone on with.
fn check_header(record: &[u8], path: &Path, kind: &str) -> io::Result<bool> {
    let Ok(header) = serde_json::from_slice::<Header>(record) else {
        return Ok(false);
    };
    if header.log == kind && header.version == VERSION {
        return Ok(true);
    }
    let message = format!(
        "{} is a log of {}, version {}; expected {kind}, version {VERSION}",
        path.display(),
        header.log,
        header.version
    );
    Err(io::Error::new(io::ErrorKind::InvalidData, message))
}

fn header(kind: &str) -> io::Result<Vec<u8>> {
    line(&Header { log: kind.to_owned(), version: VERSION })
}

/// A record as a line.
fn line(record: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut text = vec![b' '; PREFIX - 1];
    serde_json::to_writer(&mut text, record)?;
    // The brace that begins the record becomes the comma after the checksum.
    let checksum = crc32fast::hash(&text[PREFIX..]);
    text[..PREFIX].copy_from_slice(format!(r#"{{"crc":"{checksum:08x}","#).as_bytes());
    text.push(b'\n');
    Ok(text)
}

/// The record of a line, unless the line is damaged.
fn record(line: &mut [u8]) -> Option<&[u8]> {
    let (prefix, rest) = line.split_at_checked(PREFIX)?;
    let checksum = prefix.strip_prefix(br#"{"crc":""#)?.strip_suffix(br#"","#)?;
    // Compared as it is written: upper case, which a flipped bit makes, is no checksum of ours.
    if checksum != hex(crc32fast::hash(rest)) {
        return None;
    }
    line[PREFIX - 1] = b'{';
    Some(&line[PREFIX - 1..])
}

/// As `{:08x}`, for many lines at a start.
fn hex(checksum: u32) -> [u8; 8] {
    let digits = [28, 24, 20, 16, 12, 8, 4, 0].map(|shift| (checksum >> shift & 15) as usize);
    digits.map(|digit| b"0123456789abcdef"[digit])
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Makes the names in the folder of `path` durable: a synced file without its name is lost.
fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn open(path: &Path) -> (Log, Vec<u32>) {
        let mut read = Vec::new();
        let log = Log::open(path, "test", |record| match serde_json::from_slice::<One>(record) {
            Ok(One { one }) => {
                read.push(one);
                true
            }
            Err(_) => false,
        });
        (log.unwrap(), read)
    }

    #[derive(Serialize, Deserialize)]
    struct One {
        one: u32,
    }

    fn three(path: &Path) -> Vec<u8> {
        let (mut log, _) = open(path);
        for one in [1, 2, 3] {
            log.append(&One { one }, false).unwrap();
        }
        fs::read(path).unwrap()
    }

    #[test]
    fn what_was_appended_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let text = String::from_utf8(three(&path)).unwrap();
        assert_eq!(text.lines().count(), 4);
        for line in text.lines() {
            assert!(serde_json::from_str::<serde_json::Value>(line).unwrap()["crc"].is_string());
        }
        let (mut log, read) = open(&path);
        assert_eq!((read, log.lines(), log.is_damaged()), (vec![1, 2, 3], 3, false));
        log.rewrite([One { one: 7 }]).unwrap();
        log.append(&One { one: 8 }, true).unwrap();
        drop(log);
        assert_eq!(open(&path).1, [7, 8]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_log_that_is_torn_at_any_byte_goes_on_after_its_last_whole_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let whole = three(&path);
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let (mut log, read) = open(&path);
            let lines = memchr::memchr_iter(b'\n', &whole[..length]).count();
            assert_eq!(read, [1, 2, 3][..lines.saturating_sub(1)], "torn at {length}");
            assert!(!log.is_damaged());
            log.append(&One { one: 9 }, false).unwrap();
            drop(log);
            assert_eq!(open(&path).1.last(), Some(&9), "torn at {length}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_flipped_bit_costs_its_own_line_and_no_more_than_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let whole = three(&path);
        for place in 0..whole.len() {
            for bit in 0..8 {
                let mut text = whole.clone();
                text[place] ^= 1 << bit;
                fs::write(&path, &text).unwrap();
                let (mut log, read) = open(&path);
                assert!(read.iter().is_sorted(), "{place} {bit}");
                assert!(read.iter().all(|one| (1..=3).contains(one)), "nothing wrong is read");
                // A flipped end of a line takes the line after it along.
                let least = if whole[place] == b'\n' { 1 } else { 2 };
                assert!(read.len() >= least, "{place} {bit} {read:?}");
                log.append(&One { one: 9 }, false).unwrap();
                drop(log);
                assert_eq!(open(&path).1, [read, vec![9]].concat());
            }
        }
    }

    #[test]
    fn what_is_no_log_is_put_aside_and_a_later_version_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        drop(open(&path));
        fs::write(&path, "dear diary\n").unwrap();
        assert!(open(&path).1.is_empty());
        assert_eq!(fs::read(folder.path().join("log.damaged")).unwrap(), b"dear diary\n");
        let later = line(&Header { log: "test".to_owned(), version: 2 }).unwrap();
        fs::write(&path, &later).unwrap();
        let error = Log::open(&path, "test", |_| true).unwrap_err().to_string();
        assert!(
            error.ends_with("is a log of test, version 2; expected test, version 1"),
            "{error}"
        );
        assert_eq!(fs::read(&path).unwrap(), later);
    }
}
