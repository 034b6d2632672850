//! Asks and their answers.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent_presence::collie::{
    AskError, AskInput, AskOption, Caller, CoreOptions, DecidedBy, Field, FieldKind, MemoryHistory,
    PaneState, Warn,
};
use serde_json::{Value, json};

use crate::rig::{Rig, verdict};

fn yes_no() -> [AskOption; 2] {
    [AskOption::new("yes", "Yes"), AskOption::new("no", "No")]
}

#[tokio::test]
async fn n072_n073_each_kind_resolves_with_its_answer() {
    let rig = Rig::new();
    let approval = rig.pane.ask(AskInput::approval("A").id("a")).unwrap();
    let choice = rig.pane.ask(AskInput::choice("B", yes_no()).id("b")).unwrap();
    let text = rig.pane.ask(AskInput::text("C").id("c")).unwrap();
    let fields = [Field::new("n", "N", FieldKind::Number)];
    let form = rig.pane.ask(AskInput::form("D", fields).id("d")).unwrap();
    assert_eq!(rig.pane.open_asks().len(), 4, "N056");

    let reply = rig.answer("a", "r1", json!({"optionIds": ["allow"]})).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.json["decidedBy"], "phone");
    assert!(reply.json["decidedAt"].is_string());
    assert!(approval.await.unwrap().allowed());
    rig.answer("b", "r2", json!({"optionIds": ["no"]})).await;
    assert_eq!(choice.await.unwrap().option_ids(), ["no"]);
    rig.answer("c", "r3", json!({"text": "line"})).await;
    assert_eq!(text.await.unwrap().text(), Some("line"));
    rig.answer("d", "r4", json!({"values": {"n": 4}})).await;
    assert_eq!(form.await.unwrap().values().unwrap()["n"], 4);
    assert!(rig.pane.open_asks().is_empty());
}

#[tokio::test]
async fn an_answer_that_does_not_fit_leaves_the_ask_open() {
    let rig = Rig::new();
    let _ask = rig.pane.ask(AskInput::choice("Q", yes_no()).id("q")).unwrap();
    for bad in [json!({}), json!({"optionIds": ["maybe"]}), json!({"text": "yes"})] {
        let reply = rig.answer("q", "r", bad).await;
        assert_eq!(reply.refusal(), (400, "bad-request"));
    }
    assert_eq!(rig.pane.open_asks().len(), 1);
    let reply = rig.answer("q", "r", json!({"optionIds": ["yes"]})).await;
    assert_eq!(reply.status, 200, "N116: a refusal stores nothing");
}

#[tokio::test]
async fn n108_n109_a_repeat_runs_nothing_and_gets_the_first_answer() {
    let rig = Rig::new();
    let ask = rig.pane.ask(AskInput::approval("Q").id("q")).unwrap();
    let first = rig.answer("q", "r", json!({"optionIds": ["allow"]})).await;
    let again = rig.answer("q", "r", json!({"optionIds": ["allow"]})).await;
    assert_eq!(again.status, 200);
    assert_eq!(again.json["replayed"], true);
    let mut without = again.json.clone();
    without.as_object_mut().unwrap().remove("replayed");
    assert_eq!(without, first.json);
    let other = rig.answer("q", "r", json!({"optionIds": ["deny"]})).await;
    assert_eq!(other.refusal(), (400, "bad-request"), "the same id with another body");
    let elsewhere = rig.post("panes/p/stop", json!({"requestId": "r"})).await;
    assert_eq!(elsewhere.refusal(), (400, "bad-request"), "or on another route");
    assert!(ask.await.unwrap().allowed());
}

#[tokio::test]
async fn n086_n220_n222_the_first_answer_wins() {
    let rig = Rig::new();
    let ask = rig.pane.ask(AskInput::approval("Q").id("q")).unwrap();
    let (one, two) = tokio::join!(
        rig.answer("q", "r1", json!({"optionIds": ["deny"]})),
        rig.answer("q", "r2", json!({"optionIds": ["allow"]})),
    );
    assert_eq!(one.status, 200);
    assert_eq!(two.refusal(), (409, "ask-closed"));
    assert_eq!(two.json["decidedBy"], "phone");
    assert_eq!(two.json["decidedAt"], one.json["decidedAt"]);
    assert!(!ask.await.unwrap().allowed());
    assert_eq!(rig.answer("never", "r3", json!({})).await.refusal(), (404, "unknown-ask"));
}

