//! The presence of the agent that we run inside, when we do: the wrapped agent gets a session of its own
//! there, over the link.
//!
//! Nothing that happens to that presence is the agent's business. One that is stopped is waited for a
//! moment, and then left alone for a while; of one that is gone nothing is wanted any more.

use std::cell::RefCell;
use std::env;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::output;
use crate::collie::Item;
use crate::link::{
    AcceptParams, CallError, Client, Evidence, GlanceResult, ItemParams, OpenParams, RefuseParams,
    SESSION_VARIABLE, SOCKET_VARIABLE, SessionParams, StateParams, StatusResult, SubscribeParams,
    WishReceived, code, method,
};
use crate::presence::{Glance, Wanted};
use crate::session::{Rank, State};

/// How long the presence round us may take to answer.
const PATIENCE: Duration = Duration::from_millis(200);
/// For how long it is left alone when it did not.
const LEFT_ALONE: Duration = Duration::from_secs(2);

/// A presence that we run inside.
#[derive(Debug)]
pub(super) struct Outer {
    pub(super) socket: PathBuf,
    /// The session of the agent that we run inside.
    pub(super) session: String,
    /// The pane in which Herdr shows it.
    pane: Option<String>,
}

impl Outer {
    /// Finds it by what `wrap` gives its agent, if it answers.
    pub(super) fn find() -> Option<Self> {
        let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let (socket, session) = (variable(SOCKET_VARIABLE)?, variable(SESSION_VARIABLE)?);
        let socket = PathBuf::from(socket);
        let mut client = Client::connect(&socket).ok()?;
        let nothing = serde_json::Map::new();
        let status: StatusResult = client.call(method::STATUS, &nothing, Some(PATIENCE)).ok()?;
        Some(Self { socket, session, pane: status.herdr.map(|herdr| herdr.pane) })
    }

    /// Whether the pane that we are in is the one of this presence: with its variables taken out, as `wrap`
    /// does, it can be no other.
    pub(super) fn has_our_pane(&self) -> bool {
        env::var("HERDR_PANE_ID").ok().is_none_or(|pane| self.pane.as_ref() == Some(&pane))
    }
}

/// A session in the presence round us. It ends with the connection that opened it.
#[derive(Debug)]
pub(super) struct Joined {
    socket: PathBuf,
    session: String,
    /// What is to be said yet, the newest of every rank. A lock of its own: whoever adds to it waits for
    /// no answer.
    evidence: Mutex<Vec<StateParams>>,
    line: Mutex<Line>,
    is_lent: AtomicBool,
}

#[derive(Debug)]
struct Line {
    /// None: the presence is gone.
    client: Option<Client>,
    left_alone_until: Option<Instant>,
    last: Glance,
}

const NOTHING: Glance = Glance {
    state: State::Idle,
    turn: 0,
    turn_runs: false,
    said: 0,
    said_before: 0,
    is_lent: false,
};

impl Joined {
    /// Opens the session, whose parameters are the user's. A presence that has gone meanwhile is not
    /// missed: the agent runs without being shown.
    ///
    /// # Errors
    /// Which rule the user's own words broke.
    pub(super) fn open(outer: Outer, params: &OpenParams) -> Result<Self, String> {
        let opened = Client::connect(&outer.socket).and_then(|mut client| {
            match client.call::<Value>(method::OPEN, params, Some(LEFT_ALONE)) {
                // It was stopped just now, and opens it when it goes on, if the connection is there.
                Ok(_) | Err(CallError::NotYet) => Ok(client),
                Err(error) => Err(error),
            }
        });
        let client = match opened {
            Ok(client) => Some(client),
            Err(CallError::Refused(error)) if error.code == code::INVALID_PARAMS => {
                return Err(error.message);
            }
            Err(error) => {
                output::complain(&format!("the agent round us does not show this one: {error}"));
                None
            }
        };
        Ok(Self {
            socket: outer.socket,
            session: params.session.clone(),
            evidence: Mutex::default(),
            line: Mutex::new(Line { client, left_alone_until: None, last: NOTHING }),
            is_lent: AtomicBool::new(false),
        })
    }

    /// Notes evidence for whoever speaks to the presence next: [`Joined::flush`].
    pub(super) fn signal(&self, rank: Rank, state: State, message: Option<&str>) {
        let params = StateParams {
            session: self.session.clone(),
            state: state.into(),
            message: message.map(str::to_owned),
            evidence: Evidence::of(rank),
        };
        let mut evidence = lock(&self.evidence);
        evidence.retain(|known| known.evidence != params.evidence);
        evidence.push(params);
    }

    /// Says what is to be said yet, and tells what the presence shows.
    pub(super) fn glance(&self) -> Glance {
        let mut line = lock(&self.line);
        self.say(&mut line);
        let params = SessionParams { session: self.session.clone() };
        if let Some(glance) = line.call::<GlanceResult>(method::GLANCE, &params) {
            let GlanceResult { state, turn, turn_runs, said, said_before, is_lent } = glance;
            self.is_lent.store(is_lent, Ordering::Release);
            let state = state.into();
            line.last = Glance { state, turn, turn_runs, said, said_before, is_lent };
        }
        line.last
    }

