//! The thread that types for the phone. A text is typed, seen on the screen, and only then sent, once:
//! Enter in a dialog would approve it.

use std::io;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::eyes::{View, Window};
use super::feed::{Event, Feed};
use super::place::{Inbox, Place, Request};
use super::typed::{self, PASTE_MARKS};
use crate::collie::Item;
use crate::presence::{Takes, Wanted};
use crate::session::State;
use crate::wrap::agents::{Agent, Interrupt};
use crate::wrap::screen::squeeze;
use crate::wrap::{Keyboard, TypeError};

/// A user who typed within this time is still at it.
const USER_TYPES: Duration = Duration::from_millis(1500);
/// How long an agent may leave its input unread.
const UNREAD: Duration = Duration::from_secs(10);
/// Some agents take an Enter that follows a burst of keys this closely for a part of it.
const BURST: Duration = Duration::from_millis(150);
/// The same for each line, and at most.
const BURST_LINE: Duration = Duration::from_millis(15);
const BURST_LIMIT: Duration = Duration::from_millis(1500);
/// How long the text may take to be seen, after that.
const SEEN: Duration = Duration::from_secs(2);
/// How long a sent text may be without effect before the chat says so.
const CONFIRMED: Duration = Duration::from_secs(5);
/// Output later than this after Enter is more than its echo.
const ECHO: Duration = Duration::from_millis(200);
/// A cursor that is hidden while the screen stands still means a menu, and so does one that is hidden in
/// all frames of this time.
const STANDS: Duration = Duration::from_millis(200);
const FRAMES: Duration = Duration::from_secs(1);
/// How long all of it may take up to Enter: a little less than the phone's patience.
const TAKEN: Duration = Duration::from_secs(9);
const LENT: Refusal = "Another agent runs in this terminal: write to that one.";
/// Between two looks at the screen.
const STEP: Duration = Duration::from_millis(10);
/// Between two keys. Two ESC that a busy program reads together are one key to it, Alt and Esc.
const KEY_GAP: Duration = Duration::from_millis(500);

/// How long a text from before the agent was started again waits for it to be ready.
const START: Duration = Duration::from_secs(60);
/// It is when it has shown something, and its screen stands still for so long. An agent that sets its
/// terminal up throws away what was typed before.
const SETTLED: Duration = Duration::from_secs(1);
/// Between two looks whether it is.
const START_STEP: Duration = Duration::from_millis(250);

/// What the phone can have of an agent of this kind.
pub(super) fn takes(agent: &Agent) -> Takes {
    Takes { send: true, stop: true, steer: agent.steer, ..Takes::NONE }
}

pub(super) struct Hands {
    pub(super) agent: Agent,
    pub(super) session: Place,
    pub(super) window: Window,
    pub(super) feed: Feed,
    pub(super) keyboard: Keyboard,
}

/// Why something is not done, in the phone's words.
type Refusal = &'static str;

