//! `agent-presence probe FILE [WORD]…`, which nobody but `verify-restore` runs: it writes down which words
//! have arrived, and a few variables.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cli::{Exit, Failure};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Arguments {
    /// Where to write it.
    file: PathBuf,
    /// The words.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// What was written down.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seen {
    /// What is not UTF-8 is written with replacement characters.
    pub(super) words: Vec<String>,
    /// `PATH` and Herdr's.
    pub(super) variables: BTreeMap<String, String>,
}

impl Seen {
    /// Reads what a probe has written; none: it has not yet.
    pub(super) fn read(file: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(file).ok()?).ok()
    }
}

pub(in crate::cli) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let text = |text: &OsString| text.to_string_lossy().into_owned();
    let seen = Seen {
        words: arguments.words.iter().map(text).collect(),
        variables: env::vars_os()
            .map(|(name, value)| (text(&name), text(&value)))
            .filter(|(name, _)| name == "PATH" || name.starts_with("HERDR_"))
            .collect(),
    };
    write(&arguments.file, &seen).map_err(|error| Failure::new(Exit::Failed, error))?;
    Ok(Exit::Done)
}

/// Whoever waits for the file finds all of it.
fn write(file: &Path, seen: &Seen) -> io::Result<()> {
    let new = file.with_extension("new");
    let mut opened =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    opened.write_all(&serde_json::to_vec(seen)?)?;
    fs::rename(new, file)
}
