//! `agent-presence wrap`: run an agent and show it in both places.

mod chat;
mod child;
mod coming_back;
mod eyes;
mod feed;
mod hands;
mod outer;
mod place;
mod tap;
mod typed;
mod variables;

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Exit, Failure, log, output};
use crate::herdr;
use crate::link::{NestedParams, OpenParams, Server};
use crate::os::{folders, random, terminal};
use crate::presence::{Builder, FaceStatus, Presence, SessionError, StartError};
use crate::session::SessionId;
use crate::store::{Record, Records, Word, optional_path};
use crate::wrap::agents::{self, Agent};
use crate::wrap::{self as shim, Ending, Keyboard, StartError as ChildError, Status};
use chat::ChatMode;
use child::HerdrEnv;
use coming_back::ComingBack;
pub(super) use coming_back::{command as resume_command, path as path_of, state_folder};
use eyes::Eyes;
use feed::Feed;
use hands::Hands;
use outer::{Joined, Outer};
use place::Place;
use tap::Signals;

/// An agent that comes back and fails within this time has not come back.
const AT_ONCE: Duration = Duration::from_secs(5);

/// As JSON, the options of a session that is to come back.
#[derive(Debug, Default, clap::Args, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct Arguments {
    /// The agent's name in Herdr. Default: the command's base name; a name that Herdr knows itself
    /// gets the suffix `-presence`.
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The source that Herdr files the reports under.
    #[arg(long, value_name = "SOURCE")]
    source: Option<String>,
    /// The id of the conversation. Default: the one that the command names, else a new random one.
    #[arg(long, value_name = "ID")]
    #[serde(skip)]
    session: Option<String>,
    /// What the conversation is about. Default: the agent's name.
    #[arg(long, value_name = "TEXT")]
    #[serde(skip)]
    title: Option<String>,
    /// The command that brings the conversation back, as one line, with `{session}` where the agent's own
    /// id of it belongs: `--resume 'my-agent --resume {session}'`. Default: what is known of the agent.
    #[arg(long, value_name = "COMMAND", value_parser = template)]
    #[serde(skip)]
    resume: Option<String>,
    /// Where Collie finds the session. Default: `COLLIE_DURABLE_SOCKET`, else
    /// `$XDG_RUNTIME_DIR/agent-presence/<agent>/collie.sock`.
    #[arg(long, value_name = "PATH")]
    #[serde(with = "optional_path")]
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
    /// Keep no chat, card or answer on disk: after a restart the session begins anew on the phone. What
    /// `resume` needs is kept all the same. Default: they are in `$XDG_STATE_HOME/agent-presence/collie/`.
    #[arg(long)]
    no_records: bool,
    /// The agent's command, after `--`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    #[serde(skip)]
    command: Vec<OsString>,
}

/// Who answers the question for OSC 7501.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ProgramStatus {
    /// We do.
    #[default]
    Answer,
    /// The terminal, if it knows it.
    Pass,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    log::start();
    // Before anything else is there to be taken back.
    shim::find(arguments.command.first().map_or("".as_ref(), OsString::as_os_str))
        .map_err(|error| child_failure(&error))?;
    let program_name = arguments.command.first().map(|word| base_name(word)).unwrap_or_default();
    let known = known_agent(&program_name, config().as_deref());
    let record = new_record(&arguments, &program_name, &known)?;
    run_as(arguments, &record, known, false)
}

/// Runs a session again by this command, which has been found.
pub(super) fn resume(
    record: &Record,
    command: Vec<OsString>,
    known: Agent,
) -> Result<Exit, Failure> {
    log::start();
    let arguments: Arguments =
        serde_json::from_value(record.options.clone()).unwrap_or_else(|error| {
            // Of another version, maybe. The session matters more.
            output::complain(&format!("the options of wrap are not those of before: {error}"));
            Arguments::default()
        });
    run_as(Arguments { command, ..arguments }, record, known, true)
}

/// What brings a new session back.
fn new_record(arguments: &Arguments, program_name: &str, known: &Agent) -> Result<Record, Failure> {
    let failed = |error| Failure::new(Exit::Failed, error);
    let named = known.resume.named(&arguments.command);
    let usable = |id: &String| SessionId::new(id).is_ok();
    let session = match arguments.session.clone().or_else(|| named.clone().filter(usable)) {
        Some(id) => id,
        None => random::hex(16).map_err(failed)?,
    };
    // The user's own command knows the id that the user gave.
    let given = arguments.session.clone().filter(|_| arguments.resume.is_some());
    let socket = env::var_os("COLLIE_DURABLE_SOCKET").filter(|path| !path.is_empty());
    let mut options = serde_json::to_value(arguments).map_err(|error| failed(error.into()))?;
    if let (None, Some(socket)) = (&arguments.socket, socket) {
        // A restored shell does not have the variable.
        options["socket"] = serde_json::to_value(Word(socket)).unwrap_or_default();
    }
    Ok(Record {
        token: Records::new_token().map_err(failed)?,
        agent: arguments.agent.clone().unwrap_or_else(|| agent_name(program_name)),
        session,
        agent_session: given.or(named),
        title: arguments.title.clone(),
        folder: env::current_dir().unwrap_or_default().into(),
        command: arguments.command.iter().map(Word::from).collect(),
        template: arguments.resume.clone(),
        options,
        ..Record::default()
    })
}

