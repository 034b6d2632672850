//! The whole durable agent without a socket: layout, panes, items, asks, receipts.

mod act;
mod call;
mod decide;
mod drive;
mod edit;
mod items;
mod read;
mod restore;
mod state;
mod write;

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::SystemTime;

use tokio::sync::Notify;

use super::history::History;
use super::hooks::SharedHooks;
use super::layout::Workspace;
use super::pane::Pane;
use super::receipts::{MemoryReceipts, ReceiptStore};
use super::records::FileRecords;
use super::rule::RuleError;
use super::wire::{
    ActionView, CallerCheck, Caps, Hello, JSON_TYPE, Phase, Refusal, Route, WIRE, to_json,
};
use crate::os::clock::{Clock, SystemClock};

pub(crate) use act::Action;
pub(crate) use edit::Edit;
pub(crate) use items::{Items, Json, VIEW_LIMIT};
pub(crate) use state::PaneData;
use state::State;

/// The whole durable agent without a socket: layout, panes, items, asks, receipts.
///
/// It knows no HTTP library: give [`handle`](Self::handle) what any server has read, and write what
/// it gives back. [`open`](crate::collie::open) puts one on a private socket.
///
/// Clones are the same core. Everything but `handle` and [`drive`](Self::drive) is quick, and can be
/// called from any thread.
#[derive(Clone)]
pub struct Core {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Asks that were dropped while the lock was held, perhaps by the thread that dropped them.
    withdrawn: Mutex<Vec<(Arc<str>, String)>>,
    /// Something is due earlier than before.
    earlier: Notify,
    options: CoreOptions,
    instance: String,
}

/// Gets the lines that a person should see.
pub type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// What a [`Core`] is made of.
#[derive(Clone)]
pub struct CoreOptions {
    /// The name that the phone shows; the machine's unless said.
    pub host_name: String,
    /// Name and version of what serves the wire.
    pub runtime: String,
    /// What is on; all that can be unless said (N138, N139).
    pub caps: Option<Caps>,
    /// Whether writes from the agent and below it are refused.
    pub caller_check: CallerCheck,
    /// How many events each pane keeps for its readers; 500 unless said (N134).
    pub tail_limit: usize,
    /// Whether an ask may offer to let every later call through (N105).
    pub allow_always: bool,
    /// Where receipts are kept; in memory unless said.
    pub receipts: Arc<dyn ReceiptStore>,
    /// What outlives the process: nothing unless said. They bring receipts of their own, which are
    /// used instead of `receipts`, and are the history unless another is [given](Core::history).
    pub records: Option<FileRecords>,
    /// Gets the lines that a person should see; the log unless said.
    pub warn: Option<Warn>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// What the agent does with what the phone sends; nothing unless said.
    pub hooks: SharedHooks,
}

impl Default for CoreOptions {
    fn default() -> Self {
        Self {
            host_name: crate::os::host_name(),
            runtime: concat!("agent-presence/", env!("CARGO_PKG_VERSION")).to_owned(),
            caps: None,
            caller_check: CallerCheck::On,
            tail_limit: 500,
            allow_always: true,
            receipts: Arc::new(MemoryReceipts::new()),
            records: None,
            warn: None,
            clock: Arc::new(SystemClock),
            hooks: SharedHooks::default(),
        }
    }
}

impl fmt::Debug for CoreOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CoreOptions")
            .field("host_name", &self.host_name)
            .field("runtime", &self.runtime)
            .field("caps", &self.caps)
            .field("caller_check", &self.caller_check)
            .field("tail_limit", &self.tail_limit)
            .field("allow_always", &self.allow_always)
            .field("records", &self.records)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Core")
            .field("instance", &self.shared.instance)
            .finish_non_exhaustive()
    }
}

/// Who makes a request, as far as the transport knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The agent's own process, one below it, or one of which that cannot be ruled out.
    Agent,
    /// Another process of the same user.
    Other,
    /// Somebody who has the token.
    Token,
}

