//! The state, from what an agent shows: one scripted agent for each kind of signal.

use crate::support::terminal::{Terminal, eventually};
use crate::user::{User, wait_for_state};

/// Runs a shell script as an agent of this name.
fn agent(user: &User, name: &str, script: &str) -> (Terminal, crate::support::phone::Phone) {
    let program = user.program(name, &format!("#!/bin/bash\n{script}\n"));
    user.start(&["--", &program])
}

/// Two sequences: the first begins, and the second, after a key, ends.
fn begins_and_ends(name: &str, begins: &str, ends: &str) {
    let user = User::new();
    let script =
        format!("stty -echo -icanon; printf '{begins}'; read -rn1; printf '{ends}'; read -rn1");
    let (mut terminal, phone) = agent(&user, name, &script);
    wait_for_state(&phone, "working");
    user.herdr.wait_for_state("working");
    terminal.type_bytes("x");
    wait_for_state(&phone, "idle");
    user.herdr.wait_for_state("idle");
    terminal.type_bytes("x");
    assert_eq!(terminal.wait().code(), Some(0));
}

#[test]
fn titles_with_a_spinner() {
    begins_and_ends("unheard-of", "\\033]0;\\342\\240\\213 fix it\\007", "\\033]0;done\\007");
    begins_and_ends(
        "claude",
        "\\033]0;\\342\\227\\220 Claude\\007",
        "\\033]0;\\342\\234\\263 Claude\\007",
    );
}

#[test]
fn progress_and_shell_marks() {
    begins_and_ends("unheard-of", "\\033]9;4;3;\\007", "\\033]9;4;0;\\007");
    begins_and_ends("unheard-of", "\\033]133;C\\007", "\\033]133;D;0\\033\\\\");
}

#[test]
fn the_lowest_rows_of_a_known_agent() {
    let user = User::new();
    let script = "stty -echo -icanon; printf 'Do you want to proceed?\\n❯ 1. Yes\\n\\nEsc to cancel'; read -rn1; \
                  clear; printf '? for shortcuts'; read -rn1";
    let (mut terminal, phone) = agent(&user, "claude", script);
    wait_for_state(&phone, "waiting");
    user.herdr.wait_for_state("blocked");
    terminal.type_bytes("1");
    wait_for_state(&phone, "idle");
    terminal.type_bytes("x");
    assert_eq!(terminal.wait().code(), Some(0));
}

/// Field case 31.
#[test]
fn a_file_that_looks_like_a_dialog_blocks_nothing() {
    let user = User::new();
    let file = user.path("text");
    let text = "Do you want to proceed?\n❯ 1. Yes\n  2. No\n\nEsc to cancel · esc to interrupt\n";
    std::fs::write(&file, text).unwrap();
    let script = format!("cat {}; read -r line", file.display());
    let (mut terminal, phone) = user.start(&["--", "sh", "-c", &script]);
    terminal.wait_for("Esc to cancel");
    terminal.type_bytes("\r");
    assert_eq!(terminal.wait().code(), Some(0));
    drop(phone);
    assert!(!user.states().iter().any(|state| state != "idle"), "{:?}", user.states());
}

/// Field cases 24 and 25: the hooks of an interrupted turn never say that it is over.
#[test]
fn an_interrupt_without_a_hook_is_reconciled() {
    for key in ["\x1b", "\x1b[27u", "\x03", "\x1b[99;5u"] {
        let user = User::new();
        // Not `read -n1`: while it waits, bash lets Ctrl-C be a signal again, and would die of it.
        let script = "stty -echo -icanon -isig; \"$AGENT_PRESENCE_BIN\" state working; printf 'Working\\n'; \
                      dd bs=1 count=1 >/dev/null 2>&1; printf '\\n Interrupted by user\\n'; exec sleep 60";
        let (terminal, phone) = agent(&user, "unheard-of", script);
        wait_for_state(&phone, "working");
        terminal.wait_for("Working");
        terminal.type_bytes(key);
        // Within 3 s of the hook's word, which is fresh until then.
        wait_for_state(&phone, "idle");
        user.herdr.wait_for_state("idle");
    }
}

#[test]
fn enter_begins_and_the_prompt_ends() {
    let user = User::new();
    let script = "while printf '> ' && read -r line; do sleep 0.5; echo \"about $line\"; done";
    let (mut terminal, phone) = agent(&user, "unheard-of", script);
    terminal.wait_for(">");
    terminal.type_bytes("fix it\r");
    wait_for_state(&phone, "working");
    terminal.wait_for("about fix it");
    wait_for_state(&phone, "idle");
    terminal.type_bytes([4]);
    assert_eq!(terminal.wait().code(), Some(0));
}

/// OSC 777, 9 and 99 are hints: what a notification said is over when a key comes.
#[test]
fn notifications() {
    for (name, blocked, idle) in [
        (
            "claude",
            "\\033]777;notify;Claude Code;Claude needs your permission\\007",
            "\\033]777;notify;Claude Code;Claude is waiting for your input\\007",
        ),
        (
            "claude",
            "\\033]99;i=1:p=body;Claude needs your permission\\033\\\\",
            "\\033]99;i=1:p=body;Claude is waiting for your input\\033\\\\",
        ),
        ("opencode", "\\033]9;Permission needs input\\007", "\\033]9;Session done\\007"),
    ] {
        let user = User::new();
        let script = format!(
            "stty -echo -icanon; printf '{blocked}'; read -rn1; printf '{idle}'; read -rn1"
        );
        let (mut terminal, phone) = agent(&user, name, &script);
        wait_for_state(&phone, "waiting");
        user.herdr.wait_for_state("blocked");
        terminal.type_bytes("x");
        wait_for_state(&phone, "idle");
        terminal.type_bytes("x");
        assert_eq!(terminal.wait().code(), Some(0));
    }
}

