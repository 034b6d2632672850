//! The agent's side of an open ask: a future, a blocking wait, or a callback.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::answer::{Answer, AskClosed};
use super::core::Core;

/// How an ask ends.
pub(crate) type Verdict = Result<Answer, AskClosed>;

/// An open ask: await it on any executor, or [`wait`](Self::wait) for it.
///
/// Dropping it before its end withdraws the question: the card is closed as decided by `program`.
/// After [`Collie::close`](crate::collie::Collie::close) an open ask stays open, and its future
/// never ends (N043).
#[derive(Debug)]
#[must_use = "dropping an ask withdraws it"]
pub struct Ask {
    core: Core,
    pane: Arc<str>,
    id: String,
    waiter: Arc<Waiter>,
}

/// Who is told how an ask ended.
pub(crate) enum Waiting {
    Future(Arc<Waiter>),
    Callback(Box<dyn FnOnce(Verdict) + Send>),
    /// The same, but who is told says later whether the answer was taken.
    Told(Box<dyn FnOnce(Verdict) + Send>),
    /// Nobody: who asked ended before this start. An answer waits for the ask to be raised again.
    FromBefore(Option<Watch>),
}

/// Is told that an ask from before this start is no more, or is raised again.
pub(crate) type Watch = Box<dyn FnOnce() + Send>;

#[derive(Debug, Default)]
pub(crate) struct Waiter {
    slot: Mutex<Slot>,
    filled: Condvar,
}

#[derive(Debug, Default)]
struct Slot {
    verdict: Option<Verdict>,
    waker: Option<Waker>,
    ended: bool,
}

impl Waiter {
    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    pub(crate) fn is_from_before(&self) -> bool {
        matches!(self, Self::FromBefore(_))
    }

    /// Tells the verdict; gives whether somebody is sure to have it now. A future may have been
    /// dropped, or may never be polled again: it says itself when its answer was taken.
    pub(crate) fn tell(self, verdict: Verdict) -> bool {
        match self {
            Self::Callback(callback) => {
                callback(verdict);
                true
            }
            Self::Told(callback) => {
                callback(verdict);
                false
            }
            Self::FromBefore(watch) => {
                if let Some(watch) = watch {
                    watch();
                }
                false
            }
            Self::Future(waiter) => {
                let waker = {
                    let mut slot = waiter.slot();
                    slot.verdict = Some(verdict);
                    slot.ended = true;
                    slot.waker.take()
                };
                waiter.filled.notify_all();
                if let Some(waker) = waker {
                    waker.wake();
                }
                false
            }
        }
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Future(_) => "Future",
            Self::Callback(_) => "Callback",
            Self::Told(_) => "Told",
            Self::FromBefore(_) => "FromBefore",
        })
    }
}

impl Ask {
    pub(crate) fn new(core: Core, pane: Arc<str>, id: String, waiter: Arc<Waiter>) -> Self {
        Self { core, pane, id, waiter }
    }

    /// The ask's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Blocks until the ask ends. Not for a thread that the core's own runtime runs on.
    ///
    /// # Errors
    /// It was closed without an answer.
    pub fn wait(self) -> Result<Answer, AskClosed> {
        let verdict = {
            let mut slot = self.waiter.slot();
            loop {
                if let Some(verdict) = slot.verdict.take() {
                    break verdict;
                }
                slot = self.waiter.filled.wait(slot).unwrap_or_else(PoisonError::into_inner);
            }
        };
        self.taken(&verdict);
        verdict
    }

    /// The ask until `signal` ends: then it is withdrawn (N090, N091), unless it was decided before.
    ///
    /// # Errors
    /// It was closed without an answer.
    pub async fn until(mut self, signal: impl Future<Output = ()>) -> Result<Answer, AskClosed> {
        let mut signal = pin!(signal);
        let mut signalled = false;
        poll_fn(|context| {
            if !signalled && signal.as_mut().poll(context).is_ready() {
                signalled = true;
                self.core.withdraw(&self.pane, &self.id);
            }
            Pin::new(&mut self).poll(context)
        })
        .await
    }

    fn taken(&self, verdict: &Verdict) {
        if verdict.is_ok() {
            self.core.answer_taken(&self.pane, &self.id);
        }
    }
}

impl Future for Ask {
    type Output = Result<Answer, AskClosed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let verdict = {
            let mut slot = self.waiter.slot();
            let Some(verdict) = slot.verdict.take() else {
                slot.waker = Some(context.waker().clone());
                return Poll::Pending;
            };
            verdict
        };
        self.taken(&verdict);
        Poll::Ready(verdict)
    }
}

impl Drop for Ask {
    fn drop(&mut self) {
        let ended = self.waiter.slot().ended;
        if !ended {
            self.core.withdraw(&self.pane, &self.id);
        }
    }
}
