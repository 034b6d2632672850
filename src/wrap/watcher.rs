//! What an agent does, as far as its terminal tells: told what happened and when, it gives evidence of
//! the state, each with its rank of trust. No I/O, and no clock of its own.

use std::time::{Duration, Instant};

use super::agents::Agent;
use super::keys::{Key, Keys, Line};
use super::screen::{Screen, squeeze};
use super::{Sign, TerminalModes};
use crate::session::{Rank, State};

/// An ESC with nothing after it for so long is the key.
const ESCAPE: Duration = Duration::from_millis(25);
/// After an interrupt, for so long its effect is looked for.
const RECONCILE: Duration = Duration::from_secs(3);
/// Output within this time after Enter is the echo.
const ECHO: Duration = Duration::from_millis(150);
/// A prompt that is back and stands still for so long is the end of a turn.
const PROMPT_STANDS: Duration = Duration::from_millis(300);
/// So long without output is the end of a turn of which nothing else tells.
const SILENCE: Duration = Duration::from_secs(4);
/// The same after a bell: many programs ring when they want the user.
const SILENCE_AFTER_BELL: Duration = Duration::from_secs(1);
/// The same when nothing was answered yet: a model can think for long.
const SILENCE_UNANSWERED: Duration = Duration::from_secs(60);
/// How many of the lowest rows show that a turn was stopped.
const INTERRUPTED_ROWS: usize = 12;

/// Something that the watcher has to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Evidence of the state.
    Evidence(Rank, State),
    /// The user pressed Enter, after this text if it is known.
    Entered(Option<String>),
}

/// A turn of which only the user's Enter tells.
#[derive(Debug)]
struct KeysTurn {
    since: Instant,
    /// What stood before the user's text, if something did.
    prompt: Option<String>,
    answered: bool,
    rang: bool,
}

/// An interrupt whose effect is looked for.
#[derive(Debug)]
struct Reconcile {
    until: Instant,
    /// How often the screen said that a turn was stopped, before.
    before: usize,
}

#[derive(Debug)]
pub(crate) struct Watcher {
    agent: Agent,
    pub(crate) screen: Screen,
    pub(crate) modes: TerminalModes,
    keys: Keys,
    /// When an ESC came that nothing has followed yet, and how often the screen said then that a turn
    /// was stopped: it may say so again before it is known that the ESC was the key.
    escape: Option<(Instant, usize)>,
    /// Whether a turn runs, as far as is known.
    works: bool,
    /// What the user has typed and not sent.
    pub(crate) line: Line,
    prompt: Option<String>,
    title: Option<State>,
    /// A title with a spinner was seen: one without is the end of it.
    has_spinner: bool,
    progress: Option<bool>,
    shell: Option<bool>,
    notice: Option<State>,
    /// The agent reports itself by OSC 7501: nothing else of its terminal is better.
    reports: bool,
    /// What terminal and screen said last.
    observed: Option<State>,
    keys_turn: Option<KeysTurn>,
    reconcile: Option<Reconcile>,
    last_output: Instant,
    pub(crate) last_key: Option<Instant>,
}

impl Watcher {
    pub(crate) fn new(agent: Agent, rows: u16, columns: u16, now: Instant) -> Self {
        Self {
            agent,
            screen: Screen::new(rows, columns),
            modes: TerminalModes::default(),
            keys: Keys::default(),
            escape: None,
            works: false,
            line: Line::default(),
            prompt: None,
            title: None,
            has_spinner: false,
            progress: None,
            shell: None,
            notice: None,
            reports: false,
            observed: None,
            keys_turn: None,
            reconcile: None,
            last_output: now,
            last_key: None,
        }
    }

    pub(crate) fn output(&mut self, bytes: &[u8], now: Instant) {
        self.screen.feed(bytes);
        self.last_output = now;
        if let Some(turn) = &mut self.keys_turn {
            turn.answered |= now > turn.since + ECHO;
            turn.rang |= self.screen.rang();
        }
    }

    /// Whether the agent reports itself by OSC 7501, from now on.
    pub(crate) fn reports(&mut self, reports: bool) {
        self.reports = reports;
        self.observed = None;
    }

