//! What was reported is typed, and the session is there again.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::time::Duration;

use crate::support::phone::Phone;
use crate::support::terminal::{Terminal, children, eventually};
use crate::user::{User, stop, up};

const TEMPLATE: &str = "my-agent --resume {session}";

/// As often as Herdr restarts, by the same command, under the same session id. Field cases 33 (a restored
/// session is idle first), 38 (a hang-up is no release) and 51 (it is we who resume).
#[test]
fn a_session_comes_back_any_number_of_times() {
    let user = User::new();
    let wrap = ["--resume", TEMPLATE, "--title", "Ship it", "--agent", "mine", "--", "my-agent"];
    let mut terminal = user.start(&wrap);
    terminal.type_bytes("tell s-42\r");
    let command = user.wait_for_command();
    assert_eq!(command[..2], ["agent-presence", "resume"]);
    assert_eq!((command.len(), command[2].len()), (3, 32), "field case 49: it is short");
    for times in 2..5 {
        stop(terminal);
        user.restart_herdr();
        let told = user.states().len();
        terminal = user.restore(&command);
        let run = user.wait_for_run(times);
        assert_eq!(run.arguments, ["--resume", "s-42"]);
        assert_eq!((run.session.as_str(), run.folder), ("s-42", user.path("work")));
        assert_eq!(user.wait_for_command(), command);
        assert_eq!(user.states()[told], "idle");
        let holder = user.herdr.pane("w1:p1").holder.unwrap();
        assert_eq!(holder.agent, "mine");
        let phone = Phone::at(user.path("run/agent-presence/mine/collie.sock"));
        phone.wait_ready();
        assert_eq!(phone.pane("s-42")["title"], "Ship it");
    }
    assert_eq!(user.releases(), 0);
}

