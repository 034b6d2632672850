//! Where the agent gets what the phone wants.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::inner::lock;
use super::session::Session;
use super::wish::Wish;
use super::{Inner, Presence};

/// The way from the phone to the agent: wishes, each handed out once and in order.
///
/// A text for the next turn is handed out when no turn runs; everything else at once. Clones and
/// other inboxes of the same session share the wishes: each goes to one of them.
///
/// Cancel safe: a receive that is dropped before it gave a wish has taken none.
#[derive(Clone)]
pub struct Inbox {
    presence: Arc<Inner>,
    /// None: of all sessions, and of the agent as a whole.
    session: Option<Session>,
}

impl fmt::Debug for Inbox {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Inbox").field("session", &self.session).finish_non_exhaustive()
    }
}

impl Inbox {
    pub(super) fn of_session(session: &Session) -> Self {
        Self { presence: Arc::clone(session.presence()), session: Some(session.clone()) }
    }

    pub(super) fn of_presence(presence: &Presence) -> Self {
        Self { presence: Arc::clone(&presence.inner), session: None }
    }

    /// How long a wish waits for an answer.
    pub(crate) fn patience(&self) -> Duration {
        self.presence.patience
    }

    /// The next wish, on any executor. None: the session, or the presence, has ended.
    pub async fn recv(&self) -> Option<Wish> {
        poll_fn(|context| self.poll(context)).await
    }

    /// The next wish that is there already.
    pub fn try_recv(&self) -> Option<Wish> {
        // The newest word on the turn counts, also one that the faces have not been told yet.
        match &self.session {
            Some(session) => session.publish(),
            None => _ = self.presence.publish(),
        }
        self.presence.inbox.take(self.session.as_ref().map(|session| &**session.inner()))
    }

    /// The next wish, blocking. None: the session, or the presence, has ended.
    pub fn wait(&self) -> Option<Wish> {
        self.wait_until(None)
    }

    /// The next wish, blocking for `limit` at most. None: no wish came, or the session has ended.
    pub fn wait_for(&self, limit: Duration) -> Option<Wish> {
        self.wait_until(Instant::now().checked_add(limit))
    }

    fn wait_until(&self, deadline: Option<Instant>) -> Option<Wish> {
        let waker = Arc::new(Parked { is_woken: Mutex::new(false), woken: Condvar::new() });
        let task_waker = Waker::from(Arc::clone(&waker));
        let context = Context::from_waker(&task_waker);
        loop {
            if let Poll::Ready(wish) = self.poll(&context) {
                return wish;
            }
            if !waker.park(deadline) {
                return None;
            }
        }
    }

    fn poll(&self, context: &Context<'_>) -> Poll<Option<Wish>> {
        // First be woken, then look: what comes in between is not missed.
        let queue = &self.presence.inbox;
        queue.wake_later(context.waker());
        if let Some(wish) = self.try_recv() {
            return Poll::Ready(Some(wish));
        }
        let session_ended = self.session.as_ref().is_some_and(|session| !session.is_open());
        if session_ended || queue.is_closed() {
            return Poll::Ready(None);
        }
        Poll::Pending
    }
}

/// A thread that waits for a wish.
struct Parked {
    is_woken: Mutex<bool>,
    woken: Condvar,
}

impl Parked {
    /// Waits to be woken; false when the time is over.
    fn park(&self, deadline: Option<Instant>) -> bool {
        let mut is_woken = lock(&self.is_woken);
        while !*is_woken {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            is_woken = match left {
                Some(Duration::ZERO) => return false,
                Some(left) => {
                    self.woken
                        .wait_timeout(is_woken, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
                None => self.woken.wait(is_woken).unwrap_or_else(PoisonError::into_inner),
            };
        }
        *is_woken = false;
        true
    }
}

impl std::task::Wake for Parked {
    fn wake(self: Arc<Self>) {
        *lock(&self.is_woken) = true;
        self.woken.notify_all();
    }
}
