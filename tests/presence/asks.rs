//! Questions to the user: four kinds, and what becomes of them.

use std::thread;
use std::time::Duration;

use agent_presence::collie::{ActionView, DecidedBy, Field, FieldKind};
use serde_json::json;

use crate::rig;
use crate::support::phone::Phone;

#[test]
fn four_kinds_are_asked_and_answered() {
    let rig = rig();
    let session = rig.presence.session("s").open().unwrap();
    let one = session.ask("Which?").option("a", "A").option("b", "B").raise().unwrap();
    let more = session.ask("Which ones?").option("a", "A").option("b", "B").option("c", "C");
    let more = more.several(1, 2).reason("It matters.").tool("pick()").raise().unwrap();
    let line = session.ask_text("Name?").placeholder("a name").max_length(5).raise().unwrap();
    let fields = [Field::new("n", "How many", FieldKind::Number).required()];
    let form = session.ask_form("Fill in", fields).timeout(Duration::from_secs(600));
    let form = form.item("i1").raise().unwrap();
    let yes = session.approve("refund", json!({"amount": 40})).reason("He asked.").raise().unwrap();
    let asks = rig.phone.pane("s")["asks"].as_array().unwrap().clone();
    assert_eq!(asks.len(), 5);
    assert_eq!((&asks[1]["reason"], &asks[1]["tool"]), (&json!("It matters."), &json!("pick()")));
    assert_eq!((&asks[3]["itemId"], &asks[3]["expiresAt"].is_string()), (&json!("i1"), &true));
    assert_eq!(asks[4]["tool"], "refund(amount: 40)");
    let answers = [
        json!({"optionIds": ["b"]}),
        json!({"optionIds": ["a", "c"]}),
        json!({"text": "Ada"}),
        json!({"values": {"n": 3}}),
        json!({"optionIds": ["allow"]}),
    ];
    for (ask, answer) in asks.iter().zip(&answers) {
        assert_eq!(rig.phone.answer("s", ask["id"].as_str().unwrap(), answer).status, 200);
    }
    assert_eq!(one.wait().unwrap().option_ids(), ["b"]);
    assert_eq!(more.wait().unwrap().option_ids(), ["a", "c"]);
    assert_eq!(line.wait().unwrap().text(), Some("Ada"));
    assert_eq!(form.wait().unwrap().values().unwrap()["n"], 3);
    let verdict = yes.wait();
    assert!(verdict.approved);
    assert_eq!(verdict.decided_by, DecidedBy::Phone);
}

#[test]
fn a_question_that_breaks_a_rule_says_which_and_blocks_nobody() {
    let rig = rig();
    let session = rig.presence.session("s").open().unwrap();
    let error = session.ask("Which?").option("a", "A").raise().unwrap_err();
    assert!(error.to_string().starts_with("choice options are 1, not 2 to 20"), "{error}");
    let error = session.ask_text("Name?").max_length(5000).raise().unwrap_err();
    assert!(error.to_string().starts_with("text maxLength"), "{error}");
    assert_eq!(rig.phone.pane("s")["state"], "idle");
}

#[test]
fn herdr_is_blocked_by_one_report_and_back_with_the_answer() {
    let rig = rig();
    let session = rig.presence.session("s").open().unwrap();
    session.working();
    rig.herdr.wait_for_state("working");
    let before = rig.herdr.requests().iter().filter(|request| request.state().is_some()).count();
    let first = session.ask("One?").option("y", "Y").option("n", "N").raise().unwrap();
    let second = session.ask("Two?").option("y", "Y").option("n", "N").raise().unwrap();
    let pane = rig.herdr.wait_for_state("blocked");
    assert_eq!(pane.holder.unwrap().message.as_deref(), Some("One?"));
    let states: Vec<_> =
        rig.herdr.requests().into_iter().filter_map(|r| r.state().map(str::to_owned)).collect();
    assert_eq!(states[before], "blocked", "the very next report");
    rig.phone.answer("s", first.id(), &json!({"optionIds": ["y"]}));
    // The last ask keeps it blocked.
    assert_eq!(rig.phone.pane("s")["state"], "waiting");
    rig.herdr.wait_for_pane(|pane| {
        pane.holder.as_ref().is_some_and(|holder| holder.message.as_deref() == Some("Two?"))
    });
    rig.phone.answer("s", second.id(), &json!({"optionIds": ["n"]}));
    // Both faces were switched back before the phone heard that its answer was taken.
    assert_eq!(rig.phone.pane("s")["state"], "working");
    rig.herdr.wait_for_state("working");
}

