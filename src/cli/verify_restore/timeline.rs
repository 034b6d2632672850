//! What was done, step by step.

use std::time::Instant;

use serde::Serialize;
use serde_json::json;

use crate::cli::{Failure, output};

/// One step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) ok: bool,
    /// When it ended, from the start of the test.
    pub(super) milliseconds: u64,
    /// What was found.
    pub(super) found: String,
    /// What was typed into the pane, by us or by Herdr.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) typed: Option<String>,
    /// The last lines of the screen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) seen: Vec<String>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) todo: Option<String>,
}

impl Step {
    pub(super) fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, ok: true, found: found.into(), ..Self::default() }
    }

    pub(super) fn failed(
        name: &'static str,
        found: impl Into<String>,
        todo: impl Into<String>,
    ) -> Self {
        Self { name, found: found.into(), todo: Some(todo.into()), ..Self::default() }
    }

    pub(super) fn typed(mut self, line: &str) -> Self {
        self.typed = Some(line.to_owned());
        self
    }

    pub(super) fn seen(mut self, lines: Vec<String>) -> Self {
        self.seen = lines;
        self
    }

    /// For people: a line, and more lines for what was typed, and for what was seen when it went wrong.
    fn lines(&self) -> Vec<String> {
        let mark = if self.ok { "ok  " } else { "FAIL" };
        let seconds = std::time::Duration::from_millis(self.milliseconds).as_secs_f64();
        let mut lines = vec![format!("{mark} {seconds:>6.2} s  {:<8} {}", self.name, self.found)];
        let indent = " ".repeat(24);
        lines.extend(self.typed.iter().map(|line| format!("{indent}typed: {line}")));
        if !self.ok {
            lines.extend(self.seen.iter().map(|line| format!("{indent}seen:  {line}")));
            lines.extend(self.todo.iter().map(|todo| format!("{indent}do:    {todo}")));
        }
        lines
    }
}

/// The steps so far. People see each one as it ends, machines all of them at the end.
#[derive(Debug)]
pub(super) struct Timeline {
    started: Instant,
    session: String,
    json: bool,
    steps: Vec<Step>,
    /// Herdr's version, as soon as it is known.
    pub(super) version: Option<String>,
}

impl Timeline {
    pub(super) fn start(session: &str, json: bool) -> Self {
        let session = session.to_owned();
        Self { started: Instant::now(), session, json, steps: Vec::new(), version: None }
    }

    pub(super) fn add(&mut self, mut step: Step) {
        step.milliseconds = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        if !self.json {
            // Nobody may be left to read it: the session is cleaned up all the same.
            let _ = step.lines().iter().try_for_each(output::print);
        }
        self.steps.push(step);
    }

    pub(super) fn passed(&self) -> Result<(), Failure> {
        self.end(true, "passed: the agent comes back")
    }

    pub(super) fn failed(&self) -> Result<(), Failure> {
        let step = self.steps.last().map_or("", |step| step.name);
        self.end(false, &format!("failed at the step `{step}`"))
    }

    fn end(&self, ok: bool, words: &str) -> Result<(), Failure> {
        if !self.json {
            return output::print(&words);
        }
        let failed = self.steps.iter().find(|step| !step.ok).map(|step| step.name);
        output::print(&json!({"ok": ok, "session": self.session,
            "herdr": self.version, "failed": failed, "steps": self.steps}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_see_what_was_typed_and_what_to_do() {
        let step = Step::failed("resume", "bad", "do it").typed("a b").seen(vec!["x".into()]);
        let lines = Step { milliseconds: 1_234, ..step }.lines();
        assert_eq!(lines[0], "FAIL   1.23 s  resume   bad");
        let rest: Vec<&str> = lines[1..].iter().map(|line| line.trim()).collect();
        assert_eq!(rest, ["typed: a b", "seen:  x", "do:    do it"]);
    }
}
