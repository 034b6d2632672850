//! What is known of agents, and what the user adds to it.

mod resume;

use std::path::Path;

use serde::Deserialize;
use toml::{Table, Value};

pub use resume::{Resume, SESSION, fill};

use crate::session::State;

/// What we know ourselves.
const KNOWN: &str = include_str!("known.toml");

/// A key that stops a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interrupt {
    /// Esc.
    Esc,
    /// Ctrl-C.
    CtrlC,
}

/// Text that says what an agent does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Marks {
    /// A turn runs.
    pub working: Vec<String>,
    /// It waits for the user.
    pub blocked: Vec<String>,
    /// Neither.
    pub idle: Vec<String>,
}

impl Marks {
    /// The state that a mark for which `holds` is true speaks for. Blocked comes first: while it asks, an
    /// agent often says that it works, too.
    pub fn state(&self, holds: impl Fn(&str) -> bool) -> Option<State> {
        let any = |marks: &[String]| marks.iter().any(|mark| holds(mark));
        if any(&self.blocked) {
            Some(State::Blocked)
        } else if any(&self.working) {
            Some(State::Working)
        } else if any(&self.idle) {
            Some(State::Idle)
        } else {
            None
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.working.is_empty() && self.blocked.is_empty() && self.idle.is_empty()
    }
}

/// What is known of one agent. `known.toml` says what each field means.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Agent {
    /// Base names of its command.
    pub programs: Vec<String>,
    /// The keys that stop a turn, one after the other.
    pub interrupt: Vec<Interrupt>,
    /// Whether Enter in a running turn goes into that turn.
    pub steer: bool,
    /// How its input line begins.
    pub composer: Vec<String>,
    /// Whether its input line has a rule above it.
    pub ruled: bool,
    /// Whether the cursor is hidden exactly while a menu is open.
    pub shows_cursor: bool,
    /// How many of the lowest rows count.
    pub lines: usize,
    /// Beginnings of titles.
    pub title: Marks,
    /// Text in the lowest rows.
    pub screen: Marks,
    /// Text in notifications.
    pub notice: Marks,
    /// Text that appears when a turn was stopped.
    pub interrupted: Vec<String>,
    /// How it brings a session back.
    pub resume: Resume,
}

impl Default for Agent {
    fn default() -> Self {
        Self {
            programs: Vec::new(),
            interrupt: vec![Interrupt::CtrlC],
            steer: false,
            composer: Vec::new(),
            ruled: false,
            shows_cursor: false,
            lines: 3,
            title: Marks::default(),
            screen: Marks::default(),
            notice: Marks::default(),
            interrupted: vec!["Interrupted".to_owned(), "interrupted".to_owned()],
            resume: Resume::default(),
        }
    }
}

/// Why the user's file is not used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Read(#[from] std::io::Error),
    /// It is no TOML, or says something else than it may.
    #[error("{0}")]
    Content(#[from] toml::de::Error),
}

/// What is known of a program, by its base name, with what the user's file adds. Without a file there is
/// nothing to add.
///
/// # Errors
/// The user's file cannot be read, or what it says of agents is not of the form. Use [`known`] then.
pub fn find(program: &str, config: Option<&Path>) -> Result<Agent, ConfigError> {
    let text = match config.map(std::fs::read_to_string) {
        None => String::new(),
        Some(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Some(text) => text?,
    };
    of(program, &text)
}

/// What is known of a program without the user's file.
pub fn known(program: &str) -> Agent {
    of(program, "").unwrap_or_default()
}

fn of(program: &str, config: &str) -> Result<Agent, ConfigError> {
    let is_it = |name: &str, agent: &Value| {
        let programs = agent.get("programs").and_then(Value::as_array);
        name == program
            || programs
                .is_some_and(|known| known.iter().any(|known| known.as_str() == Some(program)))
    };
    let mut agents = agents(KNOWN)?;
    if config.is_empty() {
        // Ours are right, and an agent's start waits for this.
        agents.retain(|name, agent| is_it(name, agent));
    }
    for (name, said) in agents_of_user(config)? {
        match (agents.get_mut(&name), said) {
            (Some(Value::Table(known)), Value::Table(said)) => known.extend(said),
            (_, said) => _ = agents.insert(name, said),
        }
    }
    // Read all of them, so that a mistake is told whichever agent runs.
    let mut found = Agent::default();
    for (name, agent) in agents {
        let is_it = is_it(&name, &agent);
        let agent: Agent = agent.try_into()?;
        if is_it {
            found = agent;
        }
    }
    Ok(found)
}

fn agents(text: &str) -> Result<Table, ConfigError> {
    let mut file: Table = toml::from_str(text)?;
    match file.remove("agents") {
        Some(agents) => Ok(agents.try_into()?),
        None => Ok(Table::new()),
    }
}

/// Other parts of the user's file belong to others.
fn agents_of_user(text: &str) -> Result<Table, ConfigError> {
    if text.is_empty() { Ok(Table::new()) } else { agents(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_table_is_of_the_form() {
        assert!(of("claude", "[other]").is_ok(), "all of it is read");
        let claude = of("claude", "").unwrap();
        assert_eq!(claude.interrupt, [Interrupt::Esc]);
        assert!(claude.ruled && !claude.steer);
        assert_eq!(of("opencode", "").unwrap().interrupt, [Interrupt::Esc, Interrupt::Esc]);
        assert!(of("codex", "").unwrap().steer);
        assert_eq!(of("unheard-of", "").unwrap(), Agent::default());
        assert_eq!(Agent::default().interrupt, [Interrupt::CtrlC]);
    }

    #[test]
    fn the_user_changes_and_adds_field_by_field() {
        let config = "[other]\nx = 1\n\
            [agents.claude]\ninterrupt = ['ctrl-c']\n\
            [agents.mine]\nprograms = ['my-agent']\nscreen = { working = ['busy'] }\n\
            resume = { last = ['--again'] }\n";
        let claude = of("claude", config).unwrap();
        assert_eq!(claude.interrupt, [Interrupt::CtrlC]);
        assert_eq!(claude.resume, known("claude").resume);
        assert_eq!(claude.title, known("claude").title, "what is not said stays");
        for name in ["mine", "my-agent"] {
            let mine = of(name, config).unwrap();
            assert_eq!(mine.screen.working, ["busy"]);
            assert_eq!(mine.resume.last, ["--again"]);
        }
    }

    #[test]
    fn a_mistake_is_told() {
        for (config, part) in [
            ("[agents.x]\ncolour = 'red'", "colour"),
            ("[agents.x]\ninterrupt = ['f1']", "f1"),
            ("agents = 3", "3"),
            ("[agents", "[agents"),
        ] {
            let error = of("claude", config).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
