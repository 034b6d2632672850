//! What the phone sends, and who takes it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_presence::collie::wire::{HistoryItems, HistoryRow, HistoryRows};
use agent_presence::collie::{
    ActionRequest, ActionView, AskInput, Caps, CloseRequest, CoreOptions, DecidedBy, History,
    HistoryPage, HookError, Hooks, Item, MemoryHistory, PaneOptions, PaneState, RECEIPTS_PER_GROUP,
    RenameRequest, ReopenRequest, SendRequest, SharedHooks, StartRequest, StopRequest,
};
use serde_json::json;
use tokio::sync::Notify;

use crate::rig::{Rig, add_pane};

/// Takes everything, and remembers what.
#[derive(Clone, Debug, Default)]
struct Takes(Arc<Mutex<Vec<String>>>);

impl Takes {
    fn note(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Hooks for Takes {
    async fn send(&self, request: SendRequest) -> Result<(), HookError> {
        self.note(format!("send {} queued={}", request.text, request.queued));
        Ok(())
    }

    async fn steer(&self, request: SendRequest) -> Result<(), HookError> {
        self.note(format!("steer {}", request.text));
        Ok(())
    }

    async fn stop(&self, request: StopRequest) -> Result<(), HookError> {
        self.note(format!("stop {:?}", request.turn_id));
        Ok(())
    }

    async fn action(&self, request: ActionRequest) -> Result<(), HookError> {
        self.note(format!("action {} {:?}", request.action, request.item_id));
        Ok(())
    }

    async fn rename(&self, request: RenameRequest) -> Result<(), HookError> {
        if request.title == "no" {
            return Err(HookError::refused("It keeps its name."));
        }
        self.note(format!("rename {:?} {}", request.target, request.title));
        Ok(())
    }

    async fn close(&self, request: CloseRequest) -> Result<(), HookError> {
        self.note(format!("close {:?}", request.target));
        Ok(())
    }

    async fn reopen(&self, request: ReopenRequest) -> Result<String, HookError> {
        self.note(format!("reopen {}", request.session_id));
        let tab = request.core.workspace("w", "W").unwrap().tab("t", "T").unwrap();
        Ok(tab.pane(&request.session_id, PaneOptions::default()).unwrap().id().to_owned())
    }

    async fn start(&self, request: StartRequest) -> Result<Option<String>, HookError> {
        if request.text.as_deref() == Some("break") {
            return Err(HookError::failed("no room"));
        }
        self.note(format!("start {}", request.starter));
        Ok(Some("new".to_owned()))
    }
}

fn rig() -> (Rig, Takes) {
    let takes = Takes::default();
    (
        Rig::with(CoreOptions { hooks: SharedHooks::new(takes.clone()), ..CoreOptions::default() }),
        takes,
    )
}

#[tokio::test]
async fn n068_n108_n109_n214_n217_a_send_is_taken_once() {
    let (rig, takes) = rig();
    let body = json!({"requestId": "r", "text": "hi"});
    let first = rig.post("panes/p/send", body.clone()).await;
    assert_eq!(first.json, json!({"ok": true, "requestId": "r", "queued": false}));
    let again = rig.post("panes/p/send", body).await;
    assert_eq!(again.json["replayed"], true);
    assert_eq!(takes.taken(), ["send hi queued=false"]);
    // The agent makes it effective.
    rig.pane.item(Item::user("u", "hi").request_id("r")).unwrap();
    assert_eq!(rig.view().await["items"][0]["requestId"], "r");
}

#[tokio::test]
async fn n215_a_send_into_a_turn_waits_for_its_end() {
    let (rig, takes) = rig();
    rig.pane.state(PaneState::Working, Some("t1"));
    let reply = rig.post("panes/p/send", json!({"requestId": "1", "text": "a"})).await;
    assert_eq!((&reply.json["queued"], &reply.json["turnId"]), (&json!(true), &json!("t1")));
    let steer = json!({"requestId": "2", "text": "b", "steer": true, "turnId": "t1"});
    assert_eq!(rig.post("panes/p/send", steer).await.json["queued"], false);
    assert_eq!(takes.taken(), ["send a queued=true", "steer b"]);
}

#[tokio::test]
async fn n218_a_plain_send_waits_for_the_open_ask() {
    let (rig, takes) = rig();
    let _ask = rig.pane.ask(AskInput::approval("Q").id("q")).unwrap();
    let reply = rig.post("panes/p/send", json!({"requestId": "1", "text": "y"})).await;
    assert_eq!(reply.refusal(), (409, "ask-open"));
    assert_eq!(reply.json["askId"], "q");
    let steer = json!({"requestId": "2", "text": "y", "steer": true});
    assert_eq!(rig.post("panes/p/send", steer).await.status, 200);
    assert_eq!(takes.taken(), ["steer y"]);
}

#[tokio::test]
async fn n219_n229_a_turn_that_moved_refuses() {
    let (rig, takes) = rig();
    rig.pane.state(PaneState::Working, Some("t2"));
    let send = json!({"requestId": "1", "text": "a", "turnId": "t1"});
    let reply = rig.post("panes/p/send", send).await;
    assert_eq!(reply.refusal(), (409, "turn-moved"));
    assert_eq!(reply.json["turnId"], "t2");
    let stop = json!({"requestId": "2", "turnId": "t1"});
    assert_eq!(rig.post("panes/p/stop", stop).await.refusal(), (409, "turn-moved"));
    assert!(takes.taken().is_empty());
    // Nothing was kept, so the same id may try again (N116).
    let stop = json!({"requestId": "2"});
    assert_eq!(rig.post("panes/p/stop", stop).await.status, 200);
    assert_eq!(takes.taken(), ["stop Some(\"t2\")"]);
}

#[tokio::test]
async fn n057_n058_actions_are_tapped() {
    let (rig, takes) = rig();
    let buttons =
        [ActionView::new("go", "Go").icon("play"), ActionView::new("odd", "Odd").icon("unicorn")];
    rig.pane.actions(buttons).unwrap();
    let pane = &rig.get("state").await.json["panes"][0];
    assert_eq!(
        pane["actions"],
        json!([{"id": "go", "label": "Go", "icon": "play"}, {"id": "odd", "label": "Odd"}])
    );
    let tap = json!({"requestId": "1", "itemId": "i"});
    assert_eq!(rig.post("panes/p/actions/go", tap).await.status, 200);
    assert_eq!(takes.taken(), ["action go Some(\"i\")"]);
    let unknown = rig.post("panes/p/actions/none", json!({"requestId": "2"})).await;
    assert_eq!(unknown.refusal(), (404, "unknown-action"));
}

#[tokio::test]
async fn n057_every_icon_of_collies_is_kept() {
    let rig = Rig::new();
    let icons = "play pause check x refresh archive flag star send note search more";
    let buttons = icons.split(' ').map(|icon| ActionView::new(icon, "A").icon(icon));
    rig.pane.actions(buttons.collect::<Vec<_>>()).unwrap();
    let state = rig.get("state").await.json;
    let shown = state["panes"][0]["actions"].as_array().unwrap().clone();
    assert_eq!(shown.len(), 12);
    assert!(shown.iter().all(|button| button["icon"] == button["id"]), "{shown:?}");
}

#[tokio::test]
async fn n110_n112_a_repeat_whose_receipt_was_dropped_runs_nothing() {
    let (rig, takes) = rig();
    let send = async |number: usize| {
        let body = json!({"requestId": format!("r{number}"), "text": "a"});
        rig.post("panes/p/send", body).await
    };
    for number in 0..=RECEIPTS_PER_GROUP {
        assert_eq!(send(number).await.status, 200);
    }
    assert_eq!(takes.taken().len(), 1001);
    assert_eq!(send(0).await.refusal(), (500, "receipt-dropped"));
    assert_eq!(send(1).await.json["replayed"], true, "the newest thousand are kept");
    assert!(takes.taken().is_empty());
}

#[tokio::test]
async fn n117_n120_without_handler_or_hook_it_is_not_supported() {
    let rig = Rig::new();
    rig.pane.actions([ActionView::new("go", "Go")]).unwrap();
    let bodies = [
        ("panes/p/send", json!({"requestId": "1", "text": "a"})),
        ("panes/p/send", json!({"requestId": "2", "text": "a", "steer": true})),
        ("panes/p/stop", json!({"requestId": "3"})),
        ("panes/p/actions/go", json!({"requestId": "4"})),
    ];
    for (path, body) in bodies {
        assert_eq!(rig.post(path, body).await.refusal(), (409, "not-supported"), "{path}");
    }
}

#[tokio::test]
async fn n119_a_handler_of_the_pane_goes_first() {
    let (rig, takes) = rig();
    let seen = takes.clone();
    rig.pane.on_send(move |request| {
        seen.note(format!("own {}", request.text));
        async { Ok(()) }
    });
    rig.pane.on_steer(async |_| Err(HookError::refused("Not now.")));
    rig.pane.on_stop(async |_| Ok(()));
    rig.pane.on_action(async |_| Ok(()));
    add_pane(&rig.core, "q");
    rig.post("panes/p/send", json!({"requestId": "1", "text": "a"})).await;
    rig.post("panes/q/send", json!({"requestId": "2", "text": "b"})).await;
    assert_eq!(takes.taken(), ["own a", "send b queued=false"]);
    let steer = json!({"requestId": "3", "text": "a", "steer": true});
    let reply = rig.post("panes/p/send", steer).await;
    assert_eq!((reply.refusal(), &reply.json["reason"]), ((409, "refused"), &json!("Not now.")));
    assert_eq!(rig.post("panes/p/stop", json!({"requestId": "4"})).await.status, 200);
    assert!(takes.taken().is_empty());
}

#[tokio::test]
async fn n118_n139_n140_n141_what_is_off_is_not_supported() {
    let takes = Takes::default();
    let options = CoreOptions {
        hooks: SharedHooks::new(takes.clone()),
        caps: Some(Caps { asks: true, ..Caps::NONE }),
        ..CoreOptions::default()
    };
    let rig = Rig::with(options);
    let caps = rig.get("hello").await.json["caps"].clone();
    assert_eq!(caps.as_object().unwrap().values().filter(|cap| **cap == true).count(), 1);
    let bodies = [
        ("panes/p/send", json!({"requestId": "1", "text": "a"})),
        ("panes/p/send", json!({"requestId": "2", "text": "a", "steer": true})),
        ("panes/p/stop", json!({"requestId": "3"})),
        ("panes/p/actions/go", json!({"requestId": "4"})),
        ("rename", json!({"requestId": "5", "target": {"pane": "p"}, "title": "x"})),
        ("close", json!({"requestId": "6", "target": {"pane": "p"}})),
        ("reopen", json!({"requestId": "7", "sessionId": "p"})),
        ("start", json!({"requestId": "8", "starterId": "s"})),
    ];
    for (path, body) in bodies {
        assert_eq!(rig.post(path, body).await.refusal(), (409, "not-supported"), "{path}");
    }
    assert_eq!(rig.get("history").await.refusal(), (409, "not-supported"));
    assert!(takes.taken().is_empty());

    let options =
        CoreOptions { caps: Some(Caps { asks: false, ..Caps::ALL }), ..CoreOptions::default() };
    let rig = Rig::with(options);
    let _ask = rig.pane.ask(AskInput::approval("Q").id("q")).unwrap();
    let reply = rig.answer("q", "r", json!({"optionIds": ["allow"]})).await;
    assert_eq!(reply.refusal(), (409, "not-supported"));
}

#[tokio::test]
async fn n121_a_rename_is_applied() {
    let (rig, takes) = rig();
    for (number, target) in
        [json!({"pane": "p"}), json!({"tab": "w:t"}), json!({"workspace": "w"})].iter().enumerate()
    {
        let body =
            json!({"requestId": number.to_string(), "target": target, "title": " new\nname"});
        let reply = rig.post("rename", body).await;
        assert_eq!((reply.status, &reply.json["title"]), (200, &json!(" new name")));
    }
    let state = rig.get("state").await.json;
    assert_eq!(state["panes"][0]["title"], " new name");
    assert_eq!(state["workspaces"][0]["title"], " new name");
    assert_eq!(state["workspaces"][0]["tabs"][0]["title"], " new name");
    assert_eq!(takes.taken().len(), 3);
    let body = json!({"requestId": "r", "target": {"pane": "p"}, "title": "no"});
    assert_eq!(rig.post("rename", body).await.refusal(), (409, "refused"));
    assert_eq!(rig.get("state").await.json["panes"][0]["title"], " new name");
    let body = json!({"requestId": "r", "target": {"tab": "w:none"}, "title": "x"});
    assert_eq!(rig.post("rename", body).await.refusal(), (404, "unknown-target"));
}

#[tokio::test]
async fn n090_n122_a_close_removes_all_inside_it() {
    let (rig, takes) = rig();
    add_pane(&rig.core, "q");
    let ask = rig.pane.ask(AskInput::approval("Q").id("q")).unwrap();
    let body = json!({"requestId": "1", "target": {"workspace": "w"}});
    assert_eq!(rig.post("close", body.clone()).await.status, 200);
    assert!(ask.await.is_err());
    let state = rig.get("state").await.json;
    assert_eq!((&state["workspaces"], &state["panes"]), (&json!([]), &json!([])));
    assert_eq!(rig.post("close", body).await.json["replayed"], true, "also when it is gone");
    assert_eq!(takes.taken(), ["close Workspace(\"w\")"]);
    assert!(!rig.pane.is_open());
}

#[tokio::test]
async fn n123_reopen_without_a_hook_brings_back_what_was_closed_here() {
    let rig = Rig::new();
    rig.pane.reply("r", "text").unwrap();
    rig.post("close", json!({"requestId": "1", "target": {"tab": "w:t"}})).await;
    let reply = rig.post("reopen", json!({"requestId": "2", "sessionId": "p"})).await;
    assert_eq!((reply.status, &reply.json["paneId"]), (200, &json!("p")));
    let view = rig.view().await;
    assert_eq!(view["items"][0]["id"], "r");
    assert_eq!(rig.get("state").await.json["workspaces"][0]["tabs"][0]["panes"], json!(["p"]));
    assert!(rig.pane.is_open(), "the handle is of the pane again");
    let never = rig.post("reopen", json!({"requestId": "3", "sessionId": "never"})).await;
    assert_eq!(never.refusal(), (404, "unknown-session"), "N124: that needs a hook");
}

#[tokio::test]
async fn n124_a_hook_brings_back_what_was_closed_before() {
    let (rig, takes) = rig();
    let reply = rig.post("reopen", json!({"requestId": "1", "sessionId": "old"})).await;
    assert_eq!(reply.json["paneId"], "old");
    assert_eq!(takes.taken(), ["reopen old"]);
    assert_eq!(rig.get("state").await.json["panes"][1]["id"], "old");
}

#[tokio::test]
async fn starters_start() {
    let (rig, takes) = rig();
    rig.core.starters([ActionView::new("new", "New").icon("play")]).unwrap();
    assert_eq!(rig.get("state").await.json["starters"][0]["id"], "new");
    let start = json!({"requestId": "1", "starterId": "new", "workspaceId": "w", "text": "go"});
    assert_eq!(rig.post("start", start).await.json["paneId"], "new");
    assert_eq!(takes.taken(), ["start new"]);
    let unknown = rig.post("start", json!({"requestId": "2", "starterId": "none"})).await;
    assert_eq!(unknown.refusal(), (404, "unknown-starter"));
    let failing = json!({"requestId": "3", "starterId": "new", "text": "break"});
    let reply = rig.post("start", failing).await;
    assert_eq!(reply.refusal(), (500, "failed"));
    assert!(!reply.json.to_string().contains("no room"), "the message is for the log");
    let again = json!({"requestId": "3", "starterId": "new"});
    assert_eq!(rig.post("start", again).await.status, 200, "a failure keeps nothing");
}

#[tokio::test]
async fn n108_n109_a_running_request_is_joined() {
    let rig = Rig::new();
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let runs = Arc::new(Mutex::new(0));
    let (tell, wait, count) = (begun.clone(), go_on.clone(), runs.clone());
    rig.pane.on_send(move |_| {
        let (tell, wait) = (tell.clone(), wait.clone());
        *count.lock().unwrap() += 1;
        async move {
            tell.notify_one();
            wait.notified().await;
            Ok(())
        }
    });
    let body = json!({"requestId": "r", "text": "a"});
    let first = rig.post("panes/p/send", body.clone());
    let second = async {
        begun.notified().await;
        let differs = rig.post("panes/p/send", json!({"requestId": "r", "text": "b"})).await;
        assert_eq!(differs.refusal(), (400, "bad-request"));
        let joined = rig.post("panes/p/send", body.clone());
        let let_go = async {
            tokio::task::yield_now().await;
            go_on.notify_one();
        };
        tokio::join!(joined, let_go).0
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!((first.status, &first.json["replayed"]), (200, &json!(null)));
    assert_eq!((second.status, &second.json["replayed"]), (200, &json!(true)));
    assert_eq!(*runs.lock().unwrap(), 1);
}

#[tokio::test]
async fn a_request_whose_connection_breaks_runs_to_its_end() {
    let rig = Rig::new();
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (begun.clone(), go_on.clone());
    rig.pane.on_send(move |request| {
        let (tell, wait) = (tell.clone(), wait.clone());
        async move {
            tell.notify_one();
            wait.notified().await;
            request.pane.item(Item::user("u", request.text)).unwrap();
            Ok(())
        }
    });
    let body = json!({"requestId": "r", "text": "whole"});
    tokio::select! {
        _ = rig.post("panes/p/send", body.clone()) => panic!("it waits"),
        () = begun.notified() => {}
    }
    go_on.notify_one();
    assert_eq!(rig.post("panes/p/send", body).await.json["replayed"], true);
    assert_eq!(rig.view().await["items"][0]["text"], "whole");
}

#[tokio::test]
async fn a_handler_that_panics_is_a_failure() {
    let rig = Rig::new();
    rig.pane.on_send(async |_| panic!("broken"));
    let body = json!({"requestId": "r", "text": "a"});
    assert_eq!(rig.post("panes/p/send", body.clone()).await.refusal(), (500, "failed"));
    rig.pane.on_send(async |_| Ok(()));
    assert_eq!(rig.post("panes/p/send", body).await.status, 200, "and may be tried again");
}

#[tokio::test(start_paused = true)]
async fn n230_a_stop_waits_two_seconds_and_goes_ahead() {
    let rig = Rig::new();
    rig.pane.on_send(async |_| std::future::pending().await);
    rig.pane.on_stop(async |_| Ok(()));
    let begin = tokio::time::Instant::now();
    tokio::select! {
        // The send first, so that it has the lock.
        biased;
        _ = rig.post("panes/p/send", json!({"requestId": "1", "text": "a"})) => panic!("stuck"),
        reply = rig.post("panes/p/stop", json!({"requestId": "2"})) => {
            assert_eq!(reply.status, 200);
        }
    }
    let waited = begin.elapsed();
    assert!(waited >= Duration::from_secs(2) && waited < Duration::from_secs(3), "{waited:?}");
    // Other writes wait on.
    let answer = rig.post("panes/p/send", json!({"requestId": "3", "text": "b"}));
    assert!(tokio::time::timeout(Duration::from_secs(60), answer).await.is_err());
}

#[tokio::test]
async fn n125_n126_n127_n128_n130_n138_history_is_the_providers() {
    let rig = Rig::new();
    assert_eq!(rig.get("hello").await.json["caps"]["history"], false);
    assert_eq!(rig.get("history").await.refusal(), (409, "not-supported"));
    let history = MemoryHistory::new();
    for number in 0..3 {
        let row = json!({"id": format!("s{number}"), "title": "T", "state": "closed", "items": 0,
                         "startedAt": "2026-11-30T14:53:46.120Z"});
        history.put_row(serde_json::from_value(row).unwrap());
    }
    for number in 0..5 {
        history.put_item("s0", Item::reply(format!("r{number}"), "x"));
    }
    rig.core.history(history);
    assert_eq!(rig.get("hello").await.json["caps"]["history"], true, "N138");
    let rows = rig.get("history?limit=2").await.json;
    assert_eq!((&rows["rows"][0]["id"], &rows["rows"][1]["id"]), (&json!("s2"), &json!("s1")));
    let next = rows["next"].as_str().unwrap();
    let rest = rig.get(&format!("history?limit=2&after={next}")).await.json;
    assert_eq!((&rest["rows"][0]["id"], &rest["rows"][0]["items"]), (&json!("s0"), &json!(5)));
    assert!(rest.get("next").is_none());
    let items = rig.get("history/s0?limit=4").await.json;
    assert_eq!(items["items"][0]["id"], "r4", "newest first");
    assert_eq!(items["items"].as_array().unwrap().len(), 4);
    assert_eq!(rig.get("history/none").await.refusal(), (404, "unknown-session"));
}

/// A history with one row, in which nothing is left out, and whose `next` is no cursor.
struct OneRow(HistoryRow);

impl History for OneRow {
    async fn rows(&self, _page: HistoryPage) -> Result<HistoryRows, HookError> {
        Ok(HistoryRows { rows: vec![self.0.clone()], next: None })
    }

    async fn items(&self, _: String, _: HistoryPage) -> Result<Option<HistoryItems>, HookError> {
        Ok(Some(HistoryItems { items: Vec::new(), next: Some("a b".to_owned()) }))
    }
}

#[tokio::test]
async fn n126_n127_n129_a_row_is_shown_whole_and_its_cap_can_be_left_out() {
    let row = json!({"id": "s", "title": "T", "subtitle": "S", "workspaceId": "w", "tabId": "w:t",
                     "startedAt": "2026-11-30T14:53:46.120Z", "endedAt": "2026-11-30T15:53:46.120Z",
                     "state": "open", "items": 3});
    for (history, status) in [(true, 200), (false, 409)] {
        let caps = Some(Caps { history, ..Caps::NONE });
        let rig = Rig::with(CoreOptions { caps, ..CoreOptions::default() });
        rig.core.history(OneRow(serde_json::from_value(row.clone()).unwrap()));
        assert_eq!(rig.get("hello").await.json["caps"]["history"], history);
        let rows = rig.get("history").await;
        assert_eq!(rows.status, status);
        if history {
            assert_eq!(rows.json, json!({"rows": [row]}), "no `next` ends the list");
            let bad = rig.get("history/s").await;
            assert_eq!(bad.refusal(), (500, "failed"), "the provider's `next` is no cursor");
        }
    }
}

/// N093 and N254: the card is made of the call, and its ids are the call's.
#[tokio::test]
async fn n092_n094_n096_n097_n098_n099_one_call_is_asked_about() {
    let rig = Rig::new();
    let arguments =
        serde_json::value::RawValue::from_string(r#"{"order": "5521", "amount": 40}"#.to_owned())
            .unwrap();
    let pane = rig.pane.clone();
    let ask = || {
        let (pane, arguments) = (pane.clone(), arguments.clone());
        async move { pane.require_approval("refund", &arguments, "call-1", None).await.unwrap() }
    };
    let answering = async |options: serde_json::Value| {
        tokio::task::yield_now().await;
        let open = rig.pane.open_asks();
        let card = serde_json::to_value(&open[0]).unwrap();
        assert_eq!(card["title"], "refund wants to run");
        assert_eq!(card["tool"], r#"refund(order: "5521", amount: 40)"#);
        assert_eq!(card["push"]["title"], "refund needs a yes");
        assert_eq!(card["options"].as_array().unwrap().len(), 2);
        rig.answer(
            &open[0].id,
            &options.to_string().replace(['[', ']', '"'], ""),
            json!({"optionIds": options}),
        )
        .await;
    };
    let (approval, ()) = tokio::join!(ask(), answering(json!(["allow"])));
    assert!(approval.approved);
    assert_eq!(approval.ask_id, agent_presence::collie::ask_id_for("p", "call-1"));
    let (approval, ()) = tokio::join!(ask(), answering(json!(["deny"])));
    assert!(!approval.approved);
    let (approval, ()) = tokio::join!(ask(), async {
        tokio::task::yield_now().await;
        rig.pane.withdraw(&rig.pane.open_asks()[0].id);
    });
    assert!(!approval.approved);
    assert_eq!(approval.decided_by, DecidedBy::Program);
}

#[tokio::test(start_paused = true)]
async fn n099_n100_a_timeout_never_approves() {
    let rig = Rig::new();
    let timeout = Some(Duration::from_secs(600));
    let arguments = json!({});
    let asked = rig.pane.require_approval("refund", &arguments, "call-1", timeout);
    let approval = asked.await.unwrap();
    assert!(!approval.approved);
    assert_eq!(approval.decided_by, DecidedBy::Timeout);
}
