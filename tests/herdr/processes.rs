//! Other processes: of the same source, of another session, stopped, hung.

use super::*;
use agent_presence::Clock;
use std::process::Command;
use std::sync::Arc;
use std::time::SystemTime;

/// A clock that is off by some seconds.
#[derive(Debug)]
struct OffBy(i64);

impl Clock for OffBy {
    fn now(&self) -> SystemTime {
        let by = Duration::from_secs(self.0.unsigned_abs());
        if self.0 < 0 { SystemTime::now() - by } else { SystemTime::now() + by }
    }
}

#[test]
fn a_hung_program_is_killed_with_its_children_and_reaped() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let program = folder.path().join("herdr");
    let script = format!("#!/bin/sh\nsleep 3600 &\necho $$ $! >>'{}'\nwait\n", pids.display());
    write_program(&program, &script);
    let socket = folder.path().join("none.sock");
    let reporter = start(Environment::new("w1:p1", socket).with_binary(program));
    reporter.report(State::Working, None);
    let begun = Instant::now();
    let status = wait_until(&reporter, |status| status.last_error.is_some());
    assert_eq!(status.last_error.as_deref(), Some("Herdr said nothing for 1500 ms"));
    assert!(begun.elapsed() < Duration::from_secs(3));
    // The next one is in the way of the exit.
    let lines = || std::fs::read_to_string(&pids).unwrap_or_default().lines().count();
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
    if cfg!(target_os = "linux") {
        for child in all.lines().filter_map(|line| line.split(' ').next()) {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat"));
            assert!(stat.is_err(), "a zombie is left: {stat:?}");
        }
    }
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
    assert!(seqs.is_sorted_by(|before, after| before < after), "{seqs:?}");
}

#[test]
fn two_processes_of_one_source_do_not_mute_each_other() {
    for order in [[0, 1], [1, 0]] {
        let herdr = FakeHerdr::start(Behaviour::Answers);
        let folder = tempfile::tempdir().unwrap();
        // Both are there before either reports, and their clocks are an hour apart.
        let reporters = [0, -3_600].map(|off_by| {
            let options = ReporterOptions::default()
                .with_state_folder(folder.path())
                .with_clock(Arc::new(OffBy(off_by)));
            start_with(environment(&herdr, Way::Socket, ""), options)
        });
        for (which, state) in order.into_iter().zip([State::Working, State::Blocked]) {
            reporters[which].report(state, None);
            assert!(reporters[which].finish(PATIENCE));
            let holder = herdr.pane("w1:p1").holder.unwrap();
            assert_eq!(holder.state, state.as_str(), "{order:?}: the first report was heard");
        }
        let seqs: Vec<_> = herdr.requests().iter().filter_map(Request::seq).collect();
        assert!(seqs.is_sorted_by(|before, after| before < after), "{seqs:?}");
    }
}

#[cfg(target_os = "linux")] // macOS has no `setsid` command.
#[test]
fn a_pane_of_another_session_is_left_alone() {
    let herdr = FakeHerdr::start(Behaviour::Answers);
    // A shell of a session of its own, as in the pane that our variables were inherited from.
    let mut shell = Command::new("setsid").args(["sleep", "60"]).spawn().unwrap();
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
fn the_program_is_led_to_the_same_pane_and_server() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let program = folder.path().join("herdr");
    let script = format!(
        "#!/bin/sh\necho \"$HERDR_ENV $HERDR_PANE_ID $HERDR_SOCKET_PATH $HERDR_SESSION\" >'{0}.new'\nmv '{0}.new' '{0}'\n",
        log.display()
    );
    write_program(&program, &script);
    let socket = folder.path().join("none.sock");
    let environment = Environment::new("w9:pG", &socket).with_binary(program).with_session("work");
    let reporter = start(environment);
    reporter.report(State::Working, None);
    assert!(reporter.finish(PATIENCE));
    let expected = format!("1 w9:pG {} work\n", socket.display());
    assert_eq!(std::fs::read_to_string(log).unwrap(), expected);
}

/// A fork of a large agent takes 25 ms, `posix_spawn` under 2: it shares the memory until the program
/// runs. What would make the standard library fork is told in `herdr/transport/cli.rs`.
#[test]
fn the_program_is_started_without_a_fork() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("calls");
    let traced = Command::new("strace")
        .args(["-f", "-e", "trace=clone,clone3,fork,vfork,execve", "-o"])
        .arg(&log)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "processes::the_program_is_led_to_the_same_pane_and_server"])
        .output();
    let calls = std::fs::read_to_string(&log).unwrap_or_default();
    if !traced.is_ok_and(|output| output.status.success()) || !calls.contains("report-agent") {
        println!("skipped: no strace, or not allowed to use it");
        return;
    }
    let start = calls.lines().position(|line| line.contains("report-agent")).unwrap();
    let is_process = |line: &&str| line.contains("exit_signal=SIGCHLD") || line.contains("fork(");
    let how = calls.lines().take(start).filter(is_process).last().unwrap();
    assert!(how.contains("CLONE_VFORK") || how.contains("vfork("), "{how}");
}
