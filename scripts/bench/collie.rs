//! What the phone pays for a look and an answer, and what sessions take of memory.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use agent_presence::collie::{
    AskInput, CallerCheck, Core, CoreOptions, FileRecords, Item, PaneOptions, serve_private,
};
use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;

use super::commands::status;
use super::{percentile, row};

const LOOKS: usize = 4_000;
const ACTIONS: usize = 1_000;

/// The flag by which this program runs itself as an agent with many sessions.
pub(crate) const SESSIONS: &str = "--collie-sessions";

/// The flags by which this program runs itself on one core.
pub(crate) const READS: &str = "--collie-reads";
pub(crate) const WRITES: &str = "--collie-writes";

const HELLO: &str = "GET /durable/v1/hello HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// [`reads_on_one_core`].
pub(crate) fn reads() {
    on_one_core(READS);
}

/// [`writes_on_one_core`].
pub(crate) fn writes() {
    on_one_core(WRITES);
}

/// Runs this program on one core: where the scheduler puts a thread makes more of a difference than
/// everything that is measured here.
pub(crate) fn on_one_core(flag: &str) {
    let own = env::current_exe().unwrap();
    let ended = Command::new("taskset").args(["-c", "0"]).arg(own).arg(flag).status();
    assert!(ended.unwrap().success());
}

/// `hello` on a kept connection against bare hyper with the same answer, and an unchanged poll with
/// one pane and with a thousand against each other. Each has a server of its own.
pub(crate) fn reads_on_one_core() {
    let folder = folder();
    let agents = [("hello", 1), ("one", 1), ("many", 1_000)]
        .map(|(name, panes)| Agent::start(folder.path(), name, panes));
    let [mut hello, mut one, mut many] = agents.map(|agent| Phone::at(&agent.socket));
    let mut bare = Phone::at(&bare_hyper(folder.path(), hello.call(HELLO)));
    let (poll_one, poll_many) = (one.unchanged_poll(), many.unchanged_poll());
    let mut samples = [const { Vec::new() }; 4];
    for _ in 0..LOOKS {
        samples[0].push(bare.timed(HELLO));
        samples[1].push(hello.timed(HELLO));
        samples[2].push(one.timed(&poll_one));
        samples[3].push(many.timed(&poll_many));
    }
    let [mut bare, mut hello, mut poll_one, mut poll_many] = samples;
    for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
        let floor = percentile(&mut bare, share);
        row(&format!("hello, {name}, against bare hyper"), percentile(&mut hello, share), floor);
        let one = percentile(&mut poll_one, share);
        row(&format!("304 with 1 pane, {name}, against bare hyper"), one, floor);
        let what = format!("304 with 1,000 panes, {name}, against 1 pane");
        row(&what, percentile(&mut poll_many, share), one);
    }
}

/// An answer and a send whose receipts are on the disk, against a bare append to a file beside them.
pub(crate) fn writes_on_one_core() {
    let folder = folder();
    let agent = Agent::start(folder.path(), "agent", 1);
    let pane = agent.core.pane("p0").unwrap();
    pane.on_send(async |_| Ok(()));
    let mut phone = Phone::at(&agent.socket);
    let mut file = File::create(folder.path().join("agent/bare")).unwrap();
    let line = [b"x".repeat(159), b"\n".to_vec()].concat();
    let mut samples = [const { Vec::new() }; 3];
    for turn in 0..ACTIONS {
        let began = Instant::now();
        file.write_all(&line).unwrap();
        file.sync_data().unwrap();
        samples[0].push(began.elapsed());

        let ask = AskInput::approval("May I?").id(format!("q{turn}"));
        pane.ask_with(ask, |_| {}).unwrap();
        let body = format!(r#"{{"requestId":"a{turn}","answer":{{"optionIds":["allow"]}}}}"#);
        samples[1].push(phone.timed(&post(&format!("panes/p0/asks/q{turn}"), &body)));
        let body = format!(r#"{{"requestId":"s{turn}","text":"go on"}}"#);
        samples[2].push(phone.timed(&post("panes/p0/send", &body)));
    }
    let [mut bare, mut answers, mut sends] = samples;
    for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
        let floor = percentile(&mut bare, share);
        row(
            &format!("an answer, {name}, against fdatasync"),
            percentile(&mut answers, share),
            floor,
        );
        row(&format!("a send, {name}, against fdatasync"), percentile(&mut sends, share), floor);
    }
}

/// The memory of many sessions, each number in a process of its own, against the text of their items.
pub(crate) fn sessions() {
    for (panes, items) in [(1, 1), (100, 500), (1_000, 2_000)] {
        let output = Command::new(env::current_exe().unwrap())
            .args([SESSIONS, &panes.to_string(), &items.to_string()])
            .output()
            .unwrap();
        print!("{panes} sessions with {items} items of 100 characters: ");
        println!("{}", String::from_utf8_lossy(&output.stdout).trim());
    }
}

/// What [`sessions`] runs: the sessions, and what they take.
pub(crate) fn hold_sessions(panes: usize, items: usize) {
    let folder = folder();
    let agent = Agent::start(folder.path(), "agent", panes);
    let mut text = 0;
    for item in 0..items {
        for pane in 0..panes {
            let pane = agent.core.pane(&format!("p{pane}")).unwrap();
            let item = Item::reply(format!("item-{item}"), "x".repeat(100));
            text += serde_json::to_string(&item).unwrap().len();
            pane.item(item).unwrap();
        }
    }
    Phone::at(&agent.socket).call(HELLO);
    let resident = status(std::process::id(), "VmRSS:");
    let own = status(std::process::id(), "RssAnon:");
    let text = text / 1024;
    println!("{resident} KiB resident, {own} KiB of its own, their JSON {text} KiB");
}

/// A folder that may hold a private socket.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix("ap").tempdir_in("/tmp").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

/// A durable agent with its records on the disk, on a thread of its own.
struct Agent {
    core: Core,
    socket: PathBuf,
}

impl Agent {
    fn start(folder: &Path, name: &str, panes: usize) -> Self {
        let folder = folder.join(name);
        let records = Some(FileRecords::open(&folder.join("records")).unwrap());
        // The phone is in this process; who connects is looked at once for each connection only.
        let caller_check = CallerCheck::Off;
        let options = CoreOptions { caller_check, records, ..CoreOptions::default() };
        let core = Core::new(options).unwrap();
        let tab = core.workspace("w", "Work").unwrap().tab("t", "Tab").unwrap();
        for pane in 0..panes {
            let options = PaneOptions { title: "A pane".into(), ..PaneOptions::default() };
            tab.pane(format!("p{pane}"), options).unwrap();
        }
        core.ready();
        let socket = folder.join("app.sock");
        let (tell, served) = mpsc::channel();
        on_a_runtime({
            let (core, socket) = (core.clone(), socket.clone());
            async move {
                let _collie = serve_private(core, socket).await.unwrap();
                tell.send(()).unwrap();
                std::future::pending::<()>().await;
            }
        });
        served.recv().unwrap();
        Self { core, socket }
    }
}

fn on_a_runtime(serving: impl Future<Output = ()> + Send + 'static) {
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(serving);
    });
}

