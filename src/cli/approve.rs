//! `agent-presence approve`: the agent asks whether a tool may run.

use std::time::Duration;

use serde_json::{Map, Value};

use super::inside::{self, Inside};
use super::{Exit, Failure};
use crate::collie::DecidedBy;
use crate::link::{ApproveParams, ApproveResult, method};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Give up after this time, such as `10m`. Giving up never approves.
    #[arg(long, value_name = "TIME", value_parser = inside::duration)]
    timeout: Option<Duration>,
    /// The name of the tool.
    tool: String,
    /// The arguments of the call: a JSON object.
    #[arg(value_name = "ARGUMENTS-JSON", value_parser = json_object)]
    call: Option<Map<String, Value>>,
}

fn json_object(text: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("it is JSON, but not an object".to_owned()),
        Err(error) => Err(format!("it is not JSON: {error}")),
    }
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let mut inside = Inside::find()?;
    let params = ApproveParams {
        session: inside.session.clone(),
        tool: arguments.tool,
        arguments: Value::Object(arguments.call.unwrap_or_default()),
        timeout_ms: arguments.timeout.map(inside::milliseconds),
    };
    let result: ApproveResult = inside.ask(method::APPROVE, &params)?;
    Ok(match (result.approved, result.decided_by) {
        (true, _) => Exit::Done,
        (false, DecidedBy::Timeout) => Exit::TimedOut,
        (false, _) => Exit::Denied,
    })
}
