//! Named sessions, as far as agents need them: `--session NAME` (starts the server where none runs, and
//! attaches this terminal to it), `--session NAME server` (the server alone), and `session list`, `stop`
//! and `delete`.
//!
//! Variables for tests: `FAKE_HERDR_VERSION` (0.9.3), `FAKE_HERDR_PANES` (how many panes a new session
//! has, 1), `FAKE_HERDR_SAVE_MS` (how long after a change it is saved, 5000), `FAKE_HERDR_ERRORS` (set: a
//! server that a terminal has started may complain there).

mod client;
mod kept;
mod pane;
mod server;

use super::cli::{self, Exit};
use serde_json::{Value, json};
use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// How long `session stop` waits for the end of the server.
const STOP_LIMIT: Duration = Duration::from_secs(2);

/// Runs a command that is about a named session; none: it is another one.
pub(crate) fn run(words: &[String]) -> Option<Exit> {
    let (name, rest) = take_session(words);
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    let name = match (name, rest.as_slice()) {
        (_, ["session", command, arguments @ ..]) => return Some(session(command, arguments)),
        (Some(name), _) => name,
        (None, _) => return None,
    };
    if let Err(message) = check_name(&name) {
        return Some(failed("invalid_session_name", &message));
    }
    Some(match rest.as_slice() {
        [] => client::run(&name),
        ["server"] => server::run(&name),
        // The session that was named wins over the one that the variables lead to.
        _ => cli::run_at(&socket(&name), &rest.iter().map(|&word| word.into()).collect::<Vec<_>>()),
    })
}

/// `--session NAME`, wherever it is, and the other words.
fn take_session(words: &[String]) -> (Option<String>, Vec<String>) {
    let mut name = None;
    let mut rest = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            // What follows is a resume command.
            rest.push(word.clone());
            rest.extend(words.cloned());
            break;
        }
        match word.strip_prefix("--session=") {
            Some(value) => name = Some(value.to_owned()),
            None if word == "--session" => name = words.next().cloned(),
            None => rest.push(word.clone()),
        }
    }
    (name, rest)
}

fn session(command: &str, arguments: &[&str]) -> Exit {
    let json = arguments.contains(&"--json");
    let name = arguments.iter().find(|word| !word.starts_with("--"));
    match (command, name) {
        ("list", None) => list(json),
        ("stop" | "delete" | "attach", Some(name)) => {
            if let Err(message) = check_name(name) {
                return failed("invalid_session_name", &message);
            }
            match command {
                "stop" => stop(name, json),
                "delete" => delete(name, json),
                _ => client::run(name),
            }
        }
        _ => Exit {
            code: 2,
            output: String::new(),
            errors: "usage: herdr session list|attach|stop|delete\n".to_owned(),
        },
    }
}

fn list(json: bool) -> Exit {
    let mut names: Vec<String> = fs::read_dir(config_folder().join("sessions"))
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    let sessions: Vec<Value> = names.iter().map(|name| info(name)).collect();
    if json {
        return printed(&json!({"sessions": sessions}).to_string());
    }
    let line = |info: &Value| {
        let state = if info["running"] == true { "running" } else { "stopped" };
        format!("{}\t{state}", info["name"].as_str().unwrap())
    };
    printed(&sessions.iter().map(line).collect::<Vec<_>>().join("\n"))
}

fn stop(name: &str, json: bool) -> Exit {
    let path = socket(name);
    let asked = UnixStream::connect(&path).and_then(|mut stream| {
        let request = json!({"id": "cli:session:stop", "method": "server.stop", "params": {}});
        stream.write_all(format!("{request}\n").as_bytes())?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(line)
    });
    if let Err(error) = asked {
        return failed("session_stop_failed", &format!("session {name} is not running: {error}"));
    }
    let end = Instant::now() + STOP_LIMIT;
    while is_running(name) {
        if Instant::now() > end {
            return failed("session_stop_failed", &format!("session {name} did not stop"));
        }
        thread::sleep(Duration::from_millis(10));
    }
    changed(name, json, "stopped")
}

fn delete(name: &str, json: bool) -> Exit {
    if is_running(name) {
        let message = format!("session {name} is running; stop it before deleting");
        return failed("session_delete_failed", &message);
    }
    match fs::remove_dir_all(folder(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            failed("session_delete_failed", &error.to_string())
        }
        _ => changed(name, json, "deleted"),
    }
}

fn changed(name: &str, json: bool, what: &str) -> Exit {
    if json {
        return printed(&json!({"session": info(name)}).to_string());
    }
    printed(&format!("{name}\t{what}"))
}

fn info(name: &str) -> Value {
    json!({"name": name, "default": false, "running": is_running(name),
        "socket_path": socket(name), "session_dir": folder(name)})
}

fn printed(text: &str) -> Exit {
    Exit { code: 0, output: format!("{text}\n"), errors: String::new() }
}

fn failed(code: &str, message: &str) -> Exit {
    let error = json!({"error": {"code": code, "message": message}});
    Exit { code: 1, output: String::new(), errors: format!("{error}\n") }
}

fn check_name(name: &str) -> Result<(), String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    match name {
        "" | "." | ".." | "default" => Err(format!("not the name of a session: {name:?}")),
        _ if name.len() > 64 || !name.bytes().all(plain) => {
            Err("a name has at most 64 of A-Z, a-z, 0-9, '.', '_' and '-'".to_owned())
        }
        _ => Ok(()),
    }
}

/// `$XDG_CONFIG_HOME/herdr`, else `~/.config/herdr`.
fn config_folder() -> PathBuf {
    let home = || PathBuf::from(env::var_os("HOME").unwrap()).join(".config");
    env::var_os("XDG_CONFIG_HOME").map_or_else(home, PathBuf::from).join("herdr")
}

/// Where a session keeps what it is.
fn folder(name: &str) -> PathBuf {
    config_folder().join("sessions").join(name)
}

fn socket(name: &str) -> PathBuf {
    folder(name).join("herdr.sock")
}

fn client_socket(folder: &Path) -> PathBuf {
    folder.join("herdr-client.sock")
}

fn is_running(name: &str) -> bool {
    UnixStream::connect(socket(name)).is_ok()
}
