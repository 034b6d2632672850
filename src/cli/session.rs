//! `agent-presence session`: the agent is in another conversation, or names the one that it is in.

use super::inside::Inside;
use super::{Exit, Failure};
use crate::link::{OpenParams, method};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The id of the conversation.
    id: String,
    /// What it is about.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// The phone goes on showing the conversation before it.
    #[arg(long)]
    keep: bool,
    /// The command that brings the conversation back, after `--`.
    #[arg(last = true, value_name = "RESUME-COMMAND")]
    resume: Vec<String>,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let mut inside = Inside::find()?;
    let Arguments { id, title, keep, resume } = arguments;
    let replaces = Some(inside.session.clone());
    let resume = (!resume.is_empty()).then_some(resume);
    let params = OpenParams { session: id, title, resume, replaces, keep, nested: None };
    inside.done(method::OPEN, &params)?;
    Ok(Exit::Done)
}
