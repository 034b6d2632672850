//! `agent-presence verify-restore` against the fake Herdr, and against a real one where there is one.

#![allow(
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "what fails here fails the test, and what is skipped says so"
)]

#[path = "verify_restore/dry_run.rs"]
mod dry_run;
#[path = "verify_restore/ends.rs"]
mod ends;
#[path = "verify_restore/others.rs"]
mod others;
#[path = "verify_restore/real.rs"]
mod real;
#[path = "verify_restore/steps.rs"]
mod steps;
mod support;

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::fake_herdr::write_program;
use support::restoring_herdr::{self, RestoringHerdr};
use support::terminal::{eventually, is_alive};

const PROGRAM: &str = env!("CARGO_BIN_EXE_agent-presence");

/// Reports by Herdr's own program, with a command that brings it back.
const REPORT: &str = r#""$HERDR_BIN_PATH" pane report-agent "$HERDR_PANE_ID" --source my-agent \
    --agent my-agent --state idle --seq "$(date +%s%N)" -- my-agent --resume "sess 1""#;

/// An author of an agent, in a home folder of his own.
struct Author {
    herdr: RestoringHerdr,
}

/// How a test ended.
struct Verdict {
    code: Option<i32>,
    report: Value,
    output: Output,
}

impl Verdict {
    fn of(output: Output) -> Self {
        let report = serde_json::from_slice(&output.stdout).unwrap_or_default();
        Self { code: output.status.code(), report, output }
    }

    /// What was found at a step, and what to do.
    #[track_caller]
    fn step(&self, name: &str) -> &Value {
        let steps = self.report["steps"].as_array();
        let step = steps.and_then(|steps| steps.iter().find(|step| step["name"] == name));
        step.unwrap_or_else(|| panic!("no step {name} in {:#}, {:?}", self.report, self.output))
    }

    #[track_caller]
    fn assert_passed(&self) {
        assert_eq!(self.code, Some(0), "{:#}\n{:?}", self.report, self.output);
        assert_eq!(self.report["ok"], true);
    }

    /// It failed at this step, in these words.
    #[track_caller]
    fn assert_failed(&self, step: &str, words: &str) {
        assert_eq!(self.code, Some(1), "{:#}\n{:?}", self.report, self.output);
        assert_eq!(self.report["failed"], step, "{:#}", self.report);
        let found = self.step(step);
        assert!(found["found"].as_str().unwrap().contains(words), "{found:#}");
        assert!(found["todo"].is_string(), "{found:#}");
    }
}

impl Author {
    /// Nothing runs yet. What a login shell of his finds is in `herdr.bin()`.
    fn new() -> Self {
        Self { herdr: RestoringHerdr::prepare(&[("FAKE_HERDR_SAVE_MS", "20")]) }
    }

    /// An agent on the `PATH` of the login shell. It writes down where it runs, then does `script`.
    fn agent(&self, name: &str, script: &str) {
        let out = self.traces();
        let script = format!(
            "#!/bin/sh\necho \"$HOME\" >>{out}/homes\n\
             for pid in $$ $PPID $(cut -d' ' -f4 /proc/$PPID/stat); do\n\
             echo $pid >>{out}/pids\ndone\n{script}\n",
            out = out.display()
        );
        write_program(&self.herdr.bin().join(name), &script);
    }

    fn traces(&self) -> PathBuf {
        let folder = self.herdr.home().join("traces");
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.traces().join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.herdr.command(PROGRAM);
        command.args(["verify-restore", "--herdr", restoring_herdr::PROGRAM]).args(words);
        command
    }

    /// Runs it with `--json`.
    fn verify(&self, words: &[&str]) -> Verdict {
        Verdict::of(self.command(&[&["--json"], words].concat()).output().unwrap())
    }

    /// Neither a process nor a folder of the test is left.
    #[track_caller]
    fn assert_clean(&self) {
        let pids = self.lines("pids");
        assert!(!pids.is_empty(), "the agent has not run");
        for pid in pids {
            let pid = pid.parse().unwrap();
            eventually("the end of a process", || !is_alive(pid));
        }
        for home in self.lines("homes") {
            assert!(home == self.herdr.home().to_str().unwrap() || !Path::new(&home).exists());
        }
        let sessions = self.herdr.config_folder().join("sessions");
        let left: Vec<_> = fs::read_dir(sessions).into_iter().flatten().flatten().collect();
        assert!(left.iter().all(|entry| entry.file_name() == restoring_herdr::SESSION), "{left:?}");
    }
}
