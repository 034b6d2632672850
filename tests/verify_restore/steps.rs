//! It passes, and fails at each step in words of its own.

use super::*;
use serde_json::json;

/// For tests that wait for what never comes.
const SHORT: &str = "6s";

#[test]
fn an_agent_that_comes_back_passes() {
    let author = Author::new();
    author.agent("my-agent", &format!("echo \"words: $*\"\n{REPORT}\nexec cat"));
    let verdict = author.verify(&["--", "my-agent", "it's", ""]);
    verdict.assert_passed();
    let names: Vec<&Value> =
        verdict.report["steps"].as_array().unwrap().iter().map(|step| &step["name"]).collect();
    assert_eq!(names, ["name", "start", "report", "stop", "command", "restart", "resume"]);
    assert_eq!(verdict.report["herdr"], "0.9.3");
    assert_eq!(verdict.report["failed"], Value::Null);
    assert!(verdict.report["session"].as_str().unwrap().starts_with("verify-"));
    assert_eq!(verdict.step("report")["typed"], r"my-agent 'it'\''s' ''");
    assert_eq!(verdict.step("command")["typed"], "my-agent --resume 'sess 1'");
    assert_eq!(verdict.step("resume")["typed"], "my-agent --resume 'sess 1'");
    let seen = verdict.step("resume")["seen"].as_array().unwrap();
    assert!(seen.contains(&json!("words: --resume sess 1")), "{seen:?}");
    let times = |name: &str| verdict.step(name)["milliseconds"].as_u64().unwrap();
    assert!(times("start") <= times("report") && times("report") <= times("resume"));
    author.assert_clean();
    let homes = author.lines("homes");
    assert_eq!(homes.len(), 2, "it ran twice");
    assert!(homes.iter().all(|home| Path::new(home) != author.herdr.home()), "{homes:?}");
    assert!(!author.herdr.config_folder().exists(), "nothing of it is in the author's folders");
}

