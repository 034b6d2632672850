//! The handle that callers have, and the driver behind it.

use super::environment::Environment;
use super::identity::{AgentName, Source};
use super::metadata::Metadata;
use super::plan::{Plan, SessionOf, Step};
use super::report::{Claimant, State, is_value};
use super::resume_command::ResumeCommand;
use super::sequence::Sequence;
use super::slots::{Claim, End, Session, Slots, Wanted, lock};
use super::status::Status;
use super::text::one_line;
use super::transport::{Reply, Transport, TransportError, Ways};
use crate::os::clock::{Clock, SystemClock};
use crate::os::process::session_of;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tokio::time::Instant;

/// The longest message, in characters. Herdr stores it and shows it nowhere (H035).
const MESSAGE_LIMIT: usize = 500;

/// The longest session id, in characters.
const SESSION_ID_LIMIT: usize = 200;

/// The driver ends this much before the caller's limit, so that its children are killed in time.
const LEAD: Duration = Duration::from_millis(20);

/// How long a reporter that nobody has any more still tries.
const ABANDONED_LIMIT: Duration = Duration::from_millis(300);

/// How long a request that is under way may keep a release waiting.
const UNDER_WAY_LIMIT: Duration = Duration::from_millis(100);

/// How a [`Reporter`] works. The default is right for an agent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReporterOptions {
    /// Where the time of day comes from.
    pub clock: Arc<dyn Clock>,
    /// Where the last sequence number is kept for other processes of the same source: see
    /// [`default_state_folder`](super::default_state_folder). None: in memory only.
    pub state_folder: Option<PathBuf>,
    /// Stay silent when the pane's shell is not of our own session, as in a program that only inherited
    /// the variables (H070). Off: for shells in containers.
    pub check_pane_ownership: bool,
}

impl Default for ReporterOptions {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), state_folder: None, check_pane_ownership: true }
    }
}

impl ReporterOptions {
    /// Keeps the last sequence number in this folder.
    pub fn with_state_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.state_folder = Some(folder.into());
        self
    }

    /// Takes the time of day from `clock`.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Whether to stay silent in a pane that is not ours.
    pub fn with_pane_ownership_check(mut self, check: bool) -> Self {
        self.check_pane_ownership = check;
        self
    }
}

/// Tells Herdr what the agent of one pane is doing.
///
/// Every call returns at once, from any thread, inside or outside a runtime, whatever Herdr does: it puts
/// the newest value into its slot. A driver behind it sends one request at a time, the newest values
/// only, and again until Herdr shows them. Cloning is cheap; all clones are the same reporter.
///
/// ```no_run
/// # use agent_presence::herdr::{AgentName, Environment, Reporter, ReporterOptions, Source, State};
/// # use std::time::Duration;
/// # fn report(environment: Environment) -> Result<(), Box<dyn std::error::Error>> {
/// let (source, agent) = (Source::new("my-agent")?, AgentName::new("my-agent")?);
/// let reporter = Reporter::start(environment, source, agent, ReporterOptions::default())?;
/// reporter.report(State::Blocked, Some("Run cargo test?"));
/// reporter.report(State::Idle, None);
/// // The terminal was closed: the last state and the resume command stay.
/// reporter.finish(Duration::from_millis(300));
/// # Ok(())
/// # }
/// ```
///
/// Dropping the last clone is not a quit: what was wanted is still brought into force, for at most 300 ms
/// and without anybody waiting, and stays.
#[derive(Clone, Debug)]
pub struct Reporter {
    handle: Arc<Handle>,
}

/// What all clones share. Its end is the driver's.
#[derive(Debug)]
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.slots.finish_by(Instant::now() + ABANDONED_LIMIT);
    }
}

#[derive(Debug)]
struct Shared {
    slots: Slots,
    /// What the driver told last, and of which generation of the slots.
    told: Mutex<(u64, Status)>,
}

impl Reporter {
    /// A reporter with a thread of its own.
    ///
    /// # Errors
    /// The system gives no thread, or no event queue for its runtime.
    pub fn start(
        environment: Environment,
        source: Source,
        agent: AgentName,
        options: ReporterOptions,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (reporter, driver) = Self::with_driver(environment, source, agent, options);
        thread::Builder::new()
            .name("herdr-reporter".to_owned())
            .spawn(move || runtime.block_on(driver))?;
        Ok(reporter)
    }