/// The least that hyper can do: one answer to everything. Gives its socket.
fn bare_hyper(folder: &Path, answer: Answer) -> PathBuf {
    let socket = folder.join("bare.sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    listener.set_nonblocking(true).unwrap();
    on_a_runtime(async move {
        let listener = tokio::net::UnixListener::from_std(listener).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let service = service_fn(move |_request| {
            let mut response = hyper::Response::new(Full::new(Bytes::from(answer.body.clone())));
            for line in answer.head.lines().skip(1) {
                let (name, value) = line.split_once(": ").unwrap();
                if !["content-length", "date"].contains(&name) {
                    let name = hyper::header::HeaderName::try_from(name).unwrap();
                    response.headers_mut().insert(name, value.parse().unwrap());
                }
            }
            async { Ok::<_, std::convert::Infallible>(response) }
        });
        let server = hyper::server::conn::http1::Builder::new();
        server.serve_connection(TokioIo::new(stream), service).await.unwrap();
    });
    socket
}

/// One kept connection.
struct Phone {
    connection: BufReader<UnixStream>,
}

struct Answer {
    head: String,
    body: Vec<u8>,
}

impl Phone {
    fn at(socket: &Path) -> Self {
        Self { connection: BufReader::new(UnixStream::connect(socket).unwrap()) }
    }

    fn call(&mut self, request: &str) -> Answer {
        self.connection.get_mut().write_all(request.as_bytes()).unwrap();
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let begin = head.len();
            self.connection.read_line(&mut head).unwrap();
            let line = head[begin..].trim_end();
            if let Some(digits) = line.strip_prefix("content-length: ") {
                length = digits.parse().unwrap();
            }
            if line.is_empty() {
                head.truncate(begin);
                break;
            }
        }
        let not_modified = head.starts_with("HTTP/1.1 304");
        assert!(head.starts_with("HTTP/1.1 200") || not_modified, "{request} gets {head}");
        let mut body = vec![0; if not_modified { 0 } else { length }];
        self.connection.read_exact(&mut body).unwrap();
        Answer { head, body }
    }

    fn timed(&mut self, request: &str) -> Duration {
        let began = Instant::now();
        self.call(request);
        began.elapsed()
    }

    /// A request for the state that names the tag that it has now.
    fn unchanged_poll(&mut self) -> String {
        let poll = |tag: &str| {
            format!(
                "GET /durable/v1/state HTTP/1.1\r\nhost: localhost\r\nif-none-match: {tag}\r\n\r\n"
            )
        };
        let answer = self.call(&poll("\"none\""));
        let tag = answer.head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
        let poll = poll(tag);
        assert!(self.call(&poll).head.starts_with("HTTP/1.1 304"));
        poll
    }
}

fn post(path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /durable/v1/{path} HTTP/1.1\r\nhost: localhost\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}
