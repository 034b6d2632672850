//! The log of a long-running command: a private file, because the terminal is the agent's.

use std::env;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::prelude::*;

use crate::os::{folders, kept_file};

/// What is logged: a level, or levels by module, such as `debug` or `agent_presence::herdr=trace`.
/// Unless it is set, warnings.
const LEVEL_VARIABLE: &str = "AGENT_PRESENCE_LOG";

/// How long the file may get before it is begun anew.
const SIZE_LIMIT: u64 = 1024 * 1024;

/// Logs from now on. The file is made with the first line that is worth one.
pub(super) fn start() {
    let Some(folder) = folders::state(|name| env::var_os(name)) else { return };
    let wanted = env::var(LEVEL_VARIABLE).unwrap_or_default();
    let nothing_said = || Targets::new().with_default(LevelFilter::WARN);
    let levels = if wanted.is_empty() {
        nothing_said()
    } else {
        wanted.parse().unwrap_or_else(|_| nothing_said())
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(LogFile { folder: folder.join("log"), file: Mutex::new(None) });
    // Whoever has set another log before keeps it.
    let _ = tracing_subscriber::registry().with(levels).with(lines).try_init();
}

/// `agent-presence.log` in the folder of the logs, mode 0600.
struct LogFile {
    folder: PathBuf,
    file: Mutex<Option<File>>,
}

impl LogFile {
    fn open(&self) -> io::Result<File> {
        kept_file::private_folder(&self.folder)?;
        let path = self.folder.join("agent-presence.log");
        let file = kept_file::open_private(&path)?;
        if file.metadata()?.len() > SIZE_LIMIT {
            file.set_len(0)?;
        }
        // What others append meanwhile is not written over.
        OpenOptions::new().append(true).open(&path)
    }
}

impl<'a> MakeWriter<'a> for LogFile {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { log: self, text: Vec::new() }
    }
}

/// One line, written as a whole: several agents log into the same file.
struct Line<'a> {
    log: &'a LogFile,
    text: Vec<u8>,
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let mut file = self.log.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.is_none() {
            *file = self.log.open().ok();
        }
        // A full disk is no reason to trouble anybody.
        if let Some(file) = file.as_mut() {
            let _ = file.write_all(&self.text);
        }
    }
}
