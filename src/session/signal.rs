//! Evidence of the state, and which piece of it to believe.

use std::time::{Duration, Instant};

use super::State;

/// For how long a signal keeps a less trusted one from being believed.
///
/// Long enough that a late terminal sequence does not undo the agent's own word; short enough that
/// an interrupt, for which most agents' hooks say nothing, is seen by its terminal sequence.
pub(crate) const FRESH: Duration = Duration::from_secs(3);

/// How far a signal is trusted, the most trusted last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// Nothing comes any more. It ends what the keys began, and nothing else: a long step is silent, too.
    Silence,
    /// What the agent's screen shows.
    Screen,
    /// What the user has typed.
    Keys,
    /// Titles, progress, marks of a shell: what the agent tells its terminal.
    Terminal,
    /// OSC 7501 in the agent's output: the agent's word by way of the terminal.
    ProgramStatus,
    /// The agent's own word: the API, the link, a hook.
    Word,
}

const RANKS: usize = 6;

/// One piece of evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Signal {
    state: State,
    message: Option<String>,
    at: Instant,
}

/// The newest signal of every rank.
#[derive(Debug, Default)]
pub(super) struct Signals {
    newest: [Option<Signal>; RANKS],
}

/// What the signals add up to at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict<'a> {
    pub(super) state: State,
    pub(super) message: Option<&'a str>,
    /// When a signal that was held back may be believed, if nothing else comes.
    pub(super) changes_at: Option<Instant>,
}

impl Signals {
    /// Takes note of a signal; it replaces the earlier one of its rank.
    pub(super) fn note(&mut self, rank: Rank, state: State, message: Option<&str>, at: Instant) {
        let slot = &mut self.newest[rank as usize];
        match slot {
            // The common case of a repeated state allocates nothing.
            Some(signal) if signal.state == state && signal.message.as_deref() == message => {
                signal.at = at;
            }
            _ => *slot = Some(Signal { state, message: message.map(str::to_owned), at }),
        }
    }

    /// Whether something better than keys says that the agent is not idle.
    fn is_more_than_keys(&self) -> bool {
        self.newest.iter().enumerate().any(|(rank, signal)| {
            let is_idle = signal.as_ref().is_none_or(|signal| signal.state == State::Idle);
            !is_idle && rank != Rank::Keys as usize && rank != Rank::Silence as usize
        })
    }

    /// The newest signal wins, but one that came while a more trusted one was fresh waits until
    /// that one no longer is.
    pub(super) fn verdict(&self, now: Instant) -> Verdict<'_> {
        let mut best: Option<&Signal> = None;
        let mut changes_at = None;
        // From the least trusted upwards: each more trusted signal takes over if it is newer than
        // what we have, or still fresh.
        for (rank, signal) in self.newest.iter().enumerate() {
            let Some(signal) = signal else { continue };
            if rank == Rank::Silence as usize && self.is_more_than_keys() {
                continue;
            }
            match best {
                Some(lower) if lower.at > signal.at && now >= signal.at + FRESH => {}
                Some(lower) => {
                    changes_at = (lower.at > signal.at).then(|| signal.at + FRESH);
                    best = Some(signal);
                }
                None => best = Some(signal),
            }
        }
        match best {
            Some(signal) => {
                Verdict { state: signal.state, message: signal.message.as_deref(), changes_at }
            }
            None => Verdict { state: State::Idle, message: None, changes_at: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state_at(signals: &Signals, at: Instant) -> (State, Option<Instant>) {
        let verdict = signals.verdict(at);
        (verdict.state, verdict.changes_at)
    }

    #[test]
    fn silence_is_idle() {
        assert_eq!(state_at(&Signals::default(), Instant::now()), (State::Idle, None));
    }

    #[test]
    fn a_less_trusted_signal_does_not_override_a_fresh_word() {
        let start = Instant::now();
        let later = start + Duration::from_secs(1);
        let mut signals = Signals::default();
        signals.note(Rank::Word, State::Working, None, start);
        signals.note(Rank::ProgramStatus, State::Idle, None, later);
        assert_eq!(state_at(&signals, later), (State::Working, Some(start + FRESH)));
    }

    /// An interrupt fires no hook in Claude Code: its terminal sequence has to be believed in the end.
    #[test]
    fn a_less_trusted_signal_is_believed_once_the_word_is_stale() {
        let start = Instant::now();
        let mut signals = Signals::default();
        signals.note(Rank::Word, State::Working, None, start);
        signals.note(Rank::ProgramStatus, State::Idle, None, start + Duration::from_secs(1));
        assert_eq!(state_at(&signals, start + FRESH), (State::Idle, None));
    }

    #[test]
    fn silence_ends_only_what_the_keys_began() {
        let start = Instant::now();
        let later = start + Duration::from_secs(10);
        for (rank, state) in [
            (Rank::Keys, State::Idle),
            (Rank::Screen, State::Working),
            (Rank::Terminal, State::Working),
            (Rank::ProgramStatus, State::Working),
            (Rank::Word, State::Working),
        ] {
            let mut signals = Signals::default();
            signals.note(rank, State::Working, None, start);
            signals.note(Rank::Silence, State::Idle, None, later);
            assert_eq!(state_at(&signals, later).0, state, "{rank:?}");
        }
    }

    #[test]
    fn the_order_of_trust() {
        let order = [
            Rank::Silence,
            Rank::Screen,
            Rank::Keys,
            Rank::Terminal,
            Rank::ProgramStatus,
            Rank::Word,
        ];
        assert!(order.is_sorted());
        assert_eq!(order.len(), RANKS);
    }

    #[test]
    fn a_newer_word_wins_at_once() {
        let start = Instant::now();
        let mut signals = Signals::default();
        signals.note(Rank::ProgramStatus, State::Working, None, start);
        signals.note(Rank::Word, State::Blocked, Some("login"), start);
        let verdict = signals.verdict(start);
        assert_eq!((verdict.state, verdict.message), (State::Blocked, Some("login")));
        assert_eq!(verdict.changes_at, None);
    }
}