/// A request, as any HTTP server reads it.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Such as `GET`.
    pub method: String,
    /// Path and query, such as `/durable/v1/state`.
    pub target: String,
    /// The header `content-type`.
    pub content_type: Option<String>,
    /// The header `if-none-match`.
    pub if_none_match: Option<String>,
    /// The body; at most 1 MiB is the server's to see to.
    pub body: Vec<u8>,
}

/// What is to be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status, such as 200.
    pub status: u16,
    /// All headers but the length: names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The body; a 304 has none.
    pub body: Arc<[u8]>,
}

impl Response {
    pub(crate) fn json(status: u16, body: impl Into<Arc<[u8]>>) -> Self {
        let headers = [
            ("content-type", JSON_TYPE),
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
        ];
        let headers = headers.map(|(name, value)| (name, value.to_owned())).to_vec();
        Self { status, headers, body: body.into() }
    }

    pub(crate) fn refusal(refusal: &Refusal) -> Self {
        let mut response = Self::json(refusal.status, refusal.body().into_bytes());
        if let Some((name, value)) = refusal.header {
            response.headers.push((name, value.to_owned()));
        }
        response
    }
}

impl Core {
    /// A core without panes. Something must [`drive`](Self::drive) it.
    ///
    /// # Errors
    /// The system gives no randomness.
    pub fn new(mut options: CoreOptions) -> io::Result<Self> {
        let instance = crate::os::random::hex(16)?;
        if let Some(records) = &options.records {
            options.receipts = records.receipts();
        }
        let receipts = &options.receipts;
        let mut state = State::new(instance.clone(), receipts.untaken(), receipts.undelivered());
        if let Some(records) = &options.records {
            state.history = Some(Arc::new(records.clone()));
        }
        let shared = Shared {
            state: Mutex::new(state),
            withdrawn: Mutex::default(),
            earlier: Notify::new(),
            options,
            instance,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The workspace of this id; it is made if there is none (N040).
    ///
    /// # Errors
    /// The id breaks its rule.
    pub fn workspace(
        &self,
        id: impl Into<String>,
        title: impl Into<String>,
    ) -> Result<Workspace, RuleError> {
        Workspace::place(self.clone(), id.into(), &title.into())
    }

    /// The open pane of this id.
    pub fn pane(&self, id: &str) -> Option<Pane> {
        let id = self.edit(|edit| edit.open_pane_id(id))?;
        Some(Pane::new(self.clone(), id))
    }

    /// What can be started: buttons outside any pane.
    ///
    /// # Errors
    /// An id breaks its rule.
    pub fn starters(&self, starters: impl Into<Vec<ActionView>>) -> Result<(), RuleError> {
        let starters = super::layout::checked_buttons("starter id", starters.into())?;
        self.edit(|edit| edit.set_starters(starters));
        Ok(())
    }

    /// Serves every conversation, open or closed, from the agent's own store (N125). It turns the
    /// history cap on, unless the caps that were given leave it out (N126).
    pub fn history(&self, provider: impl History) {
        self.edit(|edit| edit.state.history = Some(Arc::new(provider)));
    }

    /// The first layout is placed: from now on writes are taken (N041).
    pub fn ready(&self) {
        self.edit(|edit| edit.set_phase(Phase::Ready));
    }

    /// The program ends, and may come back: from now on an ask that can be raised again stays open in the
    /// records, whoever lets go of it, since an exit is no answer.
    pub(crate) fn leave(&self) {
        self.edit(|edit| edit.state.is_leaving = true);
    }

    /// Answers a request. It is to be called on a tokio runtime; an action runs on when the future
    /// is dropped, so that a broken connection stops nothing halfway.
    pub async fn handle(&self, request: Request, caller: Caller) -> Response {
        let result = match Route::read(&request.method, &request.target) {
            Ok(Route::Read(read)) => self.read(read, request.if_none_match.as_deref()).await,
            Ok(Route::HelloFromCollie) => self.hello_from_collie(&request),
            Ok(Route::Write(write)) => self.write(write, request, caller).await,
            Err(refusal) => Err(refusal),
        };
        result.unwrap_or_else(|refusal| Response::refusal(&refusal))
    }

    /// What is on (N138 to N142).
    pub fn caps(&self) -> Caps {
        let caps = self.shared.options.caps.unwrap_or(Caps::ALL);
        let history = caps.history && self.edit(|edit| edit.state.history.is_some());
        Caps { terminal: false, history, ..caps }
    }

    pub(crate) fn hello(&self) -> Hello {
        Hello {
            wire: WIRE,
            instance: self.shared.instance.clone(),
            host_name: self.shared.options.host_name.clone(),
            runtime: self.shared.options.runtime.clone(),
            phase: self.phase(),
            caps: self.caps(),
            caller_check: self.shared.options.caller_check,
        }
    }

    fn phase(&self) -> Phase {
        self.edit(|edit| edit.state.phase)
    }

    /// A line that a person should see.
    pub(crate) fn warn(&self, line: &str) {
        if let Some(warn) = &self.shared.options.warn {
            warn(line);
        } else {
            tracing::warn!("{line}");
        }
    }

    pub(crate) fn caller_check(&self) -> CallerCheck {
        self.shared.options.caller_check
    }

    fn now(&self) -> SystemTime {
        self.shared.options.clock.now()
    }

    /// Runs `function` under the lock, and after it what may not run under it: callbacks and wakes.
    pub(crate) fn edit<R>(&self, function: impl FnOnce(&mut Edit<'_>) -> R) -> R {
        let shared = &self.shared;
        let (result, effects) = {
            let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
            let mut edit = Edit::new(self, &mut state);
            let result = function(&mut edit);
            (result, edit.into_effects())
        };
        effects.run(self);
        self.withdraw_dropped();
        result
    }

    /// An ask was dropped before its end.
    pub(crate) fn withdraw(&self, pane: &Arc<str>, ask: &str) {
        let mut withdrawn = self.shared.withdrawn.lock().unwrap_or_else(PoisonError::into_inner);
        withdrawn.push((pane.clone(), ask.to_owned()));
        drop(withdrawn);
        self.withdraw_dropped();
    }

    /// Withdraws what was dropped. Where the lock is held (perhaps by this very thread, which drops
    /// an ask inside an edit), the holder does it when it lets go.
    fn withdraw_dropped(&self) {
        let shared = &self.shared;
        loop {
            let effects = {
                let mut state = match shared.state.try_lock() {
                    Ok(state) => state,
                    Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                    Err(TryLockError::WouldBlock) => return,
                };
                let mut withdrawn = shared.withdrawn.lock().unwrap_or_else(PoisonError::into_inner);
                let asks = std::mem::take(&mut *withdrawn);
                drop(withdrawn);
                if asks.is_empty() {
                    return;
                }
                let mut edit = Edit::new(self, &mut state);
                for (pane, ask) in asks {
                    edit.withdraw(&pane, &ask);
                }
                edit.into_effects()
            };
            effects.run(self);
        }
    }

    /// The agent has taken an answer.
    pub(crate) fn answer_taken(&self, pane: &str, ask: &str) {
        if let Some(records) = &self.shared.options.records {
            return records.taken(pane, ask);
        }
        let (pane, ask) = (pane.to_owned(), ask.to_owned());
        self.note_in_receipts(move |receipts| receipts.taken(&pane, &ask));
    }

    /// A change of a receipt that need not be durable. Where there are records, nobody waits for it.
    fn note_in_receipts(
        &self,
        change: impl FnOnce(&dyn ReceiptStore) -> io::Result<()> + Send + 'static,
    ) {
        let options = &self.shared.options;
        if let Some(records) = &options.records {
            return records.later(|receipts| change(receipts));
        }
        if let Err(error) = change(&*options.receipts) {
            tracing::warn!(%error, "an answer or a text may be given once more after a restart");
        }
    }
}

fn json_response<T: serde::Serialize>(value: &T) -> Response {
    Response::json(200, to_json(value).into_bytes())
}
