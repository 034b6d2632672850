//! A Herdr that is old, hung, refusing or gone.

use super::*;

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
        assert!(start.elapsed() < EXIT + SLACK, "{way:?}: {:?}", start.elapsed());
    }
}

#[test]
fn a_failed_state_comes_without_anybody_doing_anything() {
    let behaviours = [
        Behaviour::Resets,
        Behaviour::LosesTheAnswer,
        Behaviour::HalfAnswers(10),
        Behaviour::Says("nonsense".to_owned()),
        Behaviour::Refuses("server_unavailable"),
    ];
    let check = |behaviour: &Behaviour, way: Way| {
        let herdr = FakeHerdr::start(Behaviour::Answers);
        herdr.script("pane.report_agent", [behaviour.clone(), behaviour.clone()]);
        let reporter = start(environment(&herdr, way, ""));
        reporter.report(State::Working, None);
        wait_until(&reporter, |status| status.settled);
        assert_eq!(herdr.requests_of("pane.report_agent").len(), 3, "{way:?} {behaviour:?}");
        herdr.wait_for_state("working");
    };
    // Each waits 0.75 s of backoff: all at once.
    thread::scope(|scope| {
        for behaviour in &behaviours {
            for way in WAYS {
                scope.spawn(move || check(behaviour, way));
            }
        }
    });
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

#[test]
fn a_refused_command_never_takes_the_state_with_it() {
    for code in ["invalid_resume_argv", "resume_not_accepted"] {
        for way in WAYS {
            let herdr = FakeHerdr::start(Behaviour::Answers);
            herdr.script("pane.report_agent", [Behaviour::Refuses(code)]);
            let reporter = start(environment(&herdr, way, ""));
            reporter.session("s1", Some(resume()));
            reporter.report(State::Working, None);
            herdr.wait_for_state("working");
            let reports = herdr.requests_of("pane.report_agent");
            let carried: Vec<_> = reports.iter().map(|report| report.resume().is_some()).collect();
            assert_eq!(carried, [true, false], "{code} {way:?}");
        }
    }
}

#[test]
fn a_command_that_is_accepted_late_is_in_force_in_the_end() {
    for way in WAYS {
        let herdr = FakeHerdr::start(Behaviour::Answers);
        herdr.change(|model| model.unaccepted_commands = 2);
        let reporter = start(environment(&herdr, way, ""));
        reporter.session("s1", Some(resume()));
        reporter.report(State::Working, None);
        herdr.wait_for_pane(|pane| pane.resume.as_deref() == Some(resume().words()));
        wait_until(&reporter, |status| status.resume_in_force);
    }
}

#[test]
fn a_full_backlog_is_no_hang() {
    let herdr = FakeHerdr::start(Behaviour::Answers);
    let full = FakeHerdr::full_backlog();
    let environment =
        Environment::new("w1:p1", full.socket_path()).with_binary(herdr.program(FAKE_HERDR, ""));
    let reporter = start(environment);
    reporter.report(State::Working, None);
    herdr.wait_for_state("working");
    assert_eq!(wait_until(&reporter, |status| status.settled).transport, Some(TransportKind::Cli));
}

#[test]
fn a_protocol_mismatch_is_said_and_tried_again() {
    let herdr = FakeHerdr::start(Behaviour::Answers);
    let reporter = start(environment(&herdr, Way::Cli, "FAKE_HERDR_CLI=mismatch"));
    reporter.report(State::Working, None);
    let status = wait_until(&reporter, |status| status.last_error.is_some());
    let error = status.last_error.unwrap_or_default();
    assert!(error.contains("protocol_mismatch"), "{error}");
    assert!(!status.settled);
    // The user restarts the server, or upgrades the program.
    herdr.program(FAKE_HERDR, "");
    herdr.wait_for_state("working");
}

#[test]
fn a_missing_program_is_an_error_to_tell_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("none.sock");
    let reporter = start(Environment::new("w1:p1", socket).with_binary("/nope"));
    reporter.report(State::Working, None);
    wait_until(&reporter, |status| status.last_error.is_some());
    let begun = Instant::now();
    reporter.release();
    assert!(!reporter.finish(EXIT));
    assert!(begun.elapsed() < EXIT + SLACK);
}

#[test]
fn a_pane_that_was_not_found_once_is_found_again() {
    for way in WAYS {
        let herdr = FakeHerdr::start(Behaviour::Answers);
        herdr.script("pane.report_agent", [Behaviour::Refuses("pane_not_found")]);
        let reporter = start(environment(&herdr, way, ""));
        reporter.report(State::Working, None);
        herdr.wait_for_state("working");
    }
}

#[test]
fn a_server_that_comes_back_gets_the_state_that_waited() {
    for broken in [Behaviour::Resets, Behaviour::Hangs] {
        let herdr = FakeHerdr::start(broken.clone());
        let reporter = start(environment(&herdr, Way::Socket, ""));
        reporter.report(State::Working, None);
        wait_until(&reporter, |status| status.last_error.is_some());
        assert!(!reporter.status().settled, "{broken:?}");
        herdr.set_usual(Behaviour::Answers);
        herdr.wait_for_state("working");
    }
}
