//! What the agent does with what the phone sends.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::core::Core;
use super::pane::Pane;
use super::wire::Target;

/// Why a hook did not take a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HookError {
    /// The agent does not do this: the phone gets `not-supported`.
    #[error("not supported")]
    NotSupported,
    /// The agent said no: the phone gets `refused` with the reason.
    #[error("refused: {reason}")]
    Refused {
        /// One sentence for the phone.
        reason: String,
    },
    /// The agent tried and failed: the phone gets `failed` and may try again. The message goes to
    /// the log only.
    #[error("failed: {message}")]
    Failed {
        /// What went wrong.
        message: String,
    },
}

impl HookError {
    /// The agent said no.
    pub fn refused(reason: impl Into<String>) -> Self {
        Self::Refused { reason: reason.into() }
    }

    /// The agent tried and failed.
    pub fn failed(message: impl fmt::Display) -> Self {
        Self::Failed { message: message.to_string() }
    }
}

/// Text from the phone, for the next turn or (as a steer) into the running one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SendRequest {
    /// The conversation.
    pub pane: Pane,
    /// Name it in the `user` item that the text becomes: only then is the send effective (N068).
    pub request_id: String,
    /// 1 byte to 64 KiB.
    pub text: String,
    /// The running turn, or the last one.
    pub turn_id: Option<String>,
    /// A turn runs, so the text is kept for its end.
    pub queued: bool,
    /// It was accepted and [deferred](Self::defer) before this start, and is given again: the phone
    /// has its answer.
    pub again: bool,
    pub(crate) deferred: Deferred,
}

impl SendRequest {
    /// Says that the text, once it is accepted, may wait in the agent until its `user` item is shown. If
    /// the process ends before that, the text is given again after the restart, under the same request
    /// id: as soon as its pane is placed and no ask is open in it. This needs
    /// [records](super::FileRecords).
    pub fn defer(&self) {
        self.deferred.0.store(true, Ordering::Relaxed);
    }
}

/// Whether a text may wait in the agent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deferred(Arc<AtomicBool>);

impl Deferred {
    pub(crate) fn is_said(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A turn is to be stopped.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StopRequest {
    /// The conversation.
    pub pane: Pane,
    /// The request's id.
    pub request_id: String,
    /// The running turn, or the last one.
    pub turn_id: Option<String>,
}

/// A button of a pane was tapped.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ActionRequest {
    /// The conversation.
    pub pane: Pane,
    /// The request's id.
    pub request_id: String,
    /// The button.
    pub action: String,
    /// The item that it was tapped at.
    pub item_id: Option<String>,
}

/// A pane, tab or workspace gets another title. The core sets it when the hook has accepted (N121).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RenameRequest {
    /// The core.
    pub core: Core,
    /// The request's id.
    pub request_id: String,
    /// What is renamed.
    pub target: Target,
    /// The title, cleaned and cut.
    pub title: String,
}

/// A pane, tab or workspace is closed. The core removes it when the hook has accepted (N122).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CloseRequest {
    /// The core.
    pub core: Core,
    /// The request's id.
    pub request_id: String,
    /// What is closed.
    pub target: Target,
}

/// A closed conversation is to come back (N124).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReopenRequest {
    /// The core, to place the pane.
    pub core: Core,
    /// The request's id.
    pub request_id: String,
    /// The conversation.
    pub session_id: String,
}

/// A new conversation is to begin.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StartRequest {
    /// The core, to place the pane.
    pub core: Core,
    /// The request's id.
    pub request_id: String,
    /// Which starter was tapped.
    pub starter: String,
    /// Where.
    pub workspace: Option<String>,
    /// The first text.
    pub text: Option<String>,
}

/// The places that handle what the phone sends (N117). All have defaults: a send, a steer, a stop, a
/// tap and a start are refused as not supported; a rename and a close are accepted, and live as long
/// as the process (N052); a reopen brings back what this process closed (N123).
///
/// A hook runs only when its cap is on and the request id is new (N118). It is to accept and return
/// soon: the next write to the same pane waits for it. A request whose connection breaks runs on.
pub trait Hooks: Send + Sync + 'static {
    /// Takes text for the next turn.
    fn send(&self, _request: SendRequest) -> impl Future<Output = Result<(), HookError>> + Send {
        async { Err(HookError::NotSupported) }
    }

    /// Takes text into the running turn.
    fn steer(&self, _request: SendRequest) -> impl Future<Output = Result<(), HookError>> + Send {
        async { Err(HookError::NotSupported) }
    }

    /// Stops the running turn.
    fn stop(&self, _request: StopRequest) -> impl Future<Output = Result<(), HookError>> + Send {
        async { Err(HookError::NotSupported) }
    }

    /// Does what a button says.
    fn action(
        &self,
        _request: ActionRequest,
    ) -> impl Future<Output = Result<(), HookError>> + Send {
        async { Err(HookError::NotSupported) }
    }

    /// Accepts a title.
    fn rename(
        &self,
        _request: RenameRequest,
    ) -> impl Future<Output = Result<(), HookError>> + Send {
        async { Ok(()) }
    }

    /// Accepts a close.
    fn close(&self, _request: CloseRequest) -> impl Future<Output = Result<(), HookError>> + Send {
        async { Ok(()) }
    }

    /// Brings a conversation back, and gives its pane's id.
    fn reopen(
        &self,
        _request: ReopenRequest,
    ) -> impl Future<Output = Result<String, HookError>> + Send {
        async { Err(HookError::NotSupported) }
    }

    /// Starts a conversation, and gives its pane's id where it is there already.
    fn start(
        &self,
        _request: StartRequest,
    ) -> impl Future<Output = Result<Option<String>, HookError>> + Send {
        async { Err(HookError::NotSupported) }
    }
}

