//! A presence: an agent's sessions as others see them, in Herdr and in Collie at the same time.
//!
//! A [`Presence`] owns one background thread with a runtime of its own, so every call here works
//! from any thread, inside a runtime of the caller's or outside, and none of them waits for a face.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use agent_presence::Presence;
//!
//! let presence = Presence::builder("my-agent").start()?;
//! let session = presence.session("sess-42").title("Fix the build").open()?;
//! session.working();
//! session.say("Looking at the build log.")?;
//! session.idle();
//! session.release(); // The user quit. Dropping it without this is not a quit.
//! # Ok(())
//! # }
//! ```
//!
//! # What the phone wants
//!
//! An agent that says what it [takes](Builder::takes) gets it from an [`Inbox`]:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use agent_presence::presence::{Presence, Takes, Wanted};
//!
//! let takes = Takes { send: true, stop: true, ..Takes::NONE };
//! let presence = Presence::builder("my-agent").takes(takes).start()?;
//! let session = presence.session("sess-42").open()?;
//! let inbox = session.inbox();
//! # session.release();
//! while let Some(wish) = inbox.wait() {
//!     match wish.accept() {
//!         Wanted::Send { text } => println!("the next turn is about: {text}"),
//!         Wanted::Stop => println!("stopping"),
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! What a dropped future does, and which names may change, is on the crate's page:
//! [Cancel safety](crate#cancel-safety), [Stability](crate#stability).

mod ask;
mod builder;
mod chat;
mod gone;
mod hooks;
mod inbox;
mod inner;
mod keeper;
mod nested;
mod opening;
mod question;
mod queue;
mod records;
mod session;
mod sync;
mod thread;
mod wish;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

pub use ask::{Approval, Ask, AskError, Verdict};
pub(crate) use builder::DEFAULT_SOURCE;
pub use builder::{Builder, StartError};
pub use chat::{Reply, SayError};
pub use inbox::Inbox;
pub(crate) use keeper::Keeper;
pub(crate) use opening::Nested;
pub use opening::{Old, SessionBuilder, SessionError};
pub use question::{ApprovalQuestion, Question};
pub(crate) use session::Glance;
pub use session::{Block, Session};
pub use wish::{Takes, Wanted, Wish};

use crate::collie::{ActionView, RuleError};
use crate::herdr::Reporter;
use inner::{Foreground, SessionInner, lock};
use queue::Queue;
use records::PaneRecords;
use sync::Mutex;
use thread::Background;

/// How long leaving may take, whatever the faces do.
const EXIT_LIMIT: Duration = Duration::from_millis(300);

/// An agent as others see it. Cheap to clone; all clones are the same presence.
#[derive(Clone, Debug)]
pub struct Presence {
    inner: Arc<Inner>,
}

/// Where a presence is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Herdr's sidebar.
    pub herdr: FaceStatus,
    /// Collie's phone.
    pub collie: FaceStatus,
    /// The records of its sessions on disk, from which they come back.
    pub records: FaceStatus,
}

/// Whether one face shows the presence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaceStatus {
    /// It does; where: Herdr's pane, Collie's socket, the folder of the records.
    On(String),
    /// It was wanted, but it cannot; one line that says why.
    Off(String),
    /// Nobody wants it here.
    Absent,
}

#[derive(Debug)]
struct Inner {
    agent: String,
    display_agent: Option<String>,
    reporter: Option<Reporter>,
    /// The pane in Herdr, for [`Status`].
    herdr_pane: Option<String>,
    collie: Result<crate::collie::Core, FaceStatus>,
    /// Where the Collie face listens, if it does.
    collie_address: Option<PathBuf>,
    /// The records of its sessions.
    records: PaneRecords,
    background: Background,
    sessions: Mutex<Vec<Weak<SessionInner>>>,
    /// The session that Herdr shows. A lock of its own, because it is looked up inside an edit of
    /// a pane, which may be made while `sessions` is held.
    foreground: Mutex<Foreground>,
    /// What the phone wants, until the agent takes it.
    inbox: Arc<Queue>,
    keeper: OnceLock<Arc<dyn Keeper>>,
    patience: Duration,
}

impl Presence {
    /// Begins a presence of the agent of this name.
    pub fn builder(agent: &str) -> Builder {
        Builder::new(agent)
    }

    /// The agent's name.
    pub fn agent(&self) -> &str {
        &self.inner.agent
    }

    /// Begins a session. The id names the conversation and stays the same when it is resumed.
    pub fn session(&self, id: &str) -> SessionBuilder {
        SessionBuilder::new(Arc::clone(&self.inner), id)
    }

    /// What the phone wants of all sessions, and of the agent as a whole: a start, a reopen, and
    /// what concerns a tab or a workspace. A wish goes to one inbox only.
    pub fn inbox(&self) -> Inbox {
        Inbox::of_presence(self)
    }

    /// What the phone can start; each tap is a [`Wanted::Start`].
    ///
    /// # Errors
    /// An id breaks its rule (N049).
    pub fn starters(&self, starters: impl Into<Vec<ActionView>>) -> Result<(), RuleError> {
        match &self.inner.collie {
            Ok(core) => core.starters(starters),
            Err(_) => Ok(()),
        }
    }

