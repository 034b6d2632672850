//! A core on a private socket.

mod connection;
mod guard;
mod head;
mod loopback;

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

pub use loopback::{Loopback, Tokens, serve_loopback};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::core::{Caller, Core, CoreOptions, Warn};
use super::hooks::SharedHooks;
use super::wire::{CallerCheck, Caps};
use crate::os::clock::{Clock, SystemClock};
use crate::os::peer::Peer;
use crate::os::private::{PrivateSocket, PrivateSocketError, SocketGuard};

/// How many connections are served at once; the next waits in the listen queue.
const CONNECTIONS: usize = 64;
/// How long a close waits for requests that run.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);

/// What [`open`] takes. `Options::default()` is the quick start.
#[derive(Clone)]
pub struct Options {
    /// The socket: an absolute path of at most 103 bytes in a private folder. Unless given,
    /// `COLLIE_DURABLE_SOCKET` (N036).
    pub socket: Option<PathBuf>,
    /// The name that the phone shows; the machine's unless given.
    pub host_name: Option<String>,
    /// What is on: all that can be unless given, and only what is named if given (N138, N139).
    pub caps: Option<Caps>,
    /// Whether writes from the agent and below it are refused (N025).
    pub caller_check: CallerCheck,
    /// How many events each pane keeps for its readers (N134).
    pub tail_limit: usize,
    /// Gets the lines that a person should see; the log unless given.
    pub warn: Option<Warn>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// What the agent does with what the phone sends; nothing unless given.
    pub hooks: SharedHooks,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            socket: None,
            host_name: None,
            caps: None,
            caller_check: CallerCheck::On,
            tail_limit: 500,
            warn: None,
            clock: Arc::new(SystemClock),
            hooks: SharedHooks::default(),
        }
    }
}

impl Options {
    fn into_core(self) -> CoreOptions {
        let unless_given = CoreOptions::default();
        CoreOptions {
            host_name: self.host_name.unwrap_or_else(|| unless_given.host_name.clone()),
            caps: self.caps,
            caller_check: self.caller_check,
            tail_limit: self.tail_limit,
            warn: self.warn,
            clock: self.clock,
            hooks: self.hooks,
            ..unless_given
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Options")
            .field("socket", &self.socket)
            .field("host_name", &self.host_name)
            .field("caps", &self.caps)
            .field("caller_check", &self.caller_check)
            .field("tail_limit", &self.tail_limit)
            .finish_non_exhaustive()
    }
}

/// Why there is no durable agent at a socket. Each message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Neither [`Options::socket`] nor `COLLIE_DURABLE_SOCKET`.
    #[error("no socket path: give one, or set COLLIE_DURABLE_SOCKET")]
    NoPath,
    /// Somebody serves this socket, even if stopped just now.
    #[error("another durable agent serves {}", path.display())]
    AlreadyServed {
        /// The socket.
        path: PathBuf,
    },
    /// A part of the path is not private, so Collie would not dial it (`socket-not-private`).
    #[error("socket-not-private: {} {rule}", part.display())]
    NotPrivate {
        /// The part of the path.
        part: PathBuf,
        /// The rule that it breaks.
        rule: String,
    },
    /// The path is longer than 103 bytes (N171).
    #[error("the socket path is {bytes} bytes long, at most 103 are allowed: {}", path.display())]
    PathTooLong {
        /// The socket.
        path: PathBuf,
        /// Its length.
        bytes: usize,
    },
    /// The path is not absolute, or holds `.` or `..` (N171).
    #[error("the socket path is not absolute and plain: {}", path.display())]
    NotAbsolute {
        /// The socket.
        path: PathBuf,
    },
    /// The system refused.
    #[error("{doing}: {source}")]
    Io {
        /// What was tried.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
}

impl From<PrivateSocketError> for OpenError {
    fn from(error: PrivateSocketError) -> Self {
        match error {
            PrivateSocketError::AlreadyServed { path } => Self::AlreadyServed { path },
            PrivateSocketError::NotPrivate { part, rule } => Self::NotPrivate { part, rule },
            PrivateSocketError::PathTooLong { path, bytes } => Self::PathTooLong { path, bytes },
            PrivateSocketError::NotAbsolute { path } => Self::NotAbsolute { path },
            PrivateSocketError::Io { doing, source } => Self::Io { doing, source },
        }
    }
}

/// A durable agent on its private socket. It derefs to its [`Core`].
#[derive(Debug)]
pub struct Collie {
    core: Core,
    path: PathBuf,
    /// Removes the socket and its lock when it is dropped.
    socket: Option<SocketGuard>,
    closing: watch::Sender<bool>,
    server: JoinHandle<()>,
    driver: JoinHandle<()>,
}

/// Opens a durable agent on a private socket. Its tasks run on the current tokio runtime, of
/// whichever kind.
///
/// # Errors
/// The path is not private, too long, served by somebody else, or the system refuses.
pub async fn open(options: Options) -> Result<Collie, OpenError> {
    let path = options.socket.clone();
    let path = path.or_else(|| std::env::var_os("COLLIE_DURABLE_SOCKET").map(PathBuf::from));
    let path = path.filter(|path| !path.as_os_str().is_empty()).ok_or(OpenError::NoPath)?;
    let core = Core::new(options.into_core())
        .map_err(|source| OpenError::Io { doing: "cannot draw an instance id".into(), source })?;
    serve_private(core, path).await
}

/// Puts a core of one's own, with receipts of one's own, on a private socket.
///
/// # Errors
/// As [`open`].
pub async fn serve_private(core: Core, path: impl Into<PathBuf>) -> Result<Collie, OpenError> {
    let path = path.into();
    // Checking the path takes a few looks at the disk, once.
    let PrivateSocket { listener, guard } = PrivateSocket::bind(&path)?;
    let listener = UnixListener::from_std(listener)
        .map_err(|source| OpenError::Io { doing: "cannot listen".into(), source })?;
    warn_of_unknown_callers(&core, Peer::can_be_known());
    let (closing, closed) = watch::channel(false);
    let server = tokio::spawn(serve(listener, core.clone(), closed));
    let driver = tokio::spawn({
        let core = core.clone();
        async move { core.drive().await }
    });
    Ok(Collie { core, path, socket: Some(guard), closing, server, driver })
}

impl Collie {
    /// The core: what an agent places its panes in.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// The socket's path (N042).
    pub fn address(&self) -> &Path {
        &self.path
    }

