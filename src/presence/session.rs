//! One session of a presence.

use std::env;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use serde_json::Value;

use super::builder::path_segment;
use super::{ApprovalQuestion, Inner, Question};
use crate::collie::{self, Item, Pane, PaneEdit, PaneState};
use crate::herdr;
use crate::os::random;
use crate::session::{Model, Rank, SessionId, SessionIdError, Shown, State};

/// Why a session cannot open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The id breaks a rule.
    #[error(transparent)]
    Id(#[from] SessionIdError),
    /// The title breaks a rule.
    #[error("session title has the control character {character:?} at byte {position}")]
    Title {
        /// The character.
        character: char,
        /// Where it is, in bytes.
        position: usize,
    },
    /// A session of this id is open already.
    #[error("session `{0}` is open already")]
    Open(SessionId),
    /// Collie's rules refuse it.
    #[error("the session has no place in Collie: {0}")]
    Collie(String),
}

/// Why something said is not in the chat.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the item is not in the chat: {0}")]
pub struct SayError(String);

/// A session that is about to open.
#[derive(Clone, Debug)]
pub struct SessionBuilder {
    presence: Arc<Inner>,
    id: String,
    title: Option<String>,
}

/// One conversation of the agent. Cheap to clone; all clones are the same session.
///
/// No call waits for a face, and none fails because a face is slow, full or gone.
#[derive(Clone)]
pub struct Session {
    inner: Arc<SessionInner>,
    /// Keeps the presence alive while somebody holds a session of it.
    presence: Arc<Inner>,
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Session").field("id", &self.inner.id).finish_non_exhaustive()
    }
}

/// A session, as the presence's own thread knows it.
#[derive(Debug)]
pub(super) struct SessionInner {
    id: SessionId,
    presence: Weak<Inner>,
    pub(super) pane: Option<Pane>,
    reporter: Option<herdr::Reporter>,
    pub(super) model: Mutex<Model>,
    /// Whether the faces may be told anything yet.
    announced: AtomicBool,
    /// What both faces were told last. Changed only inside an edit of the pane, so that the faces
    /// are told everything in the same order.
    told: Mutex<Option<Shown>>,
}

impl SessionBuilder {
    pub(super) fn new(presence: Arc<Inner>, id: &str) -> Self {
        Self { presence, id: id.to_owned(), title: None }
    }

    /// What the conversation is about: no control character; Collie cuts it to 256 bytes (N046).
    /// Default: the agent's name.
    pub fn title(mut self, title: &str) -> Self {
        self.title = Some(title.to_owned());
        self
    }

    /// Opens the session, idle.
    ///
    /// # Errors
    /// Which rule of the id or the title broke, or that a session of this id is open.
    pub fn open(self) -> Result<Session, SessionError> {
        let session = self.open_unannounced()?;
        session.announce();
        Ok(session)
    }

    /// Opens the session, and tells the faces no state of it before [`Session::announce`]: its agent
    /// is not up yet.
    pub(crate) fn open_unannounced(self) -> Result<Session, SessionError> {
        let id = SessionId::new(&self.id)?;
        let metadata = metadata(&self.presence, self.title.as_deref());
        let title = self.title.unwrap_or_else(|| self.presence.agent.clone());
        if let Some((position, character)) = title.char_indices().find(|(_, c)| c.is_control()) {
            return Err(SessionError::Title { character, position });
        }
        let mut sessions = lock(&self.presence.sessions);
        sessions.retain(|session| session.strong_count() > 0);
        if sessions.iter().filter_map(Weak::upgrade).any(|open| open.id == id) {
            return Err(SessionError::Open(id));
        }
        let pane = match &self.presence.collie {
            Ok(core) => Some(
                place(core, &self.presence.agent, &id, &title)
                    .map_err(|error| SessionError::Collie(error.to_string()))?,
            ),
            Err(_) => None,
        };
        let inner = Arc::new(SessionInner {
            presence: Arc::downgrade(&self.presence),
            pane,
            reporter: self.presence.reporter.clone(),
            model: Mutex::new(Model::new()),
            announced: AtomicBool::new(false),
            told: Mutex::new(None),
            id,
        });
        sessions.push(Arc::downgrade(&inner));
        *lock(&self.presence.foreground) = Some(inner.id.as_str().to_owned());
        drop(sessions);
        if let Some(reporter) = &inner.reporter {
            reporter.metadata(metadata);
        }
        if let Ok(core) = &self.presence.collie {
            core.ready();
        }
        Ok(Session { inner, presence: self.presence })
    }
}

