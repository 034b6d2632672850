//! The Herdr face against the fake Herdr, over both of its transports.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod support;

use agent_presence::Clock;
use agent_presence::herdr::{
    AgentName, Environment, Inspection, Metadata, Ownership, ReadBack, Reporter, ReporterOptions,
    ResumeCommand, Source, State, Status, TransportKind,
};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};
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
    Reporter::start(
        environment,
        source,
        AgentName::new("my-agent").unwrap(),
        options,
    )
    .unwrap()
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
        thread::sleep(Duration::from_millis(1));
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
        assert!(
            reporter.finish(PATIENCE),
            "{way:?}: {:?}",
            reporter.status()
        );
        let pane = herdr.pane("w1:p1");
        assert_eq!((pane.holder, pane.resume), (None, None), "{way:?}");
        assert_eq!(
            pane.metadata["my-agent"],
            serde_json::json!({}),
            "cleared before the release"
        );
        assert_eq!(reports(&herdr).last().unwrap(), "pane.release_agent");
        let seqs: Vec<_> = herdr.requests().iter().filter_map(Request::seq).collect();
        assert!(
            seqs.is_sorted_by(|before, after| before < after),
            "{way:?}: {seqs:?}"
        );
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
    assert!(
        herdr
            .requests()
            .iter()
            .all(|request| request.resume().is_none())
    );
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
        assert_eq!(
            herdr.requests_of("pane.report_agent").len(),
            3,
            "{way:?} {behaviour:?}"
        );
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
fn metadata_is_one_call_and_cleaned() {
    for way in WAYS {
        let herdr = FakeHerdr::start(Behaviour::Answers);
        let reporter = start(environment(&herdr, way, ""));
        reporter.report(State::Idle, None);
        reporter.metadata(
            Metadata::new()
                .title("Fix\nthe build")
                .display_agent("My Agent"),
        );
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
        pane.seqs
            .insert("my-agent".to_owned(), 9_000_000_000_000_000);
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
            let carried: Vec<_> = reports
                .iter()
                .map(|report| report.resume().is_some())
                .collect();
            assert_eq!(carried, [true, false], "{code} {way:?}");
            let apart = reports[1].at - reports[0].at;
            assert!(apart < Duration::from_millis(200), "at once: {apart:?}");
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
    assert_eq!(
        wait_until(&reporter, |status| status.settled).transport,
        Some(TransportKind::Cli)
    );
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
fn a_hung_program_is_killed_with_its_children_and_reaped() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let program = folder.path().join("herdr");
    let script = format!(
        "#!/bin/sh\nsleep 3600 &\necho $$ $! >>'{}'\nwait\n",
        pids.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let socket = folder.path().join("none.sock");
    let reporter = start(Environment::new("w1:p1", socket).with_binary(program));
    reporter.report(State::Working, None);
    let begun = Instant::now();
    let status = wait_until(&reporter, |status| status.last_error.is_some());
    assert_eq!(
        status.last_error.as_deref(),
        Some("Herdr said nothing for 1500 ms")
    );
    assert!(begun.elapsed() < Duration::from_secs(3));
    // The next one is in the way of the exit.
    let lines = || {
        std::fs::read_to_string(&pids)
            .unwrap_or_default()
            .lines()
            .count()
    };
    while lines() < 2 {
        assert!(begun.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(1));
    }
    assert!(!reporter.finish(EXIT));
    let all = std::fs::read_to_string(&pids).unwrap();
    for pid in all.split_whitespace().map(|pid| pid.parse().unwrap()) {
        let deadline = Instant::now() + PATIENCE;
        // A grandchild is reaped by whoever adopts it.
        while is_alive(pid) {
            assert!(Instant::now() < deadline, "{pid} of {all}");
            thread::sleep(Duration::from_millis(1));
        }
    }
    let own_children = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    assert_eq!(own_children, "", "no zombie is left");
}

/// Whether a process is there and not only waiting to be reaped.
fn is_alive(pid: i32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => !stat.contains(") Z "),
        Err(_) => {
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None).is_ok()
                && !cfg!(target_os = "linux")
        }
    }
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
    assert!(begun.elapsed() < EXIT + Duration::from_millis(50));
}

/// A clock that is off by some seconds.
#[derive(Debug)]
struct OffBy(i64);

impl Clock for OffBy {
    fn now(&self) -> SystemTime {
        let by = Duration::from_secs(self.0.unsigned_abs());
        if self.0 < 0 {
            SystemTime::now() - by
        } else {
            SystemTime::now() + by
        }
    }
}

#[test]
fn no_step_of_the_clock_mutes_the_next_process() {
    const TEN_YEARS: i64 = 10 * 365 * 24 * 3_600;
    let herdr = FakeHerdr::start(Behaviour::Answers);
    let folder = tempfile::tempdir().unwrap();
    for (off_by, state) in [
        (0, State::Working),
        (-2 * 3_600, State::Idle),
        (TEN_YEARS, State::Blocked),
        (0, State::Working),
        (-TEN_YEARS, State::Idle),
    ] {
        let options = ReporterOptions::default()
            .with_state_folder(folder.path())
            .with_clock(Arc::new(OffBy(off_by)));
        let reporter = start_with(environment(&herdr, Way::Socket, ""), options);
        reporter.report(state, None);
        assert!(reporter.finish(PATIENCE));
        let holder = herdr.pane("w1:p1").holder.unwrap();
        assert_eq!(holder.state, state.as_str(), "the first report was heard");
    }
    let seqs: Vec<_> = herdr.requests().iter().filter_map(Request::seq).collect();
    assert!(
        seqs.is_sorted_by(|before, after| before < after),
        "{seqs:?}"
    );
}

