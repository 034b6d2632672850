//! `agent-presence attach`: the line that gives an agent to Collie, or doing it.
//!
//! Everything that Collie would refuse is found before, with Collie's own rules: a bad entry stops
//! its bridge at the next start.

use std::env;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Exit, Failure, output};
use crate::collie::Client;
use crate::os::folders;
use crate::os::private::{PrivateSocketError, check_socket};

/// How long the agent may take to say its name. One that is stopped says none.
const PATIENCE: Duration = Duration::from_secs(1);

/// The longest name, in bytes.
const NAME_LIMIT: usize = 64;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The agent's name on the phone. Default: the host name that it tells, else its folder's name.
    #[arg(long)]
    name: Option<String>,
    /// The agent's socket. Default: `COLLIE_DURABLE_SOCKET`, else the one socket in
    /// `$XDG_RUNTIME_DIR/agent-presence`.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Run the line, instead of printing it.
    #[arg(long)]
    run: bool,
    /// Let Collie restart, so that it reads the new entry at once.
    #[arg(long)]
    restart: bool,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let socket = find_socket(arguments.socket)?;
    check_socket(&socket).map_err(|error| match error {
        PrivateSocketError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            no_presence(format!("no agent serves a socket at {}", socket.display()))
        }
        error => failed(error),
    })?;
    let path = socket
        .to_str()
        .ok_or_else(|| failed(format!("the socket path is not UTF-8: {}", socket.display())))?;
    let name = match arguments.name {
        Some(name) => {
            check_name(&name).map_err(|rule| failed(format!("the name `{name}` {rule}")))?;
            name
        }
        None => default_name(&socket)?,
    };
    let mut words = vec!["durable", "attach", &name, "--socket", path];
    if arguments.restart {
        words.push("--restart");
    }
    if !arguments.run {
        output::print(&format!("collie {}", shell_words::join(words))).map_err(failed)?;
        return Ok(Exit::Done);
    }
    let collie = which::which("collie")
        .map_err(|_| failed("collie is not on PATH; without --run, the line is printed"))?;
    // In our place: its terminal, its signals and its exit code are then its own.
    let error = Command::new(&collie).args(words).exec();
    Err(failed(format!("cannot run {}: {error}", collie.display())))
}

fn failed(message: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Failed, message)
}

fn no_presence(message: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::NoPresence, message)
}

fn find_socket(named: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let variable = || env::var_os("COLLIE_DURABLE_SOCKET").filter(|path| !path.is_empty());
    if let Some(socket) = named.or_else(|| variable().map(PathBuf::from)) {
        return Ok(socket);
    }
    let folder = folders::runtime(|name| env::var_os(name))
        .map_err(|error| no_presence(format!("{error}; set it, or name a socket with --socket")))?;
    let mut sockets = folders::collie_sockets(&folder);
    match sockets.len() {
        0 => Err(no_presence(format!("no agent serves a socket in {}", folder.display()))),
        1 => Ok(sockets.remove(0)),
        _ => {
            let paths: Vec<_> = sockets.iter().map(|path| path.display().to_string()).collect();
            let paths = paths.join(", ");
            Err(failed(format!("several agents serve a socket; name one with --socket: {paths}")))
        }
    }
}

/// The rule of our own for a name, which any rule that Collie may have for it takes (N164), and the
/// one name that is known to be taken (N168).
fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("is empty".to_owned());
    }
    if name.len() > NAME_LIMIT {
        return Err(format!("is {} bytes long, at most {NAME_LIMIT} are allowed", name.len()));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    if let Some((place, bad)) = name.char_indices().find(|(_, c)| !allowed(*c)) {
        return Err(format!("has {bad:?} at byte {place}; A-Z a-z 0-9 . _ - are allowed"));
    }
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Err("does not begin with a letter or a digit".to_owned());
    }
    if name == "default" {
        return Err("is that of a terminal session on most machines".to_owned());
    }
    Ok(())
}

/// The first of the agent's own names that may be one.
fn default_name(socket: &Path) -> Result<String, Failure> {
    let told = Client::new(socket).patience(PATIENCE).hello().ok().map(|hello| hello.host_name);
    let folder = socket.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    let names = told.into_iter().chain(folder.map(str::to_owned));
    let fits = |name: &String| check_name(name).is_ok();
    names.into_iter().find(fits).ok_or_else(|| {
        failed("neither the agent's host name nor its folder's name may be a name; use --name")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n164_n168_a_name_holds_to_its_rule() {
        for good in ["a", "desk", "9-lives", "a.b_c-d", &"x".repeat(64), "Default"] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        let cases = [
            ("", "is empty"),
            (&*"x".repeat(65), "is 65 bytes long"),
            ("a b", "has ' ' at byte 1"),
            ("é", "has 'é' at byte 0"),
            ("a/b", "has '/' at byte 1"),
            ("a\nb", "has '\\n' at byte 1"),
            ("-rf", "does not begin"),
            (".a", "does not begin"),
            ("default", "is that of a terminal session"),
        ];
        for (bad, rule) in cases {
            assert!(check_name(bad).unwrap_err().starts_with(rule), "{bad}");
        }
    }
}
