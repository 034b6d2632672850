//! What Herdr shows of the pane.

use super::probe::Seen;
use crate::herdr::{AgentName, Detection, Environment, Inspection, Source};
use crate::presence::DEFAULT_SOURCE;

/// An agent that is ready, as Herdr shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) agent: String,
    pub(super) state: String,
}

/// The pane that a probe has run in, or the variable that is missing there.
pub(super) fn pane_of(seen: &Seen) -> Result<Environment, &'static str> {
    let lookup = |name: &str| seen.variables.get(name).map(Into::into);
    match Environment::from_lookup(lookup) {
        Detection::Inside(environment) => Ok(environment),
        Detection::Incomplete { missing } => Err(missing),
        Detection::Outside => Err("HERDR_ENV"),
    }
}

/// What Herdr shows of the pane; none: the system gives no event queue.
pub(super) fn inspect(pane: &Environment) -> Option<Inspection> {
    // Nothing is reported, so whose name is used does not matter.
    let source = Source::new(DEFAULT_SOURCE).ok()?;
    let agent = AgentName::new(DEFAULT_SOURCE).ok()?;
    Inspection::of(pane, &source, &agent, None).ok()
}

/// The agent, this one or any, once it is idle, or done: the same after work that nobody has looked at yet.
pub(super) fn ready(seen: &Inspection, expected: Option<&str>) -> Option<Shown> {
    let (agent, state) = (seen.holder.clone()?, seen.shown_state.clone()?);
    let is_ready = state == "idle" || state == "done";
    (is_ready && expected.is_none_or(|expected| expected == agent))
        .then_some(Shown { agent, state })
}

/// What Herdr shows instead of the agent, this one or any.
pub(super) fn not_ready(seen: Option<&Inspection>, expected: Option<&str>) -> String {
    let name = expected.map(|name| format!(" `{name}`")).unwrap_or_default();
    let Some(seen) = seen else {
        return "Herdr cannot be asked".to_owned();
    };
    if let Err(why) = &seen.transport {
        return format!("Herdr cannot be asked: {why}");
    }
    let state = seen.shown_state.as_deref().unwrap_or("no state");
    match &seen.holder {
        None => format!("no agent{name} has reported in the pane"),
        Some(holder) if expected.is_some_and(|expected| expected != holder) => {
            format!("another agent than{name} holds the pane: `{holder}`, {state}")
        }
        Some(holder) => format!("the agent{name} is not idle: Herdr shows `{holder}`, {state}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::herdr::{Ownership, TransportKind};

    fn seen(holder: Option<&str>, state: &str) -> Inspection {
        Inspection {
            transport: Ok(TransportKind::Socket),
            version: None,
            takes_resume_commands: None,
            holder: holder.map(str::to_owned),
            shown_state: Some(state.to_owned()),
            shell_in_front: None,
            ownership: Ownership::Unchecked,
            program: None,
            seq: None,
        }
    }

    #[test]
    fn idle_and_done_are_ready() {
        for (state, is_ready) in [("idle", true), ("done", true), ("working", false)] {
            assert_eq!(ready(&seen(Some("a"), state), None).is_some(), is_ready, "{state}");
        }
        assert!(ready(&seen(Some("a"), "idle"), Some("a")).is_some());
        assert!(ready(&seen(Some("b"), "idle"), Some("a")).is_none());
        assert!(ready(&seen(None, "unknown"), None).is_none());
    }

    #[test]
    fn what_is_shown_instead_is_said() {
        let said = |holder, state| not_ready(Some(&seen(holder, state)), Some("a"));
        assert_eq!(said(None, "unknown"), "no agent `a` has reported in the pane");
        assert_eq!(
            said(Some("a"), "working"),
            "the agent `a` is not idle: Herdr shows `a`, working"
        );
        assert_eq!(said(Some("b"), "idle"), "another agent than `a` holds the pane: `b`, idle");
        let silent = Inspection { transport: Err("why".to_owned()), ..seen(None, "unknown") };
        assert_eq!(not_ready(Some(&silent), None), "Herdr cannot be asked: why");
    }
}