    /// Says what is to be said yet.
    pub(super) fn flush(&self) {
        self.say(&mut lock(&self.line));
    }

    /// What the last glance saw.
    pub(super) fn is_lent(&self) -> bool {
        self.is_lent.load(Ordering::Acquire)
    }

    pub(super) fn transcribe(&self, item: Item) -> Result<(), &'static str> {
        let mut line = lock(&self.line);
        self.say(&mut line);
        let params = ItemParams { session: self.session.clone(), item, transcribed: true };
        let shown: Option<Value> = line.call(method::ITEM, &params);
        shown.map(drop).ok_or("the presence round us did not take it")
    }

    fn say(&self, line: &mut Line) {
        while line.listens() {
            let Some(params) = lock(&self.evidence).first().cloned() else { return };
            let _: Option<Value> = line.call(method::STATE, &params);
            // Whether it was taken or not: what came meanwhile is newer.
            lock(&self.evidence).retain(|known| *known != params);
        }
    }

    /// The phone's wishes, on a connection of their own. None: the presence is gone.
    pub(super) fn inbox(&self) -> Option<Inbox> {
        let mut client = Client::connect(&self.socket).ok()?;
        let params = SubscribeParams { session: Some(self.session.clone()) };
        let _: Value = client.call(method::SUBSCRIBE, &params, Some(LEFT_ALONE)).ok()?;
        Some(Inbox { client: Rc::new(RefCell::new(client)) })
    }
}

impl Line {
    fn listens(&self) -> bool {
        let is_left_alone = self.left_alone_until.is_some_and(|until| Instant::now() < until);
        self.client.is_some() && !is_left_alone
    }

    /// Makes one call. None: there is no answer, or not in time, or it is no.
    fn call<R: DeserializeOwned>(&mut self, method: &str, params: &impl Serialize) -> Option<R> {
        if !self.listens() {
            return None;
        }
        match self.client.as_mut()?.call(method, params, Some(PATIENCE)) {
            Ok(result) => Some(result),
            Err(CallError::Refused(error)) if error.code != code::UNKNOWN_SESSION => {
                tracing::warn!(error = error.message, method, "the presence round us says no");
                None
            }
            Err(CallError::NotYet) => {
                self.left_alone_until = Some(Instant::now() + LEFT_ALONE);
                None
            }
            Err(error) => {
                tracing::warn!(%error, "the presence round us is gone");
                self.client = None;
                self.last = NOTHING;
                None
            }
        }
    }
}

/// Where the phone's wishes come in.
pub(super) struct Inbox {
    client: Rc<RefCell<Client>>,
}

impl Inbox {
    /// The next wish. None: the presence is gone.
    pub(super) fn wait(&mut self) -> Option<Wish> {
        loop {
            let (method, params) = self.client.borrow_mut().notification().ok()?;
            let received = serde_json::from_value::<WishReceived>(params);
            let (method::WISH, Ok(received)) = (method.as_str(), received) else { continue };
            let text = received.text.unwrap_or_default();
            let wanted = match received.wanted.as_str() {
                "send" => Some(Wanted::Send { text }),
                "steer" => Some(Wanted::Steer { text }),
                "stop" => Some(Wanted::Stop),
                _ => None,
            };
            let is_known = wanted.is_some();
            let wish = Wish {
                client: Rc::clone(&self.client),
                request_id: received.request_id,
                wanted: wanted.unwrap_or(Wanted::Stop),
                is_answered: false,
            };
            if is_known {
                return Some(wish);
            }
        }
    }
}

/// A wish of the phone. One that is dropped is refused.
pub(super) struct Wish {
    client: Rc<RefCell<Client>>,
    request_id: String,
    pub(super) wanted: Wanted,
    is_answered: bool,
}

impl Wish {
    pub(super) fn accept(mut self) {
        let request_id = std::mem::take(&mut self.request_id);
        self.answer(method::ACCEPT, &AcceptParams { request_id, session: None });
    }

    pub(super) fn refuse(mut self, reason: &str) {
        self.refused(reason);
    }

    fn refused(&mut self, reason: &str) {
        let request_id = std::mem::take(&mut self.request_id);
        self.answer(method::REFUSE, &RefuseParams { request_id, reason: reason.to_owned() });
    }

    fn answer(&mut self, method: &str, params: &impl Serialize) {
        self.is_answered = true;
        let answered: Result<Value, _> =
            self.client.borrow_mut().call(method, params, Some(LEFT_ALONE));
        if let Err(error) = answered {
            tracing::warn!(%error, method, "a wish of the phone has no answer");
        }
    }
}

impl Drop for Wish {
    fn drop(&mut self) {
        if !self.is_answered {
            self.refused("The agent did not take it.");
        }
    }
}

/// The lock's value. None of the critical sections here can leave it half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
