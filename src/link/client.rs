//! The client's end of the link, for the commands that scripts call: blocking and without a
//! runtime, because it has to be done within milliseconds.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::protocol::{ErrorObject, LINE_LIMIT, Response};

/// How long a presence may take to take in a request: a stopped one must not hang its agent.
const WRITE_LIMIT: Duration = Duration::from_secs(1);

/// Why a call gave no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// There is nobody at the other end.
    #[error("no presence answers at `{socket}`: {source}")]
    NoPresence {
        /// The path that was tried.
        socket: String,
        /// What the system said.
        source: io::Error,
    },
    /// The presence went away, or closed the connection, before it answered.
    #[error("the presence went away before it answered")]
    WentAway,
    /// The presence did not answer in time. The request has reached it.
    #[error("the presence has not answered yet")]
    NotYet,
    /// The presence refused the request.
    #[error("{}", .0.message)]
    Refused(ErrorObject),
    /// The answer makes no sense.
    #[error("the presence gave an answer that makes no sense: {0}")]
    BadAnswer(String),
}

/// A connection to a presence.
#[derive(Debug)]
pub(crate) struct Client {
    stream: UnixStream,
}

impl Client {
    /// Connects to the link's socket.
    pub(crate) fn connect(socket: &Path) -> Result<Self, CallError> {
        let no_presence =
            |source| CallError::NoPresence { socket: socket.display().to_string(), source };
        let stream = UnixStream::connect(socket).map_err(no_presence)?;
        stream.set_write_timeout(Some(WRITE_LIMIT)).map_err(no_presence)?;
        Ok(Self { stream })
    }

    /// Makes one call and waits for its answer, for `limit` at most if one is given.
    pub(crate) fn call<R: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &impl Serialize,
        limit: Option<Duration>,
    ) -> Result<R, CallError> {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut line = request.to_string();
        line.push('\n');
        self.stream.write_all(line.as_bytes()).map_err(|_| CallError::WentAway)?;

        let deadline = limit.map(|limit| Instant::now() + limit);
        let answer = self.read_line(deadline)?;
        let response: Response = serde_json::from_slice(&answer)
            .map_err(|error| CallError::BadAnswer(error.to_string()))?;
        match (response.result, response.error) {
            (_, Some(error)) => Err(CallError::Refused(error)),
            (result, None) => serde_json::from_value(result.unwrap_or(Value::Null))
                .map_err(|error| CallError::BadAnswer(error.to_string())),
        }
    }

    fn read_line(&mut self, deadline: Option<Instant>) -> Result<Vec<u8>, CallError> {
        let mut line = Vec::new();
        let limit = u64::try_from(LINE_LIMIT).unwrap_or(u64::MAX);
        let mut reader = BufReader::new(&self.stream).take(limit);
        loop {
            if let Some(deadline) = deadline {
                // A timeout of zero would mean none at all.
                let left = deadline.saturating_duration_since(Instant::now());
                let left = left.max(Duration::from_millis(1));
                self.stream.set_read_timeout(Some(left)).map_err(|_| CallError::WentAway)?;
            }
            match reader.read_until(b'\n', &mut line) {
                Ok(_) if line.ends_with(b"\n") => return Ok(line),
                Ok(_) => return Err(CallError::WentAway),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) =>
                {
                    if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                        return Err(CallError::NotYet);
                    }
                }
                Err(_) => return Err(CallError::WentAway),
            }
        }
    }
}
