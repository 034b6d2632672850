//! How a wrapped session comes back: its record, and the command that Herdr gets for it.
//!
//! Herdr gets `agent-presence resume TOKEN`, the same for as long as the session lives, and again when it has
//! come back. What the agent's own command is by then is decided when it comes back, from the record.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use crate::cli::login_path;
use crate::cli::wrap::variables;
use crate::herdr::ResumeCommand;
use crate::presence::{Keeper, Presence, Session};
use crate::store::{Record, Records, Word};
use crate::wrap::agents::{self, Agent, SESSION};

/// How often a record is touched while its session runs, so that it does not get old meanwhile.
const TOUCH_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// The command that brings a session back, if there is one by now: what the agent itself gave, else what the
/// user said with `--resume`, else what is known of the agent.
pub(in crate::cli) fn command(record: &Record, agent: &Agent) -> Option<Vec<OsString>> {
    let plain = |words: &[Word]| words.iter().map(|word| word.0.clone()).collect::<Vec<_>>();
    if let Some(own) = &record.own_command {
        return Some(plain(own));
    }
    let session = record.agent_session.as_deref();
    match &record.template {
        Some(line) => {
            let words = shell_words::split(line).ok().filter(|words| !words.is_empty())?;
            let needs_id = words.iter().any(|word| word.contains(SESSION));
            (!needs_id || session.is_some())
                .then(|| agents::fill(&words, session.unwrap_or_default()))
        }
        None => agent.resume.command(&plain(&record.command), session),
    }
}

/// How long the end waits for a record that is on its way to the disk.
const LAST_WRITE: Duration = Duration::from_millis(100);

/// Keeps the record of a wrapped session, and tells Herdr its command once the record is there. Ends when it
/// is dropped.
#[derive(Debug)]
pub(super) struct ComingBack {
    shared: Arc<Shared>,
    /// There is a thread.
    runs: bool,
}

#[derive(Debug)]
struct Shared {
    /// None: there is no folder for them.
    records: Option<Records>,
    agent: Agent,
    /// Whether a login shell finds us, once that is known.
    is_on_path: OnceLock<bool>,
    state: Mutex<State>,
    changed: Condvar,
}

/// How the record on the disk stands to that of now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disk {
    Behind,
    Writing,
    Level,
}

#[derive(Debug)]
struct State {
    record: Record,
    disk: Disk,
    /// Herdr may have the command of the record.
    is_kept: bool,
    ended: bool,
}

impl ComingBack {
    /// For a session that has this record, which is not kept yet. Nothing is done before
    /// [`ComingBack::start`].
    pub(super) fn new(record: Record, agent: Agent, state_folder: Option<&Path>) -> Self {
        let records = state_folder.map(Records::below);
        let state = State { record, disk: Disk::Behind, is_kept: false, ended: false };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        let is_on_path = OnceLock::new();
        let shared = Arc::new(Shared { records, agent, is_on_path, state, changed });
        Self { shared, runs: false }
    }

    /// Keeps the record from now on, on a thread of its own: the agent's start waits for no disk.
    /// `config` is the user's file, for the variables of a session that has none yet.
    pub(super) fn start(
        &mut self,
        presence: &Presence,
        session: Session,
        config: Option<PathBuf>,
    ) -> io::Result<()> {
        presence.keep_with(self.shared.clone());
        let shared = self.shared.clone();
        let keep = move || shared.run(&session, config.as_deref());
        thread::Builder::new().name("coming back".to_owned()).spawn(keep)?;
        self.runs = true;
        Ok(())
    }
}

impl Drop for ComingBack {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.ended = true;
        self.shared.changed.notify_all();
        let waits = |state: &mut State| self.runs && state.disk != Disk::Level;
        let _ = self.shared.changed.wait_timeout_while(state, LAST_WRITE, waits);
    }
}

impl Shared {
    fn run(&self, session: &Session, config: Option<&Path>) {
        let variables = variables::of_process(config);
        self.is_on_path.get_or_init(|| login_path::program().is_some());
        let mut state = self.lock();
        if let Some(variables) = variables.filter(|_| state.record.variables.is_empty()) {
            state.record.variables = variables;
        }
        let mut looked_for_old = false;
        while state.disk == Disk::Behind || !state.ended {
            if state.disk == Disk::Behind {
                state.disk = Disk::Writing;
                let record = state.record.clone();
                drop(state);
                self.keep(&record, session);
                state = self.lock();
                if state.disk == Disk::Writing {
                    state.disk = Disk::Level;
                    self.changed.notify_all();
                }
                continue;
            }
            if !looked_for_old {
                looked_for_old = true;
                drop(state);
                if let Some(records) = &self.records {
                    records.prune_at_times(SystemTime::now());
                }
                state = self.lock();
                continue;
            }
            let waits = |state: &mut State| state.disk == Disk::Level && !state.ended;
            let (woken, outcome) = self
                .changed
                .wait_timeout_while(state, TOUCH_EVERY, waits)
                .unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if outcome.timed_out() && state.is_kept {
                let touched = |records: &Records| records.touch(&state.record.token);
                if !self.records.as_ref().is_some_and(touched) {
                    state.disk = Disk::Behind;
                }
            }
        }
    }

