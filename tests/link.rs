//! The link: a presence for programs of any language, over stdin and stdout, and over its socket.

#![allow(clippy::panic, clippy::unwrap_used, reason = "what fails here fails the test")]
#![allow(clippy::print_stdout, reason = "what is skipped says so")]

#[path = "link/commands.rs"]
mod commands;
#[path = "link/examples.rs"]
mod examples;
#[path = "link/page.rs"]
mod page;
#[path = "link/schema.rs"]
mod schema;
mod support;
#[cfg(feature = "watch")]
#[path = "link/watch.rs"]
mod watch;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use schema::Conversation;
use serde_json::{Value, json};
use support::fake_herdr::{Behaviour, FakeHerdr};
use support::phone::Phone;

const PROGRAM: &str = env!("CARGO_BIN_EXE_agent-presence");

/// Long enough for any answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A throwaway user.
struct User {
    folder: tempfile::TempDir,
}

impl User {
    fn new() -> Self {
        // Not `TMPDIR`: the path of a socket has 103 bytes.
        let folder = tempfile::Builder::new().prefix("ap").tempdir_in("/tmp").unwrap();
        fs::create_dir(folder.path().join("run")).unwrap();
        fs::set_permissions(folder.path().join("run"), fs::Permissions::from_mode(0o700)).unwrap();
        Self { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn socket(&self, agent: &str) -> PathBuf {
        self.path().join("run/agent-presence").join(agent).join("collie.sock")
    }

    /// A program with this user's environment, outside Herdr.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.path())
            .env("XDG_RUNTIME_DIR", self.path().join("run"))
            .env("AGENT_PRESENCE_BIN", PROGRAM);
        command
    }
}

/// A program that runs `agent-presence link`, and talks to it.
struct Link {
    program: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    conversation: Conversation,
}

impl Link {
    /// The test is the phone, so it may not be the program itself: a shell is, and passes all on.
    fn start(user: &User, herdr: Option<&FakeHerdr>, options: &str) -> Self {
        let script = format!("\"$AGENT_PRESENCE_BIN\" link --agent prog {options}; :");
        let mut command = user.command("sh");
        command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(herdr) = herdr {
            command.envs(herdr.environment_variables()).env("HERDR_BIN_PATH", "/nope/herdr");
        }
        let mut program = command.spawn().unwrap();
        let stdout = BufReader::new(program.stdout.take().unwrap());
        let (tell, lines) = mpsc::channel();
        thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| tell.send(line))
        });
        let stdin = program.stdin.take();
        Self { program, stdin, lines, conversation: Conversation::new() }
    }

    /// Any line, also one that makes no sense.
    fn write(&mut self, line: &str) {
        self.conversation.written(line);
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn request(&mut self, id: u32, method: &str, params: &Value) {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let request = request.to_string();
        self.conversation.requested(&request);
        self.write(&request);
    }

    fn read_line(&self) -> String {
        let line = self.lines.recv_timeout(PATIENCE).unwrap();
        self.conversation.read(&line);
        line
    }

    fn read(&self) -> Value {
        serde_json::from_str(&self.read_line()).unwrap()
    }

    /// One request, and its result.
    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.request(7, method, params);
        let answer = self.read();
        assert_eq!((&answer["id"], &answer["error"]), (&json!(7), &json!(null)), "{answer}");
        answer["result"].clone()
    }

    /// Closes stdin, and waits for the end.
    fn end(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.program.wait().unwrap().code()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.program.wait();
    }
}

