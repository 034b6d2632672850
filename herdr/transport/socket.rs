//! Herdr's socket: one request a connection, one line each way (H010).

use super::TransportError;
use crate::herdr::report::{Answer, read_answer};
use crate::os::socket::connect_at_once;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// The limit of the whole exchange. Herdr answers in under a millisecond; one that hangs still accepts
/// connections (H014).
const LIMIT: Duration = Duration::from_millis(500);

/// The longest answer line (H010).
const ANSWER_LIMIT: usize = 1 << 20;

/// Sends `line`, whole and with its newline, and reads the answer.
pub(super) async fn exchange(path: &Path, line: &[u8]) -> Result<Answer, TransportError> {
    match timeout(LIMIT, converse(path, line)).await {
        Ok(result) => result,
        Err(_) => Err(TransportError::Timeout(LIMIT)),
    }
}

async fn converse(path: &Path, line: &[u8]) -> Result<Answer, TransportError> {
    let mut stream = connect_at_once(path).map_err(TransportError::Connect)?;
    // The line was built before the connection, and goes out in one write right behind it, without a
    // turn of the runtime between: the server sleeps 100 ms whenever the next byte is not there (H013).
    let written = match stream.write(line) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        result => result.map_err(TransportError::Broken)?,
    };
    let mut stream = UnixStream::from_std(stream).map_err(TransportError::Connect)?;
    // Only a line longer than the socket's buffer leaves something over.
    stream.write_all(&line[written..]).await.map_err(TransportError::Broken)?;
    let text = read_line(&mut stream).await?;
    match read_answer(&text) {
        Some(Ok(answer)) => Ok(answer),
        Some(Err(refusal)) => Err(TransportError::Refused(refusal)),
        None => Err(TransportError::NotAnAnswer),
    }
}

async fn read_line(stream: &mut UnixStream) -> Result<Vec<u8>, TransportError> {
    let mut text = Vec::with_capacity(512);
    loop {
        let before = text.len();
        let count = stream.read_buf(&mut text).await.map_err(TransportError::Broken)?;
        if let Some(end) = memchr::memchr(b'\n', &text[before..]) {
            text.truncate(before + end);
            return Ok(text);
        }
        if count == 0 {
            return Err(TransportError::HalfAnswer);
        }
        if text.len() > ANSWER_LIMIT {
            return Err(TransportError::Broken(io::ErrorKind::InvalidData.into()));
        }
    }
}
