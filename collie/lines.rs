//! Files of JSON lines: opened whole, and cut where a crash has torn the last line.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::os::private::{locked_file, private_folder};

/// Opens the file at `path`, or begins it, in a private folder and for this process alone; gives each
/// of its lines to `each`, and leaves it at its end.
pub(crate) fn open<L: DeserializeOwned>(path: &Path, mut each: impl FnMut(L)) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        private_folder(folder).map_err(io::Error::other)?;
    }
    let held = || {
        let message = format!("another process has {}", path.display());
        io::Error::new(io::ErrorKind::WouldBlock, message)
    };
    let mut file = locked_file(path).map_err(io::Error::other)?.ok_or_else(held)?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let whole = memchr::memrchr(b'\n', &text).map_or(0, |end| end + 1);
    for (number, line) in text[..whole].split_inclusive(|&byte| byte == b'\n').enumerate() {
        each(serde_json::from_slice(line).map_err(|error| {
            let message = format!("{}, line {}: {error}", path.display(), number + 1);
            io::Error::new(io::ErrorKind::InvalidData, message)
        })?);
    }
    // Nobody was told of a torn tail: it goes, so that the next line begins a line.
    file.set_len(whole as u64)?;
    file.seek(SeekFrom::Start(whole as u64))?;
    Ok(file)
}

/// Makes the names in the folder of `path` durable: a synced file without its name is lost.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}
