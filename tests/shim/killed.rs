//! What is left when the process that relays is killed: everything as if its terminal had been closed.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::fake_herdr::{Behaviour, Request};
use crate::support::terminal::{Terminal, children, eventually, is_alive};
use crate::user::{User, wait_for_state};

/// The process of the agent, which says it itself.
fn agent_of(terminal: &Terminal) -> u32 {
    terminal.wait_for("pid=");
    let screen = terminal.screen();
    let text = screen.lines().find_map(|line| line.strip_prefix("pid=")).unwrap();
    text.trim().parse().unwrap()
}

fn kill_the_relay(terminal: &mut Terminal, agent: u32) {
    let relay = children(terminal.pid())[0];
    kill(Pid::from_raw(relay.cast_signed()), Signal::SIGKILL).unwrap();
    assert_eq!(terminal.wait().signal(), Some(9));
    eventually("the end of the agent", || !is_alive(agent));
    assert!(terminal.modes().is_cooked());
}

/// The sockets and their locks.
fn left(user: &User) -> Vec<String> {
    let mut left = Vec::new();
    let mut folders = vec![user.path("run")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                left.push(path.display().to_string());
            }
        }
    }
    left
}

#[test]
fn in_a_turn_the_agent_is_idle_in_herdr_and_can_be_resumed() {
    for script in [
        "echo pid=$$; exec sleep 1000",
        "\"$AGENT_PRESENCE_BIN\" state working; echo pid=$$; exec sleep 1000",
        "\"$AGENT_PRESENCE_BIN\" session s-2 -- my-agent --resume s-2; \
         \"$AGENT_PRESENCE_BIN\" state working; echo pid=$$; exec sleep 1000",
        // The card is open, and nobody will answer it.
        "\"$AGENT_PRESENCE_BIN\" state working; \"$AGENT_PRESENCE_BIN\" approve deploy & \
         echo pid=$$; exec sleep 1000",
    ] {
        let user = User::new();
        let (mut terminal, phone) = user.start(&["--", "sh", "-c", script]);
        let agent = agent_of(&terminal);
        let state = match script {
            _ if script.contains("approve") => "blocked",
            _ if script.contains("state working") => "working",
            _ => "idle",
        };
        user.herdr.wait_for_state(state);
        if state == "blocked" {
            phone.wait_for_ask();
        }
        let has_command = script.contains("--resume");
        if has_command {
            user.herdr.wait_for_pane(|pane| pane.resume.is_some());
        }
        let last = user.herdr.requests().iter().filter_map(Request::seq).max().unwrap();
        let before = user.states().len();
        kill_the_relay(&mut terminal, agent);
        // Before the user's shell has the terminal back.
        let pane = user.herdr.pane("w1:p1");
        assert_eq!(pane.holder.unwrap().state, "idle", "{script}");
        assert_eq!(pane.resume.is_some(), has_command, "the command stays");
        assert!(user.herdr.requests_of("pane.release_agent").is_empty(), "nobody has quit");
        let said = user.herdr.requests_of("pane.report_agent");
        let said = &said[before..];
        assert_eq!(said.len(), 1, "{said:?}");
        assert_eq!((said[0].state(), said[0].params["agent"].as_str()), (Some("idle"), Some("sh")));
        assert!(said[0].seq() > Some(last), "it counts on");
        assert_eq!(left(&user), [""; 0]);
    }
}

#[test]
fn a_herdr_that_hangs_does_not_hold_the_terminal() {
    let user = User::new();
    let script = "\"$AGENT_PRESENCE_BIN\" state working; echo pid=$$; exec sleep 1000";
    let (mut terminal, phone) = user.start(&["--", "sh", "-c", script]);
    let agent = agent_of(&terminal);
    wait_for_state(&phone, "working");
    user.herdr.wait_for_state("working");
    user.herdr.set_usual(Behaviour::Hangs);
    let began = Instant::now();
    kill_the_relay(&mut terminal, agent);
    // 500 ms for Herdr, and something for a busy machine.
    assert!(began.elapsed() < Duration::from_millis(1500), "{:?}", began.elapsed());
    assert_eq!(left(&user), [""; 0]);
}

