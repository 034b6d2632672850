//! What the phone wants reaches the agent once, in order, or is refused.

use std::thread;
use std::time::Duration;

use agent_presence::collie::{ActionView, Target};
use agent_presence::presence::{Takes, Wanted};
use serde_json::json;

use crate::{items, rig, rig_with};

/// The agent's side on a thread: accepts everything, and gives what it accepted.
fn take(inbox: &agent_presence::presence::Inbox, count: usize) -> thread::JoinHandle<Vec<Wanted>> {
    let inbox = inbox.clone();
    thread::spawn(move || (0..count).map_while(|_| Some(inbox.wait()?.accept())).collect())
}

fn text(text: &str) -> Wanted {
    Wanted::Send { text: text.to_owned() }
}

#[test]
fn an_agent_that_takes_nothing_has_its_caps_off() {
    let rig = rig_with(|builder| builder);
    let _session = rig.presence.session("s").open().unwrap();
    let caps = rig.phone.hello()["caps"].clone();
    assert_eq!(caps["asks"], true);
    for off in ["send", "steer", "abort", "actions", "rename", "close", "reopen", "starters"] {
        assert_eq!(caps[off], false, "{off}");
    }
    assert_eq!(rig.phone.send("s", "hi").json()["code"], "not-supported");
}

#[test]
fn caps_are_what_the_agent_takes() {
    let takes = Takes { send: true, stop: true, ..Takes::NONE };
    let rig = rig_with(|builder| builder.takes(takes));
    let caps = rig.phone.hello()["caps"].clone();
    assert_eq!((&caps["send"], &caps["abort"]), (&json!(true), &json!(true)));
    assert_eq!((&caps["steer"], &caps["close"]), (&json!(false), &json!(false)));
}

#[test]
fn a_text_is_taken_once_and_shown_with_its_request() {
    let rig = rig();
    let session = rig.presence.session("s").open().unwrap();
    let agent = take(&session.inbox(), 1);
    let body = json!({"requestId": "r1", "text": "please deploy"});
    let reply = rig.phone.post("panes/s/send", &body);
    assert_eq!((reply.status, &reply.json()["queued"]), (200, &json!(false)));
    assert_eq!(agent.join().unwrap(), [text("please deploy")]);
    assert_eq!(rig.phone.post("panes/s/send", &body).json()["replayed"], true);
    assert!(session.inbox().try_recv().is_none(), "once");
    let items = items(&rig.phone, "s");
    assert_eq!(items.len(), 1);
    assert_eq!(
        (&items[0]["kind"], &items[0]["text"], &items[0]["requestId"]),
        (&json!("user"), &json!("please deploy"), &json!("r1"))
    );
}

