//! `agent-presence doctor` against the fake Herdr, in a pane and inside a wrapped agent.

#![allow(clippy::panic, clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::fake_herdr::{Behaviour, FakeHerdr};

const PROGRAM: &str = env!("CARGO_BIN_EXE_agent-presence");

/// A throwaway user in a pane of Herdr.
struct Patient {
    folder: tempfile::TempDir,
    herdr: FakeHerdr,
}

/// What doctor said.
struct Findings {
    code: Option<i32>,
    report: Value,
}

impl Findings {
    /// The verdict on one thing, with what was found and what to do.
    #[track_caller]
    fn of(&self, name: &str) -> (&str, String) {
        let checks = self.report["checks"].as_array().unwrap();
        let check = checks.iter().find(|check| check["name"] == name);
        let check = check.unwrap_or_else(|| panic!("nothing on {name} in {:#}", self.report));
        let text = |field: &str| check[field].as_str().unwrap_or_default();
        (check["verdict"].as_str().unwrap(), format!("{}; {}", text("found"), text("todo")))
    }
}

impl Patient {
    fn new(behaviour: Behaviour) -> Self {
        let folder = tempfile::Builder::new().prefix("ap").tempdir_in("/tmp").unwrap();
        let run = folder.path().join("run");
        fs::create_dir(&run).unwrap();
        fs::set_permissions(run, fs::Permissions::from_mode(0o700)).unwrap();
        Self { folder, herdr: FakeHerdr::start(behaviour) }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.folder.path())
            .env("XDG_RUNTIME_DIR", self.folder.path().join("run"))
            .envs(self.herdr.environment_variables());
        command
    }

    fn doctor(&self, arguments: &[&str], change: impl FnOnce(&mut Command)) -> Findings {
        let mut command = self.command();
        command.args(["doctor", "--json"]).args(arguments);
        change(&mut command);
        findings(&command.output().unwrap())
    }
}

fn findings(output: &std::process::Output) -> Findings {
    let report = serde_json::from_slice(&output.stdout);
    let report = report.unwrap_or_else(|error| panic!("{error}: {output:?}"));
    Findings { code: output.status.code(), report }
}

#[test]
fn all_is_well() {
    let patient = Patient::new(Behaviour::Answers);
    let found = patient.doctor(&["--", "sh", "-c", "true"], |_| {});
    assert_eq!(found.code, Some(0), "{:#}", found.report);
    assert_eq!(found.report["ok"], true);
    assert_eq!(found.of("server"), ("ok", "Herdr 0.9.3, by its socket; ".to_owned()));
    assert_eq!(found.of("resume").0, "ok");
    assert_eq!(found.of("identity").0, "ok");
    assert_eq!(found.of("command").0, "ok");
    let folder = patient.folder.path().join(".local/state/agent-presence/collie");
    let kept = format!("sessions are kept in {}; ", folder.display());
    assert_eq!(found.of("records"), ("ok", kept));
    assert_eq!(fs::read_dir(folder).unwrap().count(), 0, "nothing of the trial is left");
    for unknown in ["presence", "holder", "seq", "collie"] {
        assert_eq!(found.of(unknown).0, "note", "{unknown}");
    }
}

#[test]
fn every_fault_is_named_and_says_what_to_do() {
    let patient = Patient::new(Behaviour::Hangs);
    let found = patient.doctor(&[], |_| {});
    assert_eq!(found.code, Some(1));
    assert_eq!(found.of("server").0, "fix");

    let patient = Patient::new(Behaviour::Answers);
    let half = patient.doctor(&[], |command| {
        command.env_remove("HERDR_SOCKET_PATH");
    });
    assert_eq!(half.of("environment").0, "fix");
    assert!(half.of("environment").1.contains("HERDR_SOCKET_PATH"));

    let known = patient.doctor(&["--agent", "claude"], |_| {});
    assert_eq!(known.of("identity").0, "fix");

    let command = patient.doctor(&["--", "no-such-agent", "--resume", "1"], |_| {});
    assert_eq!(command.of("command").0, "fix");
    assert!(command.of("command").1.contains("PATH"));
    let command = patient.doctor(&["--", "sh", "it's"], |_| {});
    assert_eq!(command.of("command").0, "fix");

    let runtime = patient.doctor(&[], |command| {
        command.env_remove("XDG_RUNTIME_DIR");
    });
    assert_eq!(runtime.of("collie").0, "fix");
    let nobody = patient.doctor(&[], |command| {
        command.env("COLLIE_DURABLE_SOCKET", "/tmp/nobody/collie.sock");
    });
    assert_eq!(nobody.of("collie").0, "fix");
}

