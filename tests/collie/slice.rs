//! The layout, polling and events.

use agent_presence::collie::{
    ActionView, AskInput, Caller, Core, CoreOptions, Item, PaneOptions, PaneState, Request,
};
use serde_json::json;

use crate::rig::{Rig, add_pane};

#[tokio::test]
async fn n017_n143_n144_n233_hello_says_who_is_there() {
    let options = CoreOptions { host_name: "desk".to_owned(), ..CoreOptions::default() };
    let rig = Rig::with(options);
    let hello = rig.get("hello").await;
    assert_eq!(hello.status, 200);
    assert_eq!(hello.json["hostName"], "desk");
    assert_eq!(hello.json["wire"], json!({"min": 1, "max": 1}));
    assert_eq!(hello.json["phase"], "ready");
    assert_eq!(hello.json["callerCheck"], "on");
    assert_eq!(hello.json["caps"]["terminal"], false, "N142");
    let caps = [
        "abort", "actions", "asks", "close", "history", "rename", "reopen", "send", "starters",
        "steer", "terminal",
    ];
    assert!(hello.json["caps"].as_object().unwrap().keys().eq(caps));
    assert!(hello.json["runtime"].as_str().unwrap().starts_with("agent-presence/"));
    assert_eq!(hello.header("content-type"), Some("application/json; charset=utf-8"));
    assert_eq!(hello.header("cache-control"), Some("no-store"));
    assert_eq!(hello.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(hello.header("referrer-policy"), Some("no-referrer"));
}

#[tokio::test]
async fn n039_n040_n045_the_layout_is_one_answer() {
    let rig = Rig::new();
    let tab = rig.core.workspace("w", "Other title").unwrap().tab("t", "").unwrap();
    let same = tab.pane("p", PaneOptions { title: "Other".into(), ..Default::default() }).unwrap();
    assert_eq!(same.id(), "p");
    add_pane(&rig.core, "q");
    let state = rig.get("state").await.json;
    assert_eq!(
        state["workspaces"],
        json!([{"id": "w", "title": "Work",
                "tabs": [{"id": "w:t", "title": "Tab", "panes": ["p", "q"]}]}])
    );
    let pane = &state["panes"][0];
    assert_eq!(pane["title"], "Pane", "the pane that was there");
    assert_eq!(pane["tabId"], "w:t");
    assert_eq!(pane["sessionId"], "p", "N131");
    assert_eq!(pane["state"], "idle");
    assert!(pane.get("turnId").is_none() && pane.get("cwd").is_none(), "absent is omitted");
}

#[tokio::test]
async fn n046_n047_n048_n132_a_pane_holds_to_its_limits() {
    let core = Core::new(CoreOptions::default()).unwrap();
    let tab = core.workspace("w", "W").unwrap().tab("t", "T").unwrap();
    let options = PaneOptions {
        title: "é".repeat(200),
        harness: "h".repeat(65),
        cwd: Some("relative".into()),
        session_id: agent_presence::collie::SessionId::Changing,
    };
    tab.pane("p", options).unwrap();
    let rig = Rig { pane: core.pane("p").unwrap(), core, driver: None };
    let state = rig.get("state").await.json;
    let pane = &state["panes"][0];
    assert_eq!(pane["title"].as_str().unwrap().len(), 256);
    assert_eq!(pane["harness"].as_str().unwrap().len(), 64);
    assert!(pane.get("cwd").is_none());
    assert!(pane["sessionId"].is_null() && pane.get("sessionId").is_some(), "the one null");
}

#[tokio::test]
async fn n041_before_ready_the_layout_is_listed_and_writes_wait() {
    let core = Core::new(CoreOptions::default()).unwrap();
    let pane = add_pane(&core, "p");
    let rig = Rig { core, pane, driver: None };
    let state = rig.get("state").await.json;
    assert_eq!((&state["phase"], &state["panes"][0]["id"]), (&json!("starting"), &json!("p")));
    let reply = rig.post("panes/p/stop", json!({"requestId": "r"})).await;
    assert_eq!(reply.refusal(), (503, "starting"));
    assert_eq!(reply.header("retry-after"), Some("1"));
    rig.core.ready();
    let reply = rig.post("panes/p/stop", json!({"requestId": "r"})).await;
    assert_eq!(reply.refusal(), (409, "not-supported"));
}

#[tokio::test]
async fn the_tag_changes_exactly_when_the_body_does() {
    let rig = Rig::new();
    let poll = async |etag: &str| {
        let request = Request {
            method: "GET".into(),
            target: "/durable/v1/state".into(),
            if_none_match: Some(etag.into()),
            ..Request::default()
        };
        let response = rig.core.handle(request, Caller::Other).await;
        let tag = response.headers.iter().find(|(name, _)| *name == "etag").unwrap().1.clone();
        (response.status, tag, response.body.is_empty())
    };
    let (status, first, _) = poll("\"none\"").await;
    assert_eq!(status, 200);
    assert_eq!(poll(&first).await, (304, first.clone(), true));
    assert_eq!(poll(&format!("\"x\", W/{first}")).await.0, 304);
    let changes: [&dyn Fn(); 5] = [
        &|| rig.pane.title("Other"),
        &|| rig.pane.reply("r", "text").unwrap(),
        &|| rig.pane.state(PaneState::Working, Some("t1")),
        &|| rig.pane.actions([ActionView::new("a", "A")]).unwrap(),
        &|| drop(add_pane(&rig.core, "q")),
    ];
    let mut last = first;
    for change in changes {
        change();
        let (status, tag, _) = poll(&last).await;
        assert_eq!(status, 200);
        assert_ne!(tag, last);
        last = tag;
    }
    // What changes nothing leaves the tag.
    rig.pane.title("Other");
    rig.pane.state(PaneState::Working, None);
    assert_eq!(poll(&last).await.0, 304);
}

#[tokio::test]
async fn an_unchanged_state_is_not_made_again() {
    let rig = Rig::new();
    for number in 0..1000 {
        add_pane(&rig.core, &format!("p{number}"));
    }
    let state = async || {
        let (method, target) = ("GET".to_owned(), "/durable/v1/state".to_owned());
        let request = Request { method, target, ..Request::default() };
        rig.core.handle(request, Caller::Other).await.body
    };
    let first = state().await;
    assert!(
        std::sync::Arc::ptr_eq(&first, &state().await),
        "the same bytes, whatever their number"
    );
    rig.pane.title("Other");
    assert_ne!(first, state().await);
}

#[tokio::test]
async fn events_follow_a_cursor() {
    let rig = Rig::new();
    let view = rig.view().await;
    assert_eq!(view["reset"], true);
    assert_eq!(view["items"], json!([]));
    rig.pane.state(PaneState::Working, Some("t1"));
    rig.pane.user("u", "hi").unwrap();
    rig.pane.title("New");
    let events = rig.events(&view["cursor"]).await;
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["state", "item", "title"]);
    assert_eq!(events[0]["turnId"], "t1");
    assert_eq!(events[1]["item"]["kind"], "user");
    assert!(events[1]["item"]["ts"].is_string());

    let cursor = view["cursor"].as_str().unwrap();
    let page = rig.get(&format!("panes/p/events?after={cursor}&limit=2")).await.json;
    assert_eq!((&page["more"], page["events"].as_array().unwrap().len()), (&json!(true), 2));
    let rest = rig.events(&page["cursor"]).await;
    assert_eq!(rest.len(), 1);
}

