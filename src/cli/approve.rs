//! `agent-presence approve`: the agent asks whether a tool may run.

use serde_json::value::RawValue;

use super::inside::{self, Inside};
use super::{Exit, Failure, output};
use crate::collie::DecidedBy;
use crate::link::{ApproveParams, ApproveResult, method};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    about: inside::About,
    /// Print the whole verdict as one line of JSON.
    #[arg(long)]
    json: bool,
    /// The name of the tool.
    tool: String,
    /// The arguments of the call: a JSON object.
    #[arg(value_name = "ARGUMENTS-JSON", value_parser = json_object)]
    named: Option<Box<RawValue>>,
}

/// Kept as text: the user sees the arguments in their order.
fn json_object(text: &str) -> Result<Box<RawValue>, String> {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(object) if object.get().starts_with('{') => Ok(object.to_owned()),
        Ok(_) => Err("it is JSON, but not an object".to_owned()),
        Err(error) => Err(format!("it is not JSON: {error}")),
    }
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let mut inside = Inside::find()?;
    let params = ApproveParams {
        session: inside.session.clone(),
        tool: arguments.tool,
        arguments: arguments.named,
        reason: arguments.about.reason,
        call: arguments.about.call,
        item: arguments.about.item,
        timeout_ms: arguments.about.timeout.map(inside::milliseconds),
    };
    let result: ApproveResult = inside.ask(method::APPROVE, &params)?;
    if arguments.json {
        output::print_json(&result)?;
    }
    Ok(match (result.approved, result.decided_by) {
        (true, _) => Exit::Done,
        (false, DecidedBy::Timeout) => Exit::TimedOut,
        (false, _) => Exit::Denied,
    })
}