/// Runs the agent, as the session of `record`.
fn run_as(
    arguments: Arguments,
    record: &Record,
    known: Agent,
    comes_back: bool,
) -> Result<Exit, Failure> {
    let mut words = arguments.command.into_iter();
    let program = words.next().unwrap_or_default();
    let program_name = program_name_of(record);
    let (agent, session_id) = (record.agent.clone(), record.session.clone());
    let has_terminal = !arguments.no_pty && io::stdin().is_terminal() && io::stdout().is_terminal();
    let outer = Outer::find().filter(Outer::has_our_pane);
    let mut builder = Presence::builder(&agent).display_agent(&program_name);
    if let Some(source) = &arguments.source {
        builder = builder.source(source);
    }
    if let Some(socket) = &arguments.socket {
        builder = builder.collie_socket(socket);
    }
    if arguments.no_herdr || outer.is_some() {
        builder = builder.without_herdr();
    }
    if !arguments.no_records {
        builder = builder.durable();
    }
    if has_terminal {
        builder = builder.takes(hands::takes(&known));
    }
    let started = match outer {
        // Whoever names a socket wants a host of its own on the phone.
        Some(outer) if arguments.socket.is_none() => {
            let nested = NestedParams {
                within: outer.session.clone(),
                agent: arguments.agent.unwrap_or(program_name),
                folder: env::current_dir().ok(),
                // Also without a PTY of its own.
                has_terminal: terminal::is_at_hand(),
            };
            let (session, title) = (session_id.clone(), record.title.clone());
            join(outer, &OpenParams { session, title, nested: Some(nested), ..Default::default() })?
        }
        _ => own(builder, record, &known, arguments.socket.as_deref())?,
    };

    let herdr_env = if arguments.no_herdr { HerdrEnv::Keep } else { arguments.herdr_env };
    let mut child = child::led(program, words, &session_id, started.link.as_deref(), herdr_env);
    if comes_back {
        child.set.extend(coming_back::variables(record));
    }
    let options = shim::Options {
        pty: !arguments.no_pty,
        answer_program_status: arguments.program_status == ProgramStatus::Answer,
        ..shim::Options::default()
    };
    let feed = Feed::default();
    let mut tap = Signals::new(started.place.clone(), feed.clone());
    let mut eyes = None;
    let mut keyboard = None;
    if has_terminal {
        // Without them the agent runs all the same.
        match look_and_type(feed, known, &started.place, arguments.chat) {
            Ok((looking, typing)) => (eyes, keyboard) = (Some(looking), Some(typing)),
            Err(error) => output::complain(&format!("the terminal is not looked at: {error}")),
        }
    }
    let began = Instant::now();
    let outcome = shim::run_with(&child, options, &mut tap, keyboard.as_ref());
    let ending = match &outcome {
        Ok(ending) if comes_back && failed_at_once(ending, began) => TheEnd::FailedAtOnce,
        Ok(ending) => TheEnd::of(ending),
        // What cannot come back now may do so later.
        Err(_) if comes_back => TheEnd::NeverBegan,
        Err(_) => TheEnd::Quit,
    };
    // The eyes first: what is left on the screen belongs to the last turn.
    drop((tap, eyes));
    if ending != TheEnd::Quit {
        started.place.leave();
    }
    // Nobody says anything any more, and all sessions are told of the end.
    let opened = started.server.map(Server::stop);
    drop(started.coming_back);
    // A session in the presence round us ends with our process.
    if let Place::Own { presence, session } = started.place {
        end(presence, ending);
        drop((session, opened));
    }
    if ending == TheEnd::FailedAtOnce {
        output::complain(&"the agent failed at once; its session is kept");
        output::wait_for_enter();
    }
    outcome.map_err(|error| child_failure(&error))?.leave()
}

/// Where the agent is shown, and where the commands inside it speak to.
struct Started {
    place: Place,
    link: Option<PathBuf>,
    server: Option<Server>,
    coming_back: Option<ComingBack>,
}

