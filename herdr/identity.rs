//! Who reports: checked when it is built, by Herdr's own rules, since Herdr answers `ok` to a report
//! that it ignores.

use super::report::is_value;
use std::fmt;

/// The longest source that metadata takes, in bytes (H041).
const SOURCE_LIMIT: usize = 80;

/// The longest agent name, in characters: what Herdr's sidebar shows at most.
const AGENT_LIMIT: usize = 80;

/// The agents that Herdr knows itself, 0.8.2 to 0.9.x (H032).
const KNOWN_AGENTS: [&str; 44] = [
    "pi",
    "claude",
    "claude-code",
    "codex",
    "gemini",
    "cursor",
    "cursor-agent",
    "devin",
    "devin-cli",
    "agy",
    "antigravity",
    "antigravity-cli",
    "cline",
    "omp",
    "mastracode",
    "mastra-code",
    "opencode",
    "opencode2",
    "open-code",
    "copilot",
    "github-copilot",
    "ghcs",
    "kimi",
    "kimi-code",
    "kiro",
    "kiro-cli",
    "droid",
    "amp",
    "amp-local",
    "grok",
    "grok-build",
    "hermes",
    "hermes-agent",
    "kilo",
    "kilo-code",
    "qodercli",
    "qoderclicn",
    "qoder",
    "qodercn",
    "qwen",
    "qwen-code",
    "maki",
    "letta",
    "muse",
];

/// Whether Herdr knows an agent of this name, in any case of letters, and so prefers its own screen
/// detection to our reports (H032).
///
/// ```
/// assert!(agent_presence::herdr::is_known_agent("Claude"));
/// assert!(!agent_presence::herdr::is_known_agent("claude-presence"));
/// ```
pub fn is_known_agent(name: &str) -> bool {
    let name = name.trim();
    KNOWN_AGENTS.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Why a [`Source`] or an [`AgentName`] is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// There is nothing in it.
    #[error("the {what} is empty")]
    Empty {
        /// `source` or `agent name`.
        what: &'static str,
    },
    /// It is `--`, which ends the options of Herdr's program (H022).
    #[error("the {what} is `--`, which ends the options of Herdr's program")]
    EndOfOptions {
        /// `source` or `agent name`.
        what: &'static str,
    },
    /// It is longer than what Herdr shows or takes.
    #[error("the {what} has {length} characters, and {limit} is the limit")]
    TooLong {
        /// `source` or `agent name`.
        what: &'static str,
        /// How many characters it has.
        length: usize,
        /// How many it may have.
        limit: usize,
    },
    /// A character that may not be in it.
    #[error("the {what} has the character {character:?} at place {place}: {allowed}")]
    Character {
        /// `source` or `agent name`.
        what: &'static str,
        /// The character.
        character: char,
        /// Its place, counted in characters from 1.
        place: usize,
        /// What is allowed.
        allowed: &'static str,
    },
    /// Sources that start with `herdr:` are Herdr's own integrations.
    #[error(
        "the source {source_name:?} starts with `herdr:`, which is kept for Herdr's own integrations"
    )]
    Reserved {
        /// The source.
        source_name: String,
    },
    /// Herdr knows an agent of this name, and would prefer its screen detection to our reports.
    #[error(
        "Herdr knows the agent {name:?} itself and would ignore reports about it; {name}-presence would do"
    )]
    KnownAgent {
        /// The name.
        name: String,
    },
}

/// Who speaks: the name under which Herdr keeps the sequence, the resume command and the metadata.
///
/// 1 to 80 of `A-Z a-z 0-9 : . _ -`, not starting with `herdr:` (H037, H041).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source(String);

