//! How a presence starts.

use std::env;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use super::hooks::{PhoneHooks, caps};
use super::inner::Foreground;
use super::records::{Keeping, PaneRecords};
use super::thread::Background;
use super::{FaceStatus, Inner, Presence, Queue, Takes};
use crate::os::folders;
use crate::{collie, herdr};

/// The source that Herdr files our reports under, unless another is given.
pub(crate) const DEFAULT_SOURCE: &str = "agent-presence";

/// How long a wish of the phone waits to be taken, unless another time is given.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a presence cannot start. A face that cannot is no reason: see [`Presence::status`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The agent's name or the source breaks a rule of Herdr's.
    #[error(transparent)]
    Identity(#[from] herdr::IdentityError),
    /// The system gives no thread.
    #[error("the background thread cannot start: {0}")]
    Thread(#[source] io::Error),
}

/// Which pane of Herdr shows the agent.
#[derive(Clone, Debug)]
enum HerdrPane {
    /// The one that this process runs in, if it does.
    Own,
    Given(herdr::Environment),
    Off,
}

/// Where the Collie face listens.
#[derive(Clone, Debug)]
enum CollieSocket {
    /// `COLLIE_DURABLE_SOCKET`, else the agent's own place in the runtime folder.
    Default,
    At(PathBuf),
    Off,
}

/// A presence that is about to start.
#[derive(Clone, Debug)]
pub struct Builder {
    agent: String,
    display_agent: Option<String>,
    source: String,
    herdr: HerdrPane,
    collie: CollieSocket,
    takes: Takes,
    patience: Duration,
    caller_check: collie::CallerCheck,
    records: Keeping,
}

impl Builder {
    pub(super) fn new(agent: &str) -> Self {
        Self {
            agent: agent.to_owned(),
            display_agent: None,
            source: DEFAULT_SOURCE.to_owned(),
            herdr: HerdrPane::Own,
            collie: CollieSocket::Default,
            takes: Takes::NONE,
            patience: PATIENCE,
            caller_check: collie::CallerCheck::On,
            records: Keeping::Off,
        }
    }

    /// Which wishes of the phone the agent takes from its [`Inbox`](super::Inbox). The phone offers
    /// nothing else. Default: none.
    pub fn takes(mut self, takes: Takes) -> Self {
        self.takes = takes;
        self
    }

    /// How long a wish waits to be taken before it is refused. Default: 10 s. For a text that waits
    /// for the end of a turn, the time counts from there.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The agent's name as people know it, where that is not the name that it reports under. Herdr
    /// cuts it to 80 characters.
    pub fn display_agent(mut self, name: &str) -> Self {
        self.display_agent = Some(name.to_owned());
        self
    }

    /// The source that Herdr files the reports under: 1 to 80 of `A-Z a-z 0-9 : . _ -`, not
    /// `herdr:…`. Default: `agent-presence`.
    pub fn source(mut self, source: &str) -> Self {
        source.clone_into(&mut self.source);
        self
    }

    /// The path of Collie's socket: absolute, at most 103 bytes (N171). Default:
    /// `COLLIE_DURABLE_SOCKET`, else `$XDG_RUNTIME_DIR/agent-presence/<agent>/collie.sock`.
    pub fn collie_socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.collie = CollieSocket::At(path.into());
        self
    }

    /// No Collie face.
    pub fn without_collie(mut self) -> Self {
        self.collie = CollieSocket::Off;
        self
    }

    /// Whether the agent and the processes that it started are kept from answering (N025). Off is
    /// for an agent's own tests, where the phone is in the same process: never for a user's agent,
    /// which could then approve what it wants.
    pub fn caller_check(mut self, check: collie::CallerCheck) -> Self {
        self.caller_check = check;
        self
    }

    /// Keeps the sessions on disk, so that they come back: a session that is opened under its id again
    /// is the same one on the phone, with its chat and its open cards; an answer that was given
    /// meanwhile is there for the question of the same [call](super::Question::call), a text that was
    /// accepted and not taken is in the inbox again, and no request of the phone runs twice.
    ///
    /// Default: off, since the chat is the agent's to keep. The records are in
    /// `$XDG_STATE_HOME/agent-presence/collie/`, one folder for each socket; [`Presence::status`] says
    /// where, or why they are not kept.
    pub fn durable(mut self) -> Self {
        self.records = Keeping::Default;
        self
    }

    /// As [`durable`](Self::durable), in a folder for these records alone.
    pub fn durable_in(mut self, folder: impl Into<PathBuf>) -> Self {
        self.records = Keeping::In(folder.into());
        self
    }

    /// The pane of Herdr to report to. Default: the one that this process runs in, by the variables
    /// that Herdr sets.
    pub fn herdr(mut self, environment: herdr::Environment) -> Self {
        self.herdr = HerdrPane::Given(environment);
        self
    }

    /// No Herdr face, even inside Herdr.
    pub fn without_herdr(mut self) -> Self {
        self.herdr = HerdrPane::Off;
        self
    }

    /// Starts the presence. Outside Herdr the Herdr face is silent; without a runtime folder the
    /// Collie face is off, and [`Presence::status`] says why.
    ///
    /// # Errors
    /// The name or the source breaks a rule, or the system gives no thread.
    pub fn start(self) -> Result<Presence, StartError> {
        let (source, agent) = self.identity()?;
        let environment = self.environment();
        let herdr_pane = environment.as_ref().map(|inside| inside.pane_id().to_owned());
        let (reporter, driver) = environment
            .map(|environment| {
                let options = herdr::ReporterOptions {
                    state_folder: folders::state(|name| env::var_os(name)),
                    ..herdr::ReporterOptions::default()
                };
                herdr::Reporter::with_driver(environment, source, agent, options)
            })
            .unzip();

        let socket = self.collie_path();
        let folder = socket.as_deref().ok().map(|socket| self.records.folder(socket));
        let collie_address = socket.clone().ok();
        let known: Arc<OnceLock<_>> = Arc::default();
        let hooks = PhoneHooks { presence: Arc::clone(&known), patience: self.patience };
        let options = collie::CoreOptions {
            host_name: self.agent.clone(),
            caps: Some(caps(self.takes)),
            caller_check: self.caller_check,
            hooks: collie::SharedHooks::new(hooks),
            ..collie::CoreOptions::default()
        };
        let (background, collie) = Background::start(
            move || async move {
                if let Some(driver) = driver {
                    tokio::spawn(driver);
                }
                match open_collie(socket, options, folder).await {
                    Ok((collie, records)) => {
                        (Ok((collie.core().clone(), records.clone())), Some((collie, records)))
                    }
                    Err(off) => (Err(off), None),
                }
            },
            |served: Option<(collie::Collie, PaneRecords)>| async {
                if let Some((collie, records)) = served {
                    collie.close().await;
                    records.flush();
                }
            },
        )
        .map_err(StartError::Thread)?;
        let (collie, records) = match collie {
            Ok((core, records)) => (Ok(core), records),
            Err(off) => (Err(off), PaneRecords::Absent),
        };

        let inner = Arc::new(Inner {
            agent: self.agent,
            display_agent: self.display_agent,
            reporter,
            herdr_pane,
            collie,
            collie_address,
            records,
            background,
            sessions: Mutex::new(Vec::new()),
            foreground: Mutex::new(Foreground::default()),
            inbox: Arc::new(Queue::default()),
            keeper: OnceLock::new(),
            patience: self.patience,
        });
        let _ = known.set(Arc::downgrade(&inner));
        inner.background.pump(&Arc::downgrade(&inner));
        Ok(Presence { inner })
    }

    /// Who reports to Herdr.
    pub(super) fn identity(
        &self,
    ) -> Result<(herdr::Source, herdr::AgentName), herdr::IdentityError> {
        let agent = herdr::AgentName::new(&self.agent)?;
        Ok((herdr::Source::new(&self.source)?, agent))
    }

    /// The pane of Herdr, if there is one to report to.
    pub(super) fn environment(&self) -> Option<herdr::Environment> {
        match self.herdr.clone() {
            HerdrPane::Off => None,
            HerdrPane::Given(environment) => Some(environment),
            HerdrPane::Own => match herdr::Environment::detect() {
                herdr::Detection::Inside(environment) => Some(environment),
                _ => None,
            },
        }
    }

    /// Where the Collie face is to listen, or why nowhere.
    pub(crate) fn collie_path(&self) -> Result<PathBuf, FaceStatus> {
        match &self.collie {
            CollieSocket::Off => Err(FaceStatus::Absent),
            CollieSocket::At(path) => Ok(path.clone()),
            CollieSocket::Default => {
                let named = env::var_os("COLLIE_DURABLE_SOCKET").filter(|path| !path.is_empty());
                if let Some(path) = named {
                    return Ok(path.into());
                }
                folders::runtime(|name| env::var_os(name))
                    .map(|folder| {
                        folder.join(path_segment(&self.agent)).join(folders::COLLIE_SOCKET)
                    })
                    .map_err(|error| FaceStatus::Off(error.to_string()))
            }
        }
    }
}

