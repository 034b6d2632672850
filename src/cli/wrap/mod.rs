//! `agent-presence wrap`: run an agent and show it in both places.

mod child;

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::{Exit, Failure, log, output};
use crate::herdr;
use crate::link::Server;
use crate::os::{folders, random};
use crate::presence::{FaceStatus, Presence, Session, SessionError, StartError};
use crate::session::{Rank, State};
use crate::wrap::program_status::{self, Records};
use crate::wrap::{self as shim, StartError as ChildError, Status, Tap};
use child::HerdrEnv;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The agent's name in Herdr. Default: the command's base name; a name that Herdr knows itself
    /// gets the suffix `-presence`.
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The source that Herdr files the reports under.
    #[arg(long, value_name = "SOURCE")]
    source: Option<String>,
    /// The id of the conversation. Default: a new random one.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// What the conversation is about. Default: the agent's name.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Where Collie finds the session. Default: `COLLIE_DURABLE_SOCKET`, else
    /// `$XDG_RUNTIME_DIR/agent-presence/<agent>/collie.sock`.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Which of Herdr's variables the agent does not get: the pane's id, so that it does not report
    /// for the pane itself; all of them; or none.
    #[arg(long, value_name = "WHICH", default_value = "pane", conflicts_with = "no_herdr")]
    herdr_env: HerdrEnv,
    /// Report nothing to Herdr, and leave its variables to the agent's own integration.
    #[arg(long)]
    no_herdr: bool,
    /// Let the agent have this terminal itself. For agents that report themselves: nothing is read
    /// from the terminal, and the phone cannot type.
    #[arg(long)]
    no_pty: bool,
    /// Answer the agent's question whether its terminal knows program status (OSC 7501), which some
    /// agents report only then; or pass it on to the terminal like everything else.
    #[arg(long, value_name = "HOW", default_value = "answer")]
    program_status: ProgramStatus,
    /// The agent's command, after `--`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Who answers the question for OSC 7501.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ProgramStatus {
    /// We do.
    Answer,
    /// The terminal, if it knows it.
    Pass,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let mut words = arguments.command.into_iter();
    let program = words.next().unwrap_or_default();
    log::start();
    // Before anything else is there to be taken back.
    shim::find(&program).map_err(|error| child_failure(&error))?;

    let program_name = base_name(&program);
    let agent = arguments.agent.unwrap_or_else(|| agent_name(&program_name));
    let session_id = match arguments.session {
        Some(id) => id,
        None => random::hex(16).map_err(|error| Failure::new(Exit::Failed, error))?,
    };
    let mut builder = Presence::builder(&agent).display_agent(&program_name);
    if let Some(source) = &arguments.source {
        builder = builder.source(source);
    }
    if let Some(socket) = &arguments.socket {
        builder = builder.collie_socket(socket);
    }
    if arguments.no_herdr {
        builder = builder.without_herdr();
    }
    let link_path = link_path(arguments.socket.as_deref());

    let sockets: Vec<PathBuf> =
        builder.collie_path().into_iter().chain(link_path.clone()).collect();
    if let Err(error) = shim::guard(&sockets) {
        // It only helps when we are killed.
        tracing::warn!(%error, "there is no guardian");
    }
    let presence = builder.start().map_err(|error| start_failure(&error))?;
    if let FaceStatus::Off(why) = presence.status().collie {
        output::complain(&format!("Collie is off: {why}"));
    }
    let mut opening = presence.session(&session_id);
    if let Some(title) = &arguments.title {
        opening = opening.title(title);
    }
    let session = opening.open_unannounced().map_err(|error| session_failure(&error))?;
    let link = start_link(&presence, link_path);

    let herdr_env = if arguments.no_herdr { HerdrEnv::Keep } else { arguments.herdr_env };
    let child = child::led(program, words, &session_id, link.as_ref(), herdr_env);
    let options = shim::Options {
        pty: !arguments.no_pty,
        answer_program_status: arguments.program_status == ProgramStatus::Answer,
        ..shim::Options::default()
    };
    let mut tap = Signals::new(presence.clone(), session.clone());
    let outcome = shim::run(&child, options, &mut tap);
    drop((tap, link));
    let ending = match outcome {
        Ok(ending) => ending,
        Err(error) => {
            session.release();
            presence.close();
            return Err(child_failure(&error));
        }
    };
    match (ending.ended_by, ending.status) {
        // The user quit, by whatever way the agent offers.
        (None, Status::Exited(_)) => session.release(),
        // The agent crashed: it is idle, and can be resumed.
        (None, Status::Signaled(_)) => session.ended(),
        // Somebody closed the terminal, or stopped us: the session is to come back.
        (Some(_), _) => {}
    }
    presence.close();
    ending.leave()
}

