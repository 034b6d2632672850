//! Every change of the core's state. A change here is seen whole or not at all.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::Core;
use super::items::{Json, Tail};
use super::state::{DecidedAsk, Due, OpenAsk, PaneData, Partial, State, Tab, Workspace};
use crate::collie::answer::{Answer, AskClosed};
use crate::collie::ask::{AskError, AskInput};
use crate::collie::hooks::Handlers;
use crate::collie::id::digest_hex;
use crate::collie::time::{from_iso, iso};
use crate::collie::waiter::{Verdict, Waiting};
use crate::collie::wire::{
    ActionView, AskView, Change, DecidedBy, Item, PaneState, Phase, StarterView, Target,
};

/// How often the growing text of one item is written (N062).
const PARTIAL_PAUSE: Duration = Duration::from_millis(250);
/// How many decided asks of a pane are remembered, to say who decided.
const DECIDED_LIMIT: usize = 200;

/// The core's state, locked, to be changed.
pub(crate) struct Edit<'a> {
    core: &'a Core,
    pub(super) state: &'a mut State,
    now: SystemTime,
    effects: Effects,
}

/// What is to be done after the lock is released.
#[derive(Debug, Default)]
pub(super) struct Effects {
    verdicts: Vec<(Arc<str>, String, Waiting, Verdict)>,
    something_due: bool,
}

impl Effects {
    pub(super) fn run(self, core: &Core) {
        if self.something_due {
            core.shared.earlier.notify_one();
        }
        for (pane, ask, waiting, verdict) in self.verdicts {
            let answered = verdict.is_ok();
            if waiting.tell(verdict) && answered {
                core.answer_taken(&pane, &ask);
            }
        }
    }
}

impl<'a> Edit<'a> {
    pub(super) fn new(core: &'a Core, state: &'a mut State) -> Self {
        Self {
            core,
            state,
            now: core.now(),
            effects: Effects::default(),
        }
    }

    pub(super) fn into_effects(self) -> Effects {
        self.effects
    }

    pub(super) fn set_phase(&mut self, phase: Phase) {
        self.state.phase = phase;
        self.state.touch();
    }

    pub(super) fn set_starters(&mut self, starters: Vec<StarterView>) {
        self.state.starters = starters;
        self.state.touch();
    }

    pub(super) fn open_pane_id(&self, id: &str) -> Option<Arc<str>> {
        self.state.panes.get(id).map(|pane| pane.id.clone())
    }

    /// The pane, to be read. Tells nobody that it changed.
    pub(crate) fn pane(&self, id: &str) -> Option<&PaneData> {
        self.state.panes.get(id)
    }

    /// The pane, to be changed: its part of the state's body is made anew.
    fn pane_mut(&mut self, id: &str) -> Option<&mut PaneData> {
        self.state.touch();
        let pane = self.state.panes.get_mut(id)?;
        pane.view = None;
        Some(pane)
    }

    fn event(&mut self, pane_id: &str, change: Change<Json, Json>) {
        self.state.rev += 1;
        let (rev, now) = (self.state.rev, self.now);
        if let Some(pane) = self.pane_mut(pane_id) {
            pane.tail.push(rev, now, change);
        }
    }

    fn due(&mut self, at: Instant, due: Due) {
        let earlier = self
            .state
            .due
            .peek()
            .is_none_or(|Reverse((first, _))| at < *first);
        self.effects.something_due |= earlier;
        self.state.due.push(Reverse((at, due)));
    }

    // The layout.

    pub(crate) fn place_workspace(&mut self, id: &str, title: &str) {
        if self
            .state
            .workspaces
            .iter()
            .all(|workspace| workspace.id != id)
        {
            let (id, title) = (id.to_owned(), title.to_owned());
            self.state.workspaces.push(Workspace {
                id,
                title,
                tabs: Vec::new(),
            });
            self.state.touch();
        }
    }

    pub(crate) fn place_tab(&mut self, workspace_id: &str, tab_id: &str, title: &str) {
        let mut workspaces = self.state.workspaces.iter_mut();
        if let Some(workspace) = workspaces.find(|workspace| workspace.id == workspace_id)
            && workspace.tabs.iter().all(|tab| tab.id != tab_id)
        {
            let (id, title) = (tab_id.to_owned(), title.to_owned());
            workspace.tabs.push(Tab {
                id,
                title,
                panes: Vec::new(),
            });
            self.state.touch();
        }
    }

