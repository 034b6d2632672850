//! The rising number of each report.
//!
//! Herdr ignores a report whose number is not higher than the last one of the same source in the same
//! pane, and says `ok` (H060). So the numbers must rise over every process of the source, and over every
//! step of the clock, for as long as the server lives.

use super::environment::Environment;
use super::identity::Source;
use crate::os::clock::Clock;
use crate::os::kept_file;
use sha2::{Digest, Sha256};
use std::env;
use std::fmt::Write as _;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

/// A report's number: microseconds since 1970, or one more than the last (H062).
pub(super) type Seq = u64;

/// Where a jump goes first: over every number in microseconds, and still exact in a JavaScript double.
const FIRST_JUMP: Seq = (1 << 53) - (1 << 40);

/// Where it goes next: over every number in nanoseconds.
const SECOND_JUMP: Seq = 1 << 62;

/// How far it goes after that.
const LATER_JUMPS: Seq = 1 << 40;

/// The highest number that is ever sent, or believed when it is read: `u64::MAX` would be the source's
/// last word in the pane (H061).
const HIGHEST: Seq = u64::MAX - (1 << 32);

/// How long a mark is kept after its last use. No pane is silent for that long and still held.
const MARK_LIFE: Duration = Duration::from_secs(90 * 24 * 3_600);

/// How long to wait for the other processes of the source. They hold the lock for microseconds, unless
/// one was stopped just then.
const LOCK_TRIES: u32 = 200;
const LOCK_PAUSE: Duration = Duration::from_micros(250);

/// `$XDG_STATE_HOME/agent-presence`, else `~/.local/state/agent-presence`: the folder for
/// [`ReporterOptions::state_folder`](super::ReporterOptions::state_folder).
pub fn default_state_folder() -> Option<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .map(|state| state.join("agent-presence"))
}

