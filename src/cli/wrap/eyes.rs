//! The thread that looks at the agent's terminal: it tells the session what the agent does, and shows
//! the phone's typist the screen.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::chat::{Chat, ChatMode};
use super::feed::{Batch, Event, Feed};
use super::place::Place;
use crate::presence::Block;
use crate::session::{Rank, State};
use crate::wrap::agents::Agent;
use crate::wrap::screen::Composer;
use crate::wrap::watcher::{Told, Watcher};
use crate::wrap::{Keyboard, TerminalModes};

/// What comes within this time is looked at together.
const MOMENT: Duration = Duration::from_millis(15);
/// Input that is hidden for so long, with nothing shown meanwhile, is a password prompt.
const HIDDEN_STANDS: Duration = Duration::from_millis(200);
/// A flood is looked at this often.
const AFTER_FLOOD: Duration = Duration::from_millis(250);

/// What is to be known of the screen before something is typed.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct View {
    /// All text, without white space.
    pub(super) text: String,
    /// What the screen says of the state.
    pub(super) state: Option<State>,
    pub(super) composer: Option<Composer>,
    pub(super) hides_cursor: bool,
    pub(super) modes: TerminalModes,
    pub(super) last_output: Instant,
    pub(super) last_key: Option<Instant>,
    /// The user has typed something and not sent it.
    pub(super) has_typed: bool,
    /// Nothing but what was entered says that a turn runs.
    pub(super) is_guess: bool,
    pub(super) suspended: bool,
}

/// Shows the newest view.
#[derive(Clone, Debug)]
pub(super) struct Window {
    feed: Feed,
    shown: Arc<(Mutex<Shown>, Condvar)>,
}

#[derive(Debug, Default)]
struct Shown {
    view: Option<View>,
    number: u64,
}

impl Window {
    /// The screen with all that came up to now. None: nobody looks any more.
    pub(super) fn look(&self) -> Option<View> {
        let (shown, changed) = &*self.shown;
        let before = shown.lock().unwrap_or_else(PoisonError::into_inner).number;
        self.feed.look();
        let shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = Duration::from_secs(2);
        let waited = changed.wait_timeout_while(shown, limit, |shown| shown.number == before);
        let (shown, _) = waited.unwrap_or_else(PoisonError::into_inner);
        shown.view.clone().filter(|_| shown.number != before)
    }

    fn show(&self, view: View) {
        let (shown, changed) = &*self.shown;
        let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.view = Some(view);
        shown.number += 1;
        changed.notify_all();
    }
}

/// The thread.
#[derive(Debug)]
pub(super) struct Eyes {
    feed: Feed,
    pub(super) window: Window,
    thread: Option<JoinHandle<()>>,
}

impl Eyes {
    pub(super) fn open(
        feed: Feed,
        agent: Agent,
        session: Place,
        chat: ChatMode,
        keyboard: Keyboard,
    ) -> io::Result<Self> {
        let window = Window { feed: feed.clone(), shown: Arc::default() };
        let watcher = Watcher::new(agent.clone(), 24, 80, Instant::now());
        let chat = Chat::new(chat, session.clone());
        let now = Instant::now();
        let mut looking = Looking {
            watcher,
            agent,
            session,
            is_lent: false,
            keyboard,
            password: None,
            chat,
            window: window.clone(),
            last_output: now,
            suspended: false,
        };
        let thread = std::thread::Builder::new().name("eyes".to_owned()).spawn({
            let feed = feed.clone();
            move || looking.run(&feed)
        })?;
        Ok(Self { feed, window, thread: Some(thread) })
    }
}