/// Somebody else asked for the end: no quit, but nothing runs any more.
#[test]
fn an_end_from_outside_is_idle_without_a_release() {
    for signal in [Signal::SIGHUP, Signal::SIGTERM] {
        let user = User::new();
        let script = "\"$AGENT_PRESENCE_BIN\" session s-2 -- my-agent --resume s-2; \
            \"$AGENT_PRESENCE_BIN\" state working; exec sleep 1000";
        let (mut terminal, _phone) = user.start(&["--", "sh", "-c", script]);
        user.herdr.wait_for_state("working");
        user.herdr.wait_for_pane(|pane| pane.resume.is_some());
        // All that was to be said before: what is left at the end has 300 ms.
        user.herdr.wait_for(|request| request.method == "pane.report_metadata");
        terminal.signal(signal);
        assert_eq!(terminal.wait().signal(), Some(signal as i32));
        // What was sent in time may be read a moment later.
        let pane = user.herdr.wait_for_state("idle");
        assert!(pane.resume.is_some());
        assert!(user.herdr.requests_of("pane.release_agent").is_empty());
    }
}

/// Sessions that the agent has opened beside the first one end with it, whichever Herdr shows.
#[test]
fn all_sessions_of_the_agent_end_with_it() {
    let open = "import json, os, socket\n\
        link = socket.socket(socket.AF_UNIX)\n\
        link.connect(os.environ['AGENT_PRESENCE_SOCKET'])\n\
        for method, params in [('open', {'session': 'other'}), ('state', {'session': 'other', 'state': 'working'})]:\n\
        \x20   link.send((json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': method, 'params': params}) + '\\n').encode())\n\
        \x20   link.recv(4096)\n";
    for (end, state, releases) in [("exit 0", None, 1), ("kill -9 $$", Some("idle"), 0)] {
        let user = User::new();
        let program = user.path("open.py");
        fs::write(&program, open).unwrap();
        let script = format!("python3 {}; read -r line; {end}", program.display());
        let (mut terminal, phone) = user.start(&["--", "sh", "-c", &script]);
        phone.wait_for("the other one", |state| state["panes"].as_array().unwrap().len() == 2);
        user.herdr.wait_for_state("working");
        terminal.type_bytes("\r");
        terminal.wait();
        let is_right = |holder: Option<&str>| holder == state;
        user.herdr.wait_for_pane(|pane| {
            is_right(pane.holder.as_ref().map(|holder| holder.state.as_str()))
        });
        assert_eq!(user.herdr.requests_of("pane.release_agent").len(), releases, "{end}");
    }
}

/// An end in order has said all there was to say, by whatever signal it was.
#[test]
fn an_end_in_order_has_no_second_last_word() {
    for (script, releases) in [("exit 7", 1), ("kill -9 $$", 0), ("exec sleep 1000", 0)] {
        let user = User::new();
        let script = format!("\"$AGENT_PRESENCE_BIN\" state working; read -r line; {script}");
        let (mut terminal, _phone) = user.start(&["--", "bash", "-c", &script]);
        user.herdr.wait_for_state("working");
        terminal.type_bytes("\r");
        if script.ends_with("sleep 1000") {
            terminal.signal(Signal::SIGTERM);
        }
        terminal.wait();
        assert_eq!(user.herdr.requests_of("pane.release_agent").len(), releases, "{script}");
        let states = user.states();
        assert!(
            states.iter().filter(|state| *state == "idle").count() <= 2,
            "{script}: {states:?}"
        );
        if releases == 1 {
            assert!(user.herdr.pane("w1:p1").holder.is_none(), "{script}: {states:?}");
        }
    }
}

/// Nothing is said of an agent that never ran.
#[test]
fn an_agent_that_is_not_there_has_no_last_word() {
    let user = User::new();
    let mut terminal = Terminal::start(&mut user.wrap(&["--", "/nonexistent/agent"]));
    assert_eq!(terminal.wait().code(), Some(127));
    assert!(user.states().is_empty());
}
