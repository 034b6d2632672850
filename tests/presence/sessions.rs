//! Sessions, their states and their chat, in both places.

use agent_presence::collie::{DecidedBy, Item, ToolStatus};
use agent_presence::presence::Old;
use serde_json::json;

use crate::{items, rig};

fn releases(herdr: &crate::FakeHerdr) -> usize {
    herdr.requests_of("pane.release_agent").len()
}

#[test]
fn a_resume_command_is_reported_and_a_bad_one_says_which_rule_broke() {
    let rig = rig();
    let error = rig.presence.session("s").resume(["my-agent", "it's"]).unwrap_err();
    assert_eq!(error.to_string(), "word 2 of the resume command has an apostrophe");
    let opening = rig.presence.session("s").resume(["my-agent", "--resume", "s"]).unwrap();
    let _session = opening.open().unwrap();
    let request = rig.herdr.wait_for(|request| request.resume().is_some());
    assert_eq!(request.resume().unwrap(), ["my-agent", "--resume", "s"]);
    assert_eq!(request.params["agent_session_id"], "s");
}

/// Whoever waits for the wishes of a session goes on with the one that takes its place.
#[test]
fn an_inbox_outlives_the_session_that_is_replaced() {
    let presence = agent_presence::Presence::builder("my-agent").without_collie().without_herdr();
    let presence = presence.start().unwrap();
    let mut session = presence.session("s").open().unwrap();
    let inbox = session.inbox();
    let waiting = std::thread::spawn(move || inbox.wait().is_none());
    for number in 0..500 {
        let next = presence.session(&format!("s-{number}")).replaces(&session, Old::Closes);
        session = next.open().unwrap();
        assert!(!waiting.is_finished(), "after {number}");
    }
    session.release();
    assert!(waiting.join().unwrap(), "its end is the end of the wait");
}

#[test]
fn blocked_without_an_ask_is_a_label_and_a_notice() {
    let rig = rig();
    let session = rig.presence.session("s").open().unwrap();
    session.blocked("log in");
    let pane = rig.herdr.wait_for_state("blocked");
    assert_eq!(pane.holder.unwrap().message.as_deref(), Some("log in"));
    rig.phone.wait_for("waiting", |state| state["panes"][0]["state"] == "waiting");
    let notices = items(&rig.phone, "s");
    assert_eq!(notices.len(), 1);
    assert_eq!((&notices[0]["kind"], &notices[0]["text"]), (&json!("notice"), &json!("log in")));
    session.idle();
    rig.herdr.wait_for_state("idle");
    // Another part of the agent says that it works; the reason stays until it is dropped.
    let block = session.block("press a key");
    session.working();
    rig.herdr.wait_for_state("blocked");
    assert_eq!(rig.phone.pane("s")["state"], "waiting");
    drop(block);
    assert_eq!(rig.phone.pane("s")["state"], "working");
    rig.herdr.wait_for_state("working");
    assert_eq!(items(&rig.phone, "s").len(), 2);
}

#[test]
fn herdr_shows_the_session_that_was_active_last_or_the_named_one() {
    let rig = rig();
    let one = rig.presence.session("one").title("First").open().unwrap();
    let two = rig.presence.session("two").title("Second").open().unwrap();
    let shown = |session: &str, state: &str| {
        rig.herdr.wait_for(|request| {
            request.params["agent_session_id"] == session && request.state() == Some(state)
        });
    };
    rig.herdr.wait_for_state("idle");
    one.working();
    shown("one", "working");
    rig.herdr.wait_for(|request| request.params["title"] == "First");
    assert_eq!(rig.phone.pane("one")["state"], "working");
    assert_eq!(rig.phone.pane("two")["state"], "idle");
    two.foreground();
    shown("two", "idle");
    one.blocked("log in");
    rig.phone.wait_for("waiting", |state| state["panes"][0]["state"] == "waiting");
    // The first one ends: Herdr goes on with the other, and nothing is released.
    two.release();
    shown("one", "blocked");
    assert_eq!(releases(&rig.herdr), 0);
    one.release();
    rig.herdr.wait_for_pane(|pane| pane.holder.is_none());
    assert_eq!(releases(&rig.herdr), 1);
    assert_eq!(rig.phone.state()["panes"], json!([]));
}

#[test]
fn a_switch_is_a_new_report_and_never_a_release() {
    let rig = rig();
    let first = rig.presence.session("first").open().unwrap();
    first.working();
    rig.herdr.wait_for_state("working");
    let second = rig.presence.session("second").replaces(&first, Old::Stays).open().unwrap();
    rig.herdr.wait_for(|request| request.params["agent_session_id"] == "second");
    assert_eq!(rig.phone.pane("first")["state"], "idle", "it stays, to be read");
    // Who still has the old handle speaks for the new session.
    assert_eq!(first.id(), "second");
    first.working();
    rig.phone.wait_for("working", |state| state["panes"][1]["state"] == "working");
    let back = rig.presence.session("first").replaces(&second, Old::Closes).open().unwrap();
    assert_eq!(rig.phone.pane("second"), json!(null));
    assert_eq!((first.id(), second.id(), back.id()), ("first", "first", "first"));
    assert_eq!(releases(&rig.herdr), 0);
    first.release();
    rig.herdr.wait_for_pane(|pane| pane.holder.is_none());
    assert_eq!(releases(&rig.herdr), 1);
}