impl Drop for Eyes {
    /// What is left is looked at: the last turn belongs into the chat.
    fn drop(&mut self) {
        self.feed.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Looking {
    watcher: Watcher,
    agent: Agent,
    session: Place,
    /// Another agent has the terminal: what passes is not this one's.
    is_lent: bool,
    keyboard: Keyboard,
    /// The agent waits for one.
    password: Option<Block>,
    chat: Chat,
    window: Window,
    last_output: Instant,
    suspended: bool,
}

impl Looking {
    fn run(&mut self, feed: &Feed) {
        let mut again = None;
        let mut moment = MOMENT;
        loop {
            let batch = feed.next(again, moment);
            moment = if batch.lost { AFTER_FLOOD } else { MOMENT };
            let (is_looked_at, has_ended) = (batch.is_looked_at, batch.has_ended);
            again = self.take(batch);
            if is_looked_at {
                self.window.show(self.view());
            }
            if has_ended {
                return;
            }
        }
    }

    /// Takes in what happened; when to look again if nothing does.
    fn take(&mut self, batch: Batch) -> Option<Instant> {
        let now = Instant::now();
        let glance = self.session.glance();
        self.watcher.works(glance.turn_runs);
        self.is_lent = glance.is_lent;
        if let Some(modes) = batch.modes {
            self.watcher.modes = modes;
        }
        if let Some((rows, columns)) = batch.size {
            self.watcher.screen.resize(rows, columns);
        }
        if let Some(suspended) = batch.suspended {
            self.suspended = suspended;
        }
        if batch.lost {
            self.watcher.screen.forget(self.watcher.modes.alternate_screen);
            self.chat.lost(&mut self.watcher.screen);
        }
        for event in batch.events {
            self.event(event, now);
        }
        if let Some(reports) = batch.reports {
            self.watcher.reports(reports);
        }
        let (told, again) = self.watcher.look(now);
        for told in told {
            self.tell(told, now);
        }
        self.session.flush();
        let again = [again, self.watch_for_password(now)].into_iter().flatten().min();
        if self.is_lent {
            self.chat.forget();
            return again;
        }
        let screen = &mut self.watcher.screen;
        let follow = self.chat.follow(screen, &self.agent, now, batch.has_ended);
        [again, follow].into_iter().flatten().min()
    }

    /// A line that is not shown while it is typed is a password, which only the user can give. Programs hide
    /// their input for a moment at other times, too, so it has to stand.
    fn watch_for_password(&mut self, now: Instant) -> Option<Instant> {
        if self.is_lent || !self.keyboard.is_hidden() {
            self.password = None;
            return None;
        }
        let stands = self.last_output + HIDDEN_STANDS;
        if now < stands {
            return Some(stands);
        }
        if self.password.is_none() {
            self.password = self.session.block("a password at its terminal");
        }
        // Nothing tells when it is over.
        Some(now + HIDDEN_STANDS)
    }

    fn event(&mut self, event: Event, now: Instant) {
        match event {
            Event::Output(bytes) => {
                self.last_output = now;
                self.watcher.output(&bytes, now);
            }
            Event::Input(bytes) => {
                for told in self.watcher.input(&bytes, now) {
                    self.tell(told, now);
                }
            }
            Event::HiddenInput => self.watcher.hidden_input(now),
            Event::Sign(sign) => self.watcher.sign(&sign),
            Event::PhoneTypes => self.watcher.remember_prompt(),
            Event::PhoneSent => {
                self.watcher.begin(now);
                // The text itself is in the chat already.
                self.tell(Told::Entered(None), now);
            }
            Event::PhoneInterrupted => self.watcher.interrupted(now),
        }
    }

    fn tell(&mut self, told: Told, now: Instant) {
        match told {
            // An end is one whoever has the terminal.
            Told::Evidence(_, state) if self.is_lent && state != State::Idle => {}
            Told::Evidence(rank, state) => {
                let why = (state == State::Blocked).then_some("a dialog in its terminal");
                self.session.signal(rank, state, why);
            }
            Told::Entered(text) => {
                self.chat.entered(text, &mut self.watcher.screen, &self.agent, now);
                if self.watcher.keys_say_working() {
                    self.session.signal(Rank::Keys, State::Working, None);
                }
            }
        }
    }

    fn view(&self) -> View {
        let screen = &self.watcher.screen;
        View {
            text: screen.squeezed(),
            state: self.watcher.screen_state(),
            composer: screen.composer(&self.agent.composer, self.agent.ruled),
            hides_cursor: screen.hides_cursor(),
            modes: self.watcher.modes,
            last_output: self.last_output,
            last_key: self.watcher.last_key,
            has_typed: !self.watcher.line.is_empty(),
            is_guess: self.watcher.keys_say_working(),
            suspended: self.suspended,
        }
    }
}
