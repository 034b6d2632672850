//! Private folders, files and sockets, checked as Collie checks them before it connects: the whole
//! path is the user's own, or nobody else's to change.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

/// The longest path of a socket, in bytes, that Collie takes.
const PATH_LIMIT: usize = 103;

/// Why a socket is not bound.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrivateSocketError {
    #[error("another process serves {}", path.display())]
    AlreadyServed { path: PathBuf },
    #[error("{} {rule}", part.display())]
    NotPrivate { part: PathBuf, rule: String },
    #[error("the socket path is {bytes} bytes long, at most 103 are allowed: {}", path.display())]
    PathTooLong { path: PathBuf, bytes: usize },
    #[error("the socket path is not absolute and plain: {}", path.display())]
    NotAbsolute { path: PathBuf },
    #[error("{doing}: {source}")]
    Io { doing: String, source: io::Error },
}

fn failed(verb: &str, path: &Path) -> impl FnOnce(io::Error) -> PrivateSocketError {
    let doing = format!("cannot {verb} {}", path.display());
    move |source| PrivateSocketError::Io { doing, source }
}

fn not_private(part: &Path, rule: impl Into<String>) -> PrivateSocketError {
    PrivateSocketError::NotPrivate { part: part.to_owned(), rule: rule.into() }
}

/// A socket that only its user can reach.
#[derive(Debug)]
pub(crate) struct PrivateSocket {
    /// Does not block.
    pub(crate) listener: UnixListener,
    pub(crate) guard: SocketGuard,
}

/// Removes the socket and its lock file when it is dropped.
#[derive(Debug)]
pub(crate) struct SocketGuard {
    path: PathBuf,
    /// Device and inode, so that nobody else's file is removed.
    identity: (u64, u64),
    lock: Lock,
}

impl PrivateSocket {
    /// Binds a private socket at `path`, in a private folder that is made where it is missing.
    ///
    /// The holder of the lock file beside it is its only owner. A socket that a dead process left is
    /// replaced; one at which anybody listens is not, even if its process is stopped.
    pub(crate) fn bind(path: &Path) -> Result<Self, PrivateSocketError> {
        private_folder(folder_of(path)?)?;

        let lock = Lock::take(path)?;
        remove_if_stale(path)?;
        let listener = UnixListener::bind(path).map_err(failed("bind", path))?;
        let made = fs::symlink_metadata(path).map_err(failed("look at", path))?;
        let identity = (made.dev(), made.ino());
        let guard = SocketGuard { path: path.to_owned(), identity, lock };
        // Until here the folder alone has kept others away.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))
            .map_err(failed("make private", path))?;
        let made = fs::symlink_metadata(path).map_err(failed("look at", path))?;
        if made.mode() & 0o077 != 0 || !is_own(&made) || (made.dev(), made.ino()) != identity {
            return Err(not_private(path, "did not stay private after it was made"));
        }
        listener.set_nonblocking(true).map_err(failed("listen at", path))?;
        Ok(Self { listener, guard })
    }
}

impl Drop for SocketGuard {
    fn drop(&mut self) {
        let same = |found: &fs::Metadata| (found.dev(), found.ino()) == self.identity;
        if fs::symlink_metadata(&self.path).is_ok_and(|found| same(&found))
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "a socket is left behind");
        }
        self.lock.remove();
    }
}

/// Checks a socket that is there, and the whole path to it, as Collie does before it connects.
/// Nothing is made.
pub(crate) fn check_socket(path: &Path) -> Result<(), PrivateSocketError> {
    let folder = folder_of(path)?;
    let mut part = PathBuf::new();
    for component in folder.components() {
        part.push(component);
        let found = fs::symlink_metadata(&part).map_err(failed("look at", &part))?;
        check_folder(&part, &found, part == folder)?;
    }
    let found = fs::symlink_metadata(path).map_err(failed("look at", path))?;
    if found.is_symlink() {
        return Err(not_private(path, "is a symbolic link"));
    }
    if !found.file_type().is_socket() {
        return Err(not_private(path, "is not a socket"));
    }
    if !is_own(&found) {
        return Err(not_private(path, format!("belongs to user {}, not to you", found.uid())));
    }
    if found.mode() & 0o077 != 0 {
        let rule = format!("has mode {:04o}, not 0600", found.mode() & 0o7777);
        return Err(not_private(path, rule));
    }
    Ok(())
}

