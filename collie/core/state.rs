//! Everything that the core knows, behind its one lock.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::watch;
use tokio::time::Instant;

use super::items::{Items, Json, Tail};
use super::write::Outcome;
use crate::collie::history::DynHistory;
use crate::collie::hooks::Handlers;
use crate::collie::receipts::{StoredAnswer, StoredSend};
use crate::collie::waiter::Waiting;
use crate::collie::wire::{
    ActionView, AskView, DecidedBy, Item, PaneState, PaneView, Phase, StarterView, StateView,
    TabView, WorkspaceView, to_json,
};

/// How many closed panes can be brought back without a hook (N123).
const CLOSED_LIMIT: usize = 100;

pub(super) struct State {
    pub(super) instance: String,
    pub(super) phase: Phase,
    /// Counts the events of all panes, so that no cursor fits a later pane of the same id.
    pub(super) rev: u64,
    pub(super) workspaces: Vec<Workspace>,
    pub(super) panes: HashMap<Arc<str>, PaneData>,
    /// The open panes in the order of their making.
    pub(super) order: Vec<Arc<str>>,
    /// The panes that this process closed, the newest last.
    pub(super) closed: VecDeque<PaneData>,
    pub(super) starters: Vec<StarterView>,
    pub(super) history: Option<Arc<dyn DynHistory>>,
    /// Answers from before a restart that nobody has taken yet.
    pub(super) answers: HashMap<(String, String), StoredAnswer>,
    /// Texts from before this start that the agent had accepted and not taken, the oldest first, and
    /// whether it was being given each.
    pub(super) sends: Vec<(StoredSend, bool)>,
    /// The requests of texts that the agent has accepted, and that are not in the chat.
    pub(super) undelivered: HashSet<String>,
    /// The writes that run now, by request id.
    pub(super) running: HashMap<String, Running>,
    /// The program ends and comes back: what it can ask again stays open.
    pub(super) is_leaving: bool,
    /// What happens by itself, the next first.
    pub(super) due: BinaryHeap<Reverse<(Instant, Due)>>,
    /// The answer to a poll, until something changes.
    view: Option<Arc<Tagged>>,
}

/// A body with its strong tag.
#[derive(Debug)]
pub(super) struct Tagged {
    pub(super) etag: String,
    pub(super) body: Arc<[u8]>,
}

#[derive(Debug)]
pub(super) struct Workspace {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) tabs: Vec<Tab>,
}

#[derive(Debug)]
pub(super) struct Tab {
    /// `<workspace>:<tab>`.
    pub(super) id: String,
    pub(super) title: String,
    pub(super) panes: Vec<Arc<str>>,
}

#[derive(Debug)]
pub(super) struct Running {
    pub(super) digest: String,
    pub(super) outcome: watch::Receiver<Option<Outcome>>,
    /// The agent was given its text, and the chat has it, before its receipt was kept.
    pub(super) is_given: bool,
    pub(super) is_delivered: bool,
}

/// Something that happens at a time. It is looked up again then: what it names may be gone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    Expiry { pane: Arc<str>, ask: String },
    Partial { pane: Arc<str>, item: String },
}

#[derive(Debug)]
pub(crate) struct PaneData {
    pub(crate) id: Arc<str>,
    pub(crate) workspace_id: String,
    pub(crate) tab_id: String,
    pub(crate) title: String,
    pub(crate) harness: String,
    pub(crate) cwd: Option<String>,
    pub(crate) session_id: Option<String>,
    pub(crate) state: PaneState,
    pub(crate) turn_id: Option<String>,
    pub(crate) opened_at: String,
    /// Oldest first.
    pub(crate) asks: Vec<OpenAsk>,
    /// The newest of the asks that were decided, the newest last.
    pub(crate) decided: VecDeque<DecidedAsk>,
    pub(crate) actions: Vec<ActionView>,
    pub(crate) items: Items,
    /// There may be a chat from before this start, which is not in `items` yet.
    pub(crate) has_unread_chat: bool,
    pub(crate) tail: Tail,
    pub(crate) partials: HashMap<String, Partial>,
    /// Writes to one pane run one after the other.
    pub(crate) lock: Arc<tokio::sync::Mutex<()>>,
    /// Answers have a lock of their own: one is never held up by a hook.
    pub(crate) answering: Arc<tokio::sync::Mutex<()>>,
    pub(crate) handlers: Handlers,
    /// The pane in the state, until it changes.
    pub(crate) view: Option<Json>,
}

#[derive(Debug)]
pub(crate) struct OpenAsk {
    pub(crate) view: AskView,
    pub(crate) json: Json,
    pub(crate) expires: Option<SystemTime>,
    pub(crate) waiting: Waiting,
    /// The phone's answer is being made durable: until that has ended, nobody else decides.
    pub(crate) claimed: bool,
    /// Somebody else wanted to decide meanwhile, and will if the claim fails.
    pub(crate) otherwise: Option<DecidedBy>,
    /// Which raising of its id this is, over all lives of the process.
    pub(crate) raised: String,
    /// It can be raised again under its id after a restart.
    pub(crate) again: bool,
}