#[test]
fn a_program_of_any_language_is_a_full_presence() {
    let user = User::new();
    let herdr = FakeHerdr::start(Behaviour::Answers);
    let mut link = Link::start(&user, Some(&herdr), "--takes send,stop");
    let resume = json!(["prog", "--resume", "s"]);
    link.call("open", &json!({"session": "s", "title": "Try it", "resume": resume}));
    let phone = Phone::at(user.socket("prog"));
    phone.wait_ready();
    let request = herdr.wait_for(|request| request.resume().is_some());
    assert_eq!(request.resume().unwrap(), ["prog", "--resume", "s"]);
    assert_eq!(
        (&phone.hello()["caps"]["send"], &phone.hello()["caps"]["close"]),
        (&json!(true), &json!(false))
    );

    link.call("state", &json!({"session": "s", "state": "working"}));
    assert_eq!(phone.pane("s")["state"], "working", "the answer comes when it is so");
    herdr.wait_for_state("working");
    let said =
        link.call("say", &json!({"session": "s", "text": "Look", "id": "r", "partial": true}));
    assert_eq!(said, json!({"id": "r"}));
    link.call("say", &json!({"session": "s", "text": "Looking.", "id": "r"}));
    let item = json!({"id": "t", "kind": "tool", "name": "bash", "status": "running"});
    link.call("item", &json!({"session": "s", "item": item}));
    link.call("title", &json!({"session": "s", "title": "Better"}));
    assert_eq!(phone.pane("s")["title"], "Better");

    // Two asks at once; the answers come as they are given.
    link.request(1, "ask", &json!({"session": "s", "title": "Name?", "kind": "text"}));
    link.write(
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"approve\",\"params\":{\"session\":\"s\",\"tool\":\"rm\",\
         \"arguments\":{\"b\":1,\"a\":2}}}",
    );
    let state = phone.wait_for("two asks", |state| state["panes"][0]["asks"][1].is_object());
    herdr.wait_for_state("blocked");
    let asks = &state["panes"][0]["asks"];
    assert_eq!(asks[1]["tool"], "rm(b: 1, a: 2)", "in the order of the call");
    phone.answer("s", asks[1]["id"].as_str().unwrap(), &json!({"optionIds": ["deny"]}));
    let answer = link.read();
    assert_eq!((&answer["id"], &answer["result"]["approved"]), (&json!(2), &json!(false)));
    assert_eq!(answer["result"]["decidedBy"], "phone");
    link.call("withdraw", &json!({"request": 1}));
    let answer = link.read();
    assert_eq!((&answer["id"], &answer["result"]["decidedBy"]), (&json!(1), &json!("program")));

    link.call("release", &json!({"session": "s"}));
    herdr.wait_for_pane(|pane| pane.holder.is_none());
    assert_eq!(link.end(), Some(0));
    assert!(!user.socket("prog").exists());
}

#[test]
fn wishes_are_notifications_and_are_accepted_or_refused() {
    let user = User::new();
    let mut link = Link::start(&user, None, "--takes all --patience 300ms");
    link.call("open", &json!({"session": "s"}));
    link.call("subscribe", &json!({}));
    let phone = Phone::at(user.socket("prog"));
    phone.wait_ready();
    let send = |words: &'static str| {
        let socket = phone.socket().to_owned();
        thread::spawn(move || {
            let body = json!({"requestId": words, "text": words});
            Phone::at(socket).post("panes/s/send", &body).json()
        })
    };
    let reply = send("hello");
    let wish = link.read();
    assert_eq!(wish["method"], "wish");
    let expected = json!({"requestId": "hello", "wanted": "send", "session": "s", "text": "hello"});
    assert_eq!(wish["params"], expected);
    link.call("accept", &json!({"requestId": "hello"}));
    assert_eq!(reply.join().unwrap()["ok"], true);
    assert_eq!(phone.events("s", None)["items"][0]["requestId"], "hello");

    let reply = send("no");
    link.read();
    link.call("refuse", &json!({"requestId": "no", "reason": "Not now."}));
    assert_eq!(reply.join().unwrap()["reason"], "Not now.");
    // No answer in time, and an answer that is too late.
    let reply = send("late");
    link.read();
    assert_eq!(reply.join().unwrap()["code"], "refused");
    link.request(9, "accept", &json!({"requestId": "late"}));
    assert_eq!(link.read()["error"]["code"], -32004);
}

/// The link ends with its parent: cards are taken along, and nobody quit.
#[test]
fn the_link_ends_with_its_parent() {
    let user = User::new();
    let herdr = FakeHerdr::start(Behaviour::Answers);
    let mut link = Link::start(&user, Some(&herdr), "");
    link.call("open", &json!({"session": "s"}));
    link.call("state", &json!({"session": "s", "state": "working"}));
    link.request(1, "approve", &json!({"session": "s", "tool": "rm"}));
    Phone::at(user.socket("prog")).wait_for_ask();
    herdr.wait_for_state("blocked");
    assert_eq!(link.end(), Some(0));
    assert_eq!(herdr.pane("w1:p1").holder.unwrap().state, "idle");
    assert_eq!(herdr.requests_of("pane.release_agent").len(), 0);
    assert!(!user.socket("prog").exists());
}

