//! The command that brings a session back: checked by Herdr's rules, and by stricter ones of our own
//! because Herdr types it into the user's shell.

use std::path::PathBuf;

/// The most words that Herdr takes (H051).
const WORD_LIMIT: usize = 64;

/// The most bytes that Herdr takes in all words together (H051).
const BYTE_LIMIT: usize = 8_192;

/// The longest quoted line. A terminal in line mode drops what goes over 4,095 bytes, and the prompt
/// may add to it (H055).
const LINE_LIMIT: usize = 3_900;

/// Which rule a resume command breaks, and where. No message shows the text of a word: it may be private.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeCommandError {
    /// There is no word in it.
    #[error("the resume command is empty")]
    Empty,
    /// The line cannot be split into words.
    #[error("the resume command has a quote that is not closed")]
    Unclosed,
    /// Too many words.
    #[error("the resume command has {count} words, and 64 is the limit")]
    TooManyWords {
        /// How many it has.
        count: usize,
    },
    /// Too many bytes.
    #[error("the resume command has {bytes} bytes, and 8192 is the limit")]
    TooManyBytes {
        /// How many it has.
        bytes: usize,
    },
    /// The first word is not the plain name of a program.
    #[error(
        "word 1 of the resume command must be a program's plain name on PATH (A-Z a-z 0-9 _ . -, not starting with `-`)"
    )]
    NotAName,
    /// A control character.
    #[error("word {place} of the resume command has the control character U+{code:04X}")]
    ControlCharacter {
        /// The word's place, from 1.
        place: usize,
        /// The character's code point.
        code: u32,
    },
    /// An apostrophe.
    #[error("word {place} of the resume command has an apostrophe")]
    Apostrophe {
        /// The word's place, from 1.
        place: usize,
    },
    /// A word that zsh would expand.
    #[error("word {place} of the resume command starts with `=`, which zsh expands")]
    LeadingEquals {
        /// The word's place, from 1.
        place: usize,
    },
    /// A backslash where fish reads it as an escape, quoted or not.
    #[error(
        "word {place} of the resume command has `\\\\`, or `\\` at its end, which fish reads differently"
    )]
    Backslash {
        /// The word's place, from 1.
        place: usize,
    },
    /// The line would not fit into a terminal's line.
    #[error(
        "the resume command has {bytes} bytes when it is quoted, and 3900 is the limit of what a terminal takes as one line"
    )]
    LineTooLong {
        /// How many it has.
        bytes: usize,
    },
}

/// A command that Herdr may type into the user's shell to bring a session back.
///
/// Herdr keeps it readable for others on disk (H054): never a secret in it.
///
/// ```
/// use agent_presence::herdr::{ResumeCommand, ResumeCommandError};
/// let command = ResumeCommand::parse("my-agent --resume 'sess 42'").unwrap();
/// assert_eq!(command.words(), ["my-agent", "--resume", "sess 42"]);
/// assert_eq!(ResumeCommand::new(["a", "it's"]), Err(ResumeCommandError::Apostrophe { place: 2 }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResumeCommand(Vec<String>);

