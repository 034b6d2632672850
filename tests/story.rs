//! The whole program, from the user's terminal to Herdr and to the phone.

#![allow(clippy::panic, clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use support::fake_herdr::{Behaviour, FakeHerdr, Request};
use support::phone::Phone;
use support::terminal::{Terminal, eventually, is_alive};

const PROGRAM: &str = env!("CARGO_BIN_EXE_agent-presence");
const FAKE_HERDR: &str = env!("CARGO_BIN_EXE_fake-herdr");
const TOY_AGENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/toy-agent");

/// A throwaway user: home, runtime folder, and nothing of ours in the environment.
struct User {
    folder: tempfile::TempDir,
}

impl User {
    fn new() -> Self {
        // Not `TMPDIR`: the path of a socket has 103 bytes.
        let folder = tempfile::Builder::new().prefix("ap").tempdir_in("/tmp").unwrap();
        let user = Self { folder };
        for folder in ["run", "state"] {
            fs::create_dir(user.path(folder)).unwrap();
            fs::set_permissions(user.path(folder), fs::Permissions::from_mode(0o700)).unwrap();
        }
        user
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn socket(&self, agent: &str) -> PathBuf {
        self.path("run").join("agent-presence").join(agent).join("collie.sock")
    }

    /// `agent-presence wrap`, outside Herdr.
    fn wrap(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.folder.path())
            .env("XDG_RUNTIME_DIR", self.path("run"))
            .env("XDG_STATE_HOME", self.path("state"))
            .env("TERM", "xterm-256color")
            .env("TOY_AGENT_DELAY", "0.1")
            .arg("wrap")
            .args(arguments);
        command
    }

    /// The same, in a pane of Herdr.
    fn wrap_in(&self, herdr: &FakeHerdr, arguments: &[&str]) -> Command {
        let mut command = self.wrap(arguments);
        command.envs(herdr.environment_variables()).env("HERDR_BIN_PATH", "/nope/herdr");
        command
    }

    /// The sockets and locks that are left.
    fn sockets(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.path("run")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { folders.push(path) } else { found.push(path) }
            }
        }
        found
    }
}

/// The states that Herdr was told, in order.
fn states(herdr: &FakeHerdr) -> Vec<String> {
    herdr.requests().iter().filter_map(Request::state).map(str::to_owned).collect()
}

fn releases(herdr: &FakeHerdr) -> usize {
    herdr.requests_of("pane.release_agent").len()
}

fn wait_for_pane_state(phone: &Phone, state: &str) -> Value {
    phone.wait_for(state, |body| body["panes"][0]["state"] == state)
}

fn texts(phone: &Phone, pane: &str) -> Vec<String> {
    let view = phone.events(pane, None);
    let items = view["items"].as_array().unwrap();
    items.iter().filter_map(|item| item["text"].as_str()).map(str::to_owned).collect()
}