async fn open_collie(
    socket: Result<PathBuf, FaceStatus>,
    options: collie::CoreOptions,
    folder: Option<Result<Option<PathBuf>, String>>,
) -> Result<(collie::Collie, PaneRecords), FaceStatus> {
    let socket = socket?;
    let records = folder.map_or(PaneRecords::Absent, PaneRecords::open);
    let options = collie::CoreOptions { records: records.records().cloned(), ..options };
    let off = |error: &dyn std::fmt::Display| FaceStatus::Off(error.to_string());
    let core = collie::Core::new(options).map_err(|error| off(&error))?;
    let collie = collie::serve_private(core, socket).await.map_err(|error| off(&error))?;
    // Only now: who finds the socket served finds its records in use, and has no need of them.
    records.warn();
    Ok((collie, records))
}

/// A name as one harmless segment of a path, or of Collie's ids.
pub(super) fn path_segment(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let segment: String = name.chars().map(|c| if plain(c) { c } else { '-' }).collect();
    match segment.as_str() {
        "." | ".." => "-".to_owned(),
        _ => segment,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_a_harmless_path_segment() {
        for (name, segment) in
            [("my-agent", "my-agent"), ("my agent", "my-agent"), ("..", "-"), ("a/b:c", "a-b-c")]
        {
            assert_eq!(path_segment(name), segment);
        }
    }
}
