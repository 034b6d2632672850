//! `agent-presence say`: the agent says something in the chat.

use super::inside::Inside;
use super::{Exit, Failure};
use crate::link::{SayParams, method};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// What it says.
    text: String,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let mut inside = Inside::find()?;
    let params = SayParams { session: inside.session.clone(), text: arguments.text };
    inside.report(method::SAY, &params)?;
    Ok(Exit::Done)
}