#[test]
fn people_see_a_line_a_step() {
    let author = Author::new();
    author.agent("my-agent", &format!("{REPORT}\nexec cat"));
    let output = author.command(&["--", "my-agent"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.lines().any(|line| line.starts_with("ok ") && line.contains("resume")), "{text}");
    assert!(text.contains("typed: my-agent --resume 'sess 1'"), "{text}");
    assert_eq!(text.lines().last(), Some("passed: the agent comes back"));
}

#[test]
fn a_wrapped_agent_that_names_its_session_passes() {
    let author = Author::new();
    // What the agent runs itself, and what Herdr types.
    let inner = "\"$AGENT_PRESENCE_BIN\" session s1 -- my-agent --resume s1\n\
                 \"$AGENT_PRESENCE_BIN\" state idle\nexec cat";
    author.agent("inner-agent", inner);
    let outer = format!("exec {PROGRAM} wrap --agent my-agent --session s1 -- inner-agent \"$@\"");
    author.agent("my-agent", &outer);
    let verdict = author.verify(&["--", "my-agent"]);
    verdict.assert_passed();
    assert_eq!(verdict.step("resume")["typed"], "my-agent --resume s1");
    author.assert_clean();
}

/// The lines of the README and of the help.
#[test]
fn a_wrapped_agent_with_a_template_passes() {
    let author = Author::new();
    author.herdr.link("agent-presence", PROGRAM);
    let toy_agent = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/toy-agent");
    author.agent("toy-agent", &format!("exec {toy_agent} \"$@\""));
    let resume = "toy-agent --resume {session}";
    let verdict =
        author.verify(&["--", "agent-presence", "wrap", "--resume", resume, "--", "toy-agent"]);
    verdict.assert_passed();
    let typed = verdict.step("resume")["typed"].as_str().unwrap();
    assert!(typed.starts_with("agent-presence resume "), "{typed}");
    let seen = verdict.step("resume")["seen"].to_string();
    assert!(seen.contains("Resumed session "), "{seen}");
    author.assert_clean();
}

#[test]
fn an_agent_that_does_not_report() {
    let author = Author::new();
    author.agent("my-agent", "echo 'log in first'\nexec cat");
    let verdict = author.verify(&["--timeout", SHORT, "--", "my-agent"]);
    verdict.assert_failed("report", "no agent has reported in the pane");
    let seen = verdict.step("report")["seen"].to_string();
    assert!(seen.contains("log in first"), "{seen}");
    author.assert_clean();
}

#[test]
fn an_agent_that_never_is_idle() {
    let author = Author::new();
    author.agent("my-agent", &format!("{}\nexec cat", REPORT.replace("idle", "working")));
    let verdict = author.verify(&["--timeout", SHORT, "--", "my-agent"]);
    verdict.assert_failed("report", "is not idle: Herdr shows `my-agent`, working");
    author.assert_clean();
}

#[test]
fn an_agent_that_the_login_shell_does_not_find() {
    let author = Author::new();
    let verdict = author.verify(&["--", "my-agent"]);
    verdict.assert_failed("report", "my-agent: command not found");
    let todo = verdict.step("report")["todo"].as_str().unwrap().to_owned();
    assert!(todo.contains("PATH of your login shell"), "{todo}");
}

#[test]
fn an_agent_without_a_resume_command() {
    let author = Author::new();
    let report = REPORT.split(" -- ").next().unwrap();
    author.agent("my-agent", &format!("{report}\nexec cat"));
    let verdict = author.verify(&["--timeout", SHORT, "--", "my-agent"]);
    verdict.assert_failed("command", "reported no resume command");
    author.assert_clean();
}

#[test]
fn a_herdr_that_knows_no_resume_commands() {
    let author = Author { herdr: RestoringHerdr::prepare(&[("FAKE_HERDR_VERSION", "0.8.2")]) };
    author.agent("my-agent", &format!("{REPORT}\nexec cat"));
    let verdict = author.verify(&["--timeout", SHORT, "--", "my-agent"]);
    verdict.assert_failed("command", "Herdr did not take it");
    let todo = verdict.step("command")["todo"].as_str().unwrap().to_owned();
    assert!(todo.contains("from 0.9.2 on, and this one is 0.8.2"), "{todo}");
    author.assert_clean();
}

#[test]
fn a_command_that_the_login_shell_does_not_find() {
    let author = Author::new();
    author.agent("my-agent", &format!("{}\nexec cat", REPORT.replace("-- my-agent", "-- other")));
    let verdict = author.verify(&["--", "my-agent"]);
    verdict.assert_failed("resume", "other: command not found");
    assert_eq!(verdict.step("resume")["typed"], "other --resume 'sess 1'");
    author.assert_clean();
}

#[test]
fn a_resumed_agent_that_does_not_report() {
    let author = Author::new();
    let script = format!("[ \"${{1:-}}\" = --resume ] && exec cat\n{REPORT}\nexec cat");
    author.agent("my-agent", &script);
    let verdict = author.verify(&["--timeout", SHORT, "--", "my-agent"]);
    let words = "the resume command runs, and no agent `my-agent` has reported";
    verdict.assert_failed("resume", words);
    author.assert_clean();
}

#[test]
fn a_resumed_agent_that_ends() {
    let author = Author::new();
    author.agent("my-agent", &format!("[ \"${{1:-}}\" = --resume ] && exit 3\n{REPORT}\nexec cat"));
    let verdict = author.verify(&["--timeout", SHORT, "--", "my-agent"]);
    verdict.assert_failed("resume", "the resumed agent has ended");
    author.assert_clean();
}

#[test]
fn a_herdr_that_is_told_to_resume_nothing() {
    let author = Author::new();
    author.agent("my-agent", &format!("{REPORT}\nexec cat"));
    fs::create_dir_all(author.herdr.config_folder()).unwrap();
    let config = "[session]\nresume_agents_on_restore = false\n";
    fs::write(author.herdr.config_folder().join("config.toml"), config).unwrap();
    let verdict = author.verify(&["--here", "--timeout", SHORT, "--", "my-agent"]);
    verdict.assert_failed("resume", "Herdr did not type the resume command");
    author.assert_clean();
    // His own configuration does not count elsewhere.
    author.verify(&["--", "my-agent"]).assert_passed();
}

/// Only what a login shell gets and `HERDR_*` come back.
#[test]
fn an_agent_that_needs_its_environment() {
    let author = Author::new();
    author.agent("my-agent", &format!("[ -n \"$WANTED\" ] || exec cat\n{REPORT}\nexec cat"));
    let words = ["--timeout", SHORT, "--", "env", "WANTED=1", "my-agent"];
    let verdict = author.verify(&words);
    verdict.assert_failed("resume", "no agent `my-agent` has reported");
    author.assert_clean();
}