    /// A reporter whose driver the caller runs, on a tokio runtime with its I/O and its timers enabled.
    /// The driver ends when a release is done, or some time after [`Reporter::finish`] was called.
    pub fn with_driver(
        environment: Environment,
        source: Source,
        agent: AgentName,
        options: ReporterOptions,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let sequence = match &options.state_folder {
            Some(folder) => Sequence::kept_in(
                folder,
                environment.socket_path(),
                environment.pane_id(),
                source.as_str(),
                options.clock,
            ),
            None => Sequence::in_memory(options.clock),
        };
        let whose = options.check_pane_ownership.then_some(session_of as SessionOf);
        let plan = Plan::new(&agent, sequence, whose);
        let claimant = Claimant { pane_id: environment.pane_id().to_owned(), source, agent };
        Self::drive(plan, Ways::new(environment, claimant))
    }

    /// A reporter for `plan`, and its driver, which sends through `transport`.
    fn drive(
        plan: Plan,
        transport: impl Transport + 'static,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let shared = Arc::new(Shared { slots: Slots::default(), told: Mutex::default() });
        let driver = Driver { shared: shared.clone(), plan, transport };
        (Self { handle: Arc::new(Handle(shared)) }, driver.run())
    }

    /// What the agent is doing now. `message` says what a blocked state is about: Herdr shows it in the
    /// place of the word "blocked" (cut at 80 characters).
    pub fn report(&self, state: State, message: Option<&str>) {
        self.slots().put(|wanted| put_claim(wanted, state, message));
    }

    /// The conversation, and the command that brings it back. They go out with a state, never before the
    /// first one. A Herdr that does not take the command still takes the state.
    /// An id that is empty, or `--`, is no session, and ignored.
    pub fn session(&self, session_id: &str, resume: Option<ResumeCommand>) {
        let Some(session) = usable_session(session_id, resume) else { return };
        self.slots().put(|wanted| put_session(wanted, session));
    }

    /// The agent is in another conversation, and what it does there: both in one report, which is made
    /// also where only the conversation is another one. Never a release. As [`Reporter::session`] and
    /// [`Reporter::report`].
    pub fn switch(
        &self,
        session_id: &str,
        resume: Option<ResumeCommand>,
        state: State,
        message: Option<&str>,
    ) {
        let session = usable_session(session_id, resume);
        self.slots().put(|wanted| {
            let is_another = session.is_some_and(|session| put_session(wanted, session));
            put_claim(wanted, state, message) || is_another
        });
    }

    /// What a person reads beside the state. It replaces the last metadata as a whole, and is cleared
    /// before a release.
    pub fn metadata(&self, metadata: Metadata) {
        self.slots().put(|wanted| {
            let changed = *wanted.metadata != metadata;
            wanted.metadata = Arc::new(metadata);
            changed
        });
    }

    /// The process was stopped and goes on (`SIGCONT`): Herdr may have cleared the pane meanwhile (H071),
    /// so everything is said again. Also for after a nested agent of the same pane has ended.
    pub fn resumed(&self) {
        self.slots().put(|wanted| {
            wanted.resumed = wanted.resumed.wrapping_add(1);
            true
        });
    }

    /// The user quit: metadata is cleared, then the pane is released, and with it the resume command.
    /// Nothing is reported afterwards. Call [`Reporter::finish`] to wait for it.
    ///
    /// Not for `SIGHUP` or `SIGTERM` from outside: Herdr sends them when it stops, and a release would
    /// delete the resume command (H080). Then only [`Reporter::finish`].
    pub fn release(&self) {
        self.slots().put(|wanted| {
            wanted.released = true;
            true
        });
    }

    /// Ends the driver as soon as everything wanted is in force, at the latest after `limit`, and blocks
    /// until then. True: everything is. With a release before it, this is the user's quit; without one,
    /// the state and the resume command stay.
    ///
    /// Never call it on the thread that runs the driver of [`Reporter::with_driver`]: there,
    /// [`Reporter::finish_within`] and the driver's own end do.
    pub fn finish(&self, limit: Duration) -> bool {
        self.finish_within(limit);
        self.slots().wait_for_end(limit) == Some(End::Settled)
    }