#[derive(Debug)]
pub(crate) struct DecidedAsk {
    pub(crate) id: String,
    pub(crate) by: DecidedBy,
    pub(crate) at: String,
}

/// An item whose text grows.
#[derive(Debug)]
pub(crate) struct Partial {
    /// The newest text, which may not be written yet.
    pub(crate) item: Item,
    pub(crate) written_at: Instant,
    /// Whether `item` waits to be written.
    pub(crate) held_back: bool,
}

impl State {
    pub(super) fn new(
        instance: String,
        answers: Vec<StoredAnswer>,
        sends: Vec<(StoredSend, bool)>,
    ) -> Self {
        let answers = answers
            .into_iter()
            .map(|answer| ((answer.pane_id.clone(), answer.ask_id.clone()), answer))
            .collect();
        Self {
            instance,
            phase: Phase::Starting,
            rev: 0,
            workspaces: Vec::new(),
            panes: HashMap::new(),
            order: Vec::new(),
            closed: VecDeque::new(),
            starters: Vec::new(),
            history: None,
            answers,
            undelivered: sends.iter().map(|(send, _)| send.request_id.clone()).collect(),
            sends,
            running: HashMap::new(),
            is_leaving: false,
            due: BinaryHeap::new(),
            view: None,
        }
    }

    /// Something in the state's body changed.
    pub(super) fn touch(&mut self) {
        self.view = None;
    }

    /// The state's body. An unchanged one costs nothing but this look.
    pub(super) fn view(&mut self) -> Arc<Tagged> {
        if let Some(view) = &self.view {
            return view.clone();
        }
        let instance = self.instance.clone();
        for pane in self.panes.values_mut() {
            if pane.view.is_none() {
                pane.view = Some(Json::of(&pane.to_view(&instance)));
            }
        }
        let panes = self.order.iter().filter_map(|id| self.panes.get(id)?.view.as_ref()).collect();
        let state = StateView {
            instance,
            phase: self.phase,
            workspaces: self.workspaces.iter().map(Workspace::to_view).collect(),
            panes,
            starters: self.starters.clone(),
        };
        let body = to_json(&state).into_bytes();
        let etag = format!("\"{}\"", crate::collie::id::digest_hex(&[&body]));
        let view = Arc::new(Tagged { etag, body: body.into() });
        self.view = Some(view.clone());
        view
    }

    pub(super) fn tab_mut(&mut self, tab_id: &str) -> Option<&mut Tab> {
        let tabs = self.workspaces.iter_mut().flat_map(|workspace| workspace.tabs.iter_mut());
        tabs.into_iter().find(|tab| tab.id == tab_id)
    }

    pub(super) fn keep_closed(&mut self, pane: PaneData) {
        self.closed.push_back(pane);
        if self.closed.len() > CLOSED_LIMIT {
            self.closed.pop_front();
        }
    }

    /// An open pane, or one that was closed and whose events can still be read.
    pub(super) fn any_pane(&self, id: &str) -> Option<&PaneData> {
        self.panes.get(id).or_else(|| self.closed.iter().rev().find(|pane| &*pane.id == id))
    }
}

impl Workspace {
    fn to_view(&self) -> WorkspaceView {
        let tabs = self.tabs.iter().map(|tab| TabView {
            id: tab.id.clone(),
            title: tab.title.clone(),
            panes: tab.panes.iter().map(ToString::to_string).collect(),
        });
        WorkspaceView { id: self.id.clone(), title: self.title.clone(), tabs: tabs.collect() }
    }
}

impl PaneData {
    fn to_view(&self, instance: &str) -> PaneView<&Json> {
        PaneView {
            id: self.id.to_string(),
            workspace_id: self.workspace_id.clone(),
            tab_id: self.tab_id.clone(),
            title: self.title.clone(),
            harness: self.harness.clone(),
            cwd: self.cwd.clone(),
            session_id: self.session_id.clone(),
            state: self.state,
            turn_id: self.turn_id.clone(),
            cursor: cursor(instance, self.tail.rev()),
            opened_at: self.opened_at.clone(),
            asks: self.asks.iter().map(|ask| &ask.json).collect(),
            actions: self.actions.clone(),
        }
    }

    pub(super) fn ask(&self, id: &str) -> Option<&OpenAsk> {
        self.asks.iter().find(|ask| ask.view.id == id)
    }
}

/// A cursor: the instance, and the last event that was read.
pub(super) fn cursor(instance: &str, rev: u64) -> String {
    format!("{instance}:{rev}")
}

/// The revision of a cursor of this instance.
pub(super) fn rev_of(instance: &str, cursor: &str) -> Option<u64> {
    cursor.strip_prefix(instance)?.strip_prefix(':')?.parse().ok()
}