/// Start, working, ask, blocked and waiting, answer, working, idle, exit code 7, release, socket gone.
#[test]
fn the_whole_story() {
    let user = User::new();
    let herdr = FakeHerdr::start(Behaviour::Answers);
    let arguments = ["--session", "s-1", "--title", "Ship it", "--", TOY_AGENT];
    let mut terminal = Terminal::start(&mut user.wrap_in(&herdr, &arguments));
    let phone = Phone::at(user.socket("toy-agent"));

    terminal.wait_for("> ");
    phone.wait_ready();
    herdr.wait_for_state("idle");
    let metadata = herdr.wait_for(|request| request.method == "pane.report_metadata");
    assert_eq!(metadata.params["title"], "Ship it");
    let pane = phone.pane("s-1");
    assert_eq!(pane["state"], "idle");
    assert_eq!(pane["title"], "Ship it");
    assert_eq!(pane["harness"], "toy-agent");
    assert_eq!(phone.hello()["callerCheck"], "on");
    let (etag, _) = phone.state_if_changed(None).unwrap();
    assert_eq!(phone.state_if_changed(Some(&etag)), None, "nothing changed");

    terminal.type_bytes("please deploy\r");
    herdr.wait_for_state("working");
    let (pane_id, ask) = phone.wait_for_ask();
    assert_eq!(ask["title"], "deploy wants to run");
    assert_eq!(ask["tool"], "deploy(target: \"staging\")");
    assert_eq!(phone.pane(&pane_id)["state"], "waiting");
    herdr.wait_for_state("blocked");

    let answer =
        phone.answer(&pane_id, ask["id"].as_str().unwrap(), &json!({"optionIds": ["allow"]}));
    assert_eq!((answer.status, answer.json()["decidedBy"].as_str()), (200, Some("phone")));
    // Both faces were switched before the phone heard that its answer was taken.
    let pane = phone.pane(&pane_id);
    assert_eq!(pane["asks"], json!([]));
    assert_ne!(pane["state"], "waiting");
    terminal.wait_for("Deployed to staging.");
    wait_for_pane_state(&phone, "idle");
    herdr.wait_for_pane(|pane| pane.holder.as_ref().is_some_and(|holder| holder.state == "idle"));
    assert_eq!(texts(&phone, &pane_id), ["please deploy", "Deployed to staging."]);
    let events = phone.events(&pane_id, None);
    assert_eq!(events["turnId"], "t-1");

    terminal.type_bytes("exit 7\r");
    assert_eq!(terminal.wait().code(), Some(7));
    // In force before the exit was seen: a restart of Herdr right now must not bring the agent back.
    assert_eq!(herdr.pane("w1:p1").holder, None);
    assert_eq!(releases(&herdr), 1);
    let told = states(&herdr);
    assert_eq!(told.first().map(String::as_str), Some("idle"), "{told:?}");
    let blocked = told.iter().position(|state| state == "blocked").unwrap();
    assert!(told[..blocked].contains(&"working".to_owned()), "{told:?}");
    let seqs: Vec<u64> = herdr.requests().iter().filter_map(Request::seq).collect();
    assert!(seqs.is_sorted_by(|a, b| a < b), "{seqs:?}");
    assert_eq!(user.sockets(), Vec::<PathBuf>::new());
}

/// The same through Herdr's CLI, when the socket is not there.
#[test]
fn the_cli_is_the_fallback() {
    let user = User::new();
    let herdr = FakeHerdr::start(Behaviour::Answers);
    let mut command = user.wrap_in(&herdr, &["--", TOY_AGENT]);
    command
        .env("HERDR_SOCKET_PATH", herdr.folder().join("none.sock"))
        .env("HERDR_BIN_PATH", herdr.program(FAKE_HERDR, ""));
    let mut terminal = Terminal::start(&mut command);
    herdr.wait_for(|request| request.is_from_cli() && request.state() == Some("idle"));
    terminal.wait_for("> ");
    terminal.type_bytes("work\r");
    herdr.wait_for(|request| request.is_from_cli() && request.state() == Some("working"));
    terminal.wait_for("I have looked at: work");
    terminal.type_bytes("exit 0\r");
    assert_eq!(terminal.wait().code(), Some(0));
    herdr.wait_for_pane(|pane| pane.holder.is_none());
    assert_eq!(releases(&herdr), 1);
}

#[test]
fn a_denial_and_a_timeout_are_told_apart() {
    let user = User::new();
    let script = "\"$AGENT_PRESENCE_BIN\" approve bash; echo denied=$?; \
                  \"$AGENT_PRESENCE_BIN\" approve --timeout 0.2s bash; echo timeout=$?; \
                  \"$AGENT_PRESENCE_BIN\" ask --choice r=Red --choice b=Blue 'Which?'; echo asked=$?";
    let mut terminal = Terminal::start(&mut user.wrap(&["--", "sh", "-c", script]));
    let phone = Phone::at(user.socket("sh"));
    eventually("a socket", || phone.socket().exists());
    phone.wait_ready();
    let (pane, ask) = phone.wait_for_ask();
    phone.answer(&pane, ask["id"].as_str().unwrap(), &json!({"optionIds": ["deny"]}));
    terminal.wait_for("denied=4");
    terminal.wait_for("timeout=5");
    let (pane, ask) = phone.wait_for_ask();
    assert_eq!(ask["title"], "Which?");
    phone.answer(&pane, ask["id"].as_str().unwrap(), &json!({"optionIds": ["b"]}));
    terminal.wait_for("b\nasked=0");
    assert_eq!(terminal.wait().code(), Some(0));
}

