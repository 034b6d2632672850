//! The relay against real programs: what a person at the terminal, and who waits for the command, sees.

#![expect(clippy::expect_used, reason = "a test that cannot go on says where")]

#[path = "wrap_pty/bytes.rs"]
mod bytes;
#[path = "wrap_pty/ends.rs"]
mod ends;
#[path = "wrap_pty/guardian.rs"]
mod guardian;
#[path = "wrap_pty/jobs.rs"]
mod jobs;
#[path = "wrap_pty/signals.rs"]
mod signals;
#[path = "wrap_pty/surroundings.rs"]
mod surroundings;
#[path = "support/terminal.rs"]
mod terminal;

use std::process::Command;

/// The relay below a guardian, as the command runs it.
fn probe() -> Command {
    let mut command = unguarded();
    command.env("WRAP_PROBE_GUARD", "");
    command
}

/// The relay alone.
fn unguarded() -> Command {
    Command::new(env!("CARGO_BIN_EXE_wrap-probe"))
}

/// `wrap-probe sh -c SCRIPT`.
fn shell(script: &str) -> Command {
    let mut command = probe();
    command.args(["sh", "-c", script]);
    command
}

/// `cat`, up and running: it does nothing about any signal. (A shell's handlers come and go: a SIGINT
/// between two of its commands can pass unseen.)
fn start_cat(mut command: Command) -> terminal::Terminal {
    let terminal = terminal::Terminal::start(command.arg("cat"));
    terminal.wait_for_modes("raw", terminal::Modes::is_raw);
    terminal.type_bytes("ready\r");
    terminal.wait_for("ready\nready");
    terminal
}

/// How often to repeat what has to hold every time: `WRAP_RUNS`, or a few times.
fn runs() -> usize {
    std::env::var("WRAP_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(50)
}