#[tokio::test]
async fn n221_an_answer_names_what_was_seen() {
    let rig = Rig::new();
    let _ask = rig.pane.ask(AskInput::approval("Q").id("q")).unwrap();
    let body =
        |hash: &Value| json!({"requestId": "r", "answer": {"optionIds": ["allow"]}, "hash": hash});
    let reply = rig.post("panes/p/asks/q", body(&json!("other"))).await;
    assert_eq!(reply.refusal(), (409, "ask-changed"));
    assert_eq!(reply.json["ask"]["title"], "Q");
    let hash = reply.json["ask"]["hash"].clone();
    assert_eq!(rig.post("panes/p/asks/q", body(&hash)).await.status, 200);
}

#[tokio::test]
async fn n085_an_open_id_is_not_raised_again() {
    let rig = Rig::new();
    let _ask = rig.pane.ask(AskInput::approval("Q").id("q")).unwrap();
    let again = rig.pane.ask(AskInput::approval("Q").id("q")).unwrap_err();
    assert_eq!(again, AskError::AlreadyOpen { id: "q".to_owned() });
}

#[tokio::test(start_paused = true)]
async fn n087_n089_an_ask_expires_and_leaves_a_line() {
    let rig = Rig::new();
    let cursor = rig.view().await["cursor"].clone();
    let input = AskInput::approval("refund wants to run").id("q").timeout(Duration::from_secs(60));
    let closed = rig.pane.ask(input).unwrap().await.unwrap_err();
    assert_eq!(closed.decided_by, DecidedBy::Timeout);
    let events = rig.events(&cursor).await;
    let line = "Timed out before an answer: refund wants to run";
    assert_eq!(events[1]["item"]["text"], line);
    assert_eq!(events[2]["type"], "ask-closed");
    assert_eq!((&events[2]["decidedBy"], &events[2]["line"]), (&json!("timeout"), &json!(line)));
    let late = rig.answer("q", "r", json!({"optionIds": ["allow"]})).await;
    assert_eq!(late.refusal(), (409, "ask-closed"));
    assert_eq!(late.json["decidedBy"], "timeout");
}

#[tokio::test(start_paused = true)]
async fn an_earlier_expiry_wakes_the_driver() {
    let rig = Rig::new();
    let later =
        rig.pane.ask(AskInput::text("L").id("l").timeout(Duration::from_secs(600))).unwrap();
    tokio::task::yield_now().await;
    let sooner = rig.pane.ask(AskInput::text("S").id("s").timeout(Duration::from_secs(1))).unwrap();
    let begin = tokio::time::Instant::now();
    assert!(sooner.await.is_err());
    assert!(begin.elapsed() < Duration::from_secs(2));
    assert!(later.await.is_err());
}

#[derive(Debug)]
struct MovedClock(std::sync::Mutex<SystemTime>);

