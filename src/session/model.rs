//! The state of one session, as a value that is told what happened and when.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use super::signal::{Rank, Signals};

/// How long idle is held back after working, so that a flap of an agent between two steps is not
/// shown, nor notified.
const IDLE_HOLD: Duration = Duration::from_millis(300);

/// What an agent is doing, in Herdr's words. Collie calls blocked `waiting`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Nothing runs; the user may give the next task.
    Idle,
    /// A turn runs.
    Working,
    /// The agent needs the user before it can go on.
    Blocked,
}

/// The stable id of one conversation of an agent.
///
/// 1 to 128 bytes; no control character or other character of Unicode's category C, no white space,
/// none of `/`, `?` and `#` (N049): the id is one segment of a path on Collie's wire.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionId(String);

/// Which rule a session id broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionIdError {
    /// Nothing in it.
    #[error("session id is empty")]
    Empty,
    /// More than 128 bytes.
    #[error("session id has {length} bytes, the limit is 128")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// A character that an id may not hold.
    #[error(
        "session id has {character:?} at byte {position}; white space, control characters, `/`, `?` and `#` are not allowed"
    )]
    Character {
        /// The character.
        character: char,
        /// Where it is, in bytes.
        position: usize,
    },
}

impl SessionId {
    /// Checks an id.
    ///
    /// # Errors
    /// The rule that broke, and where.
    pub fn new(id: &str) -> Result<Self, SessionIdError> {
        if id.is_empty() {
            return Err(SessionIdError::Empty);
        }
        if id.len() > 128 {
            return Err(SessionIdError::TooLong { length: id.len() });
        }
        let forbidden =
            |c: char| c.is_control() || c.is_whitespace() || matches!(c, '/' | '?' | '#');
        match id.char_indices().find(|&(_, character)| forbidden(character)) {
            Some((position, character)) => Err(SessionIdError::Character { character, position }),
            None => Ok(Self(id.to_owned())),
        }
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What the faces are to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) state: State,
    /// Why the agent is blocked, or what it works on.
    pub(crate) message: Option<String>,
    /// The number of the running turn, or of the last one; 0 before the first.
    pub(crate) turn: u64,
    /// A turn runs, or pauses because the agent needs the user.
    pub(crate) turn_runs: bool,
    /// Blocked by a question that has a card: the message is its title.
    pub(crate) is_asked: bool,
}

/// Names one reason of a session to be blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReasonKey(u64);

/// Why a session is blocked, apart from its base state.
#[derive(Debug)]
struct Reason {
    /// A question's title, or what the agent said.
    text: String,
    /// It is a question with a card.
    is_ask: bool,
}

/// One session.
#[derive(Debug)]
pub(crate) struct Model {
    signals: Signals,
    /// The open asks and the other reasons to be blocked, oldest first. A set and not a flag: the
    /// end of one reason does not end the others.
    reasons: BTreeMap<ReasonKey, Reason>,
    reasons_given: u64,
    /// The turn that runs, or the last one.
    turn: u64,
    turn_runs: bool,
    /// What was last handed out by [`Model::show`].
    shown: State,
    /// Since when idle waits to be shown.
    idle_since: Option<Instant>,
    /// For how long it waits.
    hold: Duration,
}

impl Model {
    pub(crate) fn new() -> Self {
        Self {
            signals: Signals::default(),
            reasons: BTreeMap::new(),
            reasons_given: 0,
            turn: 0,
            turn_runs: false,
            shown: State::Idle,
            idle_since: None,
            hold: IDLE_HOLD,
        }
    }

    /// Takes note of what a signal says of the state.
    pub(crate) fn signal(&mut self, rank: Rank, state: State, message: Option<&str>, now: Instant) {
        if state == State::Working {
            // A new spell of work: the hold of an earlier idle is over.
            self.idle_since = None;
        }
        self.signals.note(rank, state, message, now);
    }

    /// An ask was raised: blocked until the last reason is gone.
    pub(crate) fn ask_opened(&mut self, title: &str) -> ReasonKey {
        self.block(title, true)
    }

    /// Something that is no ask keeps the agent from going on.
    pub(crate) fn blocked_by(&mut self, why: &str) -> ReasonKey {
        self.block(why, false)
    }

    fn block(&mut self, text: &str, is_ask: bool) -> ReasonKey {
        self.reasons_given += 1;
        let key = ReasonKey(self.reasons_given);
        self.reasons.insert(key, Reason { text: text.to_owned(), is_ask });
        key
    }

    /// An ask was answered, withdrawn or timed out, or another reason is gone.
    pub(crate) fn unblock(&mut self, key: ReasonKey) {
        self.reasons.remove(&key);
    }

    /// The agent is gone: nothing runs, nothing is asked, and nothing is held back any more.
    pub(crate) fn ended(&mut self, now: Instant) {
        self.reasons.clear();
        self.signals = Signals::default();
        self.signals.note(Rank::Word, State::Idle, None, now);
        self.settle();
    }

    /// Nothing comes after this: what is held back is shown with the next call of [`Model::show`].
    pub(crate) fn settle(&mut self) {
        self.hold = Duration::ZERO;
    }

