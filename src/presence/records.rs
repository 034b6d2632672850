//! Whether sessions are kept on disk, and where.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::FaceStatus;
use crate::collie::FileRecords;
use crate::os::folders;

/// How long leaving waits for what was said last to be written.
const FLUSH: Duration = Duration::from_millis(200);

/// What the agent wants.
#[derive(Clone, Debug)]
pub(super) enum Keeping {
    Off,
    /// Among our records, in a folder for each socket.
    Default,
    In(PathBuf),
}

impl Keeping {
    /// The folder of the records of what is served at `socket`. None: nothing is kept.
    pub(super) fn folder(&self, socket: &Path) -> Result<Option<PathBuf>, String> {
        match self {
            Self::Off => Ok(None),
            Self::In(folder) => Ok(Some(folder.clone())),
            Self::Default => {
                let state = folders::state(|name| env::var_os(name))
                    .ok_or("neither XDG_STATE_HOME nor HOME is an absolute path")?;
                // A socket has one server at a time, and so have its records. The path itself may be
                // longer than the name of a file.
                let digest = Sha256::digest(socket.as_os_str().as_encoded_bytes());
                let name = digest.iter().take(8).fold(0, |all, &byte| (all << 8) | u64::from(byte));
                Ok(Some(state.join("collie").join(format!("{name:016x}"))))
            }
        }
    }
}

/// The records of a presence.
#[derive(Clone, Debug)]
pub(super) enum PaneRecords {
    /// Nobody wants any.
    Absent,
    On(FileRecords),
    /// They were wanted, but cannot be kept; why.
    Off(String),
}

impl PaneRecords {
    pub(super) fn open(folder: Result<Option<PathBuf>, String>) -> Self {
        match folder {
            Ok(None) => Self::Absent,
            Ok(Some(folder)) => match FileRecords::open(&folder) {
                Ok(records) => Self::On(records),
                Err(error) => Self::Off(format!("{}: {error}", folder.display())),
            },
            Err(why) => Self::Off(why),
        }
    }

    pub(super) fn records(&self) -> Option<&FileRecords> {
        match self {
            Self::On(records) => Some(records),
            Self::Absent | Self::Off(_) => None,
        }
    }

    /// The one warning of a start.
    pub(super) fn warn(&self) {
        if let Self::Off(why) = self {
            tracing::warn!(%why, "sessions are kept in memory only");
        }
    }

    pub(super) fn flush(&self) {
        if let Self::On(records) = self
            && !records.flush(FLUSH)
        {
            tracing::warn!("what was said last may not be in the records");
        }
    }

    pub(super) fn status(&self) -> FaceStatus {
        match self {
            Self::Absent => FaceStatus::Absent,
            Self::Off(why) => FaceStatus::Off(why.clone()),
            Self::On(records) => match records.trouble() {
                Some(why) => FaceStatus::Off(why.to_owned()),
                None => FaceStatus::On(records.folder().display().to_string()),
            },
        }
    }
}
