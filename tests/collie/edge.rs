//! Raw bytes at both listeners: what hyper would let through, and what must still work.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use agent_presence::collie::{
    self, CallerCheck, Core, CoreOptions, Tokens, serve_loopback, serve_private,
};

use crate::agent::folder;
use crate::rig::add_pane;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

trait Stream: Read + Write {
    fn end(&self);
}

impl Stream for UnixStream {
    fn end(&self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

impl Stream for TcpStream {
    fn end(&self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

/// Both listeners, served by a thread of its own.
struct Served {
    socket: PathBuf,
    address: SocketAddr,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl Served {
    fn start() -> Self {
        let folder = folder();
        let socket = folder.path().join("app.sock");
        let (told, tell) = std::sync::mpsc::channel();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let path = socket.clone();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let options =
                    CoreOptions { caller_check: CallerCheck::Off, ..CoreOptions::default() };
                let core = Core::new(options).unwrap();
                add_pane(&core, "p").on_send(async |_| Ok(()));
                core.ready();
                let tokens = Tokens::new(TOKEN).unwrap();
                let loopback = serve_loopback(core.clone(), 0, tokens).await.unwrap();
                let private = serve_private(core, path).await.unwrap();
                told.send(loopback.address()).unwrap();
                let _ = stopped.await;
                loopback.close().await;
                private.close().await;
            });
        });
        let address = tell.recv().unwrap();
        Self { socket, address, stop: Some(stop), thread: Some(thread), _folder: folder }
    }

    fn streams(&self) -> [(Box<dyn Stream>, &'static str); 2] {
        let patience = Some(Duration::from_secs(30));
        let unix = UnixStream::connect(&self.socket).unwrap();
        unix.set_read_timeout(patience).unwrap();
        let tcp = TcpStream::connect(self.address).unwrap();
        tcp.set_read_timeout(patience).unwrap();
        [(Box::new(unix), "unix"), (Box::new(tcp), "tcp")]
    }

    /// Sends the same bytes to both, with the token where `{token}` is, and gives both answers.
    fn answers(&self, request: &[u8]) -> [String; 2] {
        let token = format!("Authorization: Bearer {TOKEN}\r\n");
        let place = request.windows(7).position(|window| window == b"{token}");
        let request = match place {
            None => request.to_vec(),
            Some(at) => [&request[..at], token.as_bytes(), &request[at + 7..]].concat(),
        };
        self.streams().map(|(mut stream, _)| {
            let _ = stream.write_all(&request);
            stream.end();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            String::from_utf8_lossy(&answer).into_owned()
        })
    }

    fn statuses(&self, request: &[u8]) -> Vec<Vec<u16>> {
        self.answers(request).iter().map(|answer| statuses(answer)).collect()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn statuses(answer: &str) -> Vec<u16> {
    answer
        .match_indices("HTTP/1.1 ")
        .map(|(at, prefix)| answer[at + prefix.len()..][..3].parse().unwrap())
        .collect()
}

#[test]
fn what_is_plain_is_answered() {
    let served = Served::start();
    let plain = [
        "GET /durable/v1/hello HTTP/1.1\r\nHost: localhost\r\n{token}\r\n".to_owned(),
        // Two requests at once, answered in order.
        "GET /durable/v1/hello HTTP/1.1\r\nHost: localhost\r\n{token}\r\n".to_owned(),
    ];
    for request in plain {
        assert_eq!(served.statuses(request.as_bytes()), [[200], [200]], "{request:?}");
    }
    let get = format!(
        "GET /durable/v1/hello HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    );
    let bad = "GET http://x/ HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(served.statuses(format!("{get}{get}").as_bytes()), [[200, 200], [200, 200]]);
    // A refused one is answered in its turn, and nothing after it.
    let three = format!("{get}{bad}{get}");
    assert_eq!(served.statuses(three.as_bytes()), [[200, 400], [200, 400]]);
}

#[test]
fn bodies_of_both_framings_are_read() {
    let served = Served::start();
    let head = "POST /durable/v1/panes/p/send HTTP/1.1\r\nHost: localhost\r\n{token}\
                Content-Type: application/json\r\n";
    let body = r#"{"requestId":"r","text":"a"}"#;
    let lengthy = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    assert_eq!(served.statuses(lengthy.as_bytes()), [[200], [200]]);
    let (one, two) = body.split_at(10);
    let chunked = format!(
        "{head}Transfer-Encoding: chunked\r\n\r\n{:x};ext=1\r\n{one}\r\n{:x}\r\n{two}\r\n0\r\nTrailer: x\r\n\r\n",
        one.len(),
        two.len()
    );
    assert_eq!(served.statuses(chunked.as_bytes()), [[200], [200]]);
    assert_eq!(
        served.statuses(format!("{chunked}GET /durable/v1/none HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n").as_bytes()),
        [[200, 404], [200, 404]],
        "the next head is found"
    );
    let bad_size = format!("{head}Transfer-Encoding: chunked\r\n\r\nzz\r\n{body}\r\n0\r\n\r\n");
    assert_eq!(served.statuses(bad_size.as_bytes()), [[400], [400]], "not an empty body");
    let cut_off = format!("{head}Content-Length: 1000\r\n\r\n{body}");
    assert_eq!(served.statuses(cut_off.as_bytes()), [[400], [400]]);
}

#[test]
fn what_hyper_lets_through_is_refused() {
    let served = Served::start();
    let long = "x".repeat(17 * 1024);
    let cases: &[(&str, u16)] = &[
        ("GET /durable/v1/hello HTTP/1.1\r\n{token}\r\n", 400),
        (
            "GET /durable/v1/hello HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n{token}\r\n",
            400,
        ),
        ("GET http://localhost/durable/v1/hello HTTP/1.1\r\nHost: localhost\r\n{token}\r\n", 400),
        ("CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n{token}\r\n", 400),
        ("TRACE /durable/v1/hello HTTP/1.1\r\nHost: localhost\r\n{token}\r\n", 405),
        ("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n{token}\r\n", 400),
        ("GET /durable/v1/hello HTTP/1.1\nHost: localhost\n\n", 400),
        ("GET /durable/v1/hello HTTP/1.0\r\nHost: localhost\r\n{token}\r\n", 400),
        ("GET /durable/v1/hello HTTP/1.1\r\nHost : localhost\r\n{token}\r\n", 400),
        ("GET /durable/v1/hello HTTP/1.1\r\nHost: localhost\r\n folded\r\n{token}\r\n", 400),
        (
            "POST /durable/v1/hello HTTP/1.1\r\nHost: localhost\r\n{token}Content-Length: 5\r\n\
             Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
        ),
        (
            "POST /durable/v1/hello HTTP/1.1\r\nHost: localhost\r\n{token}Content-Length: 5\r\n\
             Content-Length: 6\r\n\r\n",
            400,
        ),
        (
            "POST /durable/v1/hello HTTP/1.1\r\nHost: localhost\r\n{token}Content-Length: -5\r\n\r\n",
            400,
        ),
        (
            "POST /durable/v1/hello HTTP/1.1\r\nHost: localhost\r\n{token}\
             Transfer-Encoding: gzip\r\n\r\n",
            400,
        ),
        ("GARBAGE\r\n\r\n", 400),
        ("\r\n\r\nGET /durable/v1/hello HTTP/1.1\r\nHost: localhost\r\n{token}\r\n", 400),
        (
            "GET /durable/v1/hello HTTP/1.1\r\nHost: localhost\r\nx-durable-refused: 200 x\r\n{token}\r\n",
            400,
        ),
    ];
    for (request, status) in cases {
        assert_eq!(served.statuses(request.as_bytes()), [[*status], [*status]], "{request:?}");
    }
    let long_header =
        format!("GET /durable/v1/hello HTTP/1.1\r\nHost: localhost\r\n{{token}}X: {long}\r\n\r\n");
    assert_eq!(served.statuses(long_header.as_bytes()), [[413], [413]]);
    let endless = format!("GET /{long}");
    assert_eq!(served.statuses(endless.as_bytes()), [[413], [413]]);
}

#[test]
fn a_body_over_its_limit_is_too_large() {
    let served = Served::start();
    let request = |size: usize| {
        let head = format!(
            "POST /durable/v1/panes/p/send HTTP/1.1\r\nHost: localhost\r\n{{token}}\
             Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
        );
        [head.as_bytes(), &b" ".repeat(size)].concat()
    };
    assert_eq!(served.statuses(&request(1024 * 1024 + 1)), [[413], [413]]);
    // At the limit it is read, and is no JSON.
    assert_eq!(served.statuses(&request(1024 * 1024)), [[400], [400]]);
}

#[test]
fn n178_n186_loopback_takes_a_token_on_every_request() {
    let served = Served::start();
    let tcp = |request: String| served.answers(request.as_bytes())[1].clone();
    let none = tcp("GET /durable/v1/hello HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned());
    assert_eq!(statuses(&none), [401]);
    assert!(none.to_ascii_lowercase().contains("www-authenticate: bearer"), "{none}");
    assert!(none.contains("\"bad-token\""));
    let wrong = "f".repeat(32);
    let wrong = tcp(format!(
        "GET /durable/v1/hello HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {wrong}\r\n\r\n"
    ));
    assert_eq!(statuses(&wrong), [401]);
    for host in ["evil.example", "localhost.evil", "10.0.0.1"] {
        let rebound =
            tcp(format!("GET /durable/v1/hello HTTP/1.1\r\nHost: {host}\r\n{{token}}\r\n"));
        assert_eq!(statuses(&rebound), [400], "{host}");
    }
}

#[test]
fn json_only_and_paths_only() {
    let served = Served::start();
    let post = |path: &str, kind: &str, body: &str| {
        let request = format!(
            "POST /durable/v1/{path} HTTP/1.1\r\nHost: localhost\r\n{{token}}{kind}\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        served.statuses(request.as_bytes())[0][0]
    };
    assert_eq!(post("panes/p/stop", "", "{}"), 415);
    assert_eq!(post("panes/p/stop", "Content-Type: text/plain\r\n", "{}"), 415);
    let json = "Content-Type: application/json; charset=utf-8\r\n";
    assert_eq!(post("panes/p/stop", json, "{}"), 400);
    assert_eq!(post("panes/p/stop", json, "nonsense"), 400);
    assert_eq!(post("nothing", json, "{}"), 404);
    assert_eq!(post("state", json, "{}"), 405);
}

#[test]
fn a_head_has_five_seconds_and_the_65th_connection_waits() {
    let served = Served::start();
    let begin = Instant::now();
    let mut slow = UnixStream::connect(&served.socket).unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    slow.write_all(b"GET /durable/v1/hello HTTP/1.1\r\nHo").unwrap();
    let silent: Vec<_> = (0..63).map(|_| UnixStream::connect(&served.socket).unwrap()).collect();
    // The 65th is in the queue until one of the others has had its time.
    let mut next = UnixStream::connect(&served.socket).unwrap();
    next.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    next.write_all(b"GET /durable/v1/hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    next.read_to_string(&mut answer).unwrap();
    assert_eq!(statuses(&answer), [200]);
    let waited = begin.elapsed();
    assert!(
        waited >= Duration::from_millis(4900) && waited < Duration::from_secs(15),
        "{waited:?}"
    );
    let mut answer = String::new();
    slow.read_to_string(&mut answer).unwrap();
    assert_eq!(statuses(&answer), [400]);
    assert!(answer.contains("5 s"), "{answer}");
    drop(silent);
}

#[test]
fn n036_n037_the_path_comes_from_the_environment() {
    let folder = folder();
    let socket = folder.path().join("env/app.sock");
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_durable-agent"))
        .arg("--env")
        .env("COLLIE_DURABLE_SOCKET", &socket)
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let phone = crate::support::phone::Phone::at(&socket);
    phone.wait_ready();
    assert_eq!(phone.hello()["callerCheck"], "off");
    assert_eq!(phone.hello()["caps"]["send"], false);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let none = std::process::Command::new(env!("CARGO_BIN_EXE_durable-agent"))
        .arg("--env")
        .env_remove("COLLIE_DURABLE_SOCKET")
        .output()
        .unwrap();
    let said = String::from_utf8(none.stdout).unwrap();
    assert_eq!(said, "error no socket path: give one, or set COLLIE_DURABLE_SOCKET\n");
}

#[tokio::test]
async fn open_says_why_not() {
    let folder = folder();
    let open = async |path: &Path| {
        let options =
            collie::Options { socket: Some(path.to_owned()), ..collie::Options::default() };
        collie::open(options).await
    };
    let path = folder.path().join("a/app.sock");
    let first = open(&path).await.unwrap();
    assert_eq!(first.address(), path, "N042");
    let error = open(&path).await.unwrap_err();
    assert!(matches!(error, collie::OpenError::AlreadyServed { .. }), "{error}");
    let long = open(&folder.path().join("x".repeat(100))).await.unwrap_err();
    assert!(matches!(long, collie::OpenError::PathTooLong { .. }), "{long}");
    first.close().await;
    std::fs::set_permissions(
        path.parent().unwrap(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let error = open(&path).await.unwrap_err().to_string();
    assert!(
        error.starts_with("socket-not-private: ") && error.ends_with("a has mode 0755, not 0700"),
        "{error}"
    );
}

#[tokio::test]
async fn n043_a_close_leaves_asks_open() {
    let folder = folder();
    let options = collie::Options {
        socket: Some(folder.path().join("app.sock")),
        ..collie::Options::default()
    };
    let served = collie::open(options).await.unwrap();
    let pane = add_pane(served.core(), "p");
    served.ready();
    let ask = pane.ask(collie::AskInput::approval("Q").id("q")).unwrap();
    served.close().await;
    assert_eq!(pane.open_asks().len(), 1, "an exit is not an answer");
    assert!(tokio::time::timeout(Duration::from_millis(20), ask).await.is_err());
    assert!(!folder.path().join("app.sock").exists());
}
