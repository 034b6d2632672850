//! The wishes of a presence that wait for the agent.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use tokio::sync::oneshot;

use super::inner::{SessionInner, lock};
use super::sync::{Mutex, timeout};
use super::wish::{Entry, Outcome, Wanted, Wish};
use crate::collie::HookError;

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
    /// `patience` is refused, unless it `is_accepted` already.
    pub(super) async fn wish(
        &self,
        session: Option<&Arc<SessionInner>>,
        request_id: String,
        wanted: Wanted,
        patience: Duration,
        is_accepted: bool,
    ) -> Outcome {
        // A text that is to wait for the end of the turn is taken now: the phone shows it as queued.
        // One from before a restart was.
        let waits = matches!(wanted, Wanted::Send { .. })
            && (is_accepted || session.is_some_and(|session| session.turn_runs()));
        let (answer, answered) = oneshot::channel();
        let entry = Entry {
            number: 0,
            session: session.map(Arc::downgrade).unwrap_or_default(),
            session_id: session.map(|session| session.id().to_owned()),
            request_id,
            wanted,
            answer: (!waits).then_some(answer),
            is_from_before: is_accepted,
        };
        let Some(number) = self.push(entry) else {
            return Err(HookError::refused("The agent has ended."));
        };
        if waits {
            return Ok(None);
        }
        let gone = || HookError::refused("The agent has ended.");
        let mut answered = answered;
        match timeout(patience, &mut answered).await {
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

    /// Nothing is taken any more. What was accepted already is not refused if it is kept elsewhere.
    pub(super) fn close(&self, accepted_is_kept: bool) {
        lock(&self.state).is_closed = true;
        for entry in self.take_back(|_| true) {
            if entry.answer.is_some() || !accepted_is_kept {
                entry.refuse("The agent has ended.");
            }
        }
        self.wake();
    }

    /// The first wish that may be handed out now.
    pub(super) fn take(&self, session: Option<&SessionInner>) -> Option<Wish> {
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
        if let Some(entry) = &entry {
            entry.giving();
        }
        entry.map(Wish::new)
    }

    /// Wakes this task when there may be something to hand out, or the end has come.
    pub(super) fn wake_later(&self, waker: &Waker) {
        let mut state = lock(&self.state);
        if !state.wakers.iter().any(|known| known.will_wake(waker)) {
            state.wakers.push(waker.clone());
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        lock(&self.state).is_closed
    }
}
