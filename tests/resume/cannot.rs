//! What cannot come back says so in its pane, and stays there until a person has read it.

use std::fs;
use std::process::Stdio;

use crate::support::terminal::eventually;
use crate::user::{User, stop};

/// A session that is over, and the command that was reported for it.
fn reported(user: &User) -> Vec<String> {
    let wrap = ["--title", "Ship it", "--resume", "my-agent again", "--", "my-agent"];
    let terminal = user.start(&wrap);
    let command = user.wait_for_command();
    stop(terminal);
    user.restart_herdr();
    command
}

/// Types the command into a restored shell: it says `why`, waits for Enter, and exits with 1. Herdr hears
/// nothing of it.
fn says(user: &User, command: &[String], why: &str) {
    let before = user.herdr.requests().len();
    let terminal = user.restore(command);
    terminal.wait_for("press Enter to leave");
    assert!(terminal.screen().replace('\n', "").contains(why), "{}", terminal.screen());
    terminal.type_bytes("\r");
    terminal.wait_for_count_of("$ ", 2);
    terminal.type_bytes("echo exit=$?\r");
    terminal.wait_for("exit=1");
    assert_eq!(user.herdr.requests().len(), before);
}

/// Field case 45.
#[test]
fn the_folder_is_gone() {
    let user = User::new();
    let command = reported(&user);
    fs::remove_dir(user.path("work")).unwrap();
    says(&user, &command, "\"Ship it\" cannot come back: its folder ");
}

#[test]
fn the_command_is_gone() {
    let user = User::new();
    let command = reported(&user);
    fs::remove_file(user.path("bin/my-agent")).unwrap();
    says(&user, &command, "my-agent: command not found");
    // And is there again: nothing was lost.
    user.agent("my-agent");
    let _terminal = user.restore(&command);
    assert_eq!(user.wait_for_run(2).arguments, ["again"]);
    assert_eq!(user.wait_for_command(), command);
}

/// It is there, but what runs it is not: seen only when it is started.
#[test]
fn the_interpreter_is_gone() {
    let user = User::new();
    let command = reported(&user);
    crate::support::fake_herdr::write_program(&user.path("bin/my-agent"), "#!/nope/interpreter\n");
    let releases = user.releases();
    let terminal = user.restore(&command);
    terminal.wait_for("press Enter to leave");
    assert!(terminal.modes().is_cooked());
    assert!(terminal.screen().contains("\"Ship it\" cannot come back: "), "{}", terminal.screen());
    terminal.type_bytes("\r");
    terminal.type_bytes("echo exit=$?\r");
    terminal.wait_for("exit=1");
    assert_eq!(user.releases(), releases, "Herdr is not to forget it");
}

/// It runs, and has lost the conversation: no quit, or Herdr would forget the session.
#[test]
fn the_agent_does_not_find_it() {
    let user = User::new();
    let command = reported(&user);
    let script = "#!/bin/sh\necho No conversation found; exit 3\n";
    crate::support::fake_herdr::write_program(&user.path("bin/my-agent"), script);
    let releases = user.releases();
    let terminal = user.restore(&command);
    terminal.wait_for("press Enter to leave");
    let screen = terminal.screen();
    assert!(screen.contains("No conversation found"), "{screen}");
    assert!(screen.contains("the agent failed at once; its session is kept"), "{screen}");
    assert!(terminal.modes().is_cooked());
    terminal.type_bytes("\r");
    terminal.type_bytes("echo exit=$?\r");
    terminal.wait_for("exit=3");
    assert_eq!(user.releases(), releases);
    assert_eq!(user.wait_for_command(), command);
}

#[test]
fn the_record_is_gone() {
    let user = User::new();
    let command = reported(&user);
    fs::remove_file(&user.records()[0]).unwrap();
    says(&user, &command, "there is no record ");
}

#[test]
fn the_record_is_damaged() {
    let user = User::new();
    let command = reported(&user);
    let record = &user.records()[0];
    let text = fs::read_to_string(record).unwrap();
    fs::write(record, &text[..text.len() / 2]).unwrap();
    says(&user, &command, "is damaged: ");
    fs::write(record, text.replace("my-agent again", "my-agent other")).unwrap();
    says(&user, &command, "its checksum is another");
}

#[test]
fn a_token_is_none() {
    let user = User::new();
    let command = ["agent-presence", "resume", "../../x"].map(str::to_owned);
    says(&user, &command, "is no session's token");
}

/// A script waits for nobody.
#[test]
fn without_a_terminal_there_is_no_waiting() {
    let user = User::new();
    let command = reported(&user);
    fs::remove_dir(user.path("work")).unwrap();
    let mut again = user.command();
    let mut child = again
        .current_dir("/")
        .args(&command[1..])
        // Nobody writes and nobody closes it: whoever reads here waits for ever.
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let held = child.stdin.take();
    eventually("an end", || child.try_wait().unwrap().is_some());
    drop(held);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("cannot come back") && !text.contains("Enter"), "{text}");
}
