use super::*;
use crate::wrap::agents::known;

/// A watcher and the time, which only goes when a test says so.
struct Rig {
    watcher: Watcher,
    now: Instant,
}

impl Rig {
    fn new(program: &str) -> Self {
        let now = Instant::now();
        Self { watcher: Watcher::new(known(program), 24, 80, now), now }
    }

    fn shows(&mut self, output: &str) -> Vec<Told> {
        self.watcher.output(output.as_bytes(), self.now);
        self.watcher.look(self.now).0
    }

    fn title(&mut self, title: &str) -> Vec<Told> {
        self.watcher.sign(&Sign::Title(title.to_owned()));
        self.watcher.look(self.now).0
    }

    fn types(&mut self, keys: &str) -> Vec<Told> {
        self.watcher.input(keys.as_bytes(), self.now)
    }

    fn after(&mut self, seconds: f64) -> Vec<Told> {
        self.now += Duration::from_secs_f64(seconds);
        self.watcher.look(self.now).0
    }
}

fn evidence(rank: Rank, state: State) -> Vec<Told> {
    vec![Told::Evidence(rank, state)]
}

#[test]
fn titles_with_a_spinner_of_any_agent() {
    let mut rig = Rig::new("unheard-of");
    assert_eq!(rig.title("my project"), [], "a title alone says nothing");
    assert_eq!(rig.title("⠙ fix it"), evidence(Rank::Terminal, State::Working));
    assert_eq!(rig.title("⠹ fix it"), [], "the next picture of the same");
    assert_eq!(rig.title("my project"), evidence(Rank::Terminal, State::Idle));
}

#[test]
fn titles_of_known_agents() {
    for (agent, title, state) in [
        ("claude", "◐ Claude Code", State::Working),
        ("codex", "⠙ fix it | w", State::Working),
        ("codex", "[ ! ] Action Required | fix it | w", State::Blocked),
        ("gemini", "✦  Working… (gm)", State::Working),
        ("gemini", "✋  Action Required (gm)", State::Blocked),
        ("qwen", "✳\u{fe0e} Qwen - w", State::Blocked),
    ] {
        let mut rig = Rig::new(agent);
        assert_eq!(rig.title(title), evidence(Rank::Terminal, state), "{agent}: {title}");
        let idle = rig.title("Qwen - w");
        assert_eq!(idle, evidence(Rank::Terminal, State::Idle), "{agent}");
    }
}

#[test]
fn progress_and_shell_marks() {
    for (begins, ends) in [
        (Sign::Progress(true), Sign::Progress(false)),
        (Sign::ShellRuns(true), Sign::ShellRuns(false)),
    ] {
        let mut rig = Rig::new("unheard-of");
        rig.watcher.sign(&begins);
        assert_eq!(rig.after(0.0), evidence(Rank::Terminal, State::Working));
        rig.watcher.sign(&ends);
        assert_eq!(rig.after(0.0), evidence(Rank::Terminal, State::Idle));
    }
}

/// Claude Code in Ghostty: the progress ends when its dialog opens, and the notification comes later.
#[test]
fn a_notification_is_a_hint_that_a_key_takes_away() {
    let mut rig = Rig::new("claude");
    rig.watcher.sign(&Sign::Progress(true));
    rig.after(0.0);
    rig.watcher.sign(&Sign::Progress(false));
    rig.after(0.0);
    rig.watcher.sign(&Sign::Notification("Claude Code;Claude needs your permission".to_owned()));
    assert_eq!(rig.after(6.0), evidence(Rank::Terminal, State::Blocked));
    rig.types("1");
    assert_eq!(rig.after(0.1), evidence(Rank::Terminal, State::Idle));
    let mut rig = Rig::new("unheard-of");
    rig.watcher.sign(&Sign::Notification("Build needs your permission".to_owned()));
    assert_eq!(rig.after(0.0), [], "nobody knows what it means there");
}

const DIALOG: &str = "\x1b[H\x1b[JDo you want to proceed?\r\n❯ 1. Yes\r\n  2. No\r\n\r\nEsc to cancel · Tab to amend";

#[test]
fn a_dialog_in_the_lowest_rows_blocks() {
    let mut rig = Rig::new("claude");
    assert_eq!(rig.shows(DIALOG), evidence(Rank::Screen, State::Blocked));
    let rule = "─".repeat(80);
    let composer = format!("\x1b[H\x1b[JDone.\r\n{rule}\r\n❯ \r\n{rule}\r\n  ? for shortcuts");
    assert_eq!(rig.shows(&composer), evidence(Rank::Screen, State::Idle));
}

/// A dialog opens while the title says that no turn runs: at once, whatever the title said before.
#[test]
fn a_dialog_is_told_with_the_trust_of_the_title() {
    let mut rig = Rig::new("claude");
    rig.title("◐ Claude Code");
    assert_eq!(rig.shows(DIALOG), [], "a live spinner is right, and the text is old");
    assert_eq!(rig.title("✳ Claude Code"), evidence(Rank::Terminal, State::Blocked));
}