#[test]
fn a_timeout_approves_nothing_and_a_dropped_ask_takes_its_card_along() {
    let rig = rig();
    let session = rig.presence.session("s").open().unwrap();
    let late = session.approve("bash", ()).timeout(Duration::from_millis(20)).raise().unwrap();
    let verdict = late.wait();
    assert!(!verdict.approved);
    assert_eq!(verdict.decided_by, DecidedBy::Timeout);
    let dropped = session.approve("bash", ()).raise().unwrap();
    let id = dropped.id().to_owned();
    drop(dropped);
    assert_eq!(rig.phone.pane("s")["asks"], json!([]));
    let reply = rig.phone.answer("s", &id, &json!({"optionIds": ["allow"]}));
    assert_eq!(
        (&reply.json()["code"], &reply.json()["decidedBy"]),
        (&json!("ask-closed"), &json!("program"))
    );
    assert_eq!(rig.phone.pane("s")["state"], "idle");
}

/// The phone was faster than the one who gave up: the same question of the same call has its answer
/// already, once, and another question of that call has not.
#[test]
fn an_ask_raised_again_gets_its_answer() {
    let rig = rig();
    let session = rig.presence.session("s").open().unwrap();
    let deploy = |target: &str| session.approve("deploy", json!({"to": target})).call("call-1");
    for (again, is_answered) in [("staging", true), ("production", false)] {
        let first = deploy("staging").raise().unwrap();
        let id = first.id().to_owned();
        rig.phone.answer("s", &id, &json!({"optionIds": ["allow"]}));
        drop(first);
        let second = deploy(again).raise().unwrap();
        assert_eq!(second.id(), id, "derived from the call");
        assert_eq!(rig.phone.pane("s")["asks"] == json!([]), is_answered);
        if is_answered {
            assert!(second.wait().approved);
            let third = deploy(again).raise().unwrap();
            assert_ne!(rig.phone.pane("s")["asks"], json!([]), "given once");
            drop(third);
        } else {
            drop(second);
        }
    }
}

#[test]
fn any_executor_can_await() {
    let rig = rig();
    let session = rig.presence.session("s").open().unwrap();
    let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let socket = rig.phone.socket().to_owned();
    let user = thread::spawn(move || {
        let phone = crate::support::phone::Phone::at(socket);
        for _ in 0..2 {
            let (pane, ask) = phone.wait_for_ask();
            phone.answer(&pane, ask["id"].as_str().unwrap(), &json!({"optionIds": ["allow"]}));
        }
    });
    assert!(tokio.block_on(session.approve("a", ()).raise().unwrap()).approved);
    let verdict = pollster::block_on(async { session.approve("b", ()).await });
    assert!(verdict.unwrap().approved);
    user.join().unwrap();
}

/// A stop, a steer and a tap that wait for an agent which does not look hold no answer up.
#[test]
fn no_answer_waits_for_a_wish_that_nobody_takes() {
    let rig = rig();
    let session = rig.presence.session("s").open().unwrap();
    session.actions([ActionView::new("retry", "Retry")]).unwrap();
    session.working();
    let ask = session.approve("rm", ()).raise().unwrap();
    let socket = rig.phone.socket();
    let post = |path: &str, body: serde_json::Value| Phone::at(socket).post(path, &body);
    thread::scope(|scope| {
        let stop = scope.spawn(|| post("panes/s/stop", json!({"requestId": "stop"})));
        // It waits for the agent, and the others behind it.
        let inbox = session.inbox();
        let taken = inbox.wait().unwrap();
        let steer = scope.spawn(|| {
            post("panes/s/send", json!({"requestId": "steer", "text": "no", "steer": true}))
        });
        let tap = scope.spawn(|| post("panes/s/actions/retry", json!({"requestId": "tap"})));
        let reply = rig.phone.answer("s", ask.id(), &json!({"optionIds": ["allow"]}));
        assert_eq!(reply.status, 200);
        assert!(ask.wait().approved);
        assert!(!stop.is_finished() && !steer.is_finished() && !tap.is_finished());
        taken.accept();
        assert_eq!(stop.join().unwrap().status, 200);
        for _ in 0..2 {
            inbox.wait().unwrap().accept();
        }
        assert_eq!((steer.join().unwrap().status, tap.join().unwrap().status), (200, 200));
    });
}
