//! What a session keeps over a stop, and what is typed from it.

use crate::model::{Model, Pane};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A pane as it was kept.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct KeptPane {
    pub(super) id: String,
    pub(super) folder: PathBuf,
    /// The words of its resume command.
    pub(super) resume: Option<Vec<String>>,
    /// `agent_resume` as it was written.
    pub(super) written: Value,
    /// Source, label, folder and words: of two equal ones only the first is restored (H057).
    key: Value,
}

impl KeptPane {
    /// The line that is typed into its shell.
    pub(super) fn line(&self) -> Option<String> {
        let words = self.resume.as_ref()?;
        Some(words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "))
    }
}

/// `session.json` as it would be now.
pub(super) fn text(model: &Model) -> String {
    let pane = |(id, pane): (&String, &Pane)| {
        let resume = pane.holder.as_ref().zip(pane.resume.as_ref()).map(
            |(holder, argv)| json!({"source": holder.source, "agent": holder.agent, "argv": argv}),
        );
        // What could not come back yet has not reported, and is not forgotten.
        let restored = || pane.restored.as_ref().map(|(resume, _)| resume.clone());
        let mut kept = json!({"pane_id": id, "cwd": pane.folder});
        if let Some(resume) = resume.or_else(restored) {
            kept["agent_resume"] = resume;
        }
        kept
    };
    let panes: Vec<Value> = model.panes.iter().map(pane).collect();
    json!({"version": 1, "workspaces": [{"id": "w1", "tabs": [{"id": "w1:t1", "panes": panes}]}]})
        .to_string()
}

/// The panes of a stopped session, each with the command that is to be typed. None: it is a new one.
pub(super) fn read(folder: &Path) -> Option<Vec<KeptPane>> {
    let text = fs::read_to_string(folder.join("session.json")).ok()?;
    let kept: Value = serde_json::from_str(&text).unwrap();
    let panes = kept["workspaces"][0]["tabs"][0]["panes"].as_array().unwrap();
    let mut seen = BTreeSet::new();
    let mut panes: Vec<KeptPane> = panes.iter().map(pane).collect();
    for pane in &mut panes {
        if pane.resume.is_some() && !seen.insert(pane.key.to_string()) {
            pane.resume = None;
        }
    }
    Some(panes)
}

fn pane(kept: &Value) -> KeptPane {
    let resume = &kept["agent_resume"];
    let words = resume["argv"].as_array();
    KeptPane {
        id: kept["pane_id"].as_str().unwrap().to_owned(),
        folder: kept["cwd"].as_str().unwrap_or("/").into(),
        resume: words.map(|words| words.iter().map(|word| word.as_str().unwrap().into()).collect()),
        written: resume.clone(),
        key: json!([resume["source"], resume["agent"], kept["cwd"], resume["argv"]]),
    }
}

/// A word for a shell: as it is when that is safe, else in apostrophes.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:@%+=".contains(&byte);
    match word {
        "" => "''".to_owned(),
        word if word.bytes().all(is_plain) => word.to_owned(),
        word => format!("'{}'", word.replace('\'', r"'\''")),
    }
}
