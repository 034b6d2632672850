//! What happens when one of our own processes is killed.

use std::fs;
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt as _;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::terminal::{Terminal, children, eventually, is_alive};
use crate::{shell, unguarded};

fn kill_hard(process: u32) {
    kill(Pid::from_raw(process.cast_signed()), Signal::SIGKILL).expect("the process is there");
}

/// A program that arms two modes and says its process id.
const ARMED: &str = "printf '\\033[?2004h\\033[?1003h'; echo $$; exec sleep 60";

fn start_armed() -> (Terminal, u32) {
    let terminal = Terminal::start(&mut shell(ARMED));
    terminal.wait_for_bytes("\n");
    let program = terminal.screen().trim().parse().expect("a process id");
    (terminal, program)
}

#[test]
fn the_relay_killed_gives_the_terminal_back_and_ends_the_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let (dead, live) = (folder.path().join("dead.sock"), folder.path().join("live.sock"));
    let (plain, missing) = (folder.path().join("plain"), folder.path().join("missing"));
    drop(UnixListener::bind(&dead).expect("a socket"));
    let _listener = UnixListener::bind(&live).expect("a socket");
    fs::write(&plain, "not a socket").expect("a file");
    let sockets = std::env::join_paths([&dead, &live, &plain, &missing]).expect("paths");

    let mut terminal = Terminal::start(shell(ARMED).env("WRAP_PROBE_GUARD", sockets));
    terminal.wait_for_bytes("\n");
    let program: u32 = terminal.screen().trim().parse().expect("a process id");
    kill_hard(children(terminal.pid())[0]);
    assert_eq!(terminal.wait().signal(), Some(9));
    assert_eq!(terminal.modes(), terminal.before);
    assert!(terminal.bytes().ends_with(b"\x1b[?1003l\x1b[?2004l"));
    eventually("the program's end", || !is_alive(program));
    assert!(!dead.exists(), "nobody answers on it");
    assert!(live.exists() && plain.exists(), "not ours to remove");
}

#[test]
fn the_guardian_killed_ends_the_rest_and_gives_the_terminal_back() {
    let (mut terminal, program) = start_armed();
    let relay = children(terminal.pid())[0];
    kill_hard(terminal.pid());
    assert_eq!(terminal.wait().signal(), Some(9));
    eventually("the end of all", || !is_alive(relay) && !is_alive(program));
    assert!(terminal.modes().is_cooked());
}

#[test]
fn the_leader_killed_ends_the_program_and_gives_the_terminal_back() {
    let (mut terminal, program) = start_armed();
    let relay = children(terminal.pid())[0];
    let leader = children(relay)[0];
    assert_ne!(leader, program);
    kill_hard(leader);
    assert_eq!(terminal.wait().signal(), Some(9));
    eventually("the program's end", || !is_alive(program));
    assert!(terminal.modes().is_cooked());
}

#[test]
fn without_a_guardian_what_can_be_caught_gives_the_terminal_back() {
    for signal in [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGABRT, Signal::SIGFPE, Signal::SIGILL]
    {
        let mut command = unguarded();
        let mut terminal = Terminal::start(command.args(["sh", "-c", "printf ready; read line"]));
        terminal.wait_for("ready");
        terminal.signal(signal);
        assert_eq!(terminal.wait().signal(), Some(signal as i32));
        assert_eq!(terminal.modes(), terminal.before, "{signal}");
    }
}

#[test]
fn with_a_guardian_a_crash_gives_the_terminal_back() {
    for signal in [Signal::SIGSEGV, Signal::SIGABRT] {
        let (mut terminal, _) = start_armed();
        let relay = children(terminal.pid())[0];
        kill(Pid::from_raw(relay.cast_signed()), signal).expect("the relay is there");
        assert_eq!(terminal.wait().signal(), Some(signal as i32));
        assert!(terminal.modes().is_cooked());
    }
}
