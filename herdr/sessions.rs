//! Herdr's named sessions, by its program: for `verify-restore`. All that knows the words of `herdr session`
//! and the names in `session.json` is here.

use crate::os::peer::Peer;
use crate::os::socket::connect_at_once;
use serde::Deserialize;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;

/// How long the program may take. It waits 2 s itself for a session that stops (H091).
const LIMIT: Duration = Duration::from_secs(10);

/// The longest name of a session (H091).
const NAME_LIMIT: usize = 64;

/// What keeps a throwaway Herdr quiet: no first steps, no questions to the network, no sounds.
const QUIET_CONFIG: &str = "onboarding = false\n\n[update]\nversion_check = false\n\
                            manifest_check = false\n\n[ui.sound]\nenabled = false\n";

/// Why a named session could not be asked about or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionsError {
    /// A name that Herdr refuses.
    #[error(
        "the session's name must be 1 to 64 of A-Z a-z 0-9 . _ -, and not `.`, `..` or `default`"
    )]
    Name,
    /// The program could not be run.
    #[error("`{}` could not be run: {source}", program.display())]
    Run {
        /// Herdr's program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It did not end.
    #[error("`herdr session {command}` did not end within {} s", LIMIT.as_secs())]
    Timeout {
        /// The word behind `herdr session`.
        command: &'static str,
    },
    /// It failed.
    #[error("`herdr session {command}` failed: {text}")]
    Failed {
        /// The word behind `herdr session`.
        command: &'static str,
        /// The first line of what it said, at most 200 bytes.
        text: String,
    },
    /// Its answer is not what was expected.
    #[error("what `herdr session list` printed is no list of sessions")]
    NotAList,
}

/// A named session, as Herdr lists it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct NamedSession {
    /// Its name.
    pub name: String,
    /// Whether a server runs for it.
    pub running: bool,
    /// The socket of its server.
    pub socket_path: PathBuf,
}

impl NamedSession {
    /// Whether its server is a process that this one has started: somebody else may have been quicker. None:
    /// nobody answers at its socket. On macOS a server that runs on its own cannot be told apart, and counts
    /// as ours.
    pub fn is_ours(&self) -> Option<bool> {
        let stream = connect_at_once(&self.socket_path).ok()?;
        let can_be_known = cfg!(target_os = "linux");
        Some(!can_be_known || Peer::of(&stream).is_ok_and(|peer| peer.is_self_or_descendant()))
    }
}

#[derive(Deserialize)]
struct Listed {
    sessions: Vec<NamedSession>,
}

/// The named sessions of one user's Herdr.
///
/// ```no_run
/// use agent_presence::herdr::Sessions;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let sessions = Sessions::new("/usr/bin/herdr", std::env::vars_os());
/// for session in sessions.list()? {
///     println!("{} {}", session.name, if session.running { "runs" } else { "is stopped" });
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Sessions {
    program: PathBuf,
    environment: Vec<(OsString, OsString)>,
}

impl Sessions {
    /// The sessions that `program`, an absolute path, sees with this environment and no other variable.
    /// Those that Herdr gives to a pane are left out: they lead to the session that we may be in.
    pub fn new<N: Into<OsString>, V: Into<OsString>>(
        program: impl Into<PathBuf>,
        environment: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let environment = environment
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .filter(|(name, _): &(OsString, OsString)| !is_of_pane(name))
            .collect();
        Self { program: program.into(), environment }
    }

    /// Herdr's program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The environment that it gets.
    pub fn environment(&self) -> &[(OsString, OsString)] {
        &self.environment
    }

    /// The words that start the session's server where none runs, and attach the terminal to it (H090).
    pub fn attach_words(name: &str) -> [String; 2] {
        ["--session".to_owned(), name.to_owned()]
    }

