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
        Self::named("composer", "> ", flags, agents)
    }

    /// The same as a program of the built-in table, with the input line that it has.
    fn named(name: &str, prompt: &str, flags: &[&str], agents: &str) -> Self {
        let user = User::new();
        fs::create_dir(user.path("config/agent-presence")).unwrap();
        fs::write(user.path("config/agent-presence/config.toml"), agents).unwrap();
        let log = user.path("log");
        fs::write(&log, "").unwrap();
        let program = user.program(name, &format!("#!/bin/sh\nexec python3 {COMPOSER} \"$@\"\n"));
        let arguments = [&["--", &program], flags].concat();
        let mut command = user.wrap(&arguments);
        let terminal = Terminal::start(command.env("LOG", log).env("PROMPT", prompt));
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

/// Codex takes Enter in a turn into that turn; the turn goes on, and the text is not sent twice.
#[test]
fn steer_goes_into_the_running_turn() {
    let rig = Rig::named("codex", "› ", &["steer", "burst"], "");
    assert_eq!(rig.phone.hello()["caps"]["steer"], true);
    assert_eq!(rig.send("a long one").status, 200);
    wait_for_state(&rig.phone, "working");
    let reply = rig.phone.steer("s", "and the tests");
    assert_eq!(reply.status, 200, "{reply:?}");
    eventually("the text", || rig.log() == ["turn a long one", "steer and the tests"]);
    let said = chat(&rig.phone);
    let users = said.iter().filter(|(kind, _)| kind == "user").map(|(_, text)| text.as_str());
    assert_eq!(users.collect::<Vec<_>>(), ["a long one", "and the tests"]);
    assert_eq!(rig.phone.pane("s")["state"], "working", "the same turn");
    // A plain text waits for its end.
    let queued = rig.send("the next turn");
    assert_eq!((queued.status, &queued.json()["queued"]), (200, &json!(true)));
    assert_eq!(rig.phone.stop("s").status, 200);
    eventually("the next turn", || rig.log().last() == Some(&"turn the next turn".to_owned()));
    assert_eq!(rig.log()[2], "interrupt '\\x1b'");
}

/// Claude Code would queue it by itself, where the phone cannot take it back: it waits with us instead.
#[test]
fn who_only_queues_a_text_is_not_steered() {
    let rig = Rig::named("claude", "❯ ", &[], "");
    assert_eq!(rig.phone.hello()["caps"]["steer"], false);
    assert_eq!(rig.phone.steer("s", "and the tests").status, 409);
}

/// A hidden cursor that stands still is how Codex shows that a menu is open, whatever else is drawn.
#[test]
fn nothing_is_typed_into_a_menu_that_hides_the_cursor() {
    let rig = Rig::named("codex", "› ", &["menu"], "");
    assert!(refusal(&rig.send("please deploy")).contains("A menu is open"));
    assert_eq!(rig.log(), [""; 0]);
    rig.terminal.type_bytes("q");
    // Once the user's key is a while ago.
    eventually("the menu's end", || rig.send("please deploy").status == 200);
    eventually("the turn", || rig.log() == ["turn please deploy"]);
}

/// OpenCode asks for a second Esc, and takes one Ctrl-C as the end.
#[test]
fn stop_is_pressed_twice_where_once_is_not_enough() {
    let rig = Rig::named("opencode", "> ", &["twice"], "");
    assert_eq!(rig.send("a long one").status, 200);
    wait_for_state(&rig.phone, "working");
    assert_eq!(rig.phone.stop("s").status, 200);
    let esc = "interrupt '\\x1b'";
    eventually("the interrupt", || rig.log() == ["turn a long one", esc, esc]);
    wait_for_state(&rig.phone, "idle");
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
    let script = "stty -echo; printf 'Password: '; read -r secret; stty echo; echo; echo length ${#secret}; \
                  printf 'name: '; read -r name; stty -echo; printf 'Again: '; read -r secret; stty echo; \
                  echo same; read -r line; sleep 0.3; echo thanks; read -r line";
    let (terminal, phone) = user.start(&["--", "sh", "-c", script]);
    terminal.wait_for("Password:");
    // No line was entered, so no turn runs for whose end the text could wait.
    assert!(refusal(&phone.send("s", "hi")).contains("password"));
    terminal.type_bytes("hunter2\r");
    terminal.wait_for("length 7");
    terminal.wait_for("name:");
    terminal.type_bytes("ada\r");
    terminal.wait_for("Again:");
    terminal.type_bytes("hunter2\r");
    terminal.wait_for("same");
    terminal.type_bytes("end\r");
    terminal.wait_for("thanks");
    eventually("the turn's text", || format!("{:?}", chat(&phone)).contains("thanks"));
    let said = format!("{:?}", chat(&phone));
    assert!(said.contains("ada") && !said.contains("hunter2"), "{said}");
}

/// In the middle of a turn, too: the agent needs the user, and a text from the phone is refused rather than
/// kept for later.
#[test]
fn a_password_prompt_in_a_turn_blocks_it() {
    let user = User::new();
    let script = "\"$AGENT_PRESENCE_BIN\" state working; stty -echo; printf 'Password: '; read -r secret; stty echo; \
                  echo; echo length ${#secret}; read -r line";
    let (terminal, phone) = user.start(&["--", "sh", "-c", script]);
    terminal.wait_for("Password:");
    wait_for_state(&phone, "waiting");
    user.herdr.wait_for_state("blocked");
    assert_eq!(phone.send("s", "hi").status, 409);
    terminal.type_bytes("hunter2\r");
    terminal.wait_for("length 7");
    wait_for_state(&phone, "working");
    user.herdr.wait_for_state("working");
}

/// A program that reads every key itself and shows none of them: what it does not show is not kept.
#[test]
fn what_a_full_program_masks_is_not_in_the_chat() {
    let user = User::new();
    let script = "stty -echo -icanon; printf 'Token: '; key=; token=; \
        until [ \"$key\" = . ]; do read -rn1 key; token=$token$key; printf '*'; done; \
        stty sane; printf '\\nlength %s\\n' ${#token}; sleep 0.3; printf 'thanks '; read -r line";
    let (terminal, phone) = user.start(&["--chat", "live", "--", "bash", "-c", script]);
    terminal.wait_for("Token:");
    terminal.type_bytes("hunter2.\r");
    terminal.wait_for("length 8");
    eventually("the turn's text", || format!("{:?}", chat(&phone)).contains("length 8"));
    let said = format!("{:?}", chat(&phone));
    assert!(!said.contains("hunter2"), "{said}");
}

/// The terminal takes no more (Ctrl-S, a slow line): the agent waits, and the phone does not.
#[test]
fn a_stopped_terminal_holds_up_no_answer() {
    let user = User::new();
    let script =
        "\"$AGENT_PRESENCE_BIN\" approve bash; echo \"decided=$?\" >>\"$LOG\"; read -r line";
    let script = format!("({script}) & exec yes");
    let log = user.path("log");
    let terminal = Terminal::start(user.wrap(&["--", "bash", "-c", &script]).env("LOG", &log));
    let phone = user.phone();
    terminal.wait_for_bytes("y\r\ny\r\n");
    terminal.pause(true);
    eventually("a socket", || phone.socket().exists());
    let (pane, ask) = phone.wait_for_ask();
    let reply = phone.answer(&pane, ask["id"].as_str().unwrap(), &json!({"optionIds": ["allow"]}));
    assert_eq!(reply.status, 200, "{reply:?}");
    eventually("the answer", || fs::read_to_string(&log).is_ok_and(|log| log == "decided=0\n"));
    terminal.pause(false);
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
