//! The shapes of what the wire answers.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{AskView, Item};

/// The versions of the wire that one side speaks, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireRange {
    /// The lowest version.
    pub min: u32,
    /// The highest version.
    pub max: u32,
}

/// What a durable agent can do. The phone shows a control only for what is on (N137).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "the wire's own list of switches")]
pub struct Caps {
    /// Cards can be answered.
    pub asks: bool,
    /// New conversations can be started.
    pub starters: bool,
    /// Text can be sent.
    pub send: bool,
    /// Text can be sent into a running turn.
    pub steer: bool,
    /// A turn can be stopped.
    pub abort: bool,
    /// Panes, tabs and workspaces can be renamed.
    pub rename: bool,
    /// They can be closed.
    pub close: bool,
    /// The buttons of a pane can be tapped.
    pub actions: bool,
    /// Conversations can be read from the agent's own store.
    pub history: bool,
    /// Closed conversations can be brought back.
    pub reopen: bool,
    /// Always false: a durable agent has no screen (N142).
    pub terminal: bool,
}

impl Caps {
    /// All that can be on.
    pub const ALL: Self = Self {
        asks: true,
        starters: true,
        send: true,
        steer: true,
        abort: true,
        rename: true,
        close: true,
        actions: true,
        history: true,
        reopen: true,
        terminal: false,
    };
    /// Nothing: name what is on, as in `Caps { asks: true, ..Caps::NONE }` (N139).
    pub const NONE: Self = Self {
        asks: false,
        starters: false,
        send: false,
        steer: false,
        abort: false,
        rename: false,
        close: false,
        actions: false,
        history: false,
        reopen: false,
        terminal: false,
    };
}

impl Default for Caps {
    fn default() -> Self {
        Self::NONE
    }
}

/// Whether writes from the agent itself, and from the processes that it started, are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallerCheck {
    /// They are refused (N025).
    #[default]
    On,
    /// Every process of the user may write (N028).
    Off,
}

/// Whether the first layout is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Not yet: writes wait.
    Starting,
    /// Everything is served.
    Ready,
}

/// The first thing that Collie reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    /// The versions that the agent speaks.
    pub wire: WireRange,
    /// New at each start of the agent's process.
    pub instance: String,
    /// The machine's or the agent's name.
    pub host_name: String,
    /// Name and version of what serves the wire.
    pub runtime: String,
    /// Whether the first layout is placed.
    pub phase: Phase,
    /// What the agent can do.
    pub caps: Caps,
    /// Whether writes from the agent and below it are refused.
    pub caller_check: CallerCheck,
}

/// What a pane is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PaneState {
    /// Nothing: it is the user's turn.
    #[default]
    Idle,
    /// A turn runs. A task that waits for a deadline is working or idle, not waiting (N071).
    Working,
    /// It waits for the user.
    Waiting,
}

/// The whole layout. `P` is a pane, as text already where the core keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateView<P = PaneView> {
    /// As in [`Hello`].
    pub instance: String,
    /// As in [`Hello`].
    pub phase: Phase,
    /// The workspaces, in the order of their making.
    pub workspaces: Vec<WorkspaceView>,
    /// Every open pane, in the order of their making.
    pub panes: Vec<P>,
    /// What can be started.
    pub starters: Vec<StarterView>,
}

/// One workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceView {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its tabs, in the order of their making.
    pub tabs: Vec<TabView>,
}

/// One tab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TabView {
    /// `<workspace>:<tab>` (N051).
    pub id: String,
    /// Its title.
    pub title: String,
    /// The ids of its panes, in the order of their making.
    pub panes: Vec<String>,
}

/// One pane: one conversation. `A` is an ask, as text already where the core keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PaneView<A = AskView> {
    /// Its id.
    pub id: String,
    /// The workspace that it is in.
    pub workspace_id: String,
    /// The tab that it is in, as `<workspace>:<tab>`.
    pub tab_id: String,
    /// Its title.
    pub title: String,
    /// The agent program.
    pub harness: String,
    /// Its folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The conversation's id; `null` when it will be another one after a restart (N132).
    pub session_id: Option<String>,
    /// What it is doing.
    pub state: PaneState,
    /// The running turn, or the last one (N056).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// Where its events end now.
    pub cursor: String,
    /// When it was opened, in ISO 8601.
    pub opened_at: String,
    /// The open asks, oldest first.
    pub asks: Vec<A>,
    /// Its buttons.
    pub actions: Vec<ActionView>,
}

