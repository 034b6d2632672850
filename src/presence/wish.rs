//! What the phone wants of the agent: one wish, and the agent's answer to it.

use std::fmt;
use std::sync::Weak;

use tokio::sync::oneshot;

use super::inner::SessionInner;
use super::session::Session;
use crate::collie::{self, HookError, Item, NoticeLevel, Target};

/// Which wishes of the phone an agent takes. What it does not take, the phone does not offer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a list of switches, as the phone has it")]
pub struct Takes {
    /// Text for the next turn.
    pub send: bool,
    /// Text into the running turn.
    pub steer: bool,
    /// The running turn is to stop.
    pub stop: bool,
    /// Taps at the buttons of [`Session::actions`].
    pub action: bool,
    /// Another title.
    pub rename: bool,
    /// A session is to be closed.
    pub close: bool,
    /// A closed session is to come back.
    pub reopen: bool,
    /// A new session is to begin.
    pub start: bool,
}

impl Takes {
    /// Nothing: name what is taken, as in `Takes { send: true, ..Takes::NONE }`.
    pub const NONE: Self = Self {
        send: false,
        steer: false,
        stop: false,
        action: false,
        rename: false,
        close: false,
        reopen: false,
        start: false,
    };

    /// Everything.
    pub const ALL: Self = Self {
        send: true,
        steer: true,
        stop: true,
        action: true,
        rename: true,
        close: true,
        reopen: true,
        start: true,
    };
}

/// What the phone wants.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wanted {
    /// Text for the next turn: 1 byte to 64 KiB.
    Send {
        /// What the user wrote.
        text: String,
    },
    /// Text into the running turn: 1 byte to 64 KiB.
    Steer {
        /// What the user wrote.
        text: String,
    },
    /// The running turn is to stop.
    Stop,
    /// A button was tapped.
    Action {
        /// The button's id.
        action: String,
        /// The item that it was tapped at.
        item: Option<String>,
    },
    /// Another title; it is shown once the wish is accepted.
    Rename {
        /// What is renamed.
        target: Target,
        /// The title, cleaned and cut to 256 bytes.
        title: String,
    },
    /// Something is to be closed; the phone stops showing it once the wish is accepted.
    Close {
        /// What is closed.
        target: Target,
    },
    /// A closed session is to come back: open it again under its id, then accept.
    Reopen {
        /// The session's id.
        session: String,
    },
    /// A new session is to begin: open it, then accept with [`Wish::accept_with`].
    Start {
        /// Which of [`Presence::starters`](super::Presence::starters) was tapped.
        starter: String,
        /// The first text.
        text: Option<String>,
    },
}

/// One wish of the phone, handed out once.
///
/// Accept or refuse it soon: the phone's request waits for that. Dropped without either, it is
/// refused, so that an agent which ignores a kind of wish leaves nobody waiting.
#[must_use = "a wish that is dropped is refused"]
pub struct Wish {
    entry: Option<Entry>,
}

impl fmt::Debug for Wish {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Wish").field(&self.wanted()).finish()
    }
}

/// What a wish is until it is accepted: no wish of its own can be empty.
const NOTHING: Wanted = Wanted::Stop;

impl Wish {
    pub(super) fn new(entry: Entry) -> Self {
        Self { entry: Some(entry) }
    }

    /// What is wanted.
    pub fn wanted(&self) -> &Wanted {
        self.entry.as_ref().map_or(&NOTHING, |entry| &entry.wanted)
    }

    /// The id of the phone's request, unique for each wish.
    pub fn request_id(&self) -> &str {
        self.entry.as_ref().map_or("", |entry| &entry.request_id)
    }

    /// The session that it is for. None: for the agent as a whole.
    pub fn session_id(&self) -> Option<&str> {
        self.entry.as_ref()?.session_id.as_deref()
    }

    /// It is a text that was accepted before the agent was started again.
    pub(crate) fn is_from_before(&self) -> bool {
        self.entry.as_ref().is_some_and(|entry| entry.is_from_before)
    }

    /// Takes it up, and says so to the phone. A text appears in the chat as the user's.
    pub fn accept(self) -> Wanted {
        self.accepted(None)
    }

    /// Takes up a start, and says which session it began.
    pub fn accept_with(self, session: &Session) -> Wanted {
        self.accepted(Some(session.id().to_owned()))
    }

    pub(crate) fn accepted(mut self, began: Option<String>) -> Wanted {
        let Some(entry) = self.entry.take() else { return NOTHING };
        let session = entry.session.upgrade();
        match (&entry.wanted, &session) {
            (Wanted::Send { text } | Wanted::Steer { text }, Some(session)) => {
                session.heard_from_phone(&entry.request_id, text);
            }
            (Wanted::Rename { target: Target::Pane(_), title }, Some(session)) => {
                session.titled(title);
            }
            _ => {}
        }
        let began = match &entry.wanted {
            Wanted::Reopen { session } => Some(session.clone()),
            _ => began,
        };
        if let Some(answer) = entry.answer {
            // Nobody waits any more only when the presence ends.
            let _ = answer.send(Ok(began));
        }
        entry.wanted
    }

    /// Says no. The phone shows the reason: one sentence.
    pub fn refuse(mut self, reason: &str) {
        if let Some(entry) = self.entry.take() {
            entry.refuse(reason);
        }
    }
}

impl Drop for Wish {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            entry.refuse("The agent did not take it.");
        }
    }
}

/// What a hook is told: the session that began, or why not.
pub(super) type Outcome = Result<Option<String>, HookError>;

/// A wish that waits for the agent, or is in its hands.
pub(super) struct Entry {
    pub(super) number: u64,
    pub(super) session: Weak<SessionInner>,
    pub(super) session_id: Option<String>,
    pub(super) request_id: String,
    pub(super) wanted: Wanted,
    /// The phone's request. None: it has its answer already, because a turn ran.
    pub(super) answer: Option<oneshot::Sender<Outcome>>,
    /// It was accepted before the agent was started again.
    pub(super) is_from_before: bool,
}

impl Entry {
    /// It is handed out. If the agent ends before it has taken a text that the phone believes accepted,
    /// nobody knows whether it did.
    pub(super) fn giving(&self) {
        let pane = self.session.upgrade().and_then(|session| session.pane.clone());
        if let (None, Some(pane)) = (&self.answer, pane) {
            pane.giving(&self.request_id);
        }
    }

    /// The phone's request is refused. Where it has its answer already, the chat says so: what a
    /// person wrote is never lost without a word.
    pub(super) fn refuse(self, reason: &str) {
        match (self.answer, &self.wanted, self.session.upgrade()) {
            (Some(answer), ..) => {
                let _ = answer.send(Err(HookError::refused(reason)));
            }
            (None, Wanted::Send { text }, Some(session)) => {
                let id = format!("refused-{}", collie::ask_id_for(session.id(), &self.request_id));
                let notice = Item::notice(id, format!("{reason} Not taken: {text}"));
                session.show(notice.level(NoticeLevel::Warning));
                if let Some(pane) = &session.pane {
                    pane.not_taken(&self.request_id);
                }
            }
            _ => {}
        }
    }
}