#[test]
fn text_that_only_looks_like_a_dialog_does_not_count() {
    assert_eq!(Rig::new("cat").shows(DIALOG), []);
    let rule = "─".repeat(80);
    for columns in [40, 80, 200] {
        let mut rig = Rig::new("claude");
        rig.watcher.screen.resize(24, columns);
        let rule: String = rule.chars().cycle().take(usize::from(columns)).collect();
        let told = rig.shows(&format!(
            "{DIALOG}\r\n\r\nThat is how it looks.\r\n\r\n{rule}\r\n❯ \r\n{rule}\r\n"
        ));
        assert_eq!(told, [], "{columns}: it is text above the input line");
    }
}

#[test]
fn the_width_does_not_matter() {
    for columns in [14, 20, 40, 80, 300] {
        let mut rig = Rig::new("codex");
        rig.watcher.screen.resize(40, columns);
        let told = rig.shows(
            "Allow?\r\n› 1. Yes\r\n  2. No\r\n\r\n  Press enter to confirm or esc to cancel",
        );
        assert_eq!(told, evidence(Rank::Screen, State::Blocked), "{columns}");
    }
}

#[test]
fn enter_after_text_begins_and_the_prompt_ends_it() {
    let mut rig = Rig::new("unheard-of");
    rig.shows("> ");
    assert_eq!(rig.types("\r"), [], "nothing was entered");
    assert_eq!(rig.types("fix it\r"), [Told::Entered(Some("fix it".to_owned()))]);
    assert!(rig.watcher.keys_say_working());
    rig.shows("fix it\r\n");
    assert_eq!(rig.after(20.0), [], "a model may think for long");
    assert_eq!(rig.shows("Done.\r\n> "), []);
    assert_eq!(rig.after(0.1), []);
    assert_eq!(rig.after(0.3), evidence(Rank::Keys, State::Idle));
    assert!(!rig.watcher.keys_say_working());
}

#[test]
fn silence_ends_a_turn_of_which_nothing_else_tells() {
    let mut rig = Rig::new("unheard-of");
    rig.types("fix it\r");
    rig.after(1.0);
    rig.shows("Done.\r\n");
    assert_eq!(rig.after(3.0), []);
    assert_eq!(rig.after(1.1), evidence(Rank::Silence, State::Idle));
    let (_, again) = rig.watcher.look(rig.now);
    assert_eq!(again, None, "no wake-up is left");
}

#[test]
fn a_bell_makes_the_silence_shorter() {
    let mut rig = Rig::new("unheard-of");
    rig.types("fix it\r");
    rig.after(1.0);
    rig.shows("Done.\x07\r\n");
    assert_eq!(rig.after(1.1), evidence(Rank::Silence, State::Idle));
}

#[test]
fn keys_say_nothing_where_the_agent_tells() {
    let mut rig = Rig::new("codex");
    rig.title("w");
    rig.title("⠙ x");
    rig.title("w");
    rig.types("y\r");
    assert!(!rig.watcher.keys_say_working());
    let mut rig = Rig::new("pi");
    rig.watcher.reports(true);
    rig.types("y\r");
    assert!(!rig.watcher.keys_say_working());
    assert_eq!(rig.title("⠙ x"), [], "its own reports are better than its title");
}

#[test]
fn an_interrupt_is_reconciled_in_both_encodings() {
    for key in ["\x1b", "\x1b[27u", "\x03", "\x1b[99;5u"] {
        let mut rig = Rig::new("unheard-of");
        rig.shows("⎿ Interrupted by user, long ago\r\n");
        rig.watcher.works(true);
        rig.types(key);
        assert_eq!(rig.after(0.1), [], "{key:?}: the old line does not count");
        assert_eq!(rig.shows("⎿ Interrupted\r\n"), evidence(Rank::Screen, State::Idle), "{key:?}");
    }
}

#[test]
fn an_interrupt_without_effect_changes_nothing() {
    let mut rig = Rig::new("claude");
    rig.watcher.works(true);
    rig.types("\x1b");
    assert_eq!(rig.after(1.0), []);
    assert_eq!(rig.after(5.0), [], "nothing but the keys said that it works");
    // Not in a turn: the key was for something else.
    rig.watcher.works(false);
    rig.types("\x1b");
    rig.after(0.1);
    assert_eq!(rig.shows("⎿ Interrupted · What should Claude do instead?\r\n"), []);
}

#[test]
fn nothing_in_a_paste_is_a_command() {
    let mut rig = Rig::new("unheard-of");
    rig.watcher.works(true);
    assert_eq!(rig.types("\x1b[200~one\x1b\x03\rtwo\x1b[201~"), []);
    rig.after(0.1);
    assert_eq!(rig.shows("Interrupted\r\n"), [], "no interrupt was typed");
    assert_eq!(rig.types("\r"), [Told::Entered(Some("one\ntwo".to_owned()))]);
}

#[test]
fn hidden_input_is_not_kept() {
    let mut rig = Rig::new("unheard-of");
    rig.types("user");
    rig.watcher.hidden_input(rig.now);
    assert_eq!(rig.types("\r"), []);
}
