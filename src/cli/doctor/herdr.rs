//! The Herdr side: environment, server, pane, identity, resume command, holder, last report, seq.

use std::env;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::super::login_path;
use super::{Arguments, Check};
use crate::herdr::{
    AgentName, Detection, Environment, Inspection, Ownership, ResumeCommand, Source, TransportKind,
};
use crate::link::{HerdrStatus, StatusResult};
use crate::os::folders;
use crate::presence::DEFAULT_SOURCE;

/// How far ahead of the clock a sequence number may be: the clock may have stepped back a little.
const AHEAD: Duration = Duration::from_secs(60 * 60);

pub(super) fn checks(arguments: &Arguments, presence: Option<&StatusResult>) -> Vec<Check> {
    let wrapped = presence.and_then(|status| status.herdr.as_ref());
    let named = arguments.agent.as_deref().or(presence.map(|status| status.agent.as_str()));
    let source = arguments.source.as_deref().unwrap_or(DEFAULT_SOURCE);
    let identity = identity(named.unwrap_or("my-agent"), source);

    let mut checks = Vec::new();
    match (Environment::detect(), wrapped) {
        (Detection::Inside(environment), _) => {
            let pane = environment.pane_id();
            let session = environment.session().unwrap_or("default");
            checks.push(Check::ok("environment", format!("pane {pane} of session {session}")));
            if let Ok((source, agent)) = &identity {
                checks.extend(inspect(&environment, source, agent, named.is_some()));
            }
        }
        // The wrap has taken the pane's id away on purpose.
        (Detection::Incomplete { .. }, Some(herdr)) => {
            checks
                .push(Check::ok("environment", format!("`wrap` reports for pane {}", herdr.pane)));
        }
        (Detection::Incomplete { missing }, None) => checks.push(Check::fix(
            "environment",
            format!("half of Herdr's variables are there, {missing} is not"),
            "run it in a pane itself, not in a child of an agent",
        )),
        (Detection::Outside, _) => checks.push(Check::note(
            "environment",
            "this is not a pane of Herdr",
            "nothing is reported to Herdr here",
        )),
    }
    if let Some(herdr) = wrapped {
        checks.extend(reported(herdr));
    }
    checks.push(login_path());
    checks.push(match identity {
        Ok((source, agent)) => Check::ok(
            "identity",
            format!("agent `{}`, source `{}`", agent.as_str(), source.as_str()),
        ),
        Err(broken) => Check::fix("identity", broken, "choose another with --agent or --source"),
    });
    if !arguments.resume.is_empty() {
        checks.push(resume(&arguments.resume));
    }
    checks
}

/// Whether what `wrap` gives to Herdr would be found when it is typed.
fn login_path() -> Check {
    match login_path::program() {
        Some(path) => {
            Check::ok("coming back", format!("a restored shell finds {}", path.display()))
        }
        None => Check::note(
            "coming back",
            format!("a restored shell would not find `{}`", login_path::PROGRAM),
            "sessions come back by their agents' own commands, unwrapped: put it on PATH of your login shell",
        ),
    }
}

fn identity(agent: &str, source: &str) -> Result<(Source, AgentName), String> {
    let source = Source::new(source).map_err(|error| error.to_string())?;
    let agent = AgentName::new(agent).map_err(|error| error.to_string())?;
    Ok((source, agent))
}

/// What Herdr itself says, asked from here.
fn inspect(
    environment: &Environment,
    source: &Source,
    agent: &AgentName,
    agent_is_named: bool,
) -> Vec<Check> {
    let folder = folders::state(|name| env::var_os(name));
    let seen = match Inspection::of(environment, source, agent, folder.as_deref()) {
        Ok(seen) => seen,
        Err(error) => return vec![Check::fix("server", error.to_string(), "try again")],
    };
    let mut checks = vec![server(&seen), commands(&seen), ownership(seen.ownership)];
    if seen.transport.is_ok() {
        let expected = agent_is_named.then(|| agent.as_str());
        checks.push(holder(seen.holder.as_deref(), seen.shown_state.as_deref(), expected));
    }
    checks.push(seq(seen.seq));
    checks
}

