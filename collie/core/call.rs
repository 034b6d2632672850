//! The writes that a handler or a hook takes: which one, with what, and what follows.

use super::restore::stored;
use super::{Action, Core};
use crate::collie::clean::{self, Limit};
use crate::collie::hooks::{
    ActionRequest, CloseRequest, Deferred, Handlers, HookError, RenameRequest, ReopenRequest,
    SendRequest, StartRequest, StopRequest,
};
use crate::collie::pane::Pane;
use crate::collie::receipts::StoredSend;
use crate::collie::wire::{PaneState, Refusal, Target, Written};

/// A call of a pane's handler, or of the hook where the pane has none (N119).
pub(super) enum Call {
    Send(SendRequest, Handlers),
    Steer(SendRequest, Handlers),
    Stop(StopRequest, Handlers),
    Tap(ActionRequest, Handlers),
    Rename(RenameRequest),
    Close(CloseRequest),
    Reopen(ReopenRequest),
    Start(StartRequest),
}

/// What a call needs to know of its pane.
struct Found {
    pane: Pane,
    state: PaneState,
    turn_id: Option<String>,
    oldest_ask: Option<String>,
    actions: Vec<String>,
    handlers: Handlers,
}

impl Core {
    /// What a write but an answer is going to call, if its rules allow it.
    pub(super) fn call_for(
        &self,
        action: Action,
        request_id: &str,
        written: &mut Written,
    ) -> Result<Call, Refusal> {
        let (core, request_id) = (self.clone(), request_id.to_owned());
        match action {
            Action::Send { .. } | Action::Stop { .. } | Action::Tap { .. } => {
                self.pane_call(action, request_id, written)
            }
            Action::Rename { target, title } => {
                self.check_target(&target)?;
                let title = clean::line(&title, Limit::Bytes(256)).text;
                if title.trim().is_empty() {
                    return Err(Refusal::bad_request("title is empty."));
                }
                Ok(Call::Rename(RenameRequest { core, request_id, target, title }))
            }
            Action::Close { target } => {
                self.check_target(&target)?;
                Ok(Call::Close(CloseRequest { core, request_id, target }))
            }
            Action::Reopen { session_id } => {
                Ok(Call::Reopen(ReopenRequest { core, request_id, session_id }))
            }
            Action::Start { starter, workspace, text } => {
                self.check_starter(&starter)?;
                if let Some(id) = &workspace {
                    self.check_target(&Target::Workspace(id.clone()))?;
                }
                Ok(Call::Start(StartRequest { core, request_id, starter, workspace, text }))
            }
            // An answer has no handler: its receipt is its effect.
            Action::Answer { .. } => Err(Refusal::not_supported("this")),
        }
    }

    fn pane_call(
        &self,
        action: Action,
        request_id: String,
        written: &mut Written,
    ) -> Result<Call, Refusal> {
        match action {
            Action::Send { pane, text, turn_id, steer } => {
                let found = self.find(&pane)?;
                if let (false, Some(ask)) = (steer, &found.oldest_ask) {
                    return Err(Refusal::ask_open(ask));
                }
                found.check_turn(turn_id.as_deref())?;
                let Found { pane, state, turn_id, handlers, .. } = found;
                let queued = !steer && state != PaneState::Idle;
                written.queued = Some(queued);
                written.turn_id.clone_from(&turn_id);
                let (again, deferred) = (false, Deferred::default());
                let request =
                    SendRequest { pane, request_id, text, turn_id, queued, again, deferred };
                let call = if steer { Call::Steer } else { Call::Send };
                Ok(call(request, handlers))
            }
            Action::Stop { pane, turn_id } => {
                let found = self.find(&pane)?;
                found.check_turn(turn_id.as_deref())?;
                let Found { pane, turn_id, handlers, .. } = found;
                Ok(Call::Stop(StopRequest { pane, request_id, turn_id }, handlers))
            }
            Action::Tap { pane, action, item_id } => {
                let Found { pane, actions, handlers, .. } = self.find(&pane)?;
                if !actions.contains(&action) {
                    return Err(Refusal::unknown_action());
                }
                Ok(Call::Tap(ActionRequest { pane, request_id, action, item_id }, handlers))
            }
            _ => Err(Refusal::not_supported("this")),
        }
    }

    fn check_target(&self, target: &Target) -> Result<(), Refusal> {
        let found = self.edit(|edit| edit.panes_of(target).is_some());
        if found { Ok(()) } else { Err(Refusal::unknown_target()) }
    }

