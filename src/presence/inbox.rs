//! What the phone wants of the agent, and how the agent takes it.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::session::{Session, SessionInner, lock};
use super::{Inner, Presence};
use crate::collie::{self, HookError, Item, NoticeLevel, Target};

/// Which wishes of the phone an agent takes. What it does not take, the phone does not offer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a list of switches, as the phone has it")]
pub struct Takes {
    /// Text for the next turn.
    pub send: bool,
    /// Text into the running turn.
    pub steer: bool,
    /// The running turn is to stop.
    pub stop: bool,
    /// Taps at the buttons of [`Session::actions`].
    pub action: bool,
    /// Another title.
    pub rename: bool,
    /// A session is to be closed.
    pub close: bool,
    /// A closed session is to come back.
    pub reopen: bool,
    /// A new session is to begin.
    pub start: bool,
}

impl Takes {
    /// Nothing: name what is taken, as in `Takes { send: true, ..Takes::NONE }`.
    pub const NONE: Self = Self {
        send: false,
        steer: false,
        stop: false,
        action: false,
        rename: false,
        close: false,
        reopen: false,
        start: false,
    };

    /// Everything.
    pub const ALL: Self = Self {
        send: true,
        steer: true,
        stop: true,
        action: true,
        rename: true,
        close: true,
        reopen: true,
        start: true,
    };
}

/// What the phone wants.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wanted {
    /// Text for the next turn: 1 byte to 64 KiB.
    Send {
        /// What the user wrote.
        text: String,
    },
    /// Text into the running turn: 1 byte to 64 KiB.
    Steer {
        /// What the user wrote.
        text: String,
    },
    /// The running turn is to stop.
    Stop,
    /// A button was tapped.
    Action {
        /// The button's id.
        action: String,
        /// The item that it was tapped at.
        item: Option<String>,
    },
    /// Another title; it is shown once the wish is accepted.
    Rename {
        /// What is renamed.
        target: Target,
        /// The title, cleaned and cut to 256 bytes.
        title: String,
    },
    /// Something is to be closed; the phone stops showing it once the wish is accepted.
    Close {
        /// What is closed.
        target: Target,
    },
    /// A closed session is to come back: open it again under its id, then accept.
    Reopen {
        /// The session's id.
        session: String,
    },
    /// A new session is to begin: open it, then accept with [`Wish::accept_with`].
    Start {
        /// Which of [`Presence::starters`] was tapped.
        starter: String,
        /// The first text.
        text: Option<String>,
    },
}

/// One wish of the phone, handed out once.
///
/// Accept or refuse it soon: the phone's request waits for that. Dropped without either, it is
/// refused, so that an agent which ignores a kind of wish leaves nobody waiting.
#[must_use = "a wish that is dropped is refused"]
pub struct Wish {
    entry: Option<Entry>,
}

impl fmt::Debug for Wish {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Wish").field(&self.wanted()).finish()
    }
}

/// What a wish is until it is accepted: no wish of its own can be empty.
const NOTHING: Wanted = Wanted::Stop;

impl Wish {
    /// What is wanted.
    pub fn wanted(&self) -> &Wanted {
        self.entry.as_ref().map_or(&NOTHING, |entry| &entry.wanted)
    }

    /// The id of the phone's request, unique for each wish.
    pub fn request_id(&self) -> &str {
        self.entry.as_ref().map_or("", |entry| &entry.request_id)
    }

    /// The session that it is for. None: for the agent as a whole.
    pub fn session_id(&self) -> Option<&str> {
        self.entry.as_ref()?.session_id.as_deref()
    }

    /// Takes it up, and says so to the phone. A text appears in the chat as the user's.
    pub fn accept(self) -> Wanted {
        self.accepted(None)
    }

    /// Takes up a start, and says which session it began.
    pub fn accept_with(self, session: &Session) -> Wanted {
        self.accepted(Some(session.id().to_owned()))
    }

