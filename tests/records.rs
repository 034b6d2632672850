//! A wrapped session that is killed and comes back on the phone.

#![allow(clippy::panic, clippy::unwrap_used, reason = "what fails here fails the test")]
#![allow(clippy::print_stdout, reason = "what a run by hand counts")]
#![allow(dead_code, reason = "a part of the user is for other tests")]

#[path = "records/kills.rs"]
mod kills;
mod support;
#[path = "shim/user.rs"]
mod user;

use std::fs;
use std::path::Path;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use support::phone::{Phone, Reply};
use support::terminal::{Terminal, children, eventually, is_alive};
use user::{User, chat};

const PROGRAM: &str = env!("CARGO_BIN_EXE_agent-presence");
const COMPOSER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/shim/composer.py");

/// Says which life it is, asks when it may, and notes the verdict.
const ASKS: &str = r#"#!/bin/sh
"$AP" say --id "life-$LIFE" "life $LIFE"
until [ -e "$GO" ]; do sleep 0.01; done
"$AP" approve --call c1 --timeout 10m deploy '{"target":"staging"}'
echo "verdict $?" >>"$LOG"
"$AP" state idle
exec cat
"#;

/// The last thread of a killed process may still have its files.
fn wait_for_the_lock(user: &User) {
    let Ok(lock) = fs::File::open(user.path("run/c.sock.lock")) else { return };
    eventually("a free lock", || lock.try_lock().is_ok());
}

fn life(user: &User, program: &str, number: u32) -> Terminal {
    wait_for_the_lock(user);
    let mut command = user.wrap(&["--", program]);
    command.env("AP", PROGRAM).env("LIFE", number.to_string());
    for (name, file) in [("GO", "go"), ("LOG", "log")] {
        command.env(name, user.path(file));
    }
    let terminal = Terminal::start(&mut command);
    wait_until_served(user);
    terminal
}

/// The listener of a killed process lives until its last thread is gone.
fn wait_until_served(user: &User) {
    let socket = user.path("run/c.sock");
    eventually("an answer", || {
        let hello = try_request(&socket, "GET", "hello", "");
        hello.is_some_and(|hello| hello.json()["phase"] == "ready")
    });
}

/// Everything that runs below a process, and itself.
fn tree(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(&pid) = all.get(next) {
        all.extend(children(pid));
        next += 1;
    }
    all
}

/// kill -9 of all of it, so that nobody can say goodbye.
fn kill_all(terminal: Terminal) {
    let pids = tree(terminal.pid());
    kill_each(&pids);
    drop(terminal);
    eventually("the end of all", || !pids.iter().any(|&pid| is_alive(pid)));
}

/// kill -9 of several at once.
fn kill_each(pids: &[u32]) {
    // Stopped first, so that none sees the end of another.
    for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
        for &pid in pids {
            let _ = kill(Pid::from_raw(pid.cast_signed()), signal);
        }
    }
}

fn log(user: &User) -> Vec<String> {
    let log = fs::read_to_string(user.path("log")).unwrap_or_default();
    log.lines().map(str::to_owned).collect()
}

fn said(phone: &Phone, text: &str) -> bool {
    chat(phone).iter().any(|(_, said)| said == text)
}