/// Who asked is gone, and with it the question: a card that nobody waits for is not shown.
#[test]
fn a_killed_question_takes_its_card_along() {
    let user = User::new();
    let herdr = FakeHerdr::start(Behaviour::Answers);
    let script = "\"$AGENT_PRESENCE_BIN\" state working; \
                  \"$AGENT_PRESENCE_BIN\" approve bash & read -r line; kill -9 $!; read -r line";
    let mut terminal = Terminal::start(&mut user.wrap_in(&herdr, &["--", "sh", "-c", script]));
    let phone = Phone::at(user.socket("sh"));
    eventually("a socket", || phone.socket().exists());
    phone.wait_ready();
    phone.wait_for_ask();
    herdr.wait_for_state("blocked");
    terminal.type_bytes("\r");
    wait_for_pane_state(&phone, "working");
    assert_eq!(phone.state()["panes"][0]["asks"], json!([]));
    herdr.wait_for_state("working");
    terminal.type_bytes("\r");
    assert_eq!(terminal.wait().code(), Some(0));
}

/// The agent and what it starts may ask, and may never answer.
#[test]
fn the_agent_cannot_answer_its_own_card() {
    let user = User::new();
    let socket = user.socket("rogue");
    let script = r#"
        "$AGENT_PRESENCE_BIN" approve bash &
        asking=$!
        curl() { command curl -s --unix-socket "$SOCKET" "$@"; }
        url=http://localhost/durable/v1
        until curl "$url/state" | grep -q '"kind":"approval"'; do sleep 0.02; done
        ask=$(curl "$url/state" | sed 's/.*"asks":\[{"id":"\([^"]*\)".*/\1/')
        answer() {
            echo "$1 $("$@" curl -s -o /dev/null -w '%{http_code}' --unix-socket "$SOCKET" \
                -H 'content-type: application/json' \
                -d '{"requestId":"r","answer":{"optionIds":["allow"]}}' "$url/panes/s/asks/$ask")"
        }
        for way in env nohup 'setsid -w' 'setsid -w setsid -w'; do answer $way; done
        wait $asking; echo "approve=$?"
    "#;
    let arguments = ["--agent", "rogue", "--session", "s", "--", "bash", "-c", script];
    let mut terminal = Terminal::start(user.wrap(&arguments).env("SOCKET", &socket));
    for way in ["env 403", "nohup 403", "setsid 403"] {
        terminal.wait_for(way);
    }
    let phone = Phone::at(socket);
    let (pane, ask) = phone.wait_for_ask();
    phone.answer(&pane, ask["id"].as_str().unwrap(), &json!({"optionIds": ["allow"]}));
    terminal.wait_for("approve=0");
    assert!(!terminal.screen().contains(" 200"), "{}", terminal.screen());
    assert_eq!(terminal.wait().code(), Some(0));
}

/// OSC 7501 in the output sets the state, and passes on unchanged.
#[test]
fn program_status_sets_the_state() {
    let user = User::new();
    let herdr = FakeHerdr::start(Behaviour::Answers);
    let script = "printf '\\033]7501;state=working\\033\\\\'; read -r line; \
                  printf '\\033]7501;state=blocked:kind=auth:msg=bG9nIGlu\\007'; read -r line; \
                  printf '\\033]7501;state=done\\007'; read -r line";
    let mut terminal = Terminal::start(&mut user.wrap_in(&herdr, &["--", "sh", "-c", script]));
    let phone = Phone::at(user.socket("sh"));
    herdr.wait_for_state("working");
    terminal.wait_for_bytes(b"\x1b]7501;state=working\x1b\\");
    wait_for_pane_state(&phone, "working");
    terminal.type_bytes("\r");
    let pane = herdr.wait_for_state("blocked");
    assert_eq!(pane.holder.unwrap().message.as_deref(), Some("log in"));
    wait_for_pane_state(&phone, "waiting");
    terminal.wait_for_bytes(b"\x1b]7501;state=blocked:kind=auth:msg=bG9nIGlu\x07");
    terminal.type_bytes("\r");
    herdr.wait_for_state("idle");
    wait_for_pane_state(&phone, "idle");
    terminal.type_bytes("\r");
    assert_eq!(terminal.wait().code(), Some(0));
}

#[test]
fn outside_herdr_nothing_is_sent() {
    let user = User::new();
    let herdr = FakeHerdr::start(Behaviour::Answers);
    let script = "\"$AGENT_PRESENCE_BIN\" state working && \"$AGENT_PRESENCE_BIN\" say hello";
    for missing in ["HERDR_ENV", "HERDR_PANE_ID", "HERDR_SOCKET_PATH"] {
        let mut command = user.wrap_in(&herdr, &["--", "sh", "-c", script]);
        command.env_remove(missing).env("HERDR_BIN_PATH", herdr.program(FAKE_HERDR, ""));
        let mut terminal = Terminal::start(&mut command);
        assert_eq!(terminal.wait().code(), Some(0));
        assert_eq!(terminal.bytes(), b"", "and nothing is said about it");
    }
    assert_eq!(herdr.requests().len(), 0);
}

