//! `agent-presence doctor`: what works here, what does not, and what to do about it.

mod collie;
mod herdr;
mod records;

use std::env;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::inside::Inside;
use super::{Exit, Failure, output};
use crate::link::{SOCKET_VARIABLE, StatusResult, method};

/// How long the presence may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The agent's name in Herdr that is to be checked.
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The source of its reports. Default: `agent-presence`.
    #[arg(long, value_name = "SOURCE")]
    source: Option<String>,
    /// For machines: one JSON object.
    #[arg(long)]
    json: bool,
    /// A resume command to be checked, after `--`.
    #[arg(last = true, value_name = "RESUME")]
    resume: Vec<String>,
}

/// How one thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// It works.
    Ok,
    /// It is not used here, or nobody can tell.
    Note,
    /// It does not work, and something can be done.
    Fix,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Check {
    name: &'static str,
    verdict: Verdict,
    /// What was found.
    found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    todo: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Ok, found: found.into(), todo: None }
    }

    fn note(name: &'static str, found: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Note, found: found.into(), todo: Some(todo.into()) }
    }

    fn fix(name: &'static str, found: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Fix, found: found.into(), todo: Some(todo.into()) }
    }

    fn line(&self) -> String {
        let mark = match self.verdict {
            Verdict::Ok => "ok  ",
            Verdict::Note => "-   ",
            Verdict::Fix => "FIX ",
        };
        let todo = self.todo.as_ref().map(|todo| format!("; {todo}")).unwrap_or_default();
        format!("{mark} {:<14} {}{todo}", self.name, self.found)
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let presence = presence();
    let mut checks = Vec::new();
    checks.push(match &presence {
        Ok(status) => Check::ok("presence", format!("this is inside a wrapped `{}`", status.agent)),
        Err(check) => check.clone(),
    });
    let presence = presence.ok();
    checks.extend(herdr::checks(arguments, presence.as_ref()));
    checks.push(collie::check(presence.as_ref()));
    checks.push(records::check(presence.as_ref()));

    let well = checks.iter().all(|check| check.verdict != Verdict::Fix);
    let printed = if arguments.json {
        output::print(&json!({"ok": well, "checks": checks}))
    } else {
        checks.iter().try_for_each(|check| output::print(&check.line()))
    };
    printed.map_err(|error| Failure::new(Exit::Failed, error))?;
    Ok(if well { Exit::Done } else { Exit::Failed })
}

/// What the presence that this process runs inside says of itself, or how that stands.
fn presence() -> Result<StatusResult, Check> {
    let name = "presence";
    if env::var_os(SOCKET_VARIABLE).is_none() {
        let start = "`agent-presence wrap -- my-agent` starts one";
        return Err(Check::note(name, "this is not inside a wrapped agent", start));
    }
    Inside::find()
        .and_then(|mut inside| inside.query(method::STATUS, &json!({}), PATIENCE))
        .map_err(|failure| Check::fix(name, failure.message, "start the agent again"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_to_do() {
        assert_eq!(Check::ok("seq", "fine").line(), "ok   seq            fine");
        assert_eq!(Check::fix("seq", "bad", "do it").line(), "FIX  seq            bad; do it");
    }
}
