//! `collie/contract`: the `openapi.json` holds for what the code answers, and golden bodies.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent_presence::collie::{
    ActionView, Ask, AskInput, AskOption, Caller, CoreOptions, Field, FieldKind, Item,
    MemoryHistory, PaneState, ToolStatus,
};
use serde_json::{Value, json};

use crate::rig::Rig;

/// Always the same time.
#[derive(Debug)]
struct StoppedClock;

impl agent_presence::Clock for StoppedClock {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(1_796_050_426_120)
    }
}

fn document() -> Value {
    serde_json::from_str(include_str!("../../collie/contract/openapi.json")).unwrap()
}

/// Checks `value` against the part of JSON Schema that the document uses. A field that a schema does
/// not name is an error too: nothing may be answered that is not written down.
fn check(document: &Value, schema: &Value, value: &Value, place: &str) {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap();
        return check(document, &document["components"]["schemas"][name], value, place);
    }
    let fits = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        kind => panic!("{place} has the unknown type {kind}"),
    };
    match &schema["type"] {
        Value::String(kind) => assert!(fits(kind), "{place} is no {kind}: {value}"),
        Value::Array(kinds) => {
            assert!(kinds.iter().any(|kind| fits(kind.as_str().unwrap())), "{place}: {value}");
        }
        other => panic!("{place} has the type {other}"),
    }
    if let Some(values) = schema["enum"].as_array() {
        assert!(values.contains(value), "{place} is {value}");
    }
    if let (Some(fields), Some(known)) = (value.as_object(), schema["properties"].as_object()) {
        for (name, field) in fields {
            let schema = known.get(name).unwrap_or_else(|| panic!("{place}.{name} is not known"));
            check(document, schema, field, &format!("{place}.{name}"));
        }
        for name in schema["required"].as_array().unwrap() {
            assert!(fields.contains_key(name.as_str().unwrap()), "{place} has no {name}: {value}");
        }
    }
    for (number, element) in value.as_array().into_iter().flatten().enumerate() {
        check(document, &schema["items"], element, &format!("{place}[{number}]"));
    }
}

/// A rig in which every shape of the wire is seen.
fn full_rig() -> Rig {
    let rig = Rig::with(CoreOptions {
        host_name: "desk".to_owned(),
        runtime: "agent-presence/0.1.0".to_owned(),
        clock: Arc::new(StoppedClock),
        ..CoreOptions::default()
    });
    rig.core.starters([ActionView::new("new", "New ticket").icon("play")]).unwrap();
    let history = MemoryHistory::new();
    let row = json!({"id": "old", "title": "Old", "startedAt": "2026-11-30T14:53:46.120Z",
                     "endedAt": "2026-11-30T15:53:46.120Z", "state": "closed", "items": 0});
    history.put_row(serde_json::from_value(row).unwrap());
    history.put_item("old", Item::user("u", "hi"));
    rig.core.history(history);
    let pane = &rig.pane;
    pane.actions([ActionView::new("archive", "Archive").icon("archive")]).unwrap();
    pane.on_send(async |_| Ok(()));
    pane.on_stop(async |_| Ok(()));
    pane.on_action(async |_| Ok(()));
    pane.state(PaneState::Working, Some("t-9"));
    pane.item(Item::tool("call-1", "bash", ToolStatus::Running).input("cargo test")).unwrap();
    rig
}

/// Raises an ask of each kind, and withdraws one.
fn raise_every_kind(rig: &Rig) -> [Ask; 4] {
    let two = [AskOption::new("yes", "Yes").detail("do it"), AskOption::new("no", "No")];
    let fields = [Field::new("n", "How many", FieldKind::Number).required()];
    let asks = [
        AskInput::approval("refund wants to run").id("q1").tool("refund()").allow_always(),
        AskInput::choice("Which?", two).id("q2").push(Some("Which?"), None),
        AskInput::text("Why?").id("q3").timeout(Duration::from_secs(600)),
        AskInput::form("How?", fields).tool_call_id("call-2").item_id("call-2"),
    ];
    let asks = asks.map(|ask| rig.pane.ask(ask).unwrap());
    rig.pane.withdraw("q3");
    rig.pane.title("New title");
    asks
}

