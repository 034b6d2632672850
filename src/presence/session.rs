//! One session of a presence.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Instant;

use serde::Serialize;

use super::ask::Untaken;
use super::opening::check_title;
use super::{ApprovalQuestion, Inbox, Inner, Old, Question, SessionError};
use crate::collie::{AskKind, Field, Item, NoticeLevel, Pane, PaneEdit, PaneState};
use crate::herdr::{self, ResumeCommand, ResumeCommandError};
use crate::session::{Model, Rank, ReasonKey, SessionId, Shown, State};

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
        formatter.debug_struct("Session").field("id", &self.id()).finish_non_exhaustive()
    }
}

/// A session, as the presence's own thread knows it.
#[derive(Debug)]
pub(super) struct SessionInner {
    id: SessionId,
    presence: Weak<Inner>,
    pub(super) pane: Option<Pane>,
    resume: Mutex<Option<ResumeCommand>>,
    /// What Herdr shows beside the state.
    title: Mutex<Option<String>>,
    pub(super) model: Mutex<Model>,
    /// Whether the faces may be told anything yet.
    announced: AtomicBool,
    /// What both faces were told last. Changed only inside an edit of the pane, so that the faces
    /// are told everything in the same order.
    told: Mutex<Option<Shown>>,
    /// A copy of what was told, for who may not wait for that lock.
    turn_runs: AtomicBool,
    /// Counts the notices about being blocked, for their ids.
    notices: AtomicU64,
    /// Counts the items of the agent's, for [`Session::glance`].
    pub(super) said: AtomicU64,
    has_ended: AtomicBool,
    /// The session that took its place.
    successor: OnceLock<Arc<SessionInner>>,
    /// Answers that came for an ask whose asker was gone.
    pub(super) untaken: Untaken,
}

/// What a session shows at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Glance {
    pub(crate) state: State,
    /// The number of the running turn, or of the last one; 0 before the first.
    pub(crate) turn: u64,
    pub(crate) turn_runs: bool,
    /// How many items were said in it, by whomever.
    pub(crate) said: u64,
}

/// A reason to be blocked, until it is dropped: see [`Session::block`].
#[must_use = "dropping it ends the reason"]
pub struct Block {
    session: Arc<SessionInner>,
    key: ReasonKey,
}

