//! How a wrapped command ends, and what is left of it.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::terminal::{Terminal, children, eventually};
use crate::user::{User, wait_for_state};
use crate::{files, processes};

/// How often to repeat what has to hold every time: `WRAP_RUNS`, or a few times. scripts/wrap-runs sets it.
fn runs() -> usize {
    std::env::var("WRAP_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(10)
}

fn assert_nothing_is_left(user: &User, what: &str) {
    eventually("the end of all processes", || processes(user).is_empty());
    assert_eq!(
        files(&user.path("run")),
        Vec::<PathBuf>::new(),
        "{what}: a socket or a lock is left"
    );
}

/// Wrappers that ended at the end of the output, or at the end of the child, lost one or the other in a few
/// of many runs.
#[test]
fn every_run_of_a_short_command_gives_its_bytes_and_its_code() {
    let user = User::new();
    for run in 0..runs() {
        let mut terminal = Terminal::start(&mut user.wrap(&["--", "printf", "x"]));
        let status = terminal.wait();
        assert_eq!((status.code(), terminal.bytes().as_slice()), (Some(0), &b"x"[..]), "run {run}");
        assert_eq!(terminal.modes(), terminal.before, "run {run}");
        assert_nothing_is_left(&user, "printf");
    }
}

/// An agent that was killed had exit code 1, or 137, or none at all.
#[test]
fn every_run_of_a_killed_command_is_killed_too() {
    let user = User::new();
    for run in 0..runs() {
        let mut terminal = Terminal::start(&mut user.wrap(&["--", "sh", "-c", "kill -9 $$"]));
        let status = terminal.wait();
        assert_eq!(
            (status.signal(), terminal.bytes().as_slice()),
            (Some(9), &b""[..]),
            "run {run}"
        );
        assert_eq!(terminal.modes(), terminal.before, "run {run}");
        assert_nothing_is_left(&user, "kill");
    }
}

/// A closed terminal left agents behind, hundreds of them in a day, some because they ignored the hang-up.
#[test]
fn five_seconds_after_the_terminal_closed_nothing_is_left() {
    for (what, script) in [
        ("an agent that does nothing about it", "echo up; exec sleep 600"),
        ("one that ignores it", "trap '' HUP; echo up; while :; do sleep 0.2; done"),
        (
            "one that ignores everything",
            "trap '' HUP TERM INT; echo up; while :; do sleep 0.2; done",
        ),
        ("one that works in a tree", "sh -c 'sleep 600 & sleep 600' & sleep 600 & echo up; wait"),
        ("one that reads", "echo up; exec cat"),
    ] {
        let user = User::new();
        let (terminal, _) = user.start(&["--", "sh", "-c", script]);
        terminal.wait_for("up");
        user.herdr.wait_for_state("idle");
        assert!(processes(&user).len() >= 4, "the guardian, the relay, the leader and the agent");
        let began = Instant::now();
        terminal.close();
        assert_nothing_is_left(&user, what);
        // 5 s; the rest is for a busy machine.
        assert!(began.elapsed() < Duration::from_secs(10), "{what}: {:?}", began.elapsed());
        assert_eq!(user.herdr.requests_of("pane.release_agent").len(), 0, "it is to come back");
    }
}

/// `kill -9` of the wrapper itself, on which nobody had a word to say. Whichever of our processes it is: the
/// terminal is given back, the agent ends as below a closed terminal, and the socket is gone.
#[test]
fn each_of_our_processes_can_be_killed() {
    for victim in ["guardian", "relay", "leader"] {
        let user = User::new();
        let script = "printf '\\033[?1003h\\033[?2004h'; echo up; exec sleep 600";
        let (mut terminal, _) = user.start(&["--", "sh", "-c", script]);
        terminal.wait_for("up");
        let relay = children(terminal.pid())[0];
        let leader = children(relay)[0];
        let process = match victim {
            "guardian" => terminal.pid(),
            "relay" => relay,
            _ => leader,
        };
        kill(Pid::from_raw(process.cast_signed()), Signal::SIGKILL).unwrap();
        assert_eq!(terminal.wait().signal(), Some(9), "{victim}");
        assert_nothing_is_left(&user, victim);
        eventually("a terminal as before", || terminal.modes() == terminal.before);
        eventually("modes undone", || {
            let bytes = terminal.bytes();
            let has = |text: &[u8]| memchr::memmem::find(&bytes, text).is_some();
            has(b"\x1b[?1003l") && has(b"\x1b[?2004l")
        });
    }
}

/// A wrapper waited for a standard input that stayed open.
#[test]
fn a_pipe_that_stays_open_is_not_waited_for() {
    let user = User::new();
    let mut command = user.wrap(&["--", "true"]);
    let mut input = Command::new("sleep").arg("100").stdout(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    let status =
        command.stdin(input.stdout.take().unwrap()).stdout(Stdio::null()).status().unwrap();
    assert!(status.success() && began.elapsed() < Duration::from_secs(50), "{:?}", began.elapsed());
    input.kill().unwrap();
    input.wait().unwrap();
    assert_nothing_is_left(&user, "a pipe");
}

/// An agent that quits at Ctrl-C has no time for its last hook: the pane stayed working, and unreleased.
#[test]
fn a_quit_in_a_turn_needs_no_hook() {
    let user = User::new();
    let script = "stty -isig; \"$AGENT_PRESENCE_BIN\" state working; echo up; dd bs=1 count=1 >/dev/null 2>&1";
    let (mut terminal, phone) = user.start(&["--", "sh", "-c", script]);
    wait_for_state(&phone, "working");
    terminal.wait_for("up");
    terminal.type_bytes("\x03");
    // The line discipline is told no signal and gives no byte before the line's end.
    terminal.type_bytes("\r");
    assert_eq!(terminal.wait().code(), Some(0));
    assert_eq!(user.herdr.requests_of("pane.release_agent").len(), 1);
    assert_eq!(processes(&user), [0; 0]);
}

/// Working stayed for ever after a crash, whether the agent killed itself or something else did.
#[test]
fn a_crash_in_a_turn_ends_the_turn() {
    let reports = "printf '\\033]7501;state=working\\007'";
    let hooks = "\"$AGENT_PRESENCE_BIN\" state working";
    for (says, dies) in [(reports, "kill -9 $$"), (hooks, "kill -9 $$"), (hooks, "exec sleep 600")]
    {
        let user = User::new();
        let script = format!("{says}; echo pid=$$.; read -r line; {dies}");
        let (mut terminal, phone) = user.start(&["--", "bash", "-c", &script]);
        wait_for_state(&phone, "working");
        user.herdr.wait_for_state("working");
        terminal.wait_for("pid=");
        let screen = terminal.screen();
        let pid: i32 = screen.split(['=', '.']).nth(1).unwrap().parse().unwrap();
        terminal.type_bytes("\r");
        if dies.starts_with("exec") {
            kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        }
        assert_eq!(terminal.wait().signal(), Some(9));
        assert_eq!(user.states().last().map(String::as_str), Some("idle"));
        assert_eq!(user.herdr.requests_of("pane.release_agent").len(), 0, "it can be resumed");
        assert_nothing_is_left(&user, "a crash");
    }
}

/// Bytes of every kind, among them sequences without an end: what comes is what went. scripts/wrap-runs does it
/// with 200 MB.
#[test]
fn a_megabyte_of_noise_comes_out_as_it_went_in() {
    let user = User::new();
    let file = user.path("noise");
    let copy = format!("head -c 1000000 /dev/urandom >{}", file.display());
    assert!(Command::new("sh").args(["-c", &copy]).status().unwrap().success());
    let script = format!("stty raw; cat {}", file.display());
    let mut terminal = Terminal::start(&mut user.wrap(&["--", "sh", "-c", &script]));
    assert_eq!(terminal.wait().code(), Some(0));
    let sent = fs::read(&file).unwrap();
    assert!(terminal.bytes() == sent, "{} bytes came", terminal.count());
}
