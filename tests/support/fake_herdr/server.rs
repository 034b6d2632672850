//! The fake Herdr as a server on a socket.

use super::model::{Model, Pane};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::env;
use std::fs::{self, DirBuilder};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// What the server does with one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Answers by the rules.
    Answers,
    /// Answers by the rules after a while.
    Slow(Duration),
    /// Accepts, and never answers.
    Hangs,
    /// Closes before it has read anything.
    Resets,
    /// Applies the request, then closes without a word.
    LosesTheAnswer,
    /// Applies the request, then sends only so many bytes of the answer.
    HalfAnswers(usize),
    /// Answers with this line, whatever was asked.
    Says(String),
    /// Refuses with this code.
    Refuses(&'static str),
}

/// A request as it came in.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) params: Value,
    pub(crate) id: String,
    pub(crate) at: Instant,
}

impl Request {
    /// Whether Herdr's own program sent it.
    pub(crate) fn is_from_cli(&self) -> bool {
        self.id.starts_with("cli:")
    }

    /// The state of a report.
    pub(crate) fn state(&self) -> Option<&str> {
        self.params["state"].as_str()
    }

    pub(crate) fn seq(&self) -> Option<u64> {
        self.params["seq"].as_u64()
    }

    pub(crate) fn resume(&self) -> Option<Vec<&str>> {
        self.params["resume_argv"]
            .as_array()
            .map(|words| words.iter().filter_map(Value::as_str).collect())
    }
}

/// How long a test waits for something before it fails.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running fake Herdr. It ends when it is dropped.
pub(crate) struct FakeHerdr {
    folder: PathBuf,
    socket_path: PathBuf,
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    inner: Mutex<Inner>,
    changed: Condvar,
}

struct Inner {
    model: Model,
    requests: Vec<Request>,
    usual: Behaviour,
    /// What happens to the next requests of a method, before the usual.
    script: Vec<(String, VecDeque<Behaviour>)>,
    ended: bool,
}

impl FakeHerdr {
    /// A current server (0.9.3) with one pane, `w1:p1`.
    pub(crate) fn start(usual: Behaviour) -> Self {
        Self::start_version("0.9.3", usual)
    }

    pub(crate) fn start_version(version: &str, usual: Behaviour) -> Self {
        let folder = new_folder();
        let socket_path = folder.join("herdr.sock");
        let shared = serve(&socket_path, Model::new(version), usual);
        Self { folder, socket_path, shared }
    }

    /// The variables that Herdr gives the processes of the pane `w1:p1`. `HERDR_BIN_PATH` is for the
    /// caller to add.
    pub(crate) fn environment_variables(&self) -> Vec<(&'static str, String)> {
        vec![
            ("HERDR_ENV", "1".to_owned()),
            ("HERDR_PANE_ID", "w1:p1".to_owned()),
            ("HERDR_SOCKET_PATH", self.socket_path.to_str().unwrap().to_owned()),
            ("HERDR_TAB_ID", "w1:t1".to_owned()),
            ("HERDR_WORKSPACE_ID", "w1".to_owned()),
        ]
    }

    pub(crate) fn socket_path(&self) -> &Path {
        &self.socket_path
    }

    /// A private folder that lives as long as the server.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A program `herdr` that reaches this server wherever its variables lead: for tests of the CLI
    /// with a dead socket. `settings` are more variables of `fake-herdr`'s.
    pub(crate) fn program(&self, fake_herdr: &str, settings: &str) -> PathBuf {
        let path = self.folder.join("herdr");
        let socket = self.socket_path.display();
        let script = format!(
            "#!/bin/sh\nFAKE_HERDR_SOCKET='{socket}' {settings} exec '{fake_herdr}' \"$@\"\n"
        );
        write_program(&path, &script);
        path
    }

    /// What is done with every request that no script is left for.
    pub(crate) fn set_usual(&self, usual: Behaviour) {
        self.inner().usual = usual;
    }

    /// What is done with the next requests of `method`.
    pub(crate) fn script(&self, method: &str, behaviours: impl IntoIterator<Item = Behaviour>) {
        self.inner().script.push((method.to_owned(), behaviours.into_iter().collect()));
    }