#[test]
fn texts_wait_for_the_end_of_the_turn_in_order_and_a_steer_does_not() {
    let rig = rig();
    let session = rig.presence.session("s").open().unwrap();
    let inbox = session.inbox();
    session.working();
    rig.phone.wait_for("working", |state| state["panes"][0]["state"] == "working");
    for words in ["one", "two"] {
        let reply = rig.phone.send("s", words);
        assert_eq!((reply.status, &reply.json()["queued"]), (200, &json!(true)));
    }
    assert!(inbox.try_recv().is_none(), "a turn runs");
    assert_eq!(items(&rig.phone, "s"), Vec::<serde_json::Value>::new(), "nobody took them up yet");
    let agent = take(&inbox, 1);
    assert_eq!(rig.phone.steer("s", "not there").status, 200);
    assert_eq!(agent.join().unwrap(), [Wanted::Steer { text: "not there".to_owned() }]);
    assert!(inbox.try_recv().is_none());

    session.idle();
    assert_eq!(inbox.wait().unwrap().accept(), text("one"));
    // The next turn begins: the second one waits again.
    session.working();
    assert!(inbox.try_recv().is_none());
    session.idle();
    assert_eq!(inbox.wait().unwrap().accept(), text("two"));
    let items = items(&rig.phone, "s");
    let texts: Vec<_> = items.iter().map(|item| item["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["not there", "one", "two"]);
}

/// What blocks a turn would get the text that waits for its end: a dialog takes Enter for a yes.
#[test]
fn no_text_waits_behind_what_blocks_a_turn() {
    let rig = rig();
    let session = rig.presence.session("s").open().unwrap();
    session.working();
    rig.phone.wait_for("a turn", |state| state["panes"][0]["state"] == "working");
    session.blocked("log in");
    rig.phone.wait_for("a block", |state| state["panes"][0]["state"] == "waiting");
    let reply = rig.phone.send("s", "yes");
    assert_eq!((reply.status, &reply.json()["code"]), (409, &json!("refused")));
    assert_eq!(reply.json()["reason"], "A question is open at the agent's terminal.");
    session.working();
    rig.phone.wait_for("the turn", |state| state["panes"][0]["state"] == "working");
    assert_eq!(rig.phone.send("s", "go on").json()["queued"], true);
}

#[test]
fn every_kind_of_wish_arrives() {
    let rig = rig();
    let session = rig.presence.session("s").open().unwrap();
    session.actions([ActionView::new("retry", "Retry")]).unwrap();
    rig.presence.starters([ActionView::new("new", "New")]).unwrap();
    let all = rig.presence.inbox();
    let agent = take(&all, 3);
    assert_eq!(rig.phone.stop("s").status, 200);
    assert_eq!(rig.phone.tap("s", "retry").status, 200);
    let target = json!({"pane": "s"});
    let rename = json!({"requestId": "n", "target": target, "title": "Better"});
    assert_eq!(rig.phone.post("rename", &rename).json()["title"], "Better");
    let action = Wanted::Action { action: "retry".to_owned(), item: None };
    let pane = Target::Pane("s".to_owned());
    let rename = Wanted::Rename { target: pane.clone(), title: "Better".to_owned() };
    assert_eq!(agent.join().unwrap(), [Wanted::Stop, action, rename]);
    assert_eq!(rig.phone.pane("s")["title"], "Better");
    rig.herdr.wait_for(|request| request.params["title"] == "Better");

    let presence = rig.presence.clone();
    let agent = thread::spawn(move || {
        let inbox = presence.inbox();
        let start = inbox.wait().unwrap();
        let session = presence.session("s-2").open().unwrap();
        let started = start.accept_with(&session);
        let close = inbox.wait().unwrap().accept();
        session.close();
        let reopen = inbox.wait().unwrap();
        let session = presence.session("s-2").open().unwrap();
        (started, close, reopen.accept(), session.id().to_owned())
    });
    let start = json!({"requestId": "st", "starterId": "new", "text": "go"});
    assert_eq!(rig.phone.post("start", &start).json()["paneId"], "s-2");
    let close = json!({"requestId": "cl", "target": {"pane": "s-2"}});
    assert_eq!(rig.phone.post("close", &close).status, 200);
    rig.phone.wait_for("closed pane", |state| state["panes"].as_array().unwrap().len() == 1);
    let reopen = json!({"requestId": "re", "sessionId": "s-2"});
    assert_eq!(rig.phone.post("reopen", &reopen).json()["paneId"], "s-2");
    let (started, close, reopen, id) = agent.join().unwrap();
    let text = Some("go".to_owned());
    assert_eq!(started, Wanted::Start { starter: "new".to_owned(), text });
    assert_eq!(close, Wanted::Close { target: Target::Pane("s-2".to_owned()) });
    assert_eq!(reopen, Wanted::Reopen { session: "s-2".to_owned() });
    assert_eq!(id, "s-2");
}

#[test]
fn a_wish_that_nobody_takes_is_refused_in_time() {
    let rig = rig_with(|builder| builder.takes(Takes::ALL).patience(Duration::from_millis(50)));
    let session = rig.presence.session("s").open().unwrap();
    let reply = rig.phone.send("s", "hello?");
    assert_eq!(reply.json()["code"], "refused");
    assert_eq!(reply.json()["reason"], "The agent did not take it in time.");
    assert!(session.inbox().try_recv().is_none(), "what is refused is not done later");
    // Text that was queued has its answer already: the chat says that nobody took it.
    session.working();
    rig.phone.wait_for("working", |state| state["panes"][0]["state"] == "working");
    assert_eq!(rig.phone.send("s", "and now?").json()["queued"], true);
    session.idle();
    rig.phone.wait_for("notice", |_| {
        let items = items(&rig.phone, "s");
        items.iter().any(|item| {
            item["kind"] == "notice"
                && item["text"].as_str().unwrap().ends_with("Not taken: and now?")
        })
    });
    assert!(session.inbox().try_recv().is_none());
}

/// The turn begins at the same moment as the text comes: it is queued all the same, and not refused.
#[test]
fn a_text_that_meets_the_beginning_of_a_turn_waits_for_its_end() {
    let rig = rig_with(|builder| builder.takes(Takes::ALL).patience(Duration::from_millis(100)));
    let session = rig.presence.session("s").open().unwrap();
    let inbox = session.inbox();
    for round in 0..10 {
        let words = format!("round {round}");
        let socket = rig.phone.socket();
        thread::scope(|scope| {
            let sent = scope.spawn(|| send(socket, &words));
            session.working();
            assert_eq!(sent.join().unwrap(), 200);
        });
        assert!(inbox.try_recv().is_none());
        session.idle();
        assert_eq!(inbox.wait().unwrap().accept(), text(&words));
    }
}

#[test]
fn what_the_agent_drops_or_refuses_is_refused() {
    let rig = rig();
    let session = rig.presence.session("s").open().unwrap();
    let inbox = session.inbox();
    let agent = thread::spawn(move || {
        drop(inbox.wait());
        inbox.wait().unwrap().refuse("Not while the tests run.");
        inbox
    });
    let reply = rig.phone.stop("s");
    assert_eq!(reply.json()["reason"], "The agent did not take it.");
    let reply = rig.phone.stop("s");
    assert_eq!(reply.json()["reason"], "Not while the tests run.");
    let inbox = agent.join().unwrap();
    // What waits when the session ends is refused too, and who waits hears of the end.
    let agent = thread::spawn(move || inbox.wait().map(agent_presence::presence::Wish::accept));
    session.release();
    assert_eq!(agent.join().unwrap(), None);
    assert_eq!(rig.phone.stop("s").json()["code"], "unknown-pane");
}

/// From a plain thread (above), from tokio's current thread, and from another executor; a receive
/// that was dropped has taken nothing.
#[test]
fn any_executor_can_wait_and_cancel() {
    let rig = rig();
    let session = rig.presence.session("s").open().unwrap();
    let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let inbox = session.inbox();
    let socket = rig.phone.socket();
    for round in 0..20 {
        tokio.block_on(async {
            let none = tokio::time::timeout(Duration::from_millis(1), inbox.recv()).await;
            assert!(none.is_err());
        });
        let words = format!("round {round}");
        let sent = thread::scope(|scope| {
            let sent = scope.spawn(|| send(socket, &words));
            let wish = if round % 2 == 0 {
                tokio.block_on(inbox.recv())
            } else {
                pollster::block_on(inbox.recv())
            };
            assert_eq!(wish.unwrap().accept(), text(&words));
            sent.join().unwrap()
        });
        assert_eq!(sent, 200);
    }
}

fn send(socket: &std::path::Path, words: &str) -> u16 {
    let body = json!({"requestId": words.replace(' ', "-"), "text": words});
    crate::support::phone::Phone::at(socket).post("panes/s/send", &body).status
}
