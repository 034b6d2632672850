//! A core without a socket, and requests to it.

use std::sync::Arc;

use agent_presence::collie::{
    Answer, AskClosed, Caller, Core, CoreOptions, Pane, PaneOptions, Request, Response,
};
use serde_json::{Value, json};

pub(crate) struct Rig {
    pub(crate) core: Core,
    pub(crate) pane: Pane,
    pub(crate) driver: Option<tokio::task::JoinHandle<()>>,
}

impl Rig {
    /// A driven core with one pane `p`, ready.
    pub(crate) fn new() -> Self {
        Self::with(CoreOptions::default())
    }

    pub(crate) fn with(options: CoreOptions) -> Self {
        let core = Core::new(options).unwrap();
        let pane = add_pane(&core, "p");
        core.ready();
        let driver = tokio::spawn({
            let core = core.clone();
            async move { core.drive().await }
        });
        Self { core, pane, driver: Some(driver) }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.get_as(Caller::Other, path).await
    }

    pub(crate) async fn get_as(&self, caller: Caller, path: &str) -> Reply {
        let target = format!("/durable/v1/{path}");
        self.request("GET", target, Vec::new(), caller).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Reply {
        self.post_as(Caller::Other, path, body).await
    }

    pub(crate) async fn post_as(&self, caller: Caller, path: &str, body: Value) -> Reply {
        let target = format!("/durable/v1/{path}");
        self.request("POST", target, body.to_string().into_bytes(), caller).await
    }

    async fn request(&self, method: &str, target: String, body: Vec<u8>, caller: Caller) -> Reply {
        let content_type = Some("application/json".to_owned());
        let request =
            Request { method: method.to_owned(), target, content_type, if_none_match: None, body };
        Reply::of(self.core.handle(request, caller).await)
    }

    pub(crate) async fn answer(&self, ask: &str, request_id: &str, answer: Value) -> Reply {
        let body = json!({"requestId": request_id, "answer": answer});
        self.post(&format!("panes/p/asks/{ask}"), body).await
    }

    /// The full view of the pane.
    pub(crate) async fn view(&self) -> Value {
        self.get("panes/p/events").await.json
    }

    /// The events of the pane after `cursor`.
    pub(crate) async fn events(&self, cursor: &Value) -> Vec<Value> {
        let cursor = cursor.as_str().unwrap();
        let reply = self.get(&format!("panes/p/events?after={cursor}")).await.json;
        assert_eq!(reply["reset"], false, "{reply}");
        reply["events"].as_array().unwrap().clone()
    }
}

pub(crate) fn add_pane(core: &Core, id: &str) -> Pane {
    let options =
        PaneOptions { title: "Pane".into(), harness: "test".into(), ..Default::default() };
    core.workspace("w", "Work").unwrap().tab("t", "Tab").unwrap().pane(id, options).unwrap()
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) json: Value,
}

impl Reply {
    fn of(response: Response) -> Self {
        let json = serde_json::from_slice(&response.body).unwrap_or_default();
        Self { status: response.status, headers: response.headers, json }
    }

    /// The status and the code of a refusal.
    pub(crate) fn refusal(&self) -> (u16, &str) {
        assert_eq!(self.json["error"], self.json["code"], "{self:?}");
        (self.status, self.json["code"].as_str().unwrap_or("none"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| *found == name).map(|(_, value)| value.as_str())
    }
}

/// Where a callback puts its verdict.
pub(crate) type Verdicts = Arc<std::sync::Mutex<Vec<Result<Answer, AskClosed>>>>;

/// A place for a verdict, and the callback that fills it.
pub(crate) fn verdict() -> (Verdicts, impl FnOnce(Result<Answer, AskClosed>) + Send) {
    let place = Arc::new(std::sync::Mutex::new(Vec::new()));
    let filled = place.clone();
    (place, move |verdict| filled.lock().unwrap().push(verdict))
}