/// What Herdr shows beside the state.
fn metadata(presence: &Inner, title: Option<&str>) -> herdr::Metadata {
    let mut metadata = herdr::Metadata::new();
    if let Some(title) = title {
        metadata = metadata.title(title);
    }
    if let Some(name) = &presence.display_agent {
        metadata = metadata.display_agent(name);
    }
    metadata
}

/// Gives the session its pane.
fn place(
    core: &collie::Core,
    agent: &str,
    id: &SessionId,
    title: &str,
) -> Result<Pane, collie::RuleError> {
    let options = collie::PaneOptions {
        title: title.to_owned(),
        harness: agent.to_owned(),
        cwd: env::current_dir().ok(),
        ..collie::PaneOptions::default()
    };
    core.workspace(path_segment(agent), agent)?.tab("main", agent)?.pane(id.as_str(), options)
}

impl Session {
    pub(super) fn from_inner(inner: Arc<SessionInner>, presence: Arc<Inner>) -> Self {
        Self { inner, presence }
    }

    /// Its agent is up: from now on the faces are told what it does.
    pub(crate) fn announce(&self) {
        self.inner.announced.store(true, Ordering::Relaxed);
        self.inner.publish();
    }

    /// The id of the conversation.
    pub fn id(&self) -> &str {
        self.inner.id.as_str()
    }

    /// A turn runs.
    pub fn working(&self) {
        self.state(State::Working, None);
    }

    /// Nothing runs. Held back for 300 ms after working, so that a flap is not shown.
    pub fn idle(&self) {
        self.state(State::Idle, None);
    }

    /// The agent needs the user for something that is no ask: a login, a key at the terminal.
    pub fn blocked(&self, why: &str) {
        self.state(State::Blocked, Some(why));
    }

    /// The agent's own word on its state.
    pub(crate) fn state(&self, state: State, message: Option<&str>) {
        self.signal(Rank::Word, state, message);
    }

    /// Evidence of the state, trusted by its rank.
    pub(crate) fn signal(&self, rank: Rank, state: State, message: Option<&str>) {
        lock(&self.inner.model).signal(rank, state, message, Instant::now());
        self.presence.background.changed();
    }

    /// Says something in the chat: a `reply` item. Gives the item's id.
    ///
    /// # Errors
    /// Collie would throw the item away. Without Collie nothing is said, and nothing fails.
    pub fn say(&self, text: &str) -> Result<String, SayError> {
        self.item(|id| Item::reply(id, text))
    }

    /// The same in Markdown.
    ///
    /// # Errors
    /// As [`Session::say`].
    pub fn say_markdown(&self, text: &str) -> Result<String, SayError> {
        self.item(|id| Item::markdown(id, text))
    }

    /// Shows what the agent thinks: a `thinking` item.
    ///
    /// # Errors
    /// As [`Session::say`].
    pub fn think(&self, text: &str) -> Result<String, SayError> {
        self.item(|id| Item::thinking(id, text))
    }

    /// Shows what the user said to the agent: a `user` item.
    ///
    /// # Errors
    /// As [`Session::say`].
    pub fn heard(&self, text: &str) -> Result<String, SayError> {
        self.item(|id| Item::user(id, text))
    }

