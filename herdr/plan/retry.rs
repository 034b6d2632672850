//! When a failed request is tried again.

use std::time::Duration;
use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(5);

/// Backoff: 0.25 s, doubling to 5 s, until something succeeds.
#[derive(Debug, Default)]
pub(super) struct Retry {
    failures: u32,
    pending: Option<Pending>,
}

#[derive(Debug)]
struct Pending {
    until: Instant,
    /// When a value that is newer than the failed one may go.
    newer_until: Instant,
    generation: u64,
}

impl Retry {
    /// How long everything waits, when it does.
    pub(super) fn waits_until(&self, generation: u64, now: Instant) -> Option<Instant> {
        let pending = self.pending.as_ref()?;
        // A new value does not sit out the long wait of an old one, and does not hammer Herdr either.
        let until =
            if generation == pending.generation { pending.until } else { pending.newer_until };
        (until > now).then_some(until)
    }

    pub(super) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    pub(super) fn failed(&mut self, generation: u64, now: Instant) {
        let wait = FIRST.saturating_mul(1 << self.failures.min(8)).min(LONGEST);
        self.failures += 1;
        self.pending = Some(Pending { until: now + wait, newer_until: now + FIRST, generation });
    }

    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// The next try need not wait.
    pub(super) fn at_once(&mut self) {
        self.pending = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_to_five_seconds() {
        let now = Instant::now();
        let mut retry = Retry::default();
        for expected in [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000] {
            retry.failed(1, now);
            assert_eq!(retry.waits_until(1, now), Some(now + Duration::from_millis(expected)));
        }
        assert_eq!(retry.waits_until(2, now), Some(now + FIRST), "a newer value");
        retry.succeeded();
        assert_eq!(retry.waits_until(1, now), None);
        retry.failed(1, now);
        assert_eq!(retry.waits_until(1, now), Some(now + FIRST));
        assert_eq!(retry.waits_until(1, now + FIRST), None);
    }
}
