//! Text and Stop from the phone, into a real terminal.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::phone::{Phone, Reply};
use crate::support::terminal::{Terminal, eventually};
use crate::user::{User, chat, wait_for_state};

const COMPOSER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/shim/composer.py");

struct Rig {
    user: User,
    terminal: Terminal,
    phone: Phone,
}

impl Rig {
    /// The composer with flags, as a known agent if `agents` says something of it.
    fn new(flags: &[&str], agents: &str) -> Self {
        let user = User::new();
        fs::create_dir(user.path("config/agent-presence")).unwrap();
        fs::write(user.path("config/agent-presence/config.toml"), agents).unwrap();
        let log = user.path("log");
        fs::write(&log, "").unwrap();
        let program =
            user.program("composer", &format!("#!/bin/sh\nexec python3 {COMPOSER} \"$@\"\n"));
        let arguments = [&["--", &program], flags].concat();
        let terminal = Terminal::start(user.wrap(&arguments).env("LOG", log));
        let phone = user.phone();
        terminal.wait_for("Composer.");
        eventually("a socket", || phone.socket().exists());
        phone.wait_ready();
        Self { user, terminal, phone }
    }

    fn log(&self) -> Vec<String> {
        let log = fs::read_to_string(self.user.path("log")).unwrap();
        log.lines().map(str::to_owned).collect()
    }

    fn send(&self, text: &str) -> Reply {
        self.phone.send("s", text)
    }
}

/// Why a request was refused.
fn refusal(reply: &Reply) -> String {
    assert_eq!(reply.status, 409, "{reply:?}");
    reply.json()["error"]
        .as_str()
        .or(reply.json()["reason"].as_str())
        .unwrap_or_default()
        .to_owned()
        + &reply.json().to_string()
}

#[test]
fn a_text_is_typed_and_sent_once() {
    for flags in [&[][..], &["burst"], &["raw", "burst"], &["full"]] {
        let rig = Rig::new(flags, "");
        let reply = rig.send("please deploy");
        assert_eq!(reply.status, 200, "{flags:?}: {reply:?}");
        wait_for_state(&rig.phone, "idle");
        eventually("the turn", || rig.log() == ["turn please deploy"]);
        rig.terminal.wait_for("Answer");
        let said = chat(&rig.phone);
        assert_eq!(said[0], ("user".to_owned(), "please deploy".to_owned()), "{flags:?}");
        assert!(!said.iter().any(|(kind, _)| kind == "notice"), "{flags:?}: {said:?}");
        rig.phone.wait_for("idle", |state| state["panes"][0]["state"] == "idle");
    }
}

#[test]
fn forty_lines_and_a_long_paste_arrive_whole() {
    let rig = Rig::new(&["burst"], "");
    let lines: Vec<String> = (0..40).map(|line| format!("line {line}")).collect();
    assert_eq!(rig.send(&lines.join("\n")).status, 200);
    eventually("the turn", || rig.log() == [format!("turn {}", lines.join("\\n"))]);
    rig.terminal.wait_for("Answer");
    wait_for_state(&rig.phone, "idle");
    let long = "0123456789abcdef ".repeat(1000);
    let reply = rig.send(&long);
    assert_eq!(reply.status, 200, "{reply:?}");
    eventually("the turn", || rig.log().last() == Some(&format!("turn {long}")));
}

#[test]
fn a_text_that_carries_keys_is_only_text() {
    let rig = Rig::new(&[], "");
    assert_eq!(rig.send("a\u{1b}[201~\rb\u{3}c").status, 200);
    eventually("the turn", || rig.log() == ["turn a[201~\\nbc"]);
}

/// A dialog opens under the text: Enter would approve it, and is not pressed.
#[test]
fn a_dialog_that_opens_meanwhile_is_not_answered() {
    let agents = "[agents.composer]\ncomposer = ['>']\nlines = 6\n\
                  screen = { blocked = ['Enter to confirm'] }\n";
    for flags in [&["dialog"][..], &["dialog", "raw"]] {
        let rig = Rig::new(flags, agents);
        let reply = rig.send("danger");
        let why = refusal(&reply);
        // By the screen, or by the state that follows from it.
        let is_right = ["not appear", "question is open", "dialog is open", "input line is not"];
        assert!(is_right.iter().any(|right| why.contains(right)), "{why}");
        rig.terminal.wait_for("Run the dangerous thing?");
        wait_for_state(&rig.phone, "waiting");
        // And none is typed into one that is open.
        assert!(refusal(&rig.send("yes")).contains("question is open"));
        assert_eq!(rig.log(), [""; 0], "nothing was approved");
        assert!(!rig.terminal.screen().contains("yes"));
        // The person at the terminal can.
        rig.terminal.type_bytes("\r");
        eventually("the approval", || rig.log() == ["APPROVED"]);
    }
}

