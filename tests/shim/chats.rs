//! What of the terminal is in the chat.

use crate::support::phone::Phone;
use crate::support::terminal::{Terminal, eventually};
use crate::user::{User, chat};

/// A line-by-line agent: it spins, then answers in two lines.
pub(crate) const REPL: &str = "while printf '> ' && read -r line; do \
    for i in 1 2 3 4; do printf '\\r\\342\\240\\213 Thinking %s' $i; sleep 0.2; done; \
    printf '\\r\\033[K\\033[1mI have looked\\033[0m at:\\n  %s\\n' \"$line\"; done";

fn start(user: &User, options: &[&str], script: &str) -> (Terminal, Phone) {
    user.start(&[options, &["--", "bash", "-c", script]].concat())
}

fn texts(items: &[(&str, &str)]) -> Vec<(String, String)> {
    items.iter().map(|(kind, text)| ((*kind).to_owned(), (*text).to_owned())).collect()
}

fn wait_for_chat(phone: &Phone, expected: &[(&str, &str)]) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while chat(phone) != texts(expected) {
        assert!(std::time::Instant::now() < end, "{:?} instead of {expected:?}", chat(phone));
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn a_turn_is_the_users_line_and_the_answer() {
    let user = User::new();
    let (terminal, phone) = start(&user, &[], REPL);
    terminal.wait_for("> ");
    terminal.type_bytes("the build\r");
    wait_for_chat(&phone, &[("user", "the build"), ("reply", "I have looked at:\n  the build")]);
    terminal.type_bytes("the tests\r");
    wait_for_chat(
        &phone,
        &[
            ("user", "the build"),
            ("reply", "I have looked at:\n  the build"),
            ("user", "the tests"),
            ("reply", "I have looked at:\n  the tests"),
        ],
    );
}

#[test]
fn off_is_off() {
    let user = User::new();
    let (terminal, phone) = start(&user, &["--chat", "off"], REPL);
    terminal.wait_for("> ");
    terminal.type_bytes("the build\r");
    terminal.wait_for("I have looked");
    phone.wait_for("idle", |state| state["panes"][0]["state"] == "idle");
    assert_eq!(chat(&phone), []);
}

#[test]
fn live_shows_what_there_is_so_far() {
    let user = User::new();
    let script =
        "printf '> '; read -r line; echo first; read -rt 2; echo second; printf '> '; read -r line";
    let (terminal, phone) = start(&user, &["--chat", "live"], script);
    terminal.wait_for("> ");
    terminal.type_bytes("go\r");
    eventually("the beginning", || {
        chat(&phone).contains(&("reply".to_owned(), "first".to_owned()))
    });
    wait_for_chat(&phone, &[("user", "go"), ("reply", "first\nsecond")]);
}

#[test]
fn what_the_agent_says_itself_is_not_repeated() {
    let user = User::new();
    let script = "printf '> '; read -r line; \"$AGENT_PRESENCE_BIN\" state working; \
        \"$AGENT_PRESENCE_BIN\" say --kind user \"$line\"; echo shown; sleep 0.7; \
        \"$AGENT_PRESENCE_BIN\" say 'said'; \"$AGENT_PRESENCE_BIN\" state idle; read -r line";
    let (mut terminal, phone) = start(&user, &[], script);
    terminal.wait_for("> ");
    terminal.type_bytes("go\r");
    wait_for_chat(&phone, &[("user", "go"), ("reply", "said")]);
    phone.wait_for("idle", |state| state["panes"][0]["state"] == "idle");
    assert_eq!(chat(&phone), texts(&[("user", "go"), ("reply", "said")]));
    terminal.type_bytes("\r");
    assert_eq!(terminal.wait().code(), Some(0));
}

/// The agent's own line of the user's may come before anybody has looked at the Enter, and even before its
/// word that a turn runs. A card that stays open for longer than we wait for that line changes nothing.
#[test]
fn the_users_line_is_not_doubled_while_a_card_is_open() {
    let working = "\"$AGENT_PRESENCE_BIN\" state working";
    let heard = "\"$AGENT_PRESENCE_BIN\" say --kind user \"$line\"";
    let script = |first: &str| {
        format!(
            "while printf '> ' && read -r line; do {first}; \
             \"$AGENT_PRESENCE_BIN\" approve --timeout 2500ms deploy; \
             \"$AGENT_PRESENCE_BIN\" say \"decided=$?\"; \"$AGENT_PRESENCE_BIN\" state idle; done"
        )
    };
    // A program that speaks to the link itself is faster than any command.
    let at_once = "import json, os, socket\n\
        link = socket.socket(socket.AF_UNIX)\n\
        link.connect(os.environ['AGENT_PRESENCE_SOCKET'])\n\
        lines = link.makefile('rw')\n\
        def call(method, **params):\n\
        \x20   request = {'jsonrpc': '2.0', 'id': 1, 'method': method, 'params': {'session': 's', **params}}\n\
        \x20   print(json.dumps(request), file=lines, flush=True)\n\
        \x20   lines.readline()\n\
        while True:\n\
        \x20   line = input('> ')\n\
        \x20   call('state', state='working')\n\
        \x20   call('say', kind='user', text=line)\n\
        \x20   call('approve', tool='deploy', timeoutMs=2500)\n\
        \x20   call('say', text='decided=5')\n\
        \x20   call('state', state='idle')\n";
    let early = script(&format!("{heard}; {working}"));
    for agent in [["bash", "-c", early.as_str()], ["python3", "-c", at_once]] {
        let user = User::new();
        let (terminal, phone) = user.start(&[&["--"], &agent[..]].concat());
        for turn in 1..=2 {
            terminal.wait_for_count_of("> ", turn);
            terminal.type_bytes("deploy\r");
            phone.wait_for_ask();
            let timed_out = ("notice", "Timed out before an answer: deploy wants to run");
            let all = [("user", "deploy"), timed_out, ("reply", "decided=5")];
            wait_for_chat(&phone, &all.repeat(turn));
        }
    }
}

/// What is typed or shown is in no file, unless the agent writes one.
#[test]
fn without_records_nothing_is_written_down() {
    let user = User::new();
    let (mut terminal, phone) = start(&user, &["--chat", "live", "--no-records"], REPL);
    terminal.wait_for("> ");
    terminal.type_bytes("open-sesame\r");
    wait_for_chat(
        &phone,
        &[("user", "open-sesame"), ("reply", "I have looked at:\n  open-sesame")],
    );
    let mut folders = vec![user.path("")];
    let mut looked = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = std::fs::read(&path) {
                looked += 1;
                let found = memchr::memmem::find(&text, b"open-sesame").is_some();
                assert!(!found, "{} has it", path.display());
            }
        }
    }
    assert!(looked > 0, "the sequence numbers at least");
    terminal.type_bytes([4]);
    assert_eq!(terminal.wait().code(), Some(0));
}

#[test]
fn a_full_screen_agent_gives_its_last_screen() {
    let user = User::new();
    let script = "stty -echo -icanon; printf '\\033[?1049h\\033[Hask'; read -rn1; \
        printf '\\033]9;4;3;\\007\\033[H\\033[Jworking'; read -rn1; \
        printf '\\033[H\\033[JThe answer\\r\\nis 42.\\033]9;4;0;\\007'; read -rn1";
    let (terminal, phone) = start(&user, &[], script);
    terminal.wait_for("ask");
    terminal.type_bytes("x");
    phone.wait_for("working", |state| state["panes"][0]["state"] == "working");
    terminal.type_bytes("x");
    wait_for_chat(&phone, &[("code", "The answer\nis 42.")]);
}
