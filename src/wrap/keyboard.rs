//! Typing for somebody who is not at the terminal, in turn with the user's own keys.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::os::terminal;
use crate::os::wake::{Sleeper, Waker, pair};

/// The most that is typed at once, in bytes: the phone's longest text and its brackets.
const LIMIT: usize = 128 * 1024;

/// Why something was not typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TypeError {
    /// The program does not read.
    #[error("the program does not read its input")]
    NotRead,
    /// There is no program any more, or none yet.
    #[error("no program runs")]
    NoProgram,
    /// More than 128 KiB.
    #[error("the text has more than 128 KiB")]
    TooLong,
}

/// Types into the program's terminal. Clones type in turn.
#[derive(Clone, Debug)]
pub struct Keyboard {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    waker: Waker,
    sleeper: Sleeper,
}

#[derive(Debug, Default)]
struct State {
    /// The program's terminal, while it runs.
    master: Option<OwnedFd>,
    job: Job,
    /// Counts the jobs that ended.
    ended: u64,
}

/// One thing to type. It is typed as a whole, without a key of the user's in between.
#[derive(Debug, Default)]
enum Job {
    #[default]
    None,
    Waits(Vec<u8>),
    /// The relay has it.
    Typed,
    /// Nobody waits for it any more.
    GivenUp,
}

impl Keyboard {
    /// A keyboard without a program: give it to [`run_with`](super::run_with).
    ///
    /// # Errors
    /// The system gives no pipe.
    pub fn new() -> io::Result<Self> {
        let (waker, sleeper) = pair()?;
        let shared = Shared { state: Mutex::default(), changed: Condvar::new(), waker, sleeper };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Types, and waits until the program's terminal has all of it.
    ///
    /// # Errors
    /// It has not after `patience`: the rest is not typed then, except for the end of a paste.
    pub fn type_bytes(&self, bytes: &[u8], patience: Duration) -> Result<(), TypeError> {
        if bytes.len() > LIMIT {
            return Err(TypeError::TooLong);
        }
        let deadline = Instant::now() + patience;
        let mut state = self.lock();
        while !matches!(state.job, Job::None) {
            state = self.wait(state, deadline)?;
        }
        if state.master.is_none() {
            return Err(TypeError::NoProgram);
        }
        state.job = Job::Waits(bytes.to_vec());
        let before = state.ended;
        self.shared.waker.wake();
        while state.ended == before {
            if state.master.is_none() {
                return Err(TypeError::NoProgram);
            }
            match self.wait(state, deadline) {
                Ok(next) => state = next,
                Err(error) => {
                    let mut state = self.lock();
                    if state.ended != before {
                        return Ok(());
                    }
                    state.job = match state.job {
                        Job::Waits(_) => Job::None,
                        _ => Job::GivenUp,
                    };
                    self.shared.waker.wake();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Whether the program reads a line that is not shown: a password.
    pub fn is_hidden(&self) -> bool {
        self.lock().master.as_ref().is_some_and(|master| terminal::hides_input(master.as_fd()))
    }

    /// Whether the program reads whole lines, which the terminal edits.
    pub fn is_line_by_line(&self) -> bool {
        self.lock().master.as_ref().is_some_and(|master| terminal::edits_lines(master.as_fd()))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        deadline: Instant,
    ) -> Result<MutexGuard<'a, State>, TypeError> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(TypeError::NotRead);
        }
        let waited = self.shared.changed.wait_timeout(state, left);
        Ok(waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// The relay begins.
    pub(super) fn connect(&self, master: BorrowedFd<'_>) -> io::Result<()> {
        self.lock().master = Some(master.try_clone_to_owned()?);
        Ok(())
    }

    /// The relay ends.
    pub(super) fn disconnect(&self) {
        let mut state = self.lock();
        state.master = None;
        state.job = Job::None;
        self.shared.changed.notify_all();
    }

    /// What the relay polls.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.sleeper.as_fd()
    }

    /// The relay was woken.
    pub(super) fn woken(&self) {
        self.shared.sleeper.drain();
    }

    /// What there is to type, once.
    pub(super) fn take(&self) -> Option<Vec<u8>> {
        let mut state = self.lock();
        match std::mem::take(&mut state.job) {
            Job::Waits(bytes) => {
                state.job = Job::Typed;
                Some(bytes)
            }
            job => {
                state.job = job;
                None
            }
        }
    }

    /// What the relay took is with the program, or dropped.
    pub(super) fn done(&self) {
        let mut state = self.lock();
        if matches!(state.job, Job::Typed | Job::GivenUp) {
            state.job = Job::None;
            state.ended += 1;
            self.shared.changed.notify_all();
        }
    }

    /// Whether the rest of what the relay took is to be dropped.
    pub(super) fn is_given_up(&self) -> bool {
        matches!(self.lock().job, Job::GivenUp)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    const SOON: Duration = Duration::from_millis(20);

    #[test]
    fn without_a_program_nothing_is_typed() {
        let keyboard = Keyboard::new().unwrap();
        assert_eq!(keyboard.type_bytes(b"x", SOON), Err(TypeError::NoProgram));
        assert_eq!(keyboard.type_bytes(&vec![b'x'; LIMIT + 1], SOON), Err(TypeError::TooLong));
        assert!(!keyboard.is_hidden());
    }

    #[test]
    fn what_is_not_taken_in_time_is_not_typed_later() {
        let keyboard = Keyboard::new().unwrap();
        let terminal = File::open("/dev/null").unwrap();
        keyboard.connect(terminal.as_fd()).unwrap();
        assert_eq!(keyboard.type_bytes(b"late", SOON), Err(TypeError::NotRead));
        assert_eq!(keyboard.take(), None);
    }

    #[test]
    fn what_was_begun_is_given_up_and_the_next_one_waits_for_that() {
        let keyboard = Keyboard::new().unwrap();
        let terminal = File::open("/dev/null").unwrap();
        keyboard.connect(terminal.as_fd()).unwrap();
        std::thread::scope(|scope| {
            let typing = scope.spawn(|| keyboard.type_bytes(b"text", Duration::from_millis(200)));
            let bytes = loop {
                if let Some(bytes) = keyboard.take() {
                    break bytes;
                }
                std::thread::yield_now();
            };
            assert_eq!(bytes, b"text");
            assert_eq!(typing.join().unwrap(), Err(TypeError::NotRead));
            assert!(keyboard.is_given_up());
            assert_eq!(keyboard.type_bytes(b"next", SOON), Err(TypeError::NotRead));
            keyboard.done();
            assert!(!keyboard.is_given_up());
            let typing = scope.spawn(|| keyboard.type_bytes(b"next", Duration::from_secs(20)));
            while keyboard.take().is_none() {
                std::thread::yield_now();
            }
            keyboard.done();
            assert_eq!(typing.join().unwrap(), Ok(()));
            keyboard.disconnect();
            assert_eq!(keyboard.type_bytes(b"x", SOON), Err(TypeError::NoProgram));
        });
    }
}