    pub(crate) fn accepted(mut self, began: Option<String>) -> Wanted {
        let Some(entry) = self.entry.take() else { return NOTHING };
        let session = entry.session.upgrade();
        match (&entry.wanted, &session) {
            (Wanted::Send { text } | Wanted::Steer { text }, Some(session)) => {
                session.heard_from_phone(&entry.request_id, text);
            }
            (Wanted::Rename { target: Target::Pane(_), title }, Some(session)) => {
                session.titled(title);
            }
            _ => {}
        }
        let began = match &entry.wanted {
            Wanted::Reopen { session } => Some(session.clone()),
            _ => began,
        };
        if let Some(answer) = entry.answer {
            // Nobody waits any more only when the presence ends.
            let _ = answer.send(Ok(began));
        }
        entry.wanted
    }

    /// Says no. The phone shows the reason: one sentence.
    pub fn refuse(mut self, reason: &str) {
        if let Some(entry) = self.entry.take() {
            entry.refuse(reason);
        }
    }
}

impl Drop for Wish {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            entry.refuse("The agent did not take it.");
        }
    }
}

/// What a hook is told: the session that began, or why not.
type Outcome = Result<Option<String>, HookError>;

/// A wish that waits for the agent, or is in its hands.
struct Entry {
    number: u64,
    session: Weak<SessionInner>,
    session_id: Option<String>,
    request_id: String,
    wanted: Wanted,
    /// The phone's request. None: it has its answer already, because a turn ran.
    answer: Option<oneshot::Sender<Outcome>>,
}

impl Entry {
    /// The phone's request is refused. Where it has its answer already, the chat says so: what a
    /// person wrote is never lost without a word.
    fn refuse(self, reason: &str) {
        match (self.answer, &self.wanted, self.session.upgrade()) {
            (Some(answer), ..) => {
                let _ = answer.send(Err(HookError::refused(reason)));
            }
            (None, Wanted::Send { text }, Some(session)) => {
                let id = format!("refused-{}", collie::ask_id_for(session.id(), &self.request_id));
                let notice = Item::notice(id, format!("{reason} Not taken: {text}"));
                session.show(notice.level(NoticeLevel::Warning));
            }
            _ => {}
        }
    }
}

/// All wishes of a presence that wait, in the order in which they came.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<QueueState>,
}

#[derive(Default)]
struct QueueState {
    entries: VecDeque<Entry>,
    next_number: u64,
    wakers: Vec<Waker>,
    is_closed: bool,
}

impl fmt::Debug for Queue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Queue")
    }
}

impl Queue {
    /// A wish of the phone, until the agent has answered it. One that nobody takes within
    /// `patience` is refused.
    pub(super) async fn wish(
        &self,
        session: Option<&Arc<SessionInner>>,
        request_id: String,
        wanted: Wanted,
        patience: Duration,
    ) -> Outcome {
        // A text that is to wait for the end of the turn is taken now: the phone shows it as queued.
        let waits = matches!(wanted, Wanted::Send { .. })
            && session.is_some_and(|session| session.turn_runs());
        let (answer, answered) = oneshot::channel();
        let entry = Entry {
            number: 0,
            session: session.map(Arc::downgrade).unwrap_or_default(),
            session_id: session.map(|session| session.id().to_owned()),
            request_id,
            wanted,
            answer: (!waits).then_some(answer),
        };
        let Some(number) = self.push(entry) else {
            return Err(HookError::refused("The agent has ended."));
        };
        if waits {
            return Ok(None);
        }
        let gone = || HookError::refused("The agent has ended.");
        let mut answered = answered;
        match tokio::time::timeout(patience, &mut answered).await {
            Ok(outcome) => outcome.unwrap_or_else(|_| Err(gone())),
            Err(_) => match self.too_late(number) {
                Some(outcome) => outcome,
                // It was handed out meanwhile: the agent's word counts.
                None => answered.await.unwrap_or_else(|_| Err(gone())),
            },
        }
    }

