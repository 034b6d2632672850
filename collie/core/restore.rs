//! What outlives the process: what is noted of it, and how it comes back.

use std::time::SystemTime;

use tokio::time::Instant;

use super::Core;
use super::call::Call;
use super::edit::Edit;
use super::items::Json;
use super::state::{DecidedAsk, Due, OpenAsk, PaneData};
use crate::collie::hooks::{Deferred, Handlers, SendRequest};
use crate::collie::id::digest_hex;
use crate::collie::pane::Pane;
use crate::collie::receipts::StoredSend;
use crate::collie::records::{AskRecord, ChatRecord, FileRecords, PaneRecord};
use crate::collie::time::{from_iso, iso};
use crate::collie::waiter::{Waiting, Watch};
use crate::collie::wire::{DecidedBy, Item, NoticeLevel, PaneState, Phase, Refusal, Written};

impl Core {
    pub(super) fn records(&self) -> Option<&FileRecords> {
        self.shared.options.records.as_ref()
    }

    /// Puts the chat from before this start into a pane, once, when it is looked at first.
    pub(super) async fn restore_chat(&self, pane_id: &str) {
        let session_id = self.edit(|edit| edit.unread_session(pane_id));
        let (Some(session_id), Some(records)) = (session_id, self.records().cloned()) else {
            return;
        };
        let read = tokio::task::spawn_blocking(move || records.chat(&session_id));
        let before = match read.await {
            Ok(Ok(before)) => before,
            Ok(Err(error)) => {
                tracing::warn!(%error, pane_id, "the chat from before cannot be read");
                ChatRecord::default()
            }
            Err(error) => {
                tracing::error!(%error, pane_id, "reading the chat from before has failed");
                ChatRecord::default()
            }
        };
        self.edit(|edit| edit.put_before(pane_id, before));
    }

    /// Gives the agent what it had accepted before this start and not taken. It runs on a task: the
    /// agent may let it wait.
    pub(super) fn give_sends(&self) {
        let sends = self.edit(|edit| {
            let none = edit.state.sends.is_empty() || edit.state.phase != Phase::Ready;
            if none { Vec::new() } else { edit.take_due_sends() }
        });
        if sends.is_empty() {
            return;
        }
        let core = self.clone();
        tokio::spawn(async move {
            for send in sends {
                core.give(send).await;
            }
        });
    }

    async fn give(&self, send: StoredSend) {
        let lock = self.edit(|edit| edit.pane(&send.pane_id).map(|pane| pane.lock.clone()));
        // Closed again: it stays for the next start.
        let Some(lock) = lock else { return };
        let _turn = lock.lock_owned().await;
        let Some((request, handlers)) = self.edit(|edit| edit.send_again(&send)) else { return };
        let deferred = request.deferred.clone();
        let call = if send.steer { Call::Steer } else { Call::Send };
        let taken = call(request, handlers).run(self, &mut Written::default()).await;
        self.edit(|edit| match taken {
            Ok(()) if deferred.is_said() => {}
            Ok(()) => edit.delivered(&send.request_id),
            Err(refusal) => edit.refuse_late(&send, &refusal),
        });
    }
}

