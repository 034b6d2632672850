//! What is wanted: one slot for each field, a newer value in the place of the older.

use super::latest::Latest;
use super::metadata::Metadata;
use super::report::State;
use super::resume_command::ResumeCommand;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The state, and what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) state: State,
    pub(super) message: Option<Arc<str>>,
}

/// A conversation, and the command that brings it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) id: Arc<str>,
    pub(super) resume: Option<Arc<ResumeCommand>>,
}

/// The newest value of every field.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub(super) claim: Option<Claim>,
    pub(super) session: Option<Session>,
    pub(super) metadata: Arc<Metadata>,
    /// How often the process was continued after a stop.
    pub(super) resumed: u32,
    /// The user quit. Nothing else is taken afterwards.
    pub(super) released: bool,
    /// When the driver has to be done, whatever Herdr does.
    pub(super) finish_by: Option<tokio::time::Instant>,
    /// Counts the changes, so that a retry can tell a new value from the one that failed.
    pub(super) generation: u64,
}

/// How the driver ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// All that was wanted is in force.
    Settled,
    /// Time was up, or the driver was dropped.
    Unsettled,
}

/// The slots, shared by the callers and the driver.
#[derive(Debug, Default)]
pub(super) struct Slots {
    wanted: Latest<Wanted>,
    /// When the driver has to be done. Apart from `changed`, which nobody waits for during an exchange:
    /// only so do the callers of that time make no system call.
    deadline: watch::Sender<Option<tokio::time::Instant>>,
    end: Mutex<Option<End>>,
    ended: Condvar,
}

impl Slots {
    /// Lets `change` put new values in. It says whether it did.
    pub(super) fn put(&self, change: impl FnOnce(&mut Wanted) -> bool) {
        self.wanted.put(|wanted| {
            let changed = !wanted.released && change(wanted);
            if changed {
                wanted.generation += 1;
            }
            changed
        });
    }

    /// Sets when the driver has to be done, also after a release. The first one counts.
    pub(super) fn finish_by(&self, deadline: tokio::time::Instant) {
        self.deadline.send_if_modified(|current| {
            let is_first = current.is_none();
            current.get_or_insert(deadline);
            is_first
        });
        self.wanted.ring();
    }

    /// The newest values.
    pub(super) fn wanted(&self) -> Wanted {
        Wanted { finish_by: *self.deadline.borrow(), ..self.wanted.get() }
    }

    /// When the driver has to be done, once that is set.
    pub(super) async fn deadline(&self) -> tokio::time::Instant {
        let mut deadlines = self.deadline.subscribe();
        loop {
            if let Some(deadline) = *deadlines.borrow_and_update() {
                return deadline;
            }
            if deadlines.changed().await.is_err() {
                // The sender lives in `self`.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until something was put in since the last time.
    pub(super) async fn changed(&self) {
        self.wanted.changed().await;
    }

    /// The driver's last word. The first one counts.
    pub(super) fn end(&self, end: End) {
        lock(&self.end).get_or_insert(end);
        self.ended.notify_all();
    }

    /// Blocks until the driver has ended, at most for `limit`.
    pub(super) fn wait_for_end(&self, limit: Duration) -> Option<End> {
        let deadline = Instant::now() + limit;
        let mut end = lock(&self.end);
        while end.is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            end = self.ended.wait_timeout(end, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *end
    }
}

/// Every value here is whole at any moment, so a panic of another holder spoils nothing.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
