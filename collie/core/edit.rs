//! Every change of the core's state. A change here is seen whole or not at all.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::Core;
use super::items::{Json, Tail};
use super::state::{Due, PaneData, Partial, State, Tab, Workspace};
use crate::collie::hooks::Handlers;
use crate::collie::time::iso;
use crate::collie::waiter::{Verdict, Waiting, Watch};
use crate::collie::wire::{
    ActionView, Change, DecidedBy, Item, ItemBody, PaneState, Phase, StarterView, Target,
};

/// How often the growing text of one item is written (N062).
const PARTIAL_PAUSE: Duration = Duration::from_millis(250);

/// The core's state, locked, to be changed.
pub(crate) struct Edit<'a> {
    pub(super) core: &'a Core,
    pub(super) state: &'a mut State,
    pub(super) now: SystemTime,
    pub(super) effects: Effects,
}

/// What is to be done after the lock is released.
#[derive(Default)]
pub(super) struct Effects {
    pub(super) verdicts: Vec<(Arc<str>, String, Waiting, Verdict)>,
    /// Who watches an ask from before this start that is no more.
    pub(super) watches: Vec<Watch>,
    pub(super) something_due: bool,
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
        self.watches.into_iter().for_each(|watch| watch());
    }
}

impl<'a> Edit<'a> {
    pub(super) fn new(core: &'a Core, state: &'a mut State) -> Self {
        Self { core, state, now: core.now(), effects: Effects::default() }
    }

    pub(super) fn into_effects(self) -> Effects {
        self.effects
    }

    pub(super) fn set_phase(&mut self, phase: Phase) {
        self.state.phase = phase;
        self.effects.something_due |= !self.state.sends.is_empty();
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
    pub(super) fn pane_mut(&mut self, id: &str) -> Option<&mut PaneData> {
        self.state.touch();
        let pane = self.state.panes.get_mut(id)?;
        pane.view = None;
        Some(pane)
    }

    pub(super) fn event(&mut self, pane_id: &str, change: Change<Json, Json>) {
        self.state.rev += 1;
        let (rev, now) = (self.state.rev, self.now);
        if let Some(pane) = self.pane_mut(pane_id) {
            pane.tail.push(rev, now, change);
        }
    }

    pub(super) fn due(&mut self, at: Instant, due: Due) {
        let earlier = self.state.due.peek().is_none_or(|Reverse((first, _))| at < *first);
        self.effects.something_due |= earlier;
        self.state.due.push(Reverse((at, due)));
    }

    // The layout.

    pub(crate) fn place_workspace(&mut self, id: &str, title: &str) {
        if self.state.workspaces.iter().all(|workspace| workspace.id != id) {
            let (id, title) = (id.to_owned(), title.to_owned());
            self.state.workspaces.push(Workspace { id, title, tabs: Vec::new() });
            self.state.touch();
        }
    }

    pub(crate) fn place_tab(&mut self, workspace_id: &str, tab_id: &str, title: &str) {
        let mut workspaces = self.state.workspaces.iter_mut();
        if let Some(workspace) = workspaces.find(|workspace| workspace.id == workspace_id)
            && workspace.tabs.iter().all(|tab| tab.id != tab_id)
        {
            let (id, title) = (tab_id.to_owned(), title.to_owned());
            workspace.tabs.push(Tab { id, title, panes: Vec::new() });
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
        self.restore(&id);
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
            Target::Workspace(id) => workspaces
                .find(|workspace| workspace.id == *id)
                .map(|it| it.tabs.iter().flat_map(|tab| tab.panes.iter().cloned()).collect()),
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
                self.state.workspaces.retain(|workspace| workspace.id != *id);
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
        self.keep_pane(pane_id);
    }

    /// Brings back the newest pane of a session that this process closed (N123).
    pub(super) fn reopen(&mut self, session_id: &str) -> Option<Arc<str>> {
        let closed = &mut self.state.closed;
        let place =
            closed.iter().rposition(|pane| pane.session_id.as_deref() == Some(session_id))?;
        let mut pane = closed.remove(place)?;
        pane.state = PaneState::Idle;
        pane.view = None;
        let (id, tab_id) = (pane.id.clone(), pane.tab_id.clone());
        let workspace_id = pane.workspace_id.clone();
        self.place_workspace(&workspace_id, &workspace_id);
        let tab_title = tab_id.split_once(':').map_or(&*tab_id, |(_, tab)| tab).to_owned();
        self.place_tab(&workspace_id, &tab_id, &tab_title);
        self.insert_pane(&tab_id, pane);
        self.event(&id, Change::State { state: PaneState::Idle, turn_id: self.turn_of(&id) });
        self.keep_pane(&id);
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
            self.event(pane_id, Change::Title { title: title.to_owned() });
            self.keep_pane(pane_id);
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
        if turn_moves {
            self.keep_pane(pane_id);
        }
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
                    self.due(at, Due::Partial { pane: pane_key, item: id });
                }
            }
            _ => {
                let partial = Partial { item: item.clone(), written_at: now, held_back: false };
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
        if let Some(pane) = self.pane(pane_id) {
            self.keep_item(pane, item, &json);
        }
        if let ItemBody::User { request_id: Some(request_id), .. } = &item.body {
            self.delivered(request_id);
        }
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
        let mut partials: Vec<Item> =
            pane.partials.drain().map(|(_, partial)| partial.item).collect();
        // The map has no order, and readers should see one.
        partials.sort_by(|one, other| one.id.cmp(&other.id));
        for item in partials {
            self.write_item(pane_id, &item.with_partial(false));
        }
    }
}
