//! What the command line says to bad input, and what it exits with.

#![allow(clippy::panic, clippy::unwrap_used, reason = "what fails here fails the test")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_agent-presence");

/// The program, outside Herdr, with an environment of its own in `folder`.
fn agent_presence(folder: &Path) -> Command {
    let runtime = folder.join("run");
    if !runtime.exists() {
        fs::create_dir(&runtime).unwrap();
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let mut command = Command::new(PROGRAM);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", folder)
        .env("XDG_RUNTIME_DIR", runtime)
        .stdin(Stdio::null());
    command
}

fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("ap").tempdir_in("/tmp").unwrap()
}

/// Checks the exit code, and that standard error is one line that begins with `line`.
#[track_caller]
fn assert_complains(output: &Output, code: i32, line: &str) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.starts_with(line), "{error}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
}

#[test]
fn a_usage_error_is_one_line_and_exits_with_2() {
    let folder = folder();
    let cases: [(&[&str], &str); 10] = [
        (&[], "agent-presence: "),
        (&["wrap"], "agent-presence: the following required arguments were not provided"),
        (&["wrap", "--"], "agent-presence: the following required arguments were not provided"),
        (&["wrap", "--colour", "--", "true"], "agent-presence: unexpected argument '--colour'"),
        (&["wrap", "true"], "agent-presence: unexpected argument 'true'"),
        (&["ask", "--choice", "red", "Which?"], "agent-presence: invalid value 'red' for"),
        (&["ask", "--choice", "=Red", "Which?"], "agent-presence: invalid value '=Red' for"),
        (&["ask", "--timeout", "5", "Which?"], "agent-presence: invalid value '5' for"),
        (&["approve", "bash", "[1]"], "agent-presence: invalid value '[1]' for"),
        (&["state", "busy"], "agent-presence: invalid value 'busy' for"),
    ];
    for (arguments, line) in cases {
        let output = agent_presence(folder.path()).args(arguments).output().unwrap();
        assert_complains(&output, 2, line);
    }
}

#[test]
fn a_name_that_breaks_a_rule_is_told_which() {
    let folder = folder();
    let cases: [(&[&str], &str); 6] = [
        (&["--session", "a b"], "agent-presence: session id has ' ' at byte 1"),
        (&["--session", ""], "agent-presence: session id is empty"),
        (&["--title", "a\x07b"], "agent-presence: session title has the control character"),
        (&["--agent", "claude"], "agent-presence: "),
        (&["--source", "herdr:claude"], "agent-presence: "),
        (&["--socket", "relative.sock"], "agent-presence: Collie is off: "),
    ];
    for (options, line) in cases {
        let output = agent_presence(folder.path())
            .arg("wrap")
            .args(options)
            .args(["--", "true"])
            .output()
            .unwrap();
        // A socket that cannot be is no reason not to run the agent.
        let code = if options[0] == "--socket" { 0 } else { 2 };
        assert_complains(&output, code, line);
    }
    assert_eq!(sockets(folder.path()), Vec::<String>::new());
}

#[test]
fn a_command_that_is_not_there_exits_with_127_and_one_that_is_no_program_with_126() {
    let folder = folder();
    let no_program = folder.path().join("notes.txt");
    fs::write(&no_program, "words").unwrap();
    let no_program = no_program.to_str().unwrap();
    for (command, code) in [("no-such-agent", 127), ("/no/such/agent", 127), (no_program, 126)] {
        let output = agent_presence(folder.path()).args(["wrap", "--", command]).output().unwrap();
        assert_complains(&output, code, "agent-presence: ");
        assert!(String::from_utf8_lossy(&output.stderr).contains(command));
    }
    assert_eq!(sockets(folder.path()), Vec::<String>::new());
}

#[test]
fn a_script_command_outside_a_wrap_exits_with_3() {
    let folder = folder();
    let commands: [&[&str]; 4] =
        [&["state", "working"], &["say", "hello"], &["ask", "Which?"], &["approve", "bash"]];
    for arguments in commands {
        let output = agent_presence(folder.path()).args(arguments).output().unwrap();
        assert_complains(&output, 3, "agent-presence: no presence here: AGENT_PRESENCE_SOCKET");
        // The variables lead to a wrap that is gone.
        let output = agent_presence(folder.path())
            .args(arguments)
            .env("AGENT_PRESENCE_SOCKET", folder.path().join("gone.sock"))
            .env("AGENT_PRESENCE_SESSION", "s")
            .output()
            .unwrap();
        assert_complains(&output, 3, "agent-presence: no presence answers at ");
    }
}

