//! The chat of an agent that says nothing itself: what its turns leave on the screen.

use std::time::{Duration, Instant};

use super::place::Place;
use crate::collie::Item;
use crate::os::random;
use crate::wrap::agents::Agent;
use crate::wrap::screen::{Mark, Screen, squeeze};

/// What of the terminal is put into the chat.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    clap::ValueEnum,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ChatMode {
    /// Nothing.
    Off,
    /// The text of each turn, at its end.
    #[default]
    Turns,
    /// The same, and what there is of it meanwhile.
    Live,
}

/// The longest text of an item, in characters: the end of a turn matters more than its beginning.
const TEXT_LIMIT: usize = 20_000;
/// An agent that reports itself has this time to say what the user said.
const USER_LINE_WAITS: Duration = Duration::from_secs(2);
/// Without a turn by then, what was entered was a command of the agent's own.
const TURN_WAITS: Duration = Duration::from_secs(3);
/// So much of the end of a line has to be seen, in characters.
const SEEN_END: usize = 40;
const LIVE_EVERY: Duration = Duration::from_millis(400);
/// Nothing tells when a turn begins or ends that the agent itself reports.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// The user's text is looked for in so many of the first lines.
const ECHO_LINES: usize = 8;

/// A turn that is followed.
#[derive(Debug)]
struct Turn {
    mark: Mark,
    since: Instant,
    /// What the user entered, until it is in the chat.
    user: Option<String>,
    /// The same, to find its echo.
    entered: Option<String>,
    /// Its number, once it runs.
    runs: Option<u64>,
    /// Output was lost: the text has no beginning.
    lost: bool,
    /// The item that grows.
    reply: Option<String>,
    shown_at: Instant,
}

#[derive(Debug)]
pub(super) struct Chat {
    mode: ChatMode,
    session: Place,
    turn: Option<Turn>,
    last_turn: u64,
}

impl Chat {
    pub(super) fn new(mode: ChatMode, session: Place) -> Self {
        Self { mode, session, turn: None, last_turn: 0 }
    }

    /// The user, or the phone, sent a line.
    pub(super) fn entered(
        &mut self,
        text: Option<String>,
        screen: &mut Screen,
        agent: &Agent,
        now: Instant,
    ) {
        if self.mode == ChatMode::Off {
            return;
        }
        // A turn that is over by now is not the one that this begins.
        self.follow(screen, agent, now, false);
        if let Some(turn) = &mut self.turn {
            // Into a turn that runs, or that is about to.
            let lines = turn.user.take().into_iter().chain(text);
            turn.user = Some(lines.collect::<Vec<_>>().join("\n")).filter(|text| !text.is_empty());
            return;
        }
        // A turn that came and went unseen is not this one.
        let glance = self.session.glance();
        if !glance.turn_runs {
            self.last_turn = glance.turn;
        }
        let mut turn = begin(screen, now);
        turn.user.clone_from(&text);
        turn.entered = text;
        self.turn = Some(turn);
    }

    /// The terminal is another agent's, and the turn that was followed with it.
    pub(super) fn forget(&mut self) {
        self.turn = None;
    }

    /// Output was lost, and with it all marks.
    pub(super) fn lost(&mut self, screen: &mut Screen) {
        if let Some(turn) = &mut self.turn {
            turn.mark = screen.mark();
            turn.lost = true;
        }
    }

    /// Follows the turns; when to look again.
    pub(super) fn follow(
        &mut self,
        screen: &mut Screen,
        agent: &Agent,
        now: Instant,
        has_ended: bool,
    ) -> Option<Instant> {
        if self.mode == ChatMode::Off {
            return None;
        }
        let glance = self.session.glance();
        if self.turn.is_none() && glance.turn_runs && glance.turn != self.last_turn {
            self.turn = Some(begin(screen, now));
        }
        let mut turn = self.turn.take()?;
        // A turn that was over before it was seen to run is one as well.
        if turn.runs.is_none() && (glance.turn_runs || glance.turn > self.last_turn) {
            turn.runs = Some(glance.turn);
        }
        let Some(number) = turn.runs else {
            if has_ended || now >= turn.since + TURN_WAITS {
                return None;
            }
            self.turn = Some(turn);
            return Some(now + LOOK_AGAIN);
        };
        self.last_turn = number;
        let runs = glance.turn_runs && glance.turn == number;
        let is_over = !runs || has_ended;
        let is_silent = match glance.turn - number.min(glance.turn) {
            0 => glance.said == 0,
            1 => glance.said_before == 0,
            // Too many turns for this to be its text.
            _ => false,
        };
        if is_silent && (is_over || now >= turn.since + USER_LINE_WAITS) {
            self.show_user_line(&mut turn, screen);
        }
        if is_over {
            if is_silent {
                self.show_turn(&turn, screen, agent);
            }
            return None;
        }
        if self.mode == ChatMode::Live && is_silent && now >= turn.shown_at + LIVE_EVERY {
            turn.shown_at = now;
            self.show_so_far(&mut turn, screen, agent);
        }
        self.turn = Some(turn);
        Some(now + LOOK_AGAIN)
    }

    /// Shows what the user typed, if a person could see it: what a program masks is secret.
    fn show_user_line(&mut self, turn: &mut Turn, screen: &mut Screen) {
        let Some(text) = turn.user.take() else { return };
        let seen = screen.squeezed() + &squeeze(&screen.since(turn.mark).0.concat());
        let is_seen = |line: &&str| {
            let line = squeeze(line);
            let end = line.chars().skip(line.chars().count().saturating_sub(SEEN_END));
            !line.is_empty() && seen.contains(&end.collect::<String>())
        };
        let text = text.lines().filter(is_seen).collect::<Vec<_>>().join("\n");
        if !text.is_empty() {
            self.session.transcribe(|id| Item::user(id, text));
        }
    }