/// A bell after which nothing comes is the end of a turn of which only the keys told, and sooner than
/// silence alone.
#[test]
fn a_bell_ends_what_the_keys_began() {
    let user = User::new();
    let script = "printf 'ask '; read -r line; sleep 0.4; printf 'thinking\\007'; sleep 3.5; echo late; read -r line";
    let (terminal, phone) = agent(&user, "unheard-of", script);
    terminal.wait_for("ask");
    terminal.type_bytes("fix it\r");
    wait_for_state(&phone, "working");
    terminal.wait_for("thinking");
    wait_for_state(&phone, "idle");
    assert!(!terminal.screen().contains("late"), "{}", terminal.screen());
}

/// Silence is the last to be believed, and says only that something is over: a long quiet step of an agent
/// that tells its terminal that it works is work.
#[test]
fn silence_does_not_end_what_a_better_signal_began() {
    let user = User::new();
    let script = "printf '\\033]9;4;3;\\007'; read -r line; sleep 5; \
        \"$AGENT_PRESENCE_BIN\" say marker; read -r line; printf '\\033]9;4;0;\\007'; read -r line";
    let (terminal, phone) = agent(&user, "unheard-of", script);
    wait_for_state(&phone, "working");
    terminal.type_bytes("go on\r");
    eventually("five quiet seconds", || {
        crate::user::chat(&phone).iter().any(|(_, text)| text == "marker")
    });
    assert_eq!(phone.pane("s")["state"], "working");
    assert_eq!(user.states().last().unwrap(), "working");
    terminal.type_bytes("\r");
    wait_for_state(&phone, "idle");
}

/// A dialog is one at any width; text that looks like one, above an input line, is none.
#[test]
fn the_width_does_not_matter_and_looks_do_not_count() {
    let dialog = "Do you want to proceed?\\n❯ 1. Yes\\n  2. No\\n\\nEsc to cancel · Tab to amend · ctrl+e to explain";
    let rule = "────────────────────";
    for columns in [24, 80, 200] {
        let user = User::new();
        let script = format!(
            "stty -echo -icanon; printf '{dialog}'; read -rn1; clear; \
             printf '{dialog}\\n\\n{rule}\\n❯ \\n{rule}\\n  ? for shortcuts'; read -rn1; printf done; read -rn1"
        );
        let program = user.program("claude", &format!("#!/bin/bash\n{script}\n"));
        let mut command = user.wrap(&["--", &program]);
        let terminal = Terminal::start_sized(&mut command, 30, columns);
        let phone = user.phone();
        eventually("a socket", || phone.socket().exists());
        phone.wait_ready();
        wait_for_state(&phone, "waiting");
        user.herdr.wait_for_state("blocked");
        terminal.type_bytes("x");
        wait_for_state(&phone, "idle");
        user.herdr.wait_for_state("idle");
        terminal.type_bytes("x");
        terminal.wait_for("done");
        assert_eq!(phone.pane("s")["state"], "idle", "{columns} columns");
    }
}

/// Of OSC 7501 the records of parts count, too: one that waits blocks the whole, whatever the root says.
#[test]
fn parts_of_an_agent_add_up() {
    let user = User::new();
    let report = |report: &str| format!("printf '\\033]7501;{report}\\033\\\\'; read -rn1");
    let script = [
        "stty -echo -icanon",
        &report("state=working:app=unheard-of"),
        &report("state=blocked:id=part/one:kind=permission"),
        &report("state=idle"),
        &report("state=clear:id=part"),
        &report("state=error:msg=bm8="),
        &report("state=working:id=other"),
        &report("state=clear"),
    ];
    let (mut terminal, phone) = agent(&user, "unheard-of", &script.join("; "));
    for state in ["working", "waiting", "waiting", "idle", "idle", "idle", "idle"] {
        wait_for_state(&phone, state);
        terminal.type_bytes("x");
    }
    assert_eq!(terminal.wait().code(), Some(0));
}

/// Its own reports are better than all that its screen shows.
#[test]
fn reports_are_trusted_more_than_the_screen() {
    let user = User::new();
    let script = "stty -echo -icanon; printf '\\033]7501;state=working\\033\\\\'; sleep 0.2; \
                  printf '\\033]0;\\342\\234\\263 Claude\\007Esc to cancel'; read -rn1; \
                  printf '\\033]7501;state=done\\007'; read -rn1";
    let (mut terminal, phone) = agent(&user, "claude", script);
    wait_for_state(&phone, "working");
    terminal.wait_for("Esc to cancel");
    terminal.type_bytes("x");
    wait_for_state(&phone, "idle");
    terminal.type_bytes("x");
    assert_eq!(terminal.wait().code(), Some(0));
    eventually("the release", || !user.herdr.requests_of("pane.release_agent").is_empty());
    assert!(!user.states().contains(&"blocked".to_owned()), "{:?}", user.states());
}

/// A flood is not looked at line by line, and what comes after it is.
#[test]
fn a_flood_does_not_blind() {
    let user = User::new();
    let script = "stty -echo -icanon; head -c 1500000 /dev/zero | tr '\\0' x; \
                  printf '\\033]9;4;3;\\007'; read -rn1";
    let (mut terminal, phone) = agent(&user, "unheard-of", script);
    // The terminal of the test emulates the flood as well, and takes its time.
    terminal.wait_for_bytes("\x1b]9;4;3;\x07");
    wait_for_state(&phone, "working");
    terminal.type_bytes("x");
    assert_eq!(terminal.wait().code(), Some(0));
}
