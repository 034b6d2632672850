//! The command line: one file a command.

mod approve;
mod ask;
mod attach;
mod doctor;
mod inside;
mod link;
mod log;
mod login_path;
mod output;
mod release;
mod resume;
mod say;
mod session;
mod sessions;
mod state;
mod status;
mod verify_restore;
#[cfg(feature = "watch")]
mod watch;
mod wrap;

use std::ffi::OsString;
use std::fmt::Display;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Shows a coding agent in Herdr on the desk and in Collie on the phone.
#[derive(Debug, Parser)]
#[command(name = "agent-presence", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run an agent and show it in both places.
    Wrap(wrap::Arguments),
    /// Bring back a session that was wrapped: what `wrap` gives to Herdr for its restarts.
    Resume(resume::Arguments),
    /// List the sessions that can come back, the newest first.
    Sessions(sessions::Arguments),
    /// From inside the agent: say what it is doing.
    State(state::Arguments),
    /// From inside the agent: say something in the chat.
    Say(say::Arguments),
    /// From inside the agent: ask the user a question, and print the answer.
    Ask(ask::Arguments),
    /// From inside the agent: ask whether a tool may run.
    Approve(approve::Arguments),
    /// From inside the agent: it is in this conversation now.
    Session(session::Arguments),
    /// From inside the agent: the user has quit it.
    Release,
    /// From inside the agent: say where it is seen, and how that goes.
    Status(status::Arguments),
    /// Be the presence of the program that runs this, which speaks JSON-RPC on its stdin and stdout.
    Link(link::Arguments),
    /// See what works here, what does not, and what to do about it.
    Doctor(doctor::Arguments),
    /// See whether an agent comes back after a restart of Herdr, in a throwaway session.
    VerifyRestore(verify_restore::Arguments),
    /// For `verify-restore`: write down what has arrived.
    #[command(hide = true)]
    Probe(verify_restore::probe::Arguments),
    /// Give an agent to Collie: print the line that does it, or do it.
    Attach(attach::Arguments),
    /// See and answer what the phone shows, in this terminal.
    #[cfg(feature = "watch")]
    Watch(watch::Arguments),
}

/// What the command exits with. `wrap` exits as its agent did instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exit {
    /// It is done; for `approve`: allowed.
    Done = 0,
    /// It failed.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// There is no presence here, or nobody to ask; for `verify-restore`: no Herdr.
    NoPresence = 3,
    /// `approve`: denied; `ask`: closed without an answer.
    Denied = 4,
    /// `approve` and `ask`: nobody answered in time.
    TimedOut = 5,
    /// `wrap`: the agent's command cannot be executed.
    NotExecutable = 126,
    /// `wrap`: there is no such command.
    NotFound = 127,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// A failure for the user: one line, and what to exit with.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Failure {
    exit: Exit,
    message: String,
}

impl Failure {
    fn new(exit: Exit, message: impl Display) -> Self {
        Self { exit, message: message.to_string() }
    }
}

/// Runs the command line: `arguments` begin with the program's own name. What goes wrong is said in
/// one line on standard error.
///
/// Does not return when `wrap` ends: the process leaves as its agent did.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return output::usage(&error).into(),
    };
    let outcome = match arguments.command {
        Command::Wrap(arguments) => wrap::run(arguments),
        Command::Resume(arguments) => resume::run(&arguments),
        Command::Sessions(arguments) => sessions::run(&arguments),
        Command::State(arguments) => state::run(arguments),
        Command::Say(arguments) => say::run(arguments),
        Command::Ask(arguments) => ask::run(arguments),
        Command::Approve(arguments) => approve::run(arguments),
        Command::Session(arguments) => session::run(arguments),
        Command::Release => release::run(),
        Command::Status(arguments) => status::run(&arguments),
        Command::Link(arguments) => link::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::VerifyRestore(arguments) => verify_restore::run(arguments),
        Command::Probe(arguments) => verify_restore::probe::run(&arguments),
        Command::Attach(arguments) => attach::run(arguments),
        #[cfg(feature = "watch")]
        Command::Watch(arguments) => watch::run(arguments),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => {
            output::complain(&failure);
            failure.exit.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }
}