    /// Places a new pane, or gives the one of this id that is there (N045).
    pub(crate) fn place_pane(
        &mut self,
        id: &str,
        tab_id: &str,
        make: impl FnOnce(Arc<str>, String, Tail) -> PaneData,
    ) -> Arc<str> {
        if let Some(id) = self.open_pane_id(id) {
            return id;
        }
        self.state.closed.retain(|pane| &*pane.id != id);
        let id: Arc<str> = id.into();
        // A reader with a cursor of an earlier pane of this id is behind, and gets the full view.
        self.state.rev += 1;
        let tail = Tail::new(self.core.shared.options.tail_limit, self.state.rev);
        let pane = make(id.clone(), iso(self.now), tail);
        self.insert_pane(tab_id, pane);
        id
    }

    fn insert_pane(&mut self, tab_id: &str, pane: PaneData) {
        let id = pane.id.clone();
        if let Some(tab) = self.state.tab_mut(tab_id) {
            tab.panes.push(id.clone());
        }
        self.state.order.push(id.clone());
        self.state.panes.insert(id, pane);
        self.state.touch();
    }

    /// The panes of a target, or none if there is no such target.
    pub(super) fn panes_of(&self, target: &Target) -> Option<Vec<Arc<str>>> {
        let mut workspaces = self.state.workspaces.iter();
        match target {
            Target::Pane(id) => self.open_pane_id(id).map(|id| vec![id]),
            Target::Tab(id) => workspaces
                .flat_map(|workspace| &workspace.tabs)
                .find(|tab| tab.id == *id)
                .map(|tab| tab.panes.clone()),
            Target::Workspace(id) => workspaces.find(|workspace| workspace.id == *id).map(|it| {
                it.tabs
                    .iter()
                    .flat_map(|tab| tab.panes.iter().cloned())
                    .collect()
            }),
        }
    }

    /// Sets a target's title (N121).
    pub(super) fn rename(&mut self, target: &Target, title: &str) {
        self.state.touch();
        match target {
            Target::Pane(id) => self.set_title(id, title),
            Target::Tab(id) => {
                if let Some(tab) = self.state.tab_mut(id) {
                    title.clone_into(&mut tab.title);
                }
            }
            Target::Workspace(id) => {
                let mut workspaces = self.state.workspaces.iter_mut();
                if let Some(workspace) = workspaces.find(|workspace| workspace.id == *id) {
                    title.clone_into(&mut workspace.title);
                }
            }
        }
    }

    /// Removes a target and everything inside it (N122).
    pub(super) fn close(&mut self, target: &Target) {
        for pane in self.panes_of(target).unwrap_or_default() {
            self.close_pane(&pane);
        }
        match target {
            Target::Pane(_) => {}
            Target::Tab(id) => {
                for workspace in &mut self.state.workspaces {
                    workspace.tabs.retain(|tab| tab.id != *id);
                }
            }
            Target::Workspace(id) => {
                self.state
                    .workspaces
                    .retain(|workspace| workspace.id != *id);
            }
        }
        self.state.touch();
    }

    /// Closes a pane: its asks are decided by the program, its growing texts are finished.
    pub(crate) fn close_pane(&mut self, pane_id: &str) {
        self.finish_partials(pane_id);
        let asks: Vec<String> = self
            .pane(pane_id)
            .map(|pane| pane.asks.iter().map(|ask| ask.view.id.clone()).collect())
            .unwrap_or_default();
        for ask in asks {
            self.decide_without_answer(pane_id, &ask, DecidedBy::Program);
        }
        self.event(pane_id, Change::Closed);
        let Some(pane) = self.state.panes.remove(pane_id) else {
            return;
        };
        self.state.order.retain(|id| **id != *pane_id);
        if let Some(tab) = self.state.tab_mut(&pane.tab_id) {
            tab.panes.retain(|id| **id != *pane_id);
        }
        self.state.keep_closed(pane);
        self.state.touch();
    }

    /// Brings back the newest pane of a session that this process closed (N123).
    pub(super) fn reopen(&mut self, session_id: &str) -> Option<Arc<str>> {
        let closed = &mut self.state.closed;
        let place = closed
            .iter()
            .rposition(|pane| pane.session_id.as_deref() == Some(session_id))?;
        let mut pane = closed.remove(place)?;
        pane.state = PaneState::Idle;
        pane.view = None;
        let (id, tab_id) = (pane.id.clone(), pane.tab_id.clone());
        let workspace_id = pane.workspace_id.clone();
        self.place_workspace(&workspace_id, &workspace_id);
        let tab_title = tab_id
            .split_once(':')
            .map_or(&*tab_id, |(_, tab)| tab)
            .to_owned();
        self.place_tab(&workspace_id, &tab_id, &tab_title);
        self.insert_pane(&tab_id, pane);
        self.event(
            &id,
            Change::State {
                state: PaneState::Idle,
                turn_id: self.turn_of(&id),
            },
        );
        Some(id)
    }

    fn turn_of(&self, pane_id: &str) -> Option<String> {
        self.pane(pane_id)?.turn_id.clone()
    }

    // One pane.

