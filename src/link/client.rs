//! The client's end of the link, for the commands that scripts call: blocking and without a
//! runtime, because it has to be done within milliseconds.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::protocol::{ErrorObject, LINE_LIMIT};
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

/// A line of a presence's: an answer, or something that it says unasked.
#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    id: Value,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    result: Value,
    #[serde(default)]
    error: Option<ErrorObject>,
}

/// A connection to a presence.
#[derive(Debug)]
pub(crate) struct Client {
    /// Does not block: a presence that is stopped must not hang its agent.
    stream: UnixStream,
    /// Read, and no whole line yet.
    kept: Vec<u8>,
    last_id: u32,
    /// The request that was given up has its answer still to come.
    is_owed: bool,
    /// What came unasked, between a request and its answer.
    unasked: VecDeque<(String, Value)>,
}

impl Client {
    /// Connects to the link's socket.
    pub(crate) fn connect(socket: &Path) -> Result<Self, CallError> {
        let stream = connect_at_once(socket).map_err(|source| CallError::NoPresence {
            socket: socket.display().to_string(),
            source,
        })?;
        let unasked = VecDeque::new();
        Ok(Self { stream, kept: Vec::new(), last_id: 0, is_owed: false, unasked })
    }

    /// Makes one call and waits for its answer, for `limit` at most if one is given.
    pub(crate) fn call<R: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &impl Serialize,
        limit: Option<Duration>,
    ) -> Result<R, CallError> {
        let deadline = limit.map(|limit| Instant::now() + limit);
        if self.is_owed {
            // Nothing piles up at a presence that is stopped.
            let _too_late = self.read_answer(deadline)?;
        }
        self.last_id = self.last_id.wrapping_add(1);
        let call = Call { jsonrpc: "2.0", id: self.last_id, method, params };
        let request = serde_json::to_string(&call)
            .map_err(|error| CallError::BadAnswer(error.to_string()))?;
        self.write_line(&request)?;
        self.is_owed = true;
        let Line { result, error, .. } = self.read_answer(deadline)?;
        match error {
            Some(error) => Err(CallError::Refused(error)),
            None => serde_json::from_value(result)
                .map_err(|error| CallError::BadAnswer(error.to_string())),
        }
    }

    /// The next thing that the presence says unasked, for as long as it takes: its method and parameters.
    pub(crate) fn notification(&mut self) -> Result<(String, Value), CallError> {
        loop {
            if let Some(unasked) = self.unasked.pop_front() {
                return Ok(unasked);
            }
            self.read(None)?;
        }
    }

    /// The answer to the last request.
    fn read_answer(&mut self, deadline: Option<Instant>) -> Result<Line, CallError> {
        loop {
            if let Some(line) = self.read(deadline)?
                && line.id == self.last_id
            {
                self.is_owed = false;
                return Ok(line);
            }
        }
    }

    /// Reads a line; `None` if it was one that nobody asked for.
    fn read(&mut self, deadline: Option<Instant>) -> Result<Option<Line>, CallError> {
        let line = self.read_line(deadline)?;
        let line: Line = serde_json::from_slice(&line)
            .map_err(|error| CallError::BadAnswer(error.to_string()))?;
        match line {
            Line { method: Some(method), params, .. } => {
                self.unasked.push_back((method, params));
                Ok(None)
            }
            line => Ok(Some(line)),
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
        let mut buffer = [0; 4096];
        let mut searched = 0;
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.kept[searched..]) {
                let rest = self.kept.split_off(searched + end + 1);
                let mut line = std::mem::replace(&mut self.kept, rest);
                line.pop();
                return Ok(line);
            }
            searched = self.kept.len();
            if searched > LINE_LIMIT {
                return Err(CallError::BadAnswer("its line is too long".to_owned()));
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(CallError::WentAway),
                Ok(count) => self.kept.extend_from_slice(&buffer[..count]),
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
