//! A pane: one conversation on the phone.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::answer::{Answer, AskClosed};
use super::ask::{AskError, AskInput};
use super::clean::{self, Limit};
use super::core::{Core, Edit, Items, PaneData};
use super::hooks::{ActionRequest, Handlers, HookError, SendRequest, StopRequest, handler};
use super::id::check_id;
use super::layout::checked_buttons;
use super::rule::RuleError;
use super::waiter::{Ask, Waiter, Waiting};
use super::wire::{ActionView, AskView, BadgeTone, Item, PaneState, ToolStatus};

/// A pane: one conversation on the phone.
///
/// Clones are the same pane. Every call is quick and can be made from any thread. Calls on a pane
/// that was closed change nothing, unless it is brought back.
#[derive(Clone, Debug)]
pub struct Pane {
    core: Core,
    id: Arc<str>,
}

/// What a new pane shows.
#[derive(Clone, Debug, Default)]
pub struct PaneOptions {
    /// Cut to 256 bytes (N046).
    pub title: String,
    /// The agent program; cut to 64 bytes (N047).
    pub harness: String,
    /// Its folder; left out unless it is absolute (N048).
    pub cwd: Option<PathBuf>,
    /// The conversation's id.
    pub session_id: SessionId,
}

/// The id of the conversation that a pane shows (N131, N132).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SessionId {
    /// The pane's id.
    #[default]
    AsPane,
    /// Another one, by the id rule.
    Is(String),
    /// None that stays the same across a restart: `null` on the wire.
    Changing,
}

/// An item or an ask that is not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PaneError {
    /// A value that Collie would throw away.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// The pane is closed.
    #[error("the pane is closed")]
    Closed,
}

impl Pane {
    pub(crate) fn new(core: Core, id: Arc<str>) -> Self {
        Self { core, id }
    }

    pub(crate) fn place(
        core: Core,
        id: &str,
        workspace_id: &str,
        tab_id: &str,
        options: PaneOptions,
    ) -> Result<Self, RuleError> {
        check_id("pane id", id)?;
        let session_id = match options.session_id {
            SessionId::AsPane => Some(id.to_owned()),
            SessionId::Is(session_id) => {
                check_id("session id", &session_id)?;
                Some(session_id)
            }
            SessionId::Changing => None,
        };
        let cwd = options.cwd.filter(|cwd| cwd.is_absolute());
        let id = core.edit(|edit| {
            edit.place_pane(id, tab_id, |id, opened_at, tail| PaneData {
                id,
                workspace_id: workspace_id.to_owned(),
                tab_id: tab_id.to_owned(),
                title: cut_title(&options.title),
                harness: clean::line(&options.harness, Limit::Bytes(64)).text,
                cwd: cwd.and_then(|cwd| cwd.into_os_string().into_string().ok()),
                session_id,
                state: PaneState::Idle,
                turn_id: None,
                opened_at,
                asks: Vec::new(),
                decided: VecDeque::new(),
                actions: Vec::new(),
                items: Items::default(),
                has_unread_chat: false,
                tail,
                partials: HashMap::new(),
                lock: Arc::default(),
                answering: Arc::default(),
                handlers: Handlers::default(),
                view: None,
            })
        });
        Ok(Self::new(core, id))
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The conversation's id; `None` if it will be another one after a restart, or the pane is
    /// closed.
    pub fn session_id(&self) -> Option<String> {
        self.core.edit(|edit| edit.pane(&self.id)?.session_id.clone())
    }

    /// The running turn, or the last one (N056).
    pub fn turn_id(&self) -> Option<String> {
        self.core.edit(|edit| edit.pane(&self.id)?.turn_id.clone())
    }

    /// The open asks, oldest first.
    pub fn open_asks(&self) -> Vec<AskView> {
        self.core.edit(|edit| {
            let asks = edit.pane(&self.id).map(|pane| pane.asks.iter());
            asks.into_iter().flatten().map(|ask| ask.view.clone()).collect()
        })
    }

    /// Whether it is shown.
    pub fn is_open(&self) -> bool {
        self.core.edit(|edit| edit.pane(&self.id).is_some())
    }

    /// Makes several changes as one: no reader sees half of them.
    ///
    /// The core is locked meanwhile: calling another method of the core or of a pane inside
    /// `function` blocks for ever. Use the [`PaneEdit`].
    ///
    /// ```
    /// # use agent_presence::collie::{AskInput, Core, CoreOptions, PaneOptions, PaneState};
    /// # let core = Core::new(CoreOptions::default())?;
    /// # let pane = core.workspace("w", "W")?.tab("t", "T")?.pane("p", PaneOptions::default())?;
    /// let ask = pane.edit(|edit| {
    ///     edit.state(PaneState::Waiting, None);
    ///     edit.ask(AskInput::approval("Deploy?").id("deploy-1"))
    /// })?;
    /// assert_eq!(ask.id(), "deploy-1");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn edit<R>(&self, function: impl FnOnce(&mut PaneEdit<'_, '_>) -> R) -> R {
        self.core.edit(|edit| function(&mut PaneEdit { edit, core: &self.core, id: &self.id }))
    }