impl Source {
    /// Checks and keeps a source.
    ///
    /// # Errors
    /// The rule that the text breaks.
    pub fn new(text: impl Into<String>) -> Result<Self, IdentityError> {
        let text = text.into();
        let allowed = |character: char| {
            character.is_ascii_alphanumeric() || matches!(character, ':' | '.' | '_' | '-')
        };
        check("source", &text, SOURCE_LIMIT, allowed, "only A-Z a-z 0-9 : . _ - are allowed")?;
        if text.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("herdr:")) {
            return Err(IdentityError::Reserved { source_name: text });
        }
        Ok(Self(text))
    }

    /// The source as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The label of the agent in Herdr.
///
/// 1 to 80 characters, no control characters, no white space at its ends, and not a name that Herdr
/// knows itself ([`is_known_agent`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AgentName(String);

impl AgentName {
    /// Checks and keeps a name.
    ///
    /// # Errors
    /// The rule that the text breaks.
    pub fn new(text: impl Into<String>) -> Result<Self, IdentityError> {
        let text = text.into();
        let rule = "control characters, and white space at the ends, are not allowed";
        check("agent name", &text, AGENT_LIMIT, |character| !character.is_control(), rule)?;
        let last = text.chars().count();
        let ends = [(text.chars().next(), 1), (text.chars().last(), last)];
        for (character, place) in ends {
            if let Some(character) = character.filter(|character| character.is_whitespace()) {
                let what = "agent name";
                return Err(IdentityError::Character { what, character, place, allowed: rule });
            }
        }
        if is_known_agent(&text) {
            return Err(IdentityError::KnownAgent { name: text });
        }
        Ok(Self(text))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

fn check(
    what: &'static str,
    text: &str,
    limit: usize,
    is_allowed: impl Fn(char) -> bool,
    allowed: &'static str,
) -> Result<(), IdentityError> {
    if text.is_empty() {
        return Err(IdentityError::Empty { what });
    }
    if !is_value(text) {
        return Err(IdentityError::EndOfOptions { what });
    }
    let length = text.chars().count();
    if length > limit {
        return Err(IdentityError::TooLong { what, length, limit });
    }
    match text.chars().enumerate().find(|(_, character)| !is_allowed(*character)) {
        Some((index, character)) => {
            Err(IdentityError::Character { what, character, place: index + 1, allowed })
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_at_the_edge() {
        let longest = "s".repeat(80);
        for good in ["a", "my-agent", "A.b_c:d-9", "herdr", "herdrx:y", longest.as_str()] {
            assert_eq!(Source::new(good).unwrap().as_str(), good);
        }
        for (bad, message) in [
            ("", "the source is empty"),
            ("--", "the source is `--`, which ends the options of Herdr's program"),
            (
                "herdr:claude",
                "the source \"herdr:claude\" starts with `herdr:`, which is kept for Herdr's own integrations",
            ),
            (
                "HERDR:x",
                "the source \"HERDR:x\" starts with `herdr:`, which is kept for Herdr's own integrations",
            ),
            (
                "a b",
                "the source has the character ' ' at place 2: only A-Z a-z 0-9 : . _ - are allowed",
            ),
            (
                "é",
                "the source has the character 'é' at place 1: only A-Z a-z 0-9 : . _ - are allowed",
            ),
            (&"s".repeat(81), "the source has 81 characters, and 80 is the limit"),
        ] {
            assert_eq!(Source::new(bad).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn agent_names_at_the_edge() {
        let longest = "é".repeat(80);
        for good in ["my-agent", "claude-presence", "나의 agent", "-x", longest.as_str()] {
            assert_eq!(AgentName::new(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            " x",
            "x ",
            "a\nb",
            "a\u{85}b",
            "Claude",
            "CODEX",
            "muse",
            "pi",
            "--",
            &"é".repeat(81),
        ] {
            assert!(AgentName::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn every_name_of_the_table_is_refused_in_any_case() {
        for known in KNOWN_AGENTS {
            let name = known.to_ascii_uppercase();
            assert_eq!(AgentName::new(name.clone()), Err(IdentityError::KnownAgent { name }));
        }
    }
}
