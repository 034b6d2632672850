//! `wrap::run` as a command, for tests: no presence, no command line.
//!
//! `wrap-probe COMMAND ARGUMENTS…`, with `WRAP_PROBE_GUARD` set below a guardian that
//! cleans up the sockets of that list, with `WRAP_PROBE_LOG`
//! set to a file that gets what the tap sees, and with `WRAP_PROBE_PANIC` set panicking when the program
//! prints that text.

#![expect(clippy::print_stderr, reason = "a command says what is wrong")]

use std::fs::File;
use std::io::Write as _;

use agent_presence::wrap::{self, Child, Options, Tap, program_status::Event};

#[derive(Default)]
struct Probe {
    log: Option<File>,
    panic_at: Option<String>,
}

impl Probe {
    fn note(&mut self, line: &str) {
        if let Some(log) = &mut self.log {
            let _ = writeln!(log, "{line}");
        }
    }
}

impl Tap for Probe {
    fn started(&mut self, child: u32) {
        self.note(&format!("started {child}"));
    }
    fn output(&mut self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let at = self.panic_at.as_deref();
        assert!(!at.is_some_and(|at| text.contains(at)), "asked to panic");
        if self.log.is_some() {
            self.note(&format!("output {}", text.escape_debug()));
        }
    }
    fn program_status(&mut self, event: Event) {
        self.note(&format!("status {event:?}"));
    }
    fn input(&mut self, bytes: &[u8]) {
        if self.log.is_some() {
            self.note(&format!("input {}", String::from_utf8_lossy(bytes).escape_debug()));
        }
    }
    fn suspended(&mut self) {
        self.note("suspended");
    }
    fn resumed(&mut self) {
        self.note("resumed");
    }
}

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    let Some(program) = arguments.next() else {
        eprintln!("usage: wrap-probe COMMAND ARGUMENTS…");
        std::process::exit(2);
    };
    if let Some(sockets) = std::env::var_os("WRAP_PROBE_GUARD") {
        let sockets: Vec<_> = std::env::split_paths(&sockets).collect();
        if let Err(error) = wrap::guard(&sockets, || {}) {
            eprintln!("wrap-probe: {error}");
        }
    }
    let log = std::env::var_os("WRAP_PROBE_LOG").and_then(|path| File::create(path).ok());
    let mut probe = Probe { log, panic_at: std::env::var("WRAP_PROBE_PANIC").ok() };
    match wrap::run(&Child::new(program, arguments), Options::default(), &mut probe) {
        Ok(ending) => {
            probe.note(&format!("{ending:?}"));
            ending.leave();
        }
        Err(error) => {
            eprintln!("wrap-probe: {error}");
            std::process::exit(error.exit_code());
        }
    }
}