#[test]
fn two_processes_of_one_source_hear_each_other() {
    let herdr = FakeHerdr::start(Behaviour::Answers);
    let folder = tempfile::tempdir().unwrap();
    let reporters: Vec<_> = [0, -3_600]
        .into_iter()
        .map(|off_by| {
            let options = ReporterOptions::default()
                .with_state_folder(folder.path())
                .with_clock(Arc::new(OffBy(off_by)));
            start_with(environment(&herdr, Way::Socket, ""), options)
        })
        .collect();
    for state in [
        State::Working,
        State::Blocked,
        State::Idle,
        State::Working,
        State::Idle,
    ] {
        for (reporter, other) in [(0, State::Blocked), (1, state)] {
            reporters[reporter].report(other, None);
            herdr.wait_for_state(other.as_str());
            wait_until(&reporters[reporter], |status| status.settled);
            // So that the next round is a change for this one again.
            reporters[reporter].report(State::Working, None);
            herdr.wait_for_state("working");
        }
    }
    let seqs: Vec<_> = herdr.requests().iter().filter_map(Request::seq).collect();
    assert!(
        seqs.is_sorted_by(|before, after| before < after),
        "{seqs:?}"
    );
}

#[test]
fn a_pane_of_another_session_is_left_alone() {
    let herdr = FakeHerdr::start(Behaviour::Answers);
    // A shell of a session of its own, as in the pane that our variables were inherited from.
    let mut shell = Command::new("setsid")
        .args(["sleep", "60"])
        .spawn()
        .unwrap();
    let shell_pid = shell.id();
    let is_leader = || {
        let shell = nix::unistd::Pid::from_raw(i32::try_from(shell_pid).unwrap());
        nix::unistd::getsid(Some(shell)) == Ok(shell)
    };
    let deadline = Instant::now() + PATIENCE;
    while !is_leader() {
        assert!(Instant::now() < deadline);
        thread::yield_now();
    }
    herdr.change(|model| model.panes.get_mut("w1:p1").unwrap().shell_pid = Some(shell_pid));
    let reporter = start(environment(&herdr, Way::Socket, ""));
    reporter.report(State::Working, None);
    let foreign = Ownership::Foreign { shell_pid };
    wait_until(&reporter, |status| status.ownership == foreign);
    reporter.release();
    assert!(reporter.finish(PATIENCE));
    assert_eq!(reports(&herdr), Vec::<String>::new());

    let options = ReporterOptions::default().with_pane_ownership_check(false);
    let reporter = start_with(environment(&herdr, Way::Socket, ""), options);
    reporter.report(State::Working, None);
    herdr.wait_for_state("working");

    herdr
        .change(|model| model.panes.get_mut("w1:p1").unwrap().shell_pid = Some(std::process::id()));
    let reporter = start(environment(&herdr, Way::Socket, ""));
    reporter.report(State::Idle, None);
    herdr.wait_for_state("idle");
    wait_until(&reporter, |status| status.ownership == Ownership::Ours);
    shell.kill().unwrap();
    shell.wait().unwrap();
}

#[test]
fn a_stopped_agent_is_cleared_and_says_everything_again() {
    let herdr = FakeHerdr::start(Behaviour::Answers);
    let reporter = start(environment(&herdr, Way::Socket, ""));
    reporter.session("s1", Some(resume()));
    reporter.report(State::Working, None);
    herdr.wait_for_pane(|pane| pane.resume.is_some());
    // A process of the agent's stands in for it: this one has to go on.
    let mut agent = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = nix::unistd::Pid::from_raw(i32::try_from(agent.id()).unwrap());
    if cfg!(target_os = "linux") {
        herdr.watch(agent.id());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).unwrap();
        herdr.wait_for_pane(|pane| pane.holder.is_none() && pane.resume.is_none());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGCONT).unwrap();
    } else {
        herdr.change(|model| model.clear("w1:p1"));
    }
    let deadline = Instant::now() + PATIENCE;
    while herdr.pane("w1:p1").holder.is_none() {
        reporter.resumed();
        assert!(Instant::now() < deadline);
        thread::sleep(Duration::from_millis(20));
    }
    herdr.wait_for_pane(|pane| pane.resume.as_deref() == Some(resume().words()));
    agent.kill().unwrap();
    agent.wait().unwrap();
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
fn the_program_is_led_to_the_same_pane_and_server() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let program = folder.path().join("herdr");
    let script = format!(
        "#!/bin/sh\necho \"$HERDR_ENV $HERDR_PANE_ID $HERDR_SOCKET_PATH $HERDR_SESSION\" >'{0}.new'\nmv '{0}.new' '{0}'\n",
        log.display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let socket = folder.path().join("none.sock");
    let environment = Environment::new("w9:pG", &socket)
        .with_binary(program)
        .with_session("work");
    let reporter = start(environment);
    reporter.report(State::Working, None);
    assert!(reporter.finish(PATIENCE));
    let expected = format!("1 w9:pG {} work\n", socket.display());
    assert_eq!(std::fs::read_to_string(log).unwrap(), expected);
}

#[test]
fn a_reporter_works_inside_a_runtime_too() {
    let herdr = FakeHerdr::start(Behaviour::Answers);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
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
    assert_eq!(
        (seen.version.as_deref(), seen.takes_resume_commands),
        (Some("0.9.3"), Some(true))
    );
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
    assert!(
        nobody
            .transport
            .unwrap_err()
            .contains("no connection to Herdr's socket")
    );
}
