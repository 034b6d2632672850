//! `watch`: everything that the phone can do, at a terminal.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::terminal::Terminal;
use crate::{Link, PROGRAM, User};

fn watch(user: &User) -> Terminal {
    let mut command: Command = user.command(PROGRAM);
    command.args(["watch", "--socket"]).arg(user.socket("prog")).env("TERM", "xterm-256color");
    Terminal::start_sized(&mut command, 30, 100)
}

/// Presses keys, again after a while, until it holds: a card takes no key in its first half second.
fn press_until(terminal: &Terminal, keys: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + crate::PATIENCE;
    loop {
        terminal.type_bytes(keys);
        let again = Instant::now() + Duration::from_millis(800);
        while Instant::now() < again {
            if holds() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        assert!(Instant::now() < deadline, "{keys:?} does nothing in {}", terminal.screen());
    }
}

/// Presses keys until the ask is answered, and gives the answer.
fn answered(terminal: &Terminal, link: &Link, keys: &str) -> Value {
    let mut answer = None;
    press_until(terminal, keys, || {
        answer = link.lines.try_recv().ok();
        answer.is_some()
    });
    serde_json::from_str(&answer.unwrap()).unwrap()
}

/// Presses keys until the screen shows a text.
fn shown(terminal: &Terminal, keys: &str, text: &str) {
    press_until(terminal, keys, || terminal.screen().contains(text));
}

#[test]
fn all_kinds_of_cards_are_answered_and_texts_and_stops_are_sent() {
    let user = User::new();
    let mut link = Link::start(&user, None, "--takes all");
    link.call("open", &json!({"session": "one", "title": "The first"}));
    link.call("open", &json!({"session": "two", "title": "The second"}));
    for number in 0..60 {
        link.call("say", &json!({"session": "one", "text": format!("line {number}.")}));
    }
    link.call("subscribe", &json!({}));
    let mut terminal = watch(&user);
    terminal.wait_for("The second");
    terminal.wait_for("line 59.");
    assert!(!terminal.screen().contains("line 9."));
    for _ in 0..6 {
        terminal.type_bytes("\x1b[5~");
    }
    terminal.wait_for("line 9.");
    terminal.type_bytes("\x1b[F");
    terminal.wait_for("line 59.");

    // A text, typed and corrected; the agent takes it up.
    terminal.type_bytes("s");
    terminal.wait_for("Send: ");
    terminal.type_bytes("quit nowx\x7f\r");
    let wish = link.read();
    assert_eq!(
        (&wish["params"]["wanted"], &wish["params"]["text"]),
        (&json!("send"), &json!("quit now"))
    );
    link.call("accept", &json!({"requestId": wish["params"]["requestId"]}));
    terminal.wait_for("> quit now");
    link.call("state", &json!({"session": "one", "state": "working"}));
    terminal.wait_for("working");
    terminal.type_bytes("x");
    let wish = link.read();
    assert_eq!(wish["params"]["wanted"], "stop");
    link.call(
        "refuse",
        &json!({"requestId": wish["params"]["requestId"], "reason": "Nearly done."}),
    );
    terminal.wait_for("not stopped: Nearly done.");
    // A text into the running turn; Escape takes a line back.
    terminal.wait_for("S steer");
    terminal.type_bytes("S");
    terminal.wait_for("Send into the running turn: ");
    terminal.type_bytes("no\x1b");
    terminal.wait_for("S steer");
    terminal.type_bytes("S");
    terminal.wait_for("Send into the running turn: ");
    terminal.type_bytes("the other file\r");
    let wish = link.read();
    let steer = json!({"requestId": wish["params"]["requestId"], "wanted": "steer",
        "session": "one", "text": "the other file"});
    assert_eq!(wish["params"], steer);
    link.call("accept", &json!({"requestId": wish["params"]["requestId"]}));
    terminal.wait_for("> the other file");

    // Several choices: a digit picks, and picks again not; so it is pressed once, when it counts.
    let options = json!([{"id": "a", "label": "Apple"}, {"id": "b", "label": "Beetroot"}]);
    link.request(
        1,
        "ask",
        &json!({"session": "one", "title": "Which?", "options": options, "multiple": true}),
    );
    terminal.wait_for("Beetroot");
    shown(&terminal, "2", "✓ Beetroot");
    assert_eq!(answered(&terminal, &link, "\r")["result"]["optionIds"], json!(["b"]));

    link.request(2, "ask", &json!({"session": "one", "title": "Your name?", "kind": "text"}));
    terminal.wait_for("Enter: type the answer");
    shown(&terminal, "\r", "Your name?: ");
    terminal.type_bytes("Ada Lovelace\r");
    assert_eq!(link.read()["result"]["text"], "Ada Lovelace");

    let fields = json!([{"id": "n", "label": "How many", "type": "number", "required": true},
        {"id": "b", "label": "Fast", "type": "boolean"}]);
    link.request(
        3,
        "ask",
        &json!({"session": "one", "title": "Fill in", "kind": "form", "fields": fields}),
    );
    terminal.wait_for("Enter: fill in the form");
    shown(&terminal, "\r", "How many (a number): ");
    terminal.type_bytes("3\r");
    terminal.wait_for("Fast (y or n), may be left out: ");
    terminal.type_bytes("y\r");
    assert_eq!(link.read()["result"]["values"], json!({"n": 3, "b": true}));

    // The other session.
    link.request(4, "approve", &json!({"session": "two", "tool": "rm"}));
    terminal.wait_for("!");
    terminal.type_bytes("\t");
    terminal.wait_for("rm wants to run");
    assert_eq!(answered(&terminal, &link, "2")["result"]["approved"], false);
    terminal.type_bytes("q");
    assert_eq!(terminal.wait().code(), Some(0));
}

#[test]
fn past_conversations_are_read_and_go_on() {
    let user = User::new();
    let mut link = Link::start(&user, None, "--takes all");
    link.call("open", &json!({"session": "one", "title": "The first"}));
    for number in 0..230 {
        link.call("say", &json!({"session": "one", "text": format!("line {number}.")}));
    }
    link.call("close", &json!({"session": "one"}));
    link.call("subscribe", &json!({}));
    let mut terminal = watch(&user);
    // Without a session, too.
    terminal.wait_for("h past");
    terminal.type_bytes("h");
    terminal.wait_for("The first  one  230 items");
    link.call("open", &json!({"session": "two", "title": "The second"}));
    link.request(1, "approve", &json!({"session": "two", "tool": "rm"}));
    terminal.wait_for("Past conversations · 1 waiting: Esc");
    terminal.type_bytes("\r");
    terminal.wait_for("The first · past");
    terminal.wait_for("line 229.");
    assert!(!terminal.screen().contains("rm wants to run"));
    // More than comes at once.
    shown(&terminal, "\x1b[5~\x1b[5~\x1b[5~\x1b[5~\x1b[5~", "line 0.");
    terminal.type_bytes("\x1b");
    terminal.wait_for("rm wants to run");
    assert_eq!(answered(&terminal, &link, "2")["result"]["approved"], false);

    terminal.type_bytes("h");
    terminal.wait_for("r reopen");
    terminal.type_bytes("r");
    let wish = link.read();
    assert_eq!(
        (&wish["params"]["wanted"], &wish["params"]["session"]),
        (&json!("reopen"), &json!("one"))
    );
    link.call("open", &json!({"session": "one", "title": "The first"}));
    link.call("accept", &json!({"requestId": wish["params"]["requestId"]}));
    terminal.wait_for("it goes on");
    terminal.wait_for("idle    The first");
    // It is the one that is shown, with all that was said.
    terminal.wait_for("line 229.");
    terminal.type_bytes("h");
    terminal.wait_for("  none");
    terminal.type_bytes("q");
    assert_eq!(terminal.wait().code(), Some(0));
}
