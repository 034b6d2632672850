//! The variables that a session needs when it comes back: a restored shell has none of its own.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::path::Path;

use serde::Deserialize;

use crate::store::Word;

/// Those that are kept in any case: where agents have their files, what they find programs by, and the
/// language.
const ALWAYS: [&str; 17] = [
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "COPILOT_HOME",
    "GEMINI_CLI_HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "OPENCODE_CONFIG",
    "OPENCODE_CONFIG_DIR",
    "PATH",
    "PI_CODING_AGENT_DIR",
    "QWEN_HOME",
    "VIRTUAL_ENV",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
];

/// What names of secrets have in them.
const SECRET: [&str; 9] =
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "COOKIE", "AUTH"];

/// Of the pane and of the wrap, which are others when the session comes back.
const OF_THE_PLACE: [&str; 5] =
    ["AGENT_PRESENCE_", "COLLIE_DURABLE_SOCKET", "HERDR_", "PWD", "XDG_RUNTIME_DIR"];

/// The part of the user's `config.toml` that is read here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Config {
    resume: Names,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Names {
    /// Names, or beginnings of names with a `*` behind them.
    variables: Vec<String>,
}

impl Names {
    fn read(config: Option<&Path>) -> Self {
        let text = config.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
        if text.is_empty() {
            return Self::default();
        }
        match toml::from_str::<Config>(&text) {
            Ok(config) => config.resume,
            Err(error) => {
                // The terminal is the agent's already.
                tracing::warn!(%error, "the variables in config.toml are not used");
                Self::default()
            }
        }
    }

    /// Whether a variable is kept. What may be a secret has to be named exactly.
    fn hold(&self, name: &str) -> bool {
        let begins = |pattern: &String| {
            pattern.strip_suffix('*').is_some_and(|beginning| name.starts_with(beginning))
        };
        let is_of_the_place = OF_THE_PLACE.iter().any(|place| name.starts_with(place));
        let is_named = ALWAYS.contains(&name)
            || self.variables.iter().any(|known| known == name)
            || (!is_secret(name) && self.variables.iter().any(begins));
        is_named && !is_of_the_place
    }
}

/// Those of this process that are kept. None where there are none.
pub(super) fn of_process(config: Option<&Path>) -> Option<BTreeMap<String, Word>> {
    Some(kept(&Names::read(config), env::vars_os())).filter(|variables| !variables.is_empty())
}

fn kept(
    names: &Names,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> BTreeMap<String, Word> {
    let texts = variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    texts.filter(|(name, _)| names.hold(name)).map(|(name, value)| (name, value.into())).collect()
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET.iter().any(|word| name.contains(word))
}

/// Whether an option of a command names a secret.
pub(super) fn is_secret_option(word: &str) -> bool {
    word.starts_with('-') && is_secret(word.split('=').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_kept(config: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, config).unwrap();
        let variables = [
            "PATH",
            "CODEX_HOME",
            "HOME",
            "MY_AGENT_MODE",
            "MY_AGENT_API_KEY",
            "MY_AGENT_password",
            "ANTHROPIC_API_KEY",
            "HERDR_PANE_ID",
            "AGENT_PRESENCE_SOCKET",
        ];
        let variables = variables.into_iter().map(|name| (name.into(), "x".into()));
        kept(&Names::read(Some(&path)), variables).into_keys().collect()
    }

    /// Field case 44: without `CODEX_HOME` there is no saved session.
    #[test]
    fn what_agents_need_is_kept_and_no_secret_is() {
        assert_eq!(names_kept(""), ["CODEX_HOME", "PATH"]);
        assert!(ALWAYS.iter().all(|name| !is_secret(name)));
    }

    #[test]
    fn the_user_adds_names_and_a_secret_only_by_its_exact_name() {
        assert_eq!(
            names_kept("[resume]\nvariables = ['MY_AGENT_*']\n[agents.x]\n"),
            ["CODEX_HOME", "MY_AGENT_MODE", "PATH"]
        );
        assert_eq!(
            names_kept("[resume]\nvariables = ['MY_AGENT_API_KEY']"),
            ["CODEX_HOME", "MY_AGENT_API_KEY", "PATH"]
        );
        assert_eq!(names_kept("[resume]\nvariables = ['*']").len(), 4, "all but the secrets");
        for mistake in ["[resume", "[resume]\nvariables = 3", "[resume]\nnames = ['HOME']"] {
            assert_eq!(names_kept(mistake), ["CODEX_HOME", "PATH"], "{mistake}");
        }
    }

    #[test]
    fn an_option_can_name_a_secret() {
        assert!(is_secret_option("--api-key") && is_secret_option("--openai-api-key=x"));
        assert!(!is_secret_option("--model") && !is_secret_option("key"));
    }
}
