//! A `wrap` inside a wrapped agent: Herdr's row stays the outer agent's, the phone sees both.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::fake_herdr::model::Pane;
use crate::support::phone::Phone;
use crate::support::terminal::{Terminal, children, eventually, is_alive};
use crate::user::User;

const COMPOSER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/shim/composer.py");

/// An outer agent, a shell, that runs `script` and then waits for a line.
fn outer(user: &User, options: &[&str], script: &str) -> (Terminal, Phone) {
    let script = format!("{script}; echo outer=$?; read -r line; exit 3");
    user.start(&[options, &["--agent", "outer", "--", "bash", "-c", &script]].concat())
}

/// `agent-presence wrap` inside, whose session is `inner`.
fn wrap(arguments: &str) -> String {
    format!("\"$AGENT_PRESENCE_BIN\" wrap --session inner {arguments}")
}

fn pane_states(phone: &Phone) -> Vec<(String, String)> {
    let text = |pane: &Value, name: &str| pane[name].as_str().unwrap_or_default().to_owned();
    let state = phone.state();
    let panes = state["panes"].as_array().unwrap();
    panes.iter().map(|pane| (text(pane, "id"), text(pane, "state"))).collect()
}

fn wait_for_panes(phone: &Phone, expected: &[(&str, &str)]) {
    let own = |(id, state): &(&str, &str)| ((*id).to_owned(), (*state).to_owned());
    let mut expected: Vec<_> = expected.iter().map(own).collect();
    expected.sort();
    let mut seen = Vec::new();
    let end = std::time::Instant::now() + crate::support::terminal::DEADLINE;
    while seen != expected {
        assert!(std::time::Instant::now() < end, "{seen:?} instead of {expected:?}");
        seen = pane_states(phone);
        seen.sort();
    }
}

fn texts(phone: &Phone, pane: &str) -> Vec<(String, String)> {
    let text = |item: &Value, name: &str| item[name].as_str().unwrap_or_default().to_owned();
    let view = phone.events(pane, None);
    let items = view["items"].as_array().unwrap();
    items.iter().map(|item| (text(item, "kind"), text(item, "text"))).collect()
}

fn has(phone: &Phone, pane: &str, kind: &str, text: &str) -> bool {
    texts(phone, pane).iter().any(|(is, has)| is == kind && has.contains(text))
}

fn releases(user: &User) -> usize {
    user.herdr.requests_of("pane.release_agent").len()
}

/// Its own words, its cards, and what becomes of the outer agent's row meanwhile.
#[test]
fn its_commands_act_on_its_own_session() {
    for herdr_env in ["pane", "keep"] {
        let user = User::new();
        let inner = "read -r line; \"$AGENT_PRESENCE_BIN\" state working; \
            \"$AGENT_PRESENCE_BIN\" say --kind user asked; \"$AGENT_PRESENCE_BIN\" say answered; \
            \"$AGENT_PRESENCE_BIN\" approve deploy; echo decided=$?; read -r line; exit 5";
        let program = user.program("inner-agent", &format!("#!/bin/sh\n{inner}\n"));
        let (mut terminal, phone) =
            outer(&user, &["--herdr-env", herdr_env], &wrap(&format!("-- {program}")));
        wait_for_panes(&phone, &[("s", "idle"), ("inner", "idle")]);
        let pane = phone.pane("inner");
        assert_eq!(
            (&pane["harness"], &pane["title"]),
            (&json!("inner-agent"), &json!("inner-agent"))
        );
        terminal.type_bytes("go\r");
        // Whoever looks at the desk sees that somebody waits, and the outer agent takes no text.
        let (pane, ask) = phone.wait_for_ask();
        assert_eq!(pane, "inner");
        wait_for_panes(&phone, &[("s", "waiting"), ("inner", "waiting")]);
        let blocked = user.herdr.wait_for(|request| request.state() == Some("blocked"));
        assert!(blocked.params["message"].as_str().unwrap().starts_with("inner-agent: "));
        assert_eq!(phone.send("s", "y").status, 409);
        assert!(has(&phone, "inner", "user", "asked") && has(&phone, "inner", "reply", "answered"));

        phone.answer(&pane, ask["id"].as_str().unwrap(), &json!({"optionIds": ["allow"]}));
        terminal.wait_for("decided=0");
        wait_for_panes(&phone, &[("s", "idle"), ("inner", "working")]);
        user.herdr.wait_for_state("idle");
        terminal.type_bytes("\r");
        terminal.wait_for("outer=5");
        wait_for_panes(&phone, &[("s", "idle")]);
        // Nothing of the inner one's is the outer one's.
        assert!(!has(&phone, "s", "reply", "answered") && !has(&phone, "s", "user", "asked"));
        assert_eq!(releases(&user), 0);
        terminal.type_bytes("\r");
        assert_eq!(terminal.wait().code(), Some(3));
        assert_eq!(releases(&user), 1);
        let reports = user.herdr.requests_of("pane.report_agent");
        assert!(reports.iter().all(|report| report.params["agent"] == "outer"), "{reports:?}");
        let mut states = user.states();
        states.dedup();
        // The first idle may have been replaced before it was on its way.
        let states = states.strip_prefix(&["idle".to_owned()]).unwrap_or(&states);
        assert_eq!(states, ["blocked", "idle"], "{:#?}", user.herdr.requests());
    }
}