    /// Ends serving: requests that run may end, for 2 s; then the socket and its lock are removed.
    /// Open asks stay open: an exit is not an answer (N043).
    pub async fn close(mut self) {
        self.closing.send_replace(true);
        if tokio::time::timeout(CLOSE_PATIENCE, &mut self.server).await.is_err() {
            tracing::warn!("requests still ran when the durable agent was closed");
        }
    }
}

impl Drop for Collie {
    fn drop(&mut self) {
        self.server.abort();
        self.driver.abort();
        drop(self.socket.take());
    }
}

impl Deref for Collie {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

async fn serve(listener: UnixListener, core: Core, closing: watch::Receiver<bool>) {
    accept(listener, closing.clone(), |stream| {
        let caller = caller(Peer::of(&stream))?;
        let entrance = connection::Entrance::Private;
        Some(connection::serve(stream, core.clone(), caller, entrance, closing.clone()))
    })
    .await;
}

/// Where connections come from.
trait Listener {
    type Stream;

    fn next(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<UnixStream> {
        Ok(self.accept().await?.0)
    }
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<TcpStream> {
        Ok(self.accept().await?.0)
    }
}

/// Accepts connections, 64 at once, until `closing`; then waits for those that are served.
async fn accept<L, C>(
    listener: L,
    mut closing: watch::Receiver<bool>,
    serve: impl Fn(L::Stream) -> Option<C>,
) where
    L: Listener,
    C: Future<Output = ()> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        // The place comes before the connection: the 65th is not accepted, it waits.
        let next = async { (places.clone().acquire_owned().await, listener.next().await) };
        let (place, accepted) = tokio::select! {
            next = next => next,
            () = connection::is_closing(&mut closing) => break,
            Some(_) = connections.join_next() => continue,
        };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                // No file descriptors left, for one: accepting at once again would only spin.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Some(served) = serve(stream) else {
            continue;
        };
        connections.spawn(async move {
            served.await;
            drop(place);
        });
    }
    while connections.join_next().await.is_some() {}
}

/// One line where the caller check is on and cannot be made (N030).
fn warn_of_unknown_callers(core: &Core, can_be_known: bool) {
    if core.caller_check() == CallerCheck::On && !can_be_known {
        core.warn(
            "collie: this system cannot say who connects to the agent's socket, so any process of \
             the current user can answer.",
        );
    }
}

/// Who is at the other end, looked at once for each connection. `None` for another user, who is
/// refused outright.
fn caller(peer: io::Result<Peer>) -> Option<Caller> {
    let peer = match peer {
        Ok(peer) => peer,
        Err(error) if error.kind() == io::ErrorKind::Unsupported => return Some(Caller::Other),
        Err(error) => {
            tracing::debug!(%error, "a connection was gone before it was looked at");
            return None;
        }
    };
    if !peer.is_same_user() {
        tracing::warn!(uid = peer.uid(), "a connection of another user was refused");
        return None;
    }
    Some(if peer.is_self_or_descendant() { Caller::Agent } else { Caller::Other })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn n030_one_line_says_that_callers_cannot_be_known() {
        let lines = |caller_check, can_be_known| {
            let lines = Arc::new(Mutex::new(Vec::new()));
            let heard = lines.clone();
            let warn: Warn = Arc::new(move |line| heard.lock().unwrap().push(line.to_owned()));
            let options = CoreOptions { caller_check, warn: Some(warn), ..CoreOptions::default() };
            warn_of_unknown_callers(&Core::new(options).unwrap(), can_be_known);
            lines.lock().unwrap().clone()
        };
        let warned = lines(CallerCheck::On, false);
        assert_eq!(warned.len(), 1);
        assert!(warned[0].starts_with("collie: this system cannot say who connects"));
        assert_eq!(lines(CallerCheck::On, true), [""; 0]);
        assert_eq!(lines(CallerCheck::Off, false), [""; 0], "the agent has said that it knows");
    }

    #[test]
    fn who_cannot_be_known_is_served_and_who_is_gone_is_not() {
        let unsupported = io::Error::from(io::ErrorKind::Unsupported);
        assert_eq!(caller(Err(unsupported)), Some(Caller::Other));
        assert_eq!(caller(Err(io::ErrorKind::NotConnected.into())), None);
    }
}
