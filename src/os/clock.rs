//! The time of day, injected so that tests can move it.

use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where the time of day comes from.
///
/// Only wall-clock time goes through here; waiting is tokio's business, whose clock tests can pause.
pub trait Clock: Debug + Send + Sync + 'static {
    /// The time now. It may step back, as the machine's clock may.
    fn now(&self) -> SystemTime;

    /// The time now in microseconds since 1970, 0 before 1970: the unit of Herdr's `seq`.
    fn now_micros(&self) -> u64 {
        let since_epoch = self.now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX)
    }
}

/// The machine's own clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}