/// A presence of our own.
fn own(
    builder: Builder,
    record: &Record,
    known: &Agent,
    socket: Option<&Path>,
) -> Result<Started, Failure> {
    let link_path = link_path(socket);
    let sockets: Vec<PathBuf> =
        builder.collie_path().into_iter().chain(link_path.clone()).collect();
    let gone = builder.gone();
    guard(&sockets, || {
        if let Some(gone) = gone {
            gone.tell();
        }
    });
    let presence = builder.start().map_err(|error| start_failure(&error))?;
    if let FaceStatus::Off(why) = presence.status().collie {
        output::complain(&format!("Collie is off: {why}"));
    }
    if let FaceStatus::Off(why) = presence.status().records {
        output::complain(&format!("the session is kept in memory only: {why}"));
    }
    let mut opening = presence.session(&record.session);
    if let Some(title) = &record.title {
        opening = opening.title(title);
    }
    let session = opening.open_unannounced().map_err(|error| session_failure(&error))?;
    let mut coming_back = ComingBack::new(record.clone(), known.clone(), state_folder().as_deref());
    if let Err(error) = coming_back.start(&presence, session.clone(), config()) {
        output::complain(&format!("the session will not come back: {error}"));
    }
    let server = start_link(&presence, link_path);
    let link = server.as_ref().map(|server| server.path().to_owned());
    let place = Place::Own { presence, session };
    Ok(Started { place, link, server, coming_back: Some(coming_back) })
}

/// A session of the presence that we run inside.
fn join(outer: Outer, params: &OpenParams) -> Result<Started, Failure> {
    // Before there is a connection: the guardian would keep it open.
    guard(&[], || {});
    let link = Some(outer.socket.clone());
    let joined = Joined::open(outer, params).map_err(|why| Failure::new(Exit::Usage, why))?;
    // What it runs inside of brings it back.
    Ok(Started { place: Place::Joined(Arc::new(joined)), link, server: None, coming_back: None })
}

fn guard(sockets: &[PathBuf], last_word: impl FnOnce()) {
    if let Err(error) = shim::guard(sockets, last_word) {
        // It only helps when we are killed.
        tracing::warn!(%error, "there is no guardian");
    }
}

/// How a wrapped agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TheEnd {
    /// It could not be started.
    NeverBegan,
    /// The user quit, by whatever way the agent offers.
    Quit,
    /// The agent crashed, or somebody closed the terminal, or stopped us: nothing runs any more, and the
    /// session can be resumed.
    Gone,
    /// It came back only to say that it cannot, such as that it does not find the conversation.
    FailedAtOnce,
}

impl TheEnd {
    fn of(ending: &Ending) -> Self {
        match (ending.ended_by, ending.status) {
            (None, Status::Exited(_)) => Self::Quit,
            (None, Status::Signaled(_)) | (Some(_), _) => Self::Gone,
        }
    }
}

fn failed_at_once(ending: &Ending, began: Instant) -> bool {
    let failed = matches!(ending.status, Status::Exited(code) if code != 0);
    failed && ending.ended_by.is_none() && began.elapsed() < AT_ONCE
}

/// Tells the faces how the agent ended.
fn end(presence: Presence, ending: TheEnd) {
    match ending {
        TheEnd::NeverBegan => {}
        TheEnd::Quit => presence.release(),
        TheEnd::Gone | TheEnd::FailedAtOnce => presence.ended(),
    }
    presence.close();
}

/// What is known of the agent, also by what the user says of it.
pub(super) fn known_agent(program_name: &str, config: Option<&Path>) -> Agent {
    agents::find(program_name, config).unwrap_or_else(|error| {
        let file = config.unwrap_or(Path::new(""));
        output::complain(&format!("{} is not used: {error}", file.display()));
        agents::known(program_name)
    })
}

/// The user's file.
fn config() -> Option<PathBuf> {
    Some(folders::config(|name| env::var_os(name))?.join("config.toml"))
}

/// Starts the threads that look at the agent's terminal and type into it.
fn look_and_type(
    feed: Feed,
    agent: Agent,
    session: &Place,
    chat: ChatMode,
) -> io::Result<(Eyes, Keyboard)> {
    let keyboard = Keyboard::new()?;
    let eyes = Eyes::open(feed.clone(), agent.clone(), session.clone(), chat, keyboard.clone())?;
    let window = eyes.window.clone();
    let hands = Hands { agent, session: session.clone(), window, feed, keyboard: keyboard.clone() };
    // It ends with the session.
    drop(hands.start()?);
    Ok((eyes, keyboard))
}

/// What the agent of a session is known by.
pub(super) fn program_name_of(record: &Record) -> String {
    record.command.first().map(|program| base_name(program)).unwrap_or_default()
}

/// A resume command with a place for the session, as one line.
fn template(line: &str) -> Result<String, String> {
    match shell_words::split(line) {
        Err(_) => Err("a quote is not closed".to_owned()),
        Ok(words) if words.is_empty() => Err("it is empty".to_owned()),
        Ok(_) => Ok(line.to_owned()),
    }
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