/// Killed, not asked: field case 53.
#[test]
fn a_killed_session_comes_back() {
    let user = User::new();
    let mut terminal = user.start(&["--session", "s-1", "--resume", TEMPLATE, "--", "my-agent"]);
    let command = user.wait_for_command();
    for child in children(terminal.pid()) {
        let pid = nix::unistd::Pid::from_raw(child.cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    }
    terminal.wait();
    user.restart_herdr();
    let _terminal = user.restore(&command);
    let run = user.wait_for_run(2);
    assert_eq!(
        (run.session.as_str(), run.arguments),
        ("s-1", vec!["--resume".into(), "s-1".into()])
    );
    assert_eq!(user.wait_for_command(), command);
}

/// Whenever it is killed: a record is there and whole, or not there yet. `RESUME_RUNS` is how often.
#[test]
fn a_kill_at_any_moment_leaves_no_half_record() {
    let user = User::new();
    let runs = std::env::var("RESUME_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(20);
    for run in 0..runs {
        let wrap = ["--session", "s-1", "--resume", TEMPLATE, "--", "my-agent"];
        let mut terminal = Terminal::start(&mut user.wrap(&wrap));
        // The moment is what is tried: it is another one each time.
        std::thread::sleep(Duration::from_millis(run * 7 % 150));
        for process in children(terminal.pid()).into_iter().chain([terminal.pid()]) {
            let pid = nix::unistd::Pid::from_raw(process.cast_signed());
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        }
        terminal.wait();
        let mut list = user.command();
        let listed = list.args(["sessions", "--json"]).output().unwrap().stdout;
        let listed: Vec<serde_json::Value> = serde_json::from_slice(&listed).unwrap();
        assert_eq!(listed.len(), user.records().len(), "all are whole");
        assert!(listed.iter().all(|record| record["canComeBack"] == true), "{listed:?}");
    }
    let before = user.runs().len();
    for record in user.records().iter().take(3) {
        let token = record.file_stem().unwrap().to_str().unwrap();
        user.restart_herdr();
        let terminal = user.restore(&["agent-presence".into(), "resume".into(), token.into()]);
        terminal.wait_for("up");
        stop(terminal);
    }
    assert!(user.runs().len() > before);
}

/// Two of one command in one folder: Herdr brings back only the first of two equal ones. Field case 46.
#[test]
fn two_of_one_command_in_one_folder_both_come_back() {
    let user = User::new();
    let wrap = ["--resume", TEMPLATE, "--", "my-agent"];
    let mut commands = Vec::new();
    let mut before = Vec::new();
    for id in ["one", "two"] {
        let terminal = user.start(&wrap);
        terminal.type_bytes(format!("tell {id}\r"));
        before = user.wait_for_another(&before);
        commands.push((before.clone(), id));
        stop(terminal);
    }
    assert_ne!(commands[0].0, commands[1].0);
    for (count, (command, id)) in commands.into_iter().enumerate() {
        user.restart_herdr();
        let terminal = user.restore(&command);
        assert_eq!(user.wait_for_run(3 + count).session, id);
        assert_eq!(user.wait_for_command(), command);
        stop(terminal);
    }
}

/// Starts `claude` with these arguments, restarts Herdr, and gives what it was started with then, without
/// the two last words, which name the session.
fn claude_again(user: &User, arguments: &[OsString]) -> Vec<OsString> {
    let mut command = user.wrap(&["--"]);
    command.arg("claude").args(arguments);
    let terminal = up(&mut command);
    assert_eq!(user.wait_for_run(1).arguments, arguments);
    terminal.type_bytes("tell 0af1b2c3\r");
    terminal.wait_for("told 0");
    let command = user.wait_for_command();
    stop(terminal);
    user.restart_herdr();
    let _terminal = user.restore(&command);
    let mut run = user.wait_for_run(2);
    assert_eq!(run.session, "0af1b2c3");
    assert_eq!(user.wait_for_command(), command);
    let session = run.arguments.split_off(run.arguments.len() - 2);
    assert_eq!(session, ["--resume", "0af1b2c3"]);
    run.arguments
}

/// Field case 43: what Herdr would not take is no limit.
#[test]
fn hard_words_come_back() {
    let user = User::new();
    let mut arguments: Vec<OsString> = [
        "--model",
        "",
        "--system-prompt",
        "it's",
        "--settings",
        "a\nb\r\u{7}\u{85}\u{1b}[2J",
        "--name",
        "=x\\\\ \\",
        "--agents",
        "$HOME `id` \"x\" '",
        "--effort",
        "한국어 🙂",
    ]
    .map(OsString::from)
    .into();
    arguments.push(OsString::from_vec(b"--plugin-dir=/tmp/\xff\xfe".to_vec()));
    assert_eq!(claude_again(&user, &arguments), arguments);
}

#[test]
fn two_hundred_arguments_come_back() {
    let user = User::new();
    let arguments: Vec<OsString> = (0..200).map(|place| format!("--flag-{place}").into()).collect();
    assert_eq!(claude_again(&user, &arguments), arguments);
}

#[test]
fn a_command_line_of_100_kb_comes_back() {
    let user = User::new();
    let mut arguments = Vec::new();
    for word in ["x", "it's ", "한"] {
        arguments.extend([
            "--append-system-prompt".into(),
            word.repeat(100_000 / 3 / word.len()).into(),
        ]);
    }
    assert_eq!(claude_again(&user, &arguments), arguments);
}

/// Field case 45: the agent is in its own folder again, whatever its name.
#[test]
fn the_folder_has_any_name() {
    for name in ["a folder with spaces/한국어 폴더", "it's\n"] {
        let user = User::new();
        let folder = user.path("work").join(name);
        fs::create_dir_all(&folder).unwrap();
        let mut command = user.wrap(&["--resume", "my-agent again", "--", "my-agent"]);
        let terminal = up(command.current_dir(&folder));
        let command = user.wait_for_command();
        let before = user.wait_for_run(1);
        stop(terminal);
        user.restart_herdr();
        let _terminal = user.restore(&command);
        let run = user.wait_for_run(2);
        assert_eq!((run.folder, run.session), (folder, before.session));
    }
}

#[test]
fn a_folder_that_is_no_text_is_found_again() {
    let user = User::new();
    let folder = user.path("work").join(OsString::from_vec(b"\xff\xfe".to_vec()));
    fs::create_dir(&folder).unwrap();
    let mut command = user.wrap(&["--resume", "my-agent again", "--", "my-agent"]);
    let terminal = up(command.current_dir(&folder));
    let command = user.wait_for_command();
    stop(terminal);
    user.restart_herdr();
    let _terminal = user.restore(&command);
    assert_eq!(user.wait_for_run(2).folder, folder);
}

/// Field case 44: the restored shell does not have the variable any more.
#[test]
fn a_variable_comes_back_and_a_secret_is_not_kept() {
    let user = User::new();
    let mut command = user.wrap(&["--", "codex"]);
    command.env("CODEX_HOME", "/x y").env("OPENAI_API_KEY", "s3cret");
    let terminal = up(&mut command);
    let command = user.wait_for_command();
    stop(terminal);
    user.restart_herdr();
    let _terminal = user.restore(&command);
    let run = user.wait_for_run(2);
    assert_eq!(
        (run.codex_home, run.arguments),
        ("/x y".into(), vec!["resume".into(), "--last".into()])
    );
    let text = fs::read_to_string(&user.records()[0]).unwrap();
    assert!(text.contains("CODEX_HOME") && !text.contains("s3cret"), "{text}");
}

/// What the agent itself says is its own business: no rule of Herdr's holds for it.
#[test]
fn the_agents_own_command_may_be_anything() {
    let user = User::new();
    let program = user.path("bin/my-agent");
    let script = format!(
        "\"$AGENT_PRESENCE_BIN\" session own-1 --title \"Ship it\" -- {} \"it's\" $'a\\nb' $(seq 100)",
        program.display()
    );
    fs::write(user.path("script"), script).unwrap();
    let terminal = user.start(&["--", "my-agent"]);
    terminal.type_bytes("script\r");
    terminal.wait_for("told 0");
    let command = user.wait_for_command();
    assert_eq!(command[..2], ["agent-presence", "resume"]);
    stop(terminal);
    user.restart_herdr();
    let _terminal = user.restore(&command);
    let run = user.wait_for_run(2);
    assert_eq!(run.session, "own-1");
    let mut expected: Vec<OsString> = vec!["it's".into(), "a\nb".into()];
    expected.extend((1..=100).map(|number| number.to_string().into()));
    assert_eq!(run.arguments, expected);
    assert_eq!(user.wait_for_command(), command);
}

/// In another login shell than bash.
#[test]
fn other_shells_bring_it_back() {
    for shell in ["dash", "zsh"] {
        if which::which(shell).is_err() {
            eprintln!("skipped: no {shell}");
            continue;
        }
        let user = User::new();
        fs::copy(user.path(".profile"), user.path(".zprofile")).unwrap();
        let terminal = user.start(&["--resume", "my-agent again", "--", "my-agent"]);
        let command = user.wait_for_command();
        stop(terminal);
        user.restart_herdr();
        let _terminal = user.restore_in(shell, &command);
        assert_eq!(user.wait_for_run(2).arguments, ["again"]);
        assert_eq!(user.wait_for_command(), command);
    }
}

/// The options of `wrap` are the same again.
#[test]
fn the_options_come_back() {
    let user = User::new();
    let socket = user.path("run/other.sock");
    let wrap = [
        "--resume",
        "my-agent again",
        "--no-pty",
        "--source",
        "x:y",
        "--chat",
        "off",
        "--",
        "my-agent",
    ];
    let mut command = user.wrap(&wrap);
    // The restored shell does not have it.
    let terminal = up(command.env("COLLIE_DURABLE_SOCKET", &socket));
    let command = user.wait_for_command();
    stop(terminal);
    eventually("no socket", || !socket.exists());
    user.restart_herdr();
    let terminal = user.restore(&command);
    user.wait_for_run(2);
    assert_eq!(user.wait_for_command(), command);
    assert_eq!(user.herdr.pane("w1:p1").holder.unwrap().source, "x:y");
    Phone::at(socket).wait_ready();
    // Without a PTY the agent has the terminal itself, which stays as it was.
    assert!(terminal.modes().is_cooked());
}
