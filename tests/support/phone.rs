//! A phone: raw HTTP/1.1 over the Unix socket, blocking, and without any of the crate's own code.

#![allow(dead_code, reason = "each test uses its own part")]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A phone that looks at one socket. Every request is on a connection of its own.
#[derive(Debug)]
pub(crate) struct Phone {
    socket: PathBuf,
    next_request: std::cell::Cell<u32>,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

impl Phone {
    pub(crate) fn at(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into(), next_request: std::cell::Cell::new(0) }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Waits until somebody serves the socket and has placed its layout.
    pub(crate) fn wait_ready(&self) {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if UnixStream::connect(&self.socket).is_ok() && self.hello()["phase"] == "ready" {
                return;
            }
            assert!(Instant::now() < deadline, "nobody serves {}", self.socket.display());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends bytes as they are, and reads until the other side closes.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        // The other side may have refused and closed before it has read all.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply);
        reply
    }

    /// As [`raw`](Self::raw), and the status of the first answer; 0 for none.
    pub(crate) fn raw_status(&self, bytes: &[u8]) -> u16 {
        let reply = String::from_utf8_lossy(&self.raw(bytes)).into_owned();
        reply.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    pub(crate) fn request(&self, method: &str, path: &str, headers: &str, body: &str) -> Reply {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-length: {length}\r\n{headers}\r\n{body}"
        );
        let reply = self.raw(request.as_bytes());
        let end = reply
            .windows(4)
            .position(|window| window == b"\r\n\r\n")
            .unwrap_or_else(|| panic!("no answer to {method} {path}: {reply:?}"));
        let head = String::from_utf8(reply[..end].to_vec()).unwrap();
        let status = head[9..12].parse().unwrap();
        Reply { status, head, body: reply[end + 4..].to_vec() }
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.request("GET", &format!("/durable/v1/{path}"), "", "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        let headers = "content-type: application/json\r\n";
        self.request("POST", &format!("/durable/v1/{path}"), headers, &body.to_string())
    }

    /// As [`get`](Self::get), from a socket that may be gone, or serve nobody. None: no whole answer.
    pub(crate) fn try_get(&self, path: &str) -> Option<Value> {
        let reply = self.try_exchange(&format!(
            "GET /durable/v1/{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        ))?;
        serde_json::from_str(reply.split_once("\r\n\r\n")?.1).ok()
    }

    /// As [`post`](Self::post), likewise. The status of the answer.
    pub(crate) fn try_post(&self, path: &str, body: &Value) -> Option<u16> {
        self.try_exchange(&post_text(path, body))?.get(9..12)?.parse().ok()
    }

    /// Posts, and goes away before the answer.
    pub(crate) fn post_and_leave(&self, path: &str, body: &Value) {
        if let Ok(mut stream) = UnixStream::connect(&self.socket) {
            let _ = stream.write_all(post_text(path, body).as_bytes());
        }
    }

    fn try_exchange(&self, request: &str) -> Option<String> {
        let mut stream = UnixStream::connect(&self.socket).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(request.as_bytes()).ok()?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).ok()?;
        Some(reply)
    }

    /// A request id that this phone has not used.
    pub(crate) fn request_id(&self) -> String {
        self.next_request.set(self.next_request.get() + 1);
        format!("phone-{}-{}", std::process::id(), self.next_request.get())
    }

    pub(crate) fn hello(&self) -> Value {
        self.get("hello").json()
    }

    /// The state's tag and body; `None` if `etag` is still its tag.
    pub(crate) fn state_if_changed(&self, etag: Option<&str>) -> Option<(String, Value)> {
        let header = etag.map(|etag| format!("if-none-match: {etag}\r\n")).unwrap_or_default();
        let reply = self.request("GET", "/durable/v1/state", &header, "");
        if reply.status == 304 {
            assert!(reply.body.is_empty());
            return None;
        }
        assert_eq!(reply.status, 200);
        Some((reply.header("etag").unwrap().to_owned(), reply.json()))
    }

    pub(crate) fn state(&self) -> Value {
        self.state_if_changed(None).unwrap().1
    }

    /// A pane in the state; null if there is none.
    pub(crate) fn pane(&self, id: &str) -> Value {
        let state = self.state();
        let panes = state["panes"].as_array().unwrap();
        panes.iter().find(|pane| pane["id"] == id).cloned().unwrap_or_default()
    }

    /// Polls until `holds`, as the phone polls, and gives the state.
    pub(crate) fn wait_for(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let state = self.state();
            if holds(&state) {
                return state;
            }
            assert!(Instant::now() < deadline, "no {what} in {state:#}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for an open ask, and gives its pane's id and the ask.
    pub(crate) fn wait_for_ask(&self) -> (String, Value) {
        let asks = |state: &Value| {
            let panes = state["panes"].as_array().unwrap().clone();
            panes.into_iter().find(|pane| pane["asks"][0].is_object())
        };
        let state = self.wait_for("open ask", |state| asks(state).is_some());
        let pane = asks(&state).unwrap();
        (pane["id"].as_str().unwrap().to_owned(), pane["asks"][0].clone())
    }

    pub(crate) fn events(&self, pane: &str, after: Option<&str>) -> Value {
        let after = after.map(|after| format!("?after={after}")).unwrap_or_default();
        self.get(&format!("panes/{pane}/events{after}")).json()
    }

    pub(crate) fn answer(&self, pane: &str, ask: &str, answer: &Value) -> Reply {
        let body = json!({"requestId": self.request_id(), "answer": answer});
        self.post(&format!("panes/{pane}/asks/{ask}"), &body)
    }

    pub(crate) fn send(&self, pane: &str, text: &str) -> Reply {
        let body = json!({"requestId": self.request_id(), "text": text});
        self.post(&format!("panes/{pane}/send"), &body)
    }

    pub(crate) fn steer(&self, pane: &str, text: &str) -> Reply {
        let body = json!({"requestId": self.request_id(), "text": text, "steer": true});
        self.post(&format!("panes/{pane}/send"), &body)
    }

    pub(crate) fn stop(&self, pane: &str) -> Reply {
        self.post(&format!("panes/{pane}/stop"), &json!({"requestId": self.request_id()}))
    }

    pub(crate) fn tap(&self, pane: &str, action: &str) -> Reply {
        let body = json!({"requestId": self.request_id()});
        self.post(&format!("panes/{pane}/actions/{action}"), &body)
    }
}

fn post_text(path: &str, body: &Value) -> String {
    let body = body.to_string();
    let length = body.len();
    format!(
        "POST /durable/v1/{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}