/// The last number that `source` used in the pane of `environment`, where it is kept in `folder`.
pub(super) fn kept(folder: &Path, environment: &Environment, source: &Source) -> Option<Seq> {
    let path = mark_path(folder, environment.socket_path(), environment.pane_id(), source.as_str());
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The file of the last number of a source in a pane of a server.
fn mark_path(folder: &Path, socket_path: &Path, pane_id: &str, source: &str) -> PathBuf {
    let mut hash = Sha256::new();
    for part in [socket_path.as_os_str().as_encoded_bytes(), pane_id.as_bytes(), source.as_bytes()]
    {
        hash.update(part);
        hash.update([0]);
    }
    let name = hash.finalize().iter().take(16).fold(String::new(), |mut name, byte| {
        // Writing to a string cannot fail.
        let _ = write!(name, "{byte:02x}");
        name
    });
    folder.join("seq").join(name)
}

/// Gives the numbers of one source in one pane.
#[derive(Debug)]
pub(super) struct Sequence {
    clock: Arc<dyn Clock>,
    last: Seq,
    mark: Option<Mark>,
}

impl Sequence {
    /// Numbers that only this process knows of.
    pub(super) fn in_memory(clock: Arc<dyn Clock>) -> Self {
        Self { clock, last: 0, mark: None }
    }

    /// Numbers whose last one is kept in `folder`, for all processes of the source in this pane of this
    /// server. A folder that cannot be used is said once in the log, and memory has to do.
    pub(super) fn kept_in(
        folder: &Path,
        socket_path: &Path,
        pane_id: &str,
        source: &str,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let mark = Mark::open(folder, socket_path, pane_id, source, clock.now())
            .inspect_err(|error| tracing::warn!(%error, "Herdr's sequence is kept in memory only"))
            .ok();
        Self { clock, last: 0, mark }
    }

    /// The next number: the time, or one more than the last one when the clock is behind it.
    pub(super) fn next(&mut self) -> Seq {
        self.above(self.clock.now_micros())
    }

    /// A number far above all that were ever sent: for when Herdr seems to have heard a higher one from
    /// somebody who counts in another way.
    pub(super) fn jump(&mut self) -> Seq {
        let target = match self.last {
            last if last < FIRST_JUMP => FIRST_JUMP,
            last if last < SECOND_JUMP => SECOND_JUMP,
            last => last.saturating_add(LATER_JUMPS),
        };
        self.above(target)
    }

    /// The last number that this process used, 0 before the first.
    pub(super) fn last(&self) -> Seq {
        self.last
    }

    /// The file of the last number, when there is one.
    pub(super) fn path(&self) -> Option<&Path> {
        self.mark.as_ref().map(|mark| mark.path.as_path())
    }

    fn above(&mut self, floor: Seq) -> Seq {
        let last = self.last;
        let choose = |kept: Seq| floor.max(last.max(kept).saturating_add(1)).min(HIGHEST);
        self.last = match self.mark.as_ref().map(|mark| mark.advance(&choose)) {
            Some(Ok(seq)) => seq,
            Some(Err(error)) => {
                tracing::debug!(%error, "Herdr's sequence mark was left behind");
                choose(0)
            }
            None => choose(0),
        };
        self.last
    }
}

/// Removes the marks that nobody has used for a long time. Where that fails they stay, which harms nobody.
fn forget_old_marks(folder: &Path, now: SystemTime) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let used = entry.metadata().and_then(|metadata| metadata.modified());
        let unused_for = used.ok().and_then(|used| now.duration_since(used).ok());
        if unused_for.is_some_and(|unused_for| unused_for > MARK_LIFE) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The file with the last number.
///
/// Every number is written before it is used, under a lock, so a second process goes on from there. It
/// is never synced to the disk: the mark has to outlive our process, not the machine, for Herdr itself
/// forgets the numbers when its server ends (H060). So a report costs no fsync, and no number is ever
/// reserved ahead, which would mute the other processes of the source until the clock caught up.
#[derive(Debug)]
struct Mark {
    file: File,
    path: PathBuf,
}

impl Mark {
    fn open(
        folder: &Path,
        socket_path: &Path,
        pane_id: &str,
        source: &str,
        now: SystemTime,
    ) -> io::Result<Self> {
        let path = mark_path(folder, socket_path, pane_id, source);
        let folder_of_marks = folder.join("seq");
        kept_file::private_folder(folder)?;
        kept_file::private_folder(&folder_of_marks)?;
        if !path.exists() {
            // A new one: the time to forget those of panes that are long gone.
            forget_old_marks(&folder_of_marks, now);
        }
        Ok(Self { file: kept_file::open_private(&path)?, path })
    }

    /// Replaces the last number by what `choose` makes of it.
    fn advance(&self, choose: &impl Fn(Seq) -> Seq) -> io::Result<Seq> {
        self.lock()?;
        let result = self.replace(choose);
        // Nobody waits for a lock that its holder's end would free.
        let _ = self.file.unlock();
        result
    }

    fn replace(&self, choose: &impl Fn(Seq) -> Seq) -> io::Result<Seq> {
        let mut text = [0_u8; 20];
        let length = self.file.read_at(&mut text, 0)?;
        // A mark that cannot be read, or that nobody of us has written, is none.
        let kept = text
            .get(..length)
            .and_then(|text| std::str::from_utf8(text).ok())
            .and_then(|text| text.trim().parse().ok())
            .filter(|kept| *kept < HIGHEST)
            .unwrap_or(0);
        let seq = choose(kept);
        // Always 20 digits, so that one number covers the one before it.
        self.file.write_all_at(format!("{seq:020}").as_bytes(), 0)?;
        Ok(seq)
    }

    /// Takes the lock, or gives up soon: a process that was stopped while it held it must not stop us.
    fn lock(&self) -> io::Result<()> {
        for _ in 0..LOCK_TRIES {
            match self.file.try_lock() {
                Ok(()) => return Ok(()),
                Err(TryLockError::WouldBlock) => thread::sleep(LOCK_PAUSE),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::time::UNIX_EPOCH;

    /// A clock that a test sets, in microseconds since 1970.
    #[derive(Debug)]
    struct HandClock(Mutex<u64>);

    impl HandClock {
        fn at(micros: u64) -> Arc<Self> {
            Arc::new(Self(Mutex::new(micros)))
        }

        fn set(&self, micros: u64) {
            *self.0.lock().unwrap() = micros;
        }
    }

    impl Clock for HandClock {
        fn now(&self) -> SystemTime {
            UNIX_EPOCH + Duration::from_micros(*self.0.lock().unwrap())
        }
    }

    const NOW: u64 = 1_796_000_000_000_000;
    const HOUR: u64 = 3_600_000_000;

    fn kept(folder: &Path, clock: &Arc<HandClock>) -> Sequence {
        Sequence::kept_in(folder, Path::new("/run/herdr.sock"), "w1:p1", "src", clock.clone())
    }

    #[test]
    fn numbers_are_the_time_and_always_rise() {
        let clock = HandClock::at(NOW);
        let mut sequence = Sequence::in_memory(clock.clone());
        assert_eq!((sequence.next(), sequence.next()), (NOW, NOW + 1));
        clock.set(NOW + 50);
        assert_eq!(sequence.next(), NOW + 50);
        clock.set(NOW - 2 * HOUR);
        assert_eq!(sequence.next(), NOW + 51);
        clock.set(NOW + 87_660 * HOUR);
        assert_eq!(sequence.next(), NOW + 87_660 * HOUR);
        clock.set(NOW);
        assert_eq!(sequence.next(), NOW + 87_660 * HOUR + 1);
    }

    #[test]
    fn a_new_process_goes_on_where_the_last_one_was_whatever_the_clock() {
        let folder = tempfile::tempdir().unwrap();
        for later in [NOW, NOW - 2 * HOUR, NOW + 87_660 * HOUR, 0] {
            let clock = HandClock::at(NOW);
            let last = kept(folder.path(), &clock).next();
            clock.set(later);
            assert!(kept(folder.path(), &clock).next() > last, "{later}");
        }
    }

    #[test]
    fn two_processes_take_turns_without_muting_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let clock = HandClock::at(NOW);
        let (mut first, mut second) = (kept(folder.path(), &clock), kept(folder.path(), &clock));
        clock.set(NOW - HOUR);
        let mut last = 0;
        for _ in 0..100 {
            for sequence in [&mut first, &mut second] {
                let seq = sequence.next();
                assert!(seq > last);
                last = seq;
            }
        }
    }

    #[test]
    fn many_threads_never_get_the_same_number() {
        let folder = tempfile::tempdir().unwrap();
        let clock = HandClock::at(NOW);
        let all: Mutex<Vec<Seq>> = Mutex::default();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut sequence = kept(folder.path(), &clock);
                    let mine: Vec<_> = (0..200).map(|_| sequence.next()).collect();
                    assert!(mine.is_sorted_by(|before, after| before < after));
                    all.lock().unwrap().extend(mine);
                });
            }
        });
        let mut all = all.into_inner().unwrap();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 800);
    }

    #[test]
    fn other_panes_servers_and_sources_count_apart() {
        let folder = tempfile::tempdir().unwrap();
        let clock = HandClock::at(NOW);
        let open = |socket: &str, pane: &str, source: &str| {
            Sequence::kept_in(folder.path(), Path::new(socket), pane, source, clock.clone()).next()
        };
        for (socket, pane, source) in [
            ("/s", "p", "x"),
            ("/s2", "p", "x"),
            ("/s", "p2", "x"),
            ("/s", "p", "x2"),
            ("/sp", "", "x"),
        ] {
            assert_eq!(open(socket, pane, source), NOW);
        }
    }

    #[test]
    fn a_broken_mark_is_no_mark() {
        let folder = tempfile::tempdir().unwrap();
        let clock = HandClock::at(NOW);
        let path = kept(folder.path(), &clock).path().unwrap().to_owned();
        for broken in
            ["", "x", "18446744073709551615", "-1", "\u{0}\u{0}", "99999999999999999999999"]
        {
            std::fs::write(&path, broken).unwrap();
            assert_eq!(kept(folder.path(), &clock).next(), NOW, "{broken:?}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_used_leaves_the_memory() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("seq"), "a file in the way").unwrap();
        let mut sequence = kept(folder.path(), &HandClock::at(NOW));
        assert_eq!((sequence.next(), sequence.next()), (NOW, NOW + 1));
        assert_eq!(sequence.path(), None);
    }

    #[test]
    fn marks_of_panes_that_are_long_gone_are_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let clock = HandClock::at(NOW);
        let open = |pane: &str| {
            let socket = Path::new("/run/herdr.sock");
            Sequence::kept_in(folder.path(), socket, pane, "src", clock.clone())
        };
        let [old, young] = ["old", "young"].map(|pane| open(pane).path().unwrap().to_owned());
        for (path, days) in [(&old, 91), (&young, 89)] {
            let used = clock.now() - Duration::from_secs(days * 24 * 3_600);
            File::open(path).unwrap().set_modified(used).unwrap();
        }
        open("new");
        assert_eq!((old.exists(), young.exists()), (false, true));
    }

    #[test]
    fn a_lock_that_nobody_gives_back_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let clock = HandClock::at(NOW);
        let mut sequence = kept(folder.path(), &clock);
        let holder = File::open(sequence.path().unwrap()).unwrap();
        holder.lock().unwrap();
        assert_eq!((sequence.next(), sequence.next()), (NOW, NOW + 1));
    }

    #[test]
    fn jumps_rise_and_leave_room() {
        let mut sequence = Sequence::in_memory(HandClock::at(NOW));
        sequence.next();
        let first = sequence.jump();
        assert!(first > 9_000_000_000_000_000 && first < 1 << 53);
        assert_eq!(sequence.next(), first + 1);
        let second = sequence.jump();
        assert!(second > 1_796_000_000_000_000_000, "over nanoseconds");
        assert_eq!(sequence.jump(), second + LATER_JUMPS);
        sequence.last = u64::MAX - 1;
        assert!(sequence.next() < u64::MAX, "never the number that ends a source");
    }
}
