//! Files of JSON lines: opened whole, and cut where a crash has torn the last line.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use serde::Serialize;
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

/// Adds a line, and waits for the disk if `durably`. One that fails leaves nothing behind.
pub(crate) fn append(file: &mut File, line: &impl Serialize, durably: bool) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    let end = file.stream_position()?;
    let written = file.write_all(&text);
    let written = written.and_then(|()| if durably { file.sync_data() } else { Ok(()) });
    if written.is_err() {
        // Half a line, or one that may not be durable, must not stay before the next.
        file.seek(SeekFrom::Start(end))?;
        file.set_len(end)?;
    }
    written
}

/// Makes the names in the folder of `path` durable: a synced file without its name is lost.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}