/// Field case 8: what the nested agent may have said of the pane is put right when it ends.
#[test]
fn the_outer_state_is_said_again_after_it() {
    let user = User::new();
    let (terminal, phone) = outer(&user, &[], &wrap("-- sh -c 'read -r line'"));
    wait_for_panes(&phone, &[("s", "idle"), ("inner", "idle")]);
    user.herdr.change(|herdr| herdr.clear("w1:p1"));
    let before = user.states().len();
    terminal.type_bytes("\r");
    terminal.wait_for("outer=0");
    eventually("a fresh report", || user.states().len() > before);
    assert_eq!(user.states().last().unwrap(), "idle");
}

/// Its terminal is looked at, and typed into, as that of any other; the outer agent's is its own again
/// only afterwards.
#[test]
fn its_terminal_speaks_for_it_and_the_phone_types_into_it() {
    let user = User::new();
    let log = user.path("log");
    std::fs::write(&log, "").unwrap();
    let turns = || std::fs::read_to_string(&log).unwrap();
    let composer = user.program(
        "composer",
        &format!("#!/bin/sh\nLOG={} exec python3 {COMPOSER} \"$@\"\n", log.display()),
    );
    let (terminal, phone) = outer(&user, &[], &wrap(&format!("-- {composer}")));
    terminal.wait_for("Composer.");
    wait_for_panes(&phone, &[("s", "idle"), ("inner", "idle")]);
    let refused = phone.send("s", "to the outer one");
    assert_eq!(refused.status, 409, "{refused:?}");
    let reply = phone.send("inner", "please deploy");
    assert_eq!(reply.status, 200, "{reply:?}");
    eventually("the turn", || turns() == "turn please deploy\n");
    terminal.wait_for("Answer");
    wait_for_panes(&phone, &[("s", "idle"), ("inner", "idle")]);
    assert!(has(&phone, "inner", "user", "please deploy"));

    // By hand, and stopped by the phone.
    terminal.type_bytes("a long one\r");
    wait_for_panes(&phone, &[("s", "idle"), ("inner", "working")]);
    assert_eq!(phone.stop("s").status, 409, "that would be the inner one's");
    assert_eq!(phone.stop("inner").status, 200);
    eventually("the interrupt", || turns().ends_with("turn a long one\ninterrupt '\\x03'\n"));
    wait_for_panes(&phone, &[("s", "idle"), ("inner", "idle")]);
    assert!(texts(&phone, "s").is_empty(), "{:?}", texts(&phone, "s"));
    assert_eq!(user.states(), ["idle"], "the row is the outer one's");
    terminal.type_bytes([4]);
    terminal.wait_for("outer=0");
    wait_for_panes(&phone, &[("s", "idle")]);
    assert_eq!(phone.send("s", "now it is yours").status, 200);
    terminal.wait_for("now it is yours");
}

