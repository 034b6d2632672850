//! `agent-presence wrap`: run an agent and show it in both places.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Exit, Failure, output};
use crate::link::{self, Server};
use crate::os::{folders, random};
use crate::presence::{FaceStatus, Presence, Session, SessionError, StartError};
use crate::session::{Rank, State};
use crate::wrap::program_status::{self, Records, Scanner};
use crate::wrap::{self as shim, Child, Ended, StartError as ChildError, Tap};
use crate::herdr;

/// The variable that leads the agent to this very program.
const PROGRAM_VARIABLE: &str = "AGENT_PRESENCE_BIN";

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
    /// The agent's command, after `--`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let mut words = arguments.command.into_iter();
    let program = words.next().unwrap_or_default();
    let child = Child::new(program, words).map_err(|error| child_failure(&error))?;

    let agent = match arguments.agent {
        Some(name) => name,
        None => agent_name(child.program()),
    };
    let session_id = match arguments.session {
        Some(id) => id,
        None => random::hex(16).map_err(|error| Failure::new(Exit::Failed, error))?,
    };

    let mut builder = Presence::builder(&agent);
    if let Some(source) = &arguments.source {
        builder = builder.source(source);
    }
    if let Some(socket) = &arguments.socket {
        builder = builder.collie_socket(socket);
    }
    let presence = builder.start().map_err(|error| start_failure(&error))?;
    if let FaceStatus::Off(why) = presence.status().collie {
        output::complain(&format!("Collie is off: {why}"));
    }
    let mut opening = presence.session(&session_id);
    if let Some(title) = &arguments.title {
        opening = opening.title(title);
    }
    let session = opening.open().map_err(|error| session_failure(&error))?;

    let link = start_link(&presence, arguments.socket.as_deref());
    let child = child
        .set(link::SESSION_VARIABLE, &session_id)
        .set_or_remove(link::SOCKET_VARIABLE, link.as_ref().map(Server::path))
        .set_or_remove(PROGRAM_VARIABLE, env::current_exe().ok())
        // A child that sees the pane would report for it, or release it.
        .remove("HERDR_PANE_ID");

    let mut tap = Signals::new(presence.clone(), session.clone());
    let outcome = shim::run(child, &mut tap);
    drop(tap);
    drop(link);
    let ending = match outcome {
        Ok(ending) => ending,
        Err(error) => {
            session.release();
            presence.close();
            return Err(child_failure(&error));
        }
    };
    match ending.ended() {
        // The user quit, by whatever way the agent offers.
        Ended::Exited(_) if ending.outside_signal().is_none() => session.release(),
        // Somebody closed the terminal or stopped us: the session is to come back.
        _ if ending.outside_signal().is_some() => {}
        // The agent crashed: it is idle, and can be resumed.
        _ => session.ended(),
    }
    presence.close();
    ending.leave()
}

/// The base name of a command, as Herdr may show it.
fn agent_name(program: &Path) -> String {
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if herdr::is_known_agent(&name) { format!("{name}-presence") } else { name }
}

/// The commands for use inside the agent, unless there is no private folder for their socket.
fn start_link(presence: &Presence, collie_socket: Option<&Path>) -> Option<Server> {
    let started = link_path(collie_socket)
        .and_then(|path| Server::start(presence, &path).map_err(|error| error.to_string()));
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

/// Reads the agent's state off what it writes to the terminal.
struct Signals {
    presence: Presence,
    session: Session,
    scanner: Scanner,
    records: Records,
}

impl Signals {
    fn new(presence: Presence, session: Session) -> Self {
        Self { presence, session, scanner: Scanner::new(), records: Records::new() }
    }
}

impl Tap for Signals {
    fn output(&mut self, bytes: &[u8]) {
        let Self { session, scanner, records, .. } = self;
        scanner.feed(bytes, |event| {
            if records.apply(event) {
                tell(session, records);
            }
        });
    }

    fn resumed(&mut self) {
        self.presence.resumed();
    }
}

/// Tells the session what the records add up to.
fn tell(session: &Session, records: &Records) {
    let aggregate = records.aggregate();
    let state = match aggregate.as_ref().map(|record| record.state) {
        Some(program_status::State::Working) => State::Working,
        Some(program_status::State::Blocked) => State::Blocked,
        // Done and error are the end of a turn, and so is no record at all.
        _ => State::Idle,
    };
    let message = aggregate.as_ref().and_then(|record| record.message.as_deref());
    session.signal(Rank::ProgramStatus, state, message);
}
