//! The chat of an agent that says nothing itself: what its turns leave on the screen.

use std::time::{Duration, Instant};

use crate::collie::Item;
use crate::os::random;
use crate::presence::{Glance, SayError, Session};
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
    /// How many items there were before it.
    said_before: u64,
    runs: bool,
    /// Output was lost: the text has no beginning.
    lost: bool,
    /// The item that grows.
    reply: Option<String>,
    shown_at: Instant,
}

#[derive(Debug)]
pub(super) struct Chat {
    mode: ChatMode,
    session: Session,
    /// How many items are from here.
    ours: u64,
    turn: Option<Turn>,
    last_turn: u64,
}

impl Chat {
    pub(super) fn new(mode: ChatMode, session: Session) -> Self {
        Self { mode, session, ours: 0, turn: None, last_turn: 0 }
    }

    /// The user, or the phone, sent a line.
    pub(super) fn entered(&mut self, text: Option<String>, screen: &mut Screen, now: Instant) {
        if self.mode == ChatMode::Off {
            return;
        }
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
        let mut turn = self.begin(screen, now);
        turn.user.clone_from(&text);
        turn.entered = text;
        self.turn = Some(turn);
    }

    fn begin(&self, screen: &mut Screen, now: Instant) -> Turn {
        Turn {
            mark: screen.mark(),
            since: now,
            user: None,
            entered: None,
            said_before: self.others_said(self.session.glance()),
            runs: false,
            lost: false,
            reply: None,
            shown_at: now,
        }
    }

    /// How many items are from the agent itself.
    fn others_said(&self, glance: Glance) -> u64 {
        glance.said.saturating_sub(self.ours)
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
            self.turn = Some(self.begin(screen, now));
        }
        let mut turn = self.turn.take()?;
        // A turn that was over before it was seen to run is one as well.
        turn.runs |= glance.turn_runs || glance.turn > self.last_turn;
        let is_over = turn.runs && !glance.turn_runs || has_ended;
        if turn.runs {
            self.last_turn = glance.turn;
        } else if is_over || now >= turn.since + TURN_WAITS {
            return None;
        }
        let is_silent = self.others_said(glance) == turn.said_before;
        if is_silent && turn.runs && (is_over || now >= turn.since + USER_LINE_WAITS) {
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
        // Nothing tells when a turn ends that the agent itself reports.
        Some(now + Duration::from_millis(100))
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
            let said = self.session.heard(&text).map(drop);
            self.count(said);
        }
    }

    fn show_turn(&mut self, turn: &Turn, screen: &mut Screen, agent: &Agent) {
        if screen.is_alternate() {
            let text = tail(&screen.text(), false);
            let id = turn.reply.clone().or_else(|| random::hex(8).ok());
            if let (Some(id), false) = (id, text.is_empty()) {
                let said = self.session.item(Item::code(&id, &text, None));
                self.count(said);
            }
            return;
        }
        let text = text_of(turn, screen, agent);
        if text.is_empty() {
            return;
        }
        let said = match &turn.reply {
            Some(id) => self.session.reply(id).done(&text),
            None => self.session.say(&text).map(drop),
        };
        self.count(said);
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
            let said = self.session.reply(id).partial(&text);
            self.count(said);
        }
    }

    fn count(&mut self, said: Result<(), SayError>) {
        // Counted by the session as well, whether Collie took it or not.
        self.ours += 1;
        if let Err(error) = said {
            tracing::warn!(%error, "a turn is not in the chat");
        }
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