/// What its turns leave on the screen is its chat, and not the outer agent's.
#[test]
fn its_turns_are_in_its_chat() {
    let user = User::new();
    let program = user.program("repl", &format!("#!/bin/bash\n{}\n", crate::chats::REPL));
    let (terminal, phone) = outer(&user, &[], &wrap(&format!("-- {program}")));
    terminal.wait_for("> ");
    wait_for_panes(&phone, &[("s", "idle"), ("inner", "idle")]);
    terminal.type_bytes("the build\r");
    let expected = [("user", "the build"), ("reply", "I have looked at:\n  the build")];
    let expected = expected.map(|(kind, text)| (kind.to_owned(), text.to_owned()));
    eventually("the turn", || texts(&phone, "inner") == expected);
    assert_eq!(texts(&phone, "s"), []);
}

/// What passes through both terminals is the inner agent's word, not the outer one's.
#[test]
fn a_report_of_its_own_is_not_the_outer_agents() {
    let user = User::new();
    let inner = "printf '\\033]7501;state=working\\033\\\\'; read -r line; kill -9 $$";
    let program = user.program("reporter", &format!("#!/bin/bash\n{inner}\n"));
    let (terminal, phone) = outer(&user, &[], &wrap(&format!("-- {program}")));
    wait_for_panes(&phone, &[("s", "idle"), ("inner", "working")]);
    user.herdr.wait_for_state("idle");
    terminal.type_bytes("x\r");
    terminal.wait_for("outer=137");
    wait_for_panes(&phone, &[("s", "idle")]);
    let states = user.states();
    assert!(states.iter().all(|state| state == "idle"), "{states:?}");
}

/// With or without a chat, what its terminal tells is brought to the outer presence at once.
#[test]
fn its_signs_are_seen_without_a_chat() {
    let user = User::new();
    let inner = "stty -echo -icanon; printf '\\033]0;\\342\\240\\213 fix it\\007'; read -rn1; \
        printf '\\033]0;done\\007'; read -rn1";
    let program = user.program("spinner", &format!("#!/bin/bash\n{inner}\n"));
    let (terminal, phone) = outer(&user, &[], &wrap(&format!("--chat off -- {program}")));
    wait_for_panes(&phone, &[("s", "idle"), ("inner", "working")]);
    terminal.type_bytes("x");
    wait_for_panes(&phone, &[("s", "idle"), ("inner", "idle")]);
    terminal.type_bytes("x");
    terminal.wait_for("outer=0");
}

/// In the background and without a terminal it is shown all the same, and takes nothing away.
#[test]
fn without_a_terminal_it_lends_nothing() {
    // Nor in the background of one that a shell keeps for itself.
    for start in ["WRAP </dev/null >/dev/null &", "set -m; WRAP &"] {
        let user = User::new();
        let start = start.replace("WRAP", &wrap("--title 'in the back' -- sleep 1000"));
        let script = format!("{start} read -r line; echo got=$line; kill -TERM $!; wait $!");
        let (terminal, phone) = outer(&user, &[], &script);
        wait_for_panes(&phone, &[("s", "idle"), ("inner", "idle")]);
        assert_eq!(phone.pane("inner")["title"], "in the back");
        let reply = phone.send("s", "for the outer one");
        assert_eq!(reply.status, 200, "{start}: {reply:?}");
        terminal.wait_for("got=for the outer one");
        terminal.wait_for("outer=143");
        eventually("the end of its pane", || pane_states(&phone).len() == 1);
    }
}

/// Without a PTY of its own it has the outer agent's terminal all the same.
#[test]
fn without_a_pty_the_terminal_is_lent_too() {
    let user = User::new();
    let (terminal, phone) = outer(&user, &[], &wrap("--no-pty -- sh -c 'read -r line'"));
    wait_for_panes(&phone, &[("s", "idle"), ("inner", "idle")]);
    assert_eq!(phone.send("s", "for whom?").status, 409);
    assert!(!terminal.screen().contains("for whom?"));
    terminal.type_bytes("\r");
    terminal.wait_for("outer=0");
}

