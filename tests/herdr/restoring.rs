//! The fake Herdr's named sessions: what it keeps over a stop, and what it types.

use super::support::restoring_herdr::{RestoringHerdr, SESSION};
use super::support::terminal::eventually;
use super::write_program;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Reports by Herdr's own program, then stays in front.
fn agent(herdr: &RestoringHerdr, name: &str) {
    let script = format!(
        r#"#!/bin/sh
printf '%s\n' "$PWD" "$@" >>"$HOME/started"
env >"$HOME/environment"
"$HERDR_BIN_PATH" pane report-agent "$HERDR_PANE_ID" --source {name} --agent {name} \
    --state idle --seq "$(date +%s%N)" -- {name} --resume "s 1"
exec cat
"#
    );
    write_program(&herdr.bin().join(name), &script);
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn report(herdr: &RestoringHerdr, pane: &str, resume: &Value) {
    let answer = herdr.ask(
        "pane.report_agent",
        &json!({"pane_id": pane, "source": "s", "agent": "a", "state": "idle",
            "resume_argv": resume}),
    );
    assert_eq!(answer.unwrap()["result"]["type"], "ok");
}

fn kept(pane: &str, folder: &Path, argv: &Value) -> Value {
    json!({"pane_id": pane, "cwd": folder,
        "agent_resume": {"source": "s", "agent": "a", "argv": argv}})
}

#[test]
fn it_types_the_quoted_command_into_a_login_shell_in_the_last_folder() {
    let mut herdr = RestoringHerdr::start();
    agent(&herdr, "my-agent");
    let folder = herdr.home().join("한국어 here");
    fs::create_dir(&folder).unwrap();
    herdr.type_line("export GONE=1; cd '한국어 here' && my-agent");
    herdr.wait_for_agent("my-agent");
    let folder = folder.to_str().unwrap().to_owned();
    assert_eq!(lines(&herdr.home().join("started")), [folder.as_str()]);
    assert!(lines(&herdr.home().join("environment")).contains(&"GONE=1".to_owned()));

    herdr.restart();
    eventually("a typed command", || !herdr.typed().is_empty());
    assert_eq!(herdr.typed(), ["my-agent --resume 's 1'"]);
    herdr.wait_for_agent("my-agent");
    let started = [folder.clone(), folder, "--resume".to_owned(), "s 1".to_owned()];
    assert_eq!(lines(&herdr.home().join("started")), started);
    herdr.terminal().wait_for("my-agent --resume 's 1'");

    let variables = lines(&herdr.home().join("environment"));
    let has = |name: &str| variables.iter().any(|line| line.starts_with(&format!("{name}=")));
    for name in ["HERDR_ENV", "HERDR_PANE_ID", "HERDR_SOCKET_PATH", "HERDR_SESSION", "HOME"] {
        assert!(has(name), "{name} in {variables:#?}");
    }
    for name in ["GONE", "FAKE_HERDR_VERSION", "XDG_CONFIG_HOME"] {
        assert!(!has(name), "{name} in {variables:#?}");
    }
    assert!(variables.contains(&format!("HERDR_SESSION={SESSION}")));
}

#[test]
fn of_two_equal_panes_only_the_first_is_restored() {
    let mut herdr = RestoringHerdr::prepare(&[]);
    let (home, bin) = (herdr.home(), herdr.bin());
    herdr.keep(&json!([
        kept("w1:p1", &home, &json!(["true", "1"])),
        kept("w1:p2", &home, &json!(["true", "1"])),
        kept("w1:p3", &bin, &json!(["true", "1"])),
        kept("w1:p4", &home, &json!(["true", "2"])),
    ]));
    herdr.attach();
    eventually("three commands", || herdr.typed().len() == 3);
    assert_eq!(herdr.typed(), ["true 1", "w1:p3 true 1", "w1:p4 true 2"]);
    assert_eq!(herdr.pane("w1:p2")["pane_id"], "w1:p2", "the second one has a shell only");
}

#[test]
fn two_panes_of_one_agent_are_restored_by_what_tells_them_apart() {
    let mut herdr = RestoringHerdr::start_with(&[("FAKE_HERDR_PANES", "3")]);
    let script = r#"#!/bin/sh
"$HERDR_BIN_PATH" pane report-agent "$HERDR_PANE_ID" --source a --agent a --state idle \
    --seq "$(date +%s%N)" -- a "$1"
exec cat
"#;
    write_program(&herdr.bin().join("a"), script);
    for (pane, word) in [("w1:p1", "one"), ("w1:p2", "two"), ("w1:p3", "one")] {
        herdr.type_line_in(pane, &format!("a {word}"));
        herdr.wait_for_agent_in(pane, "a");
    }
    herdr.restart();
    herdr.wait_for_agent_in("w1:p1", "a");
    herdr.wait_for_agent_in("w1:p2", "a");
    assert_eq!(herdr.typed(), ["a one", "w1:p2 a two"]);
    assert_eq!(herdr.pane("w1:p3")["agent"], Value::Null);
}

#[test]
fn from_0_9_3_on_it_restores_when_a_terminal_is_attached() {
    for (version, at_once) in [("0.9.2", true), ("0.9.3", false)] {
        let mut herdr = RestoringHerdr::prepare(&[("FAKE_HERDR_VERSION", version)]);
        herdr.keep(&json!([kept("w1:p1", &herdr.home(), &json!(["true"]))]));
        let mut alone = herdr.command(super::FAKE_HERDR);
        let mut alone = alone.args(["--session", SESSION, "server"]).spawn().unwrap();
        eventually("a server", || herdr.ask("ping", &json!({})).is_some());
        if at_once {
            eventually("a command", || !herdr.typed().is_empty());
        } else {
            let shell = herdr.ask("pane.process_info", &json!({"pane_id": "w1:p1"})).unwrap();
            assert_eq!(shell["result"]["process_info"]["shell_pid"], Value::Null);
            assert_eq!(herdr.typed(), [""; 0]);
        }
        herdr.attach();
        eventually("a command", || herdr.typed() == ["true"]);
        herdr.stop();
        assert!(alone.wait().unwrap().success());
    }
}

#[test]
fn the_user_can_turn_it_off_and_an_old_one_never_does() {
    for version in ["0.9.3", "0.8.2"] {
        let mut herdr = RestoringHerdr::prepare(&[("FAKE_HERDR_VERSION", version)]);
        if version == "0.9.3" {
            fs::create_dir_all(herdr.config_folder()).unwrap();
            let config = "[session]\nresume_agents_on_restore = false\n";
            fs::write(herdr.config_folder().join("config.toml"), config).unwrap();
        }
        herdr.keep(&json!([kept("w1:p1", &herdr.bin(), &json!(["true"]))]));
        herdr.attach();
        herdr.type_line("pwd >../home/where");
        let folder = [herdr.bin().to_str().unwrap().to_owned()];
        eventually("a shell in the last folder", || lines(&herdr.home().join("where")) == folder);
        assert_eq!(herdr.typed(), [""; 0]);
    }
}

#[test]
fn what_a_clean_stop_saves_others_can_read_and_a_release_deletes() {
    let mut herdr = RestoringHerdr::start();
    let command = json!(["a", "--resume", "1"]);
    // A program is in front, as an agent would be.
    herdr.type_line("cat");
    eventually("a program in front", || {
        let process = herdr.ask("pane.process_info", &json!({"pane_id": "w1:p1"})).unwrap();
        let process = &process["result"]["process_info"];
        process["shell_pid"] != Value::Null
            && process["shell_pid"] != process["foreground_process_group_id"]
    });
    report(&herdr, "w1:p1", &command);
    herdr.stop();
    let find = |saved: Value| saved["workspaces"][0]["tabs"][0]["panes"][0]["agent_resume"].clone();
    assert_eq!(find(herdr.saved().unwrap())["argv"], command);
    let mode = fs::metadata(herdr.session_folder().join("session.json")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o644);
    let gone = herdr.ask("ping", &json!({}));
    assert_eq!(gone, None);

    herdr.attach();
    herdr.type_line("cat");
    report(&herdr, "w1:p1", &command);
    let release = json!({"pane_id": "w1:p1", "source": "s", "agent": "a"});
    herdr.ask("pane.release_agent", &release).unwrap();
    herdr.stop();
    assert_eq!(find(herdr.saved().unwrap()), Value::Null);
}

#[test]
fn a_change_is_saved_after_a_while() {
    let herdr = RestoringHerdr::start_with(&[("FAKE_HERDR_SAVE_MS", "50")]);
    agent(&herdr, "my-agent");
    herdr.type_line("my-agent");
    eventually("the saved command", || {
        herdr.saved().is_some_and(|saved| saved.to_string().contains("\"argv\":[\"my-agent\""))
    });
}

#[test]
fn an_agent_that_dies_is_forgotten_with_its_command() {
    let herdr = RestoringHerdr::start();
    agent(&herdr, "my-agent");
    herdr.type_line("my-agent");
    herdr.wait_for_agent("my-agent");
    herdr.type_line("\u{4}");
    herdr.wait_for_pane("w1:p1", "empty pane", |pane| pane["agent"] == Value::Null);
}

#[test]
fn a_stop_ends_even_an_agent_that_ignores_it() {
    let mut herdr = RestoringHerdr::start();
    let script = "#!/bin/sh\ntrap '' HUP TERM\necho $$ >\"$HOME/pid\"\nwhile :; do sleep 1; done\n";
    write_program(&herdr.bin().join("stubborn"), script);
    herdr.type_line("stubborn");
    let pid = herdr.home().join("pid");
    eventually("the agent", || !lines(&pid).is_empty());
    herdr.stop();
    let pid = lines(&pid)[0].parse().unwrap();
    eventually("its end", || !super::support::terminal::is_alive(pid));
}

#[test]
fn sessions_are_listed_stopped_and_deleted_by_name() {
    let mut herdr = RestoringHerdr::start();
    let list = |herdr: &RestoringHerdr| -> Value {
        let done = herdr.herdr(&["session", "list", "--json"]);
        assert!(done.status.success(), "{done:?}");
        serde_json::from_slice(&done.stdout).unwrap()
    };
    let listed = list(&herdr)["sessions"][0].clone();
    assert_eq!((&listed["name"], &listed["running"]), (&json!(SESSION), &json!(true)));
    assert_eq!(listed["session_dir"], json!(herdr.session_folder()));

    let running = herdr.herdr(&["session", "delete", SESSION]);
    assert_eq!(running.status.code(), Some(1), "{running:?}");
    herdr.stop();
    assert_eq!(list(&herdr)["sessions"][0]["running"], false);
    let stopped = herdr.herdr(&["session", "stop", SESSION]);
    assert_eq!(stopped.status.code(), Some(1), "{stopped:?}");
    assert!(herdr.herdr(&["session", "delete", SESSION]).status.success());
    assert_eq!(list(&herdr)["sessions"], json!([]));
    assert!(!herdr.session_folder().exists());
    for bad in ["", "a/b", "..", "a b"] {
        assert_eq!(herdr.herdr(&["--session", bad]).status.code(), Some(1), "{bad:?}");
    }
}
