//! The fake Herdr itself: what the other tests lean on, straight over its socket.

use super::*;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

fn send(herdr: &FakeHerdr, parts: &[&str]) -> String {
    let mut stream = UnixStream::connect(herdr.socket_path()).unwrap();
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            thread::sleep(Duration::from_millis(5));
        }
        stream.write_all(part.as_bytes()).unwrap();
    }
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    answer
}

fn ask(herdr: &FakeHerdr, method: &str, params: &Value) -> Value {
    let request = json!({"id": "r1", "method": method, "params": params});
    serde_json::from_str(&send(herdr, &[&format!("{request}\n")])).unwrap()
}

/// Reports `state` for `source` and says whether the pane shows it.
fn is_shown(herdr: &FakeHerdr, source: &str, state: &str, seq: Option<u64>) -> bool {
    let mut params = json!({"pane_id": "w1:p1", "source": source, "agent": "a", "state": state});
    if let Some(seq) = seq {
        params["seq"] = json!(seq);
    }
    let answer = ask(herdr, "pane.report_agent", &params);
    assert_eq!(answer["result"]["type"], "ok", "ignored or not");
    let pane = ask(herdr, "pane.get", &json!({"pane_id": "w1:p1"}));
    pane["result"]["pane"]["agent_status"] == state
}

#[test]
fn it_sleeps_when_bytes_are_late_and_needs_the_newline() {
    let herdr = FakeHerdr::start(Behaviour::Answers);
    let is_late = || {
        let begun = Instant::now();
        let answer = send(&herdr, &["{\"id\":\"r1\",\"method\":\"ping\",", "\"params\":{}}\n"]);
        assert!(answer.contains("\"version\":\"0.9.3\""), "{answer}");
        begun.elapsed() >= Duration::from_millis(100)
    };
    // A server that came late itself finds all the bytes there.
    assert!((0..50).any(|_| is_late()));

    let mut stream = UnixStream::connect(herdr.socket_path()).unwrap();
    stream.write_all(b"{\"id\":\"r1\",\"method\":\"ping\",\"params\":{}}").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "");
}

#[test]
fn it_answers_a_parse_error_without_an_id_and_an_unknown_pane_by_its_code() {
    let herdr = FakeHerdr::start(Behaviour::Answers);
    let answer: Value = serde_json::from_str(&send(&herdr, &["nonsense\n"])).unwrap();
    assert_eq!(answer["id"], "");
    let answer = ask(&herdr, "pane.get", &json!({"pane_id": "w9:p9"}));
    assert_eq!(answer["error"]["code"], "pane_not_found");
}

#[test]
fn it_counts_for_each_source_and_ignores_what_is_not_higher() {
    let herdr = FakeHerdr::start(Behaviour::Answers);
    for (source, state, seq, expected) in [
        ("s", "working", None, true),
        ("s", "idle", Some(5), true),
        ("s", "working", Some(5), false),
        ("s", "working", Some(4), false),
        ("s", "working", None, false),
        ("other", "working", Some(1), true),
        ("s", "blocked", Some(6), true),
        ("s", "working", Some(u64::MAX), true),
        ("s", "blocked", Some(u64::MAX), false),
    ] {
        // Idle after work shows as done: looked at, it is idle again.
        herdr.change(|model| model.panes.get_mut("w1:p1").unwrap().unseen = false);
        let shown =
            is_shown(&herdr, source, state, seq) || (state == "idle" && herdr.pane("w1:p1").unseen);
        assert_eq!(shown, expected, "{source} {state} {seq:?}");
    }
    herdr.change(support::fake_herdr::model::Model::hand_off);
    assert!(is_shown(&herdr, "s", "blocked", Some(1)), "a hand-off forgets the numbers");
}

#[test]
fn it_releases_only_for_the_holder() {
    let herdr = FakeHerdr::start(Behaviour::Answers);
    assert!(is_shown(&herdr, "s", "working", Some(1)));
    for (source, agent, seq, is_held) in
        [("other", "a", 9, true), ("s", "b", 2, true), ("s", "a", 2, true), ("s", "a", 3, false)]
    {
        let params = json!({"pane_id": "w1:p1", "source": source, "agent": agent, "seq": seq});
        ask(&herdr, "pane.release_agent", &params);
        assert_eq!(herdr.pane("w1:p1").holder.is_some(), is_held, "{source} {agent} {seq}");
    }
}

#[test]
fn it_refuses_commands_by_the_rules() {
    let herdr = FakeHerdr::start(Behaviour::Answers);
    let refused = |method: &str, argv: Value| {
        let answer = ask(
            &herdr,
            method,
            &json!({"pane_id": "w1:p1", "source": "s", "agent": "a",
            "state": "idle", "agent_session_id": "s1", "seq": 1, "resume_argv": argv}),
        );
        answer["error"]["code"].as_str().map(str::to_owned)
    };
    let not_accepted = Some("resume_not_accepted".to_owned());
    assert_eq!(refused("pane.report_agent_session", json!(["a"])), not_accepted);
    let invalid = Some("invalid_resume_argv".to_owned());
    for argv in
        [json!([]), json!(["./a"]), json!(["a", "it's"]), json!(["a", "\u{85}"]), json!("a")]
    {
        assert_eq!(refused("pane.report_agent", argv), invalid);
    }
    assert_eq!(refused("pane.report_agent", json!(["a", ""])), None, "its number was not used up");
    assert_eq!(herdr.pane("w1:p1").resume.unwrap(), ["a", ""]);
}

#[test]
fn it_answers_nothing_but_unavailable_while_it_stops() {
    let herdr = FakeHerdr::start(Behaviour::Answers);
    herdr.change(|model| model.stopping = true);
    let answer = ask(&herdr, "ping", &json!({}));
    assert_eq!(answer["error"]["code"], "server_unavailable");
}

/// Code that names a rule of `herdr/PROTOCOL.md` names one that is there.
#[test]
fn every_rule_that_code_names_is_written_down() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let protocol = std::fs::read_to_string(root.join("herdr/PROTOCOL.md")).unwrap();
    let mut folders = vec![root.join("herdr"), root.join("tests/support/fake_herdr")];
    let mut named = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let is_rule = |word: &&str| {
                word.len() == 4 && word.starts_with('H') && word[1..].parse::<u32>().is_ok()
            };
            for rule in text.split(|c: char| !c.is_alphanumeric()).filter(is_rule) {
                assert!(protocol.contains(&format!("**{rule}**")), "{rule} in {}", path.display());
                named += 1;
            }
        }
    }
    assert!(named > 50, "{named}");
}