    /// Sets what the pane does. `turn_id` names the turn that it belongs to; `None` leaves the turn
    /// as it is. A growing text is finished before the pane leaves `Working` (N063).
    pub fn state(&self, state: PaneState, turn_id: Option<&str>) {
        self.edit(|edit| edit.state(state, turn_id));
    }

    /// Shows an item, or replaces the one of its id in place (N060).
    ///
    /// # Errors
    /// A value breaks its rule (N066), or the pane is closed.
    pub fn item(&self, item: Item) -> Result<(), PaneError> {
        self.edit(|edit| edit.item(item))
    }

    /// Shows what the user said.
    ///
    /// # Errors
    /// As [`item`](Self::item).
    pub fn user(&self, id: &str, text: &str) -> Result<(), PaneError> {
        self.item(Item::user(id, text))
    }

    /// Shows what the agent said.
    ///
    /// # Errors
    /// As [`item`](Self::item).
    pub fn reply(&self, id: &str, text: &str) -> Result<(), PaneError> {
        self.item(Item::reply(id, text))
    }

    /// Shows what the agent has said so far: the whole text each time, as often as it likes. It is
    /// written at most every 250 ms, and finished when the pane leaves `Working` (N062, N063).
    ///
    /// # Errors
    /// As [`item`](Self::item).
    pub fn partial_reply(&self, id: &str, text_so_far: &str) -> Result<(), PaneError> {
        self.item(Item::reply(id, text_so_far).partial())
    }

    /// Shows what the agent thought.
    ///
    /// # Errors
    /// As [`item`](Self::item).
    pub fn thinking(&self, id: &str, text: &str) -> Result<(), PaneError> {
        self.item(Item::thinking(id, text))
    }

    /// Shows text in Markdown.
    ///
    /// # Errors
    /// As [`item`](Self::item).
    pub fn markdown(&self, id: &str, text: &str) -> Result<(), PaneError> {
        self.item(Item::markdown(id, text))
    }

    /// Shows a line about the conversation.
    ///
    /// # Errors
    /// As [`item`](Self::item).
    pub fn notice(&self, id: &str, text: &str) -> Result<(), PaneError> {
        self.item(Item::notice(id, text))
    }

    /// Shows a tool call; [`Item::tool`] can say more of it.
    ///
    /// # Errors
    /// As [`item`](Self::item).
    pub fn tool(&self, id: &str, name: &str, status: ToolStatus) -> Result<(), PaneError> {
        self.item(Item::tool(id, name, status))
    }

    /// Shows code.
    ///
    /// # Errors
    /// As [`item`](Self::item).
    pub fn code(&self, id: &str, text: &str, lang: Option<&str>) -> Result<(), PaneError> {
        self.item(Item::code(id, text, lang))
    }