impl Hands {
    /// Takes wishes until the session ends.
    pub(super) fn start(self) -> io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name("hands".to_owned()).spawn(move || {
            let inbox = self.session.inbox();
            self.run(inbox);
        })
    }

    fn run(&self, mut inbox: Inbox) {
        while let Some(wish) = inbox.wait() {
            match wish.wanted() {
                Wanted::Send { text } => self.send(wish, &text, false),
                Wanted::Steer { text } => self.send(wish, &text, true),
                Wanted::Stop => match self.stop() {
                    Ok(()) => wish.accept(),
                    Err(why) => wish.refuse(why),
                },
                _ => drop(wish),
            }
        }
    }

    fn send(&self, wish: Request, text: &str, steer: bool) {
        if wish.is_from_before() {
            self.wait_for_start();
        }
        let turn = self.session.glance().turn;
        let sent = match self.type_and_send(text, steer) {
            Ok(sent) => sent,
            Err(why) => return wish.refuse(why),
        };
        wish.accept();
        self.feed.event(Event::PhoneSent);
        if !self.is_confirmed(&sent, turn, steer) {
            let notice = "No sign of the text came from the agent: whether it took it is unknown.";
            self.session.transcribe(|id| Item::notice(id, notice));
        }
    }

    /// An agent that was just started does not take text yet.
    fn wait_for_start(&self) {
        let began = Instant::now();
        while began.elapsed() < START
            && self.session.is_open()
            && !self.session.glance().turn_runs
            && !self.may_type(false).is_ok_and(|view| has_settled(&view))
        {
            std::thread::sleep(START_STEP);
        }
    }

    fn type_and_send(&self, text: &str, steer: bool) -> Result<Sent, Refusal> {
        let began = Instant::now();
        if steer && !self.agent.steer {
            return Err("The agent takes no text into a running turn.");
        }
        let view = self.may_type(steer)?;
        if self.agent.composer.is_empty() && view.has_typed {
            return Err("Somebody is typing at the terminal.");
        }
        if view.composer.as_ref().is_some_and(|composer| !composer.text.is_empty()) {
            return Err("There is other text in the agent's input line.");
        }
        let is_line_by_line = self.keyboard.is_line_by_line();
        let bytes = typed::text(text, view.modes.bracketed_paste, is_line_by_line)?;
        let needle = typed::needle(text);
        if needle.is_empty() {
            return Err("There is no text in it.");
        }
        let typed_at = Instant::now();
        self.feed.event(Event::PhoneTypes);
        self.keyboard.type_bytes(&bytes, UNREAD).map_err(unread)?;
        let written = Instant::now();
        let lines = u32::try_from(text.lines().count()).unwrap_or(u32::MAX);
        let burst = BURST.max(BURST_LINE.saturating_mul(lines).min(BURST_LIMIT));
        self.wait_until_seen(&view, &needle, written + burst)?;
        // Once more, and at once before Enter: a question may have come up meanwhile.
        let last = self.may_type(steer)?;
        if last.last_key.is_some_and(|at| at >= typed_at) {
            return Err("Somebody began to type at the terminal; the text was not sent.");
        }
        // The phone was told by now that nobody took it.
        if began.elapsed() > TAKEN {
            return Err("The agent took too long to read the text; it was not sent.");
        }
        let enter = typed::enter(view.modes.kitty_flags);
        self.keyboard.type_bytes(enter, UNREAD).map_err(unread)?;
        Ok(Sent { needle, at: Instant::now(), is_line_by_line })
    }

    /// The gate: text is typed only where it can approve nothing and nobody is disturbed.
    fn may_type(&self, steer: bool) -> Result<View, Refusal> {
        // First the screen: what it shows is in the session's state by then.
        let view = self.view_without_menu()?;
        let glance = self.session.newest();
        if glance.is_lent {
            return Err(LENT);
        }
        if self.keyboard.is_hidden() {
            return Err("The agent waits for a password at its terminal.");
        }
        if glance.state == State::Blocked {
            return Err("A question is open. Answer it first.");
        }
        if glance.turn_runs && !steer {
            return Err("A turn runs.");
        }
        if view.suspended {
            return Err("The agent is suspended.");
        }
        if view.state == Some(State::Blocked) {
            return Err("A dialog is open in the agent's terminal.");
        }
        if !self.agent.composer.is_empty() && view.composer.is_none() {
            return Err("The agent's input line is not on its screen.");
        }
        if view.last_key.is_some_and(|at| at.elapsed() < USER_TYPES) {
            return Err("Somebody is typing at the terminal.");
        }
        Ok(view)
    }

    /// The screen. Of an agent that hides its cursor in a menu: once the cursor is there, for while a frame
    /// is drawn it may be hidden as well.
    fn view_without_menu(&self) -> Result<View, Refusal> {
        let until = Instant::now() + FRAMES;
        loop {
            let view = self.window.look().ok_or("The agent's screen cannot be seen.")?;
            if !(self.agent.shows_cursor && view.hides_cursor) {
                return Ok(view);
            }
            if view.last_output.elapsed() >= STANDS || Instant::now() >= until {
                return Err("A menu is open in the agent's terminal.");
            }
            std::thread::sleep(STEP);
        }
    }

    fn wait_until_seen(&self, before: &View, needle: &str, at: Instant) -> Result<(), Refusal> {
        let count = |view: &View, text: &str| view.text.matches(text).count();
        loop {
            std::thread::sleep(STEP);
            let view = self.window.look().ok_or("The agent's screen cannot be seen.")?;
            let is_seen = count(&view, needle) > count(before, needle)
                || PASTE_MARKS.iter().any(|mark| count(&view, mark) > count(before, mark));
            let now = Instant::now();
            if is_seen && now >= at {
                return Ok(());
            }
            if now >= at + SEEN {
                return Err("The text did not appear on the agent's screen; it was not sent.");
            }
        }
    }

    /// Whether something tells that the agent took the text.
    fn is_confirmed(&self, sent: &Sent, turn: u64, steer: bool) -> bool {
        if sent.is_line_by_line {
            // The terminal has the line, and nobody can take it back.
            return true;
        }
        // A turn that only our own Enter speaks for is no sign.
        let mut is_guess = false;
        while sent.at.elapsed() < CONFIRMED {
            std::thread::sleep(STEP);
            let Some(view) = self.window.look() else { return true };
            is_guess |= view.is_guess;
            let began = self.session.glance().turn > turn && !is_guess;
            let is_gone = match &view.composer {
                Some(composer) => !squeeze(&composer.text).contains(&sent.needle),
                None => {
                    !self.agent.composer.is_empty()
                        || view.last_output > sent.at + ECHO
                        || !view.text.contains(&sent.needle)
                }
            };
            if began || (is_gone && (steer || sent.at.elapsed() > ECHO)) {
                return true;
            }
        }
        false
    }

    /// Presses the agent's own interrupt. It never gets a signal.
    fn stop(&self) -> Result<(), Refusal> {
        let glance = self.session.newest();
        if glance.is_lent {
            return Err(LENT);
        }
        // At rest the same keys can quit an agent.
        if !glance.turn_runs {
            return Err("No turn runs.");
        }
        let view = self.window.look().ok_or("The agent's screen cannot be seen.")?;
        if view.suspended {
            return Err("The agent is suspended.");
        }
        self.feed.event(Event::PhoneInterrupted);
        for (at, &key) in self.agent.interrupt.iter().enumerate() {
            if at > 0 {
                std::thread::sleep(KEY_GAP);
            }
            let bytes = match key {
                Interrupt::Esc => typed::escape(view.modes.kitty_flags),
                Interrupt::CtrlC => typed::control_c(view.modes.kitty_flags),
            };
            self.keyboard.type_bytes(bytes, UNREAD).map_err(unread)?;
        }
        Ok(())
    }
}

fn has_settled(view: &View) -> bool {
    !view.text.is_empty() && view.last_output.elapsed() >= SETTLED
}

/// A text that was sent.
struct Sent {
    needle: String,
    at: Instant,
    is_line_by_line: bool,
}

fn unread(error: TypeError) -> Refusal {
    match error {
        TypeError::NotRead => "The agent does not read its input.",
        TypeError::TooLong => "The text is too long to be typed.",
        _ => "The agent has ended.",
    }
}