    pub(crate) fn sign(&mut self, sign: &Sign) {
        match sign {
            Sign::Title(title) => {
                let title = title.trim_start();
                let spins = title.starts_with(|c| ('\u{2801}'..='\u{28ff}').contains(&c));
                self.has_spinner |= spins;
                let state = self.agent.title.state(|mark| title.starts_with(mark));
                let known = self.has_spinner || !self.agent.title.is_empty();
                self.title = match state {
                    None if spins => Some(State::Working),
                    None => known.then_some(State::Idle),
                    state => state,
                };
            }
            Sign::Progress(runs) => self.progress = Some(*runs),
            Sign::ShellRuns(runs) => self.shell = Some(*runs),
            Sign::Notification(text) => {
                self.notice = self.agent.notice.state(|mark| text.contains(mark));
            }
        }
    }

    /// Whether a turn runs, as far as all signals together say.
    pub(crate) fn works(&mut self, works: bool) {
        self.works = works;
    }

    /// The user's keys.
    pub(crate) fn input(&mut self, bytes: &[u8], now: Instant) -> Vec<Told> {
        let mut keys = Vec::new();
        self.keys.feed(bytes, |key| keys.push(key));
        self.escape = self.keys.is_waiting().then(|| (now, self.interruptions()));
        keys.iter().filter_map(|key| self.key(key, now)).collect()
    }

    /// Text is about to be typed by somebody else than the user.
    pub(crate) fn remember_prompt(&mut self) {
        let prompt = self.screen.before_cursor();
        self.prompt = Some(prompt.trim().to_owned()).filter(|text| !text.is_empty());
    }

    /// Keys that no program echoes. They are not kept.
    pub(crate) fn hidden_input(&mut self, now: Instant) {
        self.line.clear();
        self.last_key = Some(now);
    }

    fn key(&mut self, key: &Key, now: Instant) -> Option<Told> {
        if *key == Key::Report {
            return None;
        }
        self.last_key = Some(now);
        // Whatever was notified, the user is here now.
        self.notice = None;
        match key {
            Key::Enter => return self.entered(now),
            Key::Interrupt => {
                self.line.clear();
                self.interrupted(now);
            }
            _ => {
                if self.line == Line::default() {
                    self.remember_prompt();
                }
                self.line.apply(key);
            }
        }
        None
    }

    /// An interrupt was sent, by the user or by the phone.
    pub(crate) fn interrupted(&mut self, now: Instant) {
        if self.works {
            let before = self.interruptions();
            self.reconcile = Some(Reconcile { until: now + RECONCILE, before });
        }
    }

    fn entered(&mut self, now: Instant) -> Option<Told> {
        let text = self.line.text().map(str::to_owned);
        let is_empty = self.line.is_empty();
        self.line.clear();
        if is_empty {
            return None;
        }
        self.begin(now);
        Some(Told::Entered(text))
    }

    /// A line was sent, by the user or by the phone.
    pub(crate) fn begin(&mut self, now: Instant) {
        if !self.works && !self.is_told() {
            let prompt = self.prompt.take().filter(|_| !self.screen.is_alternate());
            self.keys_turn = Some(KeysTurn { since: now, prompt, answered: false, rang: false });
            self.screen.rang();
        }
    }

    /// Whether something better than keys tells what the agent does.
    fn is_told(&self) -> bool {
        self.reports || self.observed.is_some()
    }

    /// Whether keys alone say that a turn runs.
    pub(crate) fn keys_say_working(&self) -> bool {
        self.keys_turn.is_some()
    }

    /// How often the lowest rows say that a turn was stopped.
    fn interruptions(&self) -> usize {
        let bottom = self.screen.bottom(INTERRUPTED_ROWS);
        self.agent.interrupted.iter().map(|mark| bottom.matches(mark.as_str()).count()).sum()
    }

    /// What the lowest rows say. A dialog replaces the input line; where it is there, text that looks
    /// like a dialog is text.
    pub(crate) fn screen_state(&self) -> Option<State> {
        if self.agent.screen.is_empty() {
            return None;
        }
        let bottom = squeeze(&self.screen.bottom(self.agent.lines));
        let holds = |mark: &str| bottom.contains(&squeeze(mark));
        let state = self.agent.screen.state(holds)?;
        if state == State::Blocked && self.has_composer() {
            let works = self.agent.screen.working.iter().any(|mark| holds(mark));
            return works.then_some(State::Working);
        }
        Some(state)
    }

    fn has_composer(&self) -> bool {
        self.screen.composer(&self.agent.composer, self.agent.ruled).is_some()
    }

