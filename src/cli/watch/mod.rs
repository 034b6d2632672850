//! `agent-presence watch`: what the phone shows, in a terminal, and what can be done on it.
//!
//! It is a phone: it speaks Collie's wire over the same socket, and an answer or a text given here is
//! given as if on the phone.

mod chat;
mod draw;
mod feed;
mod input;
mod past;
mod view;

use std::env;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use self::feed::{Act, Feed};
use self::view::{PAGE, View};
use super::{Exit, Failure};
use crate::os::folders;

/// How long a key may wait to be noticed, and news to be drawn.
const TICK: Duration = Duration::from_millis(50);

/// How often the folder is looked at for agents that came or went.
const SEARCH_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The socket to watch. Default: `COLLIE_DURABLE_SOCKET`, else every agent of
    /// `$XDG_RUNTIME_DIR/agent-presence`.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

/// Where the agents are.
enum Place {
    Socket(PathBuf),
    Folder(PathBuf),
}

impl Place {
    fn find(socket: Option<PathBuf>) -> Result<Self, Failure> {
        let named = || env::var_os("COLLIE_DURABLE_SOCKET").filter(|path| !path.is_empty());
        if let Some(socket) = socket.or_else(|| named().map(PathBuf::from)) {
            return Ok(Self::Socket(socket));
        }
        folders::runtime(|name| env::var_os(name)).map(Self::Folder).map_err(|error| {
            let message = format!("{error}; set it, or name a socket with --socket");
            Failure::new(Exit::NoPresence, message)
        })
    }

    /// The sockets that are there now.
    fn sockets(&self) -> Vec<PathBuf> {
        match self {
            Self::Socket(socket) => vec![socket.clone()],
            Self::Folder(folder) => folders::collie_sockets(folder),
        }
    }

    /// What to say while nobody is there.
    fn describe(&self) -> &Path {
        match self {
            Self::Socket(path) | Self::Folder(path) => path,
        }
    }
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let place = Place::find(arguments.socket)?;
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(Failure::new(Exit::Failed, "watch needs a terminal"));
    }
    let failed = |error: io::Error| Failure::new(Exit::Failed, error);
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let outcome = watch(&mut terminal, &place);
    ratatui::restore();
    outcome.map(|()| Exit::Done).map_err(failed)
}

fn watch(terminal: &mut DefaultTerminal, place: &Place) -> io::Result<()> {
    let mut feeds: Vec<Feed> = Vec::new();
    let mut view = View::default();
    let mut searched: Option<Instant> = None;
    let mut redraw = true;
    loop {
        if searched.is_none_or(|at| at.elapsed() >= SEARCH_EVERY) {
            searched = Some(Instant::now());
            redraw |= follow(&mut feeds, place.sockets())?;
        }
        for feed in &mut feeds {
            redraw |= feed.catch_up();
        }
        if redraw {
            view.refresh(&feeds, Instant::now());
            let mut hidden = (0, 0);
            terminal.draw(|frame| hidden = draw::draw(frame, &view, place.describe()))?;
            (view.above, view.scrolled) = hidden;
            redraw = false;
        }
        if event::poll(TICK)? {
            if act(&event::read()?, &mut view, &feeds) {
                return Ok(());
            }
            redraw = true;
        }
    }
}

/// Follows the sockets that are there, and lets go of those that went; whether any did.
fn follow(feeds: &mut Vec<Feed>, sockets: Vec<PathBuf>) -> io::Result<bool> {
    let before = feeds.len();
    feeds.retain(|feed| sockets.iter().any(|socket| socket == feed.socket()));
    let mut changed = feeds.len() != before;
    for socket in sockets {
        if !feeds.iter().any(|feed| feed.socket() == socket) {
            feeds.push(Feed::start(socket)?);
            changed = true;
        }
    }
    Ok(changed)
}

/// Does what a key says; whether it says to leave.
fn act(event: &Event, view: &mut View, feeds: &[Feed]) -> bool {
    let Event::Key(key) = event else { return false };
    if key.kind == KeyEventKind::Release {
        return false;
    }
    view.note_key(Instant::now());
    if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
        return true;
    }
    let is_plain = view.input.is_none();
    if is_plain && matches!(key.code, KeyCode::Char('q')) {
        return true;
    }
    let acts = match (is_plain, view.past.is_some(), key.code) {
        (false, _, code) => type_key(code, view).into_iter().collect(),
        (true, false, KeyCode::Esc) => return true,
        (true, false, KeyCode::Char('h')) => view.look_back(),
        (true, false, code) => press(code, view).into_iter().collect(),
        (true, true, code) => press_in_past(code, view).into_iter().collect(),
    };
    for (socket, act) in acts {
        if let Some(feed) = feeds.iter().find(|feed| feed.socket() == socket) {
            feed.act(act);
        }
    }
    false
}

/// A key while a line is typed.
fn type_key(key: KeyCode, view: &mut View) -> Option<(PathBuf, Act)> {
    match (key, &mut view.input) {
        (KeyCode::Esc, input) => *input = None,
        (KeyCode::Enter, _) => return view.typed(),
        (KeyCode::Backspace, Some(input)) => input.pop(),
        (KeyCode::Char(character), Some(input)) => input.push(character),
        _ => {}
    }
    None
}

/// A key while nothing is typed.
fn press(key: KeyCode, view: &mut View) -> Option<(PathBuf, Act)> {
    match key {
        KeyCode::Down | KeyCode::Char('j') | KeyCode::Tab => view.select_next(1),
        KeyCode::Up | KeyCode::Char('k') | KeyCode::BackTab => view.select_next(-1),
        KeyCode::PageUp => return view.scroll_up(),
        KeyCode::PageDown => view.scrolled = view.scrolled.saturating_sub(PAGE),
        KeyCode::End => view.scrolled = 0,
        KeyCode::Char('s') => view.begin_to_send(false),
        KeyCode::Char('S') => view.begin_to_send(true),
        KeyCode::Char('x') => return view.stop(),
        KeyCode::Enter => return view.enter(Instant::now()),
        KeyCode::Char(digit @ '1'..='9') => {
            return view.pick(digit as usize - '1' as usize, Instant::now());
        }
        _ => {}
    }
    None
}

/// A key while the past conversations are looked at.
fn press_in_past(key: KeyCode, view: &mut View) -> Option<(PathBuf, Act)> {
    match key {
        KeyCode::PageUp => return view.scroll_up(),
        KeyCode::PageDown => view.scrolled = view.scrolled.saturating_sub(PAGE),
        KeyCode::End => view.scrolled = 0,
        KeyCode::Esc | KeyCode::Char('h') => view.look_forward(),
        KeyCode::Char('r') => return view.reopen(),
        KeyCode::Enter => {
            view.scrolled = 0;
            return view.past.as_mut()?.read();
        }
        KeyCode::Down | KeyCode::Char('j') | KeyCode::Tab => view.past.as_mut()?.select_next(1),
        KeyCode::Up | KeyCode::Char('k') | KeyCode::BackTab => {
            view.past.as_mut()?.select_next(-1);
        }
        _ => {}
    }
    None
}
