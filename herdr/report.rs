//! Every JSON name and every CLI word of Herdr's, both ways.

use super::identity::{AgentName, Source};
use super::metadata::Metadata;
use super::resume_command::ResumeCommand;
use super::sequence::Seq;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::fmt;
use std::sync::Arc;

/// What an agent is doing, in Herdr's words (H030).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// It waits for the user's next word.
    Idle,
    /// It works.
    Working,
    /// It needs a decision of the user's.
    Blocked,
}

impl State {
    /// Herdr's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Working => "working",
            Self::Blocked => "blocked",
        }
    }

    /// Whether Herdr's `agent_status` is this state. Work that nobody has looked at yet reads back as
    /// `done`, which is idle to us (H031).
    pub(super) fn is_read_back_as(self, status: &str) -> bool {
        status == self.as_str() || (self == Self::Idle && status == "done")
    }
}

impl fmt::Display for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Who reports about which pane: what every request has in common.
#[derive(Clone, Debug)]
pub(super) struct Claimant {
    pub(super) pane_id: String,
    pub(super) source: Source,
    pub(super) agent: AgentName,
}

/// One request to Herdr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// The server's version.
    Ping,
    /// What Herdr shows of the pane.
    ReadPane,
    /// Which shell runs in the pane.
    ReadProcess,
    /// The state, and with it the session and its resume command.
    Report {
        state: State,
        message: Option<Arc<str>>,
        session_id: Option<Arc<str>>,
        resume: Option<Arc<ResumeCommand>>,
        seq: Seq,
    },
    /// The session and its resume command, the state left as it is.
    Session { session_id: Arc<str>, resume: Arc<ResumeCommand>, seq: Seq },
    /// All the fields that people read; those that are not set are cleared.
    Metadata { metadata: Metadata, seq: Seq },
    /// The agent is gone.
    Release { seq: Seq },
}

