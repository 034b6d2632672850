//! The Herdr face against the fake Herdr, over both of its transports.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use agent_presence::herdr::{
    AgentName, Environment, Metadata, ReadBack, Reporter, ReporterOptions, ResumeCommand, Source,
    State, Status, TransportKind,
};
use std::time::{Duration, Instant};
use support::fake_herdr::{Behaviour, FakeHerdr, Request};

const FAKE_HERDR: &str = env!("CARGO_BIN_EXE_fake-herdr");

/// The policy's limit for an exit.
const EXIT: Duration = Duration::from_millis(300);

/// Long enough for any Herdr that answers.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug)]
enum Way {
    Socket,
    Cli,
}

const WAYS: [Way; 2] = [Way::Socket, Way::Cli];

fn environment(herdr: &FakeHerdr, way: Way, settings: &str) -> Environment {
    match way {
        Way::Socket => Environment::new("w1:p1", herdr.socket_path()).with_binary("/nope/herdr"),
        Way::Cli => Environment::new("w1:p1", herdr.folder().join("none.sock"))
            .with_binary(herdr.program(FAKE_HERDR, settings)),
    }
}

fn start(environment: Environment) -> Reporter {
    start_with(environment, ReporterOptions::default())
}

fn start_with(environment: Environment, options: ReporterOptions) -> Reporter {
    let source = Source::new("my-agent").unwrap();
    Reporter::start(environment, source, AgentName::new("my-agent").unwrap(), options).unwrap()
}

fn resume() -> ResumeCommand {
    ResumeCommand::new(["my-agent", "--resume", "s1"]).unwrap()
}