/// Three deep: every one has its own pane, and the innermost blocks them all.
#[test]
fn one_inside_one_inside_one() {
    let user = User::new();
    let innermost = user.program(
        "innermost",
        "#!/bin/sh\n\"$AGENT_PRESENCE_BIN\" approve deploy; echo decided=$?; read -r line\n",
    );
    let middle = user.program(
        "middle",
        &format!("#!/bin/sh\n\"$AGENT_PRESENCE_BIN\" wrap --session innermost -- {innermost}\n"),
    );
    let (terminal, phone) = outer(&user, &[], &wrap(&format!("-- {middle}")));
    let (pane, ask) = phone.wait_for_ask();
    assert_eq!(pane, "innermost");
    wait_for_panes(&phone, &[("s", "waiting"), ("inner", "waiting"), ("innermost", "waiting")]);
    user.herdr.wait_for_state("blocked");
    phone.answer(&pane, ask["id"].as_str().unwrap(), &json!({"optionIds": ["deny"]}));
    terminal.wait_for("decided=4");
    wait_for_panes(&phone, &[("s", "idle"), ("inner", "idle"), ("innermost", "idle")]);
    terminal.type_bytes("\r");
    terminal.wait_for("outer=0");
    wait_for_panes(&phone, &[("s", "idle")]);
}

/// The conversation of the inner agent changes; its place does not.
#[test]
fn another_conversation_of_its_is_nested_too() {
    let user = User::new();
    let inner = "\"$AGENT_PRESENCE_BIN\" session second -- my-agent --resume second; \
        \"$AGENT_PRESENCE_BIN\" state blocked --message 'log in'; read -r line";
    let program = user.program("inner-agent", &format!("#!/bin/sh\n{inner}\n"));
    let (terminal, phone) = outer(&user, &[], &wrap(&format!("-- {program}")));
    wait_for_panes(&phone, &[("s", "waiting"), ("second", "waiting")]);
    user.herdr.wait_for_state("blocked");
    terminal.type_bytes("\r");
    terminal.wait_for("outer=0");
    wait_for_panes(&phone, &[("s", "idle")]);
    let reports = user.herdr.requests();
    assert!(reports.iter().all(|report| report.resume().is_none()), "the row is the outer one's");
}

fn kill_hard(process: u32) {
    kill(Pid::from_raw(process.cast_signed()), Signal::SIGKILL).unwrap();
}

/// The only process below this one whose command line has `text`, at the end of a chain of only children.
fn below(process: u32, text: &str) -> u32 {
    let holds = |process: u32| {
        let line = std::fs::read(Path::new("/proc").join(process.to_string()).join("cmdline"));
        line.is_ok_and(|line| memchr::memmem::find(&line, text.as_bytes()).is_some())
    };
    let mut found = children(process);
    while let Some(process) = found.pop() {
        if holds(process) {
            return process;
        }
        found.extend(children(process));
    }
    panic!("no {text} below {process}");
}

#[test]
fn killed_it_leaves_no_pane() {
    let user = User::new();
    let (terminal, phone) =
        outer(&user, &[], &wrap("-- sh -c '\"$AGENT_PRESENCE_BIN\" state blocked; read -r line'"));
    wait_for_panes(&phone, &[("s", "waiting"), ("inner", "waiting")]);
    // The guardian of the inner wrap, and below it the relay.
    let guardian = below(terminal.pid(), "\0--session\0inner");
    kill_hard(children(guardian)[0]);
    terminal.wait_for("outer=137");
    wait_for_panes(&phone, &[("s", "idle")]);
    user.herdr.wait_for_state("idle");
}