impl Request {
    pub(super) fn method(&self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::ReadPane => "pane.get",
            Self::ReadProcess => "pane.process_info",
            Self::Report { .. } => "pane.report_agent",
            Self::Session { .. } => "pane.report_agent_session",
            Self::Metadata { .. } => "pane.report_metadata",
            Self::Release { .. } => "pane.release_agent",
        }
    }

    /// The resume command that it carries.
    pub(super) fn resume(&self) -> Option<&Arc<ResumeCommand>> {
        match self {
            Self::Report { resume, .. } => resume.as_ref(),
            Self::Session { resume, .. } => Some(resume),
            _ => None,
        }
    }

    /// The request as Herdr's socket takes it: one line with its newline (H010).
    pub(super) fn to_line(&self, claimant: &Claimant) -> Vec<u8> {
        let request = json!({
            // An answer is told by its connection (H012), so one id does for all.
            "id": "agent-presence",
            "method": self.method(),
            "params": self.params(claimant),
        });
        let mut line = request.to_string().into_bytes();
        line.push(b'\n');
        line
    }

    fn params(&self, claimant: &Claimant) -> Map<String, Value> {
        let mut params = Map::new();
        let mut set = |name: &str, value: Value| params.insert(name.to_owned(), value);
        if *self == Self::Ping {
            return params;
        }
        set("pane_id", json!(claimant.pane_id));
        if matches!(self, Self::ReadPane | Self::ReadProcess) {
            return params;
        }
        set("source", json!(claimant.source.as_str()));
        match self {
            Self::Ping | Self::ReadPane | Self::ReadProcess => {}
            Self::Report { state, message, session_id, resume, seq } => {
                set("agent", json!(claimant.agent.as_str()));
                set("state", json!(state.as_str()));
                set("seq", json!(seq));
                if let Some(message) = message {
                    set("message", json!(&**message));
                }
                if let Some(session_id) = session_id {
                    set("agent_session_id", json!(&**session_id));
                }
                if let Some(resume) = resume {
                    set("resume_argv", json!(resume.words()));
                }
            }
            Self::Session { session_id, resume, seq } => {
                set("agent", json!(claimant.agent.as_str()));
                set("seq", json!(seq));
                set("agent_session_id", json!(&**session_id));
                set("resume_argv", json!(resume.words()));
            }
            Self::Metadata { metadata, seq } => {
                set("seq", json!(seq));
                match &metadata.title {
                    Some(title) => set("title", json!(title)),
                    None => set("clear_title", json!(true)),
                };
                match &metadata.display_agent {
                    Some(name) => set("display_agent", json!(name)),
                    None => set("clear_display_agent", json!(true)),
                };
                if metadata.state_labels.is_empty() {
                    set("clear_state_labels", json!(true));
                } else {
                    let labels: Map<String, Value> = metadata
                        .state_labels
                        .iter()
                        .map(|(state, label)| (state.as_str().to_owned(), json!(label)))
                        .collect();
                    set("state_labels", Value::Object(labels));
                }
            }
            Self::Release { seq } => {
                set("agent", json!(claimant.agent.as_str()));
                set("seq", json!(seq));
            }
        }
        params
    }

    /// The request as words of Herdr's CLI, without the program; none when the CLI has no such request
    /// that we need. The pane's id comes first, and every option and value is two words (H021).
    pub(super) fn to_words(&self, claimant: &Claimant) -> Option<Vec<String>> {
        let mut words = CliWords(vec!["pane".to_owned()]);
        let pane = &claimant.pane_id;
        let source = claimant.source.as_str();
        let agent = claimant.agent.as_str();
        match self {
            // The CLI pings by itself, and its answer does not tell the server's version.
            Self::Ping | Self::ReadProcess => return None,
            Self::ReadPane => words.word("get").word(pane),
            Self::Report { state, message, session_id, resume, seq } => {
                words.word("report-agent").word(pane);
                words.option("--source", source).option("--agent", agent);
                words.option("--state", state.as_str());
                // Nobody is shown the message, so one that cannot be given goes.
                if let Some(message) = message.as_deref().filter(|message| is_value(message)) {
                    words.option("--message", message);
                }
                words.option("--seq", &seq.to_string());
                if let Some(session_id) = session_id {
                    words.option("--agent-session-id", session_id);
                }
                words.command(resume.as_deref())
            }
            Self::Session { session_id, resume, seq } => {
                words.word("report-agent-session").word(pane);
                words.option("--source", source).option("--agent", agent);
                words.option("--agent-session-id", session_id);
                words.option("--seq", &seq.to_string()).command(Some(resume))
            }
            Self::Metadata { metadata, seq } => {
                words.word("report-metadata").word(pane).option("--source", source);
                match metadata.title.as_deref().filter(|title| is_value(title)) {
                    Some(title) => words.option("--title", title),
                    None => words.word("--clear-title"),
                };
                match metadata.display_agent.as_deref().filter(|name| is_value(name)) {
                    Some(name) => words.option("--display-agent", name),
                    None => words.word("--clear-display-agent"),
                };
                if metadata.state_labels.is_empty() {
                    words.word("--clear-state-labels");
                }
                for (state, label) in &metadata.state_labels {
                    words.option("--state-label", &format!("{state}={label}"));
                }
                words.option("--seq", &seq.to_string())
            }
            Self::Release { seq } => {
                words.word("release-agent").word(pane);
                words.option("--source", source).option("--agent", agent);
                words.option("--seq", &seq.to_string())
            }
        };
        Some(words.0)
    }
}

/// Whether a text can be the value of an option. A word that is exactly `--` ends the options, and the
/// form that would hide it is not known to old programs (H022).
pub(super) fn is_value(text: &str) -> bool {
    text != "--"
}

struct CliWords(Vec<String>);

impl CliWords {
    fn word(&mut self, word: &str) -> &mut Self {
        self.0.push(word.to_owned());
        self
    }

    fn option(&mut self, name: &str, value: &str) -> &mut Self {
        self.word(name).word(value)
    }

    fn command(&mut self, command: Option<&ResumeCommand>) -> &mut Self {
        if let Some(command) = command {
            self.word("--");
            self.0.extend(command.words().iter().cloned());
        }
        self
    }
}

/// What Herdr said to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// From `ping`.
    pub(super) version: Option<String>,
    /// From `pane.get`.
    pub(super) pane: Option<PaneView>,
    /// From `pane.process_info`.
    pub(super) process: Option<ProcessView>,
}

/// What Herdr shows of a pane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct PaneView {
    pub(super) agent: Option<String>,
    pub(super) agent_status: Option<String>,
}

