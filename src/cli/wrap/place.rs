//! The session of the wrapped agent, wherever it is shown: by a presence of our own, or, where we run
//! inside a wrapped agent ourselves, by that agent's.

use std::sync::Arc;

use super::outer::{self, Joined};
use crate::collie::Item;
use crate::os::random;
use crate::presence::{self, Block, Glance, Presence, Session, Wanted, Wish};
use crate::session::{Rank, State};

/// The session. Cheap to clone; nothing here waits long for anybody.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Own { presence: Presence, session: Session },
    Joined(Arc<Joined>),
}

impl Place {
    /// The agent is up.
    pub(super) fn announce(&self) {
        match self {
            Self::Own { session, .. } => session.announce(),
            // It was opened for all to see.
            Self::Joined(_) => {}
        }
    }

    /// The end has begun, and it is no quit.
    pub(super) fn leave(&self) {
        match self {
            Self::Own { presence, .. } => presence.leave(),
            // It does not come back by itself.
            Self::Joined(_) => {}
        }
    }

    /// Evidence of the state, in force after [`Place::flush`] at the latest. Waits for nobody.
    pub(super) fn signal(&self, rank: Rank, state: State, message: Option<&str>) {
        match self {
            Self::Own { session, .. } => session.signal(rank, state, message),
            Self::Joined(joined) => joined.signal(rank, state, message),
        }
    }

    /// Brings the evidence to whoever decides on it.
    pub(super) fn flush(&self) {
        match self {
            // Its own thread does.
            Self::Own { .. } => {}
            Self::Joined(joined) => joined.flush(),
        }
    }

    /// Something at the terminal needs the user until this is dropped. None: it cannot be said here.
    pub(super) fn block(&self, why: &str) -> Option<Block> {
        match self {
            Self::Own { session, .. } => Some(session.block(why)),
            Self::Joined(_) => None,
        }
    }

    /// What the faces show right now.
    pub(super) fn glance(&self) -> Glance {
        match self {
            Self::Own { session, .. } => session.glance(),
            Self::Joined(joined) => joined.glance(),
        }
    }

    /// The same, once all that was said is with the faces.
    pub(super) fn newest(&self) -> Glance {
        if let Self::Own { session, .. } = self {
            session.publish();
        }
        self.glance()
    }

    /// Neither released nor closed, as far as is known here.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Own { session, .. } => session.is_open(),
            Self::Joined(_) => true,
        }
    }

    /// Another agent has the terminal. Waits for nobody.
    pub(super) fn is_lent(&self) -> bool {
        match self {
            Self::Own { session, .. } => session.is_lent(),
            Self::Joined(joined) => joined.is_lent(),
        }
    }

    /// Shows an item that was made of what the terminal showed.
    pub(super) fn transcribe(&self, item: impl FnOnce(&str) -> Item) {
        let shown = random::hex(8).map_err(|error| error.to_string()).and_then(|id| match self {
            Self::Own { session, .. } => {
                session.transcribe(item(&id)).map_err(|error| error.to_string())
            }
            Self::Joined(joined) => joined.transcribe(item(&id)).map_err(str::to_owned),
        });
        if let Err(error) = shown {
            tracing::warn!(error, "something is not in the chat");
        }
    }

    /// What the phone wants.
    pub(super) fn inbox(&self) -> Inbox {
        match self {
            Self::Own { session, .. } => Inbox::Own(session.inbox()),
            Self::Joined(joined) => Inbox::Joined(joined.inbox()),
        }
    }

    /// The agent was stopped and goes on.
    pub(super) fn resumed(&self) {
        match self {
            Self::Own { presence, .. } => presence.resumed(),
            // Herdr shows the outer agent.
            Self::Joined(_) => {}
        }
    }
}

/// Where the phone's wishes come from.
pub(super) enum Inbox {
    Own(presence::Inbox),
    Joined(Option<outer::Inbox>),
}

impl Inbox {
    /// The next wish. None: the session has ended.
    pub(super) fn wait(&mut self) -> Option<Request> {
        match self {
            Self::Own(inbox) => inbox.wait().map(Request::Own),
            Self::Joined(inbox) => inbox.as_mut()?.wait().map(Request::Joined),
        }
    }
}

/// A wish of the phone. One that is dropped is refused.
pub(super) enum Request {
    Own(Wish),
    Joined(outer::Wish),
}

impl Request {
    pub(super) fn wanted(&self) -> Wanted {
        match self {
            Self::Own(wish) => wish.wanted().clone(),
            Self::Joined(wish) => wish.wanted.clone(),
        }
    }

    /// It is a text that was accepted before the agent was started again.
    pub(super) fn is_from_before(&self) -> bool {
        match self {
            Self::Own(wish) => wish.is_from_before(),
            // The outer presence was there before the agent.
            Self::Joined(_) => false,
        }
    }

    /// Takes it up. A text is in the chat as the user's then.
    pub(super) fn accept(self) {
        match self {
            Self::Own(wish) => _ = wish.accept(),
            Self::Joined(wish) => wish.accept(),
        }
    }

    /// Says no, in one sentence.
    pub(super) fn refuse(self, why: &str) {
        match self {
            Self::Own(wish) => wish.refuse(why),
            Self::Joined(wish) => wish.refuse(why),
        }
    }
}
