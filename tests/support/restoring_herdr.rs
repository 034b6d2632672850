//! A fake Herdr in a named session of its own, with a terminal attached: it can be stopped and started
//! again, and then types what was kept.
//!
//! ```ignore
//! let mut herdr = RestoringHerdr::start();
//! herdr.type_line("my-agent");
//! herdr.wait_for_agent("my-agent");
//! herdr.restart();
//! assert_eq!(herdr.typed(), ["my-agent --resume s1"]);
//! herdr.wait_for_agent("my-agent");
//! ```

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a helper of tests")]

use super::terminal::{Terminal, eventually};
use serde_json::Value;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Herdr's program.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_fake-herdr");

/// The name of the session.
pub(crate) const SESSION: &str = "restored";

/// A running session. It is stopped, and all of it is removed, when this is dropped.
pub(crate) struct RestoringHerdr {
    folder: tempfile::TempDir,
    settings: Vec<(OsString, OsString)>,
    terminal: Option<Terminal>,
}

impl RestoringHerdr {
    /// A new session of Herdr 0.9.3 with one pane, `w1:p1`, whose shell is bash, in its home folder.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same with more variables for the server and its first shells: `FAKE_HERDR_VERSION`,
    /// `FAKE_HERDR_PANES`, `FAKE_HERDR_SAVE_MS`, `SHELL`.
    pub(crate) fn start_with(settings: &[(&str, &str)]) -> Self {
        let mut herdr = Self::prepare(settings);
        herdr.attach();
        herdr
    }

    /// The same, but nothing runs yet: `home` can be filled before [`RestoringHerdr::attach`].
    pub(crate) fn prepare(settings: &[(&str, &str)]) -> Self {
        // Short: a socket's path has 103 bytes at most.
        let folder = tempfile::Builder::new().prefix("rh").tempdir_in("/tmp").unwrap();
        for name in ["home", "run", "bin"] {
            DirBuilder::new().mode(0o700).create(folder.path().join(name)).unwrap();
        }
        let settings = settings.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let herdr = Self { folder, settings, terminal: None };
        // What a login shell of this home finds.
        let profile = format!("PATH='{}':\"$PATH\"\nexport PATH\n", herdr.bin().display());
        fs::write(herdr.home().join(".profile"), profile).unwrap();
        herdr
    }

    /// Starts the server where none runs, and attaches a terminal to it.
    pub(crate) fn attach(&mut self) {
        let mut command = self.command(PROGRAM);
        command.args(["--session", SESSION]);
        self.terminal = Some(Terminal::start_sized(&mut command, 40, 200));
        eventually("a server", || self.ask("ping", &serde_json::json!({})).is_some());
    }

    /// `herdr session stop`.
    pub(crate) fn stop(&mut self) {
        let done = self.herdr(&["session", "stop", SESSION]);
        assert!(done.status.success(), "{done:?}");
        if let Some(mut terminal) = self.terminal.take() {
            terminal.wait();
        }
    }

    /// Stops the server, and starts it again with a terminal attached.
    pub(crate) fn restart(&mut self) {
        self.stop();
        self.attach();
    }

    /// Types a line into the pane.
    pub(crate) fn type_line(&self, line: &str) {
        self.terminal().type_bytes(format!("{line}\r"));
    }

    /// Types a line into a pane that has not the focus.
    pub(crate) fn type_line_in(&self, pane: &str, line: &str) {
        let params = serde_json::json!({"pane_id": pane, "text": format!("{line}\r")});
        assert!(self.ask("pane.send_text", &params).is_some(), "no server");
    }

    /// Puts a program on the `PATH` of the login shell, such as `agent-presence` itself.
    pub(crate) fn link(&self, name: &str, program: impl AsRef<Path>) {
        std::os::unix::fs::symlink(program, self.bin().join(name)).unwrap();
    }

