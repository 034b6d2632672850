//! `--dry-run`: what a restore would type is typed into each login shell, and a probe in the agent's place
//! says which words it got.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;

use super::Arguments;
use super::line::{Line, quoted};
use super::probe::Seen;
use super::screen::{Screen, login_shell_name};
use super::surroundings::{Home, LOGIN_PATH, TemporaryFolder, login_environment};
use super::waiting::{Vain, Waiting};
use crate::cli::{Exit, Failure, output};
use crate::herdr::ResumeCommand;
use crate::os::console::Program;

/// The shells that people log in to.
const SHELLS: [&str; 4] = ["bash", "dash", "zsh", "fish"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// The words arrived as they are.
    Ok,
    /// The shell is not installed.
    Skipped,
    /// A word changed, or none arrived.
    Fix,
}

/// What one shell did with the line.
#[derive(Debug, Serialize)]
struct Check {
    shell: &'static str,
    verdict: Verdict,
    found: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    seen: Vec<String>,
}

impl Check {
    fn new(shell: &'static str, verdict: Verdict, found: impl Into<String>) -> Self {
        Self { shell, verdict, found: found.into(), seen: Vec::new() }
    }

    fn of_words(shell: &'static str, sent: &[String], received: &[String]) -> Self {
        if let Some(found) = difference(sent, received) {
            return Self::new(shell, Verdict::Fix, found);
        }
        let plural = if sent.len() == 1 { "" } else { "s" };
        Self::new(shell, Verdict::Ok, format!("{} word{plural} unchanged", sent.len()))
    }

    fn print(&self) -> Result<(), Failure> {
        let mark = match self.verdict {
            Verdict::Ok => "ok  ",
            Verdict::Skipped => "-   ",
            Verdict::Fix => "FIX ",
        };
        output::print(&format!("{mark} {:<5} {}", self.shell, self.found))?;
        self.seen.iter().try_for_each(|line| output::print(&format!("           seen: {line}")))
    }
}

pub(super) fn run(arguments: &Arguments, waiting: &Waiting) -> Result<Exit, Failure> {
    let failed = |error: String| Failure::new(Exit::Failed, error);
    let words = arguments.command.iter().map(|word| word.to_str().map(str::to_owned));
    let words: Option<Vec<String>> = words.collect();
    let words =
        words.ok_or_else(|| failed("a word of the resume command is no UTF-8".to_owned()))?;
    let command = ResumeCommand::new(words).map_err(|broken| failed(broken.to_string()))?;
    if !arguments.json {
        output::print(&format!("typed: {}", command.typed_line()))?;
    }
    let mut checks = Vec::new();
    for shell in SHELLS {
        let check = match which::which(shell) {
            Err(_) => Check::new(shell, Verdict::Skipped, "skipped: not installed"),
            Ok(path) => match in_shell(shell, &path, &command, arguments.here, waiting) {
                Ok(Some(check)) => check,
                Ok(None) => return Ok(Exit::Failed),
                Err(error) => Check::new(shell, Verdict::Fix, format!("not tried: {error}")),
            },
        };
        if !arguments.json {
            check.print()?;
        }
        checks.push(check);
    }
    let ok = checks.iter().all(|check| check.verdict != Verdict::Fix)
        && checks.iter().any(|check| check.verdict == Verdict::Ok);
    if arguments.json {
        output::print(&json!({"ok": ok, "typed": command.typed_line(), "shells": checks}))?;
    }
    Ok(if ok { Exit::Done } else { Exit::Failed })
}

/// Types the line into one shell. None: a signal asks for the end.
fn in_shell(
    shell: &'static str,
    path: &Path,
    command: &ResumeCommand,
    here: bool,
    waiting: &Waiting,
) -> io::Result<Option<Check>> {
    let folder = TemporaryFolder::new()?;
    let stage = Stage::new(&folder, command)?;
    let home = match env::var_os("HOME") {
        Some(home) if here => home,
        _ => Home::new(&folder, LOGIN_PATH)?.0.into(),
    };
    let screen = Screen::start(&Program {
        path,
        arguments: &[login_shell_name(path)],
        environment: &login_environment(&home, path),
    })?;
    screen.type_line(&stage.first_line)?;
    let received = waiting.until(|| Seen::read(&stage.ready)).and_then(|_| {
        // A shell that takes nothing any more is found out below.
        let _ = screen.type_line(&command.typed_line());
        waiting.until(|| Seen::read(&stage.received))
    });
    Ok(match received {
        Err(Vain::Interrupted) => None,
        Err(Vain::TimedOut) => {
            let found = "nothing arrived: the line did not run the program";
            let seen = screen.last_lines();
            Some(Check { seen, ..Check::new(shell, Verdict::Fix, found) })
        }
        Ok(seen) => Some(Check::of_words(shell, command.words(), &seen.words)),
    })
}

/// The probe in the agent's place.
struct Stage {
    /// Puts it first on `PATH`, in any of the shells, and says when that is done.
    first_line: String,
    ready: PathBuf,
    received: PathBuf,
}

impl Stage {
    fn new(folder: &TemporaryFolder, command: &ResumeCommand) -> io::Result<Self> {
        let bin = folder.path().join("bin");
        fs::create_dir(&bin)?;
        let [ready, received] = ["ready", "received"].map(|name| folder.path().join(name));
        let other = |error: String| io::Error::other(error);
        let probe = Line::of_ourselves(&["probe".as_ref(), &received]).map_err(other)?;
        let program = bin.join(command.words().first().map_or("", String::as_str));
        // It is closed before the shell that runs it is started, so that it is not "busy".
        fs::write(&program, format!("#!/bin/sh\nexec {} -- \"$@\"\n", probe.0))?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700))?;
        let path = quoted(&bin.display().to_string());
        let probe = Line::of_ourselves(&["probe".as_ref(), &ready]).map_err(other)?;
        // A space first: many a shell keeps no such line in its history.
        let first_line = format!(" export PATH={path}:\"$PATH\"; {}", probe.0);
        Ok(Self { first_line, ready, received })
    }
}

/// The first word that did not arrive as it is.
fn difference(sent: &[String], received: &[String]) -> Option<String> {
    let sent = &sent[1..];
    let first = (0..sent.len().max(received.len())).find(|&at| sent.get(at) != received.get(at))?;
    // The program is word 1.
    let place = first + 2;
    Some(match (sent.get(first), received.get(first)) {
        (Some(sent), Some(received)) => {
            format!("word {place} arrived as {received:?}, not as {sent:?}")
        }
        (Some(sent), None) => format!("word {place}, {sent:?}, did not arrive"),
        (None, received) => {
            format!("word {place} was added: {:?}", received.map_or("", String::as_str))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_that_changed_is_named() {
        let words =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let sent = words(&["agent", "--resume", "a b"]);
        let case = |received: &[&str]| difference(&sent, &words(received));
        assert_eq!(case(&["--resume", "a b"]), None);
        let changed = case(&["--resume", "a"]).unwrap();
        assert_eq!(changed, "word 3 arrived as \"a\", not as \"a b\"");
        assert_eq!(case(&["--resume"]).unwrap(), "word 3, \"a b\", did not arrive");
        assert_eq!(case(&["--resume", "a b", ""]).unwrap(), "word 4 was added: \"\"");
    }
}
