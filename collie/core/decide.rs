//! Raising asks, and deciding each of them once.

use std::time::SystemTime;

use super::edit::Edit;
use super::items::Json;
use super::state::{DecidedAsk, OpenAsk, PaneData};
use crate::collie::answer::{Answer, AskClosed};
use crate::collie::ask::{AskError, AskInput, question_of};
use crate::collie::id::digest_hex;
use crate::collie::receipts::StoredAnswer;
use crate::collie::time::{from_iso, iso};
use crate::collie::waiter::Waiting;
use crate::collie::wire::{AskView, Change, DecidedBy, Item};

/// How many decided asks of a pane are remembered, to say who decided.
const DECIDED_LIMIT: usize = 200;

impl Edit<'_> {
    /// Raises an ask. An answer to it from before a restart is its verdict at once (N084), and a card
    /// from before is its card.
    pub(crate) fn raise(
        &mut self,
        pane_id: &str,
        input: AskInput,
        waiting: Waiting,
    ) -> Result<String, AskError> {
        if input.offers_always() && !self.core.shared.options.allow_always {
            return Err(AskError::AllowAlways);
        }
        let again = input.can_come_again();
        let (view, expires) = input.prepared(pane_id, self.now)?;
        let Some(pane) = self.pane(pane_id) else {
            return Err(AskError::PaneClosed);
        };
        let id = view.id.clone();
        if let Some(open) = pane.ask(&id) {
            if !open.waiting.is_from_before() {
                return Err(AskError::AlreadyOpen { id });
            }
            if question_of(&open.view) == question_of(&view) {
                self.take_over(pane_id, view, expires, waiting);
                return Ok(id);
            }
            if open.claimed {
                return Err(AskError::AlreadyOpen { id });
            }
            self.decide_without_answer(pane_id, &id, DecidedBy::Program);
        }
        if let Some(answer) = self.answer_from_before(pane_id, &view) {
            self.effects.verdicts.push((pane_id.into(), id.clone(), waiting, Ok(answer)));
            return Ok(id);
        }
        self.no_older_answer(pane_id, &id);
        self.will_expire(pane_id, &id, expires);
        let json = Json::of(&view);
        let ask = OpenAsk {
            view,
            json: json.clone(),
            expires,
            waiting,
            claimed: false,
            otherwise: None,
            raised: format!("{}:{}", self.state.instance, self.state.rev),
            again,
        };
        if let Some(pane) = self.pane_mut(pane_id) {
            pane.decided.retain(|decided| decided.id != id);
            pane.asks.push(ask);
        }
        self.event(pane_id, Change::Ask { ask: json });
        self.keep_pane(pane_id);
        Ok(id)
    }

    /// The card from before this start becomes the one of the ask that is raised again.
    fn take_over(
        &mut self,
        pane_id: &str,
        view: AskView,
        expires: Option<SystemTime>,
        waiting: Waiting,
    ) {
        let id = view.id.clone();
        let Some(ask) = self.open_ask_mut(pane_id, &id) else { return };
        let before = std::mem::replace(&mut ask.waiting, waiting);
        // An answer that is being kept is one to the card as it was.
        let changed = (ask.view.hash != view.hash && !ask.claimed).then(|| Json::of(&view));
        if let Some(json) = &changed {
            (ask.view, ask.json, ask.expires) = (view, json.clone(), expires);
        }
        if let Waiting::FromBefore(Some(watch)) = before {
            self.effects.watches.push(watch);
        }
        if let Some(ask) = changed {
            self.will_expire(pane_id, &id, expires);
            self.event(pane_id, Change::Ask { ask });
            self.keep_pane(pane_id);
        }
    }

    fn answer_from_before(&mut self, pane_id: &str, view: &AskView) -> Option<Answer> {
        let key = (pane_id.to_owned(), view.id.clone());
        let stored = self.state.answers.remove(&key)?;
        if stored.hash != question_of(view) {
            // The same id asks something else now: a person must be asked again.
            self.core.answer_taken(pane_id, &view.id);
            return None;
        }
        let decided_at = from_iso(&stored.decided_at).unwrap_or(self.now);
        Some(Answer { value: stored.value, decided_at })
    }

    /// Marks an ask as being answered by the phone, until the answer is durable or has failed.
    pub(super) fn claim(&mut self, pane_id: &str, ask_id: &str) {
        if let Some(ask) = self.open_ask_mut(pane_id, ask_id) {
            ask.claimed = true;
        }
    }

    /// The claim failed: what else wanted to decide meanwhile decides now.
    pub(super) fn unclaim(&mut self, pane_id: &str, ask_id: &str) {
        let Some(ask) = self.open_ask_mut(pane_id, ask_id) else {
            return;
        };
        ask.claimed = false;
        if let Some(by) = ask.otherwise.take() {
            self.decide_without_answer(pane_id, ask_id, by);
        }
    }

    /// The claim is durable: the phone has decided.
    pub(super) fn answered(&mut self, answer: Answer, stored: StoredAnswer) {
        let (pane_id, ask_id) = (&*stored.pane_id.clone(), &*stored.ask_id.clone());
        let at = iso(answer.decided_at);
        let Some(ask) = self.take_ask(pane_id, ask_id, DecidedBy::Phone, &at) else {
            return;
        };
        self.closed_event(pane_id, ask_id, DecidedBy::Phone, at, None);
        if ask.waiting.is_from_before() {
            self.state.answers.insert((pane_id.to_owned(), ask_id.to_owned()), stored);
        }
        self.effects.verdicts.push((pane_id.into(), ask_id.to_owned(), ask.waiting, Ok(answer)));
    }

    /// The program withdraws an ask.
    pub(crate) fn withdraw(&mut self, pane_id: &str, ask_id: &str) {
        self.decide_without_answer(pane_id, ask_id, DecidedBy::Program);
    }

    /// An ask's time is over. It is looked at by the time of day too, which goes on while the
    /// machine sleeps.
    pub(super) fn expire(&mut self, pane_id: &str, ask_id: &str) -> bool {
        let now = self.now;
        let over = self
            .pane(pane_id)
            .and_then(|pane| pane.ask(ask_id))
            .is_some_and(|ask| ask.expires.is_some_and(|expires| expires <= now));
        if over {
            self.decide_without_answer(pane_id, ask_id, DecidedBy::Timeout);
        }
        over
    }

    /// The waiting for an ask's expiry has ended, whatever a clock that was set back says.
    pub(super) fn expiry_is_due(&mut self, pane_id: &str, ask_id: &str) {
        self.decide_without_answer(pane_id, ask_id, DecidedBy::Timeout);
    }

    pub(super) fn decide_without_answer(&mut self, pane_id: &str, ask_id: &str, by: DecidedBy) {
        let is_leaving = self.state.is_leaving;
        let Some(ask) = self.open_ask_mut(pane_id, ask_id) else {
            return;
        };
        if is_leaving && ask.again && by == DecidedBy::Program {
            return;
        }
        if ask.claimed {
            ask.otherwise.get_or_insert(by);
            return;
        }
        let at = iso(self.now);
        let Some(ask) = self.take_ask(pane_id, ask_id, by, &at) else {
            return;
        };
        let how = if by == DecidedBy::Timeout { "Timed out" } else { "Withdrawn" };
        let line = format!("{how} before an answer: {}", ask.view.title);
        // The line stays in the chat (N089), where later views have no events any more.
        let id = format!("closed-{}", digest_hex(&[ask_id.as_bytes()]));
        self.put_item(pane_id, Item::notice(id, line.clone()));
        self.closed_event(pane_id, ask_id, by, at, Some(line));
        let verdict = Err(AskClosed { decided_by: by, decided_at: self.now });
        self.effects.verdicts.push((pane_id.into(), ask_id.to_owned(), ask.waiting, verdict));
    }

    fn open_ask_mut(&mut self, pane_id: &str, ask_id: &str) -> Option<&mut OpenAsk> {
        self.any_pane_mut(pane_id)?.asks.iter_mut().find(|ask| ask.view.id == ask_id)
    }

    /// Also a closed pane: an ask that was claimed when its pane was closed still has its verdict.
    pub(super) fn any_pane_mut(&mut self, pane_id: &str) -> Option<&mut PaneData> {
        let state = &mut *self.state;
        state.touch();
        let pane = match state.panes.get_mut(pane_id) {
            Some(pane) => pane,
            None => state.closed.iter_mut().rev().find(|pane| *pane.id == *pane_id)?,
        };
        pane.view = None;
        Some(pane)
    }

    fn take_ask(&mut self, pane_id: &str, id: &str, by: DecidedBy, at: &str) -> Option<OpenAsk> {
        self.effects.something_due |= !self.state.sends.is_empty();
        let pane = self.any_pane_mut(pane_id)?;
        let place = pane.asks.iter().position(|ask| ask.view.id == id)?;
        pane.decided.push_back(DecidedAsk { id: id.to_owned(), by, at: at.to_owned() });
        if pane.decided.len() > DECIDED_LIMIT {
            pane.decided.pop_front();
        }
        let ask = pane.asks.remove(place);
        self.keep_pane(pane_id);
        Some(ask)
    }

    fn closed_event(
        &mut self,
        pane_id: &str,
        ask_id: &str,
        decided_by: DecidedBy,
        decided_at: String,
        line: Option<String>,
    ) {
        let ask_id = ask_id.to_owned();
        self.event(pane_id, Change::AskClosed { ask_id, decided_by, decided_at, line });
    }
}