/// Waits until the reporter says so of itself.
fn wait_until(reporter: &Reporter, is_so: impl Fn(&Status) -> bool) -> Status {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = reporter.status();
        if is_so(&status) {
            return status;
        }
        assert!(Instant::now() < deadline, "{status:#?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The requests that report, without the questions.
fn reports(herdr: &FakeHerdr) -> Vec<String> {
    let questions = ["ping", "pane.get", "pane.process_info"];
    herdr
        .requests()
        .into_iter()
        .map(|request| request.method)
        .filter(|method| !questions.contains(&method.as_str()))
        .collect()
}

#[test]
fn the_whole_life_of_a_session() {
    for way in WAYS {
        let herdr = FakeHerdr::start(Behaviour::Answers);
        let reporter = start(environment(&herdr, way, ""));
        reporter.report(State::Idle, None);
        herdr.wait_for_state("idle");
        reporter.session("s1", Some(resume()));
        herdr.wait_for_pane(|pane| pane.resume.is_some());
        reporter.report(State::Working, None);
        herdr.wait_for_state("working");
        reporter.report(State::Blocked, Some("Run cargo test?"));
        let label = |pane: &support::fake_herdr::model::Pane| {
            pane.metadata["my-agent"]["state_labels"]["blocked"] == "Run cargo test?"
        };
        herdr.wait_for_pane(|pane| pane.metadata.contains_key("my-agent") && label(pane));
        reporter.report(State::Idle, None);
        herdr.wait_for_state("idle");
        reporter.release();
        assert!(reporter.finish(PATIENCE), "{way:?}: {:?}", reporter.status());
        let pane = herdr.pane("w1:p1");
        assert_eq!((pane.holder, pane.resume), (None, None), "{way:?}");
        assert_eq!(pane.metadata["my-agent"], serde_json::json!({}), "cleared before the release");
        assert_eq!(reports(&herdr).last().unwrap(), "pane.release_agent");
        let seqs: Vec<_> = herdr.requests().iter().filter_map(Request::seq).collect();
        assert!(seqs.is_sorted_by(|before, after| before < after), "{way:?}: {seqs:?}");
        let expected = match way {
            Way::Socket => TransportKind::Socket,
            Way::Cli => TransportKind::Cli,
        };
        assert_eq!(reporter.status().transport, Some(expected));
    }
}

#[test]
fn an_old_cli_loses_the_command_and_never_the_state() {
    let herdr = FakeHerdr::start_version("0.8.2", Behaviour::Answers);
    let log = herdr.folder().join("log");
    let settings = format!("FAKE_HERDR_CLI=old FAKE_HERDR_LOG='{}'", log.display());
    let reporter = start(environment(&herdr, Way::Cli, &settings));
    reporter.session("s1", Some(resume()));
    reporter.report(State::Working, None);
    herdr.wait_for_state("working");
    reporter.report(State::Idle, None);
    herdr.wait_for_state("idle");
    assert!(reporter.finish(PATIENCE));
    let log = std::fs::read_to_string(log).unwrap();
    let with_command: Vec<_> = log
        .lines()
        .filter(|line| line.contains("report"))
        .map(|line| line.contains("\"--\""))
        .collect();
    assert_eq!(with_command, [true, false, false], "{log}");
    assert_eq!(reporter.status().takes_resume_commands, Some(false));
}

#[test]
fn an_old_server_is_known_by_its_ping() {
    let herdr = FakeHerdr::start_version("0.8.2", Behaviour::Answers);
    let reporter = start(environment(&herdr, Way::Socket, ""));
    reporter.session("s1", Some(resume()));
    reporter.report(State::Working, None);
    herdr.wait_for_state("working");
    assert!(reporter.finish(PATIENCE));
    assert!(herdr.requests().iter().all(|request| request.resume().is_none()));
    assert_eq!(reporter.status().version.as_deref(), Some("0.8.2"));
}

#[test]
fn a_hung_herdr_costs_an_exit_its_limit_and_no_more() {
    for way in WAYS {
        let herdr = FakeHerdr::start(Behaviour::Hangs);
        let reporter = start(environment(&herdr, way, ""));
        reporter.report(State::Idle, None);
        herdr.wait_for(|_| true);
        reporter.release();
        let start = Instant::now();
        assert!(!reporter.finish(EXIT));
        assert!(
            start.elapsed() < EXIT + Duration::from_millis(50),
            "{way:?}: {:?}",
            start.elapsed()
        );
    }
}

#[test]
fn ten_thousand_changes_are_at_most_three_reports() {
    for way in WAYS {
        let herdr = FakeHerdr::start(Behaviour::Slow(Duration::from_millis(50)));
        let environment = environment(&herdr, way, "");
        let options = ReporterOptions::default().with_pane_ownership_check(false);
        let reporter = start_with(environment, options);
        for turn in 0..5_000 {
            reporter.report(State::Working, None);
            reporter.report(State::Blocked, Some(&turn.to_string()));
        }
        reporter.report(State::Idle, None);
        assert!(reporter.finish(PATIENCE));
        let states: Vec<_> = herdr.requests_of("pane.report_agent");
        assert!(states.len() <= 3, "{way:?}: {} reports", states.len());
        assert_eq!(states.last().unwrap().state(), Some("idle"));
    }
}

#[test]
fn a_failed_state_comes_without_anybody_doing_anything() {
    for behaviour in [
        Behaviour::Resets,
        Behaviour::LosesTheAnswer,
        Behaviour::HalfAnswers(10),
        Behaviour::Says("nonsense".to_owned()),
        Behaviour::Refuses("server_unavailable"),
    ] {
        for way in WAYS {
            let herdr = FakeHerdr::start(Behaviour::Answers);
            herdr.script("pane.report_agent", [behaviour.clone(), behaviour.clone()]);
            let reporter = start(environment(&herdr, way, ""));
            reporter.report(State::Working, None);
            let deadline = Instant::now() + PATIENCE;
            while !reporter.status().settled {
                assert!(Instant::now() < deadline, "{way:?} {behaviour:?} {:?}", reporter.status());
                std::thread::yield_now();
            }
            assert_eq!(herdr.requests_of("pane.report_agent").len(), 3);
            herdr.wait_for_state("working");
        }
    }
}

#[test]
fn metadata_is_one_call_and_cleaned() {
    for way in WAYS {
        let herdr = FakeHerdr::start(Behaviour::Answers);
        let reporter = start(environment(&herdr, way, ""));
        reporter.report(State::Idle, None);
        reporter.metadata(Metadata::new().title("Fix\nthe build").display_agent("My Agent"));
        assert!(reporter.finish(PATIENCE));
        let expected = serde_json::json!({"title": "Fix the build", "display_agent": "My Agent"});
        assert_eq!(herdr.pane("w1:p1").metadata["my-agent"], expected);
        assert_eq!(herdr.requests_of("pane.report_metadata").len(), 1);
    }
}

#[test]
fn a_source_that_somebody_muted_is_heard_again() {
    let herdr = FakeHerdr::start(Behaviour::Answers);
    herdr.change(|model| {
        let pane = model.panes.get_mut("w1:p1").unwrap();
        pane.seqs.insert("my-agent".to_owned(), 9_000_000_000_000_000);
    });
    let reporter = start(environment(&herdr, Way::Socket, ""));
    reporter.session("s1", Some(resume()));
    reporter.report(State::Working, None);
    let pane = herdr.wait_for_state("working");
    assert_eq!(pane.resume.unwrap(), resume().words());
    herdr.wait_for(|request| request.seq().is_some_and(|seq| seq > 9_000_000_000_000_000));
    reporter.report(State::Idle, None);
    herdr.wait_for_state("idle");
    wait_until(&reporter, |status| status.read_back == ReadBack::Agrees);
}
