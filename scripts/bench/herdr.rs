//! A Herdr that tells when each report was there, and takes its time to answer.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use agent_presence::herdr::Environment;
use serde_json::{Value, json};

/// What the server does with a request once it is there.
#[derive(Clone, Copy)]
pub(crate) enum Answers {
    AtOnce,
    After(Duration),
    Never,
}

pub(crate) struct Server {
    folder: tempfile::TempDir,
    pub(crate) arrivals: Receiver<Arrival>,
}

/// A request that was there.
pub(crate) struct Arrival {
    pub(crate) at: Instant,
    pub(crate) state: Option<String>,
}

impl Server {
    pub(crate) fn start(answers: Answers) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("herdr.sock")).unwrap();
        let (tell, arrivals) = mpsc::channel();
        let shown = Arc::new(Mutex::new("idle".to_owned()));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let tell = tell.clone();
                match answers {
                    // On this thread: what raw and reported requests have in common stays equal.
                    Answers::AtOnce => drop(serve(stream, Duration::ZERO, &shown, &tell)),
                    Answers::After(pause) => {
                        let shown = shown.clone();
                        thread::spawn(move || serve(stream, pause, &shown, &tell));
                    }
                    Answers::Never => drop(thread::spawn(move || {
                        thread::sleep(Duration::from_secs(3600));
                        drop(stream);
                    })),
                }
            }
        });
        Self { folder, arrivals }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("herdr.sock")
    }

    pub(crate) fn environment(&self) -> Environment {
        Environment::new("w1:p1", self.socket()).with_binary("/nope/herdr")
    }

    /// Looks at no request that came before: a heartbeat, for one.
    pub(crate) fn forget(&self) {
        self.arrivals.try_iter().for_each(drop);
    }

    /// The next report of a state.
    pub(crate) fn next_state(&self) -> Arrival {
        loop {
            let arrival = self.arrivals.recv_timeout(Duration::from_secs(10)).unwrap();
            if arrival.state.is_some() {
                return arrival;
            }
        }
    }
}

/// A Herdr that is not there.
pub(crate) fn missing(folder: &Path) -> Environment {
    Environment::new("w1:p1", folder.join("none.sock")).with_binary("/nope/herdr")
}

fn serve(
    stream: UnixStream,
    pause: Duration,
    shown: &Mutex<String>,
    tell: &mpsc::Sender<Arrival>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let at = Instant::now();
    let request: Value = serde_json::from_str(&line)?;
    let method = request["method"].as_str().unwrap_or_default().to_owned();
    let state = request["params"]["state"].as_str().map(str::to_owned);
    let agent = request["params"]["agent"].as_str().unwrap_or("bench");
    // The bare write is no report: the pane shows what the reporter said.
    if let Some(state) = &state
        && request["params"]["source"] != "raw"
    {
        state.clone_into(&mut shown.lock().unwrap());
    }
    let result = match method.as_str() {
        "ping" => json!({"type": "pong", "version": "0.9.3", "protocol": 20, "capabilities": {}}),
        "pane.get" => {
            let status = shown.lock().unwrap().clone();
            json!({"type": "pane_info", "pane": {"agent": agent, "agent_status": status}})
        }
        _ => json!({"type": "ok"}),
    };
    let _ = tell.send(Arrival { at, state });
    thread::sleep(pause);
    let mut stream = reader.into_inner();
    writeln!(stream, "{}", json!({"id": request["id"], "result": result}))
}
