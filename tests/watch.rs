//! `agent-presence watch` in a second terminal, beside a wrapped agent in the first.

#![cfg(feature = "watch")]
#![allow(clippy::panic, clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use agent_presence::collie::{Item, MemoryHistory, Options, PaneOptions};
use serde_json::json;
use support::terminal::{Terminal, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_agent-presence");
const TOY_AGENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/toy-agent");

fn runtime_folder() -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix("ap").tempdir_in("/tmp").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

fn agent_presence(runtime: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", runtime)
        .env("XDG_RUNTIME_DIR", runtime)
        .env("TERM", "xterm-256color")
        .env("TOY_AGENT_DELAY", "0.1")
        .args(arguments);
    command
}

/// What a newcomer without Herdr and Collie does: a line typed in one terminal is seen in the other,
/// and a card that comes up there is answered by a key.
#[test]
fn a_newcomer_sees_that_it_works() {
    let runtime = runtime_folder();
    let mut watch = Terminal::start_sized(&mut agent_presence(runtime.path(), &["watch"]), 24, 80);
    watch.wait_for("No agent yet");
    let wrap = ["wrap", "--title", "Fix the build", "--", TOY_AGENT];
    let mut agent = Terminal::start(&mut agent_presence(runtime.path(), &wrap));
    watch.wait_for("idle    Fix the build");

    agent.type_bytes("look at the log\r");
    watch.wait_for("> look at the log");
    watch.wait_for("I have looked at: look at the log");

    agent.type_bytes("deploy\r");
    watch.wait_for("waiting Fix the build");
    watch.wait_for("deploy(target: \"staging\")");
    watch.wait_for("[1] Allow   [2] Deny");
    // A card takes no key in its first half second, nor in the half second after such a key.
    let typed = Cell::new(None::<Instant>);
    eventually("an answer", || {
        if typed.get().is_none_or(|at| at.elapsed() > Duration::from_millis(800)) {
            watch.type_bytes("1");
            typed.set(Some(Instant::now()));
        }
        agent.screen().contains("Deployed to staging.")
    });
    watch.wait_for("answered: allow");
    watch.wait_for("idle    Fix the build");

    agent.type_bytes("exit 7\r");
    assert_eq!(agent.wait().code(), Some(7));
    watch.wait_for("No agent yet");
    let before = watch.before.clone();
    watch.type_bytes("q");
    assert_eq!(watch.wait().code(), Some(0));
    assert_eq!(watch.modes(), before, "the terminal is as it was");
}

/// What a wrapped agent said before is there when its next run is watched.
#[test]
fn the_run_before_is_a_past_conversation() {
    let runtime = runtime_folder();
    let wrap = ["wrap", "--title", "Fix the build", "--", TOY_AGENT];
    let mut agent = Terminal::start(&mut agent_presence(runtime.path(), &wrap));
    agent.wait_for("> ");
    agent.type_bytes("look at the log\r");
    agent.wait_for("I have looked at: look at the log");
    agent.type_bytes("exit 0\r");
    assert_eq!(agent.wait().code(), Some(0));

    let mut agent =
        Terminal::start(&mut agent_presence(runtime.path(), &["wrap", "--", TOY_AGENT]));
    let mut watch = Terminal::start_sized(&mut agent_presence(runtime.path(), &["watch"]), 24, 80);
    watch.wait_for("h past");
    assert!(!watch.screen().contains("look at the log"));
    watch.type_bytes("h");
    watch.wait_for("Fix the build");
    assert!(!watch.screen().contains("r reopen"), "a wrapped agent reopens nothing");
    watch.type_bytes("\r");
    watch.wait_for("> look at the log");
    watch.wait_for("I have looked at: look at the log");
    watch.type_bytes("q");
    assert_eq!(watch.wait().code(), Some(0));
    agent.type_bytes("exit 0\r");
    assert_eq!(agent.wait().code(), Some(0));
}

/// A chat goes on above its top, where the agent's history has more of it than its pane.
#[tokio::test(flavor = "multi_thread")]
async fn a_chat_goes_on_above_its_top() {
    let runtime = runtime_folder();
    let options = Options { socket: Some(runtime.path().join("host.sock")), ..Options::default() };
    let host = agent_presence::collie::open(options).await.unwrap();
    let pane = PaneOptions { title: "Long".into(), ..PaneOptions::default() };
    let pane = host.workspace("w", "W").unwrap().tab("t", "T").unwrap().pane("p", pane).unwrap();
    let history = MemoryHistory::new();
    let row = json!({"id": "p", "title": "Long", "startedAt": "2026-11-30T14:53:46.120Z",
        "state": "open", "items": 0});
    history.put_row(serde_json::from_value(row).unwrap());
    for number in 0..100 {
        let item = Item::reply(format!("i{number}"), format!("line {number}."));
        history.put_item("p", item.clone());
        if number >= 50 {
            pane.item(item).unwrap();
        }
    }
    host.core().history(history);
    host.ready();

    let mut watch = agent_presence(runtime.path(), &["watch", "--socket"]);
    watch.arg(host.address());
    let mut watch = Terminal::start_sized(&mut watch, 24, 80);
    watch.wait_for("line 99.");
    let typed = Cell::new(None::<Instant>);
    eventually("the oldest line", || {
        if typed.get().is_none_or(|at| at.elapsed() > Duration::from_millis(100)) {
            watch.type_bytes("\x1b[5~");
            typed.set(Some(Instant::now()));
        }
        watch.screen().contains("line 0.")
    });
    watch.type_bytes("\x1b[F");
    watch.wait_for("line 99.");
    watch.type_bytes("q");
    assert_eq!(watch.wait().code(), Some(0));
    host.close().await;
}

/// A stopped agent does not stop the screen.
#[test]
fn a_stopped_agent_is_waited_for_behind_the_screen() {
    let runtime = runtime_folder();
    let mut agent =
        Terminal::start(&mut agent_presence(runtime.path(), &["wrap", "--", TOY_AGENT]));
    agent.wait_for("> ");
    let mut watch = Terminal::start_sized(&mut agent_presence(runtime.path(), &["watch"]), 24, 80);
    watch.wait_for("idle");
    for process in support::terminal::children(agent.pid()) {
        let stop = Command::new("kill").args(["-STOP", &process.to_string()]).status();
        assert!(stop.unwrap().success());
    }
    watch.type_bytes("q");
    assert_eq!(watch.wait().code(), Some(0));
    for process in support::terminal::children(agent.pid()) {
        let go_on = Command::new("kill").args(["-CONT", &process.to_string()]).status();
        assert!(go_on.unwrap().success());
    }
    agent.type_bytes("exit 0\r");
    assert_eq!(agent.wait().code(), Some(0));
}

#[test]
fn without_a_terminal_or_a_place_to_look_it_says_so() {
    let runtime = runtime_folder();
    let output = agent_presence(runtime.path(), &["watch"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stderr, b"agent-presence: watch needs a terminal\n");
    let output = agent_presence(runtime.path(), &["watch"])
        .env_remove("XDG_RUNTIME_DIR")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(output.stderr.starts_with(b"agent-presence: XDG_RUNTIME_DIR is not set"));
}
