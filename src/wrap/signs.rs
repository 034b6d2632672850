//! What a program's output says beside its text: titles, progress, notifications, a shell's marks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::escape::Sequence;

/// The longest text that is kept of a title or a notification, in characters.
const TEXT_LIMIT: usize = 256;

/// One such thing. None is proof of anything: each is a hint, read by the rules of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sign {
    /// The window's title (OSC 0, OSC 2).
    Title(String),
    /// Something runs (OSC 9;4 with 1, 2 or 3), or nothing does (with 0).
    Progress(bool),
    /// A command runs in a shell (OSC 133 C), or the prompt is back (A, D).
    ShellRuns(bool),
    /// A desktop notification (OSC 9, OSC 777, OSC 99).
    Notification(String),
}

/// What one escape sequence says.
pub(super) fn sign(sequence: Sequence<'_>) -> Option<Sign> {
    let Sequence::Osc { body, .. } = sequence else { return None };
    let at = memchr::memchr(b';', body)?;
    let (number, text) = (&body[..at], &body[at + 1..]);
    match number {
        b"0" | b"2" => Some(Sign::Title(readable(text))),
        b"9" => match text {
            [b'4', b';', b'0', ..] => Some(Sign::Progress(false)),
            [b'4', b';', b'1'..=b'3', ..] => Some(Sign::Progress(true)),
            // Other numbers are another terminal's commands.
            [digit, b';', ..] if digit.is_ascii_digit() => None,
            _ => Some(Sign::Notification(readable(text))),
        },
        b"99" => {
            let at = memchr::memchr(b';', text)?;
            let (about, payload) = (&text[..at], &text[at + 1..]);
            let encoded = about.split(|&byte| byte == b':').any(|pair| pair == b"e=1");
            let decoded = encoded.then(|| STANDARD.decode(payload).ok()).flatten();
            let payload = decoded.as_deref().unwrap_or(payload);
            // The question whether the terminal knows the protocol has no text.
            (!payload.is_empty()).then(|| Sign::Notification(readable(payload)))
        }
        b"133" => match text.first()? {
            b'A' | b'D' => Some(Sign::ShellRuns(false)),
            b'C' => Some(Sign::ShellRuns(true)),
            _ => None,
        },
        b"777" => text.strip_prefix(b"notify;").map(|text| Sign::Notification(readable(text))),
        _ => None,
    }
}

fn readable(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.chars().filter(|character| !character.is_control()).take(TEXT_LIMIT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wrap::escape::Parser;

    fn signs(output: &[u8]) -> Vec<Sign> {
        let (mut parser, mut signs) = (Parser::default(), Vec::new());
        parser.feed(output, |sequence| signs.extend(sign(sequence)));
        signs
    }

    #[test]
    fn each_form_is_read() {
        let note = |text: &str| Sign::Notification(text.to_owned());
        for (output, expected) in [
            ("\x1b]0;\u{2733} Claude Code\x07", Sign::Title("\u{2733} Claude Code".to_owned())),
            ("\x1b]2;two\x1b\\", Sign::Title("two".to_owned())),
            ("\x1b]0;\x07", Sign::Title(String::new())),
            ("\x1b]9;4;3;\x07", Sign::Progress(true)),
            ("\x1b]9;4;1;40\x07", Sign::Progress(true)),
            ("\x1b]9;4;0;\x07", Sign::Progress(false)),
            ("\x1b]133;C\x07", Sign::ShellRuns(true)),
            ("\x1b]133;D;0\x07", Sign::ShellRuns(false)),
            ("\x1b]9;Approval requested: touch x\x07", note("Approval requested: touch x")),
            ("\x1b]777;notify;Claude Code;needs you\x07", note("Claude Code;needs you")),
            ("\x1b]99;i=1:p=body;plain\x1b\\", note("plain")),
            ("\x1b]99;i=1:p=body:e=1:d=1;U2Vzc2lvbiBkb25l\x1b\\", note("Session done")),
        ] {
            assert_eq!(signs(output.as_bytes()), [expected], "{output:?}");
        }
        let nothing = "\x1b]1;icon\x07\x1b]9;9;/home\x07\x1b]99;i=q:p=?;\x1b\\\x1b]133;B\x07\x1b]8;;x\x07\
            \x1b]52;c;AAAA\x07\x1b]9\x07\x1b]\x07";
        assert_eq!(signs(nothing.as_bytes()), []);
    }

    #[test]
    fn a_long_title_is_cut_and_controls_are_left_out() {
        let long = format!("\x1b]0;{}\x07", "x".repeat(4000));
        assert_eq!(signs(long.as_bytes()), [Sign::Title("x".repeat(TEXT_LIMIT))]);
        assert_eq!(signs(b"\x1b]0;a\x01b\xff\x07"), [Sign::Title("ab\u{fffd}".to_owned())]);
    }
}
