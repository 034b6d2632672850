//! What a person reads beside the state.

use super::report::State;
use super::text::one_line;
use std::collections::BTreeMap;

/// The longest text that Herdr shows, in characters (H040).
const LIMIT: usize = 80;

/// What a person reads beside the state: a title, the agent's nice name, and a text for a state.
///
/// Every text is put on one line, cleaned of control characters, and cut at 80 characters. One
/// [`Metadata`] replaces the one before it as a whole.
///
/// ```
/// use agent_presence::herdr::{Metadata, State};
/// let metadata = Metadata::new()
///     .title("Fix the build")
///     .display_agent("Claude")
///     .state_label(State::Blocked, "Run cargo test?");
/// # let _ = metadata;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    pub(super) title: Option<String>,
    pub(super) display_agent: Option<String>,
    pub(super) state_labels: BTreeMap<State, String>,
}

impl Metadata {
    /// None of the fields set: reporting it clears them.
    pub fn new() -> Self {
        Self::default()
    }

    /// What the session is about.
    pub fn title(mut self, text: &str) -> Self {
        self.title = shown(text);
        self
    }

    /// The agent's name as people know it.
    pub fn display_agent(mut self, text: &str) -> Self {
        self.display_agent = shown(text);
        self
    }

    /// The words to show in place of a state's own.
    pub fn state_label(mut self, state: State, text: &str) -> Self {
        match shown(text) {
            Some(label) => self.state_labels.insert(state, label),
            None => self.state_labels.remove(&state),
        };
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// An empty text is none: Herdr would show an empty field instead of its own.
fn shown(text: &str) -> Option<String> {
    Some(one_line(text, LIMIT)).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cleaned_and_cut() {
        let metadata = Metadata::new()
            .title(&"x".repeat(81))
            .display_agent("a\u{1b}[1mb")
            .state_label(State::Blocked, " \n")
            .state_label(State::Idle, "done\nfor now");
        assert_eq!(metadata.title, Some("x".repeat(80)));
        assert_eq!(metadata.display_agent.as_deref(), Some("a [1mb"));
        assert_eq!(
            metadata.state_labels,
            BTreeMap::from([(State::Idle, "done for now".to_owned())])
        );
        assert!(Metadata::new().title("").is_empty());
    }
}
