//! A session from its first state to its release.

use super::*;

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
fn a_reporter_works_inside_a_runtime_too() {
    let herdr = FakeHerdr::start(Behaviour::Answers);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let reporter = start(environment(&herdr, Way::Socket, ""));
        reporter.report(State::Working, None);
        assert!(reporter.finish(PATIENCE));
    });
    assert_eq!(herdr.pane("w1:p1").holder.unwrap().state, "working");
}

#[test]
fn doctor_sees_who_holds_the_pane() {
    let herdr = FakeHerdr::start(Behaviour::Answers);
    let folder = tempfile::tempdir().unwrap();
    let options = ReporterOptions::default().with_state_folder(folder.path());
    let reporter = start_with(environment(&herdr, Way::Socket, ""), options);
    reporter.report(State::Blocked, None);
    assert!(reporter.finish(PATIENCE));
    let inspect = |environment| {
        let source = Source::new("my-agent").unwrap();
        let agent = AgentName::new("my-agent").unwrap();
        Inspection::of(&environment, &source, &agent, Some(folder.path())).unwrap()
    };
    let seen = inspect(environment(&herdr, Way::Socket, ""));
    assert_eq!(seen.transport, Ok(TransportKind::Socket));
    assert_eq!((seen.version.as_deref(), seen.takes_resume_commands), (Some("0.9.3"), Some(true)));
    assert_eq!(
        (seen.holder.as_deref(), seen.shown_state.as_deref()),
        (Some("my-agent"), Some("blocked"))
    );
    assert_eq!(seen.seq, Some(reporter.status().seq));
    let by_cli = inspect(environment(&herdr, Way::Cli, ""));
    assert_eq!(
        (by_cli.transport, by_cli.holder),
        (Ok(TransportKind::Cli), Some("my-agent".to_owned()))
    );
    let nobody =
        inspect(Environment::new("w1:p1", folder.path().join("none")).with_binary("/nope"));
    assert!(nobody.transport.unwrap_err().contains("no connection to Herdr's socket"));
}