/// The folder of a socket, whose path holds to Collie's rule.
fn folder_of(path: &Path) -> Result<&Path, PrivateSocketError> {
    let plain = |component| matches!(component, Component::RootDir | Component::Normal(_));
    let not_absolute = || PrivateSocketError::NotAbsolute { path: path.to_owned() };
    if !path.is_absolute() || !path.components().all(plain) {
        return Err(not_absolute());
    }
    let bytes = path.as_os_str().len();
    if bytes > PATH_LIMIT {
        return Err(PrivateSocketError::PathTooLong { path: path.to_owned(), bytes });
    }
    path.parent().ok_or_else(not_absolute)
}

/// Makes a folder, and every missing one above it, with mode 0700, and checks the whole path.
pub(crate) fn private_folder(folder: &Path) -> Result<(), PrivateSocketError> {
    let mut part = PathBuf::new();
    for component in folder.components() {
        part.push(component);
        let found = match fs::symlink_metadata(&part) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = DirBuilder::new().mode(0o700).create(&part);
                // Somebody else may make the same folder at the same time.
                if let Err(error) = made
                    && error.kind() != io::ErrorKind::AlreadyExists
                {
                    return Err(failed("make folder", &part)(error));
                }
                fs::symlink_metadata(&part).map_err(failed("look at", &part))?
            }
            Err(error) => return Err(failed("look at", &part)(error)),
        };
        check_folder(&part, &found, part == folder)?;
    }
    Ok(())
}

fn check_folder(
    part: &Path,
    found: &fs::Metadata,
    is_last: bool,
) -> Result<(), PrivateSocketError> {
    let mode = found.mode() & 0o7777;
    if found.is_symlink() {
        return Err(not_private(part, "is a symbolic link"));
    }
    if !found.is_dir() {
        return Err(not_private(part, "is not a folder"));
    }
    if is_last {
        if !is_own(found) {
            return Err(not_private(part, format!("belongs to user {}, not to you", found.uid())));
        }
        if mode & 0o777 != 0o700 {
            return Err(not_private(part, format!("has mode {mode:04o}, not 0700")));
        }
        return Ok(());
    }
    if !is_own(found) && found.uid() != 0 {
        let rule = format!("belongs to user {}, not to you or root", found.uid());
        return Err(not_private(part, rule));
    }
    if mode & 0o022 != 0 && mode & 0o1000 == 0 {
        let rule = format!("is writable by group or others without being sticky (mode {mode:04o})");
        return Err(not_private(part, rule));
    }
    Ok(())
}

fn is_own(found: &fs::Metadata) -> bool {
    found.uid() == nix::unistd::geteuid().as_raw()
}

/// Opens a file of the user's own, mode 0600, never through a symbolic link.
pub(crate) fn private_file(path: &Path) -> Result<File, PrivateSocketError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_CLOEXEC | nix::libc::O_NONBLOCK)
        .open(path)
        .map_err(failed("open", path))?;
    let found = file.metadata().map_err(failed("look at", path))?;
    if !found.is_file() {
        return Err(not_private(path, "is not a file"));
    }
    if !is_own(&found) {
        return Err(not_private(path, format!("belongs to user {}, not to you", found.uid())));
    }
    if found.mode() & 0o077 != 0 {
        let rule = format!("has mode {:04o}, not 0600", found.mode() & 0o7777);
        return Err(not_private(path, rule));
    }
    Ok(file)
}

/// Opens a file of the user's own and locks it, until it is closed; `None` if another holds it.
pub(crate) fn locked_file(path: &Path) -> Result<Option<File>, PrivateSocketError> {
    // A holder may remove or replace its file: one that was opened before is locked in vain.
    for _ in 0..100 {
        let file = private_file(path)?;
        match file.try_lock() {
            Ok(()) if is_at(&file, path) => return Ok(Some(file)),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(failed("lock", path)(error)),
        }
    }
    Ok(None)
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(held), Ok(found)) => (held.dev(), held.ino()) == (found.dev(), found.ino()),
        _ => false,
    }
}

