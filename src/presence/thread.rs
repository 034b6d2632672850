//! The background thread of a presence: a runtime for both faces, and the pump that brings the
//! newest state to them.

use std::future::Future;
use std::io;
use std::sync::mpsc as std_mpsc;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::Inner;

/// How soon after one change the next is told to the faces. A person does not see it, and a report
/// to Herdr may take as long.
const PAUSE: Duration = Duration::from_millis(2);

/// The thread, seen from outside.
#[derive(Debug)]
pub(super) struct Background {
    runtime: Handle,
    changed: Arc<Notify>,
    stop: Arc<Notify>,
    /// Tells when the thread is done; taken by who waits for it.
    done: Mutex<Option<std_mpsc::Receiver<()>>>,
    thread: thread::ThreadId,
}

impl Background {
    /// Starts the thread. `open` runs on it first; the first thing that it gives is returned here
    /// once it is there, and `close` runs on it last, with the second.
    pub(super) fn start<T, K, O, C>(
        open: impl FnOnce() -> O + Send + 'static,
        close: impl FnOnce(K) -> C + Send + 'static,
    ) -> io::Result<(Self, T)>
    where
        T: Send + 'static,
        O: Future<Output = (T, K)>,
        C: Future<Output = ()>,
    {
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let (report_ready, ready) = std_mpsc::channel();
        let (report_done, done) = std_mpsc::channel();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let handle = runtime.handle().clone();
        let thread = thread::Builder::new().name("agent-presence".to_owned()).spawn(move || {
            runtime.block_on(async {
                let (opened, kept) = open().await;
                let _ = report_ready.send(opened);
                stopped.notified().await;
                close(kept).await;
            });
            // What still runs is dropped here, and its sockets are removed.
            drop(runtime);
            let _ = report_done.send(());
        })?;
        let opened = ready
            .recv()
            .map_err(|_| io::Error::other("the background thread ended while it started"))?;
        let background = Self {
            runtime: handle,
            changed: Arc::new(Notify::new()),
            stop,
            done: Mutex::new(Some(done)),
            thread: thread.thread().id(),
        };
        Ok((background, opened))
    }

    /// Runs a task until it ends or the presence does.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.runtime.spawn(task).abort_handle()
    }

    /// Something changed that the faces have not been told yet.
    pub(super) fn changed(&self) {
        self.changed.notify_one();
    }

    /// Brings every change to the faces, and what was held back when its time has come.
    pub(super) fn pump(&self, presence: &Weak<Inner>) {
        let changed = Arc::clone(&self.changed);
        let presence = Weak::clone(presence);
        self.spawn(async move {
            loop {
                let Some(inner) = presence.upgrade() else {
                    return;
                };
                let again = inner.publish();
                drop(inner);
                // What comes meanwhile is told as one. The calls of a burst wake nobody, and do not meet
                // us at the session's lock.
                tokio::time::sleep(PAUSE).await;
                match again {
                    Some(at) => {
                        let at = tokio::time::Instant::from_std(at);
                        let _ = tokio::time::timeout_at(at, changed.notified()).await;
                    }
                    None => changed.notified().await,
                }
            }
        });
    }

    /// Ends the thread and waits for it, but not for longer than `limit`, and not on itself.
    pub(super) fn stop(&self, limit: Duration) {
        self.stop.notify_one();
        if thread::current().id() == self.thread {
            return;
        }
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(done) = done {
            let started = Instant::now();
            if done.recv_timeout(limit).is_err() {
                tracing::warn!(waited = ?started.elapsed(), "the presence did not end in time");
            }
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop(super::EXIT_LIMIT);
    }
}
