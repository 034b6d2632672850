//! A command as one line for a shell.

use std::ffi::OsString;
use std::path::Path;

/// The longest line that a terminal in line mode takes, less what a prompt may add.
const LIMIT: usize = 3_900;

/// A line that a shell reads as the words that it was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line(pub(super) String);

impl Line {
    /// The line that a person would type for `command`.
    ///
    /// # Errors
    /// Which word cannot be typed, and why.
    pub(super) fn of_command(command: &[OsString]) -> Result<Self, String> {
        let mut words = Vec::new();
        for (index, word) in command.iter().enumerate() {
            let place = index + 1;
            let Some(word) = word.to_str() else {
                return Err(format!("word {place} of the command is no UTF-8"));
            };
            if word.chars().any(char::is_control) {
                let why = "has a control character, which cannot be typed";
                return Err(format!("word {place} of the command {why}"));
            }
            words.push(quoted(word));
        }
        let line = words.join(" ");
        if line.len() > LIMIT {
            let why = "and 3900 is the limit of what a terminal takes as one line";
            return Err(format!("the command has {} bytes when it is quoted, {why}", line.len()));
        }
        Ok(Self(line))
    }

    /// The line that runs this very program with `arguments`.
    pub(super) fn of_ourselves(arguments: &[&Path]) -> Result<Self, String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let words = [&*own].into_iter().chain(arguments.iter().copied());
        Self::of_command(&words.map(|word| word.as_os_str().to_owned()).collect::<Vec<_>>())
    }
}

/// A word in apostrophes, unless it is plain. bash, dash, zsh and fish read it alike, but for backslashes in
/// fish, which nobody needs here.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:@%+".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_the_same_words() {
        let command = ["my-agent", "it's", "", "한국어 🙂", "$HOME", "=x", "a=b"];
        let line = Line::of_command(&command.map(OsString::from)).unwrap();
        assert!(line.0.starts_with("my-agent 'it'\\''s' '' "), "{}", line.0);
        assert_eq!(shell_words::split(&line.0).unwrap(), command);
    }

    #[test]
    fn what_cannot_be_typed_is_refused() {
        let refused = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            Line::of_command(&words).unwrap_err()
        };
        assert!(refused(&["a", "b\nc"]).starts_with("word 2 of the command has a control"));
        assert!(refused(&[&"a".repeat(3_901)]).contains("3901 bytes"));
    }
}
