//! Collie's pane in small: a core with one lock, and callbacks that run when it is let go.

pub(crate) use agent_presence::collie::{
    AskError, DecidedBy, HookError, Item, NoticeLevel, PaneError, PaneState, Target, ask_id_for,
};

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::SystemTime;

use loom::sync::Mutex;

#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub(crate) is_yes: bool,
}

impl Answer {
    pub(crate) fn allowed(&self) -> bool {
        self.is_yes
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskClosed {
    pub(crate) decided_by: DecidedBy,
    pub(crate) decided_at: SystemTime,
}

type Verdict = Result<Answer, AskClosed>;
type Decided = Box<dyn FnOnce(Verdict) + Send>;

/// An ask, by its id.
#[derive(Debug)]
pub(crate) struct AskInput {
    pub(crate) id: String,
}

impl AskInput {
    pub(crate) fn only_now(self) -> Self {
        self
    }
}

#[derive(Default)]
struct Data {
    /// Every state that was told, in order.
    states: Vec<PaneState>,
    asks: Vec<(String, Decided)>,
    is_closed: bool,
}

#[derive(Clone)]
pub(crate) struct Pane {
    data: Arc<Mutex<Data>>,
}

impl fmt::Debug for Pane {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Pane")
    }
}

pub(crate) struct PaneEdit<'a, 'b> {
    data: &'a mut Data,
    closed: Vec<(Decided, Verdict)>,
    marker: PhantomData<&'b ()>,
}

impl Pane {
    pub(crate) fn new() -> Self {
        Self { data: Arc::new(Mutex::new(Data::default())) }
    }

    #[expect(clippy::unused_self, reason = "as the real one")]
    pub(crate) fn id(&self) -> &'static str {
        "s"
    }

    pub(crate) fn edit<R>(&self, function: impl FnOnce(&mut PaneEdit<'_, '_>) -> R) -> R {
        let mut data = self.data.lock().unwrap();
        let mut edit = PaneEdit { data: &mut data, closed: Vec::new(), marker: PhantomData };
        let result = function(&mut edit);
        let closed = std::mem::take(&mut edit.closed);
        drop(data);
        for (decided, verdict) in closed {
            decided(verdict);
        }
        result
    }

    /// Decides an ask; false if it was decided before.
    pub(crate) fn decide(&self, ask: &str, verdict: Verdict) -> bool {
        self.edit(|edit| edit.decide(ask, verdict))
    }

    pub(crate) fn withdraw(&self, ask: &str) {
        self.decide(ask, closed_by(DecidedBy::Program));
    }

    pub(crate) fn close(&self) {
        self.edit(|edit| {
            edit.data.is_closed = true;
            let asks: Vec<_> = edit.data.asks.iter().map(|(id, _)| id.clone()).collect();
            for ask in asks {
                edit.decide(&ask, closed_by(DecidedBy::Program));
            }
        });
    }

    /// It was never here before.
    #[expect(clippy::unused_self, reason = "as the real one")]
    pub(crate) fn turn_id(&self) -> Option<String> {
        None
    }

    // Nothing is kept on disk.
    #[expect(clippy::unused_self, reason = "as the real one")]
    pub(crate) fn answer_taken(&self, _ask: &str) {}

    #[expect(clippy::unused_self, reason = "as the real one")]
    pub(crate) fn giving(&self, _request_id: &str) {}

    #[expect(clippy::unused_self, reason = "as the real one")]
    pub(crate) fn not_taken(&self, _request_id: &str) {}

    pub(crate) fn states(&self) -> Vec<PaneState> {
        self.data.lock().unwrap().states.clone()
    }

    pub(crate) fn open_asks(&self) -> usize {
        self.data.lock().unwrap().asks.len()
    }
}

impl PaneEdit<'_, '_> {
    pub(crate) fn state(&mut self, state: PaneState, _turn: Option<&str>) {
        if self.data.states.last() != Some(&state) {
            self.data.states.push(state);
        }
    }

    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as the real one")]
    pub(crate) fn item(&mut self, _item: Item) -> Result<(), PaneError> {
        Ok(())
    }

    pub(crate) fn ask_with(
        &mut self,
        input: AskInput,
        decided: impl FnOnce(Verdict) + Send + 'static,
    ) -> Result<String, AskError> {
        if self.data.is_closed {
            return Err(AskError::PaneClosed);
        }
        self.data.asks.push((input.id.clone(), Box::new(decided)));
        Ok(input.id)
    }

    pub(crate) fn ask_told(
        &mut self,
        input: AskInput,
        decided: impl FnOnce(Verdict) + Send + 'static,
    ) -> Result<String, AskError> {
        self.ask_with(input, decided)
    }

    /// There is nothing from before.
    #[expect(clippy::unused_self, reason = "as the real one")]
    pub(crate) fn asks_from_before(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    #[expect(clippy::unused_self, reason = "as the real one")]
    pub(crate) fn watch_from_before(&mut self, _ask: &str, _ended: impl FnOnce() + Send + 'static) {
    }

    pub(crate) fn withdraw(&mut self, ask: &str) {
        self.decide(ask, closed_by(DecidedBy::Program));
    }

    fn decide(&mut self, ask: &str, verdict: Verdict) -> bool {
        let Some(place) = self.data.asks.iter().position(|(id, _)| id == ask) else { return false };
        let (_, decided) = self.data.asks.remove(place);
        self.closed.push((decided, verdict));
        true
    }
}

pub(crate) fn closed_by(decided_by: DecidedBy) -> Verdict {
    Err(AskClosed { decided_by, decided_at: SystemTime::UNIX_EPOCH })
}