/// Without what is new at each start.
fn golden(name: &str, mut value: Value, instance: &str) {
    let text = value.to_string().replace(instance, "INSTANCE");
    value = serde_json::from_str(&text).unwrap();
    insta::with_settings!({
        snapshot_path => "../../collie/contract",
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, { insta::assert_json_snapshot!(name, value) });
}

#[tokio::test]
async fn answers_are_as_the_document_says() {
    let document = document();
    let rig = full_rig();
    let instance = rig.get("hello").await.json["instance"].as_str().unwrap().to_owned();
    let begin = rig.view().await["cursor"].as_str().unwrap().to_owned();
    let asks = raise_every_kind(&rig);
    let target = json!({"pane": "p"});
    let requests = [
        ("hello", "get", "hello", Value::Null),
        ("hello-from-collie", "post", "hello", json!({"wire": {"min": 1, "max": 1}})),
        ("state", "get", "state", Value::Null),
        ("events", "get", "panes/p/events?after=CURSOR", Value::Null),
        ("view", "get", "panes/p/events", Value::Null),
        ("history", "get", "history", Value::Null),
        ("history-items", "get", "history/old", Value::Null),
        ("answer", "post", "panes/p/asks/q1", json!({"answer": {"optionIds": ["allow"]}})),
        ("ask-closed", "post", "panes/p/asks/q1", json!({"answer": {"optionIds": ["deny"]}})),
        ("ask-changed", "post", "panes/p/asks/q2", json!({"answer": {}, "hash": "other"})),
        ("ask-open", "post", "panes/p/send", json!({"text": "hi"})),
        ("steered", "post", "panes/p/send", json!({"text": "hi", "steer": true})),
        ("stopped", "post", "panes/p/stop", json!({"turnId": "t-9"})),
        ("turn-moved", "post", "panes/p/stop", json!({"turnId": "t-8"})),
        ("tapped", "post", "panes/p/actions/archive", json!({"itemId": "call-1"})),
        ("renamed", "post", "rename", json!({"target": target, "title": "Other"})),
        ("closed", "post", "close", json!({"target": target})),
        ("reopened", "post", "reopen", json!({"sessionId": "p"})),
        ("not-supported", "post", "start", json!({"starterId": "new"})),
        ("bad-request", "post", "start", json!({})),
        ("unknown-path", "get", "nothing", Value::Null),
    ];
    for (name, method, path, mut body) in requests {
        let path = path.replace("CURSOR", &begin);
        let reply = if method == "get" {
            rig.get(&path).await
        } else {
            body["requestId"] = name.into();
            rig.post(&path, body).await
        };
        let schema = schema_of(&document, method, &path, reply.status);
        check(&document, &schema, &reply.json, name);
        golden(name, reply.json, &instance);
    }
    drop(asks);
}

/// The schema of an answer: found by its path, with its ids as the document's names.
fn schema_of(document: &Value, method: &str, path: &str, status: u16) -> Value {
    let path = format!("/durable/v1/{}", path.split('?').next().unwrap());
    let matches = |pattern: &str| {
        let (one, other) = (pattern.split('/'), path.split('/'));
        one.clone().count() == other.clone().count()
            && one.zip(other).all(|(one, other)| one == other || one.starts_with('{'))
    };
    let paths = document["paths"].as_object().unwrap();
    let Some((_, methods)) = paths.iter().find(|(pattern, _)| matches(pattern)) else {
        return json!({"$ref": "#/components/schemas/Error"});
    };
    let responses = &methods[method]["responses"];
    let response = responses.get(status.to_string()).unwrap_or(&responses["default"]);
    response["content"]["application/json"]["schema"].clone()
}

#[tokio::test]
async fn the_document_names_every_path_and_method() {
    let rig = full_rig();
    for (path, methods) in document()["paths"].as_object().unwrap() {
        let path = path.strip_prefix("/durable/v1/").unwrap();
        let path = path.replace("{pane}", "p").replace("{ask}", "q").replace("{action}", "a");
        let path = path.replace("{session}", "s");
        for method in ["get", "post"] {
            let reply = if method == "get" {
                rig.get(&path).await
            } else {
                rig.post_as(Caller::Agent, &path, json!({})).await
            };
            let code = reply.json["code"].as_str().unwrap_or_default();
            assert_ne!(code, "unknown-path", "{path}");
            assert_eq!(
                code == "method-not-allowed",
                methods.get(method).is_none(),
                "{method} {path}"
            );
        }
    }
}
