//! The last word for a process that was killed.

use std::env;
use std::time::Duration;

use super::Builder;
use crate::herdr::{AgentName, Environment, Reporter, ReporterOptions, Source, State};
use crate::os::folders;

/// How long the last word may take: an attempt at Herdr's socket. Nobody is kept from an agent by it, only the
/// user's shell from its next prompt.
const LIMIT: Duration = Duration::from_millis(500);

/// Can tell Herdr that an agent is gone, from a process that outlives the agent's own presence.
#[derive(Debug)]
pub(crate) struct Gone {
    environment: Environment,
    source: Source,
    agent: AgentName,
}

impl Builder {
    /// The last word for the presence that starts from here; `None` if nobody would hear it.
    pub(crate) fn gone(&self) -> Option<Gone> {
        let environment = self.environment()?;
        let (source, agent) = self.identity().ok()?;
        Some(Gone { environment, source, agent })
    }
}

impl Gone {
    /// The agent is idle: it was killed, which is no quit, and can be resumed. The command that does it
    /// stays as Herdr has it, since a report without one changes none. Takes 500 ms at most.
    pub(crate) fn tell(self) {
        let options = ReporterOptions {
            state_folder: folders::state(|name| env::var_os(name)),
            ..ReporterOptions::default()
        };
        match Reporter::start(self.environment, self.source, self.agent, options) {
            Ok(reporter) => {
                reporter.report(State::Idle, None);
                if !reporter.finish(LIMIT) {
                    tracing::warn!("Herdr does not know that the agent is gone");
                }
            }
            Err(error) => tracing::warn!(%error, "Herdr is not told that the agent is gone"),
        }
    }
}
