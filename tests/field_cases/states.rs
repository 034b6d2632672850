//! States that stuck, or flipped.

use crate::support::phone::Phone;
use crate::support::terminal::{Terminal, eventually};
use crate::user::{User, wait_for_state};

/// An agent that says each line that is typed in its output.
const REPEATER: &str =
    "echo up; while read -r line; do printf '\\033]7501;%s\\033\\\\' \"$line\"; done";

fn repeater(user: &User) -> (Terminal, Phone) {
    let (terminal, phone) = user.start(&["--", "bash", "-c", REPEATER]);
    terminal.wait_for("up");
    user.herdr.wait_for_state("idle");
    (terminal, phone)
}

/// Both faces show it.
fn is_shown(user: &User, phone: &Phone, state: &str) {
    wait_for_state(phone, if state == "blocked" { "waiting" } else { state });
    eventually(state, || user.states().last().is_some_and(|last| last == state));
}

/// Blocked was never taken back after a refusal, because no hook of the tool comes then.
#[test]
fn blocked_ends_with_the_turn_or_the_next_one() {
    let user = User::new();
    let script = "echo up; while read -r words; do \"$AGENT_PRESENCE_BIN\" state $words; done";
    let (mut terminal, phone) = user.start(&["--", "bash", "-c", script]);
    terminal.wait_for("up");
    for after in ["idle", "working"] {
        terminal.type_bytes("working\r");
        is_shown(&user, &phone, "working");
        terminal.type_bytes("blocked --message permission\r");
        is_shown(&user, &phone, "blocked");
        terminal.type_bytes(format!("{after}\r"));
        is_shown(&user, &phone, after);
    }
    terminal.type_bytes("\x04");
    assert_eq!(terminal.wait().code(), Some(0));
}

/// A helper agent that ended made its parent idle, and one that asked was not shown.
#[test]
fn a_helper_agent_ends_no_turn_and_its_question_counts() {
    let user = User::new();
    let (mut terminal, phone) = repeater(&user);
    terminal.type_bytes("state=working\r");
    is_shown(&user, &phone, "working");
    terminal.type_bytes("state=working:id=helper\r");
    terminal.type_bytes("state=done:id=helper\r");
    terminal.type_bytes("state=clear:id=helper\r");
    // The next word comes behind these, and so they were heard.
    terminal.type_bytes("state=blocked:kind=permission:id=other\r");
    is_shown(&user, &phone, "blocked");
    assert_eq!(user.states(), ["idle", "working", "blocked"], "the helper's end was nobody's idle");
    terminal.type_bytes("state=working:id=other\r");
    is_shown(&user, &phone, "working");
    terminal.type_bytes("state=clear:id=other\r");
    terminal.type_bytes("state=done\r");
    is_shown(&user, &phone, "idle");
    terminal.type_bytes("\x04");
    assert_eq!(terminal.wait().code(), Some(0));
}

/// A session that was resumed read as running until its first turn had ended.
#[test]
fn a_session_that_comes_back_begins_idle() {
    let user = User::new();
    let agent = user.program("claude", "#!/bin/sh\necho \"resumed $2\"; read -r line\n");
    let (mut terminal, phone) = user.start(&["--", &agent, "--resume", "24b3a098"]);
    terminal.wait_for("resumed 24b3a098");
    is_shown(&user, &phone, "idle");
    terminal.type_bytes("\r");
    assert_eq!(terminal.wait().code(), Some(0));
    assert_eq!(user.states(), ["idle"]);
}

/// Each gap between two steps rang as an end of the turn.
#[test]
fn a_gap_between_two_steps_is_no_end() {
    let user = User::new();
    let say = |state: &str| format!("printf '\\033]7501;state={state}\\033\\\\'; sleep 0.05");
    let step = format!("{}; {}", say("working"), say("idle"));
    let script = format!(
        "read -r line; for i in 1 2 3 4 5 6 7 8 9 10; do {step}; done; echo over; read -r line; \
         {}; {}; read -r line",
        say("working"),
        say("blocked")
    );
    let (mut terminal, phone) = user.start(&["--", "bash", "-c", &script]);
    user.herdr.wait_for_state("idle");
    terminal.type_bytes("\r");
    terminal.wait_for("over");
    is_shown(&user, &phone, "idle");
    assert_eq!(user.states(), ["idle", "working", "idle"]);
    terminal.type_bytes("\r");
    is_shown(&user, &phone, "blocked");
    terminal.type_bytes("\r");
    assert_eq!(terminal.wait().code(), Some(0));
}

/// An agent that wrote about approvals was taken for one that asks for one, and scrolling changed its state.
#[test]
fn a_known_agent_that_shows_such_text_asks_nothing() {
    let user = User::new();
    let rule = "─".repeat(79);
    let script = format!(
        "#!/bin/bash\n\
         text() {{ printf 'Do you want to proceed?\\n❯ 1. Yes\\n  2. No\\n\\nEsc to cancel\\n'; }}\n\
         footer() {{ printf '%s\\n❯ \\n%s\\n  ? for shortcuts' '{rule}' '{rule}'; }}\n\
         for i in 1 2 3; do text; done; footer; read -rsn1\n\
         clear; for i in 1 2 3 4 5 6 7 8; do text; done; footer; read -rsn1\n\
         clear; text; read -rsn1\n"
    );
    let agent = user.program("claude", &script);
    let (mut terminal, phone) = user.start(&["--", &agent]);
    terminal.wait_for("? for shortcuts");
    is_shown(&user, &phone, "idle");
    terminal.type_bytes("x");
    terminal.wait_for_count_of("? for shortcuts", 2);
    is_shown(&user, &phone, "idle");
    assert_eq!(user.states(), ["idle"], "text above the input line is text");
    // Without the input line it is the dialog itself.
    terminal.type_bytes("x");
    is_shown(&user, &phone, "blocked");
    terminal.type_bytes("x");
    assert_eq!(terminal.wait().code(), Some(0));
}
