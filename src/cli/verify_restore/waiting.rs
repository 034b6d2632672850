//! Waiting for something that nobody tells of, with a limit, and until a signal asks for the end.

use std::cell::Cell;
use std::io;
use std::time::{Duration, Instant};

use crate::os::signals::{ENDING, Signals};
use crate::os::wait::{Ready, wait};

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(25);

/// Why a wait ended in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vain {
    /// It took too long.
    TimedOut,
    /// A signal asks for the end.
    Interrupted,
}

/// The limit of every wait, and the signals that end them.
#[derive(Debug)]
pub(super) struct Waiting {
    signals: Signals,
    interrupted: Cell<Option<i32>>,
    pub(super) limit: Duration,
}

impl Waiting {
    /// From now on the signals that ask for the end are noted: everything is cleaned up first.
    pub(super) fn start(limit: Duration) -> io::Result<Self> {
        Ok(Self { signals: Signals::take(&ENDING, None)?, interrupted: Cell::new(None), limit })
    }

    /// The first signal that asked for the end.
    pub(super) fn interrupted(&self) -> Option<i32> {
        if self.interrupted.get().is_none() {
            let noted = self.signals.drain();
            self.interrupted.set(noted.first().map(|(signal, _)| *signal as i32));
        }
        self.interrupted.get()
    }

    /// Looks until there is something, for the usual limit.
    pub(super) fn until<T>(&self, look: impl FnMut() -> Option<T>) -> Result<T, Vain> {
        self.at_most(self.limit, look)
    }

    /// Looks until there is something, for `limit` at most. It is looked once in any case.
    pub(super) fn at_most<T>(
        &self,
        limit: Duration,
        mut look: impl FnMut() -> Option<T>,
    ) -> Result<T, Vain> {
        let end = Instant::now() + limit;
        loop {
            if self.interrupted().is_some() {
                return Err(Vain::Interrupted);
            }
            if let Some(found) = look() {
                return Ok(found);
            }
            let now = Instant::now();
            if now >= end {
                return Err(Vain::TimedOut);
            }
            // Woken by a signal, or by the time. An error is no reason to look without a pause.
            if wait(&self.signals, Ready::ToRead, Some(end.min(now + LOOK))).is_err() {
                std::thread::sleep(LOOK);
            }
        }
    }
}
