//! Signals that come to the command.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::terminal::{Terminal, eventually, is_alive};
use crate::{probe, shell, start_cat, unguarded};

/// Counts each signal, and ends by itself on SIGTERM with the count as its exit code.
const COUNTS: &str = "count=0; trap 'count=$((count+1)); echo \"signal $count\"' INT USR1 USR2 HUP QUIT; \
    trap 'exit $count' TERM; printf ready; while :; do sleep 0.02; done";

#[test]
fn a_signal_reaches_the_program_and_once() {
    for signal in [Signal::SIGINT, Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGQUIT] {
        for mut command in [probe(), unguarded()] {
            let mut terminal = Terminal::start(command.args(["sh", "-c", COUNTS]));
            terminal.wait_for("ready");
            terminal.signal(signal);
            terminal.wait_for("signal 1");
            terminal.signal(Signal::SIGTERM);
            assert_eq!(terminal.wait().code(), Some(1), "{signal}");
            assert!(terminal.modes().is_cooked());
        }
    }
}

#[test]
fn a_signal_to_the_whole_process_group_is_one_signal() {
    let mut terminal = Terminal::start(&mut shell(COUNTS));
    terminal.wait_for("ready");
    let group = Pid::from_raw(terminal.pid().cast_signed());
    killpg(group, Signal::SIGINT).expect("the group is there");
    terminal.wait_for("signal 1");
    killpg(group, Signal::SIGTERM).expect("the group is there");
    assert_eq!(terminal.wait().code(), Some(1));
}

#[test]
fn a_program_that_dies_of_a_signal_is_seen_to() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT] {
        for command in [probe(), unguarded()] {
            let mut terminal = start_cat(command);
            terminal.signal(signal);
            assert_eq!(terminal.wait().signal(), Some(signal as i32));
            assert_eq!(terminal.modes(), terminal.before, "{signal}");
        }
    }
}

#[test]
fn who_asked_for_the_end_is_told() {
    for (signal, name) in [(Signal::SIGTERM, "Terminate"), (Signal::SIGHUP, "HangUp")] {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        let mut command = probe();
        command.env("WRAP_PROBE_LOG", &log);
        let mut terminal = start_cat(command);
        terminal.signal(signal);
        terminal.wait();
        let log = fs::read_to_string(log).expect("a log");
        assert!(log.contains(&format!("ended_by: Some({name})")), "{log}");
    }
}

#[test]
fn a_signal_that_was_ignored_stays_ignored() {
    let script = format!(
        "trap '' HUP; WRAP_PROBE_GUARD= exec {} sh -c 'printf ready; read line; exit 6'",
        env!("CARGO_BIN_EXE_wrap-probe")
    );
    let mut terminal = Terminal::start(Command::new("sh").args(["-c", &script]));
    terminal.wait_for("ready");
    terminal.signal(Signal::SIGHUP);
    terminal.type_bytes("\r");
    assert_eq!(terminal.wait().code(), Some(6));
}

#[test]
fn without_a_pty_signals_pass_too() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGUSR1] {
        let mut command = probe();
        command.arg("cat").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it runs");
        let (mut stdin, mut stdout) =
            (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        let mut byte = [0];
        stdin.write_all(b"x").expect("it reads");
        stdout.read_exact(&mut byte).expect("it writes");
        let pid = Pid::from_raw(child.id().cast_signed());
        nix::sys::signal::kill(pid, signal).expect("it is there");
        assert_eq!(child.wait().expect("it ends").signal(), Some(signal as i32));
    }
}

#[test]
fn a_closed_terminal_leaves_nothing_behind() {
    for (what, script) in [
        ("ordinary", "echo $$; sleep 60"),
        ("stubborn", "trap '' HUP TERM; echo $$; while :; do sleep 0.1; done"),
        ("a tree", "sleep 60 & sh -c 'sleep 60' & echo $$; wait"),
    ] {
        let terminal = Terminal::start(&mut shell(script));
        terminal.wait_for_bytes("\n");
        let program: u32 = terminal.screen().trim().parse().expect("a process id");
        let session = terminal.pid();
        assert!(is_alive(program));
        terminal.close();
        eventually(what, || !is_alive(program) && crate::terminal::session_of(program).is_empty());
        assert!(!is_alive(session));
    }
}

#[test]
fn the_foreground_job_of_a_shell_inside_gets_the_interrupt() {
    let mut command = probe();
    command.args(["bash", "--norc", "--noprofile", "-i"]).env("HISTFILE", "");
    // The prompt says how the command before it ended.
    let mut terminal = Terminal::start(command.env("PS1", "inside $?> "));
    terminal.wait_for("inside 0>");
    let job = "trap 'exit 77' INT; echo be\"\"gun; while :; do sleep 0.02; done";
    terminal.type_bytes(format!("sh -c {job:?}\r"));
    terminal.wait_for("begun");
    terminal.signal(Signal::SIGINT);
    terminal.wait_for("inside 77>");
    terminal.type_bytes("exit 4\r");
    assert_eq!(terminal.wait().code(), Some(4));
}

#[test]
fn a_stopped_terminal_does_not_hold_up_an_end_that_was_asked_for() {
    let mut terminal = Terminal::start(probe().arg("yes"));
    terminal.wait_for_count(10_000);
    terminal.pause(true);
    terminal.signal(Signal::SIGTERM);
    eventually("the end", || terminal.has_ended());
    assert!(terminal.modes().is_cooked());
    terminal.pause(false);
    assert_eq!(terminal.wait().signal(), Some(15));
}

#[test]
fn a_program_that_is_to_outlive_its_terminal_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ready, over) = (folder.path().join("ready"), folder.path().join("over"));
    let script = format!(
        "trap '' HUP; WRAP_PROBE_GUARD= exec {} sh -c 'touch {}; while test -e {}; do sleep 0.02; done; touch {}'",
        env!("CARGO_BIN_EXE_wrap-probe"),
        ready.display(),
        ready.display(),
        over.display()
    );
    let terminal = Terminal::start(Command::new("sh").args(["-c", &script]));
    eventually("the program", || ready.exists());
    let closed = std::thread::spawn(move || terminal.close());
    // Longer than a program below a terminal that hangs up would have.
    let end = Instant::now() + Duration::from_millis(3500);
    eventually("the time", || Instant::now() > end);
    assert!(!over.exists());
    fs::remove_file(&ready).expect("the file is there");
    assert_eq!(closed.join().expect("it ends").code(), Some(0));
    assert!(over.exists());
}