/// The agent dies by a signal: so does `wrap`. It is idle, and its resume command stays.
#[test]
fn kill_9_of_the_agent() {
    let user = User::new();
    let herdr = FakeHerdr::start(Behaviour::Answers);
    let script = "\"$AGENT_PRESENCE_BIN\" state working; read -r line; kill -9 $$";
    let mut terminal = Terminal::start(&mut user.wrap_in(&herdr, &["--", "sh", "-c", script]));
    herdr.wait_for_state("working");
    let before = terminal.modes();
    assert!(before.is_raw());
    terminal.type_bytes("\r");
    assert_eq!(terminal.wait().signal(), Some(9));
    assert!(terminal.modes().is_cooked());
    assert_eq!(states(&herdr).last().map(String::as_str), Some("idle"));
    assert_eq!(releases(&herdr), 0);
    assert_eq!(user.sockets(), Vec::<PathBuf>::new());
}

/// Herdr stops: it sends SIGHUP or SIGTERM, and a release would delete the resume command.
#[test]
fn a_signal_from_outside_is_no_release() {
    for signal in [Signal::SIGHUP, Signal::SIGTERM] {
        let user = User::new();
        let herdr = FakeHerdr::start(Behaviour::Answers);
        let mut terminal = Terminal::start(&mut user.wrap_in(&herdr, &["--", "sleep", "1000"]));
        herdr.wait_for_state("idle");
        terminal.signal(signal);
        assert_eq!(terminal.wait().signal(), Some(signal as i32));
        assert_eq!(releases(&herdr), 0);
        assert_eq!(user.sockets(), Vec::<PathBuf>::new());
    }
}

/// A Herdr that hangs holds up neither the agent nor its end: field case 55.
#[test]
fn a_herdr_that_hangs_is_not_waited_for() {
    let user = User::new();
    let herdr = FakeHerdr::start(Behaviour::Hangs);
    let mut terminal = Terminal::start(&mut user.wrap_in(&herdr, &["--", TOY_AGENT]));
    terminal.wait_for("> ");
    terminal.type_bytes("work\r");
    terminal.wait_for("I have looked at: work");
    let began = Instant::now();
    terminal.type_bytes("exit 3\r");
    assert_eq!(terminal.wait().code(), Some(3));
    // The limit is 300 ms; the rest is for a busy machine. Herdr's own limits would add up to 2 s.
    assert!(began.elapsed() < Duration::from_millis(1500), "{:?}", began.elapsed());
}

/// What goes wrong is told in a private file: the terminal is the agent's.
#[test]
fn warnings_go_to_a_private_log() {
    let user = User::new();
    let herdr = FakeHerdr::start(Behaviour::Answers);
    let mut command = user.wrap_in(&herdr, &["--", "true"]);
    // Herdr's numbers are kept below this folder, which cannot be made.
    fs::create_dir(user.path("state/agent-presence")).unwrap();
    fs::write(user.path("state/agent-presence/seq"), "").unwrap();
    let mut terminal = Terminal::start(&mut command);
    assert_eq!(terminal.wait().code(), Some(0));
    assert_eq!(terminal.bytes(), b"");
    let log = user.path("state/agent-presence/log/agent-presence.log");
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.contains("WARN") && text.contains("in memory only"), "{text}");
    assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
}

/// The user ends the agent by the end of its input: that is a quit, too.
#[test]
fn the_end_of_the_input_is_a_quit() {
    let user = User::new();
    let herdr = FakeHerdr::start(Behaviour::Answers);
    let mut terminal = Terminal::start(&mut user.wrap_in(&herdr, &["--", "cat"]));
    herdr.wait_for_state("idle");
    terminal.type_bytes([4]);
    assert_eq!(terminal.wait().code(), Some(0));
    assert_eq!(releases(&herdr), 1);
}

