//! A whole agent, over its socket, from another process.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};

use agent_presence::collie::{AnswerValue, Client, ClientError, PaneState, Target};
use serde_json::json;

use crate::agent::{Agent, folder};
use crate::support::terminal::eventually;

/// N035, N044, N055, N247, N248, N249, N250, N252, N253, N255: the quick start, seen from outside.
#[test]
fn a_phone_reads_answers_and_the_agent_goes_on() {
    let folder = folder();
    let mut agent = Agent::start(folder.path());
    let socket = agent.socket();
    let found = std::fs::symlink_metadata(&socket).unwrap();
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o777, 0o600, "N173");

    assert_eq!(agent.phone.hello()["hostName"], "desk");
    let (etag, state) = agent.phone.state_if_changed(None).unwrap();
    assert!(agent.phone.state_if_changed(Some(&etag)).is_none());
    assert_eq!(state["panes"][0]["state"], "idle");
    agent.tell("working t1");
    let (_, state) = agent.phone.state_if_changed(Some(&etag)).unwrap();
    assert_eq!(state["panes"][0]["turnId"], "t1");

    agent.tell("choice q");
    let (pane, ask) = agent.phone.wait_for_ask();
    assert_eq!((&*pane, &ask["id"]), ("p", &json!("q")));
    let reply = agent.phone.answer("p", "q", &json!({"optionIds": ["yes"]}));
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(agent.line(), "answer q yes");
    assert_eq!(agent.phone.pane("p")["asks"], json!([]));

    agent.end();
    assert!(!socket.exists());
    assert_eq!(std::fs::read_dir(socket.parent().unwrap()).unwrap().count(), 0, "no lock either");
}

/// N018, N019: the client is made of the exported types.
#[test]
fn the_client_speaks_the_same_wire() {
    let folder = folder();
    let mut agent = Agent::start(folder.path());
    let mut client = Client::new(agent.socket());
    assert_eq!(client.hello().unwrap().host_name, "desk");
    let (etag, state) = client.state(None).unwrap().unwrap();
    assert_eq!(state.panes[0].state, PaneState::Idle);
    assert!(client.state(Some(&etag)).unwrap().is_none());
    agent.tell("ask q");
    agent.tell("reply r");
    let view = client.events("p", None).unwrap();
    assert!(view.reset);
    assert_eq!(view.items.unwrap()[0].id, "r");
    agent.tell("working t");
    let news = client.events("p", Some(&view.cursor)).unwrap();
    assert_eq!(news.events.unwrap().len(), 1);
    let ask = &client.state(None).unwrap().unwrap().1.panes[0].asks[0];
    let allow = AnswerValue::Options(vec!["allow".to_owned()]);
    let answered = client.answer("p", &ask.id, &allow, Some(&ask.hash), "r1").unwrap();
    assert!(answered.ok && !answered.replayed);
    assert!(client.answer("p", &ask.id, &allow, Some(&ask.hash), "r1").unwrap().replayed);
    let late = client.answer("p", &ask.id, &allow, None, "r2").unwrap_err();
    let ClientError::Refused(refusal) = late else { panic!("{late}") };
    assert_eq!((refusal.status, &*refusal.code), (409, "ask-closed"));
    assert!(client.send("p", "hello", None, false, "r3").unwrap().queued.unwrap());
}

/// N018, N019: so are its other requests, each of which the agent understands.
#[test]
fn the_client_asks_for_everything_that_can_be_asked_for() {
    let folder = folder();
    let agent = Agent::start(folder.path());
    let mut client = Client::new(agent.socket());
    let wire = client.hello().unwrap().wire;
    assert_eq!(client.say_hello(wire, "1.22.0").unwrap().host_name, "desk");
    let code = |refused: Result<_, ClientError>| match refused {
        Err(ClientError::Refused(refusal)) => refusal.code,
        other => panic!("{other:?}"),
    };
    assert_eq!(code(client.stop("p", None, "r1")), "not-supported");
    assert_eq!(code(client.tap("p", "none", Some("item"), "r2")), "unknown-action");
    assert_eq!(code(client.start("none", Some("w"), Some("go"), "r3")), "unknown-starter");
    let pane = Target::Pane("p".to_owned());
    assert_eq!(client.rename(&pane, "Other", "r4").unwrap().title.as_deref(), Some("Other"));
    assert!(client.close(&pane, "r5").unwrap().ok);
    let no_history = |refused: ClientError| matches!(refused, ClientError::Refused(_));
    assert!(client.history(None, 200).is_err_and(no_history));
    assert!(client.history_items("p", Some("1"), 200).is_err_and(no_history));
    assert_eq!(client.reopen("p", "r6").unwrap().pane_id.as_deref(), Some("p"));
}

