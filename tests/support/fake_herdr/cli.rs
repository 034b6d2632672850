//! The fake Herdr's command line: the words that agents use, and what the real one does with them.
//!
//! Variables for tests: `FAKE_HERDR_SOCKET` (instead of `HERDR_SOCKET_PATH`), `FAKE_HERDR_CLI`
//! (`old`: before 0.9.2; `mismatch`: another protocol than the server's), `FAKE_HERDR_DELAY_MS`,
//! `FAKE_HERDR_LOG` (a file that gets a line of JSON for each run).

use serde_json::{Map, Value, json};
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// What the program prints, and how it exits.
pub(crate) struct Exit {
    pub(crate) code: i32,
    pub(crate) output: String,
    pub(crate) errors: String,
}

impl Exit {
    fn usage(text: &str) -> Self {
        Self { code: 2, output: String::new(), errors: text.to_owned() }
    }
}

/// Runs one command, on the server that the variables lead to.
pub(crate) fn run(words: &[String]) -> Exit {
    let path = env::var_os("FAKE_HERDR_SOCKET").or_else(|| env::var_os("HERDR_SOCKET_PATH"));
    run_at(Path::new(&path.unwrap_or_default()), words)
}

/// Runs one command, on the server at this socket.
pub(crate) fn run_at(socket: &Path, words: &[String]) -> Exit {
    if let Some(path) = env::var_os("FAKE_HERDR_LOG") {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(file, "{}", json!(words)).unwrap();
    }
    if let Some(delay) = env::var("FAKE_HERDR_DELAY_MS").ok().and_then(|ms| ms.parse().ok()) {
        thread::sleep(Duration::from_millis(delay));
    }
    let old = env::var("FAKE_HERDR_CLI").is_ok_and(|kind| kind == "old");
    let request = match parse(words, old) {
        Ok(request) => request,
        Err(text) => return Exit::usage(&text),
    };
    // Two connections: the first to see whether both sides speak the same protocol (H023).
    let mismatch = env::var("FAKE_HERDR_CLI").is_ok_and(|kind| kind == "mismatch");
    let ping = json!({"id": "cli:ping", "method": "ping", "params": {}});
    let answer = ask(socket, &ping).and_then(|_| {
        if mismatch {
            let error = json!({"code": "protocol_mismatch", "message": "restart the server"});
            return Ok(json!({"id": "cli", "error": error}));
        }
        ask(socket, &request)
    });
    match answer {
        Ok(answer) if answer.get("error").is_some() => {
            Exit { code: 1, output: String::new(), errors: format!("{answer}\n") }
        }
        Ok(answer) if request["method"] == "pane.get" => {
            Exit { code: 0, output: format!("{answer}\n"), errors: String::new() }
        }
        Ok(_) => Exit { code: 0, output: String::new(), errors: String::new() },
        Err(error) => Exit { code: 1, output: String::new(), errors: format!("{error}\n") },
    }
}

fn ask(socket: &Path, request: &Value) -> Result<Value, String> {
    let mut stream = UnixStream::connect(socket).map_err(|error| error.to_string())?;
    stream.write_all(format!("{request}\n").as_bytes()).map_err(|error| error.to_string())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).map_err(|error| error.to_string())?;
    serde_json::from_str(&line).map_err(|error| error.to_string())
}

/// The request that the words ask for.
fn parse(words: &[String], old: bool) -> Result<Value, String> {
    let mut words = words.iter().map(String::as_str);
    let (Some("pane"), Some(command)) = (words.next(), words.next()) else {
        return Err("usage: herdr pane …\n".to_owned());
    };
    let method = match command {
        "get" => "pane.get",
        "report-agent" => "pane.report_agent",
        "report-agent-session" => "pane.report_agent_session",
        "release-agent" => "pane.release_agent",
        "report-metadata" => "pane.report_metadata",
        _ => return Err(format!("unknown command: {command}\n")),
    };
    let pane = words.next().ok_or("the pane is missing\n")?;
    let mut params = Map::from_iter([("pane_id".to_owned(), json!(pane))]);
    let mut labels = Map::new();
    while let Some(word) = words.next() {
        if word == "--" {
            if old {
                return Err("unknown option: --\n".to_owned());
            }
            params.insert("resume_argv".to_owned(), json!(words.by_ref().collect::<Vec<_>>()));
            break;
        }
        let name = match word {
            "--clear-title" | "--clear-display-agent" | "--clear-state-labels" => {
                params.insert(word[2..].replace('-', "_"), json!(true));
                continue;
            }
            "--source" | "--agent" | "--state" | "--message" | "--seq" | "--agent-session-id"
            | "--title" | "--display-agent" | "--state-label" => word[2..].replace('-', "_"),
            _ => return Err(format!("unknown option: {word}\n")),
        };
        let value = words.next().ok_or_else(|| format!("{word} needs a value\n"))?;
        match name.as_str() {
            "seq" => {
                let seq: u64 = value.parse().map_err(|_| "--seq needs a number\n")?;
                params.insert(name, json!(seq));
            }
            "state_label" => {
                let (state, label) = value.split_once('=').ok_or("--state-label needs S=T\n")?;
                labels.insert(state.to_owned(), json!(label));
            }
            _ => {
                params.insert(name, json!(value));
            }
        }
    }
    if !labels.is_empty() {
        params.insert("state_labels".to_owned(), Value::Object(labels));
    }
    Ok(json!({"id": format!("cli:{method}"), "method": method, "params": params}))
}