/// Whatever the two sessions have: one report that names the new one, and nobody's state for another's.
#[test]
fn a_switch_with_the_same_state_and_no_command_is_a_report_too() {
    let rig = rig();
    let opening = rig.presence.session("first").resume(["my-agent", "--resume", "first"]).unwrap();
    let first = opening.open().unwrap();
    first.foreground();
    rig.herdr.wait_for_state("idle");
    first.blocked("log in");
    rig.herdr.wait_for_state("blocked");
    // It takes over the place in the foreground, also of a session that was named.
    let second = rig.presence.session("second").replaces(&first, Old::Closes).open().unwrap();
    rig.herdr.wait_for_state("idle");
    let third = rig.presence.session("third").replaces(&second, Old::Closes).open().unwrap();
    let names = |request: &crate::support::fake_herdr::Request| {
        request.params["agent_session_id"] == "third"
    };
    assert_eq!(rig.herdr.wait_for(names).state(), Some("idle"));
    third.working();
    rig.herdr.wait_for_state("working");
    let reports: Vec<_> = rig
        .herdr
        .requests()
        .into_iter()
        .filter_map(|request| {
            let session = request.params["agent_session_id"].as_str()?.to_owned();
            Some((session, request.state()?.to_owned()))
        })
        .collect();
    let expected = [
        ("first", "idle"),
        ("first", "blocked"),
        ("second", "idle"),
        ("third", "idle"),
        ("third", "working"),
    ];
    assert_eq!(reports, expected.map(|(id, state)| (id.to_owned(), state.to_owned())));
    assert_eq!(releases(&rig.herdr), 0);
    // The command of the first one is still in force, and the status says so.
    assert_eq!(rig.herdr.pane("w1:p1").resume.unwrap()[2], "first");
    assert!(rig.presence.herdr_status().unwrap().resumes_another_session);
}

/// Nobody waits any more for what a session asked that the agent has left, also where its pane stays.
#[test]
fn the_asks_of_a_session_that_is_left_are_withdrawn() {
    for old in [Old::Stays, Old::Closes] {
        let rig = rig();
        let first = rig.presence.session("first").open().unwrap();
        let ask = first.ask("Sure?").option("y", "Y").option("n", "N").raise().unwrap();
        let late = first.ask("And now?").option("y", "Y").option("n", "N");
        rig.herdr.wait_for_state("blocked");
        let _second = rig.presence.session("second").replaces(&first, old).open().unwrap();
        assert_eq!(ask.wait().unwrap_err().decided_by, DecidedBy::Program);
        assert!(late.raise().is_err(), "it was begun in the session that was left");
        let panes = rig.phone.state()["panes"].clone();
        let is_quiet =
            |pane: &serde_json::Value| pane["state"] == "idle" && pane["asks"] == json!([]);
        assert!(panes.as_array().unwrap().iter().all(is_quiet), "{panes}");
        assert_eq!(panes.as_array().unwrap().len(), if old == Old::Stays { 2 } else { 1 });
        rig.herdr.wait_for_state("idle");
        // Who still has the old handle asks in the new session.
        let ask = first.ask("Sure?").option("y", "Y").option("n", "N").raise().unwrap();
        assert_eq!(rig.phone.pane("second")["asks"][0]["id"], ask.id());
    }
}

#[test]
fn items_of_all_kinds_are_in_the_chat_and_a_reply_grows() {
    let rig = rig();
    let session = rig.presence.session("s").open().unwrap();
    assert_eq!(session.turn(), None);
    session.working();
    assert_eq!(session.turn().as_deref(), Some("t-1"));
    let reply = session.reply("r1");
    reply.partial("Look").unwrap();
    reply.partial("Looking at").unwrap();
    session.item(Item::tool("call", "bash", ToolStatus::Running).input("ls")).unwrap();
    session.item(Item::code("c", "fn main() {}", Some("rust"))).unwrap();
    session.item(Item::link("l", "docs", "https://example.com/")).unwrap();
    session.item(Item::progress("p", Some("tests"), 0.5)).unwrap();
    assert!(items(&rig.phone, "s")[0]["partial"] == true);
    reply.done("Looking at the log.").unwrap();
    let error = session.item(Item::link("l", "docs", "javascript:x")).unwrap_err();
    assert!(error.to_string().contains("link href"), "{error}");
    let kinds: Vec<_> = items(&rig.phone, "s")
        .iter()
        .map(|item| item["kind"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["reply", "tool", "code", "link", "progress"]);
    assert_eq!(items(&rig.phone, "s")[0]["text"], "Looking at the log.");
    assert!(session.item(Item::reply("a b", "x")).is_err());
    session.title("Another title").unwrap();
    assert_eq!(rig.phone.pane("s")["title"], "Another title");
    rig.herdr.wait_for(|request| request.params["title"] == "Another title");
    assert!(session.title("a\u{7}b").is_err());
}

/// A session that has ended takes every call, and shows nothing.
#[test]
fn calls_after_the_end_change_nothing_and_fail_nothing() {
    let rig = rig();
    let session = rig.presence.session("s").open().unwrap();
    rig.herdr.wait_for_state("idle");
    session.clone().release();
    rig.herdr.wait_for_pane(|pane| pane.holder.is_none());
    let states = || rig.herdr.requests().iter().filter(|request| request.state().is_some()).count();
    let reports = states();
    session.working();
    session.say("Is anybody there?").unwrap();
    session.title("Nobody").unwrap();
    assert!(!session.is_open());
    assert!(session.inbox().wait().is_none());
    assert!(session.approve("rm", ()).raise().is_err(), "nobody can be asked");
    session.clone().release();
    assert_eq!(rig.phone.state()["panes"], json!([]));
    assert_eq!(states(), reports);
    // Its id is free again.
    let again = rig.presence.session("s").open().unwrap();
    again.working();
    rig.phone.wait_for("working", |state| state["panes"][0]["state"] == "working");
}
