//! The examples run, in every language that is here.

use std::process::{Command, Stdio};

use serde_json::json;

use crate::User;
use crate::schema::{check_recorded, recorder};
use crate::support::phone::Phone;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");

/// What every example does: two turns with an approval, one that is stopped, and the end.
fn play(mut example: Command, phone: &Phone) {
    let child = example.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    phone.wait_ready();
    let idle = || phone.wait_for("idle", |state| state["panes"][0]["state"] == "idle");
    for (task, option) in [("tea", "allow"), ("coffee", "deny")] {
        assert_eq!(phone.send("example-1", task).status, 200);
        let (pane, ask) = phone.wait_for_ask();
        assert_eq!(ask["tool"], format!("note(text: \"{task}\")"));
        phone.answer(&pane, ask["id"].as_str().unwrap(), &json!({"optionIds": [option]}));
        idle();
    }
    let long = ["word"; 100].join(" ");
    assert_eq!(phone.send("example-1", &long).status, 200);
    phone.wait_for("working", |state| state["panes"][0]["state"] == "working");
    assert_eq!(phone.stop("example-1").status, 200);
    idle();
    let items = phone.events("example-1", None)["items"].clone();
    let items = items.as_array().unwrap();
    let shown: Vec<_> = items
        .iter()
        .map(|item| {
            let text = item["text"].as_str().or(item["status"].as_str());
            (item["kind"].as_str().unwrap(), text.unwrap())
        })
        .collect();
    let before = [
        ("user", "tea"),
        ("reply", "You said: tea"),
        ("tool", "ok"),
        ("user", "coffee"),
        ("reply", "You said: coffee"),
        ("tool", "denied"),
        ("user", long.as_str()),
    ];
    assert_eq!(shown[..7], before);
    assert_eq!(shown.last(), Some(&("notice", "Stopped.")));
    assert_eq!(phone.send("example-1", "quit").status, 200);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("tea: noted\ncoffee: not noted\n"));
    assert!(!phone.socket().exists(), "and it left nothing behind");
}

/// As [`play`], and what was said over the link is held to its schema.
fn play_recorded(mut example: Command, user: &User) {
    example.env("AGENT_PRESENCE_BIN", recorder(user));
    play(example, &Phone::at(user.socket("example-agent")));
    check_recorded(user.path());
}

fn is_here(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    let is_here = found.is_ok_and(|status| status.success());
    if !is_here {
        println!("skipped: there is no {program} here");
    }
    is_here
}

#[test]
fn in_rust() {
    // Cargo builds the examples with the tests, beside the folder of the tests' programs.
    let mut program = std::env::current_exe().unwrap();
    program.pop();
    program.pop();
    program.push("examples/agent");
    if !program.exists() {
        // Only this test was built.
        let cargo = Command::new(env!("CARGO")).args(["build", "--example", "agent"]).status();
        assert!(cargo.unwrap().success());
    }
    let user = User::new();
    play(user.command(program.to_str().unwrap()), &Phone::at(user.socket("example-agent")));
}

#[test]
fn in_python() {
    if is_here("python3") {
        let user = User::new();
        let mut command = user.command("python3");
        command.arg(format!("{EXAMPLES}/agent.py"));
        play_recorded(command, &user);
    }
}

#[test]
fn in_node() {
    if is_here("node") {
        let user = User::new();
        let mut command = user.command("node");
        command.arg(format!("{EXAMPLES}/agent.mjs"));
        play_recorded(command, &user);
    }
}
