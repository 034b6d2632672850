//! Sessions that are not the test's are not touched.

use super::*;
use restoring_herdr::SESSION;
use serde_json::json;

#[test]
fn a_name_that_is_taken_is_left_alone() {
    let mut author = Author::new();
    author.herdr.attach();
    let running = author.verify(&["--here", "--session", SESSION, "--", "my-agent"]);
    running.assert_failed("name", "there is a session `restored` already: it runs");
    assert!(author.herdr.ask("ping", &json!({})).is_some());
    assert!(!author.herdr.screen().contains("my-agent"));

    author.herdr.stop();
    let stopped = author.verify(&["--here", "--session", SESSION, "--", "my-agent"]);
    stopped.assert_failed("name", "there is a session `restored` already: it is stopped");
    assert!(author.herdr.saved().is_some());
}

#[test]
fn another_session_of_the_user_goes_on() {
    let mut author = Author::new();
    author.agent("my-agent", &format!("{REPORT}\nexec cat"));
    author.herdr.attach();
    author.verify(&["--here", "--session", "mine", "--", "my-agent"]).assert_passed();
    assert!(author.herdr.ask("ping", &json!({})).is_some());
    assert!(!author.herdr.screen().contains("my-agent"));
    assert_eq!(author.lines("homes"), vec![author.herdr.home().to_str().unwrap(); 2]);
    author.assert_clean();
}

/// Inside a pane and inside a presence, whose variables lead there.
#[test]
fn the_pane_that_it_is_run_in_is_left_alone() {
    let mut author = Author::new();
    author.agent("my-agent", &format!("{REPORT}\nexec cat"));
    author.herdr.attach();
    let socket = author.herdr.session_folder().join("herdr.sock");
    let mut command = author.command(&["--json", "--", "my-agent"]);
    command
        .env("HERDR_ENV", "1")
        .env("HERDR_PANE_ID", "w1:p1")
        .env("HERDR_SOCKET_PATH", socket)
        .env("HERDR_SESSION", SESSION)
        .env("AGENT_PRESENCE_SOCKET", "/nope")
        .env("AGENT_PRESENCE_SESSION", "outer");
    Verdict::of(command.output().unwrap()).assert_passed();
    assert_eq!(author.herdr.pane("w1:p1")["agent"], Value::Null);
    assert!(!author.herdr.screen().contains("my-agent"));
}

/// Somebody starts a session of the same name between the look and the start.
#[test]
fn a_session_that_somebody_else_starts_meanwhile_is_left_alone() {
    let author = Author::new();
    let (asked, go) = (author.traces().join("asked"), author.traces().join("go"));
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = --session ]; then\n: >{}\nuntil [ -e {} ]; do sleep 0.01; done\nfi\n\
         exec {} \"$@\"\n",
        asked.display(),
        go.display(),
        restoring_herdr::PROGRAM
    );
    let herdr = author.herdr.bin().join("herdr");
    write_program(&herdr, &script);
    let mut command = author.herdr.command(PROGRAM);
    command
        .args(["verify-restore", "--here", "--json", "--session", SESSION, "--herdr"])
        .arg(herdr);
    let command = command.args(["--", "my-agent"]).stdout(std::process::Stdio::piped()).spawn();
    eventually("the start", || asked.exists());
    let mut server = author.herdr.command(restoring_herdr::PROGRAM);
    let mut server = server.args(["--session", SESSION, "server"]).spawn().unwrap();
    eventually("a server", || author.herdr.ask("ping", &json!({})).is_some());
    fs::write(go, "").unwrap();

    let verdict = Verdict::of(command.unwrap().wait_with_output().unwrap());
    verdict.assert_failed("start", "somebody else has started a session `restored`");
    assert!(author.herdr.ask("ping", &json!({})).is_some(), "it goes on");
    assert!(author.herdr.herdr(&["session", "stop", SESSION]).status.success());
    assert!(server.wait().unwrap().success());
}
