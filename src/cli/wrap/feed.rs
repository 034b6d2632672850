//! The way from the relay to the thread that looks at the terminal: bounded, and never waited for.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::wrap::{Sign, TerminalModes};

/// The most output, and the most input, that waits to be looked at. Of more than that nobody reads every
/// line: the screen begins anew.
const LIMIT: usize = 256 * 1024;
/// The most of everything else.
const EVENTS: usize = 1024;

/// Something that happened in the terminal.
#[derive(Debug)]
pub(super) enum Event {
    Output(Vec<u8>),
    Input(Vec<u8>),
    HiddenInput,
    Sign(Sign),
    /// The phone's text is about to be typed.
    PhoneTypes,
    /// The phone's text was sent.
    PhoneSent,
    /// The phone's interrupt was sent.
    PhoneInterrupted,
}

/// What happened since the last time.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) events: VecDeque<Event>,
    /// Output is missing before the first event.
    pub(super) lost: bool,
    pub(super) modes: Option<TerminalModes>,
    pub(super) size: Option<(u16, u16)>,
    /// Whether the agent reports itself by OSC 7501.
    pub(super) reports: Option<bool>,
    pub(super) suspended: Option<bool>,
    /// Somebody waits for a view of the screen.
    pub(super) is_looked_at: bool,
    pub(super) has_ended: bool,
    bytes: usize,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.events.is_empty()
            && !self.lost
            && self.modes.is_none()
            && self.size.is_none()
            && self.reports.is_none()
            && self.suspended.is_none()
            && !self.is_looked_at
            && !self.has_ended
    }

    fn push(&mut self, event: Event) {
        match event {
            Event::Output(_) if self.lost => return,
            Event::Output(bytes) => return self.output(&bytes),
            Event::Input(ref bytes) if self.bytes + bytes.len() > LIMIT => return,
            Event::Input(ref bytes) => self.bytes += bytes.len(),
            _ => {}
        }
        if self.events.len() >= EVENTS {
            self.events.pop_front();
            self.lost = true;
        }
        self.events.push_back(event);
    }

    fn output(&mut self, bytes: &[u8]) {
        if self.lost {
            return;
        }
        if self.bytes + bytes.len() > LIMIT {
            self.events.retain(|event| !matches!(event, Event::Output(_) | Event::Input(_)));
            self.bytes = 0;
            self.lost = true;
            return;
        }
        self.bytes += bytes.len();
        match self.events.back_mut() {
            Some(Event::Output(last)) => last.extend_from_slice(bytes),
            _ => self.push_output(bytes),
        }
    }

    fn push_output(&mut self, bytes: &[u8]) {
        if self.events.len() < EVENTS {
            self.events.push_back(Event::Output(bytes.to_vec()));
        } else {
            self.lost = true;
        }
    }
}

/// Both ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Feed {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    batch: Batch,
    /// The thread that looks waits for something to happen.
    sleeps: bool,
    has_ended: bool,
}

impl Feed {
    /// Notes what happened. Costs a copy, and a wake-up if nothing had happened for a moment.
    pub(super) fn note(&self, change: impl FnOnce(&mut Batch)) {
        let mut state = self.lock();
        change(&mut state.batch);
        if std::mem::take(&mut state.sleeps) {
            self.shared.changed.notify_all();
        }
    }

    pub(super) fn event(&self, event: Event) {
        self.note(|batch| batch.push(event));
    }

    pub(super) fn output(&self, bytes: &[u8]) {
        self.note(|batch| batch.output(bytes));
    }

    /// Somebody wants to see the screen now.
    pub(super) fn look(&self) {
        let mut state = self.lock();
        state.batch.is_looked_at = true;
        state.sleeps = false;
        self.shared.changed.notify_all();
    }

    /// Nothing comes any more.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.has_ended = true;
        state.batch.has_ended = true;
        self.shared.changed.notify_all();
    }

    /// Waits until something happens, or until `at`, and then a moment more, so that what belongs
    /// together comes together and a burst is looked at once.
    pub(super) fn next(&self, at: Option<Instant>, moment: Duration) -> Batch {
        let mut state = self.lock();
        while state.batch.is_empty() {
            state.sleeps = true;
            let Some(at) = at else {
                state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.wait(state, left);
        }
        state.sleeps = false;
        let end = Instant::now() + moment;
        while !state.batch.is_looked_at && !state.has_ended && !state.batch.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.wait(state, left);
        }
        std::mem::take(&mut state.batch)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, left: Duration) -> MutexGuard<'a, State> {
        let waited = self.shared.changed.wait_timeout(state, left);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_dropped_and_the_rest_is_kept() {
        let feed = Feed::default();
        feed.event(Event::Sign(Sign::Progress(true)));
        for _ in 0..100 {
            feed.output(&vec![b'x'; 64 * 1024]);
        }
        let batch = feed.next(None, Duration::ZERO);
        assert!(batch.lost);
        assert!(matches!(batch.events.iter().collect::<Vec<_>>()[..], [Event::Sign(_)]));
        feed.output(b"more");
        let batch = feed.next(None, Duration::ZERO);
        assert!(!batch.lost);
        assert_eq!(batch.events.len(), 1);
    }

    #[test]
    fn memory_is_bounded_whatever_comes() {
        let feed = Feed::default();
        for _ in 0..5000 {
            feed.event(Event::HiddenInput);
            feed.event(Event::Input(vec![b'x'; 1024]));
            feed.output(b"x");
        }
        let batch = feed.next(None, Duration::ZERO);
        assert!(batch.events.len() <= EVENTS && batch.bytes <= LIMIT);
    }

    #[test]
    fn what_comes_together_is_one_batch() {
        let feed = Feed::default();
        feed.output(b"a");
        feed.output(b"b");
        feed.event(Event::Input(b"c".to_vec()));
        let batch = feed.next(None, Duration::from_millis(1));
        assert!(matches!(&batch.events[0], Event::Output(bytes) if bytes == b"ab"));
        assert_eq!(batch.events.len(), 2);
        let soon = Instant::now() + Duration::from_millis(1);
        assert!(feed.next(Some(soon), Duration::ZERO).is_empty(), "the time is over");
    }
}
