//! The relay against real programs: what a person at the terminal, and who waits for the command, sees.

#[path = "support/terminal.rs"]
mod terminal;

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use terminal::{Modes, Terminal};

fn probe() -> Command {
    Command::new(env!("CARGO_BIN_EXE_wrap-probe"))
}

/// `wrap-probe sh -c SCRIPT`.
fn shell(script: &str) -> Command {
    let mut command = probe();
    command.args(["sh", "-c", script]);
    command
}

#[test]
fn output_and_exit_code_pass() {
    let mut terminal = Terminal::start(&mut shell("printf hello; exit 7"));
    assert_eq!(terminal.wait().code(), Some(7));
    assert_eq!(terminal.bytes(), b"hello");
}

#[test]
fn death_by_signal_passes_as_that_signal() {
    for (name, number) in
        [("KILL", 9), ("TERM", 15), ("HUP", 1), ("INT", 2), ("QUIT", 3), ("SEGV", 11)]
    {
        let mut terminal = Terminal::start(&mut shell(&format!("kill -{name} $$")));
        let before = terminal.modes();
        let status = terminal.wait();
        assert_eq!(status.signal(), Some(number), "{name}");
        assert!(!status.core_dumped(), "{name}: the core is the program's");
        assert_eq!(terminal.modes(), before, "{name}");
    }
}

#[test]
fn without_a_terminal_there_is_no_pty() {
    let output = shell("cat; test -t 1; echo $?").stdin(Stdio::piped()).output().expect("it runs");
    assert_eq!(output.stdout, b"1\n");
    let status = probe().arg("true").stdin(Stdio::piped()).stdout(Stdio::null()).status();
    assert!(status.expect("it runs").success(), "an open pipe is not waited for");
}

#[test]
fn keys_reach_the_program_and_its_own_terminal_edits_them() {
    let mut terminal =
        Terminal::start(&mut shell("read line; echo \"got <$line>\"; cat; echo over"));
    terminal.wait_for_modes("raw", Modes::is_raw);
    terminal.type_bytes("a line\r");
    terminal.wait_for("got <a line>");
    terminal.type_bytes("\x04");
    assert_eq!(terminal.wait().code(), Some(0));
    assert!(terminal.screen().contains("over"), "{}", terminal.screen());
}

#[test]
fn the_terminal_is_raw_meanwhile_and_as_before_after() {
    let mut terminal = Terminal::start(&mut shell("printf ready; read line"));
    let before = terminal.modes();
    assert!(before.is_cooked());
    terminal.wait_for("ready");
    assert!(terminal.modes().is_raw());
    terminal.type_bytes("\r");
    terminal.wait();
    assert_eq!(terminal.modes(), before);
}

#[test]
fn the_program_has_the_size_and_follows_it() {
    let script = "trap 'stty size' WINCH; stty size; while :; do sleep 0.02; done";
    let terminal = Terminal::start_sized(&mut shell(script), 31, 97);
    terminal.wait_for("31 97");
    terminal.resize(40, 120, 960, 800);
    terminal.wait_for("40 120");
}