    /// Checks a name by Herdr's rules.
    ///
    /// # Errors
    /// [`SessionsError::Name`].
    pub fn check_name(name: &str) -> Result<(), SessionsError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_name = (1..=NAME_LIMIT).contains(&name.len())
            && name.bytes().all(is_plain)
            // It would be read as an option.
            && !name.starts_with('-')
            && !matches!(name, "." | ".." | "default");
        if is_name { Ok(()) } else { Err(SessionsError::Name) }
    }

    /// All the sessions, running or stopped. Blocks for as long as the program takes, at most 10 s.
    ///
    /// # Errors
    /// The program cannot be run, fails, or prints something else.
    pub fn list(&self) -> Result<Vec<NamedSession>, SessionsError> {
        let output = self.run("list", &["--json"])?;
        let listed: Result<Listed, _> = serde_json::from_slice(&output.stdout);
        listed.map(|listed| listed.sessions).map_err(|_| SessionsError::NotAList)
    }

    /// The session of this name, if there is one.
    ///
    /// # Errors
    /// As [`Sessions::list`].
    pub fn find(&self, name: &str) -> Result<Option<NamedSession>, SessionsError> {
        Ok(self.list()?.into_iter().find(|session| session.name == name))
    }

    /// Stops the server of a session. Blocks until it has ended, at most 10 s.
    ///
    /// # Errors
    /// The program cannot be run or fails: the session does not run, or does not stop.
    pub fn stop(&self, name: &str) -> Result<(), SessionsError> {
        self.run("stop", &[name]).map(drop)
    }

    /// Deletes a stopped session with all that it has kept.
    ///
    /// # Errors
    /// The program cannot be run or fails: the session runs.
    pub fn delete(&self, name: &str) -> Result<(), SessionsError> {
        self.run("delete", &[name]).map(drop)
    }

    fn run(&self, command: &'static str, words: &[&str]) -> Result<Output, SessionsError> {
        let failed = |source| SessionsError::Run { program: self.program.clone(), source };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let output = runtime.map_err(failed)?.block_on(async {
            let mut program = Command::new(&self.program);
            program
                .args(["session", command])
                .args(words)
                .env_clear()
                .envs(self.environment.iter().map(|(name, value)| (name, value)))
                .stdin(Stdio::null())
                // Ctrl-C in the terminal must not end the stop that it causes.
                .process_group(0)
                .kill_on_drop(true);
            timeout(LIMIT, program.output()).await
        });
        let output = output.map_err(|_| SessionsError::Timeout { command })?.map_err(failed)?;
        if output.status.success() {
            return Ok(output);
        }
        let said = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
        let text = super::text::one_line(&String::from_utf8_lossy(said), 200);
        Err(SessionsError::Failed { command, text })
    }
}

fn is_of_pane(variable: &OsStr) -> bool {
    let names = ["ENV", "PANE_ID", "SOCKET_PATH", "BIN_PATH", "SESSION", "TAB_ID", "WORKSPACE_ID"];
    let name = variable.to_str().and_then(|name| name.strip_prefix("HERDR_"));
    name.is_some_and(|name| names.contains(&name))
}

/// Writes the configuration of a throwaway Herdr into the folder that `XDG_CONFIG_HOME` names for it.
///
/// # Errors
/// The folder or the file cannot be made.
pub fn write_quiet_config(config_home: &Path) -> io::Result<()> {
    let folder = config_home.join("herdr");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("config.toml"), QUIET_CONFIG)
}

/// The resume commands that a session has saved, of all its panes, as words. Saved 5 s after a change and at
/// a clean stop (H054); before that there are none. `folder` is that of the session's socket (H092).
///
/// # Errors
/// The file is there and cannot be read, or is no JSON.
pub fn saved_commands(folder: &Path) -> io::Result<Vec<Vec<String>>> {
    let text = match fs::read(folder.join("session.json")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    let mut commands = Vec::new();
    collect(&serde_json::from_slice(&text)?, &mut commands);
    Ok(commands)
}

/// The panes lie in tabs and workspaces, and how deep is Herdr's business.
fn collect(value: &Value, commands: &mut Vec<Vec<String>>) {
    match value {
        Value::Object(fields) => {
            let argv = fields.get("agent_resume").and_then(|resume| resume["argv"].as_array());
            if let Some(argv) = argv {
                let words = argv.iter().filter_map(Value::as_str).map(str::to_owned);
                commands.push(words.collect());
            }
            fields.values().for_each(|value| collect(value, commands));
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, commands)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_herdr_takes() {
        for good in ["a", "my-agent_1.2", &"a".repeat(64)] {
            assert!(Sessions::check_name(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "default", "a/b", "a b", "-a", "é", &"a".repeat(65)] {
            assert!(Sessions::check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn saved_commands_are_found_however_deep() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(saved_commands(folder.path()).unwrap(), [[""; 0]; 0]);
        let text = r#"{"workspaces":[{"tabs":[{"panes":{"1":{"agent_resume":{"argv":["a","b c"]}},
            "2":{"agent_resume":null},"3":{"agent_resume":{"argv":["d"]}}}}]}]}"#;
        fs::write(folder.path().join("session.json"), text).unwrap();
        assert_eq!(saved_commands(folder.path()).unwrap(), [vec!["a", "b c"], vec!["d"]]);
        fs::write(folder.path().join("session.json"), "{").unwrap();
        assert!(saved_commands(folder.path()).is_err());
    }

    #[test]
    fn the_program_sees_none_of_herdrs_own_variables() {
        let sessions = Sessions::new("/bin/sh", [("HERDR_SOCKET_PATH", "/x"), ("HOME", "/h")]);
        assert_eq!(sessions.environment(), [("HOME".into(), "/h".into())]);
    }

    #[test]
    fn a_program_that_is_not_herdr_is_an_error() {
        let sessions = |program: &str| Sessions::new(program, [("PATH", "/bin")]);
        assert!(matches!(sessions("/nope/herdr").list(), Err(SessionsError::Run { .. })));
        assert!(matches!(sessions("/bin/false").list(), Err(SessionsError::Failed { .. })));
        assert!(matches!(sessions("/bin/true").list(), Err(SessionsError::NotAList)));
    }
}
