//! Times as the wire writes them: ISO 8601, in UTC, with milliseconds.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;

/// `time` in ISO 8601, such as `2026-11-30T14:53:46.120Z`.
pub(crate) fn iso(time: SystemTime) -> String {
    // Jiff knows the years -9999 to 9999; a clock beyond them is broken, and 1970 shows that.
    let timestamp = Timestamp::try_from(time).unwrap_or(Timestamp::UNIX_EPOCH);
    format!("{timestamp:.3}")
}

/// Reads ISO 8601 with a time zone.
pub(crate) fn from_iso(text: &str) -> Option<SystemTime> {
    let micros = text.parse::<Timestamp>().ok()?.as_microsecond();
    let distance = Duration::from_micros(micros.unsigned_abs());
    if micros < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(distance)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(distance)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn times_are_written_and_read_in_iso_8601() {
        let time = UNIX_EPOCH + Duration::from_millis(1_796_050_426_120);
        assert_eq!(iso(time), "2026-11-30T14:53:46.120Z");
        assert_eq!(from_iso("2026-11-30T16:53:46.120+02:00"), Some(time));
        assert_eq!(from_iso("2026-11-30T16:53:46"), None);
    }
}
