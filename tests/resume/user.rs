//! A throwaway user whose agents run in a Herdr that restarts.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;

use crate::support::fake_herdr::{Behaviour, FakeHerdr, Request, write_program};
use crate::support::terminal::{Terminal, eventually, session_of};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_agent-presence");

/// Writes down how it was started, and does what it is told: `exit N`, `tell ID [WORD…]`, `work`.
const AGENT: &str = r#"#!/usr/bin/env bash
here=FOLDER/runs/$$.new
printf '%s\0' "$PWD" "$AGENT_PRESENCE_SESSION" "${CODEX_HOME-}" "${0##*/}" "$@" >"$here"
mv "$here" "FOLDER/runs/$$.run"
echo up
while read -r -a words; do
    case ${words[0]} in
        exit) exit "${words[1]}" ;;
        tell) "$AGENT_PRESENCE_BIN" session "${words[@]:1}"; echo "told $?" ;;
        title) "$AGENT_PRESENCE_BIN" session "${words[1]}" --title "${words[2]}" ;;
        script) . FOLDER/script; echo "told $?" ;;
        *) "$AGENT_PRESENCE_BIN" state "${words[0]}" ;;
    esac
done
"#;

/// How an agent was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) folder: PathBuf,
    /// The session that it was led to.
    pub(crate) session: String,
    pub(crate) codex_home: OsString,
    pub(crate) name: OsString,
    pub(crate) arguments: Vec<OsString>,
}

/// A home with our program and agents on the `PATH` of its login shells, and a Herdr.
pub(crate) struct User {
    folder: tempfile::TempDir,
    pub(crate) herdr: FakeHerdr,
}

impl User {
    pub(crate) fn new() -> Self {
        // Not `TMPDIR`: the path of a socket has 103 bytes.
        let folder = tempfile::Builder::new().prefix("ap").tempdir_in("/tmp").unwrap();
        let user = Self { folder, herdr: FakeHerdr::start(Behaviour::Answers) };
        for folder in ["run", "bin", "runs", "work"] {
            fs::create_dir(user.path(folder)).unwrap();
            fs::set_permissions(user.path(folder), fs::Permissions::from_mode(0o700)).unwrap();
        }
        symlink(PROGRAM, user.path("bin/agent-presence")).unwrap();
        for agent in ["my-agent", "claude", "codex", "copilot"] {
            user.agent(agent);
        }
        let profile = "PATH=$HOME/bin:$PATH; export XDG_RUNTIME_DIR=$HOME/run PS1='$ '\n";
        fs::write(user.path(".profile"), profile).unwrap();
        user
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Installs the agent under this name.
    pub(crate) fn agent(&self, name: &str) {
        let text = AGENT.replace("FOLDER", self.folder.path().to_str().unwrap());
        write_program(&self.path("bin").join(name), &text);
    }

    /// A shell of the pane, as it is when the user starts an agent in it: with our program on `PATH`.
    pub(crate) fn command(&self) -> Command {
        let path = std::env::var_os("PATH").unwrap();
        let folders = [self.path("bin")].into_iter().chain(std::env::split_paths(&path));
        let mut command = Command::new("agent-presence");
        command
            .env_clear()
            .env("PATH", std::env::join_paths(folders).unwrap())
            .env("HOME", self.folder.path())
            .env("XDG_RUNTIME_DIR", self.path("run"))
            .env("TERM", "xterm-256color")
            .envs(self.herdr.environment_variables())
            .env("HERDR_BIN_PATH", "/nope/herdr")
            .current_dir(self.path("work"));
        command
    }

    pub(crate) fn wrap(&self, arguments: &[&str]) -> Command {
        let mut command = self.command();
        command.arg("wrap").args(arguments);
        command
    }

    /// A wrapped agent that is up.
    pub(crate) fn start(&self, arguments: &[&str]) -> Terminal {
        up(&mut self.wrap(arguments))
    }

    /// Herdr starts again: it knows nothing of before, and its shells have nothing but `HERDR_*` of what
    /// the panes had.
    pub(crate) fn restart_herdr(&self) {
        self.herdr.change(crate::support::fake_herdr::model::Model::hand_off);
    }

    /// A login shell of the restored pane, in which Herdr has typed this command.
    pub(crate) fn restore_in(&self, shell: &str, words: &[String]) -> Terminal {
        let mut command = Command::new(shell);
        command
            .arg("-l")
            .env_clear()
            .env("HOME", self.folder.path())
            .env("TERM", "xterm-256color")
            .envs(self.herdr.environment_variables())
            .current_dir("/");
        let terminal = Terminal::start(&mut command);
        let quoted: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
        terminal.wait_for("$ ");
        terminal.type_bytes(quoted.join(" ") + "\r");
        terminal
    }

    pub(crate) fn restore(&self, words: &[String]) -> Terminal {
        self.restore_in("bash", words)
    }

    /// Waits for a report with a resume command, and gives the command that is in force.
    pub(crate) fn wait_for_command(&self) -> Vec<String> {
        self.herdr
            .wait_for_pane(|pane| pane.holder.is_some() && pane.resume.is_some())
            .resume
            .unwrap()
    }

    /// The same, once it is another one than `before`.
    pub(crate) fn wait_for_another(&self, before: &[String]) -> Vec<String> {
        let is_another = |words: &Vec<String>| words != before;
        self.herdr
            .wait_for_pane(|pane| pane.resume.as_ref().is_some_and(is_another))
            .resume
            .unwrap()
    }

    /// Waits until agents were started so often, and says how the last one was.
    pub(crate) fn wait_for_run(&self, count: usize) -> Run {
        eventually("a run of the agent", || self.runs().len() >= count);
        self.runs().pop().unwrap()
    }

    /// How the agents were started, in order.
    pub(crate) fn runs(&self) -> Vec<Run> {
        let entries = fs::read_dir(self.path("runs")).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> =
            entries.filter(|path| path.extension().is_some_and(|end| end == "run")).collect();
        files.sort_by_key(|path| fs::metadata(path).unwrap().modified().unwrap());
        files.iter().map(|path| run(path)).collect()
    }

    /// The records.
    pub(crate) fn records(&self) -> Vec<PathBuf> {
        let folder = self.path(".local/state/agent-presence/sessions");
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == "json"))
            .collect()
    }

    pub(crate) fn releases(&self) -> usize {
        self.herdr.requests_of("pane.release_agent").len()
    }

    /// The states that Herdr was told, in order.
    pub(crate) fn states(&self) -> Vec<String> {
        self.herdr.requests().iter().filter_map(Request::state).map(str::to_owned).collect()
    }
}

/// Starts a command in which an agent runs, and waits until that is up.
pub(crate) fn up(command: &mut Command) -> Terminal {
    let terminal = Terminal::start(command);
    terminal.wait_for("up");
    terminal
}

/// Ends a terminal and all that runs in it, as Herdr does when it stops.
pub(crate) fn stop(mut terminal: Terminal) {
    terminal.signal(Signal::SIGHUP);
    terminal.wait();
    // A shell does not wait for what it hangs up.
    eventually("the end of all", || session_of(terminal.pid()).is_empty());
}

fn run(path: &Path) -> Run {
    let text = fs::read(path).unwrap();
    let mut words = text.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec()));
    let mut next = || words.next().unwrap();
    let (folder, session) = (next().into(), next().into_string().unwrap());
    let (codex_home, name) = (next(), next());
    let mut arguments: Vec<_> = words.collect();
    // Behind the last separator.
    arguments.pop();
    Run { folder, session, codex_home, name, arguments }
}
