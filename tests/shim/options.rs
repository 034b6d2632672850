//! What the options of `wrap` do.

use crate::support::terminal::Terminal;
use crate::user::User;

/// The names of Herdr's variables that the agent sees.
fn seen(user: &User, options: &[&str]) -> Vec<String> {
    let arguments = [options, &["--", "sh", "-c", "env; echo end"]].concat();
    let mut terminal = Terminal::start_sized(&mut user.wrap(&arguments), 100, 200);
    assert_eq!(terminal.wait().code(), Some(0));
    let screen = terminal.screen();
    let names = screen.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name);
    let mut seen: Vec<String> =
        names.filter(|name| name.starts_with("HERDR_")).map(str::to_owned).collect();
    seen.sort();
    seen
}

#[test]
fn herdrs_variables_are_taken_out_as_asked() {
    let user = User::new();
    // What the fake server sets, and the command's path.
    let all = user.herdr.environment_variables().len() + 1;
    let pane = "HERDR_PANE_ID".to_owned();
    for options in [&[][..], &["--herdr-env", "pane"]] {
        let seen = seen(&user, options);
        assert_eq!((seen.len(), seen.contains(&pane)), (all - 1, false), "{seen:?}");
    }
    assert_eq!(seen(&user, &["--herdr-env", "all"]), [""; 0]);
    assert_eq!(seen(&user, &["--herdr-env", "keep"]).len(), all);
    let requests = user.herdr.requests().len();
    assert_eq!(seen(&user, &["--no-herdr"]).len(), all);
    assert_eq!(user.herdr.requests().len(), requests, "nothing is reported then");
}

#[test]
fn without_a_pty_the_agent_has_the_terminal_itself() {
    let user = User::new();
    let script = "tty; read -r line; echo got=$line";
    let (mut terminal, phone) = user.start(&["--no-pty", "--", "sh", "-c", script]);
    terminal.wait_for("/dev/pts/");
    let outer = std::fs::read_link(format!("/proc/{}/fd/0", terminal.pid())).unwrap();
    assert!(terminal.screen().contains(outer.to_str().unwrap()), "{}", terminal.screen());
    assert!(terminal.modes().is_cooked(), "nothing is changed on it");
    assert_eq!(phone.hello()["caps"]["send"], false, "nobody could type it");
    terminal.type_bytes("hi\r");
    terminal.wait_for("got=hi");
    assert_eq!(terminal.wait().code(), Some(0));
}

#[test]
fn the_question_for_program_status_is_answered_or_passed() {
    let user = User::new();
    let script = "stty raw -echo; printf '\\033]7501;?\\033\\\\'; \
                  dd bs=1 count=10 2>/dev/null | od -An -c; stty sane";
    let answer = "033   ]   7   5   0   1   ;   ?";
    let (mut terminal, _) = user.start(&["--", "sh", "-c", script]);
    terminal.wait_for(answer);
    assert_eq!(terminal.wait().code(), Some(0));

    let (mut terminal, _) = user.start(&["--program-status", "pass", "--", "sh", "-c", script]);
    terminal.wait_for_bytes(b"\x1b]7501;?\x1b\\");
    terminal.type_bytes("0123456789");
    terminal.wait_for("0   1   2   3");
    assert!(!terminal.screen().contains(answer), "{}", terminal.screen());
    assert_eq!(terminal.wait().code(), Some(0));
}
