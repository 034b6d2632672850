//! The folder of the records: a private file each, named by its token.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::Record;
use crate::os::{kept_file, random};

/// How long a record is kept after its session was last seen.
pub(crate) const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How often old records are looked for: with thousands of them it takes a while.
const PRUNE_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// Its time says when old records were last looked for.
const PRUNED: &str = ".pruned";

/// The largest record that is read: a command line has at most 2 MiB on Linux, and a byte of it takes at
/// most six characters.
const SIZE_LIMIT: u64 = 16 * 1024 * 1024;

/// The length of a token in bytes, before it is written as hex digits.
const TOKEN_BYTES: usize = 16;

/// A record as it lies on the disk.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept<'a> {
    /// Of the record's text, so that a damaged command is never run.
    sha256: String,
    #[serde(borrow)]
    record: &'a RawValue,
}

/// Why a record cannot be had or kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordsError {
    /// It is no token of ours, so that it cannot name a file anywhere else.
    #[error("`{token}` is no session's token, which has {digits} hex digits", digits = TOKEN_BYTES * 2)]
    Token { token: String },
    /// It was never there, was pruned, or lies below another `XDG_STATE_HOME`.
    #[error("there is no record {}", path.display())]
    NotThere { path: PathBuf },
    /// Somebody has changed it, or the disk has.
    #[error("the record {} is damaged: {why}", path.display())]
    Damaged { path: PathBuf, why: String },
    /// The system refused.
    #[error("cannot {verb} {}: {source}", path.display())]
    Io { verb: &'static str, path: PathBuf, source: io::Error },
}

/// The folder of the records.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    folder: PathBuf,
}

impl Records {
    /// The records below our state folder. Nothing is made before the first record is kept.
    pub(crate) fn below(state_folder: &Path) -> Self {
        Self { folder: state_folder.join("sessions") }
    }

    /// A token that no session has.
    pub(crate) fn new_token() -> io::Result<String> {
        random::hex(TOKEN_BYTES)
    }

    /// Keeps a record in the place of the one before it: whoever reads finds one of both, whole.
    pub(crate) fn keep(&self, record: &Record) -> Result<(), RecordsError> {
        let path = self.path(&record.token)?;
        let failed = |verb| {
            let path = path.clone();
            move |source| RecordsError::Io { verb, path, source }
        };
        let text = text(record).map_err(failed("write"))?;
        kept_file::private_folder(&self.folder).map_err(failed("make the folder of"))?;
        // A name of its own: the same session may run twice, and two writers would mix.
        let name = format!("{}.{}.new", record.token, random::hex(4).map_err(failed("write"))?);
        let new = self.folder.join(name);
        let written = kept_file::open_private(&new).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            // Else the name might lead to nothing after a power loss, and the record before it be gone.
            file.sync_data()?;
            fs::rename(&new, &path)
        });
        written.map_err(|source| {
            let _ = fs::remove_file(&new);
            failed("write")(source)
        })
    }

    /// The session is still there: its record is not to get old. False: somebody removed it.
    pub(crate) fn touch(&self, token: &str) -> bool {
        let open = || fs::File::options().write(true).open(self.path(token).ok()?).ok();
        open().is_some_and(|file| file.set_modified(SystemTime::now()).is_ok())
    }

    /// The record of a token.
    pub(crate) fn find(&self, token: &str) -> Result<Record, RecordsError> {
        let path = self.path(token)?;
        match kept_file::read_private(&path, SIZE_LIMIT) {
            Ok(text) => parse(&text).and_then(|record| {
                let is_its_own = record.token == token;
                if is_its_own { Ok(record) } else { Err("it is another session's".to_owned()) }
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(RecordsError::NotThere { path });
            }
            Err(source) => return Err(RecordsError::Io { verb: "read", path, source }),
        }
        .map_err(|why| RecordsError::Damaged { path, why })
    }

    /// Every record that is whole, the newest first, with the time when its session was last seen.
    pub(crate) fn list(&self) -> Vec<(SystemTime, Record)> {
        let tokens = self.files(".json").filter_map(|(path, seen)| {
            let token = path.file_stem()?.to_str()?.to_owned();
            Some((seen, self.find(&token).ok()?))
        });
        let mut records: Vec<_> = tokens.collect();
        records.sort_by_key(|(seen, _)| std::cmp::Reverse(*seen));
        records
    }

    /// Forgets the sessions that were last seen before `time`; how many there were.
    pub(crate) fn prune(&self, time: SystemTime) -> usize {
        // What a killed writer left is worth nothing.
        let left = self.files(".new").chain(self.files(".json"));
        let old = left.filter(|(_, seen)| *seen < time);
        old.filter(|(path, _)| {
            fs::remove_file(path).is_ok() && path.extension().is_some_and(|kind| kind == "json")
        })
        .count()
    }

    /// Forgets what is too old, unless somebody did so within the last day.
    pub(crate) fn prune_at_times(&self, now: SystemTime) {
        let mark = self.folder.join(PRUNED);
        let last = fs::metadata(&mark).and_then(|mark| mark.modified());
        if last.is_ok_and(|last| now.duration_since(last).is_ok_and(|age| age < PRUNE_EVERY)) {
            return;
        }
        // The mark first, so that of many that start at once one does the work.
        if kept_file::open_private(&mark).and_then(|mark| mark.set_modified(now)).is_ok() {
            self.prune(now - MAX_AGE);
        }
    }

    fn files(&self, end: &'static str) -> impl Iterator<Item = (PathBuf, SystemTime)> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries
            .filter(move |entry| entry.file_name().as_encoded_bytes().ends_with(end.as_bytes()))
            .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?.modified().ok()?)))
    }

    fn path(&self, token: &str) -> Result<PathBuf, RecordsError> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if token.len() != TOKEN_BYTES * 2 || !token.bytes().all(is_digit) {
            return Err(RecordsError::Token { token: token.to_owned() });
        }
        Ok(self.folder.join(token).with_extension("json"))
    }
}

