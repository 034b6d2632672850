//! Writes: the caller check, receipts, and running each request once.

use std::sync::Arc;

use tokio::sync::watch;

use super::state::Running;
use super::{Action, Caller, Core, Request, Response};
use crate::collie::id::digest_hex;
use crate::collie::receipts::Lookup;
use crate::collie::wire::{Body, CallerCheck, Refusal, Write, Written, read_action, to_json};

/// What a write came to: the body of its answer, or its refusal.
pub(super) type Outcome = Result<Arc<str>, Arc<Refusal>>;

/// What is to be done about a request id.
enum Entry {
    /// It is new: run it, and tell the outcome.
    Run(watch::Sender<Option<Outcome>>),
    /// It runs already: wait for its outcome.
    Join(watch::Receiver<Option<Outcome>>),
    /// It has run: the first answer.
    Replay(Arc<str>),
}

impl Core {
    pub(super) async fn write(
        &self,
        write: Write,
        request: Request,
        caller: Caller,
    ) -> Result<Response, Refusal> {
        if caller == Caller::Agent && self.caller_check() == CallerCheck::On {
            return Err(Refusal::caller_refused());
        }
        check_json(&request)?;
        let body = Body::read(&request.body)?;
        let request_id = body.request_id()?.to_owned();
        // The route's own ids are in it, so the same body on another route is another request.
        let digest = digest_hex(&[format!("{write:?}\n").as_bytes(), body.canonical().as_bytes()]);
        let action = read_action(write, &body)?;
        if !self.is_ready() {
            return Err(Refusal::starting());
        }
        match self.enter(&request_id, &digest)? {
            Entry::Replay(first) => Ok(replayed(&first)),
            Entry::Join(mut outcome) => match outcome.wait_for(Option::is_some).await {
                Ok(outcome) => match outcome.as_ref() {
                    Some(Ok(first)) => Ok(replayed(first)),
                    Some(Err(refusal)) => Err(Refusal::clone(refusal)),
                    None => Err(Refusal::failed()),
                },
                Err(_) => Err(Refusal::failed()),
            },
            Entry::Run(outcome) => {
                let request =
                    RunningWrite { core: self.clone(), request_id, digest, caller, outcome };
                // On a task of its own: the connection may break, and the action still runs whole.
                let task = tokio::spawn(request.run(action));
                match task.await {
                    Ok(Ok(body)) => Ok(Response::json(200, body.as_bytes())),
                    Ok(Err(refusal)) => Err(Refusal::clone(&refusal)),
                    Err(error) => {
                        tracing::error!(%error, "a handler panicked");
                        Err(Refusal::failed())
                    }
                }
            }
        }
    }

    fn enter(&self, request_id: &str, digest: &str) -> Result<Entry, Refusal> {
        self.edit(|edit| {
            let differs = || Refusal::bad_request("requestId was used for another request.");
            if let Some(running) = edit.state.running.get(request_id) {
                if running.digest != digest {
                    return Err(differs());
                }
                return Ok(Entry::Join(running.outcome.clone()));
            }
            // Under the lock, so that no request is between its receipt and its end here.
            match self.shared.options.receipts.get(request_id) {
                Lookup::Kept(receipt) if receipt.digest != digest => Err(differs()),
                Lookup::Kept(receipt) => Ok(Entry::Replay(receipt.body.as_str().into())),
                Lookup::Dropped => Err(Refusal::receipt_dropped()),
                Lookup::New => {
                    let (sender, outcome) = watch::channel(None);
                    let running = Running {
                        digest: digest.to_owned(),
                        outcome,
                        is_given: false,
                        is_delivered: false,
                    };
                    edit.state.running.insert(request_id.to_owned(), running);
                    Ok(Entry::Run(sender))
                }
            }
        })
    }

    /// Runs a call of the receipt store, on a thread that may block where it may.
    pub(super) async fn receipts<R: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn crate::collie::receipts::ReceiptStore) -> std::io::Result<R>
        + Send
        + 'static,
    ) -> Result<R, Refusal> {
        let store = self.shared.options.receipts.clone();
        let result = if store.may_block() {
            match tokio::task::spawn_blocking(move || call(&*store)).await {
                Ok(result) => result,
                Err(error) => Err(std::io::Error::other(error)),
            }
        } else {
            call(&*store)
        };
        result.map_err(|error| {
            tracing::error!(%error, "a receipt could not be written");
            Refusal::failed()
        })
    }
}

/// A new request, on its task.
pub(super) struct RunningWrite {
    pub(super) core: Core,
    pub(super) request_id: String,
    /// Over the route and the body.
    pub(super) digest: String,
    pub(super) caller: Caller,
    outcome: watch::Sender<Option<Outcome>>,
}

impl RunningWrite {
    async fn run(self, action: Action) -> Outcome {
        let result = self.act(action).await;
        let outcome = result.map(|written| to_json(&written).into()).map_err(Arc::new);
        self.outcome.send_replace(Some(outcome.clone()));
        outcome
    }
}

impl Drop for RunningWrite {
    /// Also after a panic: nobody may wait for a request that runs no more.
    fn drop(&mut self) {
        self.core.edit(|edit| edit.state.running.remove(&self.request_id));
    }
}

pub(super) fn check_json(request: &Request) -> Result<(), Refusal> {
    let content_type = request.content_type.as_deref().unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Refusal::not_json())
}

/// The first answer again, which says so (N109).
fn replayed(first: &str) -> Response {
    let body = match serde_json::from_str::<Written>(first) {
        Ok(written) => to_json(&Written { replayed: true, ..written }),
        Err(error) => {
            tracing::error!(%error, "a receipt holds no answer");
            first.to_owned()
        }
    };
    Response::json(200, body.into_bytes())
}