/// A wrap inside a wrap of the same pane leaves the pane to the outer one.
#[test]
fn a_nested_wrap_is_quiet() {
    let user = User::new();
    let herdr = FakeHerdr::start(Behaviour::Answers);
    let inner = "\"$AGENT_PRESENCE_BIN\" wrap --agent inner -- \
                 sh -c '\"$AGENT_PRESENCE_BIN\" state working; echo inner; read -r line'; \
                 echo outer; read -r line";
    let arguments = ["--agent", "outer", "--", "sh", "-c", inner];
    let mut terminal = Terminal::start(&mut user.wrap_in(&herdr, &arguments));
    herdr.wait_for_state("idle");
    terminal.wait_for("inner");
    terminal.type_bytes("\r");
    terminal.wait_for("outer");
    assert_eq!(releases(&herdr), 0, "the inner one releases nothing");
    terminal.type_bytes("\r");
    assert_eq!(terminal.wait().code(), Some(0));
    assert_eq!(releases(&herdr), 1);
    // What the inner one does is its own business; the outer one's state is said again after it.
    assert!(states(&herdr).iter().all(|state| state == "idle"), "{:?}", states(&herdr));
}

#[test]
fn the_agent_sees_the_size_of_the_terminal_and_its_changes() {
    let user = User::new();
    let script = "trap 'stty size' WINCH; stty size; until read -r -t 0.05; do :; done";
    let mut command = user.wrap(&["--", "bash", "-c", script]);
    let mut terminal = Terminal::start_sized(&mut command, 30, 100);
    terminal.wait_for("30 100");
    terminal.resize(40, 120, 0, 0);
    terminal.wait_for("40 120");
    terminal.type_bytes("\r");
    assert_eq!(terminal.wait().code(), Some(0));
}

/// 200 KB of random bytes pass through unchanged.
#[test]
fn bytes_are_not_changed() {
    let user = User::new();
    let file = user.path("bytes");
    let mut random = fs::File::open("/dev/urandom").unwrap();
    let mut bytes = vec![0; 200_000];
    std::io::Read::read_exact(&mut random, &mut bytes).unwrap();
    fs::write(&file, &bytes).unwrap();
    let script = format!("stty raw; cat '{}'", file.display());
    let mut terminal = Terminal::start(&mut user.wrap(&["--", "sh", "-c", &script]));
    assert_eq!(terminal.wait().code(), Some(0));
    assert!(terminal.bytes() == bytes, "{} bytes came", terminal.bytes().len());
}

/// A name that Herdr knows itself would lose to its own detection of it.
#[test]
fn a_name_that_herdr_knows_gets_a_suffix() {
    let user = User::new();
    let herdr = FakeHerdr::start(Behaviour::Answers);
    let agent = user.path("claude");
    fs::write(&agent, "#!/bin/sh\nread -r line; env | grep ^HERDR_PANE; exit 0\n").unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o700)).unwrap();
    let mut command = user.wrap_in(&herdr, &["--", agent.to_str().unwrap()]);
    let mut terminal = Terminal::start(&mut command);
    let claim = herdr.wait_for(|request| request.state() == Some("idle"));
    assert_eq!(claim.params["agent"], "claude-presence");
    let metadata = herdr.wait_for(|request| request.method == "pane.report_metadata");
    assert_eq!(metadata.params["display_agent"], "claude");
    terminal.type_bytes("\r");
    assert_eq!(terminal.wait().code(), Some(0));
    assert!(!terminal.screen().contains("HERDR_PANE"), "{}", terminal.screen());
}

/// What a killed wrap leaves behind: nothing that runs, and no socket.
#[test]
fn kill_9_of_wrap_leaves_no_socket() {
    let user = User::new();
    let mut terminal =
        Terminal::start(&mut user.wrap(&["--", "sh", "-c", "echo pid=$$; exec sleep 1000"]));
    terminal.wait_for("pid=");
    let screen = terminal.screen();
    let agent: u32 =
        screen.lines().find_map(|line| line.strip_prefix("pid=")).unwrap().trim().parse().unwrap();
    eventually("a socket", || user.socket("sh").exists());
    // The guardian's only child relays.
    for child in support::terminal::children(terminal.pid()) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child).unwrap());
        nix::sys::signal::kill(pid, Signal::SIGKILL).unwrap();
    }
    assert_eq!(terminal.wait().signal(), Some(9));
    eventually("the end of the agent", || !is_alive(agent));
    assert!(terminal.modes().is_cooked());
    let sockets = || user.sockets().into_iter().filter(|path| is_socket(path)).count();
    assert_eq!(sockets(), 0);
}

fn is_socket(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "sock")
}