/// The program that runs the link, and what it starts, may ask and may never answer.
#[test]
fn the_program_cannot_answer_its_own_card() {
    let user = User::new();
    let script = r#"
        mkfifo "$HOME/in"
        "$AGENT_PRESENCE_BIN" link --agent prog < "$HOME/in" > /dev/null &
        exec 3> "$HOME/in"
        echo '{"jsonrpc":"2.0","id":1,"method":"open","params":{"session":"s"}}' >&3
        echo '{"jsonrpc":"2.0","id":2,"method":"approve","params":{"session":"s","tool":"rm","call":"c"}}' >&3
        curl() { command curl -s --unix-socket "$XDG_RUNTIME_DIR/agent-presence/prog/collie.sock" "$@"; }
        url=http://localhost/durable/v1
        until curl "$url/state" | grep -q '"kind":"approval"'; do sleep 0.02; done
        ask=$(curl "$url/state" | sed 's/.*"asks":\[{"id":"\([^"]*\)".*/\1/')
        curl -o /dev/null -w '%{http_code}' -H 'content-type: application/json' \
            -d '{"requestId":"r","answer":{"optionIds":["allow"]}}' "$url/panes/s/asks/$ask"
        exec 3>&-; wait
    "#;
    let output = user.command("bash").args(["-c", script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "403");
}

#[test]
fn malformed_input_is_answered_and_the_connection_lives_on() {
    let user = User::new();
    let mut link = Link::start(&user, None, "");
    link.call("open", &json!({"session": "s"}));
    let long = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{}\"}}", "x".repeat(3 << 20));
    let cases: [(&str, i64, Value); 12] = [
        ("nonsense", -32700, Value::Null),
        ("", -32700, Value::Null),
        ("{\"jsonrpc\":\"2.0\"", -32700, Value::Null),
        ("{\"id\":1}", -32600, Value::Null),
        ("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\"}]", -32600, Value::Null),
        ("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"status\"}", -32600, json!(1)),
        ("{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"status\"}", -32600, Value::Null),
        ("{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"answer\"}", -32601, json!("a")),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"state\"}", -32602, json!(1)),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"state\",\"params\":[\"s\",\"idle\"]}",
            -32602,
            json!(1),
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"state\",\"params\":{\"session\":\"x\",\"state\":\"idle\"}}",
            -32001,
            json!(1),
        ),
        (&long, -32600, Value::Null),
    ];
    for (line, code, id) in cases {
        link.write(line);
        let answer = link.read();
        let shown = &line[..line.len().min(80)];
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id), "{shown}");
    }
    // A notification has no answer, and what is longest fits.
    link.write("{\"jsonrpc\":\"2.0\",\"method\":\"state\",\"params\":{\"session\":\"s\",\"state\":\"working\"}}");
    let frame = "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"say\",\"params\":{\"session\":\"s\",\"text\":\"\"}}";
    let longest = "x".repeat((1 << 20) - 1 - frame.len());
    link.write(&frame.replace("\"\"", &format!("\"{longest}\"")));
    assert_eq!(link.read()["id"], 3);
    link.write(&frame.replace("\"\"", &format!("\"{longest}x\"")));
    let answer = link.read();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32600)));
    assert_eq!(link.call("status", &json!({}))["agent"], "prog");
}

/// A program that reads nothing: the link says why it goes, and goes.
#[test]
fn a_program_that_does_not_read_is_dropped_with_a_reason() {
    let user = User::new();
    let mut command = user.command(PROGRAM);
    command.args(["link", "--agent", "prog"]).stdin(Stdio::piped());
    let mut link = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = link.stdin.take().unwrap();
    let unread = link.stdout.take();
    let asking = thread::spawn(move || {
        let id = "x".repeat(10_000);
        let request = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{id}\",\"method\":\"status\"}}");
        while writeln!(stdin, "{request}").is_ok() {}
    });
    let mut said = String::new();
    BufReader::new(link.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "agent-presence: the link is dropped: nobody read an answer for 10 s\n");
    drop(unread);
    assert_eq!(link.wait().unwrap().code(), Some(0));
    asking.join().unwrap();
}

