//! The rules of Herdr, without any I/O: a request in, an answer out.
//!
//! They follow `herdr/PROTOCOL.md`, whose numbers are named here.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a pane shows and keeps.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Pane {
    /// Who holds the pane (H033).
    pub(crate) holder: Option<Holder>,
    /// The last sequence number of each source, whatever its label (H060).
    pub(crate) seqs: BTreeMap<String, u64>,
    /// The same for metadata, which counts apart.
    pub(crate) metadata_seqs: BTreeMap<String, u64>,
    /// The metadata of each source, as its last call gave it (H041).
    pub(crate) metadata: BTreeMap<String, Value>,
    /// The resume command (H054).
    pub(crate) resume: Option<Vec<String>>,
    /// `agent_resume` as it was kept over a stop, until the agent that it brings back has another one, and
    /// whether what was typed has run.
    pub(crate) restored: Option<(Value, bool)>,
    /// The official source that anchors the pane (H036).
    pub(crate) anchor: Option<String>,
    /// Work has ended that nobody has looked at yet (H031).
    pub(crate) unseen: bool,
    /// The process of the pane's shell (H070).
    pub(crate) shell_pid: Option<u32>,
    /// The process group in front; none: the shell itself.
    pub(crate) foreground: Option<u32>,
    /// The folder that the pane was last in (H055).
    pub(crate) folder: Option<PathBuf>,
    /// What was sent to it and not yet typed.
    pub(crate) unsent: String,
}

/// Who holds a pane, and with which state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) source: String,
    pub(crate) agent: String,
    pub(crate) state: String,
    pub(crate) message: Option<String>,
}

/// A server's memory.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) version: String,
    pub(crate) panes: BTreeMap<String, Pane>,
    /// The server is on its way out (H015).
    pub(crate) stopping: bool,
    /// How many more resume commands get `resume_not_accepted`: the detector is slow (H053).
    pub(crate) unaccepted_commands: u32,
}

impl Model {
    /// A server of this version with one pane, `w1:p1`.
    pub(crate) fn new(version: &str) -> Self {
        Self {
            version: version.to_owned(),
            panes: BTreeMap::from([("w1:p1".to_owned(), Pane::default())]),
            stopping: false,
            unaccepted_commands: 0,
        }
    }

    /// Whether resume commands are known: 0.9.2 and later.
    pub(crate) fn takes_commands(&self) -> bool {
        self.is_at_least([0, 9, 2])
    }

    pub(crate) fn is_at_least(&self, version: [u32; 3]) -> bool {
        let core = self.version.split('-').next().unwrap_or_default();
        let parts: Vec<u32> = core.split('.').filter_map(|part| part.parse().ok()).collect();
        parts.as_slice() >= version.as_slice()
    }

    /// The server was replaced under its panes: states and sequence numbers are gone (H072).
    pub(crate) fn hand_off(&mut self) {
        for pane in self.panes.values_mut() {
            let Pane { shell_pid, foreground, ref folder, .. } = *pane;
            let folder = folder.clone();
            *pane = Pane { shell_pid, foreground, folder, ..Pane::default() };
        }
    }

    /// The agent was stopped for more than a second, or died: its report goes, with its command (H071).
    pub(crate) fn clear(&mut self, pane: &str) {
        if let Some(pane) = self.panes.get_mut(pane) {
            pane.holder = None;
            pane.resume = None;
            pane.restored = None;
        }
    }

    /// Answers one request.
    pub(crate) fn handle(&mut self, request: &Value) -> Value {
        let id = request["id"].clone();
        match self.outcome(request) {
            Ok(result) => json!({"id": id, "result": result}),
            Err((code, message)) => {
                json!({"id": id, "error": {"code": code, "message": message}})
            }
        }
    }

    fn outcome(&mut self, request: &Value) -> Result<Value, (&'static str, &'static str)> {
        if self.stopping {
            return Err(("server_unavailable", "the server is stopping"));
        }
        let (Some(method), Some(params)) =
            (request["method"].as_str(), request["params"].as_object())
        else {
            return Err(("invalid_request", "method and params must be there"));
        };
        if method == "ping" {
            return Ok(json!({"type": "pong", "version": self.version, "protocol": 20,
                "capabilities": {}}));
        }
        if method == "server.stop" {
            self.stopping = true;
            return Ok(json!({"type": "ok"}));
        }
        let takes_commands = self.takes_commands();
        let pane_id = params.get("pane_id").and_then(Value::as_str).unwrap_or_default();
        let Some(pane) = self.panes.get_mut(pane_id) else {
            return Err(("pane_not_found", "no such pane"));
        };
        let text = |name: &str| params.get(name).and_then(Value::as_str);
        let seq = params.get("seq").and_then(Value::as_u64);
        match method {
            "pane.get" => Ok(json!({"type": "pane_info", "pane": pane.info(pane_id)})),
            "pane.process_info" => Ok(json!({"type": "pane_process_info", "process_info": {
                "pane_id": pane_id, "shell_pid": pane.shell_pid,
                "foreground_process_group_id": pane.foreground.or(pane.shell_pid)}})),
            "pane.send_text" => {
                pane.unsent.push_str(text("text").unwrap_or_default());
                Ok(json!({"type": "ok"}))
            }
            "pane.report_agent" | "pane.report_agent_session" => {
                let (Some(source), Some(agent)) = (text("source"), text("agent")) else {
                    return Err(("invalid_params", "source and agent must be there"));
                };
                let state = match (method, text("state")) {
                    ("pane.report_agent_session", _) => None,
                    (_, Some(state @ ("idle" | "working" | "blocked" | "unknown"))) => Some(state),
                    _ => return Err(("invalid_params", "unknown state")),
                };
                // An old server drops the fields that it does not know.
                let resume = params.get("resume_argv").filter(|_| takes_commands);
                if let Some(resume) = resume {
                    check_command(resume)?;
                    let holds = pane.holder.as_ref().is_some_and(|holder| holder.source == source);
                    let too_early = state.is_none() && !holds;
                    if self.unaccepted_commands > 0 || too_early || pane.is_anchored_against(source)
                    {
                        self.unaccepted_commands = self.unaccepted_commands.saturating_sub(1);
                        return Err((
                            "resume_not_accepted",
                            "resume_argv requires the reporter to hold the pane",
                        ));
                    }
                }
                pane.report(source, agent, state, text("message"), seq, resume);
                if let ("pane.report_agent_session", true) = (method, source.starts_with("herdr:"))
                {
                    pane.anchor = Some(source.to_owned());
                    pane.holder = None;
                }
                Ok(json!({"type": "ok"}))
            }
            "pane.release_agent" => {
                let (Some(source), Some(agent)) = (text("source"), text("agent")) else {
                    return Err(("invalid_params", "source and agent must be there"));
                };
                pane.release(source, agent, seq);
                Ok(json!({"type": "ok"}))
            }
            "pane.report_metadata" => {
                let Some(source) = text("source").filter(|source| is_metadata_source(source))
                else {
                    return Err(("invalid_params", "not a source"));
                };
                if is_newer(&mut pane.metadata_seqs, source, seq) {
                    let fields = ["title", "display_agent", "state_labels"];
                    let kept = fields
                        .iter()
                        .filter_map(|name| Some(((*name).to_owned(), cut(params.get(*name)?))))
                        .collect();
                    pane.metadata.insert(source.to_owned(), Value::Object(kept));
                }
                Ok(json!({"type": "ok"}))
            }
            _ => Err(("unknown_method", "no such method")),
        }
    }
}

