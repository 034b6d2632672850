//! What each write does, and its receipt.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::OwnedMutexGuard;

use super::write::RunningWrite;
use super::{Caller, Core};
use crate::collie::answer::{Answer, fitting_answer};
use crate::collie::ask::question_of;
use crate::collie::receipts::{Receipt, ReceiptGroup, StoredAnswer, StoredSend};
use crate::collie::time::iso;
use crate::collie::wire::{DecidedBy, Refusal, Target, Written, to_json};

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
    fn group(&self) -> ReceiptGroup {
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

    /// Whether its cap is on (N141).
    fn check_cap(&self, core: &Core) -> Result<(), Refusal> {
        let caps = core.caps();
        let (is_on, what) = match self {
            Self::Send { steer: true, .. } => (caps.steer, "steering"),
            Self::Send { .. } => (caps.send, "text"),
            Self::Stop { .. } => (caps.abort, "stops"),
            Self::Tap { .. } => (caps.actions, "taps"),
            Self::Answer { .. } => (caps.asks, "answers"),
            Self::Rename { .. } => (caps.rename, "renames"),
            Self::Close { .. } => (caps.close, "closes"),
            Self::Reopen { .. } => (caps.reopen, "reopens"),
            Self::Start { .. } => (caps.starters, "starts"),
        };
        if is_on { Ok(()) } else { Err(Refusal::not_supported(what)) }
    }
}

impl RunningWrite {
    /// Does what the phone asks for, and keeps the receipt.
    pub(super) async fn act(&self, action: Action) -> Result<Written, Refusal> {
        action.check_cap(&self.core)?;
        let _turn = self.lock_pane(&action).await;
        let group = action.group();
        let mut written =
            Written { ok: true, request_id: self.request_id.clone(), ..Written::default() };
        if let Action::Answer { pane, ask, answer, hash } = action {
            let (answer, stored) = self.claim(&pane, &ask, &answer, hash.as_deref())?;
            written.decided_by = Some(DecidedBy::Phone);
            written.decided_at = Some(stored.decided_at.clone());
            // The receipt is what decides: after a crash the ask is answered, or nothing was.
            let kept = self.keep(group, &written, Some(stored.clone()), None).await;
            self.core.edit(|edit| match &kept {
                Ok(()) => edit.answered(answer, stored),
                Err(_) => edit.unclaim(&pane, &ask),
            });
            return kept.map(|()| written);
        }
        let call = self.core.call_for(action, &self.request_id, &mut written)?;
        let send = call.send().filter(|_| self.core.records().is_some());
        // If the process ends while the action runs, it must not run again.
        let id = self.request_id.clone();
        self.core.receipts(move |receipts| receipts.begin(&id)).await?;
        if let Err(refusal) = call.run(&self.core, &mut written).await {
            // A refusal keeps nothing (N116); if that cannot be written, the id is merely lost.
            let id = self.request_id.clone();
            let _ = self.core.receipts(move |receipts| receipts.abandon(&id)).await;
            return Err(refusal);
        }
        let send = send.and_then(|(send, deferred)| deferred.is_said().then_some(send));
        let send = send.filter(|_| !self.core.edit(|edit| edit.is_delivered(&self.request_id)));
        let waits = send.is_some();
        self.keep(group, &written, None, send).await?;
        if waits {
            self.core.edit(|edit| edit.accepted(&self.request_id));
        }
        Ok(written)
    }

    async fn keep(
        &self,
        group: ReceiptGroup,
        written: &Written,
        answer: Option<StoredAnswer>,
        send: Option<StoredSend>,
    ) -> Result<(), Refusal> {
        let receipt = Receipt {
            request_id: self.request_id.clone(),
            group,
            digest: self.digest.clone(),
            body: to_json(written),
            answer,
            send,
        };
        self.core.receipts(move |receipts| receipts.put(receipt)).await
    }

    async fn lock_pane(&self, action: &Action) -> Option<OwnedMutexGuard<()>> {
        let pane = action.pane()?;
        let is_answer = matches!(action, Action::Answer { .. });
        let lock = self.core.edit(|edit| {
            let pane = edit.pane(pane)?;
            Some(if is_answer { pane.answering.clone() } else { pane.lock.clone() })
        })?;
        if matches!(action, Action::Stop { .. }) {
            return tokio::time::timeout(STOP_PATIENCE, lock.lock_owned()).await.ok();
        }
        Some(lock.lock_owned().await)
    }

    /// Compare and set, under the one lock: from here on nobody else decides this ask.
    fn claim(
        &self,
        pane_id: &str,
        ask_id: &str,
        answer: &Map<String, Value>,
        hash: Option<&str>,
    ) -> Result<(Answer, StoredAnswer), Refusal> {
        self.core.edit(|edit| {
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
            let decided_at = self.core.now();
            let answer = Answer { value, decided_at };
            if answer.allowed_always() && self.caller == Caller::Token {
                return Err(Refusal::refused("Always allow is not given by a token."));
            }
            let stored = StoredAnswer {
                pane_id: pane_id.to_owned(),
                ask_id: ask_id.to_owned(),
                hash: question_of(&ask.view),
                value: answer.value.clone(),
                decided_at: iso(decided_at),
                raised: ask.raised.clone(),
            };
            edit.claim(pane_id, ask_id);
            Ok((answer, stored))
        })
    }
}