fn lock_path(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

/// The lock file of a socket. The system lets go of it when the process ends, however it ends.
#[derive(Debug)]
struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    fn take(socket: &Path) -> Result<Self, PrivateSocketError> {
        let path = lock_path(socket);
        let served = || PrivateSocketError::AlreadyServed { path: socket.to_owned() };
        let file = locked_file(&path)?.ok_or_else(served)?;
        Ok(Self { path, file })
    }

    /// Removes the file while it is still held, so that nobody locks it and loses it.
    fn remove(&self) {
        if is_at(&self.file, &self.path)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "a lock file is left behind");
        }
    }
}

/// Removes what a killed process has left where it served: the socket, if nobody listens at it, and its
/// lock file. Nothing while another process holds that.
pub(crate) fn remove_abandoned(socket: &Path) {
    let is_there = |path: &Path| fs::symlink_metadata(path).is_ok();
    if !is_there(socket) && !is_there(&lock_path(socket)) {
        return;
    }
    if let Ok(lock) = Lock::take(socket) {
        let _ = remove_if_stale(socket);
        lock.remove();
    }
}

/// Removes a socket at which nobody listens. The lock is held, so nobody is about to either.
fn remove_if_stale(path: &Path) -> Result<(), PrivateSocketError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("look at", path)(error)),
    };
    if !found.file_type().is_socket() {
        return Err(not_private(path, "is there already, and is not a socket"));
    }
    let address = UnixAddr::new(path).map_err(|errno| failed("name", path)(errno.into()))?;
    let probe = socket(AddressFamily::Unix, SockType::Stream, SockFlag::empty(), None)
        .map_err(|errno| failed("make a socket for", path)(errno.into()))?;
    let probe = std::os::unix::net::UnixStream::from(probe);
    // A stopped server whose queue is full would hold a blocking connect for ever.
    probe.set_nonblocking(true).map_err(failed("probe", path))?;
    match connect(probe.as_raw_fd(), &address) {
        Err(Errno::ECONNREFUSED) => fs::remove_file(path).map_err(failed("remove", path)),
        Err(Errno::ENOENT) => Ok(()),
        // Connected, or a full queue: somebody listens. Anything else is not known to be dead.
        _ => Err(PrivateSocketError::AlreadyServed { path: path.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A private folder of the test's own, below the sticky /tmp.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        set_mode(folder.path(), 0o700);
        folder
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let root = folder();
        let at = |name: &str| root.path().join(name);
        let names = || {
            let mut names: Vec<_> = fs::read_dir(root.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            names.sort();
            names
        };
        remove_abandoned(&at("never"));
        assert_eq!(names(), [""; 0], "nothing is made");
        drop(UnixListener::bind(at("dead")).unwrap());
        for lock in ["dead.lock", "half.lock"] {
            fs::write(at(lock), "").unwrap();
            set_mode(&at(lock), 0o600);
        }
        fs::write(at("plain"), "").unwrap();
        let live = PrivateSocket::bind(&at("live")).unwrap();
        for name in ["dead", "half", "plain", "live"] {
            remove_abandoned(&at(name));
        }
        assert_eq!(names(), ["live", "live.lock", "plain"]);
        drop(live);
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    fn rule(path: &Path) -> String {
        PrivateSocket::bind(path).unwrap_err().to_string()
    }

    #[test]
    fn n053_n173_n174_folder_and_socket_are_private_and_go_again() {
        let root = folder();
        let path = root.path().join("a/b/app.sock");
        let bound = PrivateSocket::bind(&path).unwrap();
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        assert_eq!(mode(&path), 0o600);
        assert!(UnixStream::connect(&path).is_ok());
        drop(bound);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
    }

    #[test]
    fn n171_the_path_is_absolute_and_short() {
        assert!(rule(Path::new("app.sock")).starts_with("the socket path is not absolute"));
        assert!(rule(Path::new("/tmp/../app.sock")).starts_with("the socket path is not absolute"));
        let root = folder();
        let long = root.path().join("x".repeat(PATH_LIMIT + 1 - root.path().as_os_str().len() - 1));
        assert!(rule(&long).starts_with("the socket path is 104 bytes long, at most 103"));
        let fits = root.path().join("x".repeat(PATH_LIMIT - root.path().as_os_str().len() - 1));
        assert!(PrivateSocket::bind(&fits).is_ok());
    }

    #[test]
    fn n174_n175_n176_every_part_of_the_path_is_checked() {
        let root = folder();
        let open = root.path().join("open");
        fs::create_dir(&open).unwrap();
        set_mode(&open, 0o750);
        assert!(rule(&open.join("s")).ends_with("open has mode 0750, not 0700"));
        set_mode(&open, 0o777);
        assert!(rule(&open.join("in/s")).contains("writable by group or others"));
        set_mode(&open, 0o1777);
        assert!(PrivateSocket::bind(&open.join("in/s")).is_ok(), "sticky");

        let real = root.path().join("real");
        fs::create_dir(&real).unwrap();
        set_mode(&real, 0o700);
        symlink(&real, root.path().join("link")).unwrap();
        assert!(rule(&root.path().join("link/s")).ends_with("link is a symbolic link"));
        assert!(rule(&root.path().join("link/in/s")).ends_with("link is a symbolic link"));

        let file = real.join("file");
        fs::write(&file, "kept").unwrap();
        assert!(rule(&file).ends_with("is not a socket"));
        assert!(rule(&file.join("s")).ends_with("is not a folder"));
        assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
        symlink(&file, real.join("s.lock")).unwrap();
        assert!(rule(&real.join("s")).starts_with("cannot open"), "a lock behind a link");
    }

    #[test]
    fn n171_n173_n174_n175_a_socket_is_checked_and_nothing_is_made() {
        let root = folder();
        let path = root.path().join("in/s");
        let rule = |path: &Path| check_socket(path).unwrap_err().to_string();
        assert!(rule(Path::new("in/s")).starts_with("the socket path is not absolute"));
        assert!(rule(&path).starts_with("cannot look at"), "no folder");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0, "nothing was made");

        let bound = PrivateSocket::bind(&path).unwrap();
        check_socket(&path).unwrap();
        set_mode(&path, 0o660);
        assert!(rule(&path).ends_with("s has mode 0660, not 0600"));
        set_mode(&path, 0o600);
        set_mode(path.parent().unwrap(), 0o755);
        assert!(rule(&path).ends_with("in has mode 0755, not 0700"));
        set_mode(path.parent().unwrap(), 0o700);
        symlink(&path, root.path().join("in/link")).unwrap();
        assert!(rule(&root.path().join("in/link")).ends_with("link is a symbolic link"));
        fs::write(root.path().join("in/file"), "").unwrap();
        assert!(rule(&root.path().join("in/file")).ends_with("file is not a socket"));
        drop(bound);
        assert!(rule(&path).starts_with("cannot look at"), "gone");
    }

    #[test]
    fn n190_a_stale_socket_is_replaced() {
        let root = folder();
        let path = root.path().join("s");
        // std leaves the file when the listener goes, as a killed process does.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        assert!(PrivateSocket::bind(&path).is_ok());
    }

    #[test]
    fn a_live_socket_is_refused_even_when_nobody_accepts() {
        let root = folder();
        let path = root.path().join("s");
        let _listener = UnixListener::bind(&path).unwrap();
        let mut waiting = Vec::new();
        // Fill the queue, as a stopped server's fills: the next connect would block.
        loop {
            let probe = socket(AddressFamily::Unix, SockType::Stream, SockFlag::empty(), None);
            let probe = UnixStream::from(probe.unwrap());
            probe.set_nonblocking(true).unwrap();
            let full = connect(probe.as_raw_fd(), &UnixAddr::new(&path).unwrap()).is_err();
            waiting.push(probe);
            if full {
                break;
            }
        }
        let error = PrivateSocket::bind(&path).unwrap_err();
        assert!(matches!(error, PrivateSocketError::AlreadyServed { .. }), "{error}");
        assert!(path.exists());
    }

    #[test]
    fn the_holder_of_the_lock_is_the_only_owner() {
        let root = folder();
        let path = root.path().join("s");
        let first = PrivateSocket::bind(&path).unwrap();
        // Also when the socket itself is gone.
        fs::remove_file(&path).unwrap();
        let second = PrivateSocket::bind(&path).unwrap_err();
        assert!(matches!(second, PrivateSocketError::AlreadyServed { .. }));
        drop(first);
        let second = PrivateSocket::bind(&path).unwrap();
        assert!(UnixStream::connect(&path).is_ok());
        drop(second);
    }

    #[test]
    fn a_file_that_took_its_place_is_left_alone() {
        let root = folder();
        let path = root.path().join("s");
        let bound = PrivateSocket::bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "another").unwrap();
        drop(bound);
        assert_eq!(fs::read_to_string(&path).unwrap(), "another");
    }
}
