//! `agent-presence sessions`.

use std::fs;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::support::terminal::eventually;
use crate::user::{User, up};

fn output(user: &User, arguments: &[&str]) -> String {
    let output = user.command().args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn list(user: &User) -> Vec<Value> {
    serde_json::from_str(&output(user, &["sessions", "--json"])).unwrap()
}

/// Runs a session to its end.
fn session(user: &User, wrap: &[&str]) {
    let before = user.records().len();
    let mut terminal = user.start(wrap);
    eventually("a record", || user.records().len() > before);
    terminal.type_bytes("exit 0\r");
    terminal.wait();
}

#[test]
fn sessions_are_listed_the_newest_first() {
    let user = User::new();
    assert_eq!(list(&user), Vec::<Value>::new());
    session(&user, &["--session", "one", "--title", "Fix it", "--", "claude"]);
    session(&user, &["--session", "two", "--resume", "gone again", "--", "my-agent"]);
    let listed = list(&user);
    assert_eq!(listed.len(), 2);
    let (two, one) = (&listed[0], &listed[1]);
    assert_eq!((&one["session"], &one["agent"]), (&"one".into(), &"claude-presence".into()));
    assert_eq!((&one["title"], &one["canComeBack"]), (&"Fix it".into(), &true.into()));
    assert_eq!(one["folder"], user.path("work").to_str().unwrap());
    assert!(one["ageSeconds"].as_u64().unwrap() < 600 && one["seen"].is_string());
    assert_eq!((&two["session"], &two["canComeBack"]), (&"two".into(), &false.into()));
    assert_eq!(two["why"], "gone: command not found");

    let text = output(&user, &["sessions"]);
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].contains("two") && lines[0].contains("cannot come back: gone"), "{text}");
    assert!(lines[1].contains("Fix it") && !lines[1].contains("cannot"), "{text}");
    assert!(lines[1].starts_with(one["token"].as_str().unwrap()), "{text}");

    // By hand, though Herdr has forgotten it.
    let mut again = user.command();
    let _terminal = up(again.args(["resume", one["token"].as_str().unwrap()]));
    assert_eq!(user.wait_for_run(3).session, "one");
}

/// Records that nobody used for 30 days go, by hand or by the way, and those in use stay.
#[test]
fn old_records_go() {
    let user = User::new();
    let age = |record: &std::path::Path, days: u64| {
        let time = SystemTime::now() - Duration::from_secs(days * 86_400);
        fs::File::options().write(true).open(record).unwrap().set_modified(time).unwrap();
    };
    session(&user, &["--", "claude"]);
    age(&user.records()[0], 31);
    // Somebody has looked today.
    session(&user, &["--", "claude"]);
    assert_eq!(user.records().len(), 2);
    assert_eq!(output(&user, &["sessions", "prune"]), "1 forgotten\n");
    assert_eq!(output(&user, &["sessions", "prune", "--older-than", "1h"]), "0 forgotten\n");

    age(&user.records()[0], 31);
    age(&user.path(".local/state/agent-presence/sessions/.pruned"), 2);
    let mut terminal = user.start(&["--session", "new", "--", "claude"]);
    eventually("the old one's end", || {
        user.records().len() == 1
            && fs::read_to_string(&user.records()[0]).is_ok_and(|text| text.contains("\"new\""))
    });
    terminal.type_bytes("exit 0\r");
    terminal.wait();
}
