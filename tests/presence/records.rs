//! A presence that keeps its sessions, and what comes back when it is started again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use agent_presence::collie::CallerCheck;
use agent_presence::herdr::Environment;
use agent_presence::presence::{FaceStatus, Presence, Session, Takes, Wanted};
use serde_json::{Value, json};

use crate::items;
use crate::support::fake_herdr::{Behaviour, FakeHerdr};
use crate::support::phone::Phone;

struct Life {
    presence: Presence,
    session: Session,
    records: PathBuf,
}

fn live(folder: &Path, herdr: &FakeHerdr) -> Life {
    let presence = Presence::builder("my-agent")
        .herdr(Environment::new("w1:p1", herdr.socket_path()).with_binary("/nope/herdr"))
        .caller_check(CallerCheck::Off)
        .takes(Takes::ALL)
        .collie_socket(folder.join("private/collie.sock"))
        .durable_in(folder.join("records"))
        .start()
        .unwrap();
    assert!(matches!(presence.status().records, FaceStatus::On(_)), "{:?}", presence.status());
    let session = presence.session("s").open().unwrap();
    Life { presence, session, records: folder.join("records") }
}

impl Life {
    /// The process ends, and nobody quit. What a test has leaked keeps its files, so the next life has
    /// copies of them.
    fn end(self) {
        drop(self.session);
        self.presence.close();
        let old = self.records.with_extension("old");
        fs::rename(&self.records, &old).unwrap();
        let copied = Command::new("cp").arg("-r").args([&old, &self.records]).status();
        assert!(copied.unwrap().success());
        fs::remove_dir_all(&old).unwrap();
    }
}

fn folder() -> tempfile::TempDir {
    // Not `TMPDIR`: the path of a socket has 103 bytes.
    tempfile::Builder::new().prefix("ap").tempdir_in("/tmp").unwrap()
}

fn texts(phone: &Phone) -> Vec<String> {
    let items = items(phone, "s");
    items.iter().filter_map(|item| item["text"].as_str()).map(str::to_owned).collect()
}

#[test]
fn a_card_blocks_the_session_until_it_is_answered_and_the_same_call_has_the_answer() {
    let (folder, herdr) = (folder(), FakeHerdr::start(Behaviour::Answers));
    let phone = Phone::at(folder.path().join("private/collie.sock"));
    let arguments = || json!({"target": "staging"});
    let life = live(folder.path(), &herdr);
    life.session.working();
    let approval = life.session.approve("deploy", arguments()).call("c1").raise().unwrap();
    let random = life.session.ask_text("Name?").raise().unwrap();
    let card = phone.pane("s")["asks"][0].clone();
    // An exit is no answer: what waits is leaked, as a kill does.
    std::mem::forget((approval, random));
    life.end();

    let life = live(folder.path(), &herdr);
    let pane = phone.pane("s");
    assert_eq!((&pane["state"], &pane["asks"]), (&json!("waiting"), &json!([card])));
    herdr.wait_for_state("blocked");
    assert!(texts(&phone).contains(&"Withdrawn before an answer: Name?".to_owned()));
    assert_eq!(phone.send("s", "hello").json()["code"], "ask-open");
    let ask = card["id"].as_str().unwrap();
    assert_eq!(phone.answer("s", ask, &json!({"optionIds": ["allow"]})).status, 200);
    assert_eq!(phone.pane("s")["state"], "idle", "nothing runs");
    let approval = life.session.approve("deploy", arguments()).call("c1").raise().unwrap();
    assert_eq!(phone.pane("s")["asks"], json!([]), "no second card");
    assert!(approval.wait().approved);
    // Once: the next call is asked about.
    let approval = life.session.approve("deploy", arguments()).call("c1").raise().unwrap();
    assert_eq!(phone.pane("s")["asks"][0]["id"], card["id"]);
    drop(approval);
    life.end();
}

#[test]
fn a_card_that_is_not_raised_again_in_a_whole_turn_is_withdrawn() {
    let (folder, herdr) = (folder(), FakeHerdr::start(Behaviour::Answers));
    let phone = Phone::at(folder.path().join("private/collie.sock"));
    let life = live(folder.path(), &herdr);
    for call in ["c1", "c2"] {
        let approval = life.session.approve("deploy", json!({"to": call})).call(call);
        std::mem::forget(approval.raise().unwrap());
    }
    life.end();
    let life = live(folder.path(), &herdr);
    life.session.working();
    let approval = life.session.approve("deploy", json!({"to": "c2"})).call("c2").raise().unwrap();
    assert_eq!(phone.pane("s")["asks"].as_array().unwrap().len(), 2);
    life.session.idle();
    let state = phone
        .wait_for("one card", |state| state["panes"][0]["asks"].as_array().unwrap().len() == 1);
    assert_eq!(state["panes"][0]["asks"][0]["id"], approval.id());
    drop(approval);
    phone.wait_for("idle", |state| state["panes"][0]["state"] == "idle");
    life.end();
}