#[test]
fn a_killed_session_is_the_same_conversation_with_its_card_and_its_answer() {
    let user = User::new();
    let program = user.program("agent", ASKS);
    let phone = user.phone();
    fs::write(user.path("go"), "").unwrap();
    let terminal = life(&user, &program, 1);
    let (pane, card) = phone.wait_for_ask();
    assert!(said(&phone, "life 1"));
    // A card is written in a moment, by a thread: a read of the history waits for it.
    assert_eq!(phone.get("history").status, 200);
    kill_all(terminal);

    fs::remove_file(user.path("go")).unwrap();
    let terminal = life(&user, &program, 2);
    eventually("the second life", || said(&phone, "life 2"));
    assert!(said(&phone, "life 1"), "{:?}", chat(&phone));
    assert_eq!(phone.pane(&pane)["asks"], json!([card]), "nobody waits, and it can be answered");
    let ask = card["id"].as_str().unwrap();
    let body = json!({"requestId": "r", "answer": {"optionIds": ["allow"]}});
    let path = format!("panes/{pane}/asks/{ask}");
    let first = phone.post(&path, &body);
    assert_eq!(first.status, 200);
    kill_all(terminal);

    let mut terminal = life(&user, &program, 3);
    assert_eq!(phone.pane(&pane)["asks"], json!([]));
    assert_eq!(phone.post(&path, &body).json()["replayed"], true);
    fs::write(user.path("go"), "").unwrap();
    eventually("a verdict", || !log(&user).is_empty());
    assert_eq!(log(&user), ["verdict 0"], "allowed at once, and without a second card");
    let history = phone.get("history/s").json();
    let texts: Vec<_> = history["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|item| item["text"].as_str())
        .collect();
    assert!(texts.contains(&"life 1") && texts.contains(&"life 3"), "{texts:?}");
    terminal.type_bytes("\x04");
    terminal.wait();
    eventually("no socket", || !phone.socket().exists());
}

#[test]
fn a_text_that_waited_is_typed_into_the_agent_that_came_back() {
    let user = User::new();
    fs::write(user.path("log"), "").unwrap();
    let program = user.program("composer", &format!("#!/bin/sh\nexec python3 {COMPOSER} \"$@\"\n"));
    let phone = user.phone();
    let terminal = life(&user, &program, 1);
    terminal.wait_for("Composer.");
    assert_eq!(phone.send("s", "a long turn").status, 200);
    user::wait_for_state(&phone, "working");
    let body = json!({"requestId": "later", "text": "and then this"});
    let queued: Value = phone.post("panes/s/send", &body).json();
    assert_eq!(queued["queued"], true);
    kill_all(terminal);
    let _terminal = life(&user, &program, 2);
    eventually("a turn", || log(&user).contains(&"turn and then this".to_owned()));
    assert_eq!(phone.post("panes/s/send", &body).json()["replayed"], true);
    eventually("the text in the chat", || said(&phone, "and then this"));
    let turns = log(&user);
    assert_eq!(turns, ["turn a long turn", "turn and then this"], "each once");
}

/// A wrap whose state folder is a file system of its own. None: this system does not allow that.
fn on_a_disk(user: &User, program: &str, mount: &str) -> Option<Command> {
    let state = user.path("state");
    // Where we are not root, `/` is nobody's in there, and a socket below it not private.
    let probe =
        format!("mount -t tmpfs none '{}' && test \"$(stat -c %u /)\" = 0", state.display());
    let allowed = Command::new("unshare").args(["-rm", "sh", "-c", &probe]).output();
    if !allowed.is_ok_and(|allowed| allowed.status.success()) {
        println!("skipped: no mounts here");
        return None;
    }
    let wrap = user.wrap(&["--", program]);
    let script = format!("mount -t tmpfs -o {mount} none '{}' && exec \"$@\"", state.display());
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &script, "sh"]).arg(wrap.get_program()).args(wrap.get_args());
    command.env_clear();
    for (name, value) in wrap.get_envs() {
        command.env(name, value.unwrap());
    }
    command.env("AP", PROGRAM).env("LOG", user.path("log"));
    Some(command)
}

const TALKS: &str = r#"#!/bin/sh
line=$(printf '%02000d' 0)
for number in $(seq 100); do
    "$AP" say --id "n$number" "$number $line"
done
"$AP" say --id last "said all"
if "$AP" approve deploy '{}'; then echo allowed >>"$LOG"; fi
exec cat
"#;

fn answers_and_goes_on(user: &User) {
    let phone = user.phone();
    eventually("a socket", || phone.socket().exists());
    phone.wait_ready();
    let (pane, card) = phone.wait_for_ask();
    assert!(said(&phone, "said all"));
    let answer = json!({"optionIds": ["allow"]});
    assert_eq!(phone.answer(&pane, card["id"].as_str().unwrap(), &answer).status, 200);
    eventually("a verdict", || log(user) == ["allowed"]);
}