    pub(crate) fn set_title(&mut self, pane_id: &str, title: &str) {
        if self.pane(pane_id).is_some_and(|pane| pane.title != title)
            && let Some(pane) = self.pane_mut(pane_id)
        {
            title.clone_into(&mut pane.title);
            self.event(
                pane_id,
                Change::Title {
                    title: title.to_owned(),
                },
            );
        }
    }

    pub(crate) fn set_actions(&mut self, pane_id: &str, actions: Vec<ActionView>) {
        if let Some(pane) = self.pane_mut(pane_id) {
            pane.actions = actions;
        }
    }

    pub(crate) fn set_handlers(&mut self, pane_id: &str, set: impl FnOnce(&mut Handlers)) {
        if let Some(pane) = self.state.panes.get_mut(pane_id) {
            set(&mut pane.handlers);
        }
    }

    /// Sets what the pane does. A growing text is finished before the pane leaves `working` (N063).
    pub(crate) fn set_state(&mut self, pane_id: &str, state: PaneState, turn_id: Option<&str>) {
        let Some(pane) = self.pane(pane_id) else {
            return;
        };
        let turn_moves = turn_id.is_some() && pane.turn_id.as_deref() != turn_id;
        if pane.state == state && !turn_moves {
            return;
        }
        if pane.state == PaneState::Working && state != PaneState::Working {
            self.finish_partials(pane_id);
        }
        let Some(pane) = self.pane_mut(pane_id) else {
            return;
        };
        pane.state = state;
        if let Some(turn_id) = turn_id {
            pane.turn_id = Some(turn_id.to_owned());
        }
        let turn_id = pane.turn_id.clone();
        self.event(pane_id, Change::State { state, turn_id });
    }

    /// Adds an item that was prepared, or replaces the one of its id.
    pub(crate) fn put_item(&mut self, pane_id: &str, mut item: Item) {
        if item.ts.is_none() {
            item.ts = Some(iso(self.now));
        }
        if !item.is_partial() {
            if let Some(pane) = self.state.panes.get_mut(pane_id) {
                pane.partials.remove(&item.id);
            }
            return self.write_item(pane_id, &item);
        }
        let now = Instant::now();
        let Some(pane) = self.state.panes.get_mut(pane_id) else {
            return;
        };
        let pane_key = pane.id.clone();
        match pane.partials.get_mut(&item.id) {
            Some(partial) if now < partial.written_at + PARTIAL_PAUSE => {
                let already_due = std::mem::replace(&mut partial.held_back, true);
                let at = partial.written_at + PARTIAL_PAUSE;
                let id = item.id.clone();
                partial.item = item;
                if !already_due {
                    self.due(
                        at,
                        Due::Partial {
                            pane: pane_key,
                            item: id,
                        },
                    );
                }
            }
            _ => {
                let partial = Partial {
                    item: item.clone(),
                    written_at: now,
                    held_back: false,
                };
                pane.partials.insert(item.id.clone(), partial);
                self.write_item(pane_id, &item);
            }
        }
    }

    fn write_item(&mut self, pane_id: &str, item: &Item) {
        let Some(pane) = self.state.panes.get_mut(pane_id) else {
            return;
        };
        let json = pane.items.put(item);
        self.event(pane_id, Change::Item { item: json });
    }

    /// Writes a text that was held back.
    pub(super) fn flush_partial(&mut self, pane_id: &str, item_id: &str) {
        let Some(pane) = self.state.panes.get_mut(pane_id) else {
            return;
        };
        let Some(partial) = pane.partials.get_mut(item_id) else {
            return;
        };
        if !partial.held_back || Instant::now() < partial.written_at + PARTIAL_PAUSE {
            return;
        }
        partial.held_back = false;
        partial.written_at = Instant::now();
        let item = partial.item.clone();
        self.write_item(pane_id, &item);
    }

    /// Writes every growing text once more, as final.
    fn finish_partials(&mut self, pane_id: &str) {
        let Some(pane) = self.state.panes.get_mut(pane_id) else {
            return;
        };
        let mut partials: Vec<Item> = pane
            .partials
            .drain()
            .map(|(_, partial)| partial.item)
            .collect();
        // The map has no order, and readers should see one.
        partials.sort_by(|one, other| one.id.cmp(&other.id));
        for item in partials {
            self.write_item(pane_id, &item.with_partial(false));
        }
    }

    // Asks.