#[test]
fn n025_n031_a_tool_of_the_agent_is_refused() {
    let folder = folder();
    let mut agent = Agent::start(folder.path());
    agent.tell("ask q");
    let socket = agent.socket().display().to_string();
    let curl = |prefix: &str| {
        format!(
            "{prefix} curl -s -o /dev/null -w '%{{http_code}}' --unix-socket {socket} \
             -H 'content-type: application/json' \
             -d '{{\"requestId\":\"x\",\"answer\":{{\"optionIds\":[\"allow\"]}}}}' \
             http://localhost/durable/v1/panes/p/asks/q"
        )
    };
    for prefix in ["", "setsid -w", "nohup", "sh -c 'exec \"$@\"' sh"] {
        assert_eq!(agent.tool(&curl(prefix)), "403", "{prefix}");
    }
    // A double fork: its parents are gone when it connects, and the agent has adopted it.
    if cfg!(target_os = "linux") {
        let at = folder.path().display().to_string();
        let orphan = format!(
            "until [ $(ps -o ppid= -p $$) = {} ]; do :; done
{} > {at}/part
mv {at}/part {at}/out
",
            agent.pid(),
            curl(""),
        );
        std::fs::write(folder.path().join("orphan.sh"), orphan).unwrap();
        let forks = format!("( setsid sh {at}/orphan.sh & )");
        let wait = format!("until [ -s {at}/out ]; do sleep 0.01; done; cat {at}/out");
        assert_eq!(agent.tool(&format!("{forks}; {wait}")), "403", "a double fork");
    }
    let read = format!("curl -s --unix-socket {socket} http://localhost/durable/v1/hello");
    assert!(agent.tool(&read).contains("\"hostName\":\"desk\""), "N027: reads stay open");
    assert_eq!(agent.phone.pane("p")["asks"][0]["id"], "q", "still open");
    assert_eq!(agent.phone.answer("p", "q", &json!({"optionIds": ["deny"]})).status, 200);
}

/// N052: the layout is made again at every start.
#[test]
fn a_killed_agent_is_replaced_and_a_stopped_one_is_not() {
    let folder = folder();
    let agent = Agent::start(folder.path());
    let socket = agent.socket();
    agent.kill();
    assert!(socket.exists(), "left behind");
    let agent = Agent::start(folder.path());
    let pid = nix::unistd::Pid::from_raw(agent.pid().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).unwrap();
    let second = std::process::Command::new(env!("CARGO_BIN_EXE_durable-agent"))
        .arg(&socket)
        .output()
        .unwrap();
    let said = String::from_utf8(second.stdout).unwrap();
    assert_eq!(said, format!("error another durable agent serves {}\n", socket.display()));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGCONT).unwrap();
    assert_eq!(agent.phone.hello()["hostName"], "desk");
}

#[test]
fn an_answer_survives_a_kill_and_is_given_to_the_same_ask() {
    let folder = folder();
    let records = folder.path().join("records");
    let mut agent = Agent::start_with(folder.path(), &[&records]);
    agent.tell("ask q");
    let body = json!({"requestId": "r", "answer": {"optionIds": ["allow"]}});
    assert_eq!(agent.phone.post("panes/p/asks/q", &body).status, 200);
    assert_eq!(agent.line(), "answer q allow");
    // The agent has had it for a while.
    let receipts = records.join("receipts");
    eventually("a note", || std::fs::read_to_string(&receipts).unwrap().contains("\"taken\""));
    agent.kill();
    let mut agent = Agent::start_with(folder.path(), &[&records]);
    let again = agent.phone.post("panes/p/asks/q", &body);
    assert_eq!(again.json()["replayed"], true, "after a restart too");
    // The agent had taken it, so the next ask of this id is a new question.
    agent.tell("ask q");
    assert_eq!(agent.phone.pane("p")["asks"][0]["id"], "q");
}

/// The folder's mode keeps other users away, and if it did not, the agent would not hear them.
#[test]
fn another_user_is_refused_outright() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: only root can become another user");
        return;
    }
    let folder = folder();
    let mut agent = Agent::start(folder.path());
    agent.tell("ask q");
    let socket = agent.socket();
    // As nobody: the status that curl is given, 000 for none, and whether it may connect.
    let curl = |options: &[&str]| {
        let output = std::process::Command::new("setpriv")
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "curl", "-sv"])
            .args(["-o", "/dev/null", "-w", "%{http_code}", "--unix-socket"])
            .arg(&socket)
            .args(options)
            .output()
            .unwrap();
        let trace = String::from_utf8(output.stderr).unwrap();
        assert!(trace.contains("Trying"), "{trace}");
        (String::from_utf8(output.stdout).unwrap(), !trace.contains("Permission denied"))
    };
    let read = ["http://localhost/durable/v1/hello"];
    assert_eq!(curl(&read), ("000".to_owned(), false));

    let open = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open(folder.path(), 0o711);
    open(socket.parent().unwrap(), 0o711);
    open(&socket, 0o666);
    let answer = [
        "-H",
        "content-type: application/json",
        "-d",
        r#"{"requestId":"r","answer":{"optionIds":["allow"]}}"#,
        "http://localhost/durable/v1/panes/p/asks/q",
    ];
    for options in [&read[..], &answer[..]] {
        assert_eq!(curl(options), ("000".to_owned(), true), "it is not even answered");
    }
    assert_eq!(agent.phone.pane("p")["asks"][0]["id"], "q", "still open, and still served");
}
