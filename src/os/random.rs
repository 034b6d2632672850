//! Randomness from the system.

use std::fmt::Write as _;
use std::io;

/// `bytes` random bytes as lower-case hex digits.
///
/// # Errors
/// The system gives no randomness.
pub(crate) fn hex(bytes: usize) -> io::Result<String> {
    let mut buffer = vec![0_u8; bytes];
    getrandom::fill(&mut buffer).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(digits(&buffer))
}

/// Bytes as lower-case hex digits.
pub(crate) fn digits(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