/// A reason to be blocked is its connection's, whatever else is said, and ends with it.
#[test]
fn blocks_and_turns_are_those_of_the_api() {
    let user = User::new();
    let herdr = FakeHerdr::start(Behaviour::Answers);
    let mut link = Link::start(&user, Some(&herdr), "");
    link.call("open", &json!({"session": "s"}));
    assert_eq!(link.call("turn", &json!({"session": "s"})), json!({}));
    let login = link.call("block", &json!({"session": "s", "message": "log in"}));
    let key = link.call("block", &json!({"session": "s", "message": "press a key"}));
    assert_eq!((login, key), (json!({"block": 1}), json!({"block": 2})));
    link.call("state", &json!({"session": "s", "state": "working"}));
    assert_eq!(link.call("turn", &json!({"session": "s"})), json!({"turn": "t-1"}));
    let phone = Phone::at(user.socket("prog"));
    let message = |text: &'static str| {
        herdr.wait_for_pane(|pane| {
            pane.holder.as_ref().is_some_and(|holder| holder.message.as_deref() == Some(text))
        });
    };
    message("log in");
    link.call("unblock", &json!({"block": 1}));
    message("press a key");
    assert_eq!(phone.pane("s")["state"], "waiting");
    link.request(9, "unblock", &json!({"block": 1}));
    assert_eq!(link.read()["error"]["message"], "no `block` 1 stands here");
    link.call("unblock", &json!({"block": 2}));
    assert_eq!(phone.pane("s")["state"], "working");
    herdr.wait_for_state("working");
    // Said again after a stop, and released without a name: all of them.
    link.call("resumed", &json!({}));
    link.call("open", &json!({"session": "t"}));
    assert_eq!(link.call("status", &json!({"session": "t"}))["session"], "t");
    link.call("release", &json!({}));
    assert_eq!(phone.state()["panes"], json!([]));
    assert_eq!(link.call("status", &json!({"session": "t"})).get("session"), None);
    herdr.wait_for_pane(|pane| pane.holder.is_none());
}

#[test]
fn more_than_256_asks_at_once_are_refused() {
    let user = User::new();
    let mut link = Link::start(&user, None, "");
    link.call("open", &json!({"session": "s"}));
    for id in 0..257 {
        link.request(id, "ask", &json!({"session": "s", "title": "Name?", "kind": "text"}));
    }
    let answer = link.read();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(256), &json!(-32003)));
    // One less, and there is room again.
    link.request(300, "withdraw", &json!({"request": 5}));
    let mut answered = [link.read()["id"].clone(), link.read()["id"].clone()];
    answered.sort_by_key(Value::to_string);
    assert_eq!(answered, [json!(300), json!(5)]);
    assert_eq!(Phone::at(user.socket("prog")).pane("s")["asks"].as_array().unwrap().len(), 255);
}

/// Who asks over stdin is the agent itself: its end withdraws nothing that it can ask again.
#[test]
fn an_open_card_is_there_when_the_program_comes_back() {
    let user = User::new();
    let phone = Phone::at(user.socket("prog"));
    let approve = |id| json!({"session": "s", "tool": "deploy", "call": id});
    let mut link = Link::start(&user, None, "");
    link.call("open", &json!({"session": "s"}));
    link.request(1, "approve", &approve("c1"));
    let (_, card) = phone.wait_for_ask();
    drop(link.stdin.take());
    assert_eq!(link.program.wait().unwrap().code(), Some(0));

    let mut link = Link::start(&user, None, "");
    link.call("open", &json!({"session": "s"}));
    assert_eq!(phone.pane("s")["asks"], json!([card]));
    let answer = phone.answer("s", card["id"].as_str().unwrap(), &json!({"optionIds": ["allow"]}));
    assert_eq!(answer.status, 200);
    link.request(2, "approve", &approve("c1"));
    assert_eq!(link.read()["result"]["approved"], true);
    // What it withdraws itself is gone.
    link.request(3, "approve", &approve("c2"));
    phone.wait_for_ask();
    link.request(4, "withdraw", &json!({"request": 3}));
    let mut answered = [link.read()["id"].clone(), link.read()["id"].clone()];
    answered.sort_by_key(Value::to_string);
    assert_eq!(answered, [json!(3), json!(4)]);
    drop(link.stdin.take());
    assert_eq!(link.program.wait().unwrap().code(), Some(0));
    let mut link = Link::start(&user, None, "");
    link.call("open", &json!({"session": "s"}));
    assert_eq!(phone.pane("s")["asks"], json!([]));
}
