//! The relay: bytes between the user's terminal and the program's, and all that a terminal does besides.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;

use super::agent::{Agent, Target, asks_for_end};
use super::escape::Parser;
use super::keyboard::Keyboard;
use super::kitty::Kitty;
use super::modes::Modes;
use super::program_status::{self, Event};
use super::queue::{CHUNK, Queue, write_some};
use super::signs::sign;
use super::{Ending, Options, Sign, Status, Tap, TerminalModes, guardian};
use crate::os::leader::{Image, Pty, Report};
use crate::os::pty::Master;
use crate::os::signals::{Signals, bit, restore_terminal_on_death};
use crate::os::terminal::{self, Terminal};

/// How many reads in a row go before keys and signals are looked after.
const READS_IN_A_ROW: usize = 16;
/// Less than this in the first read is most likely all there is for now.
const ECHO: usize = 256;
/// What the program can have left in the PTY when it ends is far less. What comes after that much is the
/// output of something that it left running.
const LEFT_BEHIND: usize = 1 << 20;
/// How often a process in the background looks whether it has the terminal by now: no signal tells.
const FOREGROUND_CHECK: Duration = Duration::from_millis(250);
/// How long, in milliseconds, a terminal that takes nothing is waited for at an end that was asked for.
const STOPPED_TERMINAL: u16 = 1000;
const PASTE_ENDS: &[u8] = b"\x1b[201~";
/// The answer to the question whether the terminal knows OSC 7501.
const PROGRAM_STATUS_ANSWER: &[u8] = b"\x1b]7501;?\x1b\\";

pub(super) fn run(
    image: &Image,
    signals: &Signals,
    terminal: Terminal,
    options: Options,
    tap: &mut dyn Tap,
    keyboard: Option<&Keyboard>,
) -> io::Result<Ending> {
    let mut modes = terminal::Modes::of(terminal.as_fd())?;
    if !terminal.is_foreground() {
        // The shell that started us in the background edits its next line, in modes for that.
        modes = modes.for_programs();
    }
    let master = Master::open(terminal::size(terminal.as_fd())?, Some(&modes))?;
    let pty = Pty { name: master.name(), stderr: terminal::is_terminal(io::stderr().as_fd()) };
    let agent = Agent::start(image, Some(pty), signals, options)?;
    let mut relay = Relay {
        signals,
        terminal,
        master,
        agent,
        tap,
        answers: options.answer_program_status,
        outward: Queue::default(),
        inward: Queue::default(),
        parser: Parser::default(),
        modes: Modes::default(),
        kitty: Kitty::default(),
        told_modes: TerminalModes::default(),
        keyboard,
        types: None,
        events: Vec::new(),
        signs: Vec::new(),
        foreground: false,
        hung_up: false,
    };
    restore_terminal_on_death()?;
    restore_on_panic();
    if let Some(keyboard) = keyboard {
        keyboard.connect(relay.master.as_fd())?;
    }
    let ending = relay.run();
    if let Some(keyboard) = keyboard {
        keyboard.disconnect();
    }
    let ending = ending?;
    if let Status::Signaled(_) = ending.status {
        relay.undo_modes();
    }
    // Whatever is left was meant to be.
    terminal::keep_agent_modes(Modes::default().bits());
    Ok(ending)
}

/// Text of the keyboard's on its way.
#[derive(Clone, Copy, Debug)]
struct Typing {
    is_paste: bool,
}

struct Relay<'a> {
    signals: &'a Signals,
    terminal: Terminal,
    master: Master,
    agent: Agent,
    tap: &'a mut dyn Tap,
    answers: bool,
    outward: Queue,
    inward: Queue,
    parser: Parser,
    modes: Modes,
    kitty: Kitty,
    /// What the tap knows of them.
    told_modes: TerminalModes,
    keyboard: Option<&'a Keyboard>,
    /// What of the keyboard's is on its way to the program.
    types: Option<Typing>,
    /// What the output of now says, until the tap has it.
    events: Vec<Event>,
    signs: Vec<Sign>,
    /// Whether the terminal is ours: in raw mode, and its keys go to the program.
    foreground: bool,
    /// The terminal is gone. What the program writes now goes nowhere.
    hung_up: bool,
}

