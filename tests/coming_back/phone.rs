//! On the phone it is the same conversation.

use serde_json::{Value, json};
use std::fs;

use super::{WRAP, is_ours, phone, user, verdicts, wait_for_runs};
use crate::support::phone::Phone;
use crate::support::terminal::eventually;

fn texts(phone: &Phone, pane: &str) -> Vec<String> {
    let view = phone.events(pane, None);
    let items = view["items"].as_array().unwrap();
    items.iter().filter_map(|item| item["text"].as_str()).map(str::to_owned).collect()
}

fn answer(phone: &Phone, pane: &str, ask: &Value, request: &str) -> Value {
    let body = json!({"requestId": request, "answer": {"optionIds": ["allow"]}});
    let reply = phone.post(&format!("panes/{pane}/asks/{}", ask["id"].as_str().unwrap()), &body);
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

/// What was said is there; the card that was open is open; the answer that comes while the agent is on its
/// way is what it gets when it asks again; and a request of before is told its first answer.
#[test]
fn the_conversation_goes_on_where_herdr_was_stopped() {
    let mut herdr = user("1");
    herdr.type_line(WRAP);
    herdr.wait_for_agent("toy-agent");
    let first = wait_for_runs(&herdr, 1)[0].clone();
    herdr.type_line("deploy-1");
    let at = phone(&herdr);
    let (pane, one) = at.wait_for_ask();
    assert_eq!(pane, first.session);
    let first_reply = answer(&at, &pane, &one, "r-1");
    eventually("a verdict", || verdicts(&herdr) == ["deploy-1 0"]);
    herdr.wait_for_agent("toy-agent");
    herdr.type_line("deploy-2");
    let (_, two) = at.wait_for_ask();
    herdr.wait_for_pane("w1:p1", "blocked agent", |pane| pane["agent_status"] == "blocked");
    // A read of the history waits until what was said before it is written.
    assert_eq!(at.get("history").status, 200);

    herdr.restart();
    let runs = wait_for_runs(&herdr, 2);
    assert_eq!(runs[1], first);
    assert!(is_ours(&herdr.typed()[0]), "{:?}", herdr.typed());
    let at = phone(&herdr);
    let heard = ["I have heard: deploy-1", "I have heard: deploy-2"];
    assert_eq!(texts(&at, &pane), heard);
    assert_eq!(at.pane(&pane)["asks"], json!([two]), "it is open again");
    herdr.wait_for_pane("w1:p1", "blocked agent", |pane| pane["agent_status"] == "blocked");
    assert_eq!(verdicts(&herdr), ["deploy-1 0"], "the agent has not asked again");
    let second_reply = answer(&at, &pane, &two, "r-2");
    fs::write(herdr.home().join("go"), "").unwrap();
    eventually("the answer", || verdicts(&herdr) == ["deploy-1 0", "deploy-2 0"]);
    herdr.wait_for_agent("toy-agent");
    assert_eq!(at.pane(&pane)["asks"], json!([]), "without a second card");

    // And once more: all of it is history now, and nothing is done twice.
    herdr.restart();
    let runs = wait_for_runs(&herdr, 3);
    assert_eq!(runs[2], first);
    herdr.wait_for_agent("toy-agent");
    assert_eq!(herdr.typed()[0], herdr.typed()[1]);
    let at = phone(&herdr);
    assert_eq!(texts(&at, &pane), heard);
    for (ask, request, reply) in [(&one, "r-1", &first_reply), (&two, "r-2", &second_reply)] {
        let mut again = answer(&at, &pane, ask, request);
        assert_eq!(again.as_object_mut().unwrap().remove("replayed"), Some(json!(true)));
        assert_eq!(&again, reply);
    }
    herdr.type_line("still here");
    eventually("the next words", || texts(&at, &pane).len() == 3);
    assert_eq!(verdicts(&herdr).len(), 2);
}
