//! What the command prints.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;

use super::{Exit, Failure};

/// One line on standard error. Nobody may be left to read it: that is no reason to fail.
pub(super) fn complain(message: &impl Display) {
    let _ = writeln!(io::stderr(), "agent-presence: {message}");
}

/// Gives a person who is there the time to read what was said.
pub(super) fn wait_for_enter() {
    if io::stdin().is_terminal() {
        complain(&"press Enter to leave");
        let _ = io::stdin().read_line(&mut String::new());
    }
}

/// One line on standard output.
pub(super) fn print(line: &impl Display) -> Result<(), Failure> {
    writeln!(io::stdout(), "{line}").map_err(|error| Failure::new(Exit::Failed, error))
}

/// One line of JSON on standard output.
pub(super) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let line = serde_json::to_string(value).map_err(|error| Failure::new(Exit::Failed, error))?;
    print(&line)
}

/// A text without what a terminal would take for a command.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Help and version as clap writes them; a usage error as one line.
pub(super) fn usage(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        let _ = error.print();
        return Exit::Done;
    }
    complain(&one_line(&error.to_string()));
    Exit::Usage
}

/// The first paragraph of a usage error, as one line: the rest is the usage, which `--help` shows.
fn one_line(message: &str) -> String {
    let words = message
        .strip_prefix("error: ")
        .unwrap_or(message)
        .lines()
        .take_while(|line| !line.is_empty())
        .flat_map(str::split_whitespace);
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usage_error_is_one_line() {
        let message = "error: the following required arguments were not provided:\n  <COMMAND>...\n\nUsage: x\n";
        assert_eq!(
            one_line(message),
            "the following required arguments were not provided: <COMMAND>..."
        );
    }
}
