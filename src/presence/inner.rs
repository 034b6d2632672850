//! A session as the presence knows it: its model, and how the faces are told.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::time::Instant;

use super::Inner;
use super::ask::Untaken;
use super::nested::{Lent, Within};
use super::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard};
use crate::collie::{Item, NoticeLevel, Pane, PaneEdit, PaneState};
use crate::herdr::{self, ResumeCommand};
use crate::os::random;
use crate::session::{Model, SessionId, Shown, State};

/// A session, as the presence's own thread knows it.
#[derive(Debug)]
pub(super) struct SessionInner {
    pub(super) id: SessionId,
    pub(super) presence: Weak<Inner>,
    pub(super) pane: Option<Pane>,
    pub(super) resume: Mutex<Option<ResumeCommand>>,
    /// What Herdr shows beside the state.
    title: Mutex<Option<String>>,
    pub(super) model: Mutex<Model>,
    /// Whether the faces may be told anything yet.
    pub(super) announced: AtomicBool,
    /// What both faces were told last. Changed only inside an edit of the pane, so that the faces
    /// are told everything in the same order.
    pub(super) told: Mutex<Option<Shown>>,
    /// A copy of what was told, for who may not wait for that lock.
    turn_runs: AtomicBool,
    /// How many turns the session had before this start, so that no turn's id comes twice.
    turns_before: u64,
    /// Counts the notices about being blocked, for their ids.
    notices: AtomicU64,
    /// Counts what the agent itself has said in its turn, for [`Session::glance`](super::Session::glance).
    pub(super) said: AtomicU64,
    /// The same of the turn before.
    pub(super) said_before: AtomicU64,
    /// The user's lines that it has passed on since the last turn: they belong to the next one.
    heard_at_rest: AtomicU64,
    /// Set where the agent runs inside another one.
    pub(super) within: Option<Within>,
    /// Whether agents inside this one have its terminal.
    pub(super) lent: Lent,
    pub(super) has_ended: AtomicBool,
    /// The session that took its place.
    pub(super) successor: OnceLock<Arc<SessionInner>>,
    /// Answers that came for an ask whose asker was gone.
    pub(super) untaken: Untaken,
}

impl SessionInner {
    pub(super) fn new(
        presence: Weak<Inner>,
        id: SessionId,
        pane: Option<Pane>,
        title: Option<String>,
        resume: Option<ResumeCommand>,
        within: Option<Within>,
    ) -> Self {
        let last_turn = pane.as_ref().and_then(Pane::turn_id);
        let last_turn = last_turn.and_then(|id| id.strip_prefix("t-")?.parse().ok());
        Self {
            turns_before: last_turn.unwrap_or(0),
            id,
            presence,
            pane,
            resume: Mutex::new(resume),
            title: Mutex::new(title),
            model: Mutex::new(Model::new()),
            announced: AtomicBool::new(false),
            told: Mutex::new(None),
            turn_runs: AtomicBool::new(false),
            notices: AtomicU64::new(first_notice()),
            said: AtomicU64::new(0),
            said_before: AtomicU64::new(0),
            heard_at_rest: AtomicU64::new(0),
            within,
            lent: Lent::default(),
            has_ended: AtomicBool::new(false),
            successor: OnceLock::new(),
            untaken: Untaken::default(),
        }
    }

    pub(super) fn id(&self) -> &str {
        self.id.as_str()
    }

