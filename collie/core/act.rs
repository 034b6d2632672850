//! What each write does.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::OwnedMutexGuard;

use super::{Caller, Core};
use crate::collie::answer::{Answer, fitting_answer};
use crate::collie::clean::{self, Limit};
use crate::collie::hooks::{
    ActionRequest, CloseRequest, Handlers, HookError, HookFuture, RenameRequest, ReopenRequest,
    SendRequest, StartRequest, StopRequest,
};
use crate::collie::pane::Pane;
use crate::collie::receipts::{Receipt, ReceiptGroup, StoredAnswer};
use crate::collie::time::iso;
use crate::collie::wire::{DecidedBy, PaneState, Refusal, Target, Written};

/// How long a stop waits for another write to the same pane; then it goes ahead.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// What the phone asks for.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Send { pane: String, text: String, turn_id: Option<String>, steer: bool },
    Stop { pane: String, turn_id: Option<String> },
    Tap { pane: String, action: String, item_id: Option<String> },
    Answer { pane: String, ask: String, answer: Map<String, Value>, hash: Option<String> },
    Rename { target: Target, title: String },
    Close { target: Target },
    Reopen { session_id: String },
    Start { starter: String, workspace: Option<String>, text: Option<String> },
}

impl Action {
    pub(super) fn group(&self) -> ReceiptGroup {
        match self {
            Self::Send { pane, .. }
            | Self::Stop { pane, .. }
            | Self::Tap { pane, .. }
            | Self::Answer { pane, .. } => ReceiptGroup::Pane(pane.clone()),
            Self::Rename { .. } => ReceiptGroup::Rename,
            Self::Close { .. } => ReceiptGroup::Close,
            Self::Reopen { .. } => ReceiptGroup::Reopen,
            Self::Start { .. } => ReceiptGroup::Start,
        }
    }

    /// The pane whose writes run one after the other.
    fn pane(&self) -> Option<&str> {
        match self {
            Self::Send { pane, .. }
            | Self::Stop { pane, .. }
            | Self::Tap { pane, .. }
            | Self::Answer { pane, .. }
            | Self::Rename { target: Target::Pane(pane), .. }
            | Self::Close { target: Target::Pane(pane) } => Some(pane),
            _ => None,
        }
    }
}

impl Core {
    /// Does what the phone asks for, and keeps the receipt.
    pub(super) async fn act(
        &self,
        action: Action,
        request_id: &str,
        caller: Caller,
        keep: impl FnOnce(&Written, Option<StoredAnswer>) -> Receipt + Send,
    ) -> Result<Written, Refusal> {
        self.check_cap(&action)?;
        let _turn = self.lock_pane(&action).await;
        let mut written =
            Written { ok: true, request_id: request_id.to_owned(), ..Written::default() };
        if let Action::Answer { pane, ask, answer, hash } = action {
            return self.answer(&pane, &ask, &answer, hash.as_deref(), caller, written, keep).await;
        }
        let call = self.prepare(action, request_id, &mut written)?;
        // If the process ends while the action runs, it must not run again.
        let id = request_id.to_owned();
        self.receipts(move |receipts| receipts.begin(&id)).await?;
        let taken = match call.run(self, &mut written).await {
            Ok(()) => {
                let receipt = keep(&written, None);
                return self
                    .receipts(move |receipts| receipts.put(receipt))
                    .await
                    .map(|()| written);
            }
            Err(error) => error,
        };
        let id = request_id.to_owned();
        // A refusal keeps nothing (N116); if that cannot be written, the id is merely lost.
        let _ = self.receipts(move |receipts| receipts.abandon(&id)).await;
        Err(taken)
    }

    fn check_cap(&self, action: &Action) -> Result<(), Refusal> {
        let caps = self.caps();
        let (is_on, what) = match action {
            Action::Send { steer: true, .. } => (caps.steer, "steering"),
            Action::Send { .. } => (caps.send, "text"),
            Action::Stop { .. } => (caps.abort, "stops"),
            Action::Tap { .. } => (caps.actions, "taps"),
            Action::Answer { .. } => (caps.asks, "answers"),
            Action::Rename { .. } => (caps.rename, "renames"),
            Action::Close { .. } => (caps.close, "closes"),
            Action::Reopen { .. } => (caps.reopen, "reopens"),
            Action::Start { .. } => (caps.starters, "starts"),
        };
        if is_on { Ok(()) } else { Err(Refusal::not_supported(what)) }
    }

