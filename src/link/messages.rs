//! What the link's methods take and give. `src/link/schema.json` says the same for other languages.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::collie::{ActionView, AskOption, DecidedBy, Field, Item};
use crate::presence::Wanted;
use crate::session::{Rank, State};

/// The names of the methods.
pub(crate) mod method {
    /// Opens a session, or names it anew: [`super::OpenParams`].
    pub(crate) const OPEN: &str = "open";
    /// Gives a session another title: [`super::TitleParams`].
    pub(crate) const TITLE: &str = "title";
    /// Herdr shows this session: [`super::SessionParams`].
    pub(crate) const FOREGROUND: &str = "foreground";
    /// The user quit: [`super::ReleaseParams`].
    pub(crate) const RELEASE: &str = "release";
    /// A conversation is over, and the agent is not: [`super::SessionParams`].
    pub(crate) const CLOSE: &str = "close";
    /// What the agent is doing: [`super::StateParams`].
    pub(crate) const STATE: &str = "state";
    /// A reason to be blocked, for a part of the agent that does not know what the other parts do:
    /// [`super::BlockParams`] to [`super::BlockResult`].
    pub(crate) const BLOCK: &str = "block";
    /// That reason is gone: [`super::UnblockParams`].
    pub(crate) const UNBLOCK: &str = "unblock";
    /// The running turn, or the last one: [`super::SessionParams`] to [`super::TurnResult`].
    pub(crate) const TURN: &str = "turn";
    /// A line in the chat: [`super::SayParams`] to [`super::SayResult`].
    pub(crate) const SAY: &str = "say";
    /// Any item of the chat: [`super::ItemParams`].
    pub(crate) const ITEM: &str = "item";
    /// The buttons of a session: [`super::ActionsParams`].
    pub(crate) const ACTIONS: &str = "actions";
    /// What the phone can start: [`super::StartersParams`].
    pub(crate) const STARTERS: &str = "starters";
    /// A question: [`super::AskParams`] to [`super::AskResult`].
    pub(crate) const ASK: &str = "ask";
    /// May a tool run? [`super::ApproveParams`] to [`super::ApproveResult`].
    pub(crate) const APPROVE: &str = "approve";
    /// Closes the card of an open `ask` or `approve`: [`super::WithdrawParams`].
    pub(crate) const WITHDRAW: &str = "withdraw";
    /// What the faces show of a session: [`super::SessionParams`] to [`super::GlanceResult`].
    pub(crate) const GLANCE: &str = "glance";
    /// Where the presence is seen, and how that goes: [`super::StatusParams`] to
    /// [`super::StatusResult`].
    pub(crate) const STATUS: &str = "status";
    /// The agent was stopped and goes on: [`super::NoParams`].
    pub(crate) const RESUMED: &str = "resumed";
    /// From now on, wishes come to this connection: [`super::SubscribeParams`].
    pub(crate) const SUBSCRIBE: &str = "subscribe";
    /// The agent takes up a wish: [`super::AcceptParams`].
    pub(crate) const ACCEPT: &str = "accept";
    /// The agent says no to a wish: [`super::RefuseParams`].
    pub(crate) const REFUSE: &str = "refuse";
    /// Not a method but a notification to the agent: [`super::WishParams`].
    pub(crate) const WISH: &str = "wish";
    /// The last notification to a connection that is dropped: [`super::DroppedParams`].
    pub(crate) const DROPPED: &str = "dropped";
}

/// A state as the link writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StateWord {
    /// Nothing runs; the user may give the next task.
    Idle,
    /// A turn runs.
    Working,
    /// The agent needs the user before it can go on.
    Blocked,
}

impl From<StateWord> for State {
    fn from(word: StateWord) -> Self {
        match word {
            StateWord::Idle => Self::Idle,
            StateWord::Working => Self::Working,
            StateWord::Blocked => Self::Blocked,
        }
    }
}

impl From<State> for StateWord {
    fn from(state: State) -> Self {
        match state {
            State::Idle => Self::Idle,
            State::Working => Self::Working,
            State::Blocked => Self::Blocked,
        }
    }
}

/// What a state is known by, where the agent has not said it itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Evidence {
    Silence,
    Screen,
    Keys,
    Terminal,
    ProgramStatus,
}

impl From<Evidence> for Rank {
    fn from(evidence: Evidence) -> Self {
        match evidence {
            Evidence::Silence => Self::Silence,
            Evidence::Screen => Self::Screen,
            Evidence::Keys => Self::Keys,
            Evidence::Terminal => Self::Terminal,
            Evidence::ProgramStatus => Self::ProgramStatus,
        }
    }
}

