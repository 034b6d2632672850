//! Herdr's reporter in small: it writes down what it is told.

pub(crate) use agent_presence::herdr::{Metadata, ResumeCommand, State};

use loom::sync::Mutex;

#[derive(Debug)]
pub(crate) struct Reporter {
    /// Every session and state that was told, in order.
    told: Mutex<Vec<(String, State)>>,
}

impl Reporter {
    pub(crate) fn new() -> Self {
        Self { told: Mutex::new(Vec::new()) }
    }

    pub(crate) fn report(&self, state: State, _message: Option<&str>) {
        let mut told = self.told.lock().unwrap();
        let session = told.last().map(|(session, _)| session.clone()).unwrap_or_default();
        note(&mut told, session, state);
    }

    pub(crate) fn switch(
        &self,
        session: &str,
        _resume: Option<ResumeCommand>,
        state: State,
        _message: Option<&str>,
    ) {
        note(&mut self.told.lock().unwrap(), session.to_owned(), state);
    }

    #[expect(clippy::unused_self, reason = "as the real one")]
    pub(crate) fn metadata(&self, _metadata: Metadata) {}

    /// The real one tells Herdr once more what it knows.
    #[expect(clippy::unused_self, reason = "as the real one")]
    pub(crate) fn resumed(&self) {}

    pub(crate) fn release(&self) {
        self.told.lock().unwrap().clear();
    }

    pub(crate) fn told(&self) -> Vec<(String, State)> {
        self.told.lock().unwrap().clone()
    }
}

fn note(told: &mut Vec<(String, State)>, session: String, state: State) {
    if told.last() != Some(&(session.clone(), state)) {
        told.push((session, state));
    }
}
