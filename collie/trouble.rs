//! A disk that fails under the records: said once, whatever fails after that.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// What went wrong first, if anything did. Clones are the same.
#[derive(Clone)]
pub(crate) struct Trouble {
    folder: PathBuf,
    first: Arc<OnceLock<String>>,
}

impl Trouble {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), first: Arc::default() }
    }

    /// A write has failed.
    pub(crate) fn tell(&self, error: &io::Error) {
        let words = format!("{}: {error}", self.folder.display());
        if self.first.set(words).is_ok() {
            let folder = self.folder.display();
            tracing::warn!(%error, %folder, "records are kept in memory only");
        }
    }

    /// What went wrong first.
    pub(crate) fn first(&self) -> Option<&str> {
        self.first.get().map(String::as_str)
    }
}

impl fmt::Debug for Trouble {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Trouble").field(&self.first.get()).finish()
    }
}
