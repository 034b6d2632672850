//! Agents whose own way to resume is known, from the command line to the command line.

use crate::user::{User, stop};

/// Wraps a command, restarts Herdr, and gives the command that runs then.
fn again(user: &User, command: &[&str], id: Option<&str>) -> String {
    let before = user.runs().len();
    let wrap: Vec<&str> = ["--"].iter().chain(command).copied().collect();
    let terminal = user.start(&wrap);
    if let Some(id) = id {
        terminal.type_bytes(format!("tell {id}\r"));
        terminal.wait_for("told 0");
    }
    let reported = user.wait_for_command();
    assert_eq!(reported[..2], ["agent-presence", "resume"], "field case 51");
    let session = id.map_or_else(|| user.wait_for_run(before + 1).session, str::to_owned);
    stop(terminal);
    user.restart_herdr();
    let terminal = user.restore(&reported);
    let run = user.wait_for_run(before + 2);
    assert_eq!(run.session, session);
    stop(terminal);
    let words = [run.name].into_iter().chain(run.arguments);
    let words: Vec<_> = words.map(|word| word.into_string().unwrap()).collect();
    user.restart_herdr();
    words.join(" ")
}

#[test]
fn case_40_launch_flags_are_kept() {
    let user = User::new();
    let command = ["claude", "--model", "opus", "--dangerously-skip-permissions"];
    assert_eq!(
        again(&user, &command, Some("0af1b2c3")),
        "claude --model opus --dangerously-skip-permissions --resume 0af1b2c3"
    );
}

#[test]
fn case_41_old_sessions_and_prompts_are_not_replayed() {
    let user = User::new();
    let claude = ["claude", "--resume", "old", "-p", "fix 'it'"];
    assert_eq!(again(&user, &claude, Some("0af1b2c3")), "claude --resume 0af1b2c3");
    let codex = ["codex", "resume", "old", "--yolo", "do x"];
    assert_eq!(again(&user, &codex, Some("1af1b2c3")), "codex resume 1af1b2c3 --yolo");
    assert_eq!(
        again(&user, &["claude", "--verbose", "hello"], None),
        "claude --verbose --continue"
    );
}

#[test]
fn case_42_continue_goes_with_resume() {
    let user = User::new();
    assert_eq!(again(&user, &["copilot", "--continue"], Some("id-1")), "copilot --resume=id-1");
}

/// The session's id is the one that the command names: it is the same conversation as before.
#[test]
fn a_session_that_the_command_names_is_that_session() {
    let user = User::new();
    assert_eq!(again(&user, &["claude", "--resume", "0af1b2c3"], None), "claude --resume 0af1b2c3");
    assert!(user.runs().iter().all(|run| run.session == "0af1b2c3"), "{:?}", user.runs());
}

/// What the user adds in `config.toml`.
#[test]
fn the_user_can_add_an_agent() {
    let user = User::new();
    std::fs::create_dir_all(user.path(".config/agent-presence")).unwrap();
    let config = "[agents.mine]\nprograms = ['my-agent']\nresume = { last = ['--again'], drop = ['--new'] }\n";
    std::fs::write(user.path(".config/agent-presence/config.toml"), config).unwrap();
    assert_eq!(again(&user, &["my-agent", "--new", "-x", "hello"], None), "my-agent -x --again");
}