impl fmt::Debug for Block {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Block").field(&self.session.id()).finish()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        lock(&self.session.model).unblock(self.key);
        self.session.publish();
    }
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

    /// The session, or the one that took its place.
    pub(super) fn inner(&self) -> &Arc<SessionInner> {
        self.inner.successor().unwrap_or(&self.inner)
    }

    pub(super) fn presence(&self) -> &Arc<Inner> {
        &self.presence
    }

    /// The id of the conversation.
    pub fn id(&self) -> &str {
        self.inner().id.as_str()
    }

    /// A turn runs.
    pub fn working(&self) {
        self.state(State::Working, None);
    }

    /// Nothing runs. Held back for 300 ms after working, so that a flap is not shown.
    pub fn idle(&self) {
        self.state(State::Idle, None);
    }

    /// The agent needs the user for something that is no ask: a login, a key at the terminal. Ends
    /// with the next state. Herdr shows why in the place of the word "blocked", Collie as a notice.
    pub fn blocked(&self, why: &str) {
        self.state(State::Blocked, Some(why));
    }

    /// The same until the [`Block`] is dropped, whatever state is said meanwhile: for a part of the
    /// agent that does not know what the other parts do.
    pub fn block(&self, why: &str) -> Block {
        let session = Arc::clone(self.inner());
        let key = lock(&session.model).blocked_by(why);
        session.publish();
        Block { session, key }
    }

    /// The agent's own word on its state.
    pub(crate) fn state(&self, state: State, message: Option<&str>) {
        self.signal(Rank::Word, state, message);
    }

    /// Evidence of the state, trusted by its rank.
    pub(crate) fn signal(&self, rank: Rank, state: State, message: Option<&str>) {
        lock(&self.inner().model).signal(rank, state, message, Instant::now());
        self.presence.background.changed();
    }

    /// The running turn, or the last one: from the user's word to the agent's idle. None before the
    /// first.
    pub fn turn(&self) -> Option<String> {
        self.inner().publish();
        lock(&self.inner().told).as_ref().and_then(|told| turn_id(told.turn))
    }

    /// What the conversation is about, from now on: no control character; Collie cuts it to 256
    /// bytes (N046), Herdr to 80 characters.
    ///
    /// # Errors
    /// Where the control character is.
    pub fn title(&self, title: &str) -> Result<(), SessionError> {
        check_title(title)?;
        if let Some(pane) = &self.inner().pane {
            pane.title(title);
        }
        self.inner().titled(title);
        Ok(())
    }

    /// Sets the command that brings the conversation back, where it is known only now: as
    /// [`SessionBuilder::resume`](super::SessionBuilder::resume).
    ///
    /// # Errors
    /// Which of Herdr's rules broke, and in which word.
    pub fn resume<I>(&self, words: I) -> Result<(), ResumeCommandError>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let command = ResumeCommand::new(words)?;
        let inner = self.inner();
        *lock(&inner.resume) = Some(command.clone());
        let foreground = lock(&self.presence.foreground);
        if let (Some(reporter), true) = (&self.presence.reporter, foreground.shows(inner)) {
            reporter.session(inner.id(), Some(command));
        }
        Ok(())
    }

    /// Neither released nor closed.
    pub fn is_open(&self) -> bool {
        !self.inner().has_ended()
    }

    /// Herdr shows this session, until another one is named. By default it shows the one that was
    /// active last.
    pub fn foreground(&self) {
        self.inner().come_to_the_foreground(true);
    }

    /// What the phone wants of this session.
    pub fn inbox(&self) -> Inbox {
        Inbox::of_session(self)
    }

    /// Begins a question with 2 to 20 options, of which the user picks one, or
    /// [several](Question::several).
    pub fn ask(&self, title: &str) -> Question {
        let kind = AskKind::Choice { options: Vec::new(), multiple: false, min: None, max: None };
        self.question(title, kind)
    }

    /// Begins a question that the user answers with a line of at most 4000 characters.
    pub fn ask_text(&self, title: &str) -> Question {
        self.question(title, AskKind::Text { placeholder: None, max_length: None })
    }

    /// Begins a question with 1 to 20 fields.
    pub fn ask_form(&self, title: &str, fields: impl Into<Vec<Field>>) -> Question {
        self.question(title, AskKind::Form { fields: fields.into() })
    }

    /// Begins a question of any kind, as Collie has them.
    pub fn question(&self, title: &str, kind: AskKind) -> Question {
        Question::new(Arc::clone(self.inner()), title, kind)
    }

    /// Begins the question whether a tool may run. The card is built from the call itself: from the
    /// arguments as they serialise, in their order.
    pub fn approve<A: Serialize>(&self, tool: &str, arguments: A) -> ApprovalQuestion {
        ApprovalQuestion::new(Arc::clone(self.inner()), tool, &arguments)
    }

    /// Closes an open ask as decided by the agent.
    pub(crate) fn withdraw(&self, ask: &str) {
        if let Some(pane) = &self.inner().pane {
            pane.withdraw(ask);
        }
    }

    /// The agent is gone, and nobody quit it: idle at once, and ready to be resumed.
    pub(crate) fn ended(&self) {
        lock(&self.inner().model).ended(Instant::now());
        self.inner().publish();
    }

    /// The user quit the agent: the pane on the phone closes, and Herdr forgets the session, or
    /// shows another one of this presence that is open. After the last one's release nothing more
    /// is reported to Herdr.
    pub fn release(self) {
        self.inner().end(true);
    }

    /// The conversation is over, but the agent is not: the pane on the phone closes. No release:
    /// Herdr shows another session, or this one as idle.
    pub fn close(self) {
        self.inner().end(false);
    }

    pub(super) fn replaced_by(&self, successor: &Arc<SessionInner>, old: Old) {
        let inner = self.inner();
        if Arc::ptr_eq(inner, successor) {
            return;
        }
        lock(&inner.model).ended(Instant::now());
        inner.has_ended.store(true, Ordering::Release);
        inner.publish();
        if let Some(presence) = inner.presence.upgrade() {
            presence.inbox.refuse(inner, "The agent has moved on to another session.");
        }
        if let (Old::Closes, Some(pane)) = (old, &inner.pane) {
            pane.close();
        }
        // Only now: the calls of old handles go there from here on.
        let _ = inner.successor.set(Arc::clone(successor));
    }

    /// What the faces show of it right now.
    pub(crate) fn glance(&self) -> Glance {
        let inner = self.inner();
        let told = lock(&inner.told);
        Glance {
            state: told.as_ref().map_or(State::Idle, |told| told.state),
            turn: told.as_ref().map_or(0, |told| told.turn),
            turn_runs: inner.turn_runs(),
            said: inner.said.load(Ordering::Relaxed),
        }
    }

    /// Brings the newest state to the faces now, rather than in a moment.
    pub(crate) fn publish(&self) {
        self.inner().publish();
    }
}

