//! How soon a report is there, and how few of them are sent.

use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use agent_presence::herdr::{AgentName, Environment, Reporter, ReporterOptions, Source, State};

use super::herdr::{Answers, Server};
use super::{percentile, row};

const REPORTS: usize = 1000;
const CLI_REPORTS: usize = 40;

/// The flag by which this program runs itself on one core.
pub(crate) const SOCKET: &str = "--socket-on-one-core";

/// The flag by which this program runs itself as an agent of some size.
pub(crate) const PARENT: &str = "--cli-parent";

/// 10,000 changes against a Herdr that takes 50 ms for each request.
pub(crate) fn burst() {
    let server = Server::start(Answers::After(Duration::from_millis(50)));
    let reporter = start(server.environment());
    reporter.report(State::Idle, None);
    server.next_state();
    let began = Instant::now();
    for change in 0..10_000 {
        let state = if change % 2 == 0 { State::Working } else { State::Idle };
        reporter.report(state, None);
    }
    reporter.report(State::Blocked, None);
    let called = began.elapsed();
    let settled = reporter.finish(Duration::from_secs(5));
    let states: Vec<String> =
        server.arrivals.try_iter().filter_map(|arrival| arrival.state).collect();
    println!("10,000 changes in {called:.2?}: {} reports, in force: {settled}", states.len());
    println!("the reports: {states:?}");
}

/// [`socket_on_one_core`].
pub(crate) fn socket() {
    super::collie::on_one_core(SOCKET);
}

/// A report over the socket, from the call until the peer has it, against a bare connect and write. On
/// one core, because the reporter is one more thread to be woken than the bare write has, and what it
/// costs to wake a core that sleeps is the machine's business.
pub(crate) fn socket_on_one_core() {
    let server = Server::start(Answers::AtOnce);
    let reporter = start(server.environment());
    reporter.report(State::Idle, None);
    server.next_state();
    let line = concat!(
        r#"{"id":"r1","method":"pane.report_agent","params":{"pane_id":"w1:p1","source":"raw","#,
        r#""agent":"bench","state":"working","seq":1796058000000000}}"#,
        "\n"
    );
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for turn in 0..REPORTS {
        pause_until_idle();
        server.forget();
        let began = Instant::now();
        reporter.report(if turn % 2 == 0 { State::Working } else { State::Blocked }, None);
        ours.push(server.next_state().at - began);

        pause_until_idle();
        server.forget();
        let began = Instant::now();
        let mut stream = UnixStream::connect(server.socket()).unwrap();
        stream.write_all(line.as_bytes()).unwrap();
        bare.push(server.next_state().at - began);
        BufReader::new(stream).read_line(&mut String::new()).unwrap();
    }
    let floor = percentile(&mut bare, 0.5);
    row("p50, against a bare connect and write", percentile(&mut ours, 0.5), floor);
    let floor = percentile(&mut bare, 0.99);
    row("p99, against a bare connect and write", percentile(&mut ours, 0.99), floor);
    reporter.finish(Duration::from_secs(1));
}

/// A report through Herdr's program, from an agent of 512 MiB, against a small one.
pub(crate) fn cli() {
    let (mut large, mut small) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        large.extend(reports_of_agent(512));
        small.extend(reports_of_agent(0));
    }
    let floor = percentile(&mut small, 0.5);
    row("p50 from 512 MiB, against a small agent", percentile(&mut large, 0.5), floor);
    let floor = percentile(&mut small, 0.99);
    row("p99 from 512 MiB, against a small agent", percentile(&mut large, 0.99), floor);
}

/// What an agent of this size measures, in microseconds, one a line.
fn reports_of_agent(megabytes: usize) -> Vec<Duration> {
    let output = Command::new(env::current_exe().unwrap())
        .args([PARENT, &megabytes.to_string()])
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| Duration::from_micros(line.parse().unwrap())).collect()
}

/// The agent: holds so much memory, and reports through the program `fake-herdr`.
pub(crate) fn cli_parent(megabytes: usize) {
    let mut ballast = vec![0_u8; megabytes << 20];
    ballast.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    let server = Server::start(Answers::AtOnce);
    let program = env::current_exe().unwrap().with_file_name("fake-herdr");
    let script = server.socket().with_file_name("herdr");
    let text = format!(
        "#!/bin/sh\nFAKE_HERDR_SOCKET='{}' exec '{}' \"$@\"\n",
        server.socket().display(),
        program.display()
    );
    std::fs::write(&script, text).unwrap();
    make_executable(&script);
    let nowhere = server.socket().with_file_name("none.sock");
    let reporter = start(Environment::new("w1:p1", nowhere).with_binary(script));
    reporter.report(State::Idle, None);
    server.next_state();
    for turn in 0..CLI_REPORTS {
        // The CLI has an answer to read, and a process to be reaped.
        std::thread::sleep(Duration::from_millis(15));
        let began = Instant::now();
        reporter.report(if turn % 2 == 0 { State::Working } else { State::Blocked }, None);
        println!("{}", (server.next_state().at - began).as_micros());
    }
    reporter.finish(Duration::from_secs(1));
    drop(ballast);
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn start(environment: Environment) -> Reporter {
    let options = ReporterOptions::default().with_pane_ownership_check(false);
    let (source, agent) = (Source::new("bench").unwrap(), AgentName::new("bench").unwrap());
    Reporter::start(environment, source, agent, options).unwrap()
}

/// Long enough for the answer to be read and the reporter to sleep again: what is measured is a report
/// that comes out of the blue.
fn pause_until_idle() {
    std::thread::sleep(Duration::from_millis(3));
}