    /// The record first, then the command that leads to it.
    fn keep(&self, record: &Record, session: &Session) {
        let words = command(record, &self.agent);
        let kept = words.is_some()
            && self.records.as_ref().is_some_and(|records| {
                let kept = records.keep(record);
                kept.inspect_err(|error| tracing::warn!(%error, "the session is not kept")).is_ok()
            });
        let mut state = self.lock();
        state.is_kept = kept;
        drop(state);
        let for_herdr = words.and_then(|words| self.for_herdr(words, &record.token, kept));
        session.resume_by(for_herdr);
    }

    /// What Herdr gets for a session that comes back by this command: its token, or the command itself where
    /// a login shell would not find us, or where there is no record.
    fn for_herdr(&self, words: Vec<OsString>, token: &str, is_kept: bool) -> Option<ResumeCommand> {
        if is_kept && self.is_on_path.get() == Some(&true) {
            return ResumeCommand::lenient([login_path::PROGRAM, "resume", token]);
        }
        let words: Option<Vec<String>> =
            words.into_iter().map(|word| word.into_string().ok()).collect();
        let words =
            words.filter(|words| !words.iter().any(|word| variables::is_secret_option(word)));
        if words.is_none() {
            // Herdr's own file is open to others.
            tracing::warn!("no resume command for Herdr: a word may be secret, or is no text");
        }
        ResumeCommand::lenient(words?)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The record as it is once the agent has said this. What was said of another session does not hold.
    fn told(&self, id: &str, title: Option<&str>, own: Option<Vec<Word>>) -> Record {
        let mut record = self.record.clone();
        if record.session != id {
            (record.title, record.own_command) = (None, None);
        }
        id.clone_into(&mut record.session);
        record.agent_session = Some(id.to_owned());
        record.title = title.map(str::to_owned).or(record.title);
        record.own_command = own.filter(|words| !words.is_empty()).or(record.own_command);
        record
    }
}

impl Keeper for Shared {
    fn keeps(&self, session: &Session) -> bool {
        self.lock().record.session == session.id()
    }

    fn first_title(&self) -> Option<String> {
        let state = self.lock();
        state.record.title.clone().filter(|_| state.record.agent_session.is_none())
    }

    fn command(&self, id: &str, own: Option<&[String]>) -> Option<ResumeCommand> {
        let state = self.lock();
        let own = own.map(|words| words.iter().map(Word::from).collect());
        let words = command(&state.told(id, None, own), &self.agent)?;
        state.is_kept.then(|| self.for_herdr(words, &state.record.token, true)).flatten()
    }

    fn told(&self, id: &str, title: Option<&str>, own: Option<Vec<String>>) {
        let mut state = self.lock();
        let own = own.map(|words| words.into_iter().map(Word::from).collect());
        let record = state.told(id, title, own);
        if state.record != record {
            state.record = record;
            state.disk = Disk::Behind;
            self.changed.notify_all();
        }
    }

    fn titled(&self, session: &Session, title: &str) {
        let mut state = self.lock();
        if state.record.session == session.id() && state.record.title.as_deref() != Some(title) {
            state.record.title = Some(title.to_owned());
            state.disk = Disk::Behind;
            self.changed.notify_all();
        }
    }
}

/// Where the records are. Herdr's shell has a home even where this process has no `HOME`.
pub(in crate::cli) fn state_folder() -> Option<PathBuf> {
    crate::os::folders::state(|name| match (name, env::var_os(name)) {
        ("HOME", None) => env::home_dir().map(Into::into),
        (_, value) => value,
    })
}

/// What a session that comes back gets: the variables that were kept, and its folder.
pub(super) fn variables(record: &Record) -> Vec<(OsString, OsString)> {
    let mut variables = vec![("PWD".into(), record.folder.0.clone())];
    for (name, value) in &record.variables {
        let value = if name == "PATH" { path(record).unwrap_or_default() } else { value.0.clone() };
        variables.push((name.into(), value));
    }
    variables
}

/// The `PATH` of a session that comes back: its own, then that of the shell. Parts of the former may be gone,
/// such as folders that a version manager makes for each shell.
pub(in crate::cli) fn path(record: &Record) -> Option<OsString> {
    let own = record.variables.get("PATH").map(|path| path.0.clone());
    let shell = env::var_os("PATH");
    let parts = own.iter().chain(shell.iter()).flat_map(env::split_paths);
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in parts {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    env::join_paths(folders).ok().filter(|path| !path.is_empty())
}