    fn check_starter(&self, id: &str) -> Result<(), Refusal> {
        let known = self.edit(|edit| edit.state.starters.iter().any(|starter| starter.id == id));
        if known { Ok(()) } else { Err(Refusal::unknown_starter()) }
    }

    fn find(&self, pane_id: &str) -> Result<Found, Refusal> {
        self.edit(|edit| {
            let pane = edit.pane(pane_id).ok_or_else(Refusal::unknown_pane)?;
            Ok(Found {
                pane: Pane::new(self.clone(), pane.id.clone()),
                state: pane.state,
                turn_id: pane.turn_id.clone(),
                oldest_ask: pane.asks.first().map(|ask| ask.view.id.clone()),
                actions: pane.actions.iter().map(|action| action.id.clone()).collect(),
                handlers: pane.handlers.clone(),
            })
        })
    }
}

impl Found {
    fn check_turn(&self, named: Option<&str>) -> Result<(), Refusal> {
        if named.is_some() && named != self.turn_id.as_deref() {
            return Err(Refusal::turn_moved(self.turn_id.as_deref()));
        }
        Ok(())
    }
}

impl Call {
    /// A text, for the case that the agent lets it wait, and where it says so.
    pub(super) fn send(&self) -> Option<(StoredSend, Deferred)> {
        let (request, steer) = match self {
            Self::Send(request, _) => (request, false),
            Self::Steer(request, _) => (request, true),
            _ => return None,
        };
        Some((stored(request, steer), request.deferred.clone()))
    }

    pub(super) async fn run(self, core: &Core, written: &mut Written) -> Result<(), Refusal> {
        let hooks = core.shared.options.hooks.get();
        let (taken, what) = match self {
            Self::Send(request, Handlers { send: Some(handler), .. }) => {
                (handler(request).await, "text")
            }
            Self::Send(request, _) => (hooks.send(request).await, "text"),
            Self::Steer(request, Handlers { steer: Some(handler), .. }) => {
                (handler(request).await, "steering")
            }
            Self::Steer(request, _) => (hooks.steer(request).await, "steering"),
            Self::Stop(request, Handlers { stop: Some(handler), .. }) => {
                (handler(request).await, "stops")
            }
            Self::Stop(request, _) => (hooks.stop(request).await, "stops"),
            Self::Tap(request, Handlers { action: Some(handler), .. }) => {
                (handler(request).await, "taps")
            }
            Self::Tap(request, _) => (hooks.action(request).await, "taps"),
            Self::Rename(request) => (rename(core, request, written).await, "renames"),
            Self::Close(request) => {
                let target = request.target.clone();
                let taken = hooks.close(request).await;
                if taken.is_ok() {
                    core.edit(|edit| edit.close(&target));
                }
                (taken, "closes")
            }
            Self::Reopen(request) => return reopen(core, request, written).await,
            Self::Start(request) => {
                let started = hooks.start(request).await;
                (started.map(|pane_id| written.pane_id = pane_id), "starts")
            }
        };
        taken.map_err(|error| refusal(error, what))
    }
}

async fn rename(
    core: &Core,
    request: RenameRequest,
    written: &mut Written,
) -> Result<(), HookError> {
    let (target, title) = (request.target.clone(), request.title.clone());
    core.shared.options.hooks.get().rename(request).await?;
    core.edit(|edit| edit.rename(&target, &title));
    written.title = Some(title);
    Ok(())
}

/// Without a hook, what this process closed comes back (N123).
async fn reopen(core: &Core, request: ReopenRequest, written: &mut Written) -> Result<(), Refusal> {
    let session_id = request.session_id.clone();
    let pane_id = match core.shared.options.hooks.get().reopen(request).await {
        Ok(pane_id) => pane_id,
        Err(HookError::NotSupported) => {
            let reopened = core.edit(|edit| edit.reopen(&session_id));
            reopened.ok_or_else(Refusal::unknown_session)?.to_string()
        }
        Err(error) => return Err(refusal(error, "reopens")),
    };
    written.pane_id = Some(pane_id);
    Ok(())
}

/// What the phone is told of a hook, a handler or a history that did not do `what`.
pub(super) fn refusal(error: HookError, what: &str) -> Refusal {
    match error {
        HookError::NotSupported => Refusal::not_supported(what),
        HookError::Refused { reason } => {
            Refusal::refused(&clean::line(&reason, Limit::Characters(200)).text)
        }
        HookError::Failed { message } => {
            tracing::warn!(%message, "the agent failed at a request of the phone");
            Refusal::failed()
        }
    }
}
