//! What passes between the agent and its terminal, handed to who looks at it.

use super::feed::{Event, Feed};
use super::place::Place;
use crate::session::{Rank, State};
use crate::wrap::program_status::{self, Records};
use crate::wrap::{Sign, Tap, TerminalModes};

/// Takes the agent's own word from its output at once, and leaves everything else to the thread that
/// looks at the feed: the relay waits for nobody.
pub(super) struct Signals {
    session: Place,
    records: Records,
    feed: Feed,
}

impl Signals {
    pub(super) fn new(session: Place, feed: Feed) -> Self {
        Self { session, records: Records::default(), feed }
    }
}

impl Signals {
    /// Something of this agent's, unless another one has the terminal. Asked here: by the time that somebody
    /// looks, that one may be gone.
    fn own(&self, event: Event) {
        if !self.session.is_lent() {
            self.feed.event(event);
        }
    }
}

impl Tap for Signals {
    fn started(&mut self, _agent: u32) {
        self.session.announce();
    }

    /// Before the agent's own processes hear of it, which drop what they ask.
    fn asked_to_end(&mut self) {
        self.session.leave();
    }

    fn output(&mut self, bytes: &[u8]) {
        self.feed.output(bytes);
    }

    fn program_status(&mut self, event: program_status::Event) {
        // It is another agent's word, of which its own session tells.
        if self.session.is_lent() {
            return;
        }
        // A question says nothing, and an agent that has nothing to report changes nothing.
        let reported = self.records.aggregate().is_some();
        if event == program_status::Event::Query {
            return;
        }
        self.records.apply(event);
        let aggregate = self.records.aggregate();
        if !reported && aggregate.is_none() {
            return;
        }
        let state = match aggregate.as_ref().map(|record| record.state) {
            Some(program_status::State::Working) => State::Working,
            Some(program_status::State::Blocked) => State::Blocked,
            // Done and error are the end of a turn, and so is no record at all.
            _ => State::Idle,
        };
        let message = aggregate.as_ref().and_then(|record| record.message.as_deref());
        self.session.signal(Rank::ProgramStatus, state, message);
        if reported != aggregate.is_some() {
            self.feed.note(|batch| batch.reports = Some(!reported));
        }
    }

    fn sign(&mut self, sign: Sign) {
        self.own(Event::Sign(sign));
    }

    fn modes(&mut self, modes: TerminalModes) {
        self.feed.note(|batch| batch.modes = Some(modes));
    }

    fn resized(&mut self, rows: u16, columns: u16) {
        self.feed.note(|batch| batch.size = Some((rows, columns)));
    }

    fn input(&mut self, bytes: &[u8]) {
        self.own(Event::Input(bytes.to_vec()));
    }

    fn hidden_input(&mut self) {
        self.own(Event::HiddenInput);
    }

    fn suspended(&mut self) {
        self.feed.note(|batch| batch.suspended = Some(true));
    }

    fn resumed(&mut self) {
        self.feed.note(|batch| batch.suspended = Some(false));
        self.session.resumed();
    }
}
