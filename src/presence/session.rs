//! One session of a presence.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use serde::Serialize;

use super::inner::{SessionInner, lock};
use super::opening::check_title;
use super::{ApprovalQuestion, Inbox, Inner, Old, Question, SessionError};
use crate::collie::{AskKind, Field};
use crate::herdr::{ResumeCommand, ResumeCommandError};
use crate::session::{Rank, ReasonKey, State};

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

/// What a session shows at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Glance {
    pub(crate) state: State,
    /// The number of the running turn, or of the last one; 0 before the first.
    pub(crate) turn: u64,
    pub(crate) turn_runs: bool,
    /// How many items the agent itself has said in that turn, with the user's line just before it.
    pub(crate) said: u64,
    /// The same of the turn before.
    pub(crate) said_before: u64,
    /// Another agent, with a session of its own, has the terminal.
    pub(crate) is_lent: bool,
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
        let inner = self.inner();
        inner.publish();
        lock(&inner.told).as_ref().and_then(|told| inner.turn_id(told.turn))
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
        if let Some(keeper) = self.presence.keeper.get() {
            keeper.titled(self, title);
        }
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
        self.resume_by(Some(ResumeCommand::new(words)?));
        Ok(())
    }

    /// The same, checked already; none takes the one before back.
    pub(crate) fn resume_by(&self, command: Option<ResumeCommand>) {
        let inner = self.inner();
        let mut resume = lock(&inner.resume);
        // Said again it would be one more report.
        if *resume == command {
            return;
        }
        resume.clone_from(&command);
        drop(resume);
        let foreground = lock(&self.presence.foreground);
        if let (Some(reporter), true) = (&self.presence.reporter, foreground.tells_of(inner)) {
            reporter.session(inner.id(), command);
        }
    }

    /// Neither released nor closed.
    pub fn is_open(&self) -> bool {
        loop {
            let inner = self.inner();
            if !inner.has_ended() {
                return true;
            }
            // One that was replaced between the two looks has a successor by now, which is what counts.
            if inner.successor().is_none() {
                return false;
            }
        }
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
        inner.publish();
        if let Some(presence) = inner.presence.upgrade() {
            presence.inbox.refuse(inner, "The agent has moved on to another session.");
        }
        if let Some(within) = &inner.within {
            within.ended();
        }
        match (old, &inner.pane) {
            (Old::Closes, Some(pane)) => pane.close(),
            // What is still asked there is asked by nobody any more.
            (Old::Stays, Some(pane)) => {
                pane.open_asks().iter().for_each(|ask| pane.withdraw(&ask.id));
            }
            (_, None) => {}
        }
        // Only now: the calls of old handles go there from here on.
        let _ = inner.successor.set(Arc::clone(successor));
        // And only then: whoever waits for the end of the old one waits for that of the new one.
        inner.has_ended.store(true, Ordering::Release);
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
            said_before: inner.said_before.load(Ordering::Relaxed),
            is_lent: self.is_lent(),
        }
    }

    /// Whether another agent, with a session of its own, has the terminal.
    pub(crate) fn is_lent(&self) -> bool {
        // Also after this session was replaced: the terminal stays lent.
        self.inner.lent.is_lent() || self.inner().lent.is_lent()
    }

    /// Brings the newest state to the faces now, rather than in a moment.
    pub(crate) fn publish(&self) {
        self.inner().publish();
    }
}
