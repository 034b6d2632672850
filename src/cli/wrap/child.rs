//! The agent's command and its environment.

use std::env;
use std::ffi::OsString;
use std::path::Path;

use crate::link;
use crate::wrap::Child;

/// The variable that leads the agent to this very program.
const PROGRAM_VARIABLE: &str = "AGENT_PRESENCE_BIN";
/// The variable that leads a child to the pane: one that sees it would report for it, or release it.
const PANE_VARIABLE: &str = "HERDR_PANE_ID";

/// Which of Herdr's variables the agent does not get.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    clap::ValueEnum,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub(super) enum HerdrEnv {
    /// The pane's id.
    #[default]
    Pane,
    /// All of them.
    All,
    /// None: the agent reports for the pane as well.
    Keep,
}

/// The agent's command, led to its presence, and away from the pane that we report for.
pub(super) fn led(
    program: OsString,
    arguments: impl Iterator<Item = OsString>,
    session_id: &str,
    link: Option<&Path>,
    herdr_env: HerdrEnv,
) -> Child {
    let mut child = Child::new(program, arguments);
    let mut variable = |name: &str, value: Option<OsString>| match value {
        Some(value) => child.set.push((name.into(), value)),
        None => child.remove.push(name.into()),
    };
    variable(link::SESSION_VARIABLE, Some(session_id.into()));
    variable(link::SOCKET_VARIABLE, link.map(Into::into));
    variable(PROGRAM_VARIABLE, env::current_exe().ok().map(Into::into));
    child.remove.extend(hidden(herdr_env));
    child
}

fn hidden(herdr_env: HerdrEnv) -> Vec<OsString> {
    match herdr_env {
        HerdrEnv::Pane => vec![PANE_VARIABLE.into()],
        HerdrEnv::All => env::vars_os()
            .map(|(name, _)| name)
            .filter(|name| name.as_encoded_bytes().starts_with(b"HERDR_"))
            .collect(),
        HerdrEnv::Keep => Vec::new(),
    }
}
