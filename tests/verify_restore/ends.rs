//! However it ends, nothing is left.

use super::*;
use nix::sys::signal::Signal;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use support::terminal::Terminal;

#[test]
fn no_herdr_is_a_code_of_its_own() {
    let author = Author::new();
    let mut command = author.herdr.command(PROGRAM);
    command.args(["verify-restore", "--", "my-agent"]).env("PATH", author.herdr.bin());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("no `herdr` on PATH"), "{output:?}");

    let mut command = author.herdr.command(PROGRAM);
    command.args(["verify-restore", "--herdr", "/nope/herdr", "--", "my-agent"]);
    assert_eq!(command.output().unwrap().status.code(), Some(3));
}

#[test]
fn what_makes_no_sense_is_a_usage_error() {
    let author = Author::new();
    for words in [
        &["--session", "a/b", "--", "my-agent"][..],
        &["--", "my-agent", "two\nlines"],
        &["--dry-run", "--session", "a", "--", "my-agent"],
        &[],
    ] {
        let output = author.command(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
    }
}

/// The test is in the middle of a wait when it is interrupted.
fn interrupted(words: &[&str], end: impl FnOnce(&Terminal)) -> (Author, Terminal) {
    let author = Author::new();
    author.agent("my-agent", "exec cat");
    let mut terminal = Terminal::start(&mut author.command(words));
    eventually("the agent", || author.lines("pids").len() >= 3);
    end(&terminal);
    terminal.wait();
    (author, terminal)
}

#[test]
fn ctrl_c_cleans_up() {
    let (author, mut terminal) =
        interrupted(&["--", "my-agent"], |terminal| terminal.type_bytes("\u{3}"));
    assert_eq!(terminal.wait().signal(), Some(Signal::SIGINT as i32), "{}", terminal.screen());
    author.assert_clean();
}

#[test]
fn a_terminate_and_a_hang_up_clean_up_in_the_users_own_folders() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP] {
        let (author, mut terminal) =
            interrupted(&["--here", "--", "my-agent"], |terminal| terminal.signal(signal));
        assert_eq!(terminal.wait().signal(), Some(signal as i32), "{}", terminal.screen());
        author.assert_clean();
    }
}

#[test]
fn a_server_that_cannot_be_stopped_is_ended() {
    let author = Author::new();
    author.agent("my-agent", &format!("trap '' HUP TERM INT\n{REPORT}\nwhile :; do sleep 1; done"));
    let herdr = author.herdr.bin().join("herdr");
    let script = format!(
        "#!/bin/sh\n[ \"$1 $2\" = \"session stop\" ] && {{ echo 'cannot' >&2; exit 1; }}\n\
         exec {} \"$@\"\n",
        restoring_herdr::PROGRAM
    );
    write_program(&herdr, &script);
    let mut command = author.herdr.command(PROGRAM);
    command.args(["verify-restore", "--here", "--json", "--herdr"]).arg(herdr);
    let verdict = Verdict::of(command.args(["--", "my-agent"]).output().unwrap());
    verdict.assert_failed("stop", "`herdr session stop` failed: cannot");
    author.assert_clean();
    assert_eq!(String::from_utf8_lossy(&verdict.output.stderr), "", "nothing is left behind");
}

#[test]
fn a_program_that_is_not_herdr_fails_at_once() {
    let author = Author::new();
    let mut command = author.herdr.command(PROGRAM);
    command.args(["verify-restore", "--json", "--herdr", "/bin/true", "--", "my-agent"]);
    let verdict = Verdict::of(command.stdin(Stdio::null()).output().unwrap());
    verdict.assert_failed("name", "no list of sessions");
}
