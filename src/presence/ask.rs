//! Open questions to the user, and their answers.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use tokio::sync::oneshot;

use super::inner::{SessionInner, lock};
use super::sync::Mutex;
use crate::collie::{self, Answer, AskClosed, AskInput, DecidedBy, ask_id_for};

/// How many answers wait for their question to be raised again, in one session.
const UNTAKEN_LIMIT: usize = 100;

/// Why a question was not put to the user.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// Collie is off, so no card can be shown.
    #[error("there is nobody to ask: Collie is off")]
    NobodyToAsk {},
    /// The system gives no randomness for the id of the ask.
    #[error("the ask has no id: {0}")]
    Random(#[source] std::io::Error),
    /// The arguments of the call cannot be shown.
    #[error("the arguments of the call do not serialise: {0}")]
    Arguments(String),
    /// The question breaks a rule of Collie's.
    #[error(transparent)]
    Question(#[from] collie::AskError),
}

type Outcome = Result<Answer, AskClosed>;

/// Answers that came for an ask whose asker was gone, by the ask's id, with the words that were
/// answered: the same question, raised again, gets its answer. Only once, and only for the same
/// words: anything else has to be asked again.
#[derive(Debug, Default)]
pub(super) struct Untaken(Mutex<HashMap<String, (String, Answer)>>);

impl Untaken {
    fn keep(&self, ask: &str, words: &str, answer: Answer) {
        let mut kept = lock(&self.0);
        if kept.len() < UNTAKEN_LIMIT {
            kept.insert(ask.to_owned(), (words.to_owned(), answer));
        }
    }

    fn take(&self, ask: &str, words: &str) -> Option<Answer> {
        let (answered, answer) = lock(&self.0).remove(ask)?;
        (answered == words).then_some(answer)
    }
}

/// An ask that waits for the user: a future for any executor, or [`Ask::wait`] without one.
///
/// Dropped before it is answered, it withdraws its card.
#[must_use = "dropping an ask withdraws it"]
pub struct Ask {
    id: String,
    session: Arc<SessionInner>,
    /// None: the outcome was taken.
    outcome: Option<oneshot::Receiver<Outcome>>,
    /// What is asked, where an untaken answer may be kept for it.
    words: Option<String>,
}

impl fmt::Debug for Ask {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Ask").field(&self.id).finish()
    }
}

impl Ask {
    /// The id of the ask.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Waits for the answer. Not for use inside an asynchronous task, where it would panic: await
    /// the ask there.
    ///
    /// # Errors
    /// The ask was closed without an answer.
    pub fn wait(mut self) -> Result<Answer, AskClosed> {
        // The card stays until the answer is here.
        let outcome = self.outcome.take().and_then(|outcome| outcome.blocking_recv().ok());
        let outcome = outcome.unwrap_or_else(|| Err(gone()));
        self.taken(&outcome);
        outcome
    }

    /// Only now: an answer that reached nobody is there for the same question, after a restart too.
    fn taken(&self, outcome: &Outcome) {
        if let (Ok(_), Some(_), Some(pane)) = (outcome, &self.words, &self.session.pane) {
            pane.answer_taken(&self.id);
        }
    }
}

impl Future for Ask {
    type Output = Result<Answer, AskClosed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(outcome) = &mut self.outcome else {
            return Poll::Ready(Err(gone()));
        };
        // The sender is dropped unsent only when the presence ended: no answer was given.
        let outcome = std::task::ready!(Pin::new(outcome).poll(context));
        self.outcome = None;
        let outcome = outcome.unwrap_or_else(|_| Err(gone()));
        self.taken(&outcome);
        Poll::Ready(outcome)
    }
}

impl Drop for Ask {
    fn drop(&mut self) {
        // Changes nothing where the ask is decided.
        if let Some(pane) = &self.session.pane {
            pane.withdraw(&self.id);
        }
        // An answer that came meanwhile is not lost.
        if let (Some(mut outcome), Some(words)) = (self.outcome.take(), &self.words) {
            outcome.close();
            if let Ok(Ok(answer)) = outcome.try_recv() {
                self.session.untaken.keep(&self.id, words, answer);
            }
        }
    }
}

/// Whether a tool may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Only ever true when a person said yes.
    pub approved: bool,
    /// Who decided: a denial, a withdrawal and a timeout stay distinguishable (N099).
    pub decided_by: DecidedBy,
    /// The id of the ask.
    pub ask_id: String,
}

