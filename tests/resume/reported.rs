//! When Herdr is told a command, and which.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::terminal::{Terminal, eventually};
use crate::user::{PROGRAM, User, up};

fn commands(user: &User) -> Vec<Vec<String>> {
    let own = |words: Vec<&str>| words.into_iter().map(str::to_owned).collect();
    user.herdr.requests().iter().filter_map(|request| request.resume().map(own)).collect()
}

/// Ends the agent, so that all that was to be told has been.
fn finish(mut terminal: Terminal) {
    terminal.type_bytes("exit 0\r");
    assert_eq!(terminal.wait().code(), Some(0));
}

#[test]
fn nothing_is_told_before_the_session_can_come_back() {
    let user = User::new();
    // Nobody knows how, or nobody knows which session.
    for wrap in [&["--", "my-agent"][..], &["--resume", "my-agent {session}", "--", "my-agent"]] {
        let terminal = user.start(wrap);
        terminal.type_bytes("working\r");
        user.herdr.wait_for_state("working");
        finish(terminal);
    }
    assert_eq!(commands(&user), Vec::<Vec<String>>::new());
    assert_eq!(user.records().len(), 0);
}

/// A conversation after another one: the command stays, its record is of the new one, and there is no
/// release in between.
#[test]
fn the_command_stays_when_the_agent_begins_anew() {
    let user = User::new();
    let terminal = user.start(&["--resume", "my-agent {session}", "--", "my-agent"]);
    for id in ["first", "second", "third"] {
        terminal.type_bytes(format!("tell {id}\r"));
        // The record follows within a moment, behind the agent's back.
        let recorded = || fs::read_to_string(user.records().first()?).ok();
        eventually("a record", || {
            recorded().is_some_and(|text| text.contains(&format!("\"session\":\"{id}\"")))
        });
    }
    let command = user.wait_for_command();
    assert_eq!(user.releases(), 0);
    assert!(commands(&user).iter().all(|told| *told == command));
    terminal.type_bytes("title third Another\r");
    eventually("a title", || {
        fs::read_to_string(&user.records()[0]).unwrap().contains("\"title\":\"Another\"")
    });
    finish(terminal);
    assert_eq!((user.releases(), user.records().len()), (1, 1), "it can be brought back by hand");
}

/// A login shell would say "command not found": the agent's own command is better than that.
#[test]
fn out_of_the_login_path_the_agents_own_command_is_told() {
    let user = User::new();
    let path = std::env::var_os("PATH").unwrap();
    let agents = user.path("agents");
    fs::create_dir(&agents).unwrap();
    fs::rename(user.path("bin/claude"), agents.join("claude")).unwrap();
    let folders = [agents].into_iter().chain(std::env::split_paths(&path));
    let path = std::env::join_paths(folders).unwrap();
    if which::which_in("agent-presence", Some(&path), "/").is_ok() {
        eprintln!("skipped: agent-presence is installed here");
        return;
    }
    let like = user.wrap(&["--", "claude", "--model", "opus"]);
    let mut command = Command::new(PROGRAM);
    command.env_clear().envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.args(like.get_args()).current_dir(user.path("work")).env("PATH", &path);
    let terminal = up(&mut command);
    assert_eq!(user.wait_for_command(), ["claude", "--model", "opus", "--continue"]);
    finish(terminal);

    let mut doctor = Command::new(PROGRAM);
    let output = doctor.env("PATH", &path).args(["doctor", "--json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == "coming back").unwrap();
    assert_eq!(check["verdict"], "note");
    assert!(check["todo"].as_str().unwrap().contains("PATH"), "{check}");
}

/// The disk takes no record: the agent's own command is told, without a secret.
#[test]
fn without_a_record_the_agents_own_command_is_told() {
    let user = User::new();
    fs::create_dir_all(user.path(".local/state/agent-presence")).unwrap();
    fs::write(user.path(".local/state/agent-presence/sessions"), "").unwrap();
    let terminal = user.start(&["--", "claude", "--verbose", "hello"]);
    assert_eq!(user.wait_for_command(), ["claude", "--verbose", "--continue"]);
    finish(terminal);
    let told = commands(&user).len();
    // Herdr's file is open to others.
    let terminal = user.start(&["--", "claude", "--api-key=s3cret"]);
    finish(terminal);
    assert_eq!(commands(&user).len(), told);
}

/// Field case 39: the user quits, and Herdr forgets the session.
#[test]
fn a_quit_is_a_release_and_the_record_stays() {
    let user = User::new();
    let terminal = user.start(&["--", "claude"]);
    user.wait_for_command();
    finish(terminal);
    assert_eq!(user.releases(), 1);
    assert_eq!(user.herdr.pane("w1:p1").resume, None);
    assert_eq!(user.records().len(), 1);
    let mode = fs::metadata(&user.records()[0]).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// Outside Herdr nothing is told, and a session can be brought back by hand all the same.
#[test]
fn outside_herdr_there_is_a_record_too() {
    let user = User::new();
    let mut command = user.wrap(&["--", "claude"]);
    let terminal = up(command.env_remove("HERDR_ENV").env_remove("HERDR_PANE_ID"));
    eventually("a record", || user.records().len() == 1);
    finish(terminal);
    assert_eq!(user.herdr.requests().len(), 0);
}

/// A wrap inside a wrap comes back with the outer agent, if that starts it again.
#[test]
fn a_nested_wrap_leaves_the_record_to_the_outer_one() {
    let user = User::new();
    let inner = "agent-presence wrap --session inner -- claude; echo outer; read -r line";
    let wrap = ["--session", "outer", "--resume", "my-agent {session}", "--", "bash", "-c", inner];
    let mut terminal = user.start(&wrap);
    let command = user.wait_for_command();
    terminal.wait_for("up");
    terminal.type_bytes("exit 0\r");
    terminal.wait_for("outer");
    terminal.type_bytes("\r");
    assert_eq!(terminal.wait().code(), Some(0));
    assert_eq!(user.records().len(), 1);
    assert!(commands(&user).iter().all(|told| *told == command));
    let kept = user.path(".local/state/agent-presence/sessions").join(&command[2]);
    let text = fs::read_to_string(kept.with_extension("json")).unwrap();
    assert!(text.contains("\"session\":\"outer\""), "{text}");
}

#[test]
fn a_template_that_makes_no_sense_is_a_usage_error() {
    let user = User::new();
    for (template, why) in [("my-agent 'x", "quote"), ("  ", "empty")] {
        let mut command = user.wrap(&["--resume", template, "--", "my-agent"]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains(why), "{text}");
    }
}
