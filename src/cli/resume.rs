//! `agent-presence resume`: what Herdr types to bring a session back.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::{Exit, Failure, output, wrap};
use crate::os::folders;
use crate::store::{Record, Records};
use crate::wrap::agents::Agent;
use crate::wrap::find_in;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The token of the session, as `agent-presence sessions` lists it.
    token: String,
}

pub(super) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let outcome = find(&arguments.token).and_then(|record| {
        let known = wrap::known_agent(&wrap::program_name_of(&record), config(&record).as_deref());
        let title = output::plain(record.title.as_ref().unwrap_or(&record.agent));
        come_back(&record, known).map_err(|why| {
            Failure::new(Exit::Failed, format!("\"{title}\" cannot come back: {why}"))
        })
    });
    outcome
        .inspect_err(|failure| {
            // Herdr takes a pane whose program is gone for one without a session. A person is to read why it
            // did not come back, and can mend it and restart Herdr once more.
            output::complain(failure);
            output::wait_for_enter();
        })
        // Said already.
        .or(Ok(Exit::Failed))
}

fn find(token: &str) -> Result<Record, Failure> {
    records()?.find(token).map_err(|error| {
        Failure::new(Exit::Failed, format!("the session cannot come back: {error}"))
    })
}

fn come_back(record: &Record, known: Agent) -> Result<Exit, String> {
    let command = command(record, &known)?;
    env::set_current_dir(&record.folder.0).map_err(|error| gone(&record.folder.0, &error))?;
    wrap::resume(record, command, known).map_err(|failure| failure.message)
}

/// The command by which a session can come back now, or why it cannot.
pub(super) fn command(record: &Record, known: &Agent) -> Result<Vec<OsString>, String> {
    let folder = Path::new(&record.folder.0);
    // Not only looked at: it may be there and closed to us.
    folder.join(".").metadata().map_err(|error| gone(folder.as_os_str(), &error))?;
    let command = wrap::resume_command(record, known)
        .ok_or_else(|| "its agent has not said how, and there is no --resume".to_owned())?;
    let program = command.first().map(OsString::as_os_str).unwrap_or_default();
    // A path that is not absolute begins at the folder.
    let is_path = program.as_encoded_bytes().contains(&b'/');
    let program = if is_path { folder.join(program) } else { program.into() };
    find_in(program.as_os_str(), wrap::path_of(record).as_deref())
        .map_err(|error| error.to_string())?;
    Ok(command)
}

fn gone(folder: &std::ffi::OsStr, error: &io::Error) -> String {
    format!("its folder {}: {error}", output::plain(&folder.to_string_lossy()))
}

/// The records of this user.
pub(super) fn records() -> Result<Records, Failure> {
    let folder = wrap::state_folder().ok_or_else(|| {
        Failure::new(Exit::Failed, "there is no state folder: XDG_STATE_HOME and HOME are not set")
    })?;
    Ok(Records::below(&folder))
}

/// The user's file, where the session had it.
pub(super) fn config(record: &Record) -> Option<PathBuf> {
    let folder = folders::config(|name| {
        record.variables.get(name).map(|value| value.0.clone()).or_else(|| env::var_os(name))
    })?;
    Some(folder.join("config.toml"))
}