/// Which processes Herdr sees in a pane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct ProcessView {
    pub(super) shell_pid: Option<u32>,
    pub(super) foreground_process_group_id: Option<u32>,
}

/// A typed error of Herdr's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: String,
    pub(super) message: String,
}

#[derive(Deserialize)]
struct Envelope {
    result: Option<Outcome>,
    error: Option<ErrorBody>,
}

#[derive(Deserialize)]
struct Outcome {
    version: Option<String>,
    pane: Option<PaneView>,
    process_info: Option<ProcessView>,
}

#[derive(Deserialize)]
struct ErrorBody {
    code: String,
    #[serde(default)]
    message: String,
}

/// Reads one answer, from the socket or from what the CLI printed. None: it is no answer of Herdr's.
pub(super) fn read_answer(text: &[u8]) -> Option<Result<Answer, Refusal>> {
    let envelope: Envelope = serde_json::from_slice(text).ok()?;
    if let Some(error) = envelope.error {
        return Some(Err(Refusal { code: error.code, message: error.message }));
    }
    let Outcome { version, pane, process_info } = envelope.result?;
    Some(Ok(Answer { version, pane, process: process_info }))
}

/// Whether a server of this version takes resume commands: 0.9.2 and later, a suffix such as
/// `-preview.3` counting as the version itself (H050). None: it cannot be told.
pub(super) fn takes_resume_commands(version: &str) -> Option<bool> {
    let core = version.trim_start_matches('v').split(['-', '+']).next()?;
    let mut parts = core.split('.').map(|part| part.parse::<u64>().ok());
    let (major, minor, patch) = (parts.next()??, parts.next()??, parts.next()??);
    Some((major, minor, patch) >= (0, 9, 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimant() -> Claimant {
        Claimant {
            pane_id: "w1:p1".to_owned(),
            source: Source::new("src").unwrap(),
            agent: AgentName::new("my agent").unwrap(),
        }
    }

    fn resume() -> Arc<ResumeCommand> {
        Arc::new(ResumeCommand::new(["my-agent", "--resume", ""]).unwrap())
    }

    fn full_report() -> Request {
        Request::Report {
            state: State::Blocked,
            message: Some("run?".into()),
            session_id: Some("s1".into()),
            resume: Some(resume()),
            seq: 7,
        }
    }

    #[test]
    fn a_line_is_whole_and_ends_in_one_newline() {
        let line = full_report().to_line(&claimant());
        assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
        let value: Value = serde_json::from_slice(&line).unwrap();
        let expected = json!({"id": "agent-presence", "method": "pane.report_agent", "params": {
            "pane_id": "w1:p1", "source": "src", "agent": "my agent", "state": "blocked",
            "message": "run?", "agent_session_id": "s1",
            "resume_argv": ["my-agent", "--resume", ""], "seq": 7}});
        assert_eq!(value, expected);
        let ping: Value = serde_json::from_slice(&Request::Ping.to_line(&claimant())).unwrap();
        assert_eq!(ping["params"], json!({}), "params must be there (H010)");
    }

    #[test]
    fn cli_words_put_the_pane_first_and_the_command_last() {
        let words = full_report().to_words(&claimant()).unwrap();
        let expected = [
            "pane",
            "report-agent",
            "w1:p1",
            "--source",
            "src",
            "--agent",
            "my agent",
            "--state",
            "blocked",
            "--message",
            "run?",
            "--seq",
            "7",
            "--agent-session-id",
            "s1",
            "--",
            "my-agent",
            "--resume",
            "",
        ];
        assert_eq!(words, expected);
        let session = Request::Session { session_id: "s1".into(), resume: resume(), seq: 8 };
        let expected = [
            "pane",
            "report-agent-session",
            "w1:p1",
            "--source",
            "src",
            "--agent",
            "my agent",
            "--agent-session-id",
            "s1",
            "--seq",
            "8",
            "--",
            "my-agent",
            "--resume",
            "",
        ];
        assert_eq!(session.to_words(&claimant()).unwrap(), expected);
        let release = Request::Release { seq: 9 }.to_words(&claimant()).unwrap();
        let expected = [
            "pane",
            "release-agent",
            "w1:p1",
            "--source",
            "src",
            "--agent",
            "my agent",
            "--seq",
            "9",
        ];
        assert_eq!(release, expected);
    }

    #[test]
    fn a_text_that_would_end_the_options_is_left_out() {
        let report = Request::Report {
            state: State::Idle,
            message: Some("--".into()),
            session_id: None,
            resume: None,
            seq: 1,
        };
        let metadata =
            Metadata::new().title("--").display_agent("--").state_label(State::Idle, "--");
        for request in [report, Request::Metadata { metadata, seq: 2 }] {
            let words = request.to_words(&claimant()).unwrap();
            assert!(!words.contains(&"--".to_owned()), "{words:?}");
        }
    }

    #[test]
    fn metadata_sets_or_clears_every_field() {
        let set = Request::Metadata {
            metadata: Metadata::new()
                .title("T")
                .display_agent("D")
                .state_label(State::Blocked, "L=1"),
            seq: 1,
        };
        let expected = [
            "pane",
            "report-metadata",
            "w1:p1",
            "--source",
            "src",
            "--title",
            "T",
            "--display-agent",
            "D",
            "--state-label",
            "blocked=L=1",
            "--seq",
            "1",
        ];
        assert_eq!(set.to_words(&claimant()).unwrap(), expected);
        let value: Value = serde_json::from_slice(&set.to_line(&claimant())).unwrap();
        assert_eq!(value["params"]["state_labels"], json!({"blocked": "L=1"}));
        let clear = Request::Metadata { metadata: Metadata::new(), seq: 2 };
        let expected = [
            "pane",
            "report-metadata",
            "w1:p1",
            "--source",
            "src",
            "--clear-title",
            "--clear-display-agent",
            "--clear-state-labels",
            "--seq",
            "2",
        ];
        assert_eq!(clear.to_words(&claimant()).unwrap(), expected);
        let value: Value = serde_json::from_slice(&clear.to_line(&claimant())).unwrap();
        let params = &value["params"];
        assert_eq!(
            (&params["clear_title"], &params["clear_display_agent"], &params["clear_state_labels"]),
            (&json!(true), &json!(true), &json!(true))
        );
    }

    #[test]
    fn answers_of_every_kind() {
        let pong = br#"{"id":"x","result":{"type":"pong","version":"0.8.2","protocol":20}}"#;
        assert_eq!(read_answer(pong).unwrap().unwrap().version.as_deref(), Some("0.8.2"));
        let refused = br#"{"id":"","error":{"code":"pane_not_found","message":"no"}}"#;
        assert_eq!(read_answer(refused).unwrap().unwrap_err().code, "pane_not_found");
        let bare = br#"{"error":{"code":"invalid_resume_argv"}}"#;
        assert_eq!(read_answer(bare).unwrap().unwrap_err().code, "invalid_resume_argv");
        let pane = br#"{"result":{"pane":{"pane_id":"w1:p1","agent":null,"agent_status":"done"}}}"#;
        let pane = read_answer(pane).unwrap().unwrap().pane.unwrap();
        assert_eq!((pane.agent, pane.agent_status.as_deref()), (None, Some("done")));
        for broken in ["", "{", "ok", "[]", "{\"id\":\"1\"}", "{\"result\":3}", "{\"error\":{}}"] {
            assert!(read_answer(broken.as_bytes()).is_none(), "{broken:?}");
        }
    }

    #[test]
    fn versions_that_take_resume_commands() {
        for (version, expected) in [
            ("0.8.2", Some(false)),
            ("0.9.1", Some(false)),
            ("0.9.2", Some(true)),
            ("0.9.2-preview.3", Some(true)),
            ("0.9.10+build", Some(true)),
            ("v1.0.0", Some(true)),
            ("0.10.0", Some(true)),
            ("0.9", None),
            ("nightly", None),
            ("", None),
        ] {
            assert_eq!(takes_resume_commands(version), expected, "{version}");
        }
    }

    #[test]
    fn done_is_idle_and_nothing_else() {
        assert!(State::Idle.is_read_back_as("done"));
        assert!(!State::Working.is_read_back_as("done"));
        assert!(State::Blocked.is_read_back_as("blocked"));
        assert!(!State::Idle.is_read_back_as("unknown"));
    }
}
