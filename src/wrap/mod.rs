//! Runs a program in a terminal of its own, inside the user's, so that nothing can be told apart: every
//! byte, key, size, signal, stop and end passes on as it is. Meanwhile a [`Tap`] sees what passes.
//!
//! ```no_run
//! use agent_presence::wrap::{self, Child, Options, Tap};
//!
//! struct Quiet;
//! impl Tap for Quiet {}
//!
//! let child = Child::new("my-agent", ["--verbose"]);
//! match wrap::run(&child, Options::default(), &mut Quiet) {
//!     Ok(ending) => ending.leave(),
//!     Err(error) => {
//!         eprintln!("{error}");
//!         std::process::exit(error.exit_code());
//!     }
//! }
//! ```
//!
//! # Processes
//!
//! ```text
//! the user's shell ── [guardian] ── this process ── leader ── the program ── …
//! ```
//!
//! The [guardian](guard) is optional and gives the terminal back when this process is killed. The leader
//! holds the program's session and reaps what it leaves behind.
//!
//! # One thread
//!
//! [`run`] relays on the thread that calls it, with poll(2). It never blocks on the terminal or on the
//! program, and other threads of the process go on as they like: signals are noted by a handler,
//! whichever thread they come to.

mod agent;
pub mod agents;
mod child;
mod ending;
mod escape;
mod guardian;
mod keyboard;
pub mod keys;
mod kitty;
mod modes;
mod passthrough;
pub mod program_status;
mod queue;
mod relay;
pub mod screen;
mod signs;
pub(crate) mod watcher;

use std::time::Duration;

use nix::sys::signal::Signal;

pub(crate) use child::find_in;
pub use child::{Child, StartError, find};
pub use ending::{Ending, OuterSignal, Status};
pub use guardian::guard;
pub use keyboard::{Keyboard, TypeError};
pub use signs::Sign;

use crate::os::signals::{HANDED_ON, Signals};
use crate::os::terminal::{self, Terminal};

/// Sees what passes, on the relay's own thread: whatever takes time here is time that the user waits.
///
/// Nothing given back changes what passes.
pub trait Tap {
    /// The program runs, as this process.
    fn started(&mut self, child: u32) {
        let _ = child;
    }

    /// The program wrote this. It is on its way to the terminal. Not called without a PTY.
    fn output(&mut self, bytes: &[u8]) {
        let _ = bytes;
    }

    /// The program's output said this about its state. Not called without a PTY.
    fn program_status(&mut self, event: program_status::Event) {
        let _ = event;
    }

    /// The program's output said this beside its text. Not called without a PTY.
    fn sign(&mut self, sign: Sign) {
        let _ = sign;
    }

    /// The program set its terminal like this. Not called without a PTY.
    fn modes(&mut self, modes: TerminalModes) {
        let _ = modes;
    }

    /// The terminal has this size, in cells. Not called without a PTY.
    fn resized(&mut self, rows: u16, columns: u16) {
        let _ = (rows, columns);
    }

    /// The user typed this, or the terminal answered it. It is on its way to the program. Not called
    /// without a PTY.
    fn input(&mut self, bytes: &[u8]) {
        let _ = bytes;
    }

    /// The user typed something that the terminal does not show: a password. Not called without a PTY.
    fn hidden_input(&mut self) {}

    /// A SIGHUP or SIGTERM asks for the end. The program gets it after this.
    fn asked_to_end(&mut self) {}

    /// The program was stopped, and this process is about to stop too.
    fn suspended(&mut self) {}

    /// This process goes on: what was reported before may be out of date.
    fn resumed(&mut self) {}
}

/// How a program has set its terminal, as far as it matters to who types into it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TerminalModes {
    /// Pasted text is to be put into brackets.
    pub bracketed_paste: bool,
    /// The program has the full screen.
    pub alternate_screen: bool,
    /// The flags of the kitty keyboard protocol.
    pub kitty_flags: u16,
}

/// How to run a program.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// A PTY when standard input and output are a terminal. Without one the program has ours, and nothing
    /// but its signals and its end passes through here.
    pub pty: bool,
    /// Answer the program's question whether the terminal knows OSC 7501, at once: some agents report
    /// their state only then. The one thing that is added to what the terminal itself sends.
    pub answer_program_status: bool,
    /// How long the program has after SIGTERM before it gets SIGKILL.
    pub terminate_grace: Duration,
    /// How long it has after its terminal is gone before it gets SIGTERM, and then again before SIGKILL.
    pub hang_up_grace: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            pty: true,
            answer_program_status: true,
            terminate_grace: Duration::from_secs(10),
            hang_up_grace: Duration::from_millis(1500),
        }
    }
}

/// Runs the program to its end.
///
/// Once for each process: it takes over the process's signals, and they stay taken.
///
/// # Errors
/// The program is not there or cannot be started. Nothing has been changed on the terminal then.
pub fn run(child: &Child, options: Options, tap: &mut dyn Tap) -> Result<Ending, StartError> {
    run_with(child, options, tap, None)
}

/// As [`run`], with a keyboard for somebody who is not at the terminal.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    child: &Child,
    options: Options,
    tap: &mut dyn Tap,
    keyboard: Option<&Keyboard>,
) -> Result<Ending, StartError> {
    let image = child.image()?;
    let failed = |error| StartError::io(child, error);
    let terminal = options.pty.then(Terminal::of_this_process).flatten();
    let mut taken = HANDED_ON.to_vec();
    if terminal.is_some() {
        // Without a terminal of its own, the program is stopped as we are, by the user's.
        taken.push(Signal::SIGTSTP);
    }
    let signals = Signals::take(&taken, guardian::process()).map_err(failed)?;
    let ended = match terminal {
        Some(terminal) => relay::run(&image, &signals, terminal, options, tap, keyboard),
        None => passthrough::run(&image, &signals, options, tap),
    };
    ended.map_err(|error| {
        terminal::keep_agent_runs(false);
        StartError::from_start(child, error)
    })
}
