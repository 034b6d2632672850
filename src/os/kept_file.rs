//! Small files that outlive the process, in private folders.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Makes `folder` (0700) where it is missing, parents too, and checks that it is ours alone.
///
/// # Errors
/// The system's, or a folder that is a link, not ours, or open to others and not to be closed.
pub(crate) fn private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let metadata = fs::symlink_metadata(folder)?;
    if !metadata.is_dir() {
        return Err(refused(folder, "is not a folder"));
    }
    if metadata.uid() != nix::unistd::geteuid().as_raw() {
        return Err(refused(folder, "belongs to another user"));
    }
    if metadata.mode() & 0o077 != 0 {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Opens `path` for reading and writing, made (0600) where it is missing. Its folder must be a
/// [`private_folder`].
///
/// # Errors
/// The system's, or a file that is a link, not a plain file, or not ours.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits() | nix::fcntl::OFlag::O_NONBLOCK.bits())
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(refused(path, "is not a plain file"));
    }
    if metadata.uid() != nix::unistd::geteuid().as_raw() {
        return Err(refused(path, "belongs to another user"));
    }
    if metadata.mode() & 0o077 != 0 {
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// Reads a file of ours, at most `limit` bytes, that nobody else can have changed: neither it nor its
/// folder.
///
/// # Errors
/// The system's, or a file that is a link, not a plain file, not ours, or open to others for writing.
pub(crate) fn read_private(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let is_ours = |metadata: &fs::Metadata| {
        metadata.uid() == nix::unistd::geteuid().as_raw() && metadata.mode() & 0o022 == 0
    };
    let others_can = "belongs to another user, or others can write to it";
    if let Some(folder) = path.parent()
        && !is_ours(&fs::symlink_metadata(folder)?)
    {
        return Err(refused(folder, others_can));
    }
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits() | nix::fcntl::OFlag::O_NONBLOCK.bits())
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(refused(path, "is not a plain file"));
    }
    if !is_ours(&metadata) {
        return Err(refused(path, others_can));
    }
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn refused(path: &Path, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{} {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn folders_and_files_are_made_private() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/b");
        private_folder(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        private_folder(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        let path = folder.join("mark");
        fs::write(&path, "x").unwrap();
        open_private(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn links_and_other_kinds_of_files_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().join("real");
        private_folder(&real).unwrap();
        let link = root.path().join("link");
        symlink(&real, &link).unwrap();
        assert!(private_folder(&link).is_err());
        let target = real.join("target");
        fs::write(&target, "").unwrap();
        let file_link = real.join("file-link");
        symlink(&target, &file_link).unwrap();
        assert!(open_private(&file_link).is_err());
        assert!(open_private(&real).is_err());
    }
}
