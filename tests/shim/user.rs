//! A throwaway user with a terminal, a Herdr and a phone.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::support::fake_herdr::{Behaviour, FakeHerdr, Request, write_program};
use crate::support::phone::Phone;
use crate::support::terminal::Terminal;

const PROGRAM: &str = env!("CARGO_BIN_EXE_agent-presence");

/// A home, a runtime folder, and nothing of ours in the environment.
pub(crate) struct User {
    folder: tempfile::TempDir,
    pub(crate) herdr: FakeHerdr,
}

impl User {
    pub(crate) fn new() -> Self {
        // Not `TMPDIR`: the path of a socket has 103 bytes.
        let folder = tempfile::Builder::new().prefix("ap").tempdir_in("/tmp").unwrap();
        let user = Self { folder, herdr: FakeHerdr::start(Behaviour::Answers) };
        for folder in ["run", "state", "config", "bin"] {
            fs::create_dir(user.path(folder)).unwrap();
            fs::set_permissions(user.path(folder), fs::Permissions::from_mode(0o700)).unwrap();
        }
        user
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A program of this name, and its path.
    pub(crate) fn program(&self, name: &str, text: &str) -> String {
        let path = self.path("bin").join(name);
        write_program(&path, text);
        path.to_str().unwrap().to_owned()
    }

    /// `agent-presence wrap` in a pane of Herdr. The session's id is `s`, and so is the pane's.
    pub(crate) fn wrap(&self, arguments: &[&str]) -> Command {
        let socket = self.path("run/c.sock");
        let ours = ["--session", "s", "--socket", socket.to_str().unwrap()];
        self.wrap_without_socket(&[&ours, arguments].concat())
    }

    /// The same without a session or a socket that the test knows.
    pub(crate) fn wrap_without_socket(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.folder.path())
            .env("XDG_RUNTIME_DIR", self.path("run"))
            .env("XDG_STATE_HOME", self.path("state"))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .envs(self.herdr.environment_variables())
            .env("HERDR_BIN_PATH", "/nope/herdr")
            .arg("wrap")
            .args(arguments);
        command
    }

    /// The phone, and the terminal in which the agent runs.
    pub(crate) fn start(&self, arguments: &[&str]) -> (Terminal, Phone) {
        let terminal = Terminal::start(&mut self.wrap(arguments));
        let phone = self.phone();
        crate::support::terminal::eventually("a socket", || phone.socket().exists());
        phone.wait_ready();
        (terminal, phone)
    }

    pub(crate) fn phone(&self) -> Phone {
        Phone::at(self.path("run/c.sock"))
    }

    /// The states that Herdr was told, in order.
    pub(crate) fn states(&self) -> Vec<String> {
        self.herdr.requests().iter().filter_map(Request::state).map(str::to_owned).collect()
    }
}

pub(crate) fn wait_for_state(phone: &Phone, state: &str) -> Value {
    phone.wait_for(state, |body| body["panes"][0]["state"] == state)
}

/// The chat: kind and text of each item.
pub(crate) fn chat(phone: &Phone) -> Vec<(String, String)> {
    let view = phone.events("s", None);
    let text = |item: &Value, name: &str| item[name].as_str().unwrap_or_default().to_owned();
    let items = view["items"].as_array().unwrap();
    items.iter().map(|item| (text(item, "kind"), text(item, "text"))).collect()
}