    async fn lock_pane(&self, action: &Action) -> Option<OwnedMutexGuard<()>> {
        let pane = action.pane()?;
        let lock = self.edit(|edit| edit.pane(pane).map(|pane| pane.lock.clone()))?;
        if matches!(action, Action::Stop { .. }) {
            return tokio::time::timeout(STOP_PATIENCE, lock.lock_owned()).await.ok();
        }
        Some(lock.lock_owned().await)
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one request, used once")]
    async fn answer(
        &self,
        pane: &str,
        ask: &str,
        answer: &Map<String, Value>,
        hash: Option<&str>,
        caller: Caller,
        mut written: Written,
        keep: impl FnOnce(&Written, Option<StoredAnswer>) -> Receipt + Send,
    ) -> Result<Written, Refusal> {
        let (answer, stored) = self.claim(pane, ask, answer, hash, caller)?;
        written.decided_by = Some(DecidedBy::Phone);
        written.decided_at = Some(stored.decided_at.clone());
        let receipt = keep(&written, Some(stored));
        let kept = self.receipts(move |receipts| receipts.put(receipt)).await;
        self.edit(|edit| match &kept {
            Ok(()) => edit.answered(pane, ask, answer),
            Err(_) => edit.unclaim(pane, ask),
        });
        kept.map(|()| written)
    }

    /// Compare and set, under the one lock: from here on nobody else decides this ask.
    fn claim(
        &self,
        pane_id: &str,
        ask_id: &str,
        answer: &Map<String, Value>,
        hash: Option<&str>,
        caller: Caller,
    ) -> Result<(Answer, StoredAnswer), Refusal> {
        self.edit(|edit| {
            // The timer may be late, and the time of day goes on while the machine sleeps.
            edit.expire(pane_id, ask_id);
            let pane = edit.pane(pane_id).ok_or_else(Refusal::unknown_pane)?;
            let Some(ask) = pane.ask(ask_id) else {
                let decided = pane.decided.iter().rev().find(|decided| decided.id == ask_id);
                return Err(decided.map_or_else(Refusal::unknown_ask, |decided| {
                    Refusal::ask_closed(decided.by, &decided.at)
                }));
            };
            if hash.is_some_and(|hash| hash != ask.view.hash) {
                return Err(Refusal::ask_changed(json!(ask.view)));
            }
            let value = fitting_answer(&ask.view.kind, answer).map_err(Refusal::bad_request)?;
            let decided_at = self.now();
            let answer = Answer { value, decided_at };
            if answer.allowed_always() && caller == Caller::Token {
                return Err(Refusal::refused("Always allow is not given by a token."));
            }
            let stored = StoredAnswer {
                pane_id: pane_id.to_owned(),
                ask_id: ask_id.to_owned(),
                hash: ask.view.hash.clone(),
                value: answer.value.clone(),
                decided_at: iso(decided_at),
            };
            edit.claim(pane_id, ask_id);
            Ok((answer, stored))
        })
    }

    /// What a write but an answer is going to call, if its rules allow it.
    fn prepare(
        &self,
        action: Action,
        request_id: &str,
        written: &mut Written,
    ) -> Result<Call, Refusal> {
        let request_id = request_id.to_owned();
        match action {
            Action::Send { pane, text, turn_id, steer } => {
                let found = self.find(&pane)?;
                if let (false, Some(ask)) = (steer, &found.oldest_ask) {
                    return Err(Refusal::ask_open(ask));
                }
                found.check_turn(turn_id.as_deref())?;
                let queued = !steer && found.state != PaneState::Idle;
                written.queued = Some(queued);
                written.turn_id.clone_from(&found.turn_id);
                let (pane, turn_id) = (found.pane, found.turn_id);
                let request = SendRequest { pane, request_id, text, turn_id, queued };
                Ok(if steer {
                    Call::Steer(request, found.handlers)
                } else {
                    Call::Send(request, found.handlers)
                })
            }
            Action::Stop { pane, turn_id } => {
                let found = self.find(&pane)?;
                found.check_turn(turn_id.as_deref())?;
                let request = StopRequest { pane: found.pane, request_id, turn_id: found.turn_id };
                Ok(Call::Stop(request, found.handlers))
            }
            Action::Tap { pane, action, item_id } => {
                let found = self.find(&pane)?;
                if !found.actions.contains(&action) {
                    return Err(Refusal::unknown_action());
                }
                let request = ActionRequest { pane: found.pane, request_id, action, item_id };
                Ok(Call::Tap(request, found.handlers))
            }
            Action::Rename { target, title } => {
                self.check_target(&target)?;
                let title = clean::line(&title, Limit::Bytes(256)).text;
                if title.trim().is_empty() {
                    return Err(Refusal::bad_request("title is empty."));
                }
                let core = self.clone();
                Ok(Call::Rename(RenameRequest { core, request_id, target, title }))
            }
            Action::Close { target } => {
                self.check_target(&target)?;
                Ok(Call::Close(CloseRequest { core: self.clone(), request_id, target }))
            }
            Action::Reopen { session_id } => {
                Ok(Call::Reopen(ReopenRequest { core: self.clone(), request_id, session_id }))
            }
            Action::Start { starter, workspace, text } => {
                let known = self.edit(|edit| edit.state.starters.iter().any(|it| it.id == starter));
                if !known {
                    return Err(Refusal::unknown_starter());
                }
                if let Some(id) = &workspace {
                    self.check_target(&Target::Workspace(id.clone()))?;
                }
                let core = self.clone();
                Ok(Call::Start(StartRequest { core, request_id, starter, workspace, text }))
            }
            Action::Answer { .. } => Err(Refusal::failed()),
        }
    }

    fn check_target(&self, target: &Target) -> Result<(), Refusal> {
        let found = self.edit(|edit| edit.panes_of(target).is_some());
        if found { Ok(()) } else { Err(Refusal::unknown_target()) }
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

/// What a write needs to know of its pane.
struct Found {
    pane: Pane,
    state: PaneState,
    turn_id: Option<String>,
    oldest_ask: Option<String>,
    actions: Vec<String>,
    handlers: Handlers,
}

impl Found {
    fn check_turn(&self, named: Option<&str>) -> Result<(), Refusal> {
        if named.is_some() && named != self.turn_id.as_deref() {
            return Err(Refusal::turn_moved(self.turn_id.as_deref()));
        }
        Ok(())
    }
}

/// A call of a pane's handler, or of the hook where the pane has none (N119).
enum Call {
    Send(SendRequest, Handlers),
    Steer(SendRequest, Handlers),
    Stop(StopRequest, Handlers),
    Tap(ActionRequest, Handlers),
    Rename(RenameRequest),
    Close(CloseRequest),
    Reopen(ReopenRequest),
    Start(StartRequest),
}

impl Call {
    async fn run(self, core: &Core, written: &mut Written) -> Result<(), Refusal> {
        let hooks = Arc::clone(&core.shared.options.hooks);
        let call: HookFuture<'_, ()> = match self {
            Self::Send(request, Handlers { send: Some(handler), .. })
            | Self::Steer(request, Handlers { steer: Some(handler), .. }) => handler(request),
            Self::Stop(request, Handlers { stop: Some(handler), .. }) => handler(request),
            Self::Tap(request, Handlers { action: Some(handler), .. }) => handler(request),
            Self::Send(request, _) => hooks.send(request),
            Self::Steer(request, _) => hooks.steer(request),
            Self::Stop(request, _) => hooks.stop(request),
            Self::Tap(request, _) => hooks.action(request),
            Self::Rename(request) => {
                let (target, title) = (request.target.clone(), request.title.clone());
                hooks.rename(request).await.map_err(|error| refusal(error, "renames"))?;
                core.edit(|edit| edit.rename(&target, &title));
                written.title = Some(title);
                return Ok(());
            }
            Self::Close(request) => {
                let target = request.target.clone();
                hooks.close(request).await.map_err(|error| refusal(error, "closes"))?;
                core.edit(|edit| edit.close(&target));
                return Ok(());
            }
            Self::Reopen(request) => {
                let session_id = request.session_id.clone();
                written.pane_id = Some(match hooks.reopen(request).await {
                    Ok(pane_id) => pane_id,
                    Err(HookError::NotSupported) => core
                        .edit(|edit| edit.reopen(&session_id))
                        .ok_or_else(Refusal::unknown_session)?
                        .to_string(),
                    Err(error) => return Err(refusal(error, "reopens")),
                });
                return Ok(());
            }
            Self::Start(request) => {
                let started = hooks.start(request).await;
                written.pane_id = started.map_err(|error| refusal(error, "starts"))?;
                return Ok(());
            }
        };
        call.await.map_err(|error| refusal(error, "this"))
    }
}

fn refusal(error: HookError, what: &str) -> Refusal {
    match error {
        HookError::NotSupported => Refusal::not_supported(what),
        HookError::Refused { reason } => {
            Refusal::refused(&clean::line(&reason, Limit::Characters(200)).text)
        }
        HookError::Failed { message } => {
            tracing::warn!(%message, "a hook failed");
            Refusal::failed()
        }
    }
}
