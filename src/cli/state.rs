//! `agent-presence state`: the agent says what it is doing.

use super::inside::Inside;
use super::{Exit, Failure};
use crate::link::{StateParams, StateWord, method};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// What the agent is doing.
    state: StateWord,
    /// Why it is blocked, or what it works on.
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let mut inside = Inside::find()?;
    let params = StateParams {
        session: inside.session.clone(),
        state: arguments.state,
        message: arguments.message,
        evidence: None,
    };
    inside.report(method::STATE, &params)?;
    Ok(Exit::Done)
}
