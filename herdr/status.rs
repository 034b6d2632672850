//! What the reporter knows about itself, for `doctor` and `status`.

use std::path::PathBuf;

/// The way to Herdr that worked last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransportKind {
    /// The server's socket.
    Socket,
    /// Herdr's own program.
    Cli,
}

/// Whether we run in the pane that our variables name (H070).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ownership {
    /// Not asked yet, or not to be asked.
    #[default]
    Unchecked,
    /// Our session is that of the pane's shell.
    Ours,
    /// Our session is another one: the variables were inherited. Nothing is reported.
    Foreign {
        /// The pane's shell, as Herdr sees it.
        shell_pid: u32,
    },
    /// Herdr did not say, or its shell is not to be seen from here. We report.
    Unknown,
}

impl Ownership {
    /// Judges by the pane's shell, as Herdr sees it. `session_of` gives the session of a process, or our
    /// own for none.
    pub(super) fn of(shell_pid: Option<u32>, session_of: fn(Option<u32>) -> Option<u32>) -> Self {
        let shell = shell_pid.and_then(|pid| Some((pid, session_of(Some(pid))?)));
        match (shell, session_of(None)) {
            (Some((_, session)), Some(own)) if session == own => Self::Ours,
            (Some((shell_pid, _)), Some(_)) => Self::Foreign { shell_pid },
            // In a container its shell may be out of our sight, or the system does not tell.
            _ => Self::Unknown,
        }
    }
}

/// What Herdr showed when it was last asked about the pane (H034).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadBack {
    /// Not asked yet.
    #[default]
    Pending,
    /// What was reported last.
    Agrees,
    /// Something else, although Herdr had answered `ok`.
    Differs {
        /// The agent that Herdr shows.
        agent: Option<String>,
        /// The state that Herdr shows.
        state: Option<String>,
    },
    /// This Herdr, or the way to it, cannot be asked.
    Unavailable,
}

/// What the reporter knows about itself. A moment's view: nothing here waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The way to Herdr that worked last.
    pub transport: Option<TransportKind>,
    /// The server's version, once it was asked.
    pub version: Option<String>,
    /// Whether this Herdr takes resume commands, once it is known.
    pub takes_resume_commands: Option<bool>,
    /// The last state that Herdr took (or ignored with `ok`: see `read_back`).
    pub reported: Option<super::State>,
    /// Whether the wanted resume command was taken.
    pub resume_in_force: bool,
    /// Whether Herdr may still hold the resume command of a session before this one, because this one
    /// has none. A restart of Herdr would then bring back that session (H054).
    pub resumes_another_session: bool,
    /// Whether everything wanted was taken.
    pub settled: bool,
    /// The last failure, until the next success.
    pub last_error: Option<String>,
    /// What the last read-back showed.
    pub read_back: ReadBack,
    /// Whether the pane is ours.
    pub ownership: Ownership,
    /// The last sequence number, 0 before the first report.
    pub seq: u64,
    /// The file that keeps the last sequence number for other processes of the source.
    pub seq_mark: Option<PathBuf>,
}