#[test]
fn a_turn_and_a_notice_are_new_after_a_restart() {
    let (folder, herdr) = (folder(), FakeHerdr::start(Behaviour::Answers));
    let phone = Phone::at(folder.path().join("private/collie.sock"));
    let life = live(folder.path(), &herdr);
    life.session.working();
    assert_eq!(life.session.turn().as_deref(), Some("t-1"));
    life.session.blocked("Log in.");
    phone.wait_for("waiting", |state| state["panes"][0]["state"] == "waiting");
    life.session.say("first").unwrap();
    life.end();
    let life = live(folder.path(), &herdr);
    life.session.working();
    assert_eq!(life.session.turn().as_deref(), Some("t-2"));
    life.session.blocked("Log in.");
    phone.wait_for("waiting", |state| state["panes"][0]["state"] == "waiting");
    assert_eq!(texts(&phone), ["Log in.", "first", "Log in."]);
    let stale = json!({"requestId": "r", "turnId": "t-1"});
    assert_eq!(phone.post("panes/s/stop", &stale).json()["code"], "turn-moved");
    life.end();
}

#[test]
fn a_text_that_waited_is_in_the_inbox_again_and_no_request_runs_twice() {
    let (folder, herdr) = (folder(), FakeHerdr::start(Behaviour::Answers));
    let phone = Phone::at(folder.path().join("private/collie.sock"));
    let life = live(folder.path(), &herdr);
    life.session.working();
    phone.wait_for("working", |state| state["panes"][0]["state"] == "working");
    let body = json!({"requestId": "r1", "text": "and then the docs"});
    let first = phone.post("panes/s/send", &body).json();
    assert_eq!(first["queued"], true);
    life.end();

    let life = live(folder.path(), &herdr);
    let mut again = phone.post("panes/s/send", &body).json();
    assert_eq!(again.as_object_mut().unwrap().remove("replayed"), Some(Value::Bool(true)));
    assert_eq!(again, first);
    let wish = life.session.inbox().wait_for(Duration::from_secs(10)).expect("the text");
    assert_eq!(wish.request_id(), "r1");
    assert_eq!(wish.accept(), Wanted::Send { text: "and then the docs".to_owned() });
    let user = items(&phone, "s").pop().unwrap();
    assert_eq!((&user["kind"], &user["requestId"]), (&json!("user"), &json!("r1")));
    life.end();

    let life = live(folder.path(), &herdr);
    assert_eq!(phone.post("panes/s/send", &body).json()["replayed"], true);
    assert!(life.session.inbox().try_recv().is_none());
    // What is handed out and neither accepted nor refused when the process ends is nobody's to know.
    life.session.working();
    phone.wait_for("working", |state| state["panes"][0]["state"] == "working");
    assert_eq!(phone.post("panes/s/send", &json!({"requestId": "r2", "text": "x"})).status, 200);
    life.session.idle();
    std::mem::forget(life.session.inbox().wait_for(Duration::from_secs(10)).expect("the text"));
    life.end();
    let life = live(folder.path(), &herdr);
    assert!(life.session.inbox().try_recv().is_none());
    let last = items(&phone, "s").pop().unwrap();
    let said = "The agent ended while it was given a text. Whether it took it is unknown: x";
    assert_eq!((&last["kind"], &last["text"]), (&json!("notice"), &json!(said)));
    life.end();
}

#[test]
fn a_session_that_is_quit_is_history_and_says_what_was_not_taken() {
    let (folder, herdr) = (folder(), FakeHerdr::start(Behaviour::Answers));
    let phone = Phone::at(folder.path().join("private/collie.sock"));
    let life = live(folder.path(), &herdr);
    life.session.working();
    phone.wait_for("working", |state| state["panes"][0]["state"] == "working");
    assert_eq!(phone.send("s", "one more thing").status, 200);
    life.session.release();
    let rows = phone.get("history").json();
    assert_eq!(
        (&rows["rows"][0]["id"], &rows["rows"][0]["state"]),
        (&json!("s"), &json!("closed"))
    );
    let items = phone.get("history/s").json();
    assert_eq!(items["items"][0]["text"], "The session has ended. Not taken: one more thing");
    life.presence.close();
    let life = live(folder.path(), &herdr);
    assert!(life.session.inbox().wait_for(Duration::from_millis(50)).is_none());
    life.end();
}

#[test]
fn without_a_folder_for_records_the_presence_goes_on() {
    let (folder, herdr) = (folder(), FakeHerdr::start(Behaviour::Answers));
    let in_the_way = folder.path().join("file");
    std::fs::write(&in_the_way, "").unwrap();
    let presence = Presence::builder("my-agent")
        .herdr(Environment::new("w1:p1", herdr.socket_path()).with_binary("/nope/herdr"))
        .caller_check(CallerCheck::Off)
        .collie_socket(folder.path().join("private/collie.sock"))
        .durable_in(in_the_way.join("records"))
        .start()
        .unwrap();
    let FaceStatus::Off(why) = presence.status().records else {
        panic!("{:?}", presence.status());
    };
    assert!(why.contains("Not a directory"), "{why}");
    let session = presence.session("s").open().unwrap();
    session.say("all the same").unwrap();
    let phone = Phone::at(folder.path().join("private/collie.sock"));
    assert_eq!(texts(&phone), ["all the same"]);
    presence.close();
}
