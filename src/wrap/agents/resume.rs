//! How an agent is started again: the command that started it, without the words that name another session
//! or were the first prompt, with all its other flags, and with the words that bring the session back.

use std::ffi::{OsStr, OsString};

use serde::Deserialize;

/// The place of the session's id in the words of a command.
pub const SESSION: &str = "{session}";

/// An id that is shorter is a number in a list, or a word such as `latest`: another session tomorrow.
const SHORTEST_ID: usize = 8;

/// How an agent brings a session back. `known.toml` says what each field means.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Resume {
    /// The words that bring back the session of an id, which stands at `{session}`.
    pub session: Vec<String>,
    /// The words that bring back the last session of the folder.
    pub last: Vec<String>,
    /// Whether those words come before all others.
    pub first: bool,
    /// Options without a value that go.
    pub drop: Vec<String>,
    /// Options that go with their value.
    pub drop_value: Vec<String>,
    /// Options that stay with their value.
    pub value: Vec<String>,
    /// Options that stay with all the words that follow.
    pub values: Vec<String>,
    /// Words in front of the id of a session that is resumed, or that gets this id.
    pub id: Vec<String>,
    /// Options that make a new session of the one that is named.
    pub fork: Vec<String>,
    /// Subcommands that are no conversation.
    pub other: Vec<String>,
}

impl Resume {
    /// The command that brings a session back, of the one that started it. `session` is the id by which the
    /// agent knows it; without one, it is the last of the folder. None where the agent has no such way.
    pub fn command(&self, command: &[OsString], session: Option<&str>) -> Option<Vec<OsString>> {
        let words: Vec<OsString> = match session {
            Some(id) if !self.session.is_empty() => fill(&self.session, id),
            _ => self.last.iter().map(OsString::from).collect(),
        };
        let (program, arguments) = command.split_first()?;
        if words.is_empty() {
            return None;
        }
        let kept = self.kept(arguments)?;
        let (before, after) = if self.first { (words, kept) } else { (kept, words) };
        Some([program.clone()].into_iter().chain(before).chain(after).collect())
    }

