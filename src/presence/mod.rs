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
//! # Cancel safety
//!
//! An [`Ask`] or [`Approval`] that is dropped before it is answered withdraws its card, and neither
//! an answer that comes later nor a timeout has any effect. All other calls return at once.

mod ask;
mod builder;
mod session;
mod thread;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

pub use ask::{Approval, ApprovalQuestion, Ask, AskError, Question, Verdict};
pub(crate) use builder::DEFAULT_SOURCE;
pub use builder::{Builder, StartError};
pub use session::{SayError, Session, SessionBuilder, SessionError};

use crate::herdr::Reporter;
use session::{SessionInner, lock};
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
}

/// Whether one face shows the presence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaceStatus {
    /// It does; where it is reached: Herdr's pane, Collie's socket.
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
    background: Background,
    sessions: Mutex<Vec<Weak<SessionInner>>>,
    /// The session that Herdr shows. A lock of its own, because it is looked up inside an edit of
    /// a pane, which may be made while `sessions` is held.
    foreground: Mutex<Option<String>>,
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
        }
    }

    /// Ends the presence: what was said last is brought to the faces, then the socket goes away.
    /// Open asks stay open, for an exit is not an answer. Takes 300 ms at most, whatever the faces
    /// do. Whether the user quit is said by [`Session::release`] before.
    pub fn close(self) {
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

    /// The agent was stopped and goes on: Herdr forgot what it knew meanwhile.
    pub fn resumed(&self) {
        if let Some(reporter) = &self.inner.reporter {
            reporter.resumed();
        }
    }

    /// The open session of this id.
    pub(crate) fn find(&self, id: &str) -> Option<Session> {
        self.inner
            .open_sessions()
            .into_iter()
            .find(|session| session.id() == id)
            .map(|session| Session::from_inner(session, Arc::clone(&self.inner)))
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
}