    /// Shows a link.
    ///
    /// # Errors
    /// As [`item`](Self::item).
    pub fn link(&self, id: &str, text: &str, href: &str) -> Result<(), PaneError> {
        self.item(Item::link(id, text, href))
    }

    /// Shows a word with a colour.
    ///
    /// # Errors
    /// As [`item`](Self::item).
    pub fn badge(&self, id: &str, label: &str, tone: Option<BadgeTone>) -> Result<(), PaneError> {
        self.item(Item::badge(id, label, tone))
    }

    /// Shows how far something is, 0 to 1.
    ///
    /// # Errors
    /// As [`item`](Self::item).
    pub fn progress(&self, id: &str, label: Option<&str>, value: f64) -> Result<(), PaneError> {
        self.item(Item::progress(id, label, value))
    }

    /// Shows a card. Await the [`Ask`], or [`wait`](Ask::wait) for it; dropping it withdraws the
    /// card.
    ///
    /// # Errors
    /// A value breaks its rule, or an ask of this id is open already (N085).
    pub fn ask(&self, input: AskInput) -> Result<Ask, AskError> {
        self.edit(|edit| edit.ask(input))
    }

    /// Shows a card, and calls `decided` exactly once: with the lock released, and before the phone
    /// has the answer to its request. Gives the ask's id, to [`withdraw`](Self::withdraw) it.
    ///
    /// Every method of a pane may be called inside `decided`; what blocks there, blocks the phone.
    /// It is not called after [`Collie::close`](crate::collie::Collie::close) (N043).
    ///
    /// # Errors
    /// As [`ask`](Self::ask); `decided` is then dropped uncalled.
    pub fn ask_with(
        &self,
        input: AskInput,
        decided: impl FnOnce(Result<Answer, AskClosed>) + Send + 'static,
    ) -> Result<String, AskError> {
        self.edit(|edit| edit.ask_with(input, decided))
    }

    /// Closes an open ask as decided by the program.
    pub fn withdraw(&self, ask_id: &str) {
        self.edit(|edit| edit.withdraw(ask_id));
    }

    /// The agent has an answer that [`PaneEdit::ask_told`] told of.
    pub(crate) fn answer_taken(&self, ask_id: &str) {
        self.core.answer_taken(&self.id, ask_id);
    }

    /// The agent is being given a text that it had [deferred](super::SendRequest::defer).
    pub(crate) fn giving(&self, request_id: &str) {
        self.core.edit(|edit| edit.giving(request_id));
    }

    /// A text that the agent had deferred was refused, and the chat says so.
    pub(crate) fn not_taken(&self, request_id: &str) {
        self.core.edit(|edit| edit.delivered(request_id));
    }

    /// Sets the title, cut to 256 bytes.
    pub fn title(&self, title: &str) {
        self.edit(|edit| edit.title(title));
    }

    /// Sets the buttons.
    ///
    /// # Errors
    /// An id breaks its rule.
    pub fn actions(&self, actions: impl Into<Vec<ActionView>>) -> Result<(), RuleError> {
        let actions = checked_buttons("action id", actions.into())?;
        self.core.edit(|edit| edit.set_actions(&self.id, actions));
        Ok(())
    }

    /// Takes it off the phone; its open asks are closed as decided by the program (N090).
    pub fn close(&self) {
        self.core.edit(|edit| edit.close_pane(&self.id));
    }

    /// Handles text for this pane, before the hook (N119).
    pub fn on_send<F, T>(&self, function: F)
    where
        F: Fn(SendRequest) -> T + Send + Sync + 'static,
        T: Future<Output = Result<(), HookError>> + Send + 'static,
    {
        self.handle(|handlers| handlers.send = Some(handler(function)));
    }

    /// Handles text into the running turn of this pane, before the hook.
    pub fn on_steer<F, T>(&self, function: F)
    where
        F: Fn(SendRequest) -> T + Send + Sync + 'static,
        T: Future<Output = Result<(), HookError>> + Send + 'static,
    {
        self.handle(|handlers| handlers.steer = Some(handler(function)));
    }