    /// What title, progress, shell marks, notifications and the screen add up to.
    fn observe(&self) -> Option<(Rank, State)> {
        let screen = self.screen_state();
        let runs = [self.progress, self.shell];
        let terminal_tells = self.title.is_some() || runs != [None, None];
        let state = if let Some(busy @ (State::Blocked | State::Working)) = self.title {
            busy
        } else if let Some(State::Blocked) = screen {
            State::Blocked
        } else if runs.contains(&Some(true)) || screen == Some(State::Working) {
            State::Working
        } else if let Some(State::Blocked) = self.notice {
            State::Blocked
        } else if terminal_tells || screen.is_some() || self.notice.is_some() {
            State::Idle
        } else {
            // What the screen showed is gone.
            self.observed.map(|_| State::Idle)?
        };
        Some((if terminal_tells { Rank::Terminal } else { Rank::Screen }, state))
    }

    /// What there is to tell now, and when to ask again if nothing happens.
    pub(crate) fn look(&mut self, now: Instant) -> (Vec<Told>, Option<Instant>) {
        let mut told = Vec::new();
        if let Some((at, before)) = self.escape
            && now >= at + ESCAPE
        {
            self.escape = None;
            let mut keys = Vec::new();
            self.keys.flush(|key| keys.push(key));
            told.extend(keys.iter().filter_map(|key| self.key(key, now)));
            if let Some(reconcile) = &mut self.reconcile {
                reconcile.before = reconcile.before.min(before);
            }
        }
        if !self.reports
            && let Some((rank, state)) = self.observe()
            && self.observed != Some(state)
        {
            self.observed = Some(state);
            self.keys_turn = None;
            told.push(Told::Evidence(rank, state));
        }
        told.extend(self.reconciled(now));
        told.extend(self.keys_ended(now));
        (told, self.again(now))
    }

    fn reconciled(&mut self, now: Instant) -> Option<Told> {
        let reconcile = self.reconcile.as_ref()?;
        let still_works = self.title == Some(State::Working)
            || self.screen_state() == Some(State::Working)
            || self.progress == Some(true);
        if !still_works && self.interruptions() > reconcile.before {
            self.reconcile = None;
            self.keys_turn = None;
            return Some(Told::Evidence(Rank::Screen, State::Idle));
        }
        if now < reconcile.until {
            return None;
        }
        self.reconcile = None;
        let is_quiet = now >= self.last_output + SILENCE_AFTER_BELL;
        (self.keys_turn.is_some() && is_quiet).then(|| {
            self.keys_turn = None;
            Told::Evidence(Rank::Silence, State::Idle)
        })
    }

    /// The end of a turn of which nothing tells but its output.
    fn keys_ended(&mut self, now: Instant) -> Option<Told> {
        let turn = self.keys_turn.as_ref()?;
        let quiet = now.saturating_duration_since(self.last_output.max(turn.since));
        let is_back = turn.prompt.as_deref() == Some(self.screen.before_cursor().trim());
        if is_back && quiet >= PROMPT_STANDS {
            self.keys_turn = None;
            // What the keys said is over: they are taken back by their own rank.
            return Some(Told::Evidence(Rank::Keys, State::Idle));
        }
        (quiet >= silence(turn)).then(|| {
            self.keys_turn = None;
            Told::Evidence(Rank::Silence, State::Idle)
        })
    }

    fn again(&self, now: Instant) -> Option<Instant> {
        let escape = self.escape.map(|(at, _)| at + ESCAPE);
        let reconcile = self.reconcile.as_ref().map(|reconcile| reconcile.until);
        let turn = self.keys_turn.as_ref().map(|turn| {
            let quiet_since = self.last_output.max(turn.since);
            let prompt = turn.prompt.is_some().then(|| quiet_since + PROMPT_STANDS);
            let end = quiet_since + silence(turn);
            prompt.filter(|&at| at > now).unwrap_or(end)
        });
        [escape, reconcile, turn].into_iter().flatten().min()
    }
}

fn silence(turn: &KeysTurn) -> Duration {
    match (turn.answered, turn.rang) {
        (false, _) => SILENCE_UNANSWERED,
        (true, true) => SILENCE_AFTER_BELL,
        (true, false) => SILENCE,
    }
}

#[cfg(test)]
#[path = "watcher/tests.rs"]
mod tests;
