//! Questions to the user, and their answers.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tokio::sync::oneshot;

use super::session::{SessionInner, lock};
use crate::collie::{self, Answer, AskClosed, AskInput, AskOption, DecidedBy};
use crate::os::random;

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
    /// The question breaks a rule of Collie's.
    #[error(transparent)]
    Question(#[from] collie::AskError),
}

/// A question with options that is about to be asked.
#[derive(Debug)]
pub struct Question {
    session: Arc<SessionInner>,
    title: String,
    options: Vec<AskOption>,
    timeout: Option<Duration>,
}

impl Question {
    pub(super) fn new(session: Arc<SessionInner>, title: &str) -> Self {
        Self { session, title: title.to_owned(), options: Vec::new(), timeout: None }
    }

    /// Adds an option: what comes back when it is picked, and what the user reads.
    pub fn option(mut self, id: &str, label: &str) -> Self {
        self.options.push(AskOption::new(id, label));
        self
    }

    /// Closes the card after this time; a timeout is no answer.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Shows the card. The session is blocked until it is answered.
    ///
    /// # Errors
    /// Which rule the question breaks, or that nobody can be asked.
    pub fn raise(self) -> Result<Ask, AskError> {
        let input = AskInput::choice(&self.title, self.options);
        raise(&self.session, &self.title, input, self.timeout)
    }
}

/// The question whether a tool may run, about to be asked.
#[derive(Debug)]
pub struct ApprovalQuestion {
    session: Arc<SessionInner>,
    tool: String,
    arguments: Value,
    timeout: Option<Duration>,
}

impl ApprovalQuestion {
    pub(super) fn new(session: Arc<SessionInner>, tool: &str, arguments: Value) -> Self {
        Self { session, tool: tool.to_owned(), arguments, timeout: None }
    }

    /// Closes the card after this time. A timeout never approves.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Shows the card. The session is blocked until it is answered.
    ///
    /// # Errors
    /// Which rule the question breaks, or that nobody can be asked.
    pub fn raise(self) -> Result<Approval, AskError> {
        let title = format!("{} wants to run", self.tool);
        let input = AskInput::approval(&title)
            .tool(call_summary(&self.tool, &self.arguments))
            .push(Some(&format!("{} needs a yes", self.tool)), None);
        raise(&self.session, &title, input, self.timeout).map(Approval)
    }
}

/// An ask that waits for the user: a future for any executor, or [`Ask::wait`] without one.
///
/// Dropped before it is answered, it withdraws its card.
#[derive(Debug)]
pub struct Ask {
    outcome: oneshot::Receiver<Result<Answer, AskClosed>>,
    card: Card,
}

impl Ask {
    /// The id of the ask.
    pub fn id(&self) -> &str {
        &self.card.id
    }

    /// Waits for the answer. Not for use inside an asynchronous task, where it would panic: await
    /// the ask there.
    ///
    /// # Errors
    /// The ask was closed without an answer.
    pub fn wait(self) -> Result<Answer, AskClosed> {
        // The card stays until the answer is here.
        let Self { outcome, card: _card } = self;
        outcome.blocking_recv().unwrap_or_else(|_| Err(gone()))
    }
}

impl Future for Ask {
    type Output = Result<Answer, AskClosed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // The sender is dropped unsent only when the presence ended: no answer was given.
        let outcome = Pin::new(&mut self.outcome).poll(context);
        outcome.map(|outcome| outcome.unwrap_or_else(|_| Err(gone())))
    }
}

/// Withdraws the card of an ask when it is dropped; a card that was decided stays decided.
struct Card {
    id: String,
    session: Arc<SessionInner>,
}

impl fmt::Debug for Card {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Card").field(&self.id).finish()
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        if let Some(pane) = &self.session.pane {
            pane.withdraw(&self.id);
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
pub struct Approval(Ask);

impl Approval {
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

fn verdict(ask_id: String, outcome: Result<Answer, AskClosed>) -> Verdict {
    match outcome {
        Ok(answer) => Verdict { approved: answer.allowed(), decided_by: DecidedBy::Phone, ask_id },
        Err(closed) => Verdict { approved: false, decided_by: closed.decided_by, ask_id },
    }
}

/// The call in one line, such as `refund(order: "5521", amount: 40)` (N095).
fn call_summary(tool: &str, arguments: &Value) -> String {
    let arguments: Vec<String> = match arguments {
        Value::Object(named) => {
            named.iter().map(|(name, value)| format!("{name}: {value}")).collect()
        }
        Value::Null => Vec::new(),
        other => vec![other.to_string()],
    };
    format!("{tool}({})", arguments.join(", "))
}

/// What an ask comes to when its presence ends first: no answer was given.
fn gone() -> AskClosed {
    AskClosed { decided_by: DecidedBy::Program, decided_at: SystemTime::now() }
}

fn raise(
    session: &Arc<SessionInner>,
    title: &str,
    input: AskInput,
    timeout: Option<Duration>,
) -> Result<Ask, AskError> {
    if session.pane.is_none() {
        return Err(AskError::NobodyToAsk {});
    }
    let id = random::hex(16).map_err(AskError::Random)?;
    let input = match timeout {
        Some(timeout) => input.id(id).timeout(timeout),
        None => input.id(id),
    };
    let (decided, outcome) = oneshot::channel();
    let key = lock(&session.model).ask_opened(title);
    let closing = Arc::clone(session);
    // Runs before the phone hears that its answer was taken: who polls after that sees both faces
    // switched back.
    let closed = move |result| {
        lock(&closing.model).ask_closed(key);
        closing.publish();
        let _ = decided.send(result);
    };
    let (raised, _) = session.publish_with(|edit| match edit {
        Some(edit) => edit.ask_with(input, closed).map_err(AskError::Question),
        None => Err(AskError::NobodyToAsk {}),
    });
    match raised {
        Ok(id) => Ok(Ask { outcome, card: Card { id, session: Arc::clone(session) } }),
        Err(error) => {
            lock(&session.model).ask_closed(key);
            session.publish();
            Err(error)
        }
    }
}
