//! The durable agent as another process.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::support::phone::Phone;

pub(crate) struct Agent {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    pub(crate) phone: Phone,
}

impl Agent {
    pub(crate) fn start(folder: &Path) -> Self {
        Self::start_with(folder, &[])
    }

    pub(crate) fn start_with(folder: &Path, more: &[&Path]) -> Self {
        let socket = folder.join("agent/app.sock");
        let mut child = Command::new(env!("CARGO_BIN_EXE_durable-agent"))
            .arg(&socket)
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut agent = Self { child, stdin, lines, phone: Phone::at(socket) };
        assert_eq!(agent.line(), "ready");
        agent
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.phone.socket().to_owned()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Gives a command, and waits until it is done.
    pub(crate) fn tell(&mut self, line: &str) {
        self.say(line);
        let word = line.split(' ').next().unwrap();
        assert_eq!(self.line(), format!("done {word}"));
    }

    /// Runs a shell command below the agent, and gives its output.
    pub(crate) fn tool(&mut self, command: &str) -> String {
        self.say(&format!("tool {command}"));
        let line = self.line();
        line.strip_prefix("tool ").unwrap_or_else(|| panic!("{line}")).to_owned()
    }

    pub(crate) fn line(&mut self) -> String {
        self.lines.next().expect("the agent ended").unwrap()
    }

    /// Kills it, and gives what it had said since.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.lines.by_ref().map_while(Result::ok).collect()
    }

    /// Ends its stdin, and waits for its end.
    pub(crate) fn end(mut self) {
        drop(self.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder that may hold a private socket.
pub(crate) fn folder() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    folder
}
