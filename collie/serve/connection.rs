//! One connection: hyper on one side, the core on the other.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, IF_NONE_MATCH};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use super::guard::{Guard, REFUSED};
use super::loopback::{Tokens, is_own_host};
use crate::collie::core::{Caller, Core, Request, Response};
use crate::collie::wire::{BODY_LIMIT, Refusal};

/// How long a body may take.
const BODY_PATIENCE: Duration = Duration::from_secs(15);

/// What a request must show to come in.
#[derive(Clone, Debug)]
pub(super) enum Entrance {
    /// Nothing: only the user's own processes reach a private socket.
    Private,
    /// A token, and a name of this machine's own.
    Token(Arc<Tokens>),
}

impl Entrance {
    fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Self::Token(tokens) = self else {
            return Ok(());
        };
        // Before the token: a page that borrowed a name learns nothing, not even that.
        if !header(headers, HOST.as_str()).is_some_and(|host| is_own_host(&host)) {
            return Err(Refusal::bad_request("Host is not a name of this machine's own."));
        }
        if tokens.accept(header(headers, AUTHORIZATION.as_str()).as_deref()) {
            return Ok(());
        }
        Err(Refusal::bad_token())
    }
}

/// Serves one connection to its end, or until `closing` and the end of the request that runs.
pub(super) async fn serve<S>(
    stream: S,
    core: Core,
    caller: Caller,
    entrance: Entrance,
    mut closing: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let (core, entrance) = (core.clone(), entrance.clone());
        async move { Ok::<_, Infallible>(answer(request, &core, caller, &entrance).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        // The guard has the deadlines: hyper's cannot tell an idle connection from a slow head.
        .header_read_timeout(None)
        .half_close(true)
        .serve_connection(TokioIo::new(Guard::new(stream)), service);
    tokio::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = is_closing(&mut closing) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection of the durable wire broke");
    }
}

/// Ends when serving is to end. Its own function, because what `wait_for` gives is a lock.
pub(super) async fn is_closing(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closing| *closing).await;
}

async fn answer(
    request: hyper::Request<Incoming>,
    core: &Core,
    caller: Caller,
    entrance: &Entrance,
) -> hyper::Response<Full<Bytes>> {
    match read(request, entrance).await {
        Ok(request) => to_hyper(core.handle(request, caller).await, false),
        // What was not read of the request cannot be told from the next one.
        Err(refusal) => to_hyper(Response::refusal(&refusal), true),
    }
}

async fn read(request: hyper::Request<Incoming>, entrance: &Entrance) -> Result<Request, Refusal> {
    let (head, body) = request.into_parts();
    if let Some(refused) = header(&head.headers, REFUSED) {
        return Err(match refused.split_once(' ') {
            Some(("413", why)) => Refusal::too_large(why),
            Some((_, why)) => Refusal::bad_request(why),
            None => Refusal::bad_request(refused),
        });
    }
    entrance.check(&head.headers)?;
    let body = Limited::new(body, BODY_LIMIT).collect();
    let body = match tokio::time::timeout(BODY_PATIENCE, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return Err(Refusal::too_large("The body is over 1 MiB long."));
        }
        Ok(Err(_)) => return Err(Refusal::bad_request("The body broke off.")),
        Err(_) => {
            return Err(Refusal::bad_request("The body was not complete within 15 s."));
        }
    };
    Ok(Request {
        method: head.method.as_str().to_owned(),
        target: head.uri.path_and_query().map_or_else(String::new, ToString::to_string),
        content_type: header(&head.headers, CONTENT_TYPE.as_str()),
        if_none_match: header(&head.headers, IF_NONE_MATCH.as_str()),
        body: body.into(),
    })
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

fn to_hyper(response: Response, close: bool) -> hyper::Response<Full<Bytes>> {
    let mut builder = hyper::Response::builder().status(response.status);
    for (name, value) in response.headers {
        builder = builder.header(name, value);
    }
    if close {
        builder = builder.header("connection", "close");
    }
    let body = Full::new(Bytes::from_owner(response.body));
    builder.body(body).unwrap_or_else(|error| {
        tracing::error!(%error, "an answer of the durable wire could not be written");
        let mut response = hyper::Response::new(Full::default());
        *response.status_mut() = hyper::StatusCode::INTERNAL_SERVER_ERROR;
        response
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tokio::time::Instant;

    use super::*;
    use crate::collie::core::CoreOptions;

    const HELLO: &[u8] = b"GET /durable/v1/hello HTTP/1.1\r\nHost: x\r\n\r\n";

    /// The phone's end of a served connection, over which `space` bytes can be under way, and
    /// the task that serves it.
    fn connected(space: usize) -> (DuplexStream, tokio::task::JoinHandle<()>) {
        let (ours, theirs) = tokio::io::duplex(space);
        let core = Core::new(CoreOptions::default()).unwrap();
        let task = tokio::spawn(async move {
            let (_open, closing) = watch::channel(false);
            serve(theirs, core, Caller::Other, Entrance::Private, closing).await;
        });
        (ours, task)
    }

    /// How long the connection is served on, in seconds.
    async fn seconds_to_end(task: tokio::task::JoinHandle<()>) -> u64 {
        let begin = Instant::now();
        task.await.unwrap();
        begin.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_says_nothing_has_5_seconds() {
        let (_phone, task) = connected(4096);
        assert_eq!(seconds_to_end(task).await, 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_kept_connection_may_be_idle_for_60_seconds() {
        let (mut phone, task) = connected(4096);
        let mut first = [0; 12];
        phone.write_all(HELLO).await.unwrap();
        phone.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        assert_eq!(seconds_to_end(task).await, 60);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_has_15_seconds() {
        let (mut phone, task) = connected(4096);
        let head = b"POST /durable/v1/hello HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{";
        phone.write_all(head).await.unwrap();
        assert_eq!(seconds_to_end(task).await, 15);
        let mut answer = String::new();
        phone.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("15 s"), "{answer}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_reads_has_30_seconds() {
        let (mut phone, task) = connected(64);
        phone.write_all(HELLO).await.unwrap();
        assert_eq!(seconds_to_end(task).await, 30);
    }
}