/// Hooks that are all defaults.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl Hooks for NoHooks {}

/// Hooks as options hold them: clones are the same hooks.
#[derive(Clone)]
pub struct SharedHooks(Arc<dyn DynHooks>);

impl SharedHooks {
    /// Hooks of the agent's own.
    pub fn new(hooks: impl Hooks) -> Self {
        Self(Arc::new(hooks))
    }

    pub(crate) fn get(&self) -> &dyn DynHooks {
        &*self.0
    }
}

impl Default for SharedHooks {
    /// All defaults.
    fn default() -> Self {
        Self::new(NoHooks)
    }
}

impl fmt::Debug for SharedHooks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SharedHooks")
    }
}

pub(crate) type HookFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, HookError>> + Send + 'a>>;

/// [`Hooks`] behind a pointer, which async functions in a trait do not allow by themselves.
pub(crate) trait DynHooks: Send + Sync {
    fn send(&self, request: SendRequest) -> HookFuture<'_, ()>;
    fn steer(&self, request: SendRequest) -> HookFuture<'_, ()>;
    fn stop(&self, request: StopRequest) -> HookFuture<'_, ()>;
    fn action(&self, request: ActionRequest) -> HookFuture<'_, ()>;
    fn rename(&self, request: RenameRequest) -> HookFuture<'_, ()>;
    fn close(&self, request: CloseRequest) -> HookFuture<'_, ()>;
    fn reopen(&self, request: ReopenRequest) -> HookFuture<'_, String>;
    fn start(&self, request: StartRequest) -> HookFuture<'_, Option<String>>;
}

impl<H: Hooks> DynHooks for H {
    fn send(&self, request: SendRequest) -> HookFuture<'_, ()> {
        Box::pin(Hooks::send(self, request))
    }
    fn steer(&self, request: SendRequest) -> HookFuture<'_, ()> {
        Box::pin(Hooks::steer(self, request))
    }
    fn stop(&self, request: StopRequest) -> HookFuture<'_, ()> {
        Box::pin(Hooks::stop(self, request))
    }
    fn action(&self, request: ActionRequest) -> HookFuture<'_, ()> {
        Box::pin(Hooks::action(self, request))
    }
    fn rename(&self, request: RenameRequest) -> HookFuture<'_, ()> {
        Box::pin(Hooks::rename(self, request))
    }
    fn close(&self, request: CloseRequest) -> HookFuture<'_, ()> {
        Box::pin(Hooks::close(self, request))
    }
    fn reopen(&self, request: ReopenRequest) -> HookFuture<'_, String> {
        Box::pin(Hooks::reopen(self, request))
    }
    fn start(&self, request: StartRequest) -> HookFuture<'_, Option<String>> {
        Box::pin(Hooks::start(self, request))
    }
}

/// A handler of one pane, which goes before the hook (N119).
type Handler<R> = Arc<dyn Fn(R) -> HookFuture<'static, ()> + Send + Sync>;

/// The handlers of one pane.
#[derive(Clone, Default)]
pub(crate) struct Handlers {
    pub(crate) send: Option<Handler<SendRequest>>,
    pub(crate) steer: Option<Handler<SendRequest>>,
    pub(crate) stop: Option<Handler<StopRequest>>,
    pub(crate) action: Option<Handler<ActionRequest>>,
}

/// A function as a handler.
pub(crate) fn handler<R, F, T>(function: F) -> Handler<R>
where
    F: Fn(R) -> T + Send + Sync + 'static,
    T: Future<Output = Result<(), HookError>> + Send + 'static,
{
    Arc::new(move |request| Box::pin(function(request)))
}

impl fmt::Debug for Handlers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Handlers")
            .field("send", &self.send.is_some())
            .field("steer", &self.steer.is_some())
            .field("stop", &self.stop.is_some())
            .field("action", &self.action.is_some())
            .finish()
    }
}