/// Both ways of losing the outer presence: gone, and stopped. The inner agent notices neither.
#[test]
fn the_outer_presence_gone_disturbs_nobody() {
    let user = User::new();
    let script = "while read -r line; do \"$AGENT_PRESENCE_BIN\" state working; echo said=$?; done; echo end";
    let program = user.program("inner-agent", &format!("#!/bin/sh\n{script}\n"));
    let socket = user.path("link.sock");
    let wrapped = |link: &str| {
        let mut command = user.wrap(&["--", &program]);
        command.env("AGENT_PRESENCE_SOCKET", link).env("AGENT_PRESENCE_SESSION", "gone");
        command
    };
    // Nobody there: it is no nested one, and has a presence of its own.
    let mut terminal = Terminal::start(&mut wrapped(socket.to_str().unwrap()));
    user.herdr.wait_for_state("idle");
    terminal.type_bytes("x\r");
    terminal.wait_for("said=0");
    terminal.type_bytes([4]);
    assert_eq!(terminal.wait().code(), Some(0));

    // There, and then away: the inner wrap stands beside the outer one, so that it outlives it.
    let outer = user.program("outer", "#!/bin/sh\necho at=$AGENT_PRESENCE_SOCKET; read -r line\n");
    let (mut outer, phone) = user.start(&["--", &outer]);
    outer.wait_for("at=/");
    let screen = outer.screen();
    let at = screen.split_once("at=").unwrap().1.split_whitespace().collect::<String>();
    let mut inner = user.wrap_without_socket(&["--session", "inner", "--", &program]);
    inner.env("AGENT_PRESENCE_SOCKET", &at).env("AGENT_PRESENCE_SESSION", "s");
    let mut terminal = Terminal::start(&mut inner);
    wait_for_panes(&phone, &[("s", "idle"), ("inner", "idle")]);
    let relay = children(outer.pid())[0];
    kill(Pid::from_raw(relay.cast_signed()), Signal::SIGSTOP).unwrap();
    terminal.type_bytes("x\r");
    terminal.wait_for("said=0");
    kill(Pid::from_raw(relay.cast_signed()), Signal::SIGCONT).unwrap();
    wait_for_panes(&phone, &[("s", "idle"), ("inner", "working")]);
    kill_hard(relay);
    assert_eq!(outer.wait().signal(), Some(9));
    eventually("the end of the outer one", || !is_alive(relay));
    terminal.type_bytes("x\r");
    terminal.wait_for("said=3");
    terminal.type_bytes([4]);
    terminal.wait_for("end");
    assert_eq!(terminal.wait().code(), Some(0));
}

/// A name that is taken is the user's mistake, and told as one; the outer agent's session is not touched.
#[test]
fn an_id_that_is_taken_is_refused() {
    let user = User::new();
    let script = "\"$AGENT_PRESENCE_BIN\" wrap --session s -- true";
    let (terminal, phone) = outer(&user, &[], script);
    terminal.wait_for("outer=2");
    assert!(terminal.screen().contains("open already"), "{}", terminal.screen());
    wait_for_panes(&phone, &[("s", "idle")]);
}

/// In a pane of its own it is nobody's guest, whatever it has inherited.
#[test]
fn in_another_pane_it_is_not_nested() {
    let user = User::new();
    let script = format!(
        "HERDR_PANE_ID=w1:p9 {}",
        wrap("--socket \"$XDG_RUNTIME_DIR/other.sock\" --agent other -- sh -c 'read -r line'")
    );
    user.herdr.change(|herdr| _ = herdr.panes.insert("w1:p9".to_owned(), Pane::default()));
    let (terminal, phone) = outer(&user, &[], &script);
    user.herdr.wait_for(|request| {
        request.params["pane_id"] == "w1:p9" && request.state() == Some("idle")
    });
    wait_for_panes(&phone, &[("s", "idle")]);
    let other = Phone::at(user.path("run/other.sock"));
    other.wait_ready();
    wait_for_panes(&other, &[("inner", "idle")]);
    terminal.type_bytes("\r");
    terminal.wait_for("outer=0");
}

/// With a socket of its own it has a host of its own, and still leaves the row to the outer agent.
#[test]
fn with_a_socket_of_its_own_it_is_still_quiet() {
    let user = User::new();
    let script = wrap("--socket \"$XDG_RUNTIME_DIR/other.sock\" -- sh -c 'read -r line'");
    let (mut terminal, phone) = outer(&user, &["--herdr-env", "keep"], &script);
    let other = Phone::at(user.path("run/other.sock"));
    eventually("a socket", || other.socket().exists());
    other.wait_ready();
    wait_for_panes(&other, &[("inner", "idle")]);
    wait_for_panes(&phone, &[("s", "idle")]);
    user.herdr.wait_for_state("idle");
    terminal.type_bytes("\r");
    terminal.wait_for("outer=0");
    terminal.type_bytes("\r");
    assert_eq!(terminal.wait().code(), Some(3));
    assert_eq!((user.states(), releases(&user)), (vec!["idle".to_owned()], 1));
}
