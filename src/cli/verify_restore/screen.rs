//! A program in a terminal of its own, and what a person would see there.

use std::ffi::OsString;
use std::io;
use std::num::NonZero;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::os::console::{Console, Program};

/// Wide, so that a line of the pane is one line here.
const SIZE: (u16, u16) = (50, 220);

/// How long a terminal may take what is typed.
const TYPING: Duration = Duration::from_secs(5);

/// How many lines of it are shown to the user.
const LINES: usize = 8;

pub(super) struct Screen {
    console: Console,
    seen: Arc<Mutex<vt100::Parser>>,
}

impl Screen {
    pub(super) fn start(program: &Program<'_>) -> io::Result<Self> {
        let side = |cells| NonZero::new(cells).unwrap_or(NonZero::<u16>::MIN);
        let seen = vt100::Parser::new(side(SIZE.0), side(SIZE.1), 0);
        let seen = Arc::new(Mutex::new(seen));
        let console = Console::start(program, SIZE, {
            let seen = seen.clone();
            move |bytes| seen.lock().unwrap_or_else(PoisonError::into_inner).process(bytes)
        })?;
        Ok(Self { console, seen })
    }

    /// Types a line, and Enter.
    pub(super) fn type_line(&self, line: &str) -> io::Result<()> {
        self.console.type_text(&format!("{line}\r"), TYPING)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.console.has_ended()
    }

    pub(super) fn text(&self) -> String {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).screen().contents()
    }

    /// Its last lines that are not empty.
    pub(super) fn last_lines(&self) -> Vec<String> {
        let text = self.text();
        let lines: Vec<&str> =
            text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(LINES)..].iter().map(|line| (*line).to_owned()).collect()
    }

    /// Whether a person sees `line`, or the beginning of a long one.
    pub(super) fn shows(&self, line: &str) -> bool {
        let beginning: String = line.chars().take(40).collect();
        self.text().contains(&beginning)
    }

    /// The line in which a shell says that it does not know the program.
    pub(super) fn says_not_found(&self, program: &str) -> Option<String> {
        let text = self.text();
        let line = text.lines().find(|line| says_not_found(line, program));
        line.map(|line| line.trim().to_owned())
    }
}

/// `bash: x: command not found`, `dash: 1: x: not found`, `zsh: command not found: x`, `fish: Unknown
/// command: x`. What stands behind it can only be the frame that Herdr draws.
fn says_not_found(line: &str, program: &str) -> bool {
    let forms = [
        format!(" {program}: command not found"),
        format!(" {program}: not found"),
        format!(" {program}: No such file or directory"),
        format!("command not found: {program}"),
        format!("Unknown command: {program}"),
    ];
    forms.iter().any(|form| {
        let rest = line.split_once(form.as_str()).map(|(_, rest)| rest);
        rest.is_some_and(|rest| !rest.chars().any(char::is_alphanumeric))
    })
}

/// The name that a login shell is started under: it begins with a dash.
pub(super) fn login_shell_name(shell: &Path) -> OsString {
    let mut name = OsString::from("-");
    name.push(shell.file_name().unwrap_or(shell.as_os_str()));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_says_it_in_its_own_words() {
        for line in [
            "-bash: my-agent: command not found",
            "-dash: 1: my-agent: not found",
            "zsh: command not found: my-agent",
            "fish: Unknown command: my-agent",
            "  -bash: my-agent: No such file or directory  │",
        ] {
            assert!(says_not_found(line, "my-agent"), "{line}");
        }
        assert!(!says_not_found("my-agent: not found in the cache", "my-agent"));
        assert!(!says_not_found("-bash: other: command not found", "my-agent"));
    }
}
