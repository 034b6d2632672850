//! What the person at the terminal has of it.

use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::Signal;

use crate::support::terminal::{Modes, Terminal, eventually};
use crate::user::{User, wait_for_state};
use crate::{files, processes};

/// A shell with job control, in which `wrapped` stands for the command.
fn shell(user: &User) -> Terminal {
    let wrap = user.wrap(&["--"]);
    let program = std::iter::once(wrap.get_program()).chain(wrap.get_args());
    let words: Vec<&str> = program.map(|word| word.to_str().unwrap()).collect();
    let mut command = Command::new("bash");
    command.env_clear().args(["--norc", "--noprofile", "-i"]).env("PS1", "outside> ");
    for (name, value) in wrap.get_envs() {
        command.env(name, value.unwrap());
    }
    let terminal = Terminal::start_sized(command.env("HISTFILE", ""), 40, 100);
    terminal.wait_for("outside>");
    terminal
        .type_bytes(format!("wrapped() {{ {} \"$@\"; }}; clear; echo se''t\r", words.join(" ")));
    terminal.wait_for("set\noutside>");
    terminal
}

/// Ctrl-Z froze the terminal, or stopped the wrapper and not the agent.
#[test]
fn ctrl_z_and_fg_as_without_a_wrapper() {
    let user = User::new();
    let mut terminal = shell(&user);
    terminal.type_bytes("wrapped cat\r");
    terminal.wait_for_modes("raw", Modes::is_raw);
    for round in 1..=3 {
        terminal.type_bytes(format!("round {round}\r"));
        terminal.wait_for(&format!("round {round}\nround {round}"));
        terminal.type_bytes("\x1a");
        terminal.wait_for_count_of("Stopped", round);
        terminal.wait_for_modes("a shell's", |modes| !modes.is_raw());
        terminal.type_bytes("fg\r");
        terminal.wait_for_modes("raw", Modes::is_raw);
    }
    terminal.type_bytes("\x04");
    terminal.wait_for_modes("a shell's", |modes| !modes.is_raw());
    terminal.type_bytes("echo code $?\r");
    terminal.wait_for("code 0");
    terminal.type_bytes("exit\r");
    assert_eq!(terminal.wait().code(), Some(0));
    assert_eq!(files(&user.path("run")), Vec::<PathBuf>::new());
}

/// A program that stops itself could not be continued.
#[test]
fn an_agent_that_stops_itself_is_continued_with_fg() {
    let user = User::new();
    let mut terminal = shell(&user);
    terminal.type_bytes("wrapped sh -c 'kill -STOP $$; echo ba''ck'\r");
    terminal.wait_for_count_of("Stopped", 1);
    terminal.type_bytes("fg\r");
    terminal.wait_for("back\noutside>");
    terminal.type_bytes("exit\r");
    assert_eq!(terminal.wait().code(), Some(0));
    eventually("the end of all", || processes(&user).is_empty());
}

/// The keys of job control are the inner shell's: the outer one stopped instead.
#[test]
fn jobs_of_a_wrapped_shell_stop_and_continue_inside() {
    let user = User::new();
    let shell = ["--", "bash", "--norc", "--noprofile", "-i"];
    let mut command = user.wrap(&shell);
    let mut terminal =
        Terminal::start_sized(command.env("PS1", "inside $?> ").env("HISTFILE", ""), 40, 100);
    terminal.wait_for("inside 0>");
    // It starts nothing while it runs: a shell that is stopped in the middle of a vfork waits for ever.
    let job = "sh -c 'sleep 60 & trap \"echo go''ne-on\" CONT; echo be''gun; wait; wait'\r";
    terminal.type_bytes(job);
    terminal.wait_for("begun");
    terminal.type_bytes("\x1a");
    terminal.wait_for("inside 148>");
    terminal.type_bytes("fg\r");
    // Bash names the job before that has the terminal, and continues it after.
    terminal.wait_for("gone-on");
    terminal.type_bytes("\x03");
    terminal.wait_for("inside 130>");
    terminal.type_bytes("exit 5\r");
    assert_eq!(terminal.wait().code(), Some(5));
}

/// The size was lost on the way, or the last of many changes was. The phone has no way to change it.
#[test]
fn the_last_size_of_a_storm_arrives_while_the_phone_looks() {
    let user = User::new();
    // Not bash's `read -t`: a trap in the middle of it can hang it, wrapped or not.
    let script =
        "trap 'stty size' WINCH; trap 'exit 0' TERM; echo up; while :; do sleep 0.02; done";
    let (mut terminal, phone) = user.start(&["--", "sh", "-c", script]);
    terminal.wait_for("up");
    for step in 1..=500_u16 {
        terminal.resize(20 + step % 40, 80 + step % 70, 0, 0);
        if step % 100 == 0 {
            wait_for_state(&phone, "idle");
        }
    }
    terminal.resize(33, 101, 0, 0);
    terminal.wait_for_bytes("33 101");
    terminal.signal(Signal::SIGTERM);
    assert_eq!(terminal.wait().code(), Some(0));
}

/// A killed agent left the mouse and the keyboard in its own modes; an outside process alone can undo them.
#[test]
fn a_killed_agent_leaves_no_mode_armed() {
    let user = User::new();
    let arm = "\\033[?1049h\\033[?1000h\\033[?1002h\\033[?1003h\\033[?1006h\\033[?1004h\\033[?2004h\
               \\033[?25l\\033[>7u\\033[>4;2m";
    let script = format!("printf '{arm}'; kill -9 $$");
    let mut terminal = Terminal::start(&mut user.wrap(&["--", "sh", "-c", &script]));
    terminal.wait();
    let bytes = terminal.bytes();
    for undo in [
        "\x1b[?1000l",
        "\x1b[?1002l",
        "\x1b[?1003l",
        "\x1b[?1006l",
        "\x1b[?1004l",
        "\x1b[?2004l",
        "\x1b[?25h",
        "\x1b[?1049l",
        "\x1b[<1u",
        "\x1b[>4;0m",
    ] {
        let found = memchr::memmem::find_iter(&bytes, undo).count();
        assert_eq!(found, 1, "{:?} in {}", undo, bytes.escape_ascii());
    }
    assert_eq!(terminal.modes(), terminal.before);
}

/// A terminal that takes nothing for a while (Ctrl-S, a slow connection) stopped the whole wrapper: nobody
/// could be told, and nothing be answered.
#[test]
fn a_stopped_terminal_stops_neither_reports_nor_answers() {
    let user = User::new();
    // The report comes from a process of its own: the agent itself is stuck in its output.
    let script = "(read -r line <\"$HOME/go\"; \"$AGENT_PRESENCE_BIN\" state working; \
                  \"$AGENT_PRESENCE_BIN\" approve deploy; echo $? >\"$HOME/decided\") & \
                  echo up; exec yes";
    let go = user.path("go");
    nix::unistd::mkfifo(&go, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let (mut terminal, phone) = user.start(&["--", "bash", "-c", script]);
    terminal.wait_for_count(100_000);
    terminal.pause(true);
    std::fs::write(&go, "go\n").unwrap();
    let (pane, ask) = phone.wait_for_ask();
    user.herdr.wait_for_state("blocked");
    let allow = serde_json::json!({"optionIds": ["allow"]});
    let answer = phone.answer(&pane, ask["id"].as_str().unwrap(), &allow);
    assert_eq!(answer.status, 200, "{answer:?}");
    eventually("the decision", || {
        std::fs::read_to_string(user.path("decided")).is_ok_and(|code| code == "0\n")
    });
    terminal.pause(false);
    terminal.type_bytes("\x03");
    terminal.wait();
}