impl Relay<'_> {
    fn run(&mut self) -> io::Result<Ending> {
        self.take_terminal();
        self.tap.started(self.agent.leader.agent().as_raw().cast_unsigned());
        loop {
            let ready = self.wait()?;
            if self.agent.is_escalation_due() {
                self.agent.escalate(Target::Groups(self.master.foreground()));
            }
            if ready.signals {
                self.take_signals();
            }
            if ready.unguarded && !self.hung_up {
                // The shell that waited for the guardian has the terminal at any moment.
                terminal::restore();
                self.undo_modes();
                self.hang_up();
            }
            if !self.foreground && !self.hung_up && self.terminal.is_foreground() {
                self.take_terminal();
            }
            if ready.terminal.intersects(READABLE) {
                self.pass_in();
            }
            if ready.master.intersects(READABLE) || ready.terminal.contains(PollFlags::POLLOUT) {
                self.pass_out();
            }
            if ready.master.contains(PollFlags::POLLOUT) {
                self.flush_in();
            }
            if ready.keyboard {
                self.type_in();
            }
            if ready.report {
                let report = self.agent.leader.next();
                if let Some(ending) = self.agent.ending(report) {
                    self.drain()?;
                    return Ok(ending);
                }
                if let Report::Stopped(signal) = report
                    && self.agent.is_stopped()
                {
                    self.suspend(signal);
                }
            }
        }
    }

    fn wait(&self) -> io::Result<Ready> {
        let mut master = PollFlags::empty();
        let mut terminal = PollFlags::empty();
        if self.outward.is_empty() {
            master |= PollFlags::POLLIN;
        } else {
            // The terminal takes no more for now, and so nothing more is read for it.
            terminal |= PollFlags::POLLOUT;
        }
        if !self.inward.is_empty() {
            master |= PollFlags::POLLOUT;
        } else if self.foreground {
            terminal |= PollFlags::POLLIN;
        }
        let mut polled = [
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.agent.leader.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.master.as_fd(), master),
            PollFd::new(
                self.keyboard.map_or(self.signals.as_fd(), Keyboard::as_fd),
                PollFlags::POLLIN,
            ),
            PollFd::new(self.terminal.as_fd(), terminal),
            PollFd::new(guardian::alive().unwrap_or(self.signals.as_fd()), PollFlags::POLLIN),
        ];
        // Both are always ready once they are gone, and there is nothing more to be had from them.
        let count = match (self.hung_up, guardian::alive()) {
            (true, _) => 4,
            (false, None) => 5,
            (false, Some(_)) => 6,
        };
        let polled = &mut polled[..count];
        let check = (!self.foreground && !self.hung_up).then_some(FOREGROUND_CHECK);
        let timeout = [self.agent.until_escalation(), check].into_iter().flatten().min();
        let timeout = timeout.map_or(PollTimeout::NONE, |left| {
            // Rounded up, or the last millisecond would be spent in a busy loop.
            PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
        });
        match poll(polled, timeout) {
            Ok(_) => {}
            Err(Errno::EINTR) => return Ok(Ready::NOTHING),
            Err(errno) => return Err(errno.into()),
        }
        let flags =
            |at: usize| polled.get(at).and_then(PollFd::revents).unwrap_or(PollFlags::empty());
        Ok(Ready {
            signals: !flags(0).is_empty(),
            report: !flags(1).is_empty(),
            master: flags(2),
            keyboard: self.keyboard.is_some() && !flags(3).is_empty(),
            terminal: flags(4),
            unguarded: !flags(5).is_empty(),
        })
    }

    fn take_signals(&mut self) {
        for (signal, origin) in self.signals.drain() {
            match signal {
                Signal::SIGWINCH => self.pass_size(),
                _ if self.agent.is_double(signal, origin) => {}
                Signal::SIGCONT => self.resume(),
                _ => {
                    if asks_for_end(signal) {
                        self.tap.asked_to_end();
                    }
                    self.agent.hand_on(signal, Target::Groups(self.master.foreground()));
                }
            }
        }
    }

    /// Takes the terminal, if our process group has it.
    fn take_terminal(&mut self) {
        if self.hung_up || !self.terminal.is_foreground() {
            self.foreground = false;
            return;
        }
        match self.terminal.arm() {
            Ok(()) => {
                self.foreground = true;
                self.pass_size();
            }
            Err(_) => self.hang_up(),
        }
    }

    fn pass_size(&mut self) {
        if let Ok(size) = terminal::size(self.terminal.as_fd()) {
            let _ = terminal::set_size(self.master.as_fd(), size);
            self.tap.resized(size.rows, size.columns);
        }
    }

    fn suspend(&mut self, signal: i32) {
        self.pass_out();
        self.tap.suspended();
        terminal::restore();
        self.foreground = false;
        if !self.agent.stop_with(signal, Target::Groups(self.master.foreground())) {
            self.take_terminal();
        }
    }

    fn resume(&mut self) {
        self.take_terminal();
        self.agent.send(Signal::SIGCONT, Target::Groups(self.master.foreground()));
        self.tap.resumed();
    }

    /// From the terminal to the program.
    fn pass_in(&mut self) {
        if !self.inward.is_empty() || !self.foreground {
            return;
        }
        match self.inward.fill(self.terminal.as_fd()) {
            Err(Errno::EAGAIN | Errno::EINTR) => return,
            // Another process group has the terminal now.
            Err(_) if !self.terminal.is_foreground() && !is_gone(self.terminal.as_fd()) => {
                self.foreground = false;
                return;
            }
            Ok(0) | Err(_) => return self.hang_up(),
            Ok(_) => {}
        }
        // Asked before the program has it: what it does with it may end with another answer.
        let hidden = terminal::hides_input(self.master.as_fd());
        self.flush_in();
        if hidden {
            self.tap.hidden_input();
        } else {
            self.tap.input(self.inward.filled());
        }
    }

    /// From the keyboard of somebody else to the program: whole, and in turn with the user's own.
    fn type_in(&mut self) {
        let Some(keyboard) = self.keyboard else { return };
        keyboard.woken();
        if let Some(typing) = self.types
            && keyboard.is_given_up()
        {
            self.inward.extra.clear();
            if typing.is_paste {
                self.inward.extra.extend_from_slice(PASTE_ENDS);
            }
            self.typed();
        }
        self.begin_typing();
        self.flush_in();
    }

    /// Takes what waits at the keyboard, once nothing is before it.
    fn begin_typing(&mut self) {
        if self.types.is_none()
            && self.inward.is_empty()
            && let Some(bytes) = self.keyboard.and_then(Keyboard::take)
        {
            self.types = Some(Typing { is_paste: bytes.ends_with(PASTE_ENDS) });
            self.inward.extra = bytes;
        }
    }

    fn typed(&mut self) {
        self.types = None;
        if let Some(keyboard) = self.keyboard {
            keyboard.done();
        }
    }

    fn flush_in(&mut self) {
        match self.inward.flush(self.master.as_fd(), usize::MAX) {
            Ok(()) | Err(Errno::EAGAIN) => {}
            // Nobody reads any more, and the end is on its way to us.
            Err(_) => self.inward = Queue::default(),
        }
        if self.inward.is_empty() {
            if self.types.is_some() {
                self.typed();
            }
            // It may have waited for the user's keys. What it has is written when poll says so.
            self.begin_typing();
        }
    }

    /// From the program to the terminal. Tells how much was read, and whether there may be more.
    fn pass_out(&mut self) -> (usize, bool) {
        let mut total = 0;
        for _ in 0..READS_IN_A_ROW {
            if !self.outward.is_empty() {
                self.flush_out();
            }
            if !self.outward.is_empty() {
                return (total, true);
            }
            let count = match self.outward.fill(self.master.as_fd()) {
                Ok(count) if count > 0 => count,
                Err(Errno::EINTR) => continue,
                _ => return (total, false),
            };
            total += count;
            // Before it is written: what the terminal has is never more than what is known of it, should
            // we be killed in between.
            self.read_along();
            self.flush_out();
            self.tap.output(self.outward.filled());
            for event in self.events.drain(..) {
                self.tap.program_status(event);
            }
            for sign in self.signs.drain(..) {
                self.tap.sign(sign);
            }
            self.tell_modes();
            if !self.inward.is_empty() {
                self.flush_in();
            }
            // An echo is all there is: poll says if not, and asks about the keys at the same time.
            if total < ECHO {
                break;
            }
        }
        (total, true)
    }

    fn flush_out(&mut self) {
        if self.hung_up {
            self.outward.clear();
            return;
        }
        match self.outward.flush(self.terminal.as_fd(), self.terminal.write_limit()) {
            Ok(()) | Err(Errno::EAGAIN) => {}
            Err(_) => self.hang_up(),
        }
    }

    /// Reads what is about to go to the terminal.
    fn read_along(&mut self) {
        let (modes, events, extra) = (&mut self.modes, &mut self.events, &mut self.inward.extra);
        let (answers, kitty, signs) = (self.answers, &mut self.kitty, &mut self.signs);
        self.parser.feed(self.outward.filled(), |sequence| {
            kitty.apply(sequence, modes.is_alternate());
            modes.apply(sequence);
            signs.extend(sign(sequence));
            if let Some(event) = program_status::event(sequence) {
                // Bounded, whoever asks how often without reading the answers.
                if event == Event::Query && answers && extra.len() < CHUNK {
                    extra.extend_from_slice(PROGRAM_STATUS_ANSWER);
                }
                events.push(event);
            }
        });
        self.modes.set_inside(self.parser.is_inside());
        terminal::keep_agent_modes(self.modes.bits());
    }

    fn tell_modes(&mut self) {
        let alternate_screen = self.modes.is_alternate();
        let modes = TerminalModes {
            bracketed_paste: self.modes.has_bracketed_paste(),
            alternate_screen,
            kitty_flags: self.kitty.flags(alternate_screen),
        };
        if modes != self.told_modes {
            self.told_modes = modes;
            self.tap.modes(modes);
        }
    }

    /// The terminal is gone: as its own kernel would, with a SIGHUP.
    fn hang_up(&mut self) {
        if self.hung_up {
            return;
        }
        self.hung_up = true;
        self.foreground = false;
        self.outward.clear();
        // Below `nohup` the program is to outlive its terminal.
        if self.signals.ignored() & bit(Signal::SIGHUP) == 0 {
            self.tap.asked_to_end();
            self.agent.hand_on(Signal::SIGHUP, Target::Groups(self.master.foreground()));
        }
    }

    /// Passes on what the program has left in its terminal.
    fn drain(&mut self) -> io::Result<()> {
        let mut left = LEFT_BEHIND;
        loop {
            let (count, more) = self.pass_out();
            left = left.saturating_sub(count);
            if !more || (left == 0 && self.outward.is_empty()) {
                return Ok(());
            }
            if !self.outward.is_empty() {
                if !self.wait_for_terminal()? {
                    return Ok(());
                }
                self.take_signals();
            }
        }
    }

    /// Waits until the terminal takes more, or a signal comes: the user may have stopped it with Ctrl-S.
    /// Not for long once the end was asked for; tells whether it is worth trying.
    fn wait_for_terminal(&self) -> io::Result<bool> {
        let mut polled = [
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.terminal.as_fd(), PollFlags::POLLOUT),
        ];
        let asked = self.agent.is_asked_to_end();
        let timeout = if asked { PollTimeout::from(STOPPED_TERMINAL) } else { PollTimeout::NONE };
        match poll(&mut polled, timeout) {
            Ok(count) => Ok(count > 0),
            Err(Errno::EINTR) => Ok(true),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Undoes what the program armed, because it could not do so itself.
    fn undo_modes(&mut self) {
        let undo = self.modes.undo();
        if !self.hung_up && self.terminal.is_foreground() {
            write_all(self.terminal.as_fd(), &undo);
        }
    }
}

