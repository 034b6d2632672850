//! `agent-presence attach`, with a Collie that only says what it was called with.

#![allow(clippy::panic, clippy::unwrap_used, reason = "what fails here fails the test")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A runtime folder, and a folder on the PATH.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("ap").tempdir_in("/tmp").unwrap();
        for part in ["run", "bin"] {
            private(&folder.path().join(part));
        }
        Self { folder }
    }

    fn path(&self, part: &str) -> PathBuf {
        self.folder.path().join(part)
    }

    /// Where an agent of this name has its socket.
    fn socket(&self, agent: &str) -> PathBuf {
        let folder = self.path("run/agent-presence");
        for folder in [&folder, &folder.join(agent)] {
            if !folder.exists() {
                private(folder);
            }
        }
        folder.join(agent).join("collie.sock")
    }

    /// A socket that is there and private, and at which nobody answers.
    fn silent(&self, agent: &str) -> (PathBuf, UnixListener) {
        let socket = self.socket(agent);
        let listener = UnixListener::bind(&socket).unwrap();
        set_mode(&socket, 0o600);
        (socket, listener)
    }

    fn attach(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agent-presence"));
        command
            .arg("attach")
            .args(arguments)
            .env_clear()
            .env("PATH", self.path("bin"))
            .env("XDG_RUNTIME_DIR", self.path("run"))
            .stdin(Stdio::null());
        command
    }
}

