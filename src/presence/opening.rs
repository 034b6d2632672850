//! How a session opens.

use std::env;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use super::Inner;
use super::builder::path_segment;
use super::inner::{SessionInner, lock};
use super::nested::Within;
use super::session::Session;
use crate::collie::{self, Pane, PaneOptions};
use crate::herdr::{ResumeCommand, ResumeCommandError};
use crate::session::{SessionId, SessionIdError};

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

/// A session that is about to open.
#[derive(Clone, Debug)]
pub struct SessionBuilder {
    presence: Arc<Inner>,
    id: String,
    title: Option<String>,
    resume: Option<ResumeCommand>,
    replaces: Option<(Session, Old)>,
    nested: Option<Nested>,
}

/// A session of an agent that runs inside another one's.
#[derive(Clone, Debug)]
pub(crate) struct Nested {
    /// The outer agent's session.
    pub(crate) within: Session,
    /// The inner agent's name.
    pub(crate) agent: String,
    /// Where it works, if that is known.
    pub(crate) folder: Option<PathBuf>,
    /// Whether it has the outer agent's terminal.
    pub(crate) has_terminal: bool,
}

/// What becomes of the pane of a session that another one replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Old {
    /// The phone stops showing it.
    Closes,
    /// It stays on the phone, idle, to be read; its open asks are withdrawn.
    Stays,
}

impl SessionBuilder {
    pub(super) fn new(presence: Arc<Inner>, id: &str) -> Self {
        let id = id.to_owned();
        Self { presence, id, title: None, resume: None, replaces: None, nested: None }
    }

    /// What the conversation is about: no control character; Collie cuts it to 256 bytes (N046).
    /// Default: the agent's name.
    pub fn title(mut self, title: &str) -> Self {
        self.title = Some(title.to_owned());
        self
    }

    /// The command that brings the conversation back, a word an item: Herdr types it into the shell
    /// of the restored pane. Never a secret in it.
    ///
    /// # Errors
    /// Which of Herdr's rules broke, and in which word.
    pub fn resume<I>(mut self, words: I) -> Result<Self, ResumeCommandError>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.resume = Some(ResumeCommand::new(words)?);
        Ok(self)
    }

    /// The same, checked already.
    pub(crate) fn resume_by(mut self, command: Option<ResumeCommand>) -> Self {
        self.resume = command;
        self
    }

    /// The agent leaves that conversation for this one. It is a new report in Herdr and never a
    /// release; handles of the old session are handles of this one from then on.
    pub fn replaces(mut self, session: &Session, old: Old) -> Self {
        self.replaces = Some((session.clone(), old));
        self
    }

    /// Its agent runs inside another one's session, and has no place of its own in Herdr.
    pub(crate) fn nested(mut self, nested: Nested) -> Self {
        self.nested = Some(nested);
        self
    }

    /// Opens the session, idle. Herdr shows it.
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
        let replaced = self.replaces.as_ref().map(|(old, _)| old.inner().as_ref());
        let outer = self.nested.as_ref();
        // What takes the place of a nested session is nested, too.
        let inherited = replaced.and_then(|old| old.within.as_ref());
        let agent = match (outer, inherited) {
            (Some(nested), _) => nested.agent.clone(),
            (None, Some(within)) => within.agent.clone(),
            (None, None) => self.presence.agent.clone(),
        };
        let shown_title = self.title.clone().unwrap_or_else(|| agent.clone());
        check_title(&shown_title)?;
        let mut sessions = lock(&self.presence.sessions);
        sessions.retain(|session| session.strong_count() > 0);
        let mut open = sessions.iter().filter_map(Weak::upgrade);
        if open.any(|open| open.id() == id.as_str() && !open.has_ended()) {
            return Err(SessionError::Open(id));
        }
        let pane = match &self.presence.collie {
            Ok(core) => Some(
                place(core, &self.presence.agent, &id, self.pane(&agent, shown_title))
                    .map_err(|error| SessionError::Collie(error.to_string()))?,
            ),
            Err(_) => None,
        };
        let presence = Arc::downgrade(&self.presence);
        let within = match outer {
            Some(Nested { within, agent, has_terminal, .. }) => {
                Some(Within::new(within.inner(), agent, *has_terminal))
            }
            None => inherited.and_then(Within::again),
        };
        let inner =
            Arc::new(SessionInner::new(presence, id, pane, self.title, self.resume, within));
        sessions.push(Arc::downgrade(&inner));
        drop(sessions);
        inner.blocked_by_cards_from_before();
        let takes_over = |(old, _): &(Session, Old)| old.inner().is_named_in_the_foreground();
        inner.come_to_the_foreground(self.replaces.as_ref().is_some_and(takes_over));
        if let Some((old, pane)) = self.replaces {
            old.replaced_by(&inner, pane);
        }
        if let Ok(core) = &self.presence.collie {
            core.ready();
        }
        Ok(Session::from_inner(inner, self.presence))
    }

    fn pane(&self, agent: &str, title: String) -> PaneOptions {
        let folder = self.nested.as_ref().and_then(|nested| nested.folder.clone());
        let cwd = folder.or_else(|| env::current_dir().ok());
        PaneOptions { title, harness: agent.to_owned(), cwd, ..PaneOptions::default() }
    }
}

pub(super) fn check_title(title: &str) -> Result<(), SessionError> {
    match title.char_indices().find(|(_, character)| character.is_control()) {
        Some((position, character)) => Err(SessionError::Title { character, position }),
        None => Ok(()),
    }
}

/// Gives the session its pane.
fn place(
    core: &collie::Core,
    agent: &str,
    id: &SessionId,
    options: PaneOptions,
) -> Result<Pane, collie::RuleError> {
    core.workspace(path_segment(agent), agent)?.tab("main", agent)?.pane(id.as_str(), options)
}