    /// The id of the turn of this number, by the model's count. None for the number 0.
    pub(super) fn turn_id(&self, turn: u64) -> Option<String> {
        (turn > 0).then(|| format!("t-{}", self.turns_before.saturating_add(turn)))
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
        let ran = self.turn_runs.swap(shown.turn_runs, Ordering::AcqRel);
        *turn_ended = ran && !shown.turn_runs;
        if shown.turn_runs && !ran {
            let heard = self.heard_at_rest.swap(0, Ordering::Relaxed);
            self.said_before.store(self.said.swap(heard, Ordering::Relaxed), Ordering::Relaxed);
        }
        if let Some(edit) = edit {
            edit.state(pane_state(shown.state), self.turn_id(shown.turn).as_deref());
            if let Some(why) = new_block(&shown, told.as_ref()) {
                let number = self.notices.fetch_add(1, Ordering::Relaxed);
                let notice = Item::notice(format!("blocked-{number}"), why);
                if let Err(error) = edit.item(notice.level(NoticeLevel::Warning)) {
                    tracing::warn!(%error, "why the agent is blocked is not in the chat");
                }
            }
        }
        match &self.within {
            Some(within) => {
                within.tell(&shown);
                if let Some(presence) = self.presence.upgrade() {
                    presence.background.changed();
                }
            }
            None => self.tell_herdr(&shown, told.as_ref()),
        }
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
            foreground.show(self);
        }
        if foreground.tells_of(self) {
            reporter.report(herdr_state(shown.state), shown.message.as_deref());
        } else if foreground.shows(self) {
            self.introduce(&presence, &mut foreground, shown);
        }
    }

    /// Counts an item of the agent's. Called after the faces were told of its turn.
    pub(super) fn count(&self, is_users_line: bool) {
        let counter =
            if is_users_line && !self.turn_runs() { &self.heard_at_rest } else { &self.said };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Herdr shows this session from now on. Never one that runs inside another: the pane and its resume
    /// command are the outer one's.
    pub(super) fn come_to_the_foreground(self: &Arc<Self>, is_named: bool) {
        if self.within.is_some() {
            return;
        }
        let Some(presence) = self.presence.upgrade() else { return };
        let told = lock(&self.told);
        let mut foreground = lock(&presence.foreground);
        foreground.is_named |= is_named;
        if foreground.shows(self) || (foreground.is_named && !is_named && foreground.is_open()) {
            return;
        }
        foreground.show(self);
        if let Some(told) = &*told {
            self.introduce(&presence, &mut foreground, told);
        }
    }

    /// Whether Herdr shows this session because it was named.
    pub(super) fn is_named_in_the_foreground(&self) -> bool {
        self.presence.upgrade().is_some_and(|presence| {
            let foreground = lock(&presence.foreground);
            foreground.is_named && foreground.shows(self)
        })
    }

    /// Tells Herdr of another session than before, and of its state with it: the state of the one before
    /// is never reported as this one's.
    fn introduce(&self, presence: &Inner, foreground: &mut Foreground, shown: &Shown) {
        foreground.is_introduced = true;
        let Some(reporter) = &presence.reporter else { return };
        let (resume, message) = (lock(&self.resume).clone(), shown.message.as_deref());
        reporter.switch(self.id.as_str(), resume, herdr_state(shown.state), message);
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
        if let (Some(reporter), true) = (&presence.reporter, foreground.tells_of(self)) {
            reporter.metadata(self.metadata(&presence));
        }
    }

    pub(super) fn end(self: &Arc<Self>, user_quit: bool) {
        let Some(presence) = self.presence.upgrade() else { return };
        if self.has_ended.swap(true, Ordering::AcqRel) {
            return;
        }
        lock(&self.model).ended(Instant::now());
        let can_be_shown = |other: &Arc<Self>| !other.has_ended() && other.within.is_none();
        let other = presence.open_sessions().into_iter().rfind(can_be_shown);
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
        // Before the pane is closed: the chat says what was not taken.
        presence.inbox.refuse(self, "The session has ended.");
        if let Some(pane) = &self.pane {
            pane.close();
        }
        if let Some(within) = &self.within {
            within.ended();
            if let Some(reporter) = &presence.reporter {
                // It may have reported for the pane as well, or what it ran did.
                reporter.resumed();
            }
        }
    }
}

/// The session that Herdr shows.
#[derive(Debug, Default)]
pub(super) struct Foreground {
    session: Weak<SessionInner>,
    /// Herdr was told so. Before its first state, a session is not.
    is_introduced: bool,
    /// It was named, so others do not come to the foreground by being active.
    is_named: bool,
}

impl Foreground {
    pub(super) fn shows(&self, session: &SessionInner) -> bool {
        std::ptr::eq(self.session.as_ptr(), session)
    }

    /// Whether Herdr is told of this session.
    pub(super) fn tells_of(&self, session: &SessionInner) -> bool {
        self.is_introduced && self.shows(session)
    }

    fn show(&mut self, session: &Arc<SessionInner>) {
        self.session = Arc::downgrade(session);
        self.is_introduced = false;
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

/// A number that the notices of an earlier start are not near: theirs are in the same chat.
fn first_notice() -> u64 {
    let digits = random::hex(6).unwrap_or_default();
    u64::from_str_radix(&digits, 16).unwrap_or(0)
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
