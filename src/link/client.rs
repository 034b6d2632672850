//! The client's end of the link, for the commands that scripts call: blocking and without a
//! runtime, because it has to be done within milliseconds.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::protocol::{ErrorObject, LINE_LIMIT, Response};
use crate::os::socket::connect_at_once;
use crate::os::wait::{Ready, wait};

/// How long a presence may take to take in a request that is larger than the socket's buffer.
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

/// A request, written as it is: a `Value` in between would sort its fields.
#[derive(Serialize)]
struct Call<'a, P> {
    jsonrpc: &'static str,
    id: u32,
    method: &'a str,
    params: &'a P,
}

/// A connection to a presence.
#[derive(Debug)]
pub(crate) struct Client {
    /// Does not block: a presence that is stopped must not hang its agent.
    stream: UnixStream,
}

impl Client {
    /// Connects to the link's socket.
    pub(crate) fn connect(socket: &Path) -> Result<Self, CallError> {
        let stream = connect_at_once(socket).map_err(|source| CallError::NoPresence {
            socket: socket.display().to_string(),
            source,
        })?;
        Ok(Self { stream })
    }

    /// Makes one call and waits for its answer, for `limit` at most if one is given.
    pub(crate) fn call<R: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &impl Serialize,
        limit: Option<Duration>,
    ) -> Result<R, CallError> {
        let call = Call { jsonrpc: "2.0", id: 1, method, params };
        let request = serde_json::to_string(&call)
            .map_err(|error| CallError::BadAnswer(error.to_string()))?;
        self.write_line(&request)?;
        let answer = self.read_line(limit.map(|limit| Instant::now() + limit))?;
        let response: Response = serde_json::from_slice(&answer)
            .map_err(|error| CallError::BadAnswer(error.to_string()))?;
        match (response.result, response.error) {
            (_, Some(error)) => Err(CallError::Refused(error)),
            (result, None) => serde_json::from_value(result.unwrap_or(Value::Null))
                .map_err(|error| CallError::BadAnswer(error.to_string())),
        }
    }

    fn write_line(&mut self, line: &str) -> Result<(), CallError> {
        let deadline = Some(Instant::now() + WRITE_LIMIT);
        let line = [line.as_bytes(), b"\n"].concat();
        let mut left = line.as_slice();
        while !left.is_empty() {
            match self.stream.write(left) {
                Ok(count) => left = &left[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(Ready::ToWrite, deadline)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(CallError::WentAway),
            }
        }
        Ok(())
    }

    fn read_line(&mut self, deadline: Option<Instant>) -> Result<Vec<u8>, CallError> {
        let mut line = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(CallError::WentAway),
                Ok(count) => {
                    let new = &buffer[..count];
                    if let Some(end) = memchr::memchr(b'\n', new) {
                        line.extend_from_slice(&new[..end]);
                        return Ok(line);
                    }
                    line.extend_from_slice(new);
                    if line.len() > LINE_LIMIT {
                        return Err(CallError::BadAnswer("its line is too long".to_owned()));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(Ready::ToRead, deadline)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(CallError::WentAway),
            }
        }
    }

    fn wait(&self, ready: Ready, deadline: Option<Instant>) -> Result<(), CallError> {
        match wait(&self.stream, ready, deadline) {
            Ok(true) => Ok(()),
            Ok(false) => Err(CallError::NotYet),
            Err(_) => Err(CallError::WentAway),
        }
    }
}