#[tokio::test]
async fn a_cursor_that_does_not_fit_gets_the_full_view() {
    let rig = Rig::new();
    rig.pane.reply("r", "text").unwrap();
    let view = rig.view().await;
    let instance = view["cursor"].as_str().unwrap().split(':').next().unwrap().to_owned();
    for cursor in ["other:1", "nonsense", &format!("{instance}:0"), &format!("{instance}:999")] {
        let reply = rig.get(&format!("panes/p/events?after={cursor}")).await.json;
        assert_eq!(reply["reset"], true, "{cursor}");
        assert_eq!(reply["items"][0]["id"], "r");
    }
    assert_eq!(rig.get("panes/nobody/events").await.refusal(), (404, "unknown-pane"));
}

#[tokio::test]
async fn a_later_pane_of_the_same_id_is_another_one() {
    let rig = Rig::new();
    rig.pane.reply("r", "text").unwrap();
    let cursor = rig.view().await["cursor"].as_str().unwrap().to_owned();
    rig.pane.close();
    let last = rig.events(&json!(cursor)).await;
    assert_eq!(last.last().unwrap()["type"], "closed");
    add_pane(&rig.core, "p");
    let reply = rig.get(&format!("panes/p/events?after={cursor}")).await.json;
    assert_eq!((&reply["reset"], &reply["items"]), (&json!(true), &json!([])));
}