impl Pane {
    fn is_anchored_against(&self, source: &str) -> bool {
        self.anchor.as_deref().is_some_and(|anchor| anchor != source)
    }

    fn report(
        &mut self,
        source: &str,
        agent: &str,
        state: Option<&str>,
        message: Option<&str>,
        seq: Option<u64>,
        resume: Option<&Value>,
    ) {
        if !is_newer(&mut self.seqs, source, seq) || self.is_anchored_against(source) {
            return;
        }
        if let Some(state) = state {
            let was = self.holder.as_ref().map(|holder| holder.state.clone());
            if self.holder.as_ref().is_none_or(|holder| holder.source != source) {
                // The last writer holds the pane, and the command of the one before goes.
                self.resume = None;
                self.restored.take_if(|(resume, _)| resume["source"] != source);
            }
            self.unseen = state == "idle" && (self.unseen || was.as_deref() == Some("working"));
            self.holder = Some(Holder {
                source: source.to_owned(),
                agent: agent.to_owned(),
                state: state.to_owned(),
                message: message.map(str::to_owned),
            });
        }
        if let Some(words) = resume.and_then(Value::as_array) {
            let words = words.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            self.resume = Some(words);
            self.restored = None;
        }
    }

    fn release(&mut self, source: &str, agent: &str, seq: Option<u64>) {
        if !is_newer(&mut self.seqs, source, seq) {
            return;
        }
        let holds = |holder: &Holder| holder.source == source && holder.agent == agent;
        if self.holder.as_ref().is_some_and(holds) {
            self.holder = None;
            self.resume = None;
            self.restored = None;
            self.unseen = false;
        }
    }

    fn info(&self, pane_id: &str) -> Value {
        let status = match &self.holder {
            Some(holder) if holder.state == "idle" && self.unseen => "done",
            Some(holder) => &holder.state,
            None => "unknown",
        };
        let agent = self.holder.as_ref().map(|holder| &holder.agent);
        json!({"pane_id": pane_id, "agent": agent, "agent_status": status, "revision": 0})
    }
}

/// Higher than the last one of the source, or without any before (H060).
fn is_newer(seqs: &mut BTreeMap<String, u64>, source: &str, seq: Option<u64>) -> bool {
    match (seqs.get(source), seq) {
        (Some(last), Some(seq)) if seq <= *last => false,
        (Some(_), None) => false,
        (_, None) => true,
        (_, Some(seq)) => {
            seqs.insert(source.to_owned(), seq);
            true
        }
    }
}

fn is_metadata_source(source: &str) -> bool {
    (1..=80).contains(&source.len())
        && source.chars().all(|c| c.is_ascii_alphanumeric() || ":._-".contains(c))
}

/// Herdr's own rules for a resume command (H051).
fn check_command(resume: &Value) -> Result<(), (&'static str, &'static str)> {
    let invalid = |why| Err(("invalid_resume_argv", why));
    let words: Option<Vec<&str>> =
        resume.as_array().and_then(|words| words.iter().map(Value::as_str).collect());
    let Some(words) = words else {
        return invalid("not a list of strings");
    };
    let Some(first) = words.first() else {
        return invalid("empty");
    };
    if words.len() > 64 || words.iter().map(|word| word.len()).sum::<usize>() > 8_192 {
        return invalid("too long");
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    if first.is_empty() || first.starts_with('-') || !first.chars().all(is_name) {
        return invalid("the first word is not a plain name");
    }
    if words.iter().any(|word| word.contains('\'') || word.chars().any(char::is_control)) {
        return invalid("an apostrophe or a control character");
    }
    Ok(())
}

/// Shown texts are cut at 80 characters (H040).
fn cut(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.chars().take(80).collect()),
        Value::Object(labels) => {
            Value::Object(labels.iter().map(|(name, text)| (name.clone(), cut(text))).collect())
        }
        other => other.clone(),
    }
}