/// What there is to do.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "what poll says, one by one")]
struct Ready {
    signals: bool,
    report: bool,
    master: PollFlags,
    keyboard: bool,
    terminal: PollFlags,
    unguarded: bool,
}

impl Ready {
    const NOTHING: Self = Self {
        signals: false,
        report: false,
        master: PollFlags::empty(),
        keyboard: false,
        terminal: PollFlags::empty(),
        unguarded: false,
    };
}

/// Something to read, or the news that there will be nothing more.
const READABLE: PollFlags = PollFlags::POLLIN
    .union(PollFlags::POLLHUP)
    .union(PollFlags::POLLERR)
    .union(PollFlags::POLLNVAL);

/// Whether the terminal has hung up, for which poll needs no wish.
fn is_gone(terminal: BorrowedFd<'_>) -> bool {
    let mut waits = [PollFd::new(terminal, PollFlags::empty())];
    poll(&mut waits, PollTimeout::ZERO).is_err() || waits[0].any().unwrap_or(true)
}

/// Writes a few bytes at the very end, for as long as the terminal takes them.
pub(super) fn write_all(terminal: BorrowedFd<'_>, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match write_some(terminal, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::EAGAIN) => {
                let mut waits = [PollFd::new(terminal, PollFlags::POLLOUT)];
                if !matches!(poll(&mut waits, STOPPED_TERMINAL), Ok(1..) | Err(Errno::EINTR)) {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

/// Gives the terminal back before a panic of this thread is printed.
fn restore_on_panic() {
    let before = std::panic::take_hook();
    let relay = std::thread::current().id();
    std::panic::set_hook(Box::new(move |panic| {
        // A panic on another thread does not end us, and the terminal is in use.
        if std::thread::current().id() == relay {
            terminal::restore();
        }
        before(panic);
    }));
}
