//! Waking a thread that waits in poll.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::unistd::{pipe, read, write};

/// Wakes.
#[derive(Debug)]
pub(crate) struct Waker(OwnedFd);

/// Is woken: readable until it is drained.
#[derive(Debug)]
pub(crate) struct Sleeper(OwnedFd);

/// Both ends.
pub(crate) fn pair() -> io::Result<(Waker, Sleeper)> {
    // Not `pipe2`, which macOS does not have. A child that is started in between has the two ends, and
    // no use for them.
    let (sleeper, waker) = pipe()?;
    for fd in [&sleeper, &waker] {
        fcntl(fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
        fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    }
    Ok((Waker(waker), Sleeper(sleeper)))
}

impl Waker {
    pub(crate) fn wake(&self) {
        // A full pipe wakes as well.
        let _ = write(&self.0, b"w");
    }
}

impl Sleeper {
    pub(crate) fn drain(&self) {
        let mut bytes = [0; 64];
        while matches!(read(&self.0, &mut bytes), Ok(1..)) {}
    }
}

impl AsFd for Sleeper {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
