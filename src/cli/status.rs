//! `agent-presence status`: where the agent is seen, and how that goes.

use serde_json::json;

use super::inside::{Inside, PATIENCE};
use super::{Exit, Failure, output};
use crate::link::{StatusResult, method};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Print all of it as one line of JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let mut inside = Inside::find()?;
    let status: StatusResult = inside.query(method::STATUS, &json!({}), PATIENCE)?;
    if arguments.json {
        output::print_json(&status)?;
        return Ok(Exit::Done);
    }
    output::print(&format!("agent    {}", status.agent))?;
    output::print(&format!("session  {}", inside.session))?;
    output::print(&format!("Herdr    {}", herdr(&status)))?;
    output::print(&format!("Collie   {}", collie(&status)))?;
    Ok(Exit::Done)
}

fn herdr(status: &StatusResult) -> String {
    let Some(herdr) = &status.herdr else { return "not here".to_owned() };
    let told = if herdr.settled { "up to date" } else { "not told everything yet" };
    match &herdr.last_error {
        Some(error) => format!("pane {}: {told} ({error})", herdr.pane),
        None => format!("pane {}: {told}", herdr.pane),
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