    /// Nobody took a wish in time. None: somebody did.
    fn too_late(&self, number: u64) -> Option<Outcome> {
        // Outlives the lock: nothing is dropped under it.
        let session;
        let mut state = lock(&self.state);
        let place = state.entries.iter().position(|entry| entry.number == number)?;
        let entry = state.entries.get_mut(place)?;
        session = entry.session.upgrade();
        if matches!(entry.wanted, Wanted::Send { .. })
            && session.as_ref().is_some_and(|session| session.turn_runs())
        {
            // A turn began just before the text came: it waits for its end, like those after it.
            entry.answer = None;
            return Some(Ok(None));
        }
        state.entries.remove(place);
        Some(Err(HookError::refused("The agent did not take it in time.")))
    }

    fn push(&self, mut entry: Entry) -> Option<u64> {
        let mut state = lock(&self.state);
        if state.is_closed {
            return None;
        }
        state.next_number += 1;
        entry.number = state.next_number;
        let number = entry.number;
        state.entries.push_back(entry);
        drop(state);
        self.wake();
        Some(number)
    }

    /// Whoever waits looks again.
    pub(super) fn wake(&self) {
        let wakers = std::mem::take(&mut lock(&self.state).wakers);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Takes out what nobody has taken.
    fn take_back(&self, which: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        let mut state = lock(&self.state);
        let entries = std::mem::take(&mut state.entries);
        let (taken, kept): (Vec<_>, Vec<_>) = entries.into_iter().partition(which);
        state.entries = kept.into();
        taken
    }

    /// Refuses what waits for a session.
    pub(super) fn refuse(&self, session: &SessionInner, reason: &str) {
        for entry in self.take_back(|entry| std::ptr::eq(entry.session.as_ptr(), session)) {
            entry.refuse(reason);
        }
        self.wake();
    }

    /// Refuses the texts that waited for the end of a turn.
    pub(super) fn refuse_sends(&self, session: &SessionInner, reason: &str) {
        let waited =
            |entry: &Entry| entry.answer.is_none() && std::ptr::eq(entry.session.as_ptr(), session);
        for entry in self.take_back(waited) {
            entry.refuse(reason);
        }
    }

    /// Whether texts wait for the end of a turn of this session.
    pub(super) fn has_sends(&self, session: &SessionInner) -> bool {
        let is_send = |entry: &Entry| {
            matches!(entry.wanted, Wanted::Send { .. })
                && std::ptr::eq(entry.session.as_ptr(), session)
        };
        lock(&self.state).entries.iter().any(is_send)
    }

    /// Nothing is taken any more.
    pub(super) fn close(&self) {
        lock(&self.state).is_closed = true;
        for entry in self.take_back(|_| true) {
            entry.refuse("The agent has ended.");
        }
        self.wake();
    }

    /// The first wish that may be handed out now.
    fn take(&self, session: Option<&SessionInner>) -> Option<Wish> {
        // The sessions outlive the lock: nothing is dropped under it.
        let mut sessions = Vec::new();
        let mut state = lock(&self.state);
        let place = state.entries.iter().position(|entry| {
            if session.is_some_and(|session| !std::ptr::eq(entry.session.as_ptr(), session)) {
                return false;
            }
            let of = entry.session.upgrade();
            let waits = matches!(entry.wanted, Wanted::Send { .. })
                && of.as_ref().is_some_and(|of| of.turn_runs());
            sessions.extend(of);
            !waits
        });
        let entry = place.and_then(|place| state.entries.remove(place));
        drop(state);
        entry.map(|entry| Wish { entry: Some(entry) })
    }
}

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
        {
            let mut state = lock(&queue.state);
            if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                state.wakers.push(context.waker().clone());
            }
        }
        if let Some(wish) = self.try_recv() {
            return Poll::Ready(Some(wish));
        }
        let session_ended =
            self.session.as_ref().is_some_and(|session| session.inner().has_ended());
        if session_ended || lock(&queue.state).is_closed {
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
