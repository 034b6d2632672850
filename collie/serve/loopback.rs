//! A core on a TCP port of this machine, with a token: what TLS goes in front of.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::connection::{self, Entrance};
use super::{CLOSE_PATIENCE, OpenError, accept};
use crate::collie::core::{Caller, Core};
use crate::collie::rule::RuleError;

/// The shortest token, in bytes (N184).
const TOKEN_LEAST: usize = 32;

/// The tokens that are accepted: one, and a second one while it is being changed (N189).
///
/// Only their hashes are kept, and compared: in constant time, and with nothing to print.
#[derive(Clone)]
pub struct Tokens {
    hashes: Vec<[u8; 32]>,
}

impl Tokens {
    /// One token of at least 32 bytes.
    ///
    /// # Errors
    /// It is shorter, or holds something other than printable ASCII.
    pub fn new(token: &str) -> Result<Self, RuleError> {
        Ok(Self { hashes: vec![checked(token)?] })
    }

    /// And a second one, during a change.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn and(mut self, next: &str) -> Result<Self, RuleError> {
        self.hashes.truncate(1);
        self.hashes.push(checked(next)?);
        Ok(self)
    }

    /// Whether a header `authorization` holds one of them.
    pub(super) fn accept(&self, header: Option<&str>) -> bool {
        let Some((scheme, token)) = header.and_then(|header| header.split_once(' ')) else {
            return false;
        };
        if !scheme.eq_ignore_ascii_case("bearer") {
            return false;
        }
        let hash = Sha256::digest(token.trim_matches(' ').as_bytes());
        // Every byte, so that the time does not say how far a guess was right.
        self.hashes.iter().any(|known| {
            known.iter().zip(hash.iter()).fold(0, |all, (one, other)| all | (one ^ other)) == 0
        })
    }
}

fn checked(token: &str) -> Result<[u8; 32], RuleError> {
    if token.len() < TOKEN_LEAST {
        let rule = format!("is {} bytes long, at least {TOKEN_LEAST} are needed", token.len());
        return Err(RuleError::new("token", rule));
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(RuleError::new("token", "holds something other than printable ASCII"));
    }
    Ok(Sha256::digest(token.as_bytes()).into())
}

impl fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tokens").field("count", &self.hashes.len()).finish_non_exhaustive()
    }
}

/// A core on a loopback port.
#[derive(Debug)]
pub struct Loopback {
    address: SocketAddr,
    closing: watch::Sender<bool>,
    server: JoinHandle<()>,
    driver: JoinHandle<()>,
}

/// Serves a core on `127.0.0.1:port` (0 takes a free one) to whoever has a token. The token is the
/// only gate here: give the core `allow_always: false` (N104).
///
/// The name that is asked for must be `localhost` or a loopback address, so that no page in a browser
/// reaches it under a name of its own; what puts TLS in front sets it so.
///
/// # Errors
/// The port cannot be bound.
pub async fn serve_loopback(core: Core, port: u16, tokens: Tokens) -> Result<Loopback, OpenError> {
    let cannot = |source| OpenError::Io { doing: format!("cannot listen on port {port}"), source };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    let (closing, closed) = watch::channel(false);
    let entrance = Entrance::Token(tokens.into());
    let server = tokio::spawn({
        let (core, closing) = (core.clone(), closed.clone());
        async move {
            accept(listener, closed, move |stream| {
                // Answers are small and whole: waiting for more to send only delays them.
                let _ = stream.set_nodelay(true);
                let (core, entrance) = (core.clone(), entrance.clone());
                Some(connection::serve(stream, core, Caller::Token, entrance, closing.clone()))
            })
            .await;
        }
    });
    let driver = tokio::spawn(async move { core.drive().await });
    Ok(Loopback { address, closing, server, driver })
}

impl Loopback {
    /// The address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends serving: requests that run may end, for 2 s.
    pub async fn close(mut self) {
        self.closing.send_replace(true);
        if tokio::time::timeout(CLOSE_PATIENCE, &mut self.server).await.is_err() {
            tracing::warn!("requests still ran when the durable agent was closed");
        }
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.server.abort();
        self.driver.abort();
    }
}

/// Whether a Host is this machine's own: `localhost` or a loopback address, with or without a port.
pub(super) fn is_own_host(host: &str) -> bool {
    let own = ["localhost", "127.0.0.1", "[::1]"].into_iter();
    let port_is_none_or_number = |rest: &str| {
        rest.is_empty() || rest.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
    };
    let lower = host.to_ascii_lowercase();
    own.into_iter().filter_map(|own| lower.strip_prefix(own)).any(port_is_none_or_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn n184_a_token_has_32_bytes() {
        let error = Tokens::new("short").unwrap_err().to_string();
        assert_eq!(error, "token is 5 bytes long, at least 32 are needed");
        assert!(Tokens::new(&" ".repeat(32)).is_err());
        assert!(!format!("{:?}", Tokens::new(TOKEN).unwrap()).contains("0123"));
    }

    #[test]
    fn n189_a_second_token_is_accepted_during_a_change() {
        let next = "f".repeat(32);
        let tokens = Tokens::new(TOKEN).unwrap().and(&next).unwrap();
        assert!(tokens.accept(Some(&format!("Bearer {TOKEN}"))));
        assert!(tokens.accept(Some(&format!("bearer {next}"))));
        let long = format!("Bearer {TOKEN}0");
        for bad in [None, Some(""), Some(TOKEN), Some("Bearer "), Some(&*long), Some("Basic x")] {
            assert!(!tokens.accept(bad), "{bad:?}");
        }
    }

    #[test]
    fn only_names_of_this_machine_are_its_own() {
        for good in ["localhost", "LOCALHOST:80", "127.0.0.1:8080", "127.0.0.1", "[::1]:1"] {
            assert!(is_own_host(good), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "localhost.evil",
            "127.0.0.1.nip.io",
            "localhost:",
            "localhost:x",
            "127.0.0.2",
        ] {
            assert!(!is_own_host(bad), "{bad}");
        }
    }
}
