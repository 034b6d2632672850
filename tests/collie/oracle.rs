//! What must hold of the wire for any bytes: for the fuzz targets in `tests/fuzz`, which take this file,
//! and as properties on stable for `fuzzed.rs`.

use agent_presence::collie::{
    ActionView, AskInput, AskOption, Caller, Core, CoreOptions, Field, FieldKind, MemoryHistory,
    PaneOptions, Request,
};
use serde_json::Value;

/// The routes with a body. The first byte for [`body`] picks one.
const ROUTES: [&str; 11] = [
    "hello",
    "panes/p/send",
    "panes/p/stop",
    "panes/p/actions/archive",
    "panes/p/asks/choice",
    "panes/p/asks/text",
    "panes/p/asks/form",
    "rename",
    "close",
    "reopen",
    "start",
];

/// A method, a space and a target, in which `INSTANCE` is the one that is served: it is answered in
/// JSON, and no refusal says that something failed.
pub(crate) fn target(bytes: &[u8]) {
    block_on(async {
        let core = core();
        let hello = handle(&core, "GET", "/durable/v1/hello", &[]).await.1;
        let instance = hello["instance"].as_str().expect("an instance");
        let text = String::from_utf8_lossy(bytes).replace("INSTANCE", instance);
        let (method, target) = text.split_once(' ').unwrap_or(("GET", &text));
        let (status, reply) = handle(&core, method, target, &[]).await;
        assert!([200, 400, 404, 405, 409].contains(&status), "{status} {reply}");
    });
}

/// A route and a body: it is answered in JSON, no refusal says that something failed, and the same
/// request again runs nothing and gets the same answer.
pub(crate) fn body(bytes: &[u8]) {
    let Some((route, body)) = bytes.split_first() else { return };
    let route = ROUTES[usize::from(*route) % ROUTES.len()];
    let target = format!("/durable/v1/{route}");
    block_on(async {
        let core = core();
        let (status, first) = handle(&core, "POST", &target, body).await;
        assert!([200, 400, 404, 409].contains(&status), "{status} {first}");
        let (again, mut second) = handle(&core, "POST", &target, body).await;
        assert_eq!(status, again, "{first} {second}");
        if status == 200 && route != "hello" {
            let replayed = second.as_object_mut().and_then(|fields| fields.remove("replayed"));
            assert_eq!(replayed, Some(Value::Bool(true)));
        }
        assert_eq!(first, second);
    });
}

fn block_on(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(future);
}

/// A core in which every route finds something.
fn core() -> Core {
    let core = Core::new(CoreOptions::default()).expect("a core");
    let tab = core.workspace("w", "W").expect("a workspace").tab("t", "T").expect("a tab");
    let pane = tab.pane("p", PaneOptions::default()).expect("a pane");
    pane.on_send(async |_| Ok(()));
    pane.on_steer(async |_| Ok(()));
    pane.on_stop(async |_| Ok(()));
    pane.on_action(async |_| Ok(()));
    pane.actions([ActionView::new("archive", "Archive")]).expect("actions");
    core.starters([ActionView::new("new", "New")]).expect("starters");
    core.history(MemoryHistory::new());
    let options = ["a", "b", "c"].map(|id| AskOption::new(id, id));
    let fields = [
        Field::new("n", "N", FieldKind::Number).required(),
        Field::new("t", "T", FieldKind::Text),
        Field::new("b", "B", FieldKind::Boolean),
    ];
    for ask in [
        AskInput::choice("Which?", options).id("choice"),
        AskInput::text("Why?").id("text"),
        AskInput::form("How?", fields).id("form"),
    ] {
        pane.ask_with(ask, |_| {}).expect("an ask");
    }
    core.ready();
    core
}

async fn handle(core: &Core, method: &str, target: &str, body: &[u8]) -> (u16, Value) {
    let request = Request {
        method: method.to_owned(),
        target: target.to_owned(),
        content_type: Some("application/json".to_owned()),
        if_none_match: None,
        body: body.to_vec(),
    };
    let response = core.handle(request, Caller::Other).await;
    let reply: Value = serde_json::from_slice(&response.body).expect("JSON");
    if response.status != 200 {
        assert!(reply["code"].is_string() && reply["code"] == reply["error"], "{reply}");
    }
    (response.status, reply)
}
