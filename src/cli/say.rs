//! `agent-presence say`: the agent says something in the chat.

use super::inside::Inside;
use super::{Exit, Failure};
use crate::link::{SayKind, SayParams, method};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Who says it, or how.
    #[arg(long, value_name = "KIND", value_enum, default_value_t = SayKind::Reply)]
    kind: SayKind,
    /// What is said.
    text: String,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let mut inside = Inside::find()?;
    let Arguments { kind, text } = arguments;
    let params = SayParams { session: inside.session.clone(), kind, text };
    inside.report(method::SAY, &params)?;
    Ok(Exit::Done)
}