impl ResumeCommand {
    /// Checks and keeps a command, a word an item.
    ///
    /// # Errors
    /// The rule that it breaks, with the place of the word.
    pub fn new<I>(words: I) -> Result<Self, ResumeCommandError>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let words: Vec<String> = words.into_iter().map(Into::into).collect();
        check(&words)?;
        Ok(Self(words))
    }

    /// Splits a line as a shell does, then checks it as [`ResumeCommand::new`] does. Nothing in it is
    /// expanded.
    ///
    /// # Errors
    /// A quote that is not closed, or the rule that it breaks.
    pub fn parse(line: &str) -> Result<Self, ResumeCommandError> {
        Self::new(shell_words::split(line).map_err(|_| ResumeCommandError::Unclosed)?)
    }

    /// The command, or none with a warning in the log that names the rule: for callers to whom the
    /// state matters more than the command.
    pub fn lenient<I>(words: I) -> Option<Self>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        Self::new(words)
            .inspect_err(|error| tracing::warn!(%error, "no resume command for Herdr"))
            .ok()
    }

    /// The words, the program first.
    pub fn words(&self) -> &[String] {
        &self.0
    }

    /// The line that Herdr types to restore the session, without the key at its end (H055).
    ///
    /// ```
    /// use agent_presence::herdr::ResumeCommand;
    /// let command = ResumeCommand::new(["my-agent", "--resume", "sess 42", ""]).unwrap();
    /// assert_eq!(command.typed_line(), "my-agent --resume 'sess 42' ''");
    /// ```
    pub fn typed_line(&self) -> String {
        self.0.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }

    /// Where the program is on `PATH`, the first thing that a restored shell looks for. None: it would
    /// say "command not found".
    pub fn program_on_path(&self) -> Option<PathBuf> {
        self.0.first().and_then(|name| which::which(name).ok())
    }
}

fn check(words: &[String]) -> Result<(), ResumeCommandError> {
    let first = words.first().ok_or(ResumeCommandError::Empty)?;
    if words.len() > WORD_LIMIT {
        return Err(ResumeCommandError::TooManyWords { count: words.len() });
    }
    let bytes = words.iter().map(String::len).sum();
    if bytes > BYTE_LIMIT {
        return Err(ResumeCommandError::TooManyBytes { bytes });
    }
    let is_name = |name: &str| {
        name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
    };
    if first.is_empty() || first.starts_with('-') || !is_name(first) {
        return Err(ResumeCommandError::NotAName);
    }
    for (index, word) in words.iter().enumerate() {
        check_word(word, index + 1)?;
    }
    let bytes = quoted_length(words);
    if bytes > LINE_LIMIT {
        return Err(ResumeCommandError::LineTooLong { bytes });
    }
    Ok(())
}

fn check_word(word: &str, place: usize) -> Result<(), ResumeCommandError> {
    // `char::is_control` is exactly C0, DEL and C1.
    if let Some(control) = word.chars().find(|character| character.is_control()) {
        return Err(ResumeCommandError::ControlCharacter { place, code: control.into() });
    }
    if word.contains('\'') {
        return Err(ResumeCommandError::Apostrophe { place });
    }
    if word.starts_with('=') {
        return Err(ResumeCommandError::LeadingEquals { place });
    }
    if word.contains(r"\\") || word.ends_with('\\') {
        return Err(ResumeCommandError::Backslash { place });
    }
    Ok(())
}

/// A word as Herdr quotes it. There is no apostrophe in it.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:@%+=".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{word}'")
}

