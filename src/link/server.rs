//! The presence's end of the link's socket.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::task::JoinSet;

use super::connection::{Opened, Served, serve};
use crate::os::private::{PrivateSocket, PrivateSocketError};
use crate::presence::Presence;

/// Serves the link of a presence on a private socket, until it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    path: PathBuf,
    accepting: tokio::task::AbortHandle,
    /// A session that a command opened outlives the command.
    opened: Opened,
}

impl Server {
    /// Binds the socket and serves it on the presence's own thread.
    pub(crate) fn start(presence: &Presence, path: &Path) -> Result<Self, PrivateSocketError> {
        let socket = PrivateSocket::bind(path)?;
        let opened = Opened::default();
        let accepting = presence.spawn(accept(socket, presence.clone(), opened.clone()));
        Ok(Self { path: path.to_owned(), accepting, opened })
    }

    /// Takes nothing more. The sessions that were opened over it stay open until what this gives is dropped.
    pub(crate) fn stop(self) -> Opened {
        self.opened.clone()
    }

    /// Where it listens.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(socket: PrivateSocket, presence: Presence, opened: Opened) {
    let PrivateSocket { listener, guard: _removes_the_socket_at_the_end } = socket;
    let listener = match UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::warn!(%error, "the link cannot listen");
            return;
        }
    };
    // Dropped with this task, and the connections with it.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let serving = serve(stream, presence.clone(), opened.clone(), Served::OfAgent);
                    connections.spawn(async {
                        if let Err(dropped) = serving.await {
                            tracing::warn!(%dropped, "the link dropped a connection");
                        }
                    });
                }
                Err(error) => {
                    // Out of file descriptors, most likely: it passes, and a busy loop would not help.
                    tracing::warn!(%error, "the link cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