/// Outside by a trial, inside by what the presence says.
#[test]
fn whether_sessions_can_be_kept_is_told() {
    let patient = Patient::new(Behaviour::Answers);
    let state = patient.folder.path().join(".local/state/agent-presence");
    fs::create_dir_all(&state).unwrap();
    fs::write(state.join("collie"), "in the way").unwrap();
    let ask = "\"$AGENT_PRESENCE_BIN\" doctor --json";
    let inside = |options: &[&str]| {
        let mut command = patient.command();
        command.args(["wrap", "--agent", "a"]).args(options).args(["--", "sh", "-c", ask]);
        let mut command = command.stdin(Stdio::null()).output().unwrap();
        // Its first words are for the user.
        let start = command.stdout.iter().position(|&byte| byte == b'{').unwrap();
        command.stdout.drain(..start);
        findings(&command)
    };
    for found in [patient.doctor(&[], |_| {}), inside(&[])] {
        assert_eq!(found.of("records").0, "fix", "{:#}", found.report);
        let text = found.of("records").1;
        assert!(text.starts_with("sessions are kept in memory only: "), "{text}");
        assert!(text.contains("agent-presence/collie") && text.contains("writable"), "{text}");
    }
    assert_eq!(inside(&["--no-records"]).of("records").0, "note");
    fs::remove_file(state.join("collie")).unwrap();
    assert_eq!(inside(&[]).of("records").0, "ok");
    let nowhere = patient.doctor(&[], |command| {
        command.env_remove("HOME");
    });
    assert_eq!(nowhere.of("records").0, "fix");
}

#[cfg(target_os = "linux")] // macOS has no `setsid` command.
#[test]
fn a_pane_of_another_session_is_named() {
    let patient = Patient::new(Behaviour::Answers);
    // The shell of another pane, which says when it runs. Process 1 will not do: where tests run in a
    // container, it can be of this very session.
    let mut shell = Command::new("setsid")
        .args(["sh", "-c", "echo $$; read -r line"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pid = String::new();
    BufReader::new(shell.stdout.as_mut().unwrap()).read_line(&mut pid).unwrap();
    let pid = pid.trim_end().parse().unwrap();
    patient.herdr.change(|model| model.panes.get_mut("w1:p1").unwrap().shell_pid = Some(pid));
    let foreign = patient.doctor(&[], |_| {});
    assert_eq!(foreign.of("pane").0, "fix", "{:#}", foreign.report);
    shell.kill().unwrap();
    shell.wait().unwrap();
}

/// Somebody else holds the pane, so reports under our name may be ignored with `ok`.
#[test]
fn the_holder_of_the_pane_is_told() {
    let patient = Patient::new(Behaviour::Answers);
    let mut other = patient.command();
    let script = "\"$AGENT_PRESENCE_BIN\" state working; read -r line";
    other.args(["wrap", "--agent", "other", "--", "sh", "-c", script]);
    let mut other = other.stdin(Stdio::piped()).spawn().unwrap();
    patient.herdr.wait_for_state("working");
    let found = patient.doctor(&["--agent", "mine"], |_| {});
    assert_eq!(found.of("holder").0, "fix", "{:#}", found.report);
    assert!(found.of("holder").1.contains("`other` holds the pane (working)"));
    assert_eq!(patient.doctor(&["--agent", "other"], |_| {}).of("holder").0, "ok");
    drop(other.stdin.take());
    // Its `read` found the end of its input.
    assert_eq!(other.wait().unwrap().code(), Some(1));
}

/// Field case 56: what was reported is read back, and not only believed.
#[test]
fn inside_a_wrapped_agent_the_presence_is_asked() {
    let patient = Patient::new(Behaviour::Answers);
    let script = "\"$AGENT_PRESENCE_BIN\" state working
        until case $(\"$AGENT_PRESENCE_BIN\" doctor) in
            *'working was taken'*'Herdr shows what was reported'*) true ;;
            *) false ;;
        esac; do :; done
        \"$AGENT_PRESENCE_BIN\" doctor --json";
    let output =
        patient.command().args(["wrap", "--agent", "a", "--", "sh", "-c", script]).output();
    let found = findings(&output.unwrap());
    assert_eq!(found.code, Some(0), "{:#}", found.report);
    assert_eq!(found.of("presence"), ("ok", "this is inside a wrapped `a`; ".to_owned()));
    assert_eq!(found.of("environment"), ("ok", "`wrap` reports for pane w1:p1; ".to_owned()));
    assert_eq!(found.of("report"), ("ok", "working was taken, by socket; ".to_owned()));
    assert_eq!(found.of("read-back").0, "ok");
    assert_eq!(found.of("collie").0, "ok");
}

#[test]
fn people_get_a_line_a_thing() {
    let patient = Patient::new(Behaviour::Answers);
    let output = patient.command().arg("doctor").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().any(|line| line.starts_with("ok   environment")), "{text}");
    assert!(text.lines().any(|line| line.starts_with("-    collie")), "{text}");
}