fn server(seen: &Inspection) -> Check {
    let version = seen.version.as_deref().unwrap_or("of unknown version");
    match &seen.transport {
        Ok(TransportKind::Socket) => Check::ok("server", format!("Herdr {version}, by its socket")),
        Ok(TransportKind::Cli) => Check::note(
            "server",
            format!("Herdr {version}, by its program only"),
            "its socket does not answer: is HERDR_SOCKET_PATH that of the running server?",
        ),
        Err(why) => Check::fix(
            "server",
            why.as_str(),
            "see whether `herdr status` answers, and open a new pane if the server was restarted",
        ),
    }
}

fn commands(seen: &Inspection) -> Check {
    match (seen.takes_resume_commands, &seen.program) {
        (Some(true), _) => Check::ok("resume", "this Herdr brings sessions back"),
        (Some(false), _) => Check::note(
            "resume",
            "this Herdr does not bring sessions back",
            "it does from version 0.9.2 on; states are reported all the same",
        ),
        (None, _) => Check::note(
            "resume",
            "whether this Herdr brings sessions back is not known",
            "it is tried, and states are reported all the same",
        ),
    }
}

fn ownership(ownership: Ownership) -> Check {
    match ownership {
        Ownership::Ours => Check::ok("pane", "this runs in the pane that its variables name"),
        Ownership::Foreign { shell_pid } => Check::fix(
            "pane",
            format!("this runs elsewhere than in its pane, whose shell is process {shell_pid}"),
            "the variables were inherited and nothing is reported; run it in a pane itself",
        ),
        Ownership::Unchecked | Ownership::Unknown => Check::note(
            "pane",
            "Herdr does not say whether this runs in the pane",
            "it is taken to be so",
        ),
    }
}

fn holder(holder: Option<&str>, state: Option<&str>, expected: Option<&str>) -> Check {
    let state = state.unwrap_or("no state");
    match (holder, expected) {
        (None, _) => Check::note("holder", "nobody holds the pane", "it shows no agent"),
        (Some(holder), Some(expected)) if holder != expected => Check::fix(
            "holder",
            format!("`{holder}` holds the pane ({state})"),
            format!("reports of `{expected}` may be ignored: end the other, or its integration"),
        ),
        (Some(holder), _) => Check::ok("holder", format!("`{holder}` holds the pane ({state})")),
    }
}

fn seq(seq: Option<u64>) -> Check {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + AHEAD;
    match seq {
        None => Check::note("seq", "no report of this source in this pane yet", "none is needed"),
        Some(seq) if u128::from(seq) > now.as_micros() => Check::note(
            "seq",
            format!("the last number, {seq}, is ahead of the clock"),
            "the next ones follow it, so reports are heard",
        ),
        Some(seq) => Check::ok("seq", format!("the last number is {seq}")),
    }
}

/// What the presence knows of its own reports.
fn reported(herdr: &HerdrStatus) -> Vec<Check> {
    let state = match herdr.reported {
        Some(state) => format!("{state:?}").to_lowercase(),
        None => "nothing yet".to_owned(),
    };
    let way = herdr.transport.as_deref().unwrap_or("no way yet");
    let last = match (&herdr.last_error, herdr.ownership.as_str()) {
        (_, "foreign") => Check::fix(
            "report",
            "nothing is reported: the pane is somebody else's",
            "run the agent in a pane itself",
        ),
        (Some(error), _) => Check::fix(
            "report",
            format!("{state} was taken last; since then: {error}"),
            "it is tried again; see whether `herdr status` answers",
        ),
        (None, _) => Check::ok("report", format!("{state} was taken, by {way}")),
    };
    let read_back = match (herdr.read_back.as_str(), &herdr.shown_instead) {
        ("agrees", _) => Check::ok("read-back", "Herdr shows what was reported"),
        ("differs", shown) => Check::fix(
            "read-back",
            format!("Herdr shows another: {}", shown.as_deref().unwrap_or("nobody")),
            "something else holds the pane: end it, or its integration",
        ),
        (word, _) => Check::note("read-back", word, "Herdr was not asked yet, or cannot be"),
    };
    vec![last, read_back, seq((herdr.seq > 0).then_some(herdr.seq))]
}

fn resume(words: &[String]) -> Check {
    match ResumeCommand::new(words) {
        Err(broken) => Check::fix("command", broken.to_string(), "change the command"),
        Ok(command) if command.program_on_path().is_some() => {
            Check::ok("command", format!("`{}` is on PATH, and the words are fine", words[0]))
        }
        Ok(_) => Check::fix(
            "command",
            format!("`{}` is not on PATH", words[0]),
            "Herdr types the command into a login shell: put it on PATH there",
        ),
    }
}