/// One button of a pane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionView {
    /// Its id.
    pub id: String,
    /// What is written on it.
    pub label: String,
    /// One of the icons that Collie knows (N057).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
}

/// One thing that can be started: a button outside any pane.
pub type StarterView = ActionView;

/// The events of a pane after a cursor, or the pane's current full view. `I` and `A` are items and
/// asks, as text already where the core keeps them, and `E` is an event of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventsView<E = Event, I = Item, A = AskView> {
    /// To be given as `after` next time.
    pub cursor: String,
    /// This is the full view: the cursor was none, too old, or of another instance.
    pub reset: bool,
    /// There are more events than `limit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more: Option<bool>,
    /// The events, oldest first. Absent from a full view.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<E>>,
    /// In a full view: there were older items, which are no longer kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dropped_start: bool,
    /// In a full view: the newest items, at most 2000 (N135).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<I>>,
    /// In a full view: what the pane is doing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<PaneState>,
    /// In a full view: the running turn, or the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// In a full view: the open asks, oldest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asks: Option<Vec<A>>,
}

/// One event of a pane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event<I = Item, A = AskView> {
    /// Rises from event to event of one pane, with gaps.
    pub rev: u64,
    /// When, in ISO 8601.
    pub ts: String,
    /// What changed.
    #[serde(flatten)]
    pub change: Change<I, A>,
}

/// What an event changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Change<I = Item, A = AskView> {
    /// An item was added, or replaced in place.
    Item {
        /// The item.
        item: I,
    },
    /// The pane does something else.
    State {
        /// What it does now.
        state: PaneState,
        /// The running turn, or the last one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn_id: Option<String>,
    },
    /// An ask was raised.
    Ask {
        /// The ask.
        ask: A,
    },
    /// An ask was decided.
    AskClosed {
        /// Which.
        ask_id: String,
        /// By whom.
        decided_by: DecidedBy,
        /// When, in ISO 8601.
        decided_at: String,
        /// The line that it leaves in the chat.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        line: Option<String>,
    },
    /// The pane has another title.
    Title {
        /// The title.
        title: String,
    },
    /// The pane was closed: the last event of a pane, unless it is brought back.
    Closed,
}

/// Who decided an ask (N086).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecidedBy {
    /// A person, on the phone.
    Phone,
    /// The agent: it withdrew the question, or somebody closed the pane.
    Program,
    /// Nobody, in time.
    Timeout,
}

/// The answer to an ask.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AnswerValue {
    /// The chosen options, for approvals and choices (N074).
    #[serde(rename = "optionIds")]
    Options(Vec<String>),
    /// The typed line.
    #[serde(rename = "text")]
    Text(String),
    /// A value for each answered field of a form.
    #[serde(rename = "values")]
    Values(Map<String, Value>),
}

/// What a write was answered with. Only the names of the write that was made are there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Written {
    /// Always true.
    pub ok: bool,
    /// The request's own id.
    pub request_id: String,
    /// The request had been made before, nothing ran, and this is the first answer again (N109).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
    /// Of a send: a turn was running, the text waits for its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<bool>,
    /// Of a send: the running turn, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// Of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<DecidedBy>,
    /// Of an answer, in ISO 8601.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<String>,
    /// Of a rename: the title as it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Of a start or a reopen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pane_id: Option<String>,
}

/// What a rename or a close is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// A pane, by its id.
    Pane(String),
    /// A tab, by `<workspace>:<tab>`.
    Tab(String),
    /// A workspace, by its id.
    Workspace(String),
}

/// Conversations of the agent's own store, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryRows {
    /// The conversations.
    pub rows: Vec<HistoryRow>,
    /// Where to go on; none at the end (N130).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// One conversation of the agent's own store (N127).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryRow {
    /// The session's id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// A second line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subtitle: Option<String>,
    /// The workspace that it was in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<String>,
    /// The tab that it was in, as `<workspace>:<tab>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tab_id: Option<String>,
    /// When it began, in ISO 8601.
    pub started_at: String,
    /// When it ended, in ISO 8601.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// Whether it goes on.
    pub state: RowState,
    /// How many items it holds.
    pub items: u64,
}

/// Whether a conversation goes on (N128).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowState {
    /// It has a pane.
    Open,
    /// It has none any more.
    Closed,
}

/// Items of one conversation of the agent's own store, newest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HistoryItems {
    /// The items.
    pub items: Vec<Item>,
    /// Where to go on; none at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
