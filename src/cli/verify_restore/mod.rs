//! `agent-presence verify-restore`: does the agent come back after a restart of Herdr? Tried in a throwaway
//! named session, or, with `--dry-run`, without Herdr in the login shells alone.

mod dry_run;
mod line;
pub(super) mod probe;
mod screen;
mod session;
mod shown;
mod steps;
mod surroundings;
mod timeline;
mod waiting;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::inside::duration;
use super::{Exit, Failure, output};
use crate::herdr::Sessions;
use crate::os::{random, signals};
use line::Line;
use session::Throwaway;
use steps::{Plan, Trouble};
use surroundings::Surroundings;
use timeline::Timeline;
use waiting::Waiting;

/// What the help says at its end. A line has at most 80 characters, so that none is broken.
const EXAMPLES: &str = "\
Examples:
  An agent that reports itself is run bare:
    agent-presence verify-restore -- my-agent
  Any other runs below `wrap`, which is told how to resume it:
    agent-presence verify-restore -- agent-presence wrap \\
        --resume 'my-agent --resume {session}' -- my-agent
  One that has to be logged in finds its login in your own HOME:
    agent-presence verify-restore --here -- my-agent
  Without Herdr, the resume command alone:
    agent-presence verify-restore --dry-run -- my-agent --resume 'sess 42'

Whatever the agent starts is ended with the session.
Exit: 0 it comes back, 1 it does not, 3 no Herdr.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The name of the throwaway session; it must be free. Default: a new random one.
    #[arg(long, value_name = "NAME", conflicts_with = "dry_run")]
    session: Option<String>,
    /// Herdr's program. Default: `herdr` on PATH.
    #[arg(long, value_name = "PATH", conflicts_with = "dry_run")]
    herdr: Option<PathBuf>,
    /// Use your own HOME, XDG folders and configuration of Herdr instead of throwaway ones. Other sessions
    /// of yours are not touched either way.
    #[arg(long)]
    here: bool,
    /// The agent's name in Herdr, if another agent may report in the pane as well.
    #[arg(long, value_name = "NAME", conflicts_with = "dry_run")]
    agent: Option<String>,
    /// How long each wait may take, such as `90s`.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
    timeout: Duration,
    /// Without Herdr: type the resume command into each login shell that is installed (bash, dash, zsh,
    /// fish), and see whether its words arrive unchanged.
    #[arg(long)]
    dry_run: bool,
    /// For machines: one JSON object.
    #[arg(long)]
    json: bool,
    /// The command that starts the agent, after `--`; with `--dry-run` the resume command.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let failed = |error| Failure::new(Exit::Failed, error);
    let waiting = Waiting::start(arguments.timeout).map_err(failed)?;
    let outcome = if arguments.dry_run {
        dry_run::run(&arguments, &waiting)
    } else {
        verify(arguments, &waiting)
    };
    // Everything is cleaned up by now.
    if let Some(signal) = waiting.interrupted() {
        signals::die_by(signal);
    }
    outcome
}

fn verify(arguments: Arguments, waiting: &Waiting) -> Result<Exit, Failure> {
    let failed = |error| Failure::new(Exit::Failed, error);
    let typed =
        Line::of_command(&arguments.command).map_err(|broken| Failure::new(Exit::Usage, broken))?;
    let name = match arguments.session {
        Some(name) => name,
        None => format!("verify-{}", random::hex(4).map_err(failed)?),
    };
    Sessions::check_name(&name).map_err(|broken| Failure::new(Exit::Usage, broken))?;
    let program = herdr_program(arguments.herdr)?;

    let surroundings = if arguments.here {
        Surroundings::here().map_err(failed)?
    } else {
        Surroundings::throwaway(waiting).map_err(failed)?
    };
    let timeline = Timeline::start(&name, arguments.json);
    let sessions = Sessions::new(program, surroundings.environment.clone());
    let plan = Plan { typed, agent: arguments.agent, here: arguments.here, waiting, timeline };
    let session = Throwaway::new(sessions, name, surroundings);
    let (timeline, outcome) = plan.carry_out(session);
    match outcome {
        Ok(()) => {
            timeline.passed()?;
            Ok(Exit::Done)
        }
        Err(Trouble::Failed) => {
            timeline.failed()?;
            Ok(Exit::Failed)
        }
        Err(Trouble::Interrupted) => Ok(Exit::Failed),
    }
}

fn herdr_program(given: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let found = match &given {
        Some(path) => which::which(path),
        None => which::which("herdr"),
    };
    found.map_err(|_| {
        let message = match given {
            Some(path) => format!("there is no program {}", path.display()),
            None => {
                "there is no `herdr` on PATH; install it, or name it with --herdr PATH".to_owned()
            }
        };
        Failure::new(Exit::NoPresence, message)
    })
}

/// One line to standard error, when something is left behind.
fn complain_left(what: &str, why: &impl std::fmt::Display) {
    output::complain(&format!("{what} is left behind: {why}"));
}