    /// The user quit the agent: every session is released, and Herdr forgets it.
    pub fn release(&self) {
        for session in self.inner.open_sessions() {
            Session::from_inner(session, Arc::clone(&self.inner)).release();
        }
    }

    /// What the Herdr face knows about itself. None: nobody wants it here.
    pub fn herdr_status(&self) -> Option<crate::herdr::Status> {
        self.inner.reporter.as_ref().map(Reporter::status)
    }

    /// Where this presence is seen.
    pub fn status(&self) -> Status {
        Status {
            herdr: match &self.inner.herdr_pane {
                Some(pane) => FaceStatus::On(pane.clone()),
                None => FaceStatus::Absent,
            },
            collie: match (&self.inner.collie, &self.inner.collie_address) {
                (Ok(_), address) => {
                    let address = address.as_deref().unwrap_or(Path::new(""));
                    FaceStatus::On(address.display().to_string())
                }
                (Err(status), _) => status.clone(),
            },
            records: self.inner.records.status(),
        }
    }

    /// Ends the presence: what was said last is brought to the faces, then the socket goes away.
    /// Open asks stay open, for an exit is not an answer. Takes 300 ms at most, whatever the faces
    /// do. Whether the user quit is said by [`Session::release`] before.
    pub fn close(self) {
        self.leave();
        // A text that was accepted stays in the records, for the agent to have when it comes back.
        self.inner.inbox.close(self.inner.records.records().is_some());
        for session in self.inner.open_sessions() {
            lock(&session.model).settle();
            session.publish();
        }
        let deadline = Instant::now() + EXIT_LIMIT;
        if let Some(reporter) = &self.inner.reporter {
            reporter.finish(EXIT_LIMIT);
        }
        self.inner.background.stop(deadline.saturating_duration_since(Instant::now()));
    }

    /// The end has begun, and the agent may come back: what it asks from now on loses its asker, but stays
    /// open in the records.
    pub(crate) fn leave(&self) {
        if let Ok(core) = &self.inner.collie {
            core.leave();
        }
    }

    /// The agent is gone, and nobody quit it: all its sessions are idle, and ready to be resumed.
    pub(crate) fn ended(&self) {
        for session in self.inner.open_sessions() {
            Session::from_inner(session, Arc::clone(&self.inner)).ended();
        }
    }

    /// The agent was stopped and goes on: Herdr forgot what it knew meanwhile.
    pub fn resumed(&self) {
        if let Some(reporter) = &self.inner.reporter {
            reporter.resumed();
        }
    }

    /// From now on it is `keeper` who brings the sessions back that it keeps.
    pub(crate) fn keep_with(&self, keeper: Arc<dyn Keeper>) {
        let _ = self.inner.keeper.set(keeper);
    }

    /// Who brings this session back in a way of its own.
    pub(crate) fn keeper_of(&self, session: &Session) -> Option<&dyn Keeper> {
        self.inner.keeper.get().map(|keeper| &**keeper).filter(|keeper| keeper.keeps(session))
    }

    /// The open session of this id.
    pub(crate) fn find(&self, id: &str) -> Option<Session> {
        let session = self.inner.find(id)?;
        Some(Session::from_inner(session, Arc::clone(&self.inner)))
    }

    /// Runs a task on the presence's own thread, until the presence ends.
    pub(crate) fn spawn(
        &self,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> tokio::task::AbortHandle {
        self.inner.background.spawn(task)
    }
}

impl Inner {
    fn open_sessions(&self) -> Vec<Arc<SessionInner>> {
        lock(&self.sessions).iter().filter_map(Weak::upgrade).collect()
    }

    /// The session of this id, or of this id until another one took its place.
    fn find(&self, id: &str) -> Option<Arc<SessionInner>> {
        let mut named = self.open_sessions();
        named.retain(|session| session.id() == id);
        let open = named.iter().rfind(|session| !session.has_ended()).cloned();
        open.or_else(|| named.iter().find_map(|session| session.successor()).cloned())
    }

    /// Brings every change to the faces; when to look again if nothing happens.
    fn publish(&self) -> Option<Instant> {
        self.open_sessions().iter().filter_map(SessionInner::publish).min()
    }

    /// Texts that waited for the end of a turn can be handed out, but not for ever.
    fn turn_ended(self: &Arc<Self>, session: &Arc<SessionInner>) {
        // What was asked before a restart and not again in a whole turn is asked no more.
        session.withdraw_cards_from_before();
        self.inbox.wake();
        if !self.inbox.has_sends(session) {
            return;
        }
        let (presence, session) = (Arc::downgrade(self), Arc::downgrade(session));
        let patience = self.patience;
        self.background.spawn(async move {
            tokio::time::sleep(patience).await;
            if let (Some(presence), Some(session)) = (presence.upgrade(), session.upgrade())
                // Another turn: they wait for its end.
                && !session.turn_runs()
            {
                presence.inbox.refuse_sends(&session, "The agent did not take it in time.");
            }
        });
    }
}
