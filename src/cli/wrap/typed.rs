//! What is typed: text that can be nothing but text, and keys in the encoding that the agent wants.

use crate::wrap::screen::squeeze;

/// What agents show in the place of a long paste, without white space.
pub(super) const PASTE_MARKS: [&str; 2] = ["[Pastedtext#", "[PastedContent"];

const PASTE_BEGINS: &str = "\x1b[200~";
const PASTE_ENDS: &str = "\x1b[201~";
/// The longest line that a terminal edits, its end included (`MAX_CANON` is 255 on macOS).
const LINE_LIMIT: usize = if cfg!(target_os = "macos") { 255 } else { 4095 };
/// So much of the end of a text is looked for on the screen, in characters.
const NEEDLE: usize = 24;

/// The flag of the kitty keyboard protocol for keys that are told apart from text.
const DISAMBIGUATE: u16 = 1;
/// The flag for all keys as escape codes.
const ALL_AS_ESCAPES: u16 = 8;

/// The bytes that type a text, without the Enter at its end.
pub(super) fn text(
    text: &str,
    brackets: bool,
    line_by_line: bool,
) -> Result<Vec<u8>, &'static str> {
    let lines = text.replace("\r\n", "\n").replace('\r', "\n");
    // No control character is left, so no bracket of our own can be closed from inside either.
    let is_text = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    let clean: String = lines.chars().filter(is_text).collect();
    let clean = clean.trim_end_matches('\n');
    if clean.trim().is_empty() {
        return Err("There is no text in it.");
    }
    if brackets {
        return Ok(format!("{PASTE_BEGINS}{clean}{PASTE_ENDS}").into_bytes());
    }
    if clean.contains('\n') {
        return Err("The agent takes one line at a time.");
    }
    if line_by_line && clean.len() >= LINE_LIMIT {
        return Err("The line is too long for the agent's terminal.");
    }
    // Without brackets a tab is a key: most programs complete a word with it.
    Ok(clean.replace('\t', " ").into_bytes())
}

/// What is looked for on the screen once the text was typed.
pub(super) fn needle(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    let text = squeeze(&text);
    text.chars().skip(text.chars().count().saturating_sub(NEEDLE)).collect()
}

/// Enter.
pub(super) fn enter(kitty_flags: u16) -> &'static [u8] {
    if kitty_flags & ALL_AS_ESCAPES == 0 { b"\r" } else { b"\x1b[13u" }
}

/// Esc.
pub(super) fn escape(kitty_flags: u16) -> &'static [u8] {
    if kitty_flags & (DISAMBIGUATE | ALL_AS_ESCAPES) == 0 { b"\x1b" } else { b"\x1b[27u" }
}

/// Ctrl-C.
pub(super) fn control_c(kitty_flags: u16) -> &'static [u8] {
    if kitty_flags & (DISAMBIGUATE | ALL_AS_ESCAPES) == 0 { b"\x03" } else { b"\x1b[99;5u" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_leave_its_brackets() {
        let evil = "a\x1b[201~\rrm -rf /\u{9b}201~\r\n\x03b\tc\n";
        let bytes = text(evil, true, false).unwrap();
        let typed = String::from_utf8(bytes).unwrap();
        assert_eq!(typed, "\x1b[200~a[201~\nrm -rf /201~\nb\tc\x1b[201~");
        assert_eq!(text(" \n\x1b", true, false), Err("There is no text in it."));
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_a_key(evil in proptest::string::string_regex("(\x1b\\[201~|\u{9b}|\r|\n|\x1b|\x03|[ -~]|\u{e9}){0,40}").unwrap()) {
            for brackets in [true, false] {
                let Ok(bytes) = text(&evil, brackets, false) else { continue };
                let typed = String::from_utf8(bytes).unwrap();
                let inner = typed.strip_prefix(PASTE_BEGINS).and_then(|rest| rest.strip_suffix(PASTE_ENDS));
                let inner = if brackets { inner.unwrap() } else { &typed };
                let is_key = |c: char| c.is_control() && !(brackets && matches!(c, '\n' | '\t'));
                proptest::prop_assert!(!inner.contains(is_key), "{:?}", typed);
            }
        }
    }

    #[test]
    fn without_brackets_it_is_one_line_without_an_end() {
        assert_eq!(text("fix it\n", false, true), Ok(b"fix it".to_vec()));
        assert!(text("one\ntwo", false, false).is_err());
        assert!(text(&"x".repeat(LINE_LIMIT), false, true).is_err());
        assert!(text(&"x".repeat(LINE_LIMIT), false, false).is_ok());
    }

    #[test]
    fn keys_are_encoded_as_the_terminal_would() {
        assert_eq!((enter(0), escape(0), control_c(0)), (&b"\r"[..], &b"\x1b"[..], &b"\x03"[..]));
        assert_eq!((enter(5), escape(5)), (&b"\r"[..], &b"\x1b[27u"[..]), "as Claude Code asks");
        assert_eq!((enter(8), control_c(7)), (&b"\x1b[13u"[..], &b"\x1b[99;5u"[..]));
    }

    #[test]
    fn the_end_of_a_text_is_looked_for() {
        assert_eq!(needle("fix  it\nnow"), "fixitnow");
        assert_eq!(needle(&format!("{}end of it", "x".repeat(100))).chars().count(), NEEDLE);
    }
}