    /// As [`Reporter::finish`], without waiting: the driver ends within `limit`.
    pub fn finish_within(&self, limit: Duration) {
        let deadline = Instant::now() + limit.saturating_sub(LEAD);
        self.slots().finish_by(deadline);
    }

    fn slots(&self) -> &Slots {
        &self.handle.0.slots
    }

    /// What is known about reports and Herdr.
    pub fn status(&self) -> Status {
        let (generation, mut status) = lock(&self.handle.0.told).clone();
        // What was put into the slots since then is not in force yet.
        status.settled &= generation == self.slots().wanted().generation;
        status
    }
}

fn put_claim(wanted: &mut Wanted, state: State, message: Option<&str>) -> bool {
    let claim = wanted.claim.as_ref();
    let known = |claim: &Claim| claim.state == state && claim.message.as_deref() == message;
    if claim.is_some_and(known) {
        return false;
    }
    let message = message
        .map(|message| one_line(message, MESSAGE_LIMIT))
        .filter(|message| !message.is_empty());
    wanted.claim = Some(Claim { state, message: message.map(Arc::from) });
    true
}

fn usable_session(session_id: &str, resume: Option<ResumeCommand>) -> Option<Session> {
    let id = one_line(session_id, SESSION_ID_LIMIT);
    if id.is_empty() || !is_value(&id) {
        tracing::warn!("a session without a usable id is not reported to Herdr");
        return None;
    }
    Some(Session { id: id.into(), resume: resume.map(Arc::new) })
}

fn put_session(wanted: &mut Wanted, session: Session) -> bool {
    let changed = wanted.session.as_ref() != Some(&session);
    wanted.session = Some(session);
    changed
}

struct Driver<T> {
    shared: Arc<Shared>,
    plan: Plan,
    transport: T,
}

impl<T: Transport> Driver<T> {
    /// Works until the plan ends, or until time is up: then whatever is under way is dropped.
    async fn run(self) {
        let shared = self.shared.clone();
        let slots = Dropped(&shared.slots);
        tokio::select! {
            biased;
            settled = self.work() => slots.0.end(if settled { End::Settled } else { End::Unsettled }),
            () = time_is_up(slots.0) => slots.0.end(End::Unsettled),
        }
    }

    /// True: all that was wanted is in force.
    async fn work(mut self) -> bool {
        let shared = self.shared.clone();
        let slots = &shared.slots;
        loop {
            let wanted = slots.wanted();
            match self.plan.next(&wanted, Instant::now()) {
                // A report comes before any telling about it.
                Step::Send(request) => {
                    let exchange = self.transport.exchange(&request);
                    let outcome = unless_overtaken(slots, &wanted, exchange).await;
                    let now = Instant::now();
                    self.plan.sent(&request, outcome, wanted.generation, now);
                    self.tell(&wanted);
                }
                Step::Wait(until) => {
                    self.tell(&wanted);
                    tokio::select! {
                        () = slots.changed() => {}
                        () = sleep_until(until) => {}
                    }
                }
                Step::End { settled } => {
                    self.tell(&wanted);
                    return settled;
                }
            }
        }
    }

    fn tell(&self, wanted: &Wanted) {
        *lock(&self.shared.told) = (wanted.generation, self.plan.status(wanted));
    }
}

/// Whoever waits for the driver hears of its end in any case.
struct Dropped<'a>(&'a Slots);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.end(End::Unsettled);
    }
}

async fn time_is_up(slots: &Slots) {
    let deadline = slots.deadline().await;
    tokio::time::sleep_until(deadline).await;
}

/// What `exchange` gives, unless a release comes meanwhile that it would keep waiting. Dropping an
/// exchange is safe: what Herdr still takes of it has a lower number than the release.
async fn unless_overtaken(
    slots: &Slots,
    sent_for: &Wanted,
    exchange: impl Future<Output = Result<Reply, TransportError>>,
) -> Result<Reply, TransportError> {
    let overtaken = async {
        if sent_for.finish_by.is_some() {
            return std::future::pending().await;
        }
        slots.deadline().await;
        if !slots.wanted().released {
            return std::future::pending().await;
        }
        tokio::time::sleep(UNDER_WAY_LIMIT).await;
    };
    tokio::select! {
        biased;
        outcome = exchange => outcome,
        () = overtaken => Err(TransportError::Overtaken),
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