impl SessionInner {
    pub(super) fn new(
        presence: Weak<Inner>,
        id: SessionId,
        pane: Option<Pane>,
        title: Option<String>,
        resume: Option<ResumeCommand>,
    ) -> Self {
        Self {
            id,
            presence,
            pane,
            resume: Mutex::new(resume),
            title: Mutex::new(title),
            model: Mutex::new(Model::new()),
            announced: AtomicBool::new(false),
            told: Mutex::new(None),
            turn_runs: AtomicBool::new(false),
            notices: AtomicU64::new(0),
            said: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
            successor: OnceLock::new(),
            untaken: Untaken::default(),
        }
    }

    pub(super) fn id(&self) -> &str {
        self.id.as_str()
    }

    /// Whether something blocks the running turn, as far as the faces know.
    pub(super) fn is_blocked_in_a_turn(&self) -> bool {
        let told = lock(&self.told);
        told.as_ref().is_some_and(|shown| shown.turn_runs && shown.state == State::Blocked)
    }

    /// Whether a turn runs, as far as the faces know.
    pub(super) fn turn_runs(&self) -> bool {
        self.turn_runs.load(Ordering::Acquire)
    }

    /// Released, closed, or replaced by another session.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// The session that took its place in the end.
    pub(super) fn successor(&self) -> Option<&Arc<Self>> {
        let mut successor = self.successor.get()?;
        while let Some(next) = successor.successor.get() {
            successor = next;
        }
        Some(successor)
    }

    /// Tells the faces what is to be shown, if it changed; when to look again if nothing happens.
    pub(super) fn publish(self: &Arc<Self>) -> Option<Instant> {
        self.publish_with(|_| {}).1
    }

    /// Does more in the same edit of the pane, so that no reader sees one without the other.
    pub(super) fn publish_with<R>(
        self: &Arc<Self>,
        more: impl FnOnce(Option<&mut PaneEdit<'_, '_>>) -> R,
    ) -> (R, Option<Instant>) {
        let mut turn_ended = false;
        let outcome = match &self.pane {
            None => {
                let again = self.tell(None, &mut turn_ended);
                (more(None), again)
            }
            Some(pane) => pane.edit(|edit| {
                let again = self.tell(Some(edit), &mut turn_ended);
                (more(Some(edit)), again)
            }),
        };
        if turn_ended && let Some(presence) = self.presence.upgrade() {
            presence.turn_ended(self);
        }
        outcome
    }

    fn tell(
        self: &Arc<Self>,
        edit: Option<&mut PaneEdit<'_, '_>>,
        turn_ended: &mut bool,
    ) -> Option<Instant> {
        if !self.announced.load(Ordering::Relaxed) {
            return None;
        }
        let mut told = lock(&self.told);
        let (shown, again) = lock(&self.model).show(Instant::now());
        if told.as_ref() == Some(&shown) {
            return again;
        }
        *turn_ended = self.turn_runs.swap(shown.turn_runs, Ordering::AcqRel) && !shown.turn_runs;
        if let Some(edit) = edit {
            edit.state(pane_state(shown.state), turn_id(shown.turn).as_deref());
            if let Some(why) = new_block(&shown, told.as_ref()) {
                let number = self.notices.fetch_add(1, Ordering::Relaxed);
                let notice = Item::notice(format!("blocked-{number}"), why);
                if let Err(error) = edit.item(notice.level(NoticeLevel::Warning)) {
                    tracing::warn!(%error, "why the agent is blocked is not in the chat");
                }
            }
        }
        self.tell_herdr(&shown, told.as_ref());
        *told = Some(shown);
        again
    }

