//! The commands for use inside an agent, by what the phone and Herdr see of them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use serde_json::{Value, json};

use crate::support::fake_herdr::{Behaviour, FakeHerdr};
use crate::support::phone::Phone;
use crate::support::terminal::eventually;
use crate::{PROGRAM, User};

/// `agent-presence wrap` around a script, without a terminal.
fn wrap(user: &User, herdr: Option<&FakeHerdr>, script: &str) -> Command {
    let mut command = user.command(PROGRAM);
    if let Some(herdr) = herdr {
        command.envs(herdr.environment_variables()).env("HERDR_BIN_PATH", "/nope/herdr");
    }
    let script = format!("ap() {{ \"$AGENT_PRESENCE_BIN\" \"$@\"; }}; {script}");
    command.args(["wrap", "--agent", "toy", "--session", "s", "--", "sh", "-c", &script]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a script; `answers` are given to its asks one after the other. Gives the asks and the output.
fn asked(script: &str, answers: &[Value]) -> (Vec<Value>, String) {
    let user = User::new();
    fs::write(
        user.path().join("form.json"),
        r#"[{"id": "n", "label": "How many?", "type": "number", "required": true}]"#,
    )
    .unwrap();
    let child = wrap(&user, None, script).spawn().unwrap();
    let phone = Phone::at(user.socket("toy"));
    phone.wait_ready();
    let mut asks = Vec::new();
    for answer in answers {
        let (pane, ask) = phone.wait_for_ask();
        assert_eq!(phone.answer(&pane, ask["id"].as_str().unwrap(), answer).status, 200);
        asks.push(ask);
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    (asks, String::from_utf8(output.stdout).unwrap())
}

#[test]
fn every_kind_of_ask_prints_its_answer() {
    let script = "ap ask --choice a=A --choice b=B --multiple --reason Because --tool 'x()' --call c1 Which; \
                  ap ask --text --timeout 10m Name; \
                  ap ask --form \"$HOME/form.json\" Fill; \
                  ap ask --json Sure; \
                  ap approve --reason 'He asked' --json rm '{\"b\": 1, \"a\": 2}'; echo $?";
    let answers = [
        json!({"optionIds": ["a", "b"]}),
        json!({"text": "Ada"}),
        json!({"values": {"n": 3}}),
        json!({"optionIds": ["no"]}),
        json!({"optionIds": ["allow"]}),
    ];
    let (asks, output) = asked(script, &answers);
    let lines: Vec<_> = output.lines().collect();
    assert_eq!(lines[..4], ["a", "b", "Ada", "{\"n\":3}"]);
    let sure: Value = serde_json::from_str(lines[4]).unwrap();
    assert_eq!((&sure["optionIds"], &sure["decidedBy"]), (&json!(["no"]), &json!("phone")));
    let verdict: Value = serde_json::from_str(lines[5]).unwrap();
    assert_eq!((&verdict["approved"], lines[6]), (&json!(true), "0"));
    assert_eq!((&asks[0]["reason"], &asks[0]["tool"]), (&json!("Because"), &json!("x()")));
    assert_eq!(asks[0]["toolCallId"], "c1");
    assert_eq!((&asks[0]["kind"], &asks[0]["multiple"]), (&json!("choice"), &json!(true)));
    assert_eq!((&asks[1]["kind"], seconds_to_expiry(&asks[1])), (&json!("text"), 600));
    assert_eq!(
        (&asks[2]["kind"], &asks[2]["fields"][0]["type"]),
        (&json!("form"), &json!("number"))
    );
    assert_eq!(
        (&asks[4]["tool"], &asks[4]["reason"]),
        (&json!("rm(b: 1, a: 2)"), &json!("He asked"))
    );
}

/// How long a card may be answered, as it says.
fn seconds_to_expiry(ask: &Value) -> i64 {
    let at = |name: &str| ask[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    at("expiresAt").duration_since(at("openedAt")).as_secs()
}

#[test]
fn times_have_units_and_a_no_is_4() {
    let script = "ap approve --timeout 1h30m rm; echo $?; ap ask --timeout 90s --text Name; \
                  ap approve --timeout '2m 5s' --call c --item i rm; echo $?";
    let deny = json!({"optionIds": ["deny"]});
    let (asks, output) = asked(script, &[deny.clone(), json!({"text": "Ada"}), deny]);
    assert_eq!(output, "4\nAda\n4\n");
    assert_eq!(asks.iter().map(seconds_to_expiry).collect::<Vec<_>>(), [5400, 90, 125]);
    assert_eq!((&asks[2]["toolCallId"], &asks[2]["itemId"]), (&json!("c"), &json!("i")));
}

/// A time that is over is no answer: the command says so and exits with 5, and so does the card.
#[test]
fn an_ask_that_nobody_answers_ends_with_5() {
    let user = User::new();
    let script = "ap ask --text --timeout 2s 'Your name?'; echo $?; \
                  ap ask --json --timeout 100ms Sure; echo $?; \
                  ap approve --timeout 100ms rm; echo $?; ap approve --json --timeout 100ms rm; echo $?; \
                  touch \"$HOME/asked\"; until [ -e \"$HOME/go\" ]; do sleep 0.02; done";
    let herdr = FakeHerdr::start(Behaviour::Answers);
    let child = wrap(&user, Some(&herdr), script).spawn().unwrap();
    let phone = Phone::at(user.socket("toy"));
    phone.wait_ready();
    let (_, ask) = phone.wait_for_ask();
    assert_eq!(seconds_to_expiry(&ask), 2);
    herdr.wait_for_state("blocked");
    phone.wait_for("the end of all asks", |_| user.path().join("asked").exists());
    // What the phone shows afterwards: no card, a line for each, and why an answer is too late.
    assert_eq!((&phone.pane("s")["asks"], &phone.pane("s")["state"]), (&json!([]), &json!("idle")));
    herdr.wait_for_state("idle");
    let items = phone.events("s", None)["items"].clone();
    let lines: Vec<_> =
        items.as_array().unwrap().iter().map(|item| item["text"].as_str().unwrap()).collect();
    let timed_out = |title: &str| format!("Timed out before an answer: {title}");
    let titles = ["Your name?", "Sure", "rm wants to run", "rm wants to run"];
    assert_eq!(lines, titles.map(timed_out));
    let late = phone.answer("s", ask["id"].as_str().unwrap(), &json!({"text": "Ada"}));
    assert_eq!((late.status, &late.json()["code"]), (409, &json!("ask-closed")));
    assert_eq!(late.json()["decidedBy"], "timeout");

    fs::write(user.path().join("go"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    let complaint = "agent-presence: nobody answered in time\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), complaint.repeat(2));
    let output = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = output.lines().collect();
    assert_eq!([lines[0], lines[2], lines[3], lines[5]], ["5"; 4], "{output}");
    let outcome = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    assert_eq!(outcome(lines[1])["decidedBy"], "timeout");
    assert_eq!(outcome(lines[4])["approved"], false);
}

#[test]
fn a_session_switch_is_a_new_report_and_the_commands_follow_it() {
    let user = User::new();
    let herdr = FakeHerdr::start(Behaviour::Answers);
    let script = "ap state working; ap session next --title Next -- toy --resume next; \
                  ap state blocked --message 'log in'; ap say hello; ap status; \
                  until [ -e \"$HOME/go\" ]; do sleep 0.02; done; \
                  ap session last; until ap status | grep -q 'up to date'; do sleep 0.02; done; \
                  ap status; ap release; ap status";
    let child = wrap(&user, Some(&herdr), script).spawn().unwrap();
    let phone = Phone::at(user.socket("toy"));
    phone.wait_ready();
    let state = phone.wait_for("switch", |state| {
        state["panes"][0]["id"] == "next" && state["panes"][0]["state"] == "waiting"
    });
    assert_eq!(state["panes"].as_array().unwrap().len(), 1, "the old one is closed");
    assert_eq!(state["panes"][0]["title"], "Next");
    let request = herdr.wait_for(|request| request.resume().is_some());
    assert_eq!(request.resume().unwrap(), ["toy", "--resume", "next"]);
    herdr.wait_for_state("blocked");
    assert_eq!(herdr.requests_of("pane.release_agent").len(), 0);
    phone.wait_for("hello", |_| {
        let items = phone.events("next", None)["items"].clone();
        items.as_array().unwrap().iter().any(|item| item["text"] == "hello")
    });
    fs::write(user.path().join("go"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<_> = output.lines().collect();
    assert_eq!(lines[..2], ["agent    toy", "session  next"], "{output}");
    assert!(lines[2].starts_with("Herdr    pane w1:p1: "), "{output}");
    let earlier = "; after a restart it brings back an earlier session, because this one has no resume command";
    assert_eq!(
        (lines[5], lines[6]),
        ("session  last", &*format!("Herdr    pane w1:p1: up to date{earlier}"))
    );
    assert_eq!(lines[9], "session  none is open");
    herdr.wait_for_pane(|pane| pane.holder.is_none());
}

/// The socket is the user's own: by its mode, and where that was opened, by who connects. Whom it drops
/// is in the status.
#[test]
fn the_links_socket_is_private_and_another_user_is_refused() {
    let user = User::new();
    let script = "printf %s \"$AGENT_PRESENCE_SOCKET\" > \"$HOME/new\"; mv \"$HOME/new\" \"$HOME/socket\"; \
                  until [ -e \"$HOME/go\" ]; do sleep 0.02; done; ap status";
    let child = wrap(&user, None, script).spawn().unwrap();
    let path = user.path().join("socket");
    eventually("the agent", || path.exists());
    let socket = PathBuf::from(fs::read_to_string(path).unwrap());
    let folder = socket.parent().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&socket), mode(folder)), (0o600, 0o700));

    let is_root = nix::unistd::geteuid().is_root();
    if is_root {
        let open = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        for folder in folder.ancestors().take_while(|folder| folder.starts_with(user.path())) {
            open(folder, 0o711);
        }
        open(&socket, 0o666);
        let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups", "curl", "-s"];
        let mut curl = Command::new("setpriv");
        curl.args(nobody).arg("--unix-socket").arg(&socket).arg("http://localhost/");
        assert_eq!(curl.output().unwrap().stdout, b"", "no word of answer");
    } else {
        println!("skipped: only root can become another user");
    }
    fs::write(user.path().join("go"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        output.ends_with("link     1 dropped, last: another user is refused\n"),
        is_root,
        "{output}"
    );
}

#[test]
fn a_text_is_said_while_it_comes() {
    let user = User::new();
    let script = "(printf 'one '; until [ -e \"$HOME/go\" ]; do sleep 0.02; done; echo two) \
                  | ap say --id r --partial -; echo all | ap say --kind markdown -; \
                  ap say --kind notice --id n careful; ap status --json; \
                  until [ -e \"$HOME/end\" ]; do sleep 0.02; done";
    let child = wrap(&user, None, script).spawn().unwrap();
    let phone = Phone::at(user.socket("toy"));
    phone.wait_ready();
    let items = || phone.events("s", None)["items"].as_array().unwrap().clone();
    phone.wait_for("partial text", |_| {
        items().first().is_some_and(|item| item["text"] == "one " && item["partial"] == true)
    });
    fs::write(user.path().join("go"), "").unwrap();
    phone.wait_for("the rest", |_| items().len() == 3);
    let texts: Vec<_> =
        items().iter().map(|item| (item["kind"].clone(), item["text"].clone())).collect();
    let expected = [("reply", "one two\n"), ("markdown", "all\n"), ("notice", "careful")];
    assert_eq!(texts, expected.map(|(kind, text)| (json!(kind), json!(text))));
    assert_eq!(items()[0]["partial"], json!(null));
    fs::write(user.path().join("end"), "").unwrap();
    let output = thread::spawn(move || child.wait_with_output().unwrap()).join().unwrap();
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(status["agent"], "toy");
}