    /// What is to be shown now, and when to ask again if nothing happens before.
    pub(crate) fn show(&mut self, now: Instant) -> (Shown, Option<Instant>) {
        let verdict = self.signals.verdict(now);
        let base = verdict.state;
        let mut ask_again = verdict.changes_at;
        let mut message = verdict.message;

        if base == State::Working && !self.turn_runs {
            self.turn += 1;
        }
        // Blocked is a pause of a turn, not its end.
        self.turn_runs = match base {
            State::Working => true,
            State::Idle => false,
            State::Blocked => self.turn_runs,
        };

        let mut state = base;
        let mut is_asked = false;
        if let Some((_, reason)) = self.reasons.first_key_value() {
            state = State::Blocked;
            message = Some(&reason.text);
            is_asked = reason.is_ask;
        }

        if state == State::Idle && self.shown == State::Working {
            let since = *self.idle_since.get_or_insert(now);
            if now < since + self.hold {
                state = State::Working;
                message = None;
                let shown_at = since + self.hold;
                ask_again = Some(ask_again.map_or(shown_at, |at| at.min(shown_at)));
            }
        } else {
            self.idle_since = None;
        }
        let message = message.map(str::to_owned);
        self.shown = state;
        let (turn, turn_runs) = (self.turn, self.turn_runs);
        (Shown { state, message, turn, turn_runs, is_asked }, ask_again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(model: &mut Model, now: Instant) -> State {
        model.show(now).0.state
    }

    fn say(model: &mut Model, state: State, now: Instant) {
        model.signal(Rank::Word, state, None, now);
    }

    #[test]
    fn an_ask_blocks_and_its_answer_goes_back_to_what_was() {
        let now = Instant::now();
        let mut model = Model::new();
        say(&mut model, State::Working, now);
        assert_eq!(state(&mut model, now), State::Working);
        let ask = model.ask_opened("Deploy?");
        let (shown, _) = model.show(now);
        assert_eq!((shown.state, shown.message.as_deref()), (State::Blocked, Some("Deploy?")));
        model.unblock(ask);
        assert_eq!(state(&mut model, now), State::Working);
    }

    #[test]
    fn blocked_until_the_last_ask_is_closed() {
        let now = Instant::now();
        let mut model = Model::new();
        let first = model.ask_opened("first");
        let second = model.ask_opened("second");
        assert_eq!(model.show(now).0.message.as_deref(), Some("first"));
        model.unblock(first);
        assert_eq!(model.show(now).0.message.as_deref(), Some("second"));
        model.unblock(second);
        assert_eq!(state(&mut model, now), State::Idle);
    }

    #[test]
    fn reasons_to_be_blocked_are_a_set() {
        let now = Instant::now();
        let mut model = Model::new();
        say(&mut model, State::Working, now);
        let login = model.blocked_by("log in");
        let ask = model.ask_opened("Deploy?");
        let (shown, _) = model.show(now);
        assert_eq!((shown.message.as_deref(), shown.is_asked), (Some("log in"), false));
        model.unblock(login);
        let (shown, _) = model.show(now);
        assert_eq!((shown.message.as_deref(), shown.is_asked), (Some("Deploy?"), true));
        model.unblock(ask);
        assert_eq!(state(&mut model, now), State::Working);
    }

    #[test]
    fn a_state_said_while_an_ask_is_open_shows_after_it() {
        let now = Instant::now();
        let mut model = Model::new();
        say(&mut model, State::Working, now);
        state(&mut model, now);
        let ask = model.ask_opened("Deploy?");
        state(&mut model, now);
        say(&mut model, State::Idle, now);
        assert_eq!(state(&mut model, now), State::Blocked);
        model.unblock(ask);
        assert_eq!(state(&mut model, now), State::Idle, "no hold: blocked was shown, not working");
    }

    #[test]
    fn a_flap_to_idle_is_not_shown() {
        let start = Instant::now();
        let mut model = Model::new();
        say(&mut model, State::Working, start);
        state(&mut model, start);
        let flap = start + Duration::from_millis(50);
        say(&mut model, State::Idle, flap);
        let (shown, ask_again) = model.show(flap);
        assert_eq!((shown.state, ask_again), (State::Working, Some(flap + IDLE_HOLD)));
        say(&mut model, State::Working, flap + Duration::from_millis(50));
        assert_eq!(state(&mut model, flap + Duration::from_millis(50)), State::Working);
        // The hold starts anew with the next idle.
        let end = flap + Duration::from_millis(290);
        say(&mut model, State::Idle, end);
        assert_eq!(state(&mut model, end), State::Working);
        assert_eq!(state(&mut model, end + IDLE_HOLD), State::Idle);
    }

    #[test]
    fn an_agent_that_is_gone_is_idle_at_once() {
        let now = Instant::now();
        let mut model = Model::new();
        say(&mut model, State::Working, now);
        model.ask_opened("Deploy?");
        assert_eq!(state(&mut model, now), State::Blocked);
        model.ended(now);
        let (shown, ask_again) = model.show(now);
        assert_eq!((shown.state, shown.message, ask_again), (State::Idle, None, None));
    }

    #[test]
    fn a_turn_goes_from_working_to_idle_and_blocked_does_not_end_it() {
        let mut now = Instant::now();
        let mut model = Model::new();
        assert_eq!(model.show(now).0.turn, 0);
        for (said, turn) in [
            (State::Working, 1),
            (State::Blocked, 1),
            (State::Working, 1),
            (State::Idle, 1),
            (State::Blocked, 1),
            (State::Working, 2),
        ] {
            now += Duration::from_secs(1);
            say(&mut model, said, now);
            assert_eq!(model.show(now).0.turn, turn, "after {said:?}");
        }
    }

    #[test]
    fn session_ids_are_checked() {
        for (id, error) in [
            ("", SessionIdError::Empty),
            ("a b", SessionIdError::Character { character: ' ', position: 1 }),
            ("a/b", SessionIdError::Character { character: '/', position: 1 }),
            ("é\u{85}", SessionIdError::Character { character: '\u{85}', position: 2 }),
        ] {
            assert_eq!(SessionId::new(id), Err(error));
        }
        let longest = "x".repeat(128);
        assert!(SessionId::new(&longest).is_ok());
        assert_eq!(
            SessionId::new(&format!("{longest}x")),
            Err(SessionIdError::TooLong { length: 129 })
        );
    }
}