    /// One lock for all sessions, so that Herdr hears of them one after the other.
    fn tell_herdr(self: &Arc<Self>, shown: &Shown, before: Option<&Shown>) {
        let Some(presence) = self.presence.upgrade() else { return };
        let Some(reporter) = &presence.reporter else { return };
        let mut foreground = lock(&presence.foreground);
        let was_idle = before.is_some_and(|before| before.state == State::Idle);
        let becomes_active = was_idle && shown.state != State::Idle;
        if becomes_active && !foreground.is_named && !foreground.shows(self) && !self.has_ended() {
            foreground.session = Arc::downgrade(self);
            self.introduce(&presence, reporter);
        }
        if foreground.shows(self) {
            reporter.report(herdr_state(shown.state), shown.message.as_deref());
        }
    }

    /// Herdr shows this session from now on.
    pub(super) fn come_to_the_foreground(self: &Arc<Self>, is_named: bool) {
        let Some(presence) = self.presence.upgrade() else { return };
        let told = lock(&self.told);
        let mut foreground = lock(&presence.foreground);
        foreground.is_named |= is_named;
        if foreground.shows(self) || (foreground.is_named && !is_named && foreground.is_open()) {
            return;
        }
        foreground.session = Arc::downgrade(self);
        if let Some(reporter) = &presence.reporter {
            self.introduce(&presence, reporter);
            if let Some(told) = &*told {
                reporter.report(herdr_state(told.state), told.message.as_deref());
            }
        }
    }

    /// Tells Herdr whose states follow.
    fn introduce(&self, presence: &Inner, reporter: &herdr::Reporter) {
        reporter.session(self.id.as_str(), lock(&self.resume).clone());
        reporter.metadata(self.metadata(presence));
    }

    /// What Herdr shows beside the state.
    fn metadata(&self, presence: &Inner) -> herdr::Metadata {
        let mut metadata = herdr::Metadata::new();
        if let Some(title) = &*lock(&self.title) {
            metadata = metadata.title(title);
        }
        if let Some(name) = &presence.display_agent {
            metadata = metadata.display_agent(name);
        }
        metadata
    }

    /// The title is another one; the pane shows it already.
    pub(super) fn titled(self: &Arc<Self>, title: &str) {
        let Some(presence) = self.presence.upgrade() else { return };
        *lock(&self.title) = Some(title.to_owned());
        let foreground = lock(&presence.foreground);
        if let (Some(reporter), true) = (&presence.reporter, foreground.shows(self)) {
            reporter.metadata(self.metadata(&presence));
        }
    }

    fn end(self: &Arc<Self>, user_quit: bool) {
        let Some(presence) = self.presence.upgrade() else { return };
        if self.has_ended.swap(true, Ordering::AcqRel) {
            return;
        }
        lock(&self.model).ended(Instant::now());
        let other = presence.open_sessions().into_iter().rfind(|other| !other.has_ended());
        let shows_us = lock(&presence.foreground).shows(self);
        match (shows_us, other, &presence.reporter) {
            (true, Some(other), _) => {
                lock(&presence.foreground).is_named = false;
                other.come_to_the_foreground(false);
            }
            (true, None, Some(reporter)) if user_quit => reporter.release(),
            _ => {}
        }
        self.publish();
        if let Some(pane) = &self.pane {
            pane.close();
        }
        presence.inbox.refuse(self, "The session has ended.");
    }
}

/// The session that Herdr shows.
#[derive(Debug, Default)]
pub(super) struct Foreground {
    session: Weak<SessionInner>,
    /// It was named, so others do not come to the foreground by being active.
    is_named: bool,
}

impl Foreground {
    fn shows(&self, session: &SessionInner) -> bool {
        std::ptr::eq(self.session.as_ptr(), session)
    }

    fn is_open(&self) -> bool {
        self.session.upgrade().is_some_and(|session| !session.has_ended())
    }
}

/// Why the agent is blocked, if there is no card that says so and the chat does not say it yet.
fn new_block<'a>(shown: &'a Shown, before: Option<&Shown>) -> Option<&'a str> {
    let is_told = |before: &Shown| {
        before.state == State::Blocked && !before.is_asked && before.message == shown.message
    };
    if shown.state != State::Blocked || shown.is_asked || before.is_some_and(is_told) {
        return None;
    }
    shown.message.as_deref().filter(|why| !why.is_empty())
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