    /// What the server has typed itself so far, over all restarts, as `line` or, for another pane than the
    /// first, as `w1:p2 line`.
    pub(crate) fn typed(&self) -> Vec<String> {
        let text = fs::read_to_string(self.session_folder().join("typed")).unwrap_or_default();
        text.lines().map(|line| line.strip_prefix("w1:p1 ").unwrap_or(line).to_owned()).collect()
    }

    /// What a person sees in the pane.
    pub(crate) fn screen(&self) -> String {
        self.terminal().screen()
    }

    pub(crate) fn terminal(&self) -> &Terminal {
        self.terminal.as_ref().unwrap()
    }

    /// `pane.get` of a pane: `agent`, `agent_status`.
    pub(crate) fn pane(&self, id: &str) -> Value {
        let answer = self.ask("pane.get", &serde_json::json!({"pane_id": id})).unwrap_or_default();
        answer["result"]["pane"].clone()
    }

    /// Waits until the pane `w1:p1` shows this agent, idle or done.
    pub(crate) fn wait_for_agent(&self, agent: &str) {
        self.wait_for_agent_in("w1:p1", agent);
    }

    /// The same for another pane.
    pub(crate) fn wait_for_agent_in(&self, pane: &str, agent: &str) {
        self.wait_for_pane(pane, &format!("{agent} in the pane"), |pane| {
            pane["agent"] == agent
                && (pane["agent_status"] == "idle" || pane["agent_status"] == "done")
        });
    }

    /// Waits until a pane is as it should be.
    pub(crate) fn wait_for_pane(&self, id: &str, what: &str, is_it: impl Fn(&Value) -> bool) {
        let screen = || self.terminal.as_ref().map(Terminal::screen).unwrap_or_default();
        let end = std::time::Instant::now() + super::terminal::DEADLINE;
        while !is_it(&self.pane(id)) {
            assert!(
                std::time::Instant::now() < end,
                "no {what}; the pane: {}; the screen:\n{}",
                self.pane(id),
                screen()
            );
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// `session.json`, when it was saved.
    pub(crate) fn saved(&self) -> Option<Value> {
        let text = fs::read(self.session_folder().join("session.json")).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Writes a `session.json` for the next start.
    pub(crate) fn keep(&self, panes: &Value) {
        fs::create_dir_all(self.session_folder()).unwrap();
        let kept = serde_json::json!({"workspaces": [{"tabs": [{"panes": panes}]}]});
        fs::write(self.session_folder().join("session.json"), kept.to_string()).unwrap();
    }

    /// The home folder of the user in the panes.
    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// A folder for programs, on the `PATH` of the login shell.
    pub(crate) fn bin(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    /// `XDG_RUNTIME_DIR` in the panes.
    pub(crate) fn runtime(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    pub(crate) fn config_folder(&self) -> PathBuf {
        self.home().join(".config/herdr")
    }

    pub(crate) fn session_folder(&self) -> PathBuf {
        self.config_folder().join("sessions").join(SESSION)
    }

    /// A command of the user who owns the session.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.home())
            .env("SHELL", "/bin/bash")
            .env("XDG_RUNTIME_DIR", self.runtime())
            .envs(self.settings.iter().cloned())
            .current_dir(self.home());
        command
    }

    /// Runs Herdr's program.
    pub(crate) fn herdr(&self, words: &[&str]) -> Output {
        self.command(PROGRAM).args(words).output().unwrap()
    }

    /// One request to the server; none: it does not answer.
    pub(crate) fn ask(&self, method: &str, params: &Value) -> Option<Value> {
        let mut stream = UnixStream::connect(self.session_folder().join("herdr.sock")).ok()?;
        let request = serde_json::json!({"id": "r1", "method": method, "params": params});
        stream.write_all(format!("{request}\n").as_bytes()).ok()?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }
}

impl Drop for RestoringHerdr {
    fn drop(&mut self) {
        let _ = self.herdr(&["session", "stop", SESSION]);
    }
}
