//! Job control: stopped and continued with the program, below a shell and without one.

use std::fs;
use std::process::Command;

use nix::sys::signal::Signal;

use crate::shell;
use crate::terminal::{Modes, Terminal, eventually, is_alive};

/// An interactive shell, in which `wrap` stands for the relay.
fn outer_shell() -> Terminal {
    let mut command = Command::new("bash");
    command.args(["--norc", "--noprofile", "-i"]).env("PS1", "outside> ").env("HISTFILE", "");
    let terminal = Terminal::start_sized(&mut command, 40, 100);
    terminal.wait_for("outside>");
    let wrap = env!("CARGO_BIN_EXE_wrap-probe");
    terminal
        .type_bytes(format!("wrap() {{ WRAP_PROBE_GUARD= {wrap} \"$@\"; }}; clear; echo se''t\r"));
    terminal.wait_for("set\noutside>");
    terminal
}

fn leave(mut terminal: Terminal) {
    terminal.type_bytes("exit 0\r");
    assert_eq!(terminal.wait().code(), Some(0));
}

#[test]
fn ctrl_z_stops_the_program_and_fg_goes_on() {
    let terminal = outer_shell();
    terminal.type_bytes("wrap cat\r");
    terminal.wait_for_modes("raw", Modes::is_raw);
    terminal.type_bytes("first\r");
    terminal.wait_for("first\nfirst");
    for round in 1..=3 {
        terminal.type_bytes("\x1a");
        terminal.wait_for_modes("a shell's", |modes| !modes.is_raw());
        terminal.type_bytes(format!("echo code $? round {round}\r"));
        terminal.wait_for(&format!("code 148 round {round}"));
        terminal.type_bytes("fg\r");
        terminal.wait_for_modes("raw", Modes::is_raw);
        terminal.type_bytes(format!("round {round}\r"));
        terminal.wait_for_bytes(format!("round {round}\r\nround {round}\r\n"));
    }
    terminal.type_bytes("\x04");
    terminal.wait_for_modes("a shell's", |modes| !modes.is_raw());
    terminal.type_bytes("echo code $? end\r");
    terminal.wait_for("code 0 end");
    leave(terminal);
}

#[test]
fn a_program_that_stops_itself_is_stopped_for_the_shell() {
    for signal in ["STOP", "TSTP"] {
        let terminal = outer_shell();
        terminal.type_bytes(format!("wrap sh -c 'kill -{signal} $$; echo ba''ck'\r"));
        terminal.wait_for("Stopped");
        terminal.type_bytes("fg\r");
        terminal.wait_for("back\noutside>");
        leave(terminal);
    }
}

#[test]
fn the_tap_is_told_and_the_size_of_meanwhile_is_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let terminal = outer_shell();
    terminal.type_bytes(format!("export WRAP_PROBE_LOG={}\r", log.display()));
    terminal.type_bytes("wrap sh -c 'echo be''gun; kill -STOP $$; stty size'\r");
    terminal.wait_for("begun");
    terminal.wait_for_bytes("Stopped");
    terminal.resize(30, 77, 0, 0);
    terminal.type_bytes("fg\r");
    terminal.wait_for("30 77\noutside>");
    let log = fs::read_to_string(&log).expect("a log");
    let told: Vec<&str> = log.lines().filter(|line| line.ends_with("ed")).collect();
    assert_eq!(told, ["suspended", "resumed"], "{log}");
    leave(terminal);
}

#[test]
fn jobs_of_a_shell_inside_are_its_own_business() {
    let terminal = outer_shell();
    terminal.type_bytes("PS1='in''side> ' wrap bash --norc --noprofile -i\r");
    terminal.wait_for("inside>");
    terminal.type_bytes("sh -c 'echo be''gun; exec sleep 60'\r");
    terminal.wait_for("begun");
    terminal.type_bytes("\x1a");
    terminal.wait_for("Stopped");
    // The inner shell does not leave a stopped job at the first word.
    terminal.type_bytes("exit 3\r");
    terminal.wait_for("There are stopped jobs");
    terminal.type_bytes("exit 3\r");
    terminal.wait_for_bytes("exit\r\n\x1b[?2004houtside>");
    terminal.type_bytes("echo code $?\r");
    terminal.wait_for("code 3");
    leave(terminal);
}