#[tokio::test]
async fn n069_n133_n134_n135_a_reader_behind_the_tail_gets_the_view() {
    let options = CoreOptions { tail_limit: 5, ..CoreOptions::default() };
    let rig = Rig::with(options);
    let cursor = rig.view().await["cursor"].as_str().unwrap().to_owned();
    for number in 0..6 {
        rig.pane.reply(&format!("r{number}"), "x").unwrap();
    }
    let reply = rig.get(&format!("panes/p/events?after={cursor}")).await.json;
    assert_eq!(reply["reset"], true);
    assert!(reply.get("droppedStart").is_none(), "all items are kept");
    for number in 6..2001 {
        rig.pane.reply(&format!("r{number}"), "x").unwrap();
    }
    let view = rig.view().await;
    assert_eq!(view["items"].as_array().unwrap().len(), 2000);
    assert_eq!(view["droppedStart"], true);
}

#[tokio::test]
async fn n134_the_tail_is_500_events_unless_configured() {
    let rig = Rig::new();
    let cursor = rig.view().await["cursor"].as_str().unwrap().to_owned();
    for number in 0..500 {
        rig.pane.reply(&format!("r{number}"), "x").unwrap();
    }
    let path = format!("panes/p/events?after={cursor}&limit=1000");
    let reply = rig.get(&path).await.json;
    assert_eq!((&reply["reset"], reply["events"].as_array().unwrap().len()), (&json!(false), 500));
    rig.pane.reply("one-more", "x").unwrap();
    assert_eq!(rig.get(&path).await.json["reset"], true);
}

#[tokio::test]
async fn n056_a_pane_tells_what_it_is() {
    let rig = Rig::new();
    let pane = &rig.pane;
    assert_eq!((pane.id(), pane.session_id().as_deref(), pane.turn_id()), ("p", Some("p"), None));
    pane.state(PaneState::Working, Some("t1"));
    let _ask = pane.ask(AskInput::text("Q").id("q")).unwrap();
    assert_eq!(pane.open_asks()[0].id, "q");
    pane.state(PaneState::Idle, None);
    assert_eq!(pane.turn_id().as_deref(), Some("t1"), "the last one");
}

#[tokio::test(start_paused = true)]
async fn n062_n063_growing_text_is_held_back_and_finished() {
    let rig = Rig::new();
    rig.pane.state(PaneState::Working, Some("t"));
    let cursor = rig.view().await["cursor"].clone();
    for text in ["a", "ab", "abc"] {
        rig.pane.partial_reply("r", text).unwrap();
    }
    let texts = async || -> Vec<(String, bool)> {
        let events = rig.events(&cursor).await;
        let items = events.iter().filter(|event| event["type"] == "item");
        items
            .map(|event| {
                let item = &event["item"];
                (item["text"].as_str().unwrap().to_owned(), item["partial"] == true)
            })
            .collect()
    };
    assert_eq!(texts().await, [("a".to_owned(), true)]);
    tokio::time::sleep(std::time::Duration::from_millis(251)).await;
    assert_eq!(texts().await.len(), 2, "the newest, once");
    assert_eq!(texts().await[1], ("abc".to_owned(), true));
    rig.pane.partial_reply("r", "abcd").unwrap();
    rig.pane.state(PaneState::Idle, None);
    assert_eq!(texts().await.last().unwrap(), &("abcd".to_owned(), false), "finished");
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(texts().await.len(), 3, "and nothing after it");
}

#[tokio::test]
async fn several_changes_are_seen_as_one() {
    let rig = Rig::new();
    let core = rig.core.clone();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let reader = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut looks = 0;
        while stopped.try_recv().is_err() {
            let request = Request {
                method: "GET".into(),
                target: "/durable/v1/state".into(),
                ..Request::default()
            };
            let response = runtime.block_on(core.handle(request, Caller::Other));
            let state: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
            let pane = &state["panes"][0];
            let asks = pane["asks"].as_array().unwrap().len();
            assert_eq!(asks == 1, pane["state"] == "waiting", "{pane}");
            looks += 1;
        }
        looks
    });
    for _ in 0..300 {
        let ask = rig.pane.edit(|edit| {
            edit.state(PaneState::Waiting, None);
            edit.ask(AskInput::text("Q").id("q")).unwrap()
        });
        rig.pane.edit(|edit| {
            edit.withdraw("q");
            edit.state(PaneState::Idle, None);
        });
        drop(ask);
    }
    stop.send(()).unwrap();
    assert!(reader.join().unwrap() > 0);
}

#[tokio::test]
async fn an_item_of_a_closed_pane_is_an_error() {
    let rig = Rig::new();
    rig.pane.close();
    assert!(rig.pane.item(Item::reply("r", "x")).is_err());
    assert!(rig.pane.ask(AskInput::text("t").id("1")).is_err());
}