#[test]
fn an_agent_that_does_not_react_is_unknown_and_enter_is_not_pressed_again() {
    let rig = Rig::new(&["swallow"], "[agents.composer]\ncomposer = ['>']\n");
    assert_eq!(rig.send("please deploy").status, 200);
    eventually("a notice", || {
        chat(&rig.phone).iter().any(|(kind, text)| kind == "notice" && text.contains("unknown"))
    });
    assert_eq!(rig.log(), [""; 0]);
    assert!(refusal(&rig.send("again")).contains("other text"));
}

#[test]
fn nothing_is_typed_while_the_user_types() {
    let rig = Rig::new(&[], "");
    rig.terminal.type_bytes("half a th");
    rig.terminal.wait_for("> half a th");
    assert!(refusal(&rig.send("please deploy")).contains("typing at the terminal"));
    assert_eq!(rig.log(), [""; 0]);
}

#[test]
fn stop_is_the_agents_own_interrupt() {
    for (agents, expected) in [
        ("", "interrupt '\\x03'"),
        ("[agents.composer]\ninterrupt = ['esc']\n", "interrupt '\\x1b'"),
    ] {
        let rig = Rig::new(&[], agents);
        assert!(refusal(&rig.phone.stop("s")).contains("No turn runs"));
        assert_eq!(rig.send("a long one").status, 200);
        wait_for_state(&rig.phone, "working");
        assert_eq!(rig.phone.stop("s").status, 200);
        eventually("the interrupt", || rig.log() == ["turn a long one", expected]);
        wait_for_state(&rig.phone, "idle");
    }
}

#[test]
fn steer_is_offered_where_the_agent_has_it() {
    let rig = Rig::new(&[], "");
    assert_eq!(rig.phone.hello()["caps"]["steer"], false);
    assert_eq!(rig.phone.hello()["caps"]["send"], true);
    let rig = Rig::new(&[], "[agents.composer]\nsteer = true\n");
    assert_eq!(rig.phone.hello()["caps"]["steer"], true);
}

/// Field case 57: an answer is to be given at the card.
#[test]
fn no_text_while_an_ask_is_open() {
    let user = User::new();
    let script =
        "\"$AGENT_PRESENCE_BIN\" approve bash; echo decided=$?; read -r line; echo got=$line";
    let (terminal, phone) = user.start(&["--", "sh", "-c", script]);
    let (pane, ask) = phone.wait_for_ask();
    let reply = phone.send("s", "y");
    assert_eq!(reply.status, 409, "{reply:?}");
    phone.answer(&pane, ask["id"].as_str().unwrap(), &json!({"optionIds": ["deny"]}));
    terminal.wait_for("decided=4");
    assert!(!terminal.screen().contains("got="), "{}", terminal.screen());
}

#[test]
fn no_text_into_a_password_prompt_and_no_password_into_the_chat() {
    let user = User::new();
    let script = "printf 'name: '; read -r name; stty -echo; printf 'Password: '; read -r secret; stty echo; \
                  echo; echo length ${#secret}; read -r line; sleep 0.3; echo thanks; read -r line";
    let (terminal, phone) = user.start(&["--", "sh", "-c", script]);
    terminal.wait_for("name:");
    terminal.type_bytes("ada\r");
    terminal.wait_for("Password:");
    assert!(refusal(&phone.send("s", "hi")).contains("password"));
    terminal.type_bytes("hunter2\r");
    terminal.wait_for("length 7");
    terminal.type_bytes("end\r");
    terminal.wait_for("thanks");
    eventually("the turn's text", || format!("{:?}", chat(&phone)).contains("thanks"));
    let said = format!("{:?}", chat(&phone));
    assert!(said.contains("ada") && !said.contains("hunter2"), "{said}");
}

/// Field case 77: neither direction waits for the other.
#[test]
fn a_big_paste_to_an_agent_that_prints_first() {
    let user = User::new();
    let script = "stty raw -echo; printf '\\033[?2004hready'; sleep 0.2; head -c 1000000 /dev/zero | tr '\\0' x; \
                  head -c 60012 | wc -c | tr -d ' '; stty sane; printf 'done\\n'; read -r line";
    let (terminal, phone) = user.start(&["--", "sh", "-c", script]);
    terminal.wait_for("ready");
    terminal.pause(true);
    let began = Instant::now();
    let sending = std::thread::spawn(move || phone.send("s", &"y".repeat(60_000)));
    std::thread::sleep(Duration::from_millis(100));
    terminal.pause(false);
    terminal.wait_for("60012");
    assert!(began.elapsed() < Duration::from_secs(15));
    // It echoes nothing, and so nothing was sent.
    assert!(refusal(&sending.join().unwrap()).contains("not sent"));
}