    fn show_turn(&mut self, turn: &Turn, screen: &mut Screen, agent: &Agent) {
        if screen.is_alternate() {
            let text = tail(&screen.text(), false);
            if !text.is_empty() {
                let known = turn.reply.as_deref();
                self.session.transcribe(|new| Item::code(known.unwrap_or(new), &text, None));
            }
            return;
        }
        let text = text_of(turn, screen, agent);
        if text.is_empty() {
            return;
        }
        let known = turn.reply.as_deref();
        self.session.transcribe(|new| Item::reply(known.unwrap_or(new), &text));
    }

    fn show_so_far(&mut self, turn: &mut Turn, screen: &mut Screen, agent: &Agent) {
        if screen.is_alternate() {
            return;
        }
        let text = text_of(turn, screen, agent);
        if text.is_empty() {
            return;
        }
        // What the user said comes first.
        self.show_user_line(turn, screen);
        if turn.reply.is_none() {
            turn.reply = random::hex(8).ok();
        }
        if let Some(id) = &turn.reply {
            self.session.transcribe(|_| Item::reply(id, &text).partial());
        }
    }
}

fn begin(screen: &mut Screen, now: Instant) -> Turn {
    Turn {
        mark: screen.mark(),
        since: now,
        user: None,
        entered: None,
        runs: None,
        lost: false,
        reply: None,
        shown_at: now,
    }
}

fn text_of(turn: &Turn, screen: &mut Screen, agent: &Agent) -> String {
    let (lines, lost) = screen.since(turn.mark);
    let prompt = screen.before_cursor();
    let text = clean(lines, turn.entered.as_deref(), &prompt, agent);
    if text.is_empty() {
        return text;
    }
    tail(&text, lost || turn.lost)
}

/// The lines of a turn without the echo of what was entered, the input line below it, and what only
/// moved.
fn clean(mut lines: Vec<String>, entered: Option<&str>, prompt: &str, agent: &Agent) -> String {
    if let Some(first) = entered.and_then(|text| text.lines().last()) {
        let first = squeeze(first);
        let echo = lines.iter().take(ECHO_LINES).position(|line| squeeze(line).contains(&first));
        if let (Some(at), false) = (echo, first.is_empty()) {
            lines.drain(..=at);
        }
    }
    let is_composer = |line: &String| {
        let line = line.trim_start_matches(|c: char| c.is_whitespace() || is_frame(c));
        agent.composer.iter().any(|mark| line.starts_with(mark.as_str()))
    };
    if let Some(at) = lines.iter().rposition(is_composer) {
        lines.truncate(at);
        lines.pop_if(|line| line.chars().all(is_frame));
    }
    if !prompt.trim().is_empty() {
        lines.pop_if(|line| line.trim() == prompt.trim());
    }
    lines.retain(|line| !is_moving(line, agent));
    let blank = |line: &String| line.trim().is_empty();
    let first = lines.iter().position(|line| !blank(line)).unwrap_or(lines.len());
    lines.drain(..first);
    while lines.last().is_some_and(blank) {
        lines.pop();
    }
    lines.join("\n")
}

fn is_frame(character: char) -> bool {
    ('\u{2500}'..='\u{257f}').contains(&character)
}

/// A spinner, or a line that says that a turn runs.
fn is_moving(line: &str, agent: &Agent) -> bool {
    let first = line.trim_start().chars().next();
    let spins = |c: char| ('\u{2801}'..='\u{28ff}').contains(&c) || "◐◓◑◒◴◷◶◵".contains(c);
    first.is_some_and(spins) || agent.screen.working.iter().any(|mark| line.contains(mark.as_str()))
}

/// The end of a text that is too long.
fn tail(text: &str, lost: bool) -> String {
    let count = text.chars().count();
    let mark = if lost || count > TEXT_LIMIT { "…\n" } else { "" };
    let room = TEXT_LIMIT - mark.chars().count();
    let kept: String = text.chars().skip(count.saturating_sub(room)).collect();
    format!("{mark}{kept}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wrap::agents::known;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn echo_prompt_and_spinners_are_left_out() {
        let agent = Agent::default();
        let turn = "> fix it\n⠋ Thinking\n\nDone.\n  Two lines.\n\n> ";
        assert_eq!(clean(lines(turn), Some("fix it"), "> ", &agent), "Done.\n  Two lines.");
        assert_eq!(clean(lines("answer"), None, "", &agent), "answer");
        assert_eq!(clean(Vec::new(), Some("x"), "", &agent), "");
    }

    #[test]
    fn what_is_below_the_answer_of_a_known_agent_is_left_out() {
        let turn = "│ > fix it\n\nI fixed it.\n\n────────\n❯ \n────────\n  ? for shortcuts";
        assert_eq!(clean(lines(turn), Some("fix it"), "", &known("claude")), "I fixed it.");
    }

    #[test]
    fn a_long_text_keeps_its_end() {
        let text = format!("{}END", "é".repeat(30_000));
        let kept = tail(&text, false);
        assert_eq!(kept.chars().count(), TEXT_LIMIT);
        assert!(kept.starts_with("…\n") && kept.ends_with("END"));
        assert_eq!(tail("short", false), "short");
        assert_eq!(tail("short", true), "…\nshort");
    }
}