fn private(folder: &Path) {
    fs::create_dir(folder).unwrap();
    set_mode(folder, 0o700);
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A durable agent whose host name is `desk`.
struct Agent(Child);

impl Agent {
    fn start(socket: &Path) -> Self {
        let mut agent = Command::new(env!("CARGO_BIN_EXE_durable-agent"))
            .arg(socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(agent.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(agent)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[track_caller]
fn assert_prints(output: &Output, line: &str) {
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stdout), line);
}

/// The exit code, and one line that holds all of `parts`.
#[track_caller]
fn assert_complains(output: &Output, code: i32, parts: &[&str]) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    for part in parts {
        assert!(error.contains(part), "{part} in {error}");
    }
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
}

#[test]
fn the_one_agent_here_is_attached_by_its_host_name() {
    let place = Place::new();
    let socket = place.socket("builder");
    let _agent = Agent::start(&socket);
    let socket = socket.display();
    let line = format!("collie durable attach desk --socket {socket}\n");
    assert_prints(&place.attach(&[]), &line);
    let line = format!("collie durable attach mine --socket {socket} --restart\n");
    assert_prints(&place.attach(&["--restart", "--name", "mine"]), &line);
}

#[test]
fn an_agent_that_says_nothing_is_attached_by_its_folders_name() {
    let place = Place::new();
    let (socket, _listener) = place.silent("builder");
    let line = format!("collie durable attach builder --socket {}\n", socket.display());
    assert_prints(&place.attach(&[]), &line);
}

#[test]
fn the_line_is_quoted_for_a_shell() {
    let place = Place::new();
    let (socket, _listener) = place.silent("it's mine");
    let printed = place.attach(&["--name", "mine"]).stdout;
    let words = shell_words::split(str::from_utf8(&printed).unwrap()).unwrap();
    let socket = socket.to_str().unwrap();
    assert_eq!(words, ["collie", "durable", "attach", "mine", "--socket", socket]);
    assert_complains(&place.attach(&[]), 1, &["use --name"]);
}

#[test]
fn the_variable_goes_before_the_folder_and_the_option_before_both() {
    let place = Place::new();
    let (_first, (second, _l2)) = (place.silent("first"), place.silent("second"));
    let (third, _l3) = place.silent("third");
    let named =
        |command: &mut Command| command.env("COLLIE_DURABLE_SOCKET", &second).output().unwrap();
    let line = format!("collie durable attach second --socket {}\n", second.display());
    assert_prints(&named(&mut place.command(&[])), &line);
    let line = format!("collie durable attach third --socket {}\n", third.display());
    assert_prints(&named(&mut place.command(&["--socket", third.to_str().unwrap()])), &line);
}

#[test]
fn several_agents_are_listed() {
    let place = Place::new();
    let (first, second) = (place.silent("first"), place.silent("second"));
    let (first, second) = (first.0.display().to_string(), second.0.display().to_string());
    assert_complains(&place.attach(&[]), 1, &["--socket", &first, &second]);
}

#[test]
fn without_a_socket_there_is_nothing_to_attach() {
    let place = Place::new();
    assert_complains(&place.attach(&[]), 3, &["no agent serves a socket in"]);
    let gone = place.path("run/gone/collie.sock");
    let gone = gone.to_str().unwrap();
    assert_complains(&place.attach(&["--socket", gone]), 3, &["no agent serves a socket at", gone]);
    let mut command = place.command(&[]);
    let output = command.env_remove("XDG_RUNTIME_DIR").output().unwrap();
    assert_complains(&output, 3, &["XDG_RUNTIME_DIR is not set"]);
    assert_eq!(fs::read_dir(place.path("run")).unwrap().count(), 0, "nothing was made");
}

/// N168, N170, N171, N173, N174, N175, N176: what Collie would refuse is told before.
#[test]
fn n170_each_failure_names_the_part_and_the_rule() {
    let place = Place::new();
    let (socket, _listener) = place.silent("a");
    let folder = socket.parent().unwrap().to_owned();
    let at = |path: &Path| place.attach(&["--name", "a", "--socket", path.to_str().unwrap()]);
    assert_prints(
        &at(&socket),
        &format!("collie durable attach a --socket {}\n", socket.display()),
    );

    for (name, rule) in [("a b", "' ' at byte 1"), ("", "is empty"), ("default", "session")] {
        let output = place.attach(&["--name", name]);
        assert_complains(&output, 1, &[&format!("the name `{name}`"), rule]);
    }
    assert_complains(&at(Path::new("a.sock")), 1, &["not absolute", "a.sock"]);
    let long = place.path(&"x".repeat(100));
    assert_complains(&at(&long), 1, &["at most 103", long.to_str().unwrap()]);
    set_mode(&socket, 0o666);
    assert_complains(&at(&socket), 1, &["collie.sock has mode 0666, not 0600"]);
    set_mode(&socket, 0o600);
    set_mode(&folder, 0o711);
    assert_complains(&at(&socket), 1, &["/a has mode 0711, not 0700"]);
    set_mode(&folder, 0o700);
    let link = place.path("link");
    symlink(&folder, &link).unwrap();
    assert_complains(&at(&link.join("collie.sock")), 1, &["link is a symbolic link"]);
    let runtime = place.path("run/agent-presence");
    set_mode(&runtime, 0o770);
    assert_complains(&at(&socket), 1, &["agent-presence is writable by group or others"]);
}

#[test]
fn usage_errors_exit_with_2() {
    let place = Place::new();
    assert_complains(&place.attach(&["desk"]), 2, &["unexpected argument 'desk'"]);
}

/// N150, N154: the words of Collie's own command.
#[test]
fn run_hands_over_to_collie() {
    let place = Place::new();
    let (socket, _listener) = place.silent("a");
    assert_complains(&place.attach(&["--run"]), 1, &["collie is not on PATH"]);

    let collie = place.path("bin/collie");
    fs::write(&collie, "#!/bin/sh\nprintf '<%s>\\n' \"$@\"\necho said >&2\nexit 7\n").unwrap();
    set_mode(&collie, 0o755);
    let output = place.attach(&["--run", "--restart"]);
    assert_eq!(output.status.code(), Some(7), "its own exit code");
    let expected =
        format!("<durable>\n<attach>\n<a>\n<--socket>\n<{}>\n<--restart>\n", socket.display());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "said\n");

    let bad = place.attach(&["--run", "--name", "a b"]);
    assert_complains(&bad, 1, &["the name `a b`"]);
}