#[test]
fn a_full_disk_degrades_to_memory_and_the_agent_does_not_notice() {
    let user = User::new();
    let program = user.program("agent", TALKS);
    let Some(mut command) = on_a_disk(&user, &program, "size=96k,mode=0700") else { return };
    command.env("AGENT_PRESENCE_LOG", "off");
    let terminal = Terminal::start(&mut command);
    answers_and_goes_on(&user);
    kill_all(terminal);
}

#[test]
fn a_read_only_disk_is_said_once_and_the_agent_does_not_notice() {
    let user = User::new();
    let program = user.program("agent", TALKS);
    let Some(mut command) = on_a_disk(&user, &program, "ro") else { return };
    let terminal = Terminal::start(&mut command);
    answers_and_goes_on(&user);
    let words = "the session is kept in memory only";
    terminal.wait_for(words);
    assert_eq!(terminal.count_of(words), 1, "{}", terminal.screen());
    kill_all(terminal);
}

/// A file may grow to 8 KiB here, and the log has room of its own.
#[test]
fn a_disk_that_takes_no_more_is_logged_once() {
    let user = User::new();
    let program = user.program("agent", TALKS);
    let wrap = user.wrap(&["--", &program]);
    let mut command = Command::new("sh");
    let script = "trap '' XFSZ; ulimit -f 16; exec \"$@\"";
    command.args(["-c", script, "sh"]).arg(wrap.get_program()).args(wrap.get_args()).env_clear();
    for (name, value) in wrap.get_envs() {
        command.env(name, value.unwrap());
    }
    command.env("AP", PROGRAM).env("LOG", user.path("log"));
    let terminal = Terminal::start(&mut command);
    answers_and_goes_on(&user);
    let log = fs::read_to_string(user.path("state/agent-presence/log/agent-presence.log")).unwrap();
    let warnings = log.lines().filter(|line| line.contains("records are kept in memory only"));
    assert_eq!(warnings.count(), 1, "{log}");
    kill_all(terminal);
    // What was written before is whole, and is there.
    let _terminal = life(&user, &program, 2);
    let phone = user.phone();
    assert!(chat(&phone).iter().any(|(_, text)| text.starts_with("1 0")), "{:?}", chat(&phone));
}

#[test]
fn without_records_nothing_is_on_the_disk() {
    let user = User::new();
    let program = user.program("agent", "#!/bin/sh\nexec cat\n");
    let mut command = user.wrap(&["--no-records", "--", &program]);
    let _terminal = Terminal::start(&mut command);
    let phone = user.phone();
    eventually("a socket", || phone.socket().exists());
    phone.wait_ready();
    assert!(!user.path("state/agent-presence/collie").exists());
    assert_eq!(phone.hello()["caps"]["history"], false);
}

fn try_post(socket: &Path, path: &str, body: &Value) -> Option<Reply> {
    try_request(socket, "POST", path, &body.to_string())
}

/// A request to somebody who may end meanwhile.
fn try_request(socket: &Path, method: &str, path: &str, body: &str) -> Option<Reply> {
    use std::io::{Read as _, Write as _};
    let mut stream = std::os::unix::net::UnixStream::connect(socket).ok()?;
    let head = format!(
        "{method} /durable/v1/{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).ok()?;
    let end = reply.windows(4).position(|window| window == b"\r\n\r\n")?;
    let length = String::from_utf8_lossy(&reply[..end]).to_lowercase();
    let length: usize =
        length.split("content-length: ").nth(1)?.lines().next()?.trim().parse().ok()?;
    (reply.len() == end + 4 + length).then(|| Reply {
        status: String::from_utf8_lossy(&reply[9..12]).parse().unwrap_or(0),
        head: String::from_utf8_lossy(&reply[..end]).into_owned(),
        body: reply[end + 4..].to_vec(),
    })
}
