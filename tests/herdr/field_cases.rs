//! What people who report to Herdr ran into, with a shell script in the place of Herdr's program: it
//! writes its words down, a line a run, and does no more than its mode says.

use super::*;
use std::fs;
use std::path::PathBuf;

/// A stand-in for Herdr's program. Its mode and its delay may change while it is in use.
struct Script {
    folder: tempfile::TempDir,
}

impl Script {
    fn new(mode: &str, delay: &str) -> Self {
        let script = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        let folder = script.folder.path().display();
        let text = format!(
            r#"#!/usr/bin/env bash
{{ printf '%s\t' "$@"; echo; }} >>'{folder}/log'
sleep "$(<'{folder}/delay')"
command=0; for word in "$@"; do [ "$word" = -- ] && command=1; done
case "$(<'{folder}/mode'):$command" in
  old:1) echo 'unknown option: --' >&2; exit 2 ;;
  invalid:1) echo '{{"error":{{"code":"invalid_resume_argv"}}}}'; exit 1 ;;
  claim:1) echo '{{"error":{{"code":"resume_not_accepted"}}}}'; exit 1 ;;
  hang:*) sleep 3600 ;;
  fail:*) exit 1 ;;
  gone:*) echo 'pane not found' >&2; echo ok >'{folder}/mode'; exit 1 ;;
esac
"#
        );
        script.set("delay", delay);
        script.set("mode", mode);
        write_program(&script.program(), &text);
        script
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("fh")
    }

    fn set(&self, name: &str, value: &str) {
        fs::write(self.folder.path().join(name), value).unwrap();
    }

    fn start(&self) -> Reporter {
        let socket = self.folder.path().join("none.sock");
        start(Environment::new("w1:p1", socket).with_binary(self.program()))
    }

    /// The runs that report, a line each, and not the looks at the pane.
    fn reports(&self) -> Vec<String> {
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let lines = log.lines().filter(|line| !line.starts_with("pane\tget"));
        lines.map(str::to_owned).collect()
    }

    fn wait_for_reports(&self, count: usize) -> Vec<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let reports = self.reports();
            if reports.len() >= count {
                return reports;
            }
            assert!(Instant::now() < deadline, "{reports:#?}");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn has_command(line: &str) -> bool {
    line.contains("\t--\t")
}

fn seq(line: &str) -> u64 {
    let rest = line.split("--seq\t").nth(1).unwrap();
    rest.split('\t').next().unwrap().parse().unwrap()
}

#[test]
fn case_1_an_old_program_gets_the_state_alone_and_is_remembered() {
    let script = Script::new("old", "0");
    let reporter = script.start();
    reporter.session("s1", Some(resume()));
    reporter.report(State::Working, None);
    script.wait_for_reports(2);
    reporter.report(State::Idle, None);
    assert!(reporter.finish(PATIENCE));
    let commands: Vec<_> = script
        .reports()
        .iter()
        .map(|line| has_command(line))
        .collect();
    assert_eq!(commands, [true, false, false]);
}

#[test]
fn case_10_a_clock_that_steps_back_still_rises() {
    let script = Script::new("ok", "0");
    let mut last = 0;
    for _ in 0..2 {
        let reporter = script.start();
        reporter.report(State::Working, None);
        reporter.release();
        assert!(reporter.finish(PATIENCE));
    }
    for line in script.reports() {
        assert!(seq(&line) > last, "{line}");
        last = seq(&line);
    }
}

#[test]
fn case_12_a_state_that_failed_arrives_without_new_activity() {
    let script = Script::new("fail", "0");
    let reporter = script.start();
    reporter.report(State::Working, None);
    script.wait_for_reports(3);
    assert!(!reporter.status().settled);
    script.set("mode", "ok");
    wait_until(&reporter, |status| status.settled);
}

#[test]
fn case_14_fifty_events_against_a_slow_program_are_at_most_three_reports() {
    let script = Script::new("ok", "0.2");
    let reporter = script.start();
    for _ in 0..25 {
        reporter.report(State::Working, None);
        reporter.report(State::Idle, None);
    }
    reporter.report(State::Blocked, None);
    assert!(reporter.finish(PATIENCE));
    let reports = script.reports();
    assert!(reports.len() <= 3, "{reports:#?}");
    assert!(reports.last().unwrap().contains("\tblocked\t"));
}

