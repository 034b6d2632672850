//! The ways to Herdr: its socket first, its own program as the fallback.

mod cli;
mod socket;

use super::environment::Environment;
use super::report::{Answer, Claimant, Refusal, Request};
use super::status::TransportKind;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;

/// How long the socket is left alone after it failed and the CLI worked.
const SOCKET_REST: Duration = Duration::from_secs(25);

/// The same after a question that only the socket could answer.
const SHORT_REST: Duration = Duration::from_secs(1);

/// One exchange with Herdr.
pub(super) trait Transport: Send {
    /// Sends `request` and waits for what Herdr says to it, within limits of its own.
    fn exchange(
        &mut self,
        request: &Request,
    ) -> impl Future<Output = Result<Reply, TransportError>> + Send;
}

/// An answer, and the way it came.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) answer: Answer,
    pub(super) over: TransportKind,
}

/// Why there is no answer, or which one.
#[derive(Debug, thiserror::Error)]
pub(super) enum TransportError {
    /// Herdr's own word: it was heard.
    #[error("Herdr refused it with {}: {}", .0.code, .0.message)]
    Refused(Refusal),
    /// `unknown option: --`, and nothing was reported at all (H050).
    #[error("Herdr's program is older than 0.9.2 and takes no resume command")]
    NoResumeCommands,
    /// The CLI found fault with its words.
    #[error("Herdr's program did not understand its options: {0}")]
    Usage(String),
    /// There is no way that could ask this.
    #[error("it can only be asked over Herdr's socket")]
    Unsupported,
    /// The driver gave it up for a release.
    #[error("a release overtook it")]
    Overtaken,
    #[error("no connection to Herdr's socket: {0}")]
    Connect(#[source] io::Error),
    #[error("the exchange with Herdr broke off: {0}")]
    Broken(#[source] io::Error),
    #[error("Herdr closed the connection before a whole answer")]
    HalfAnswer,
    #[error("what came back is no answer of Herdr's")]
    NotAnAnswer,
    #[error("Herdr said nothing for {} ms", .0.as_millis())]
    Timeout(Duration),
    #[error("there is no program `herdr`: HERDR_BIN_PATH does not lead to it, nor does PATH")]
    NoProgram,
    #[error("Herdr's program could not be run: {0}")]
    Run(#[source] io::Error),
    #[error("Herdr's program failed with {status}: {text}")]
    Failed { status: String, text: String },
}

impl TransportError {
    /// Whether Herdr itself spoke: then another way to it would hear the same.
    fn is_herdrs_word(&self) -> bool {
        matches!(self, Self::Refused(_))
    }
}

/// The ways to one server, and which of them works.
#[derive(Debug)]
pub(super) struct Ways {
    claimant: Claimant,
    environment: Environment,
    socket_path: PathBuf,
    /// Until then the socket is left alone: it failed, and the CLI worked.
    socket_rests_until: Option<Instant>,
}

impl Ways {
    pub(super) fn new(environment: Environment, claimant: Claimant) -> Self {
        let socket_path = environment.socket_path().to_owned();
        Self { claimant, environment, socket_path, socket_rests_until: None }
    }

    fn socket_rests(&self) -> bool {
        self.socket_rests_until.is_some_and(|until| Instant::now() < until)
    }
}

impl Transport for Ways {
    async fn exchange(&mut self, request: &Request) -> Result<Reply, TransportError> {
        let mut socket_error = None;
        if !self.socket_rests() {
            let line = request.to_line(&self.claimant);
            match socket::exchange(&self.socket_path, &line).await {
                Ok(answer) => {
                    self.socket_rests_until = None;
                    return Ok(Reply { answer, over: TransportKind::Socket });
                }
                Err(error) if error.is_herdrs_word() => {
                    self.socket_rests_until = None;
                    return Err(error);
                }
                Err(error) => socket_error = Some(error),
            }
        }
        let Some(words) = request.to_words(&self.claimant) else {
            let Some(error) = socket_error else {
                return Err(TransportError::Unsupported);
            };
            if self.environment.program().is_some() {
                // What comes next goes to the CLI at once, not through the same half second again.
                self.socket_rests_until = Some(Instant::now() + SHORT_REST);
            }
            return Err(error);
        };
        let result = cli::exchange(&self.environment, &words).await;
        match result {
            Ok(answer) => {
                if socket_error.is_some() {
                    self.socket_rests_until = Some(Instant::now() + SOCKET_REST);
                }
                Ok(Reply { answer, over: TransportKind::Cli })
            }
            Err(error) => {
                // Neither is better than the other now.
                self.socket_rests_until = None;
                // Where there is no CLI, the socket's error is the one to tell.
                match (error, socket_error) {
                    (TransportError::NoProgram, Some(socket_error)) => Err(socket_error),
                    (error, _) => Err(error),
                }
            }
        }
    }
}