    /// The id of the session that a command names.
    pub fn named(&self, command: &[OsString]) -> Option<String> {
        let words: Vec<&str> = command.iter().skip(1).map(|word| text(word)).collect();
        let words = words.split(|word| *word == "--").next()?;
        if words.iter().any(|word| has(&self.fork, word)) {
            return None;
        }
        let inside = words.iter().find_map(|word| {
            let (option, id) = word.split_once('=')?;
            has(&self.id, option).then_some(id)
        });
        let next = |pair: &[&'_ str]| has(&self.id, pair[0]).then(|| pair[1].to_owned());
        let named = inside.map(str::to_owned).or_else(|| words.windows(2).find_map(next))?;
        (named.len() >= SHORTEST_ID && !is_option(named.as_ref())).then_some(named)
    }

    /// The arguments that hold for every session: no word that is not an option's, no session, no prompt.
    /// None: it is no conversation.
    fn kept(&self, arguments: &[OsString]) -> Option<Vec<OsString>> {
        let mut kept = Vec::new();
        let mut has_words = false;
        let mut words = arguments.iter().peekable();
        while let Some(word) = words.next() {
            // Everything behind it is the prompt.
            if word == "--" {
                break;
            }
            if !is_option(word) {
                if !has_words && has(&self.other, text(word)) {
                    return None;
                }
                has_words = true;
                continue;
            }
            let (option, has_value) = text(word)
                .split_once('=')
                .map_or((text(word), false), |(option, _)| (option, true));
            if has(&self.drop, option) {
                continue;
            }
            if has(&self.drop_value, option) {
                if !has_value {
                    // Where the value may be missing, an option follows at once.
                    words.next_if(|next| !is_option(next));
                }
                continue;
            }
            kept.push(word.clone());
            if has(&self.value, option) && !has_value {
                kept.extend(words.next().cloned());
            } else if has(&self.values, option) && !has_value {
                while let Some(value) = words.next_if(|next| !is_option(next)) {
                    kept.push(value.clone());
                }
            }
        }
        Some(kept)
    }
}

/// Puts a session's id into the words of a command.
pub fn fill(words: &[String], session: &str) -> Vec<OsString> {
    words.iter().map(|word| word.replace(SESSION, session).into()).collect()
}

fn has(words: &[String], word: &str) -> bool {
    words.iter().any(|known| known == word)
}

fn text(word: &OsStr) -> &str {
    word.to_str().unwrap_or_default()
}

/// A dash alone is the standard input, and one in front of a space begins a list in a prompt.
fn is_option(word: &OsStr) -> bool {
    let bytes = word.as_encoded_bytes();
    let name = bytes.split(|byte| *byte == b'=').next().unwrap_or_default();
    name.len() > 1 && name.starts_with(b"-") && !name.iter().any(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests {
    use super::super::known;
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        shell_words::split(line).unwrap().into_iter().map(OsString::from).collect()
    }

    fn rules(command: &[OsString]) -> Resume {
        let name = std::path::Path::new(&command[0]).file_name().unwrap();
        known(name.to_str().unwrap()).resume
    }

    fn resumed(line: &str, session: Option<&str>) -> Option<String> {
        let command = words(line);
        let resumed = rules(&command).command(&command, session)?;
        let words: Vec<_> = resumed.into_iter().map(|word| word.into_string().unwrap()).collect();
        Some(words.join(" "))
    }

    /// Field cases 40, 41 and 42: launch flags stay; an old session, prompt words and what conflicts with
    /// a session go.
    #[test]
    fn launch_flags_stay_and_sessions_and_prompts_go() {
        for (command, expected) in [
            ("claude", "claude --resume ID"),
            (
                "claude --model opus --dangerously-skip-permissions",
                "claude --model opus --dangerously-skip-permissions --resume ID",
            ),
            ("claude --resume old -p \"fix 'it'\"", "claude --resume ID"),
            ("claude --resume=old --verbose hello", "claude --verbose --resume ID"),
            ("claude --verbose \"hello\"", "claude --verbose --resume ID"),
            ("claude -c --model=opus", "claude --model=opus --resume ID"),
            ("claude --permission-mode plan \"do x\"", "claude --permission-mode plan --resume ID"),
            ("claude --verbose -- --model", "claude --verbose --resume ID"),
            ("claude --fork-session --resume old -", "claude --resume ID"),
            (
                "claude --add-dir ../a ../b --verbose 'x y'",
                "claude --add-dir ../a ../b --verbose --resume ID",
            ),
            ("claude \"- first\n- second\"", "claude --resume ID"),
            ("/opt/bin/claude --resume", "/opt/bin/claude --resume ID"),
            ("codex resume old --yolo \"do x\"", "codex resume ID --yolo"),
            ("codex -m gpt-5 --no-daemon", "codex resume ID -m gpt-5 --no-daemon"),
            ("codex resume --last -c a=b", "codex resume ID -c a=b"),
            ("codex fork old --sandbox read-only", "codex resume ID --sandbox read-only"),
            ("copilot --continue", "copilot --resume=ID"),
            ("copilot --continue --allow-all-tools", "copilot --allow-all-tools --resume=ID"),
            ("opencode -s old -m x/y", "opencode -m x/y --session ID"),
            ("pi -c --model m hello", "pi --model m --session ID"),
            ("gemini -i hello --approval-mode yolo", "gemini --approval-mode yolo --resume ID"),
            ("qwen --session-id old", "qwen --resume ID"),
            ("amp", "amp threads continue ID"),
            ("droid", "droid --resume ID"),
        ] {
            assert_eq!(resumed(command, Some("ID")).as_deref(), Some(expected), "{command}");
        }
        assert_eq!(resumed("my-agent --resume old", Some("ID")), None);
    }

    #[test]
    fn without_an_id_it_is_the_last_session_of_the_folder() {
        for (command, expected) in [
            ("claude --model opus 'fix it'", Some("claude --model opus --continue")),
            ("codex --yolo", Some("codex resume --last --yolo")),
            ("copilot", Some("copilot --continue")),
            ("opencode", Some("opencode --continue")),
            ("pi", Some("pi --continue")),
            ("gemini", Some("gemini --resume latest")),
            ("qwen", Some("qwen --continue")),
            ("droid", None),
        ] {
            assert_eq!(resumed(command, None).as_deref(), expected, "{command}");
        }
    }

    #[test]
    fn what_is_no_conversation_does_not_come_back() {
        for command in ["claude mcp list", "claude --debug doctor", "codex login", "codex exec x"] {
            assert_eq!(resumed(command, Some("ID")), None, "{command}");
        }
        assert!(resumed("claude 'please update mcp'", Some("ID")).is_some());
    }

    #[test]
    fn a_command_can_name_its_session() {
        for (command, expected) in [
            ("claude --resume 0af1b2c3", Some("0af1b2c3")),
            ("claude --resume=0af1b2c3 hello", Some("0af1b2c3")),
            ("claude --session-id 0af1b2c3", Some("0af1b2c3")),
            ("claude --resume 0af1b2c3 --fork-session", None),
            ("claude --resume --verbose", None),
            ("claude --verbose -- --resume 0af1b2c3", None),
            ("claude", None),
            ("codex resume 0af1b2c3 --yolo", Some("0af1b2c3")),
            ("codex resume --last", None),
            ("codex fork 0af1b2c3", None),
            ("gemini --resume latest", None),
            ("gemini --resume 5", None),
            ("pi --session /x/0af1.jsonl", Some("/x/0af1.jsonl")),
        ] {
            let command = words(command);
            assert_eq!(rules(&command).named(&command).as_deref(), expected, "{command:?}");
        }
    }

    #[test]
    fn words_that_are_no_text_stay() {
        use std::os::unix::ffi::OsStringExt as _;
        let folder = OsString::from_vec(b"/tmp/\xff".to_vec());
        let flag = OsString::from_vec(b"--x=\xff".to_vec());
        let command = ["claude".into(), "--settings".into(), folder, flag];
        let resumed = known("claude").resume.command(&command, Some("ID")).unwrap();
        assert_eq!(resumed[..4], command);
    }
}
