//! `agent-presence status`: where the agent is seen, and how that goes.

use super::inside::{Inside, PATIENCE};
use super::{Exit, Failure, output};
use crate::link::{StatusParams, StatusResult, method};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Print all of it as one line of JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let mut inside = Inside::find()?;
    // The environment still names the session that the agent began in; it may have gone over to another.
    let params = StatusParams { session: Some(inside.session.clone()) };
    let status: StatusResult = inside.query(method::STATUS, &params, PATIENCE)?;
    if arguments.json {
        output::print_json(&status)?;
        return Ok(Exit::Done);
    }
    output::print(&format!("agent    {}", status.agent))?;
    let session = status.session.as_deref().unwrap_or("none is open");
    output::print(&format!("session  {session}"))?;
    output::print(&format!("Herdr    {}", herdr(&status)))?;
    output::print(&format!("Collie   {}", collie(&status)))?;
    if let Some(link) = &status.link {
        output::print(&format!("link     {} dropped, last: {}", link.dropped, link.reason))?;
    }
    Ok(Exit::Done)
}

fn herdr(status: &StatusResult) -> String {
    let Some(herdr) = &status.herdr else { return "not here".to_owned() };
    let told = if herdr.settled { "up to date" } else { "not told everything yet" };
    let but = if herdr.resumes_another_session {
        "; after a restart it brings back an earlier session, because this one has no resume command"
    } else {
        ""
    };
    match &herdr.last_error {
        Some(error) => format!("pane {}: {told} ({error}){but}", herdr.pane),
        None => format!("pane {}: {told}{but}", herdr.pane),
    }
}

fn collie(status: &StatusResult) -> String {
    let collie = status.collie.as_ref();
    match collie.map(|collie| (&collie.socket, &collie.off)) {
        Some((Some(socket), _)) => socket.clone(),
        Some((None, Some(why))) => format!("off: {why}"),
        _ => "not here".to_owned(),
    }
}
