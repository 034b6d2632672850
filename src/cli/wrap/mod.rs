//! `agent-presence wrap`: run an agent and show it in both places.

mod chat;
mod child;
mod eyes;
mod feed;
mod hands;
mod tap;
mod typed;

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use super::{Exit, Failure, log, output};
use crate::herdr;
use crate::link::Server;
use crate::os::{folders, random};
use crate::presence::{FaceStatus, Presence, Session, SessionError, StartError};
use crate::wrap::agents::{self, Agent};
use crate::wrap::{self as shim, Keyboard, StartError as ChildError, Status};
use chat::ChatMode;
use child::HerdrEnv;
use eyes::Eyes;
use feed::Feed;
use hands::Hands;
use tap::Signals;

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
    /// What of the terminal is put into the chat: nothing, the text of each turn at its end, or also
    /// meanwhile. An agent that says things itself is not repeated.
    #[arg(long, value_name = "WHAT", default_value = "turns")]
    chat: ChatMode,
    /// Keep nothing on disk: the session does not come back on the phone after a restart. Default: its
    /// chat, open cards and answers are in `$XDG_STATE_HOME/agent-presence/collie/`.
    #[arg(long)]
    no_records: bool,
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
    if !arguments.no_records {
        builder = builder.durable();
    }
    let known = known_agent(&program_name);
    let has_terminal = !arguments.no_pty && io::stdin().is_terminal() && io::stdout().is_terminal();
    if has_terminal {
        builder = builder.takes(hands::takes(&known));
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
    if let FaceStatus::Off(why) = presence.status().records {
        output::complain(&format!("the session is kept in memory only: {why}"));
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
    let feed = Feed::default();
    let mut tap = Signals::new(presence.clone(), session.clone(), feed.clone());
    let mut eyes = None;
    let mut keyboard = None;
    if has_terminal {
        // Without them the agent runs all the same.
        match look_and_type(feed, known, &session, arguments.chat) {
            Ok((looking, typing)) => (eyes, keyboard) = (Some(looking), Some(typing)),
            Err(error) => output::complain(&format!("the terminal is not looked at: {error}")),
        }
    }
    let outcome = shim::run_with(&child, options, &mut tap, keyboard.as_ref());
    // The eyes first: what is left on the screen belongs to the last turn.
    drop((tap, eyes, link));
    let ending = match outcome {
        Ok(ending) => ending,
        Err(error) => {
            presence.release();
            presence.close();
            return Err(child_failure(&error));
        }
    };
    match (ending.ended_by, ending.status) {
        // The user quit, by whatever way the agent offers.
        (None, Status::Exited(_)) => presence.release(),
        // The agent crashed: it is idle, and can be resumed.
        (None, Status::Signaled(_)) => session.ended(),
        // Somebody closed the terminal, or stopped us: the session is to come back.
        (Some(_), _) => {}
    }
    presence.close();
    ending.leave()
}

/// What is known of the agent, also by what the user says of it.
fn known_agent(program_name: &str) -> Agent {
    let config = folders::config(|name| env::var_os(name)).map(|folder| folder.join("config.toml"));
    agents::find(program_name, config.as_deref()).unwrap_or_else(|error| {
        let file = config.unwrap_or_default();
        output::complain(&format!("{} is not used: {error}", file.display()));
        agents::known(program_name)
    })
}

/// Starts the threads that look at the agent's terminal and type into it.
fn look_and_type(
    feed: Feed,
    agent: Agent,
    session: &Session,
    chat: ChatMode,
) -> io::Result<(Eyes, Keyboard)> {
    let keyboard = Keyboard::new()?;
    let eyes = Eyes::open(feed.clone(), agent.clone(), session.clone(), chat)?;
    let window = eyes.window.clone();
    let hands = Hands { agent, session: session.clone(), window, feed, keyboard: keyboard.clone() };
    // It ends with the session.
    drop(hands.start()?);
    Ok((eyes, keyboard))
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
