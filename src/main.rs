//! The command `agent-presence`.

use std::process::ExitCode;

fn main() -> ExitCode {
    agent_presence::cli::run(std::env::args_os())
}