    /// Shows a line about the conversation: a `notice` item.
    ///
    /// # Errors
    /// As [`Session::say`].
    pub fn notice(&self, text: &str) -> Result<String, SayError> {
        self.item(|id| Item::notice(id, text))
    }

    fn item(&self, item: impl FnOnce(&str) -> Item) -> Result<String, SayError> {
        let id = random::hex(8).map_err(|error| SayError(error.to_string()))?;
        if let Some(pane) = &self.inner.pane {
            pane.item(item(&id)).map_err(|error| SayError(error.to_string()))?;
        }
        Ok(id)
    }

    /// Begins a question with 2 to 20 options, of which the user picks one.
    pub fn ask(&self, title: &str) -> Question {
        Question::new(Arc::clone(&self.inner), title)
    }

    /// Begins the question whether a tool may run. The card is built from the call itself.
    pub fn approve(&self, tool: &str, arguments: Value) -> ApprovalQuestion {
        ApprovalQuestion::new(Arc::clone(&self.inner), tool, arguments)
    }

    /// The agent is gone, and nobody quit it: idle at once, and ready to be resumed.
    pub(crate) fn ended(&self) {
        lock(&self.inner.model).ended(Instant::now());
        self.inner.publish();
    }

    /// The user quit the agent: Herdr forgets the session, and the pane on the phone closes.
    pub fn release(self) {
        if let Some(reporter) = &self.inner.reporter
            && self.inner.is_foreground()
        {
            reporter.release();
        }
        if let Some(pane) = &self.inner.pane {
            pane.close();
        }
    }

    /// Brings the newest state to the faces now, rather than in a moment.
    pub(crate) fn publish(&self) {
        self.inner.publish();
    }
}

impl SessionInner {
    pub(super) fn id(&self) -> &str {
        self.id.as_str()
    }

    /// Tells the faces what is to be shown, if it changed; when to look again if nothing happens.
    pub(super) fn publish(&self) -> Option<Instant> {
        self.publish_with(|_| {}).1
    }

    /// Does more in the same edit of the pane, so that no reader sees one without the other.
    pub(super) fn publish_with<R>(
        &self,
        more: impl FnOnce(Option<&mut PaneEdit<'_, '_>>) -> R,
    ) -> (R, Option<Instant>) {
        let Some(pane) = &self.pane else {
            let again = self.tell(None);
            return (more(None), again);
        };
        pane.edit(|edit| {
            let again = self.tell(Some(edit));
            (more(Some(edit)), again)
        })
    }

    fn tell(&self, edit: Option<&mut PaneEdit<'_, '_>>) -> Option<Instant> {
        if !self.announced.load(Ordering::Relaxed) {
            return None;
        }
        let mut told = lock(&self.told);
        let (shown, again) = lock(&self.model).show(Instant::now());
        if told.as_ref() != Some(&shown) {
            if let Some(edit) = edit {
                edit.state(pane_state(shown.state), turn_id(shown.turn).as_deref());
            }
            if let Some(reporter) = &self.reporter
                && self.is_foreground()
            {
                reporter.report(herdr_state(shown.state), shown.message.as_deref());
            }
            *told = Some(shown);
        }
        again
    }

    fn is_foreground(&self) -> bool {
        self.presence
            .upgrade()
            .is_some_and(|presence| lock(&presence.foreground).as_deref() == Some(self.id.as_str()))
    }
}

fn turn_id(turn: u64) -> Option<String> {
    (turn > 0).then(|| format!("t-{turn}"))
}

fn pane_state(state: State) -> PaneState {
    match state {
        State::Idle => PaneState::Idle,
        State::Working => PaneState::Working,
        State::Blocked => PaneState::Waiting,
    }
}

fn herdr_state(state: State) -> herdr::State {
    match state {
        State::Idle => herdr::State::Idle,
        State::Working => herdr::State::Working,
        State::Blocked => herdr::State::Blocked,
    }
}

/// The lock's value. None of our critical sections can leave it half changed.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