    /// Raises an ask. An answer to it from before a restart is its verdict at once (N084).
    pub(crate) fn raise(
        &mut self,
        pane_id: &str,
        input: AskInput,
        waiting: Waiting,
    ) -> Result<String, AskError> {
        if input.offers_always() && !self.core.shared.options.allow_always {
            return Err(AskError::AllowAlways);
        }
        let (view, expires) = input.prepared(pane_id, self.now)?;
        let Some(pane) = self.pane(pane_id) else {
            return Err(AskError::PaneClosed);
        };
        let id = view.id.clone();
        if pane.ask(&id).is_some() {
            return Err(AskError::AlreadyOpen { id });
        }
        if let Some(answer) = self.answer_from_before(pane_id, &view) {
            self.effects
                .verdicts
                .push((pane_id.into(), id.clone(), waiting, Ok(answer)));
            return Ok(id);
        }
        if let Some(expires) = expires {
            let left = expires.duration_since(self.now).unwrap_or_default();
            // An expiry beyond what the clock can count to never comes.
            if let Some(at) = Instant::now().checked_add(left) {
                self.due(
                    at,
                    Due::Expiry {
                        pane: pane_id.into(),
                        ask: id.clone(),
                    },
                );
            }
        }
        let json = Json::of(&view);
        let ask = OpenAsk {
            view,
            json: json.clone(),
            expires,
            waiting,
            claimed: false,
            otherwise: None,
        };
        if let Some(pane) = self.pane_mut(pane_id) {
            pane.decided.retain(|decided| decided.id != id);
            pane.asks.push(ask);
        }
        self.event(pane_id, Change::Ask { ask: json });
        Ok(id)
    }

    fn answer_from_before(&mut self, pane_id: &str, view: &AskView) -> Option<Answer> {
        let key = (pane_id.to_owned(), view.id.clone());
        let stored = self.state.answers.remove(&key)?;
        if stored.hash != view.hash {
            // The same id asks something else now: a person must be asked again.
            self.core.answer_taken(pane_id, &view.id);
            return None;
        }
        let decided_at = from_iso(&stored.decided_at).unwrap_or(self.now);
        Some(Answer {
            value: stored.value,
            decided_at,
        })
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
    pub(super) fn answered(&mut self, pane_id: &str, ask_id: &str, answer: Answer) {
        let at = iso(answer.decided_at);
        let Some(ask) = self.take_ask(pane_id, ask_id, DecidedBy::Phone, &at) else {
            return;
        };
        self.closed_event(pane_id, ask_id, DecidedBy::Phone, at, None);
        self.effects
            .verdicts
            .push((pane_id.into(), ask_id.to_owned(), ask.waiting, Ok(answer)));
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

    fn decide_without_answer(&mut self, pane_id: &str, ask_id: &str, by: DecidedBy) {
        let Some(ask) = self.open_ask_mut(pane_id, ask_id) else {
            return;
        };
        if ask.claimed {
            ask.otherwise.get_or_insert(by);
            return;
        }
        let at = iso(self.now);
        let Some(ask) = self.take_ask(pane_id, ask_id, by, &at) else {
            return;
        };
        let how = if by == DecidedBy::Timeout {
            "Timed out"
        } else {
            "Withdrawn"
        };
        let line = format!("{how} before an answer: {}", ask.view.title);
        // The line stays in the chat (N089), where later views have no events any more.
        let id = format!("closed-{}", digest_hex(&[ask_id.as_bytes()]));
        self.put_item(pane_id, Item::notice(id, line.clone()));
        self.closed_event(pane_id, ask_id, by, at, Some(line));
        let verdict = Err(AskClosed {
            decided_by: by,
            decided_at: self.now,
        });
        self.effects
            .verdicts
            .push((pane_id.into(), ask_id.to_owned(), ask.waiting, verdict));
    }

    fn open_ask_mut(&mut self, pane_id: &str, ask_id: &str) -> Option<&mut OpenAsk> {
        self.any_pane_mut(pane_id)?
            .asks
            .iter_mut()
            .find(|ask| ask.view.id == ask_id)
    }

    /// Also a closed pane: an ask that was claimed when its pane was closed still has its verdict.
    fn any_pane_mut(&mut self, pane_id: &str) -> Option<&mut PaneData> {
        let state = &mut *self.state;
        state.touch();
        let pane = match state.panes.get_mut(pane_id) {
            Some(pane) => pane,
            None => state
                .closed
                .iter_mut()
                .rev()
                .find(|pane| *pane.id == *pane_id)?,
        };
        pane.view = None;
        Some(pane)
    }

    fn take_ask(&mut self, pane_id: &str, id: &str, by: DecidedBy, at: &str) -> Option<OpenAsk> {
        let pane = self.any_pane_mut(pane_id)?;
        let place = pane.asks.iter().position(|ask| ask.view.id == id)?;
        pane.decided.push_back(DecidedAsk {
            id: id.to_owned(),
            by,
            at: at.to_owned(),
        });
        if pane.decided.len() > DECIDED_LIMIT {
            pane.decided.pop_front();
        }
        Some(pane.asks.remove(place))
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
        self.event(
            pane_id,
            Change::AskClosed {
                ask_id,
                decided_by,
                decided_at,
                line,
            },
        );
    }
}
