//! How a program ended, and ending in the same way.

use crate::os::{signals, terminal};

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// By itself, with this exit code.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
}

/// A signal from outside that asked for the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OuterSignal {
    /// The terminal is gone, or SIGHUP came.
    HangUp,
    /// SIGINT, from another process: a key is not a signal here.
    Interrupt,
    /// SIGQUIT, likewise.
    Quit,
    /// SIGTERM.
    Terminate,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "this process has to end in the same way"]
pub struct Ending {
    /// How the program ended.
    pub status: Status,
    /// The first signal from outside that asked for it. `None`: the program ended on its own, or the user
    /// ended it in the terminal.
    pub ended_by: Option<OuterSignal>,
}

impl Ending {
    /// Ends this process as the program ended: with its exit code, or by the same signal.
    pub fn leave(self) -> ! {
        // Whoever is to know of the end was told by now: the guardian has nothing to add.
        terminal::keep_agent_runs(false);
        match self.status {
            Status::Exited(code) => std::process::exit(code),
            Status::Signaled(signal) => signals::die_by(signal),
        }
    }
}
