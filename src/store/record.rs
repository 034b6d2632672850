//! What brings a session back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Word;

/// All that it takes to run a session again. Written as JSON into a private file; not a promise to other
/// programs, which ask `agent-presence sessions --json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    /// The name by which the session is asked for.
    pub(crate) token: String,
    /// The agent's name in Herdr and in Collie.
    pub(crate) agent: String,
    /// The id of the session in both.
    pub(crate) session: String,
    /// The id by which the agent itself knows the conversation, once that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) agent_session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    /// The folder that the agent ran in.
    pub(crate) folder: Word,
    /// The variables that it needs, of those that were named.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) variables: BTreeMap<String, Word>,
    /// The command that the user started it with.
    pub(crate) command: Vec<Word>,
    /// The command for coming back that the user gave, with `{session}` for the agent's own id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) template: Option<String>,
    /// The command that the agent itself gave for coming back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) own_command: Option<Vec<Word>>,
    /// The options of `wrap`, in its own form.
    #[serde(default)]
    pub(crate) options: serde_json::Value,
}