/// An approval that waits for the user: a future, as [`Ask`] is.
#[derive(Debug)]
#[must_use = "dropping an approval withdraws it"]
pub struct Approval(Ask);

impl Approval {
    pub(super) fn new(ask: Ask) -> Self {
        Self(ask)
    }

    /// The id of the ask.
    pub fn id(&self) -> &str {
        self.0.id()
    }

    /// Waits for the verdict, as [`Ask::wait`] does.
    pub fn wait(self) -> Verdict {
        let ask_id = self.id().to_owned();
        verdict(ask_id, self.0.wait())
    }
}

impl Future for Approval {
    type Output = Verdict;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Verdict> {
        let outcome = Pin::new(&mut self.0).poll(context);
        outcome.map(|outcome| verdict(self.id().to_owned(), outcome))
    }
}

fn verdict(ask_id: String, outcome: Outcome) -> Verdict {
    match outcome {
        Ok(answer) => Verdict { approved: answer.allowed(), decided_by: DecidedBy::Phone, ask_id },
        Err(closed) => Verdict { approved: false, decided_by: closed.decided_by, ask_id },
    }
}

/// What an ask comes to when its presence ends first: no answer was given.
fn gone() -> AskClosed {
    AskClosed { decided_by: DecidedBy::Program, decided_at: SystemTime::now() }
}

/// Shows the card. `call`: the tool call, from which the id of the ask is derived, and what is asked
/// about it; without it, the ask has an id of its own in `input`.
pub(super) fn raise(
    session: &Arc<SessionInner>,
    title: &str,
    input: AskInput,
    call: Option<(&str, String)>,
) -> Result<Ask, AskError> {
    let Some(pane) = &session.pane else {
        return Err(AskError::NobodyToAsk {});
    };
    let (decided, outcome) = oneshot::channel();
    let call = call.map(|(call, words)| (ask_id_for(pane.id(), call), words));
    if let Some((id, words)) = &call
        && let Some(answer) = session.untaken.take(id, words)
    {
        let _ = decided.send(Ok(answer));
        let (id, words) = (id.clone(), Some(words.clone()));
        return Ok(Ask { id, session: Arc::clone(session), outcome: Some(outcome), words });
    }
    let key = lock(&session.model).ask_opened(title);
    let closing = Arc::clone(session);
    let kept = call.clone();
    // Runs before the phone hears that its answer was taken: who polls after that sees both faces
    // switched back.
    let closed = move |result| {
        lock(&closing.model).unblock(key);
        closing.publish();
        if let (Err(Ok(answer)), Some((id, words))) = (decided.send(result), kept) {
            closing.untaken.keep(&id, &words, answer);
        }
    };
    let can_come_again = call.is_some();
    let (raised, _) = session.publish_with(|edit| match edit {
        // It was replaced, and its pane stays: what is asked there from now on nobody would close.
        Some(_) if session.has_ended() => Err(collie::AskError::PaneClosed.into()),
        Some(edit) if can_come_again => edit.ask_told(input, closed).map_err(AskError::Question),
        Some(edit) => edit.ask_with(input.only_now(), closed).map_err(AskError::Question),
        None => Err(AskError::NobodyToAsk {}),
    });
    match raised {
        Ok(id) => {
            let words = call.map(|(_, words)| words);
            Ok(Ask { id, session: Arc::clone(session), outcome: Some(outcome), words })
        }
        Err(error) => {
            lock(&session.model).unblock(key);
            session.publish();
            Err(error)
        }
    }
}

/// Cards from before the agent was started again: nobody waits for them until their question is raised
/// again, and the phone can answer them all the same.
impl SessionInner {
    /// The session is blocked as long as one is open.
    pub(super) fn blocked_by_cards_from_before(self: &Arc<Self>) {
        let Some(pane) = &self.pane else { return };
        pane.edit(|edit| {
            for (id, title) in edit.asks_from_before() {
                let key = lock(&self.model).ask_opened(&title);
                let session = Arc::downgrade(self);
                edit.watch_from_before(&id, move || {
                    if let Some(session) = session.upgrade() {
                        lock(&session.model).unblock(key);
                        session.publish();
                    }
                });
            }
        });
    }

    pub(super) fn withdraw_cards_from_before(&self) {
        let Some(pane) = &self.pane else { return };
        pane.edit(|edit| {
            for (id, _) in edit.asks_from_before() {
                edit.withdraw(&id);
            }
        });
    }
}