/// Without a runtime folder Collie is off, and the agent runs all the same.
#[test]
fn no_runtime_folder_is_told_in_one_line() {
    let folder = folder();
    let output = agent_presence(folder.path())
        .env_remove("XDG_RUNTIME_DIR")
        .args(["wrap", "--", "sh", "-c", "exit 7"])
        .output()
        .unwrap();
    assert_complains(&output, 7, "agent-presence: Collie is off: XDG_RUNTIME_DIR is not set");
}

/// The agent's commands reach the presence without Collie; only nobody can be asked then.
#[test]
fn without_collie_a_state_is_taken_and_an_ask_exits_with_3() {
    let folder = folder();
    let script = "\"$AGENT_PRESENCE_BIN\" state working || exit 20; \
                  \"$AGENT_PRESENCE_BIN\" approve bash; exit $?";
    let output = agent_presence(folder.path())
        .env_remove("XDG_RUNTIME_DIR")
        .args(["wrap", "--", "sh", "-c", script])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("there is nobody to ask: Collie is off"), "{error}");
}

/// A second wrap of the same agent says so in one line, and runs its agent without Collie.
#[test]
fn a_live_socket_is_left_alone() {
    let folder = folder();
    // Not a nested one, which would have no socket of its own.
    let inner = format!(
        "env -u AGENT_PRESENCE_SOCKET '{PROGRAM}' wrap --agent one -- sh -c 'exit 9'; echo inner=$?"
    );
    let output = agent_presence(folder.path())
        .args(["wrap", "--agent", "one", "--", "sh", "-c", &inner])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "inner=9\n", "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.starts_with("agent-presence: Collie is off: "), "{error}");
    assert_eq!(sockets(folder.path()), Vec::<String>::new());
}

#[test]
fn help_and_version_are_no_errors() {
    let folder = folder();
    for argument in ["--help", "--version"] {
        let output = agent_presence(folder.path()).arg(argument).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert!(String::from_utf8_lossy(&output.stdout).contains("agent-presence"));
    }
}

/// The sockets that are left below a folder.
fn sockets(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "sock") {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

/// The long options that a command's help lists.
fn options_of(command: &str) -> Vec<String> {
    let folder = folder();
    let output = agent_presence(folder.path()).args([command, "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let words = help.lines().filter_map(|line| line.trim_start().split(' ').next());
    let options: Vec<String> = words
        .map(|word| word.trim_end_matches(',').to_owned())
        .filter(|word| word.starts_with("--"))
        .collect();
    assert!(!options.is_empty(), "{help}");
    options
}

const README: &str = include_str!("../README.md");

#[test]
fn the_readme_has_a_row_for_every_option_of_wrap() {
    let is_in_a_row = |option: &String| {
        let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-');
        let rows = README.lines().filter_map(|line| line.strip_prefix("| `"));
        rows.filter_map(|row| row.strip_prefix(option.as_str())).any(ends)
    };
    let mut missing = options_of("wrap");
    missing.retain(|option| !is_in_a_row(option));
    assert_eq!(missing, Vec::<String>::new());
}

/// `probe` is for `verify-restore` alone, and is in neither.
#[test]
fn the_readme_shows_every_command_of_the_help() {
    let folder = folder();
    let output = agent_presence(folder.path()).arg("--help").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let commands = commands.lines().take_while(|line| !line.is_empty());
    let names = commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names: Vec<&str> = names.filter(|name| !name.is_empty() && *name != "help").collect();
    assert!(names.len() > 10, "{help}");
    for name in names {
        let is_shown = README.contains(&format!("agent-presence {name} "))
            || README.contains(&format!("agent-presence {name}\n"))
            || README.contains(&format!("-- {name}`"));
        assert!(is_shown, "`{name}`");
    }
    assert!(!help.contains("probe") && !README.contains("agent-presence probe"));
}
