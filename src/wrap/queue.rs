//! Bytes on their way from one terminal to the other.

use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::unistd::{read, write};

/// The most that one read takes.
pub(super) const CHUNK: usize = 64 * 1024;

/// Bytes read and not yet written.
#[derive(Debug)]
pub(super) struct Queue {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    /// What goes after `bytes`, from ourselves. Seldom anything.
    pub(super) extra: Vec<u8>,
}

impl Default for Queue {
    fn default() -> Self {
        Self { bytes: vec![0; CHUNK].into_boxed_slice(), start: 0, end: 0, extra: Vec::new() }
    }
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end && self.extra.is_empty()
    }

    /// Forgets what was read.
    pub(super) fn clear(&mut self) {
        self.start = self.end;
    }

    /// Fills the empty queue.
    pub(super) fn fill(&mut self, from: BorrowedFd<'_>) -> nix::Result<usize> {
        let count = read(from, &mut self.bytes)?;
        (self.start, self.end) = (0, count);
        Ok(count)
    }

    pub(super) fn filled(&self) -> &[u8] {
        &self.bytes[..self.end]
    }

    /// Writes as much as goes without waiting.
    pub(super) fn flush(&mut self, to: BorrowedFd<'_>, limit: usize) -> nix::Result<()> {
        while self.start < self.end {
            let end = self.end.min(self.start.saturating_add(limit));
            self.start += write_some(to, &self.bytes[self.start..end])?;
        }
        while !self.extra.is_empty() {
            let count = write_some(to, &self.extra)?;
            self.extra.drain(..count);
        }
        Ok(())
    }
}

/// Writes what goes without waiting: EAGAIN when that is nothing.
pub(super) fn write_some(to: BorrowedFd<'_>, bytes: &[u8]) -> nix::Result<usize> {
    loop {
        match write(to, bytes) {
            Err(Errno::EINTR) => {}
            Ok(0) => return Err(Errno::EAGAIN),
            result => return result,
        }
    }
}
