//! Unix sockets, where the standard library's own calls would block.

use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Connects without ever blocking: a server whose backlog is full is `WouldBlock` at once, where the
/// standard library's `connect` would hang. The stream does not block either.
///
/// # Errors
/// The system's: no socket there, nobody who listens, a full backlog, a path that is too long.
pub(crate) fn connect_at_once(path: &Path) -> io::Result<UnixStream> {
    let address = UnixAddr::new(path)?;
    let socket = open_socket()?;
    connect(socket.as_raw_fd(), &address)?;
    Ok(UnixStream::from(socket))
}

#[cfg(not(target_os = "macos"))]
fn open_socket() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    Ok(socket(AddressFamily::Unix, SockType::Stream, flags, None)?)
}

/// macOS sets the same two flags one after the other. (Not run here.)
#[cfg(target_os = "macos")]
fn open_socket() -> io::Result<OwnedFd> {
    use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
    let socket = socket(AddressFamily::Unix, SockType::Stream, SockFlag::empty(), None)?;
    fcntl(&socket, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    fcntl(&socket, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{Backlog, listen};
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_full_backlog_is_an_error_and_not_a_hang() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        listen(&listener, Backlog::new(0).unwrap()).unwrap();
        let mut connections = Vec::new();
        let error = loop {
            match connect_at_once(&path) {
                Ok(stream) => connections.push(stream),
                Err(error) => break error,
            }
            assert!(connections.len() < 1_000);
        };
        // macOS says that nobody listens.
        let expected = [io::ErrorKind::WouldBlock, io::ErrorKind::ConnectionRefused];
        assert!(expected.contains(&error.kind()), "{error:?}");
    }

    #[test]
    fn nobody_there_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        assert_eq!(connect_at_once(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        drop(UnixListener::bind(&path).unwrap());
        assert_eq!(connect_at_once(&path).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        let long = folder.path().join("x".repeat(200));
        assert!(connect_at_once(&long).is_err());
    }
}