impl Edit<'_> {
    /// Notes what is true of a pane now.
    pub(super) fn keep_pane(&self, pane_id: &str) {
        let Some(records) = self.core.records() else { return };
        let is_open = self.pane(pane_id).is_some();
        let Some(pane) = self.state.any_pane(pane_id) else { return };
        let Some(session_id) = pane.session_id.clone() else { return };
        records.put_pane(PaneRecord {
            session_id,
            pane_id: pane_id.to_owned(),
            workspace_id: pane.workspace_id.clone(),
            tab_id: pane.tab_id.clone(),
            title: pane.title.clone(),
            started_at: pane.opened_at.clone(),
            ended_at: (!is_open).then(|| iso(self.now)),
            is_open,
            turn_id: pane.turn_id.clone(),
            items: 0,
            asks: pane.asks.iter().map(OpenAsk::record).collect(),
        });
    }

    /// Notes an item of a pane.
    pub(super) fn keep_item(&self, pane: &PaneData, item: &Item, json: &Json) {
        if let (Some(records), Some(session_id)) = (self.core.records(), &pane.session_id) {
            records.put_item(session_id, &item.id, json.clone(), item.is_partial());
        }
    }

    /// A pane was placed: it goes on where it ended before this start.
    pub(super) fn restore(&mut self, pane_id: &str) {
        let session_id = self.pane(pane_id).and_then(|pane| pane.session_id.clone());
        let before = session_id.and_then(|session_id| self.core.records()?.pane(&session_id));
        if let Some(before) = before {
            if let Some(pane) = self.pane_mut(pane_id) {
                pane.opened_at = before.started_at;
                pane.turn_id = before.turn_id;
                pane.has_unread_chat = true;
            }
            if before.pane_id == pane_id {
                self.restore_asks(pane_id, before.asks);
            }
        }
        self.restore_decided(pane_id);
        self.tell_of_half_given_sends(pane_id);
        self.effects.something_due |= !self.state.sends.is_empty();
        self.keep_pane(pane_id);
    }

    /// Cards whose asker is gone: the phone can answer, and the ask that is raised again has it.
    fn restore_asks(&mut self, pane_id: &str, asks: Vec<AskRecord>) {
        for AskRecord { ask: view, raised, again } in asks {
            let receipts = self.core.records().map(FileRecords::receipts);
            if receipts.is_some_and(|kept| kept.was_answered(pane_id, &view.id, &raised)) {
                continue;
            }
            // An answer that is older was to an earlier question of this id.
            self.no_older_answer(pane_id, &view.id);
            let id = view.id.clone();
            let expires = view.expires_at.as_deref().and_then(from_iso);
            let ask = OpenAsk {
                json: Json::of(&view),
                view,
                expires,
                waiting: Waiting::FromBefore(None),
                claimed: false,
                otherwise: None,
                raised,
                again,
            };
            if let Some(pane) = self.pane_mut(pane_id) {
                pane.asks.push(ask);
            }
            if !again {
                self.decide_without_answer(pane_id, &id, DecidedBy::Program);
            } else if !self.expire(pane_id, &id) {
                self.will_expire(pane_id, &id, expires);
            }
        }
    }

    /// A new card is open under this id: what was answered before was for another, and is taken.
    pub(super) fn no_older_answer(&mut self, pane_id: &str, ask_id: &str) {
        self.state.answers.remove(&(pane_id.to_owned(), ask_id.to_owned()));
        if let Some(records) = self.core.records() {
            records.is_over(pane_id, ask_id);
        }
    }

    pub(super) fn will_expire(&mut self, pane_id: &str, ask_id: &str, expires: Option<SystemTime>) {
        let Some(expires) = expires else { return };
        let left = expires.duration_since(self.now).unwrap_or_default();
        // An expiry beyond what the clock can count to never comes.
        if let Some(at) = Instant::now().checked_add(left) {
            self.due(at, Due::Expiry { pane: pane_id.into(), ask: ask_id.to_owned() });
        }
    }

    /// Who answers once more is told that it is answered.
    fn restore_decided(&mut self, pane_id: &str) {
        let answers = self.state.answers.values().filter(|answer| answer.pane_id == pane_id);
        let decided: Vec<DecidedAsk> = answers
            .map(|answer| DecidedAsk {
                id: answer.ask_id.clone(),
                by: DecidedBy::Phone,
                at: answer.decided_at.clone(),
            })
            .collect();
        if let Some(pane) = self.state.panes.get_mut(pane_id) {
            pane.decided.extend(decided);
        }
    }

    /// What the agent was being given when it ended may have reached it: it is not given twice, and
    /// the chat says so.
    fn tell_of_half_given_sends(&mut self, pane_id: &str) {
        let ours = |send: &StoredSend, given: bool| given && send.pane_id == pane_id;
        let (given, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.state.sends)
            .into_iter()
            .partition(|(send, given)| ours(send, *given));
        self.state.sends = waiting;
        for (send, _) in given {
            let line = "The agent ended while it was given a text. Whether it took it is unknown:";
            self.late_notice(&send, line);
            self.delivered(&send.request_id);
        }
    }

    fn refuse_late(&mut self, send: &StoredSend, refusal: &Refusal) {
        self.late_notice(send, &format!("{} Not taken:", refusal.message));
        self.delivered(&send.request_id);
    }

    fn late_notice(&mut self, send: &StoredSend, line: &str) {
        let id = format!("late-{}", digest_hex(&[send.request_id.as_bytes()]));
        let notice = Item::notice(id, format!("{line} {}", send.text)).level(NoticeLevel::Warning);
        match notice.prepared() {
            Ok(notice) => self.put_item(&send.pane_id, notice),
            Err(error) => tracing::error!(%error, "a text that was not taken is not in the chat"),
        }
    }

    /// A text is in the chat, or was refused there: it is not given again.
    pub(crate) fn delivered(&mut self, request_id: &str) {
        if let Some(running) = self.state.running.get_mut(request_id) {
            running.is_delivered = true;
        } else if self.state.undelivered.remove(request_id) {
            let id = request_id.to_owned();
            self.core.note_in_receipts(move |receipts| receipts.delivered(&id));
        }
    }

    /// The text of a request that runs is in the chat already.
    pub(super) fn is_delivered(&self, request_id: &str) -> bool {
        self.state.running.get(request_id).is_some_and(|running| running.is_delivered)
    }

    /// The agent is being given a text that it had accepted.
    pub(crate) fn giving(&mut self, request_id: &str) {
        if let Some(running) = self.state.running.get_mut(request_id) {
            running.is_given = true;
        } else if self.state.undelivered.contains(request_id) {
            let id = request_id.to_owned();
            self.core.note_in_receipts(move |receipts| receipts.giving(&id));
        }
    }

    /// A text was accepted, and its receipt is kept: what happened to it meanwhile is noted now.
    pub(super) fn accepted(&mut self, request_id: &str) {
        let Some(running) = self.state.running.remove(request_id) else { return };
        self.state.undelivered.insert(request_id.to_owned());
        if running.is_delivered {
            self.delivered(request_id);
        } else if running.is_given {
            self.giving(request_id);
        }
        // Until its outcome is told, it still runs for who asks.
        self.state.running.insert(request_id.to_owned(), running);
    }

    /// The texts from before that can be given to the agent now, in their order.
    fn take_due_sends(&mut self) -> Vec<StoredSend> {
        // An open ask refuses a text, so it waits for its end.
        let panes = &self.state.panes;
        let can_be_given =
            |send: &StoredSend| panes.get(&*send.pane_id).is_some_and(|pane| pane.asks.is_empty());
        let (due, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.state.sends)
            .into_iter()
            .partition(|(send, given)| !given && can_be_given(send));
        self.state.sends = waiting;
        due.into_iter().map(|(send, _)| send).collect()
    }

    fn send_again(&self, send: &StoredSend) -> Option<(SendRequest, Handlers)> {
        let core = self.core.clone();
        let pane = self.pane(&send.pane_id)?;
        let request = SendRequest {
            pane: Pane::new(core, pane.id.clone()),
            request_id: send.request_id.clone(),
            text: send.text.clone(),
            turn_id: pane.turn_id.clone(),
            queued: !send.steer && pane.state != PaneState::Idle,
            again: true,
            deferred: Deferred::default(),
        };
        let handlers = pane.handlers.clone();
        Some((request, handlers))
    }

    /// Calls `ended` once when an ask from before this start is answered, closed or raised again; at
    /// once if it is not open.
    pub(crate) fn watch_from_before(&mut self, pane_id: &str, ask_id: &str, ended: Watch) {
        let pane = self.state.panes.get_mut(pane_id);
        let ask = pane.and_then(|pane| pane.asks.iter_mut().find(|ask| ask.view.id == ask_id));
        match ask.map(|ask| &mut ask.waiting) {
            Some(Waiting::FromBefore(watch)) => *watch = Some(ended),
            _ => self.effects.watches.push(ended),
        }
    }

    /// The open asks that nobody waits for, oldest first: id and title.
    pub(crate) fn asks_from_before(&self, pane_id: &str) -> Vec<(String, String)> {
        let asks = self.pane(pane_id).map(|pane| pane.asks.iter()).into_iter().flatten();
        asks.filter(|ask| ask.waiting.is_from_before())
            .map(|ask| (ask.view.id.clone(), ask.view.title.clone()))
            .collect()
    }

    fn unread_session(&self, pane_id: &str) -> Option<String> {
        let pane = self.state.any_pane(pane_id)?;
        pane.session_id.clone().filter(|_| pane.has_unread_chat)
    }

    fn put_before(&mut self, pane_id: &str, before: ChatRecord) {
        // Two readers may have read it.
        if let Some(pane) = self.any_pane_mut(pane_id)
            && std::mem::take(&mut pane.has_unread_chat)
        {
            pane.items.put_before(before);
        }
    }
}

impl OpenAsk {
    fn record(&self) -> AskRecord {
        AskRecord { ask: self.view.clone(), raised: self.raised.clone(), again: self.again }
    }
}

/// A text that was accepted, for its receipt.
pub(super) fn stored(request: &SendRequest, steer: bool) -> StoredSend {
    StoredSend {
        pane_id: request.pane.id().to_owned(),
        request_id: request.request_id.clone(),
        text: request.text.clone(),
        steer,
    }
}
