//! What the command prints.

use std::fmt::Display;
use std::io::{self, Write as _};

use super::Exit;

/// One line on standard error. Nobody may be left to read it: that is no reason to fail.
pub(super) fn complain(message: &impl Display) {
    let _ = writeln!(io::stderr(), "agent-presence: {message}");
}

/// One line on standard output.
pub(super) fn print(line: &impl Display) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
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