#[test]
fn without_a_shell_above_a_stop_is_let_pass_as_the_kernel_does() {
    let mut terminal = Terminal::start(&mut shell("kill -TSTP $$; echo back; exit 2"));
    assert_eq!(terminal.wait().code(), Some(2));
    assert_eq!(terminal.bytes(), b"back\r\n");
}

#[test]
fn in_the_background_it_shows_output_and_takes_no_keys() {
    let terminal = outer_shell();
    terminal.type_bytes("wrap sh -c 'echo be''hind; read line; echo \"got $line\"' &\r");
    terminal.wait_for("behind");
    terminal.type_bytes("echo for the sh''ell\r");
    terminal.wait_for("for the shell");
    terminal.type_bytes("fg\r");
    terminal.wait_for_modes("raw", Modes::is_raw);
    terminal.type_bytes("for the program\r");
    terminal.wait_for("got for the program\noutside>");
    leave(terminal);
}

#[test]
fn background_jobs_of_the_program_outlive_it() {
    for script in ["sleep 60 & echo $!; exit 0", "nohup sleep 60 >/dev/null 2>&1 & echo $!; exit 0"]
    {
        let mut terminal = Terminal::start(&mut shell(script));
        assert_eq!(terminal.wait().code(), Some(0));
        let job: u32 = terminal.screen().trim().parse().expect("a process id");
        assert!(is_alive(job), "{script}");
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(job.cast_signed()), Signal::SIGKILL)
            .expect("it is there");
    }
}

#[test]
fn what_the_program_leaves_behind_is_reaped_meanwhile() {
    let script = "for n in 1 2 3; do (sh -c 'echo $$; exit 1' &); done; read line";
    let mut terminal = Terminal::start(&mut shell(script));
    terminal.wait_for_modes("raw", Modes::is_raw);
    eventually("three process ids", || terminal.screen().lines().count() == 3);
    for line in terminal.screen().lines() {
        eventually("no zombie", || !fs::exists(format!("/proc/{}", line.trim())).unwrap_or(true));
    }
    terminal.type_bytes("\r");
    assert!(terminal.wait().success());
}

#[test]
fn without_a_pty_the_shell_stops_and_continues_it_too() {
    let terminal = outer_shell();
    terminal.type_bytes("wrap cat | cat\r");
    terminal.wait_for_modes("a program's", Modes::is_cooked);
    terminal.type_bytes("first\r");
    terminal.wait_for("first\nfirst");
    for round in 1..=2 {
        terminal.type_bytes("\x1a");
        terminal.wait_for_count_of("Stopped", round);
        // The kernel drops what is typed together with a Ctrl-Z of its own, even a little after it.
        let prompts = terminal.count_of("outside>") + 2;
        eventually("a shell that listens", || {
            terminal.type_bytes("\r");
            terminal.count_of("outside>") > prompts
        });
        // Between two prompts, too, the terminal is cooked for a moment: `fg` says which job goes on.
        let named = terminal.count_of("wrap cat | cat");
        terminal.type_bytes("fg\r");
        terminal.wait_for_count_of("wrap cat | cat", named + 1);
        terminal.wait_for_modes("a program's", Modes::is_cooked);
        terminal.type_bytes(format!("round {round}\r"));
        // The echo and the answer. A Return that was typed at a prompt may have come through as well.
        terminal.wait_for_count_of(&format!("round {round}\r\n"), 2);
    }
    terminal.type_bytes("\x04");
    terminal.wait_for("round 2\noutside>");
    leave(terminal);
}

#[test]
fn a_script_round_it_stops_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("script");
    let probe = env!("CARGO_BIN_EXE_wrap-probe");
    fs::write(&script, format!("WRAP_PROBE_GUARD= {probe} cat\necho script goes on\n"))
        .expect("a file");
    let terminal = outer_shell();
    terminal.type_bytes(format!("sh {}\r", script.display()));
    terminal.wait_for_modes("raw", Modes::is_raw);
    for round in 1..=3 {
        terminal.type_bytes("\x1a");
        terminal.wait_for_count_of("Stopped", round);
        terminal.wait_for_modes("a shell's", |modes| !modes.is_cooked() && !modes.is_raw());
        terminal.type_bytes("fg\r");
        terminal.wait_for_modes("raw", Modes::is_raw);
        terminal.type_bytes(format!("round {round}\r"));
        terminal.wait_for(&format!("round {round}\nround {round}"));
    }
    terminal.type_bytes("\x04");
    terminal.wait_for("script goes on\noutside>");
    leave(terminal);
}