    /// Changes the model: versions, panes, anchors, a handoff.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Model)) {
        change(&mut self.inner().model);
        self.shared.changed.notify_all();
    }

    /// Watches the agent's process, as Herdr does: stopped or gone for more than a second, its report
    /// goes, with the command (H071). Linux only: elsewhere nothing is ever cleared.
    pub(crate) fn watch(&self, pid: u32) {
        let shared = self.shared.clone();
        thread::spawn(move || {
            let mut gone_since: Option<Instant> = None;
            while !shared.inner.lock().unwrap().ended {
                if runs(pid) {
                    gone_since = None;
                } else if gone_since.get_or_insert_with(Instant::now).elapsed() > GRACE {
                    let mut inner = shared.inner.lock().unwrap();
                    // Older ones leave it for good.
                    if inner.model.takes_commands() {
                        inner.model.clear("w1:p1");
                    }
                    drop(inner);
                    shared.changed.notify_all();
                }
                thread::sleep(Duration::from_millis(20));
            }
        });
    }

    /// Makes the server's backlog full, as a stopped server's is: it accepts nothing any more, and
    /// whoever connects without blocking gets `EAGAIN`.
    pub(crate) fn full_backlog() -> FullBacklog {
        FullBacklog::new()
    }

    /// The pane as it is now.
    pub(crate) fn pane(&self, id: &str) -> Pane {
        self.inner().model.panes.get(id).cloned().unwrap_or_default()
    }

    /// All the requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.inner().requests.clone()
    }

    /// All the requests of a method so far.
    pub(crate) fn requests_of(&self, method: &str) -> Vec<Request> {
        self.requests().into_iter().filter(|request| request.method == method).collect()
    }

    /// Waits for a request, already in or still to come.
    pub(crate) fn wait_for(&self, is_it: impl Fn(&Request) -> bool) -> Request {
        self.wait(|inner| inner.requests.iter().find(|request| is_it(request)).cloned())
    }

    /// Waits until the pane `w1:p1` is as it should be.
    pub(crate) fn wait_for_pane(&self, is_it: impl Fn(&Pane) -> bool) -> Pane {
        self.wait(|inner| inner.model.panes.get("w1:p1").filter(|pane| is_it(pane)).cloned())
    }

    /// Waits until the pane `w1:p1` shows this state.
    pub(crate) fn wait_for_state(&self, state: &str) -> Pane {
        self.wait_for_pane(|pane| pane.holder.as_ref().is_some_and(|holder| holder.state == state))
    }

    fn wait<T>(&self, look: impl Fn(&Inner) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        let mut inner = self.inner();
        loop {
            if let Some(found) = look(&inner) {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "did not come; panes: {:#?}\nrequests: {:#?}",
                inner.model.panes,
                inner.requests
            );
            inner = self.shared.changed.wait_timeout(inner, left).unwrap().0;
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.shared.inner.lock().unwrap()
    }
}

impl Drop for FakeHerdr {
    fn drop(&mut self) {
        if let Ok(mut inner) = self.shared.inner.lock() {
            inner.ended = true;
        }
        self.shared.changed.notify_all();
        // Wakes the thread that accepts.
        let _ = UnixStream::connect(&self.socket_path);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// How long an agent may be stopped or gone.
const GRACE: Duration = Duration::from_secs(1);

/// Whether a process is there and not stopped.
fn runs(pid: u32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The state is the first letter behind the name, which may itself have parentheses.
        Ok(stat) => !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['T', 'Z', 'X'])),
        Err(_) => !Path::new("/proc/self/stat").exists(),
    }
}

/// A socket whose backlog is full.
pub(crate) struct FullBacklog {
    folder: PathBuf,
    _listener: UnixListener,
    _waiting: Vec<std::os::fd::OwnedFd>,
}

impl FullBacklog {
    fn new() -> Self {
        use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, connect};
        use nix::sys::socket::{listen, socket};
        let folder = new_folder();
        let path = folder.join("herdr.sock");
        let listener = UnixListener::bind(&path).unwrap();
        listen(&listener, Backlog::new(0).unwrap()).unwrap();
        let address = UnixAddr::new(&path).unwrap();
        let mut waiting = Vec::new();
        loop {
            let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
            let fd = socket(AddressFamily::Unix, SockType::Stream, flags, None).unwrap();
            if connect(std::os::fd::AsRawFd::as_raw_fd(&fd), &address).is_err() {
                return Self { folder, _listener: listener, _waiting: waiting };
            }
            waiting.push(fd);
        }
    }

    pub(crate) fn socket_path(&self) -> PathBuf {
        self.folder.join("herdr.sock")
    }
}

