//! The Herdr face against the fake Herdr, over both of its transports.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "what fails here fails the test, and what is skipped says so"
)]

#[path = "herdr/failures.rs"]
mod failures;
#[path = "herdr/fake.rs"]
mod fake;
#[path = "herdr/field_cases.rs"]
mod field_cases;
#[path = "herdr/life.rs"]
mod life;
#[path = "herdr/processes.rs"]
mod processes;
#[path = "herdr/real.rs"]
mod real;
#[path = "herdr/restoring.rs"]
mod restoring;
mod support;

use agent_presence::herdr::{
    AgentName, Environment, Inspection, Metadata, Ownership, ReadBack, Reporter, ReporterOptions,
    ResumeCommand, Source, State, Status, TransportKind,
};
use std::thread;
use std::time::{Duration, Instant};
use support::fake_herdr::{Behaviour, FakeHerdr, Request, write_program};

const FAKE_HERDR: &str = env!("CARGO_BIN_EXE_fake-herdr");

/// The policy's limit for an exit.
const EXIT: Duration = Duration::from_millis(300);

/// What a busy machine may add to a time that is measured.
const SLACK: Duration = Duration::from_millis(150);

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