fn text(record: &Record) -> io::Result<String> {
    let record = serde_json::value::to_raw_value(record)?;
    let sha256 = checksum(record.get());
    Ok(serde_json::to_string(&Kept { sha256, record: &record })? + "\n")
}

fn parse(text: &[u8]) -> Result<Record, String> {
    let kept: Kept<'_> = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if checksum(kept.record.get()) != kept.sha256 {
        return Err("its checksum is another".to_owned());
    }
    let record: Record =
        serde_json::from_str(kept.record.get()).map_err(|error| error.to_string())?;
    if record.command.is_empty() {
        return Err("there is no command in it".to_owned());
    }
    Ok(record)
}

fn checksum(text: &str) -> String {
    random::digits(&Sha256::digest(text))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use super::*;
    use crate::store::Word;

    fn record(token: &str) -> Record {
        let no_text = || Word(OsString::from_vec(vec![b'x', 0xff]));
        Record {
            token: token.to_owned(),
            agent: "my-agent".to_owned(),
            session: "s-1".to_owned(),
            agent_session: Some("own".to_owned()),
            title: Some("Fix it".to_owned()),
            folder: "/tmp/a folder/한국".into(),
            variables: BTreeMap::from([("CODEX_HOME".to_owned(), no_text())]),
            command: vec!["my-agent".into(), "it's\na \"word\"".into(), no_text()],
            template: Some("my-agent --resume {session}".to_owned()),
            own_command: Some(vec!["my-agent".into(), "--resume".into()]),
            options: serde_json::json!({"chat": "turns"}),
        }
    }

    fn token(digit: char) -> String {
        digit.to_string().repeat(TOKEN_BYTES * 2)
    }

    /// The records, the folder that is to live as long, and the file of `token`.
    fn records(token: &str) -> (Records, tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::below(folder.path());
        let file = records.path(token).unwrap();
        (records, folder, file)
    }

    #[test]
    fn what_is_kept_comes_back_byte_for_byte() {
        let one = record(&Records::new_token().unwrap());
        let (records, _folder, file) = records(&one.token);
        records.keep(&one).unwrap();
        assert_eq!(records.find(&one.token).unwrap(), one);
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(file.parent().unwrap()).unwrap().mode() & 0o777, 0o700);

        let renamed = Record { title: Some("Another".to_owned()), ..one.clone() };
        records.keep(&renamed).unwrap();
        assert_eq!(records.find(&one.token).unwrap(), renamed);
        assert_eq!(records.list().len(), 1);
        assert_eq!(
            fs::read_dir(file.parent().unwrap()).unwrap().count(),
            1,
            "nothing else is left"
        );
    }

    #[test]
    fn large_command_lines_come_back() {
        let mut large = record(&token('a'));
        large
            .command
            .extend((0..200).map(|place| Word::from("x".repeat(500) + &place.to_string())));
        let (records, _folder, _) = records(&large.token);
        records.keep(&large).unwrap();
        assert_eq!(records.find(&large.token).unwrap(), large);
    }

    #[test]
    fn a_token_names_no_file_elsewhere() {
        let records = Records::below(Path::new("/nowhere"));
        for bad in ["", "..", "../../etc/passwd", &token('A'), &token('a')[1..], "a/b"] {
            assert!(matches!(records.find(bad), Err(RecordsError::Token { .. })), "{bad}");
        }
        assert!(matches!(records.find(&token('a')), Err(RecordsError::NotThere { .. })));
    }

    #[test]
    fn a_record_torn_at_any_byte_is_refused() {
        let (records, _folder, path) = records(&token('b'));
        records.keep(&record(&token('b'))).unwrap();
        let whole = fs::read(&path).unwrap();
        // The last byte is the end of the line, which says nothing.
        for length in 0..whole.len() - 1 {
            fs::write(&path, &whole[..length]).unwrap();
            let found = records.find(&token('b'));
            assert!(matches!(found, Err(RecordsError::Damaged { .. })), "{length}: {found:?}");
            assert_eq!(records.list().len(), 0);
        }
    }

    #[test]
    fn a_flipped_bit_never_changes_what_is_run() {
        let (records, _folder, path) = records(&token('b'));
        let one = record(&token('b'));
        records.keep(&one).unwrap();
        let whole = fs::read(&path).unwrap();
        for place in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[place / 8] ^= 1 << (place % 8);
            fs::write(&path, &flipped).unwrap();
            match records.find(&token('b')) {
                Ok(found) => assert_eq!(found, one, "bit {place}"),
                Err(error) => assert!(matches!(error, RecordsError::Damaged { .. }), "{error}"),
            }
        }
    }

    #[test]
    fn a_record_that_others_can_change_is_not_believed() {
        let (records, _folder, path) = records(&token('b'));
        records.keep(&record(&token('b'))).unwrap();
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        set(&path, 0o620);
        assert!(matches!(records.find(&token('b')), Err(RecordsError::Io { .. })));
        set(&path, 0o600);
        set(path.parent().unwrap(), 0o770);
        assert!(matches!(records.find(&token('b')), Err(RecordsError::Io { .. })));
        set(path.parent().unwrap(), 0o700);
        let elsewhere = path.with_extension("moved");
        fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(matches!(records.find(&token('b')), Err(RecordsError::Io { .. })), "a link");
        fs::remove_file(&path).unwrap();
        fs::rename(&elsewhere, records.path(&token('c')).unwrap()).unwrap();
        assert!(matches!(records.find(&token('c')), Err(RecordsError::Damaged { .. })), "renamed");
    }

    #[test]
    fn old_records_are_pruned_and_used_ones_stay() {
        let (records, _folder, path) = records(&token('c'));
        let now = SystemTime::now();
        assert_eq!(records.prune(now), 0, "there is no folder yet");
        for (digit, days) in [('c', 31), ('d', 29), ('e', 31)] {
            records.keep(&record(&token(digit))).unwrap();
            let file = fs::File::options().write(true).open(records.path(&token(digit)).unwrap());
            file.unwrap().set_modified(now - Duration::from_secs(days * 86_400)).unwrap();
        }
        assert!(records.touch(&token('e')));
        assert!(!records.touch(&token('f')), "there is none");
        let left = path.with_file_name("x.new");
        fs::write(&left, "").unwrap();
        assert_eq!(records.prune(now - MAX_AGE), 1);
        assert_eq!(records.list().len(), 2);
        assert_eq!(records.list()[0].1.token, token('e'), "the newest first");
        assert_eq!(records.prune(now + Duration::from_secs(60)), 2);
        assert!(!left.exists());
    }

    #[test]
    fn old_records_are_looked_for_once_a_day() {
        let (records, _folder, path) = records(&token('c'));
        records.keep(&record(&token('c'))).unwrap();
        let now = SystemTime::now();
        records.prune_at_times(now);
        assert!(path.exists());
        let old = now + MAX_AGE + Duration::from_secs(60);
        fs::File::open(path.with_file_name(PRUNED)).unwrap().set_modified(old).unwrap();
        records.prune_at_times(old + PRUNE_EVERY / 2);
        assert!(path.exists(), "somebody has looked");
        records.prune_at_times(old + PRUNE_EVERY);
        assert!(!path.exists());
    }
}