impl agent_presence::Clock for MovedClock {
    fn now(&self) -> SystemTime {
        *self.0.lock().unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_after_the_time_of_day_of_its_expiry_is_late() {
    let clock = Arc::new(MovedClock(std::sync::Mutex::new(SystemTime::now())));
    let options = CoreOptions { clock: clock.clone(), ..CoreOptions::default() };
    let rig = Rig::with(options);
    let ask =
        rig.pane.ask(AskInput::approval("Q").id("q").timeout(Duration::from_secs(60))).unwrap();
    // The machine slept: the time of day went on, the timer did not.
    *clock.0.lock().unwrap() += Duration::from_secs(61);
    let late = rig.answer("q", "r", json!({"optionIds": ["allow"]})).await;
    assert_eq!(late.refusal(), (409, "ask-closed"));
    assert_eq!(ask.await.unwrap_err().decided_by, DecidedBy::Timeout);
}

#[tokio::test]
async fn n090_dropping_closing_and_withdrawing_close_as_program() {
    let rig = Rig::new();
    let cursor = rig.view().await["cursor"].clone();
    drop(rig.pane.ask(AskInput::approval("dropped").id("1")).unwrap());
    assert!(rig.pane.open_asks().is_empty());
    let withdrawn = rig.pane.ask(AskInput::approval("withdrawn").id("2")).unwrap();
    rig.pane.withdraw("2");
    assert_eq!(withdrawn.await.unwrap_err().decided_by, DecidedBy::Program);
    let open = rig.pane.ask(AskInput::approval("closed").id("3")).unwrap();
    rig.pane.close();
    assert_eq!(open.await.unwrap_err().decided_by, DecidedBy::Program);
    let closed = rig.events(&cursor).await;
    let closed = closed.iter().filter(|event| event["type"] == "ask-closed");
    assert_eq!(closed.filter(|event| event["decidedBy"] == "program").count(), 3);
}

#[tokio::test]
async fn n090_n091_a_signal_withdraws_an_ask() {
    let rig = Rig::new();
    let ask = rig.pane.ask(AskInput::approval("Q").id("q")).unwrap();
    assert_eq!(ask.until(async {}).await.unwrap_err().decided_by, DecidedBy::Program);
    let ask = rig.pane.ask(AskInput::approval("Q").id("q")).unwrap();
    let answering = rig.answer("q", "r", json!({"optionIds": ["allow"]}));
    let (answer, _) = tokio::join!(ask.until(std::future::pending()), answering);
    assert!(answer.unwrap().allowed());
}

#[tokio::test]
async fn n113_the_default_receipts_die_with_the_process() {
    for _ in 0..2 {
        let rig = Rig::new();
        let _ask = rig.pane.ask(AskInput::approval("Q").id("q")).unwrap();
        let reply = rig.answer("q", "r", json!({"optionIds": ["allow"]})).await;
        assert_eq!((reply.status, reply.json.get("replayed")), (200, None));
    }
}

#[tokio::test]
async fn n084_an_answer_from_before_a_restart_is_delivered_to_the_same_question_only() {
    let folder = crate::agent::folder();
    let path = folder.path().join("receipts");
    let start = || CoreOptions {
        receipts: Arc::new(agent_presence::collie::FileReceipts::open(&path).unwrap()),
        ..CoreOptions::default()
    };
    let refund = || AskInput::approval("refund wants to run").tool_call_id("call-1");
    {
        let rig = Rig::with(start());
        let ask = rig.pane.ask(refund()).unwrap();
        let id = ask.id().to_owned();
        assert_eq!(rig.answer(&id, "r", json!({"optionIds": ["allow"]})).await.status, 200);
        // The process ends before the agent has looked.
        std::mem::forget(ask);
        rig.core.starters([]).unwrap();
    }
    // The core is held by what was forgotten: its file has to be let go of for the next start.
    let copy = folder.path().join("copy");
    std::fs::copy(&path, &copy).unwrap();
    let start = || CoreOptions {
        receipts: Arc::new(agent_presence::collie::FileReceipts::open(&copy).unwrap()),
        ..CoreOptions::default()
    };
    let rig = Rig::with(start());
    let answer = rig.pane.ask(refund()).unwrap().await.unwrap();
    assert!(answer.allowed(), "delivered at once");
    assert!(rig.pane.open_asks().is_empty());
    // It was taken: the same call again is asked about again (N220).
    let _again = rig.pane.ask(refund()).unwrap();
    assert_eq!(rig.pane.open_asks().len(), 1);
}

#[tokio::test]
async fn n076_n079_every_kind_names_its_call_its_item_and_its_tool() {
    let rig = Rig::new();
    let number = [Field::new("n", "N", FieldKind::Number)];
    let kinds = [
        AskInput::approval("T"),
        AskInput::choice("T", yes_no()),
        AskInput::text("T"),
        AskInput::form("T", number),
    ];
    for (number, kind) in kinds.into_iter().enumerate() {
        let call = format!("call-{number}");
        // N251: the item is the call, and was never shown.
        let ask = rig.pane.ask(kind.tool_call_id(&call).item_id(&call).tool("t()")).unwrap();
        let view = serde_json::to_value(&rig.pane.open_asks()[0]).unwrap();
        assert_eq!(view["toolCallId"], call.as_str());
        assert_eq!((&view["itemId"], &view["tool"]), (&json!(call), &json!("t()")));
        drop(ask);
    }
}

#[tokio::test]
async fn an_ask_that_is_dropped_inside_an_edit_is_withdrawn() {
    let rig = Rig::new();
    rig.pane.edit(|edit| drop(edit.ask(AskInput::approval("Q").id("q")).unwrap()));
    assert!(rig.pane.open_asks().is_empty());
}

#[tokio::test]
async fn a_callback_runs_once_before_the_phone_has_its_answer() {
    let rig = Rig::new();
    let pane = rig.pane.clone();
    let (place, tell) = verdict();
    rig.pane
        .ask_with(AskInput::approval("Q").id("q"), move |verdict| {
            // Any method may be called here.
            pane.state(PaneState::Working, Some("t"));
            assert!(pane.open_asks().is_empty());
            tell(verdict);
        })
        .unwrap();
    let reply = rig.answer("q", "r", json!({"optionIds": ["deny"]})).await;
    assert_eq!(reply.status, 200);
    let verdicts = std::mem::take(&mut *place.lock().unwrap());
    assert_eq!(verdicts.len(), 1);
    assert!(!verdicts[0].as_ref().unwrap().allowed());
    assert_eq!(rig.get("state").await.json["panes"][0]["state"], "working");
}

#[test]
fn an_ask_can_be_waited_for_without_a_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let rig = runtime.block_on(async { Rig::new() });
    let ask = rig.pane.ask(AskInput::approval("Q").id("q")).unwrap();
    let waiting = std::thread::spawn(move || ask.wait());
    runtime.block_on(rig.answer("q", "r", json!({"optionIds": ["allow"]})));
    assert!(waiting.join().unwrap().unwrap().allowed());
}

#[tokio::test]
async fn n025_n026_n027_the_agent_reads_but_does_not_decide() {
    let rig = Rig::new();
    let _ask = rig.pane.ask(AskInput::approval("Q").id("q")).unwrap();
    let bodies = [
        ("panes/p/asks/q", json!({"requestId": "1", "answer": {"optionIds": ["allow"]}})),
        ("panes/p/send", json!({"requestId": "2", "text": "x"})),
        ("panes/p/stop", json!({"requestId": "3"})),
        ("panes/p/actions/a", json!({"requestId": "4"})),
        ("rename", json!({"requestId": "5", "target": {"pane": "p"}, "title": "x"})),
        ("close", json!({"requestId": "6", "target": {"pane": "p"}})),
        ("reopen", json!({"requestId": "7", "sessionId": "p"})),
        ("start", json!({"requestId": "8", "starterId": "s"})),
    ];
    for (path, body) in bodies {
        let reply = rig.post_as(Caller::Agent, path, body).await;
        assert_eq!(reply.refusal(), (403, "caller-refused"), "{path}");
    }
    assert_eq!(rig.pane.open_asks().len(), 1);
    let hello = json!({"wire": {"min": 1, "max": 1}});
    assert_eq!(rig.post_as(Caller::Agent, "hello", hello).await.status, 200, "not a write");
    rig.core.history(MemoryHistory::new());
    for path in ["hello", "state", "panes/p/events", "history"] {
        assert_eq!(rig.get_as(Caller::Agent, path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn n028_without_the_check_the_agent_may_answer() {
    let options = CoreOptions {
        caller_check: agent_presence::collie::CallerCheck::Off,
        ..CoreOptions::default()
    };
    let rig = Rig::with(options);
    assert_eq!(rig.get("hello").await.json["callerCheck"], "off");
    let _ask = rig.pane.ask(AskInput::approval("Q").id("q")).unwrap();
    let body = json!({"requestId": "1", "answer": {"optionIds": ["allow"]}});
    assert_eq!(rig.post_as(Caller::Agent, "panes/p/asks/q", body).await.status, 200);
}

#[tokio::test]
async fn n103_n104_n105_always_allow_is_not_for_a_token() {
    let rig = Rig::new();
    let always = || AskInput::approval("Q").id("q").tool("rm()").allow_always();
    let ask = rig.pane.ask(always()).unwrap();
    let body = json!({"requestId": "1", "answer": {"optionIds": ["allow-always"]}});
    let reply = rig.post_as(Caller::Token, "panes/p/asks/q", body.clone()).await;
    assert_eq!(reply.refusal(), (409, "refused"));
    assert_eq!(rig.post("panes/p/asks/q", body).await.status, 200);
    assert!(ask.await.unwrap().allowed_always());

    let options = CoreOptions { allow_always: false, ..CoreOptions::default() };
    let rig = Rig::with(options);
    assert_eq!(rig.pane.ask(always()).unwrap_err(), AskError::AllowAlways);
}

#[tokio::test]
async fn n240_n241_versions_that_do_not_meet_are_said() {
    let lines = Arc::new(std::sync::Mutex::new(Vec::new()));
    let said = lines.clone();
    let warn: Warn = Arc::new(move |line: &str| said.lock().unwrap().push(line.to_owned()));
    let options = CoreOptions { warn: Some(warn), ..CoreOptions::default() };
    let rig = Rig::with(options);
    let reply = rig.post("hello", json!({"wire": {"min": 1, "max": 3}, "collie": "1.22.0"})).await;
    assert_eq!(reply.status, 200);
    let reply = rig.post("hello", json!({"wire": {"min": 2, "max": 3}})).await;
    assert_eq!(reply.refusal(), (409, "wire-mismatch"));
    assert_eq!(reply.json["wire"], json!({"min": 1, "max": 1}));
    let said = |version: u32| {
        format!(
            "collie: Collie speaks wire v{version}, this durable agent speaks v1. \
             Update the agent's SDK, or Collie."
        )
    };
    assert_eq!(*lines.lock().unwrap(), [said(2), said(3)]);
    let reply = rig.post("hello", json!({"wire": {"min": 2}})).await;
    assert_eq!(reply.json["message"], "wire.max is missing.");
}
