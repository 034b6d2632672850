//! Waiting for a stream with a deadline of any fineness. The timeouts of sockets are counted in ticks of
//! the kernel's clock, which may be as long as 10 ms.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// What a stream is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ready {
    /// There is something to read, or its end.
    ToRead,
    /// There is room to write, or nobody left who reads.
    ToWrite,
}

/// Waits until the stream is ready; false when the deadline came first. Without one it may take for ever.
pub(crate) fn wait(stream: impl AsFd, ready: Ready, deadline: Option<Instant>) -> io::Result<bool> {
    let flags = match ready {
        Ready::ToRead => PollFlags::POLLIN,
        Ready::ToWrite => PollFlags::POLLOUT,
    };
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = left.map_or(PollTimeout::NONE, in_whole_milliseconds);
        match poll(&mut [PollFd::new(stream.as_fd(), flags)], timeout) {
            Ok(0) if left.is_some_and(|left| left.is_zero()) => return Ok(false),
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return Ok(true),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Rounded up, so that the time is over when poll says so.
fn in_whole_milliseconds(left: Duration) -> PollTimeout {
    let milliseconds = left.as_micros().div_ceil(1000);
    PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_stream_is_waited_for_until_the_deadline() {
        let (reading, mut writing) = UnixStream::pair().unwrap();
        let soon = || Some(Instant::now() + Duration::from_millis(2));
        assert!(!wait(&reading, Ready::ToRead, soon()).unwrap());
        assert!(wait(&writing, Ready::ToWrite, None).unwrap());
        writing.write_all(b"x").unwrap();
        assert!(wait(&reading, Ready::ToRead, None).unwrap());
    }
}