/// The length of the line with every word in apostrophes: the longest that Herdr can make of it.
fn quoted_length(words: &[String]) -> usize {
    words.iter().map(|word| word.len() + 3).sum::<usize>() - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use ResumeCommandError as Rule;
    use proptest::prelude::*;

    fn words(count: usize) -> Vec<String> {
        (0..count).map(|_| "a".to_owned()).collect()
    }

    /// A command of `bytes` bytes in all, in words short enough.
    fn of_bytes(bytes: usize) -> Vec<String> {
        vec!["a".to_owned(), "b".repeat(bytes - 1)]
    }

    #[test]
    fn commands_that_are_fine() {
        for good in [
            vec!["my-agent"],
            vec!["a.b_c-9", "", ""],
            vec!["agent", "한국어 🙂", "$HOME", r"C:\x", "say \"hi\"", "it\u{2019}s", "a=b", "--"],
        ] {
            assert_eq!(ResumeCommand::new(good.clone()).unwrap().words(), good);
        }
        assert!(ResumeCommand::new(words(64)).is_ok());
        // `'a' '…'`: two words, five bytes of quotes and space.
        assert!(ResumeCommand::new(of_bytes(3_900 - 5)).is_ok());
    }

    #[test]
    fn every_rule_at_its_edge() {
        let case = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let table: Vec<(Vec<String>, Rule)> = vec![
            (vec![], Rule::Empty),
            (words(65), Rule::TooManyWords { count: 65 }),
            (of_bytes(8_193), Rule::TooManyBytes { bytes: 8_193 }),
            // Within Herdr's limit, and too long for a terminal's line.
            (of_bytes(8_192), Rule::LineTooLong { bytes: 8_197 }),
            (of_bytes(3_901 - 5), Rule::LineTooLong { bytes: 3_901 }),
            (case(&[""]), Rule::NotAName),
            (case(&["-a"]), Rule::NotAName),
            (case(&["./a"]), Rule::NotAName),
            (case(&["/bin/a"]), Rule::NotAName),
            (case(&["a b"]), Rule::NotAName),
            (case(&["é"]), Rule::NotAName),
            (case(&["a", "\u{7}"]), Rule::ControlCharacter { place: 2, code: 7 }),
            (case(&["a", "b", "x\u{7f}"]), Rule::ControlCharacter { place: 3, code: 0x7f }),
            (case(&["a", "x\u{85}"]), Rule::ControlCharacter { place: 2, code: 0x85 }),
            (case(&["a", "x\u{9f}"]), Rule::ControlCharacter { place: 2, code: 0x9f }),
            (case(&["a", "it's"]), Rule::Apostrophe { place: 2 }),
            (case(&["a", "=x"]), Rule::LeadingEquals { place: 2 }),
            (case(&["a", r"x\\y"]), Rule::Backslash { place: 2 }),
            (case(&["a", r"x\"]), Rule::Backslash { place: 2 }),
        ];
        for (command, rule) in table {
            assert_eq!(ResumeCommand::new(command.clone()), Err(rule), "{command:?}");
            assert_eq!(ResumeCommand::lenient(command), None);
        }
        assert!(ResumeCommand::new(["a", "\u{a0}"]).is_ok(), "the character after C1");
    }

    #[test]
    fn messages_name_the_place_and_never_the_text() {
        let error = ResumeCommand::new(["a", "s3cret'"]).unwrap_err();
        assert_eq!(error.to_string(), "word 2 of the resume command has an apostrophe");
    }

    #[test]
    fn a_line_is_split_as_a_shell_does() {
        let command = ResumeCommand::parse(r#"agent --say "two words" ''"#).unwrap();
        assert_eq!(command.words(), ["agent", "--say", "two words", ""]);
        assert_eq!(ResumeCommand::parse("agent 'x"), Err(Rule::Unclosed));
        assert_eq!(ResumeCommand::parse("  "), Err(Rule::Empty));
    }

    #[test]
    fn the_program_is_looked_for_on_the_path() {
        assert!(ResumeCommand::new(["sh"]).unwrap().program_on_path().is_some());
        assert_eq!(ResumeCommand::new(["no-such-program-9"]).unwrap().program_on_path(), None);
    }

    proptest! {
        /// What is accepted survives the quoting that Herdr does, in a POSIX shell.
        #[test]
        fn an_accepted_command_survives_quoting(
            rest in proptest::collection::vec("[ -~é한🙂]{0,20}", 0..8)
        ) {
            let mut argv = vec!["agent".to_owned()];
            argv.extend(rest);
            if let Ok(command) = ResumeCommand::new(argv.clone()) {
                let quoted: Vec<_> = command.words().iter().map(|word| format!("'{word}'")).collect();
                for line in [quoted.join(" "), command.typed_line()] {
                    prop_assert!(line.len() <= LINE_LIMIT);
                    prop_assert_eq!(shell_words::split(&line).unwrap(), argv.clone());
                }
            }
        }

        #[test]
        fn nothing_panics(argv in proptest::collection::vec(any::<String>(), 0..70)) {
            let _ = ResumeCommand::new(argv);
        }
    }
}