fn base_name(program: &OsStr) -> String {
    Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// A name that Herdr knows itself would lose to its own detection, and be taken for another agent.
fn agent_name(program_name: &str) -> String {
    if herdr::is_known_agent(program_name) {
        format!("{program_name}-presence")
    } else {
        program_name.to_owned()
    }
}

/// The commands for use inside the agent, unless there is no private folder for their socket.
fn start_link(presence: &Presence, path: Result<PathBuf, String>) -> Option<Server> {
    let started =
        path.and_then(|path| Server::start(presence, &path).map_err(|error| error.to_string()));
    match started {
        Ok(server) => Some(server),
        Err(why) => {
            output::complain(&format!("the commands inside the agent are off: {why}"));
            None
        }
    }
}

/// A new path beside the sockets of the runtime folder; without one, beside Collie's socket, or
/// among our records: unlike Collie, our own commands see every folder of the user.
fn link_path(collie_socket: Option<&Path>) -> Result<PathBuf, String> {
    let name = random::hex(4).map_err(|error| error.to_string())?;
    let folder = folders::runtime(|name| env::var_os(name))
        .or_else(|error| collie_socket.and_then(Path::parent).map(Path::to_owned).ok_or(error))
        .or_else(|error| folders::state(|name| env::var_os(name)).ok_or(error))
        .map_err(|error| error.to_string())?;
    Ok(folder.join("link").join(format!("{name}.sock")))
}

fn start_failure(error: &StartError) -> Failure {
    let exit = match error {
        StartError::Identity(_) => Exit::Usage,
        StartError::Thread(_) => Exit::Failed,
    };
    Failure::new(exit, error)
}

fn session_failure(error: &SessionError) -> Failure {
    Failure::new(Exit::Usage, error)
}

fn child_failure(error: &ChildError) -> Failure {
    let exit = match error {
        ChildError::NotFound { .. } => Exit::NotFound,
        ChildError::NotExecutable { .. } => Exit::NotExecutable,
        _ => Exit::Failed,
    };
    Failure::new(exit, error)
}

/// Takes the agent's state from what it writes to the terminal.
struct Signals {
    presence: Presence,
    session: Session,
    records: Records,
}

impl Signals {
    fn new(presence: Presence, session: Session) -> Self {
        Self { presence, session, records: Records::default() }
    }
}

impl Tap for Signals {
    fn started(&mut self, _agent: u32) {
        self.session.announce();
    }

    fn program_status(&mut self, event: program_status::Event) {
        self.records.apply(event);
        let aggregate = self.records.aggregate();
        let state = match aggregate.as_ref().map(|record| record.state) {
            Some(program_status::State::Working) => State::Working,
            Some(program_status::State::Blocked) => State::Blocked,
            // Done and error are the end of a turn, and so is no record at all.
            _ => State::Idle,
        };
        let message = aggregate.as_ref().and_then(|record| record.message.as_deref());
        self.session.signal(Rank::ProgramStatus, state, message);
    }

    fn resumed(&mut self) {
        self.presence.resumed();
    }
}