impl Drop for FullBacklog {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Writes a script that can be run. Another process does it: had this one the file open for writing
/// while one of its threads starts a program, the script would be "busy" for a moment.
pub(crate) fn write_program(path: &Path, text: &str) {
    let mut writer = process::Command::new("sh")
        .args(["-c", "cat >\"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(process::Stdio::piped())
        .spawn()
        .unwrap();
    writer.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(writer.wait().unwrap().success());
}

/// A new private folder.
fn new_folder() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = env::temp_dir().join(format!("fake-herdr-{}-{count}", process::id()));
    DirBuilder::new().mode(0o700).create(&folder).unwrap();
    folder
}

/// Serves `model` on a socket until the process ends.
pub(crate) fn serve_for_ever(socket_path: &Path, version: &str) {
    let shared = serve(socket_path, Model::new(version), Behaviour::Answers);
    let mut told = 0;
    let mut inner = shared.inner.lock().unwrap();
    loop {
        for request in &inner.requests[told..] {
            println!(
                "{}",
                json!({"method": request.method, "params": request.params, "id": request.id})
            );
        }
        told = inner.requests.len();
        inner = shared.changed.wait(inner).unwrap();
    }
}

pub(super) fn serve(socket_path: &Path, model: Model, usual: Behaviour) -> Arc<Shared> {
    let listener = UnixListener::bind(socket_path).unwrap();
    let inner = Inner { model, requests: Vec::new(), usual, script: Vec::new(), ended: false };
    let shared = Arc::new(Shared { inner: Mutex::new(inner), changed: Condvar::new() });
    let of_thread = shared.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            if of_thread.inner.lock().unwrap().ended {
                return;
            }
            let (Ok(stream), shared) = (stream, of_thread.clone()) else {
                return;
            };
            // A client that goes away in the middle is part of many a test.
            thread::spawn(move || shared.converse(stream).ok());
        }
    });
    shared
}

impl Shared {
    /// Looks at the model, and changes it.
    pub(super) fn with_model<T>(&self, change: impl FnOnce(&mut Model) -> T) -> T {
        change(&mut self.inner.lock().unwrap().model)
    }

    fn converse(&self, mut stream: UnixStream) -> io::Result<()> {
        if self.inner.lock().unwrap().usual == Behaviour::Resets {
            return Ok(());
        }
        let Some(line) = read_as_herdr_does(&mut stream)? else {
            return Ok(());
        };
        let Ok(request) = serde_json::from_slice::<Value>(&line) else {
            // The id of a parse error is empty (H012).
            let answer = json!({"id": "", "error": {"code": "parse_error", "message": "not JSON"}});
            return writeln!(stream, "{answer}");
        };
        let method = request["method"].as_str().unwrap_or_default().to_owned();
        let behaviour = self.log(&request, &method);
        match behaviour {
            Behaviour::Answers => writeln!(stream, "{}", self.apply(&request)),
            Behaviour::Slow(delay) => {
                thread::sleep(delay);
                writeln!(stream, "{}", self.apply(&request))
            }
            Behaviour::Hangs => {
                let mut inner = self.inner.lock().unwrap();
                while !inner.ended {
                    inner = self.changed.wait(inner).unwrap();
                }
                Ok(())
            }
            Behaviour::Resets => Ok(()),
            Behaviour::LosesTheAnswer => {
                self.apply(&request);
                Ok(())
            }
            Behaviour::HalfAnswers(bytes) => {
                let answer = self.apply(&request).to_string();
                stream.write_all(&answer.as_bytes()[..bytes.min(answer.len())])
            }
            Behaviour::Says(line) => writeln!(stream, "{line}"),
            Behaviour::Refuses(code) => {
                let error = json!({"code": code, "message": "as the test wants it"});
                writeln!(stream, "{}", json!({"id": request["id"], "error": error}))
            }
        }
    }

    /// Writes the request down, and says what to do with it.
    fn log(&self, request: &Value, method: &str) -> Behaviour {
        let mut inner = self.inner.lock().unwrap();
        inner.requests.push(Request {
            method: method.to_owned(),
            params: request["params"].clone(),
            id: request["id"].as_str().unwrap_or_default().to_owned(),
            at: Instant::now(),
        });
        self.changed.notify_all();
        let usual = inner.usual.clone();
        inner
            .script
            .iter_mut()
            .filter(|(of, _)| of == method)
            .find_map(|(_, behaviours)| behaviours.pop_front())
            .unwrap_or(usual)
    }

    fn apply(&self, request: &Value) -> Value {
        let answer = self.inner.lock().unwrap().model.handle(request);
        self.changed.notify_all();
        answer
    }
}

/// Reads a line byte by byte, and sleeps 100 ms whenever the next byte is not there yet (H013).
fn read_as_herdr_does(stream: &mut UnixStream) -> io::Result<Option<Vec<u8>>> {
    stream.set_nonblocking(true)?;
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        match stream.read(&mut byte) {
            Ok(0) => return Ok(None),
            Ok(_) if byte == *b"\n" => break,
            Ok(_) if line.len() == 1 << 20 => return Ok(None),
            Ok(_) => line.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_millis(100));
            }
            Err(error) => return Err(error),
        }
    }
    stream.set_nonblocking(false)?;
    Ok(Some(line))
}