impl Evidence {
    /// None: the agent's own word.
    pub(crate) fn of(rank: Rank) -> Option<Self> {
        match rank {
            Rank::Silence => Some(Self::Silence),
            Rank::Screen => Some(Self::Screen),
            Rank::Keys => Some(Self::Keys),
            Rank::Terminal => Some(Self::Terminal),
            Rank::ProgramStatus => Some(Self::ProgramStatus),
            Rank::Word => None,
        }
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OpenParams {
    pub(crate) session: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    /// The command that brings it back, a word an item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) resume: Option<Vec<String>>,
    /// The session that the agent leaves for this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) replaces: Option<String>,
    /// The phone goes on showing the replaced session.
    #[serde(default)]
    pub(crate) keep: bool,
    /// Set where the session is of another agent, inside the presence's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) nested: Option<NestedParams>,
}

/// An agent inside the presence's own one. Its session ends with the connection.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NestedParams {
    /// The session of the agent that it runs inside.
    pub(crate) within: String,
    /// Its name.
    pub(crate) agent: String,
    /// Its folder, absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) folder: Option<PathBuf>,
    /// It has the terminal of the agent that it runs inside.
    #[serde(default)]
    pub(crate) has_terminal: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TitleParams {
    pub(crate) session: String,
    pub(crate) title: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SessionParams {
    pub(crate) session: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct NoParams {}

#[derive(Debug, Deserialize)]
pub(crate) struct ReleaseParams {
    /// Default: all of them.
    #[serde(default)]
    pub(crate) session: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct BlockParams {
    pub(crate) session: String,
    /// Why.
    pub(crate) message: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct BlockResult {
    /// Names the reason on this connection.
    pub(crate) block: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct UnblockParams {
    pub(crate) block: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct TurnResult {
    /// None before the first turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) turn: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StatusParams {
    /// The session that is asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
}

/// Why a connection is dropped.
#[derive(Debug, Serialize)]
pub(crate) struct DroppedParams<'a> {
    pub(crate) reason: &'a str,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StateParams {
    pub(crate) session: String,
    pub(crate) state: StateWord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// What it is known by. Default: the agent's own word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) evidence: Option<Evidence>,
}

/// What the faces show of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GlanceResult {
    pub(crate) state: StateWord,
    /// The number of the running turn, or of the last one; 0 before the first.
    pub(crate) turn: u64,
    pub(crate) turn_runs: bool,
    /// How many items the agent has said in that turn.
    pub(crate) said: u64,
    /// The same of the turn before.
    pub(crate) said_before: u64,
    /// Another agent has its terminal.
    pub(crate) is_lent: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SayParams {
    pub(crate) session: String,
    #[serde(default)]
    pub(crate) kind: SayKind,
    pub(crate) text: String,
    /// The item's id: a known one is replaced. Default: a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    /// The text still grows.
    #[serde(default)]
    pub(crate) partial: bool,
}

/// Who says something, or how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SayKind {
    /// The user.
    User,
    /// The agent.
    #[default]
    Reply,
    /// The agent, to itself.
    Thinking,
    /// The agent, in Markdown.
    Markdown,
    /// A line about the conversation.
    Notice,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SayResult {
    /// The id of the item in the chat.
    pub(crate) id: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ItemParams {
    pub(crate) session: String,
    pub(crate) item: Item,
    /// Somebody made it of what the agent's terminal showed: the agent has not said it itself.
    #[serde(default)]
    pub(crate) transcribed: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ActionsParams {
    pub(crate) session: String,
    pub(crate) actions: Vec<ActionView>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StartersParams {
    pub(crate) starters: Vec<ActionView>,
}

/// The kinds of questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AskWord {
    /// One of `options`, or several.
    #[default]
    Choice,
    /// A line.
    Text,
    /// A set of `fields`.
    Form,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AskParams {
    pub(crate) session: String,
    pub(crate) title: String,
    #[serde(default)]
    pub(crate) kind: AskWord,
    /// Of a choice: 2 to 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) options: Vec<AskOption>,
    /// Of a choice: `min` to `max` of them.
    #[serde(default)]
    pub(crate) multiple: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) min: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) placeholder: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_length: Option<u32>,
    /// Of a form: 1 to 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) fields: Vec<Field>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tool: Option<String>,
    /// The tool call that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) call: Option<String>,
    /// The item of the chat that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) item: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_ms: Option<u64>,
}

/// How an ask ended. One of `option_ids`, `text` and `values` is there if it was answered.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AskResult {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) option_ids: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) values: Option<Map<String, Value>>,
    pub(crate) decided_by: DecidedBy,
    pub(crate) ask_id: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApproveParams {
    pub(crate) session: String,
    pub(crate) tool: String,
    /// The arguments of the call, by name. As text, because it keeps their order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) arguments: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) call: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) item: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_ms: Option<u64>,
}

/// Whether the tool may run. A timeout never approves.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApproveResult {
    pub(crate) approved: bool,
    pub(crate) decided_by: DecidedBy,
    pub(crate) ask_id: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct WithdrawParams {
    /// The id of the request that asked.
    pub(crate) request: Box<RawValue>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SubscribeParams {
    /// Default: all sessions, and what is for the agent as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AcceptParams {
    pub(crate) request_id: String,
    /// Of a start: the session that began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RefuseParams {
    pub(crate) request_id: String,
    /// One sentence for the phone.
    pub(crate) reason: String,
}

/// A wish of the phone, on its way to the agent.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WishParams<'a> {
    pub(crate) request_id: &'a str,
    /// `send`, `steer`, `stop`, `action`, `rename`, `close`, `reopen` or `start`.
    pub(crate) wanted: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) action: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) item: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) starter: Option<&'a str>,
}

impl<'a> WishParams<'a> {
    pub(crate) fn of(request_id: &'a str, session: Option<&'a str>, wanted: &'a Wanted) -> Self {
        let wish = Self { request_id, session, ..Self::default() };
        let target = |target| serde_json::to_value(target).ok();
        match wanted {
            Wanted::Send { text } => Self { wanted: "send", text: Some(text), ..wish },
            Wanted::Steer { text } => Self { wanted: "steer", text: Some(text), ..wish },
            Wanted::Stop => Self { wanted: "stop", ..wish },
            Wanted::Action { action, item } => {
                Self { wanted: "action", action: Some(action), item: item.as_deref(), ..wish }
            }
            Wanted::Rename { target: of, title } => {
                Self { wanted: "rename", target: target(of), title: Some(title), ..wish }
            }
            Wanted::Close { target: of } => Self { wanted: "close", target: target(of), ..wish },
            Wanted::Reopen { session } => Self { wanted: "reopen", session: Some(session), ..wish },
            Wanted::Start { starter, text } => {
                Self { wanted: "start", starter: Some(starter), text: text.as_deref(), ..wish }
            }
        }
    }
}

/// A wish as the agent reads it: what a nested `wrap` has a use for.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WishReceived {
    pub(crate) request_id: String,
    pub(crate) wanted: String,
    #[serde(default)]
    pub(crate) text: Option<String>,
}

/// Where the presence is seen, and how that goes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusResult {
    pub(crate) agent: String,
    /// The session that was asked about, or the one that took its place, while it is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) herdr: Option<HerdrStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) collie: Option<CollieStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) records: Option<RecordsStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) link: Option<LinkStatus>,
}

/// How the Herdr face is.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HerdrStatus {
    pub(crate) pane: String,
    /// `socket` or `cli`: the way that worked last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) transport: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// The last state that Herdr took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reported: Option<StateWord>,
    /// Whether everything wanted was taken.
    pub(crate) settled: bool,
    /// `pending`, `agrees`, `differs` or `unavailable`: what Herdr showed when it was asked.
    pub(crate) read_back: String,
    /// Whom Herdr shows instead, and how, where that differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shown_instead: Option<String>,
    /// `unchecked`, `ours`, `foreign` or `unknown`.
    pub(crate) ownership: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_error: Option<String>,
    pub(crate) seq: u64,
    /// A restart of Herdr may bring back a session before this one, which has no resume command.
    #[serde(default)]
    pub(crate) resumes_another_session: bool,
}

/// How the Collie face is: the socket that it serves, or why none.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CollieStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) socket: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) off: Option<String>,
}

/// Where the sessions are kept, or why nowhere.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RecordsStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) folder: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) off: Option<String>,
}

/// What became of connections of the link that were not ended by their clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LinkStatus {
    /// How many were dropped.
    pub(crate) dropped: u64,
    /// Why, the last time.
    pub(crate) reason: String,
}