    /// Handles stops of this pane, before the hook.
    pub fn on_stop<F, T>(&self, function: F)
    where
        F: Fn(StopRequest) -> T + Send + Sync + 'static,
        T: Future<Output = Result<(), HookError>> + Send + 'static,
    {
        self.handle(|handlers| handlers.stop = Some(handler(function)));
    }

    /// Handles taps at this pane's buttons, before the hook.
    pub fn on_action<F, T>(&self, function: F)
    where
        F: Fn(ActionRequest) -> T + Send + Sync + 'static,
        T: Future<Output = Result<(), HookError>> + Send + 'static,
    {
        self.handle(|handlers| handlers.action = Some(handler(function)));
    }

    fn handle(&self, set: impl FnOnce(&mut Handlers)) {
        self.core.edit(|edit| edit.set_handlers(&self.id, set));
    }
}

/// A pane, locked for several changes: see [`Pane::edit`].
pub struct PaneEdit<'a, 'b> {
    edit: &'a mut Edit<'b>,
    core: &'a Core,
    id: &'a Arc<str>,
}

impl fmt::Debug for PaneEdit<'_, '_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PaneEdit").field("id", &self.id).finish_non_exhaustive()
    }
}

impl PaneEdit<'_, '_> {
    /// As [`Pane::state`].
    pub fn state(&mut self, state: PaneState, turn_id: Option<&str>) {
        self.edit.set_state(self.id, state, turn_id);
    }

    /// As [`Pane::item`].
    ///
    /// # Errors
    /// As there.
    pub fn item(&mut self, item: Item) -> Result<(), PaneError> {
        let item = item.prepared()?;
        if self.edit.pane(self.id).is_none() {
            return Err(PaneError::Closed);
        }
        self.edit.put_item(self.id, item);
        Ok(())
    }

    /// As [`Pane::ask`].
    ///
    /// # Errors
    /// As there.
    pub fn ask(&mut self, input: AskInput) -> Result<Ask, AskError> {
        let waiter = Arc::new(Waiter::default());
        let ask_id = self.edit.raise(self.id, input, Waiting::Future(waiter.clone()))?;
        Ok(Ask::new(self.core.clone(), self.id.clone(), ask_id, waiter))
    }

    /// As [`Pane::ask_with`].
    ///
    /// # Errors
    /// As there.
    pub fn ask_with(
        &mut self,
        input: AskInput,
        decided: impl FnOnce(Result<Answer, AskClosed>) + Send + 'static,
    ) -> Result<String, AskError> {
        self.edit.raise(self.id, input, Waiting::Callback(Box::new(decided)))
    }

    /// As [`ask_with`](Self::ask_with), but `decided` is only told: an answer counts as taken once
    /// [`Pane::answer_taken`] says so.
    pub(crate) fn ask_told(
        &mut self,
        input: AskInput,
        decided: impl FnOnce(Result<Answer, AskClosed>) + Send + 'static,
    ) -> Result<String, AskError> {
        self.edit.raise(self.id, input, Waiting::Told(Box::new(decided)))
    }

    /// The open asks from before this start that are not raised again yet: id and title.
    pub(crate) fn asks_from_before(&self) -> Vec<(String, String)> {
        self.edit.asks_from_before(self.id)
    }

    /// Calls `ended` when an ask from before this start is answered, closed or raised again.
    pub(crate) fn watch_from_before(
        &mut self,
        ask_id: &str,
        ended: impl FnOnce() + Send + 'static,
    ) {
        self.edit.watch_from_before(self.id, ask_id, Box::new(ended));
    }

    /// As [`Pane::withdraw`].
    pub fn withdraw(&mut self, ask_id: &str) {
        self.edit.withdraw(self.id, ask_id);
    }

    /// As [`Pane::title`].
    pub fn title(&mut self, title: &str) {
        self.edit.set_title(self.id, &cut_title(title));
    }
}

fn cut_title(title: &str) -> String {
    clean::line(title, Limit::Bytes(256)).text
}
