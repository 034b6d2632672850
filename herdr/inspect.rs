//! What a look at Herdr shows, without reporting anything: for `doctor`.

use super::environment::Environment;
use super::identity::{AgentName, Source};
use super::report::{Claimant, Request, takes_resume_commands};
use super::sequence;
use super::status::{Ownership, TransportKind};
use super::transport::{Reply, Transport, TransportError, Ways};
use crate::os::process::session_of;
use std::io;
use std::path::{Path, PathBuf};

/// What a look at Herdr shows.
///
/// ```no_run
/// # use agent_presence::herdr::{AgentName, Detection, Environment, Inspection, Source};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (source, agent) = (Source::new("my-agent")?, AgentName::new("my-agent")?);
/// if let Detection::Inside(environment) = Environment::detect() {
///     let seen = Inspection::of(&environment, &source, &agent, None)?;
///     println!("{:?} holds the pane and is {:?}", seen.holder, seen.shown_state);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The way that answered, or the reason why none did.
    pub transport: Result<TransportKind, String>,
    /// The server's version.
    pub version: Option<String>,
    /// Whether it takes resume commands, when its version tells.
    pub takes_resume_commands: Option<bool>,
    /// Who holds the pane: the agent's label.
    pub holder: Option<String>,
    /// The state that Herdr shows (`idle`, `working`, `blocked`, `done`, `unknown`).
    pub shown_state: Option<String>,
    /// Whether the pane's shell itself is in front, and no program. None: Herdr does not say.
    pub shell_in_front: Option<bool>,
    /// Whether the pane is ours.
    pub ownership: Ownership,
    /// Herdr's program, by its absolute path.
    pub program: Option<PathBuf>,
    /// The last number of this source in this pane, where it is kept.
    pub seq: Option<u64>,
}

impl Inspection {
    /// Looks at the pane of `environment`. It blocks for as long as Herdr takes, at most about 4 s.
    ///
    /// # Errors
    /// The system gives no event queue. Trouble with Herdr is no error: it is in what is shown.
    pub fn of(
        environment: &Environment,
        source: &Source,
        agent: &AgentName,
        state_folder: Option<&Path>,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let claimant = Claimant {
            pane_id: environment.pane_id().to_owned(),
            source: source.clone(),
            agent: agent.clone(),
        };
        let mut ways = Ways::new(environment.clone(), claimant);
        let mut inspection = Self {
            program: environment.program(),
            seq: state_folder.and_then(|folder| sequence::kept(folder, environment, source)),
            transport: Err("not asked".to_owned()),
            version: None,
            takes_resume_commands: None,
            holder: None,
            shown_state: None,
            shell_in_front: None,
            ownership: Ownership::Unchecked,
        };
        runtime.block_on(async {
            inspection.take_version(ways.exchange(&Request::Ping).await);
            inspection.take_process(ways.exchange(&Request::ReadProcess).await);
            inspection.take_pane(ways.exchange(&Request::ReadPane).await);
        });
        Ok(inspection)
    }

    fn take_version(&mut self, outcome: Result<Reply, TransportError>) {
        self.version = outcome.ok().and_then(|reply| reply.answer.version);
        self.takes_resume_commands = self.version.as_deref().and_then(takes_resume_commands);
    }

    fn take_process(&mut self, outcome: Result<Reply, TransportError>) {
        let process = outcome.ok().and_then(|reply| reply.answer.process).unwrap_or_default();
        let shell_pid = process.shell_pid;
        let in_front = process.foreground_process_group_id;
        self.shell_in_front = shell_pid.zip(in_front).map(|(shell, in_front)| shell == in_front);
        self.ownership = Ownership::of(shell_pid, session_of);
    }

    fn take_pane(&mut self, outcome: Result<Reply, TransportError>) {
        self.transport = outcome
            .map(|reply| {
                let pane = reply.answer.pane.unwrap_or_default();
                self.holder = pane.agent;
                self.shown_state = pane.agent_status;
                reply.over
            })
            .map_err(|error| error.to_string());
    }
}
