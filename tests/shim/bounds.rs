//! What an agent cannot do to us: fill our memory, or answer its own cards.

use std::fs;

use serde_json::json;

use crate::support::terminal::{Terminal, children, eventually, memory_peak};
use crate::user::{User, wait_for_state};

/// 50 MB of an OSC without an end, through the relay, and through the thread that looks at the screen.
#[test]
fn a_sequence_without_an_end_takes_no_memory() {
    let user = User::new();
    let script = "stty raw -echo; printf '\\033]9;4;0;\\007ready'; head -c 1 >/dev/null; printf '\\033]52;c;'; \
        head -c 50000000 /dev/zero | tr '\\0' A; printf '\\007\\033]9;4;3;\\007done'; head -c 1";
    let (mut terminal, phone) = user.start(&["--", "bash", "-c", script]);
    terminal.wait_for_bytes("ready");
    let relay = children(terminal.pid())[0];
    let before = memory_peak(relay);
    terminal.type_bytes("x");
    terminal.wait_for_bytes("done");
    // What comes after it is seen again.
    wait_for_state(&phone, "working");
    let after = memory_peak(relay);
    // The bounded copy that waits to be looked at, and what the allocator makes of it.
    assert!(after < before + (4 << 20), "{before} to {after}");
    terminal.type_bytes("x");
    assert!(terminal.wait().success());
}

/// The caller is an orphan in a session of its own when it answers: forked twice, its parents gone.
#[test]
fn a_process_that_hides_cannot_answer_either() {
    let user = User::new();
    let rogue = "import os, subprocess, sys, time\n\
        socket, ask, out = sys.argv[1:]\n\
        if os.fork(): os._exit(0)\n\
        os.setsid()\n\
        middle = os.getpid()\n\
        if os.fork(): os._exit(0)\n\
        while os.getppid() == middle: time.sleep(0.01)\n\
        url = f'http://localhost/durable/v1/panes/s/asks/{ask}'\n\
        body = '{\"requestId\":\"r\",\"answer\":{\"optionIds\":[\"allow\"]}}'\n\
        code = subprocess.run(['curl', '-s', '-o', '/dev/null', '-w', '%{http_code}', '--unix-socket', socket,\n\
            '-H', 'content-type: application/json', '-d', body, url], capture_output=True).stdout.decode()\n\
        open(out, 'w').write(code)\n";
    let program = user.path("rogue.py");
    fs::write(&program, rogue).unwrap();
    let out = user.path("out");
    let script = format!(
        "\"$AGENT_PRESENCE_BIN\" approve bash & read -r ask; python3 {} {} $ask {}; wait; read -r line",
        program.display(),
        user.path("run/c.sock").display(),
        out.display()
    );
    let (terminal, phone): (Terminal, _) = user.start(&["--", "bash", "-c", &script]);
    let (pane, ask) = phone.wait_for_ask();
    let id = ask["id"].as_str().unwrap();
    terminal.type_bytes(format!("{id}\r"));
    eventually("the refusal", || fs::read_to_string(&out).is_ok_and(|code| code.len() == 3));
    assert_eq!(fs::read_to_string(&out).unwrap(), "403");
    assert_eq!(phone.answer(&pane, id, &json!({"optionIds": ["deny"]})).status, 200);
}