#[test]
fn case_18_a_pane_that_was_not_found_is_asked_for_again() {
    let script = Script::new("gone", "0");
    let reporter = script.start();
    reporter.report(State::Working, None);
    wait_until(&reporter, |status| status.settled);
    let reports = script.reports();
    assert!(
        reports.iter().all(|line| line.contains("\tw1:p1\t")),
        "never another pane"
    );
}

#[test]
fn case_43_a_command_that_is_invalid_takes_nothing_with_it() {
    let script = Script::new("invalid", "0");
    let reporter = script.start();
    reporter.session("s1", Some(resume()));
    reporter.report(State::Working, None);
    wait_until(&reporter, |status| status.settled);
    let commands: Vec<_> = script
        .reports()
        .iter()
        .map(|line| has_command(line))
        .collect();
    assert_eq!(commands, [true, false]);
}

#[test]
fn case_52_a_slow_detector_gets_the_command_four_more_times() {
    let script = Script::new("claim", "0");
    let reporter = script.start();
    reporter.session("s1", Some(resume()));
    let begun = Instant::now();
    reporter.report(State::Working, None);
    let reports = script.wait_for_reports(6);
    assert!(
        begun.elapsed() >= Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    let commands: Vec<_> = reports.iter().map(|line| has_command(line)).collect();
    assert_eq!(commands, [true, false, true, true, true, true]);
    assert_eq!(reporter.status().reported, Some(State::Working));
}

#[test]
fn case_54_a_release_is_out_before_the_exit_returns() {
    let script = Script::new("ok", "0");
    let reporter = script.start();
    reporter.report(State::Working, None);
    script.wait_for_reports(1);
    reporter.release();
    assert!(reporter.finish(PATIENCE));
    let releases = script
        .reports()
        .iter()
        .filter(|line| line.contains("release-agent"))
        .count();
    assert_eq!(releases, 1);
    assert!(script.reports().last().unwrap().contains("release-agent"));
}

#[test]
fn case_54_a_release_overtakes_a_program_that_is_slow() {
    let script = Script::new("ok", "4");
    let reporter = script.start();
    reporter.report(State::Working, None);
    script.wait_for_reports(1);
    reporter.release();
    // Longer than an exit has, for a machine that takes its time to start a script.
    reporter.finish(Duration::from_secs(1));
    assert!(script.reports().last().unwrap().contains("release-agent"));
}

#[test]
fn case_16_and_55_a_hung_program_slows_nobody() {
    let script = Script::new("hang", "0");
    let reporter = script.start();
    reporter.report(State::Idle, None);
    script.wait_for_reports(1);
    let begun = Instant::now();
    for _ in 0..5_000 {
        reporter.report(State::Working, None);
        reporter.report(State::Idle, None);
    }
    // A debug build on a busy machine; the figure to hold is in the benchmarks.
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
    let begun = Instant::now();
    reporter.release();
    assert!(!reporter.finish(EXIT));
    assert!(begun.elapsed() < EXIT + SLACK, "{:?}", begun.elapsed());
}

#[test]
fn case_38_a_session_that_is_hung_up_keeps_its_pane_and_its_command() {
    for way in WAYS {
        let herdr = FakeHerdr::start(Behaviour::Answers);
        let reporter = start(environment(&herdr, way, ""));
        reporter.session("s1", Some(resume()));
        reporter.report(State::Working, None);
        reporter.report(State::Idle, None);
        assert!(reporter.finish(PATIENCE), "SIGHUP and SIGTERM: no release");
        let pane = herdr.pane("w1:p1");
        assert_eq!(pane.holder.unwrap().state, "idle");
        assert_eq!(pane.resume.as_deref(), Some(resume().words()), "{way:?}");
        assert!(!reports(&herdr).contains(&"pane.release_agent".to_owned()));
    }
}
