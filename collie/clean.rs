//! Text as the phone may show it: cut to its limit, without characters that nobody sees.

use std::borrow::Cow;

/// The longest text of an item, in characters (N064).
pub(crate) const TEXT_LIMIT: Limit = Limit::Characters(20_000);
/// The longest input or output of a tool.
pub(crate) const TOOL_LIMIT: Limit = Limit::Characters(2_000);
/// The longest summary or label.
pub(crate) const LABEL_LIMIT: Limit = Limit::Characters(200);

/// How long a text may be. It is cut at a character, never inside one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    Bytes(usize),
    Characters(usize),
}

/// A text after cleaning.
#[derive(Debug)]
pub(crate) struct Cleaned {
    pub(crate) text: String,
    /// It was longer than its limit.
    pub(crate) cut: bool,
    /// Characters were taken out or changed.
    pub(crate) changed: bool,
}

/// Text of several lines: newline and tab stay, other control characters and invisible ones go
/// (N065), the rest is cut (N064).
pub(crate) fn text(input: &str, limit: Limit) -> Cleaned {
    let visible = without_invisible(input);
    let changed = matches!(visible, Cow::Owned(_));
    let kept = cut(&visible, limit);
    let cut = kept.len() < visible.len();
    Cleaned { text: kept.to_owned(), cut, changed }
}

/// What ends a line where text is shown, and the tab.
const BREAKS: [char; 4] = ['\n', '\t', '\u{2028}', '\u{2029}'];

/// Text of one line: as [`text`], and what would break it becomes a space.
pub(crate) fn line(input: &str, limit: Limit) -> Cleaned {
    if !input.contains(BREAKS) {
        return text(input, limit);
    }
    let joined = input.replace("\r\n", " ").replace(BREAKS, " ");
    Cleaned { changed: true, ..text(&joined, limit) }
}

fn cut(input: &str, limit: Limit) -> &str {
    match limit {
        Limit::Bytes(bytes) if input.len() <= bytes => input,
        Limit::Bytes(bytes) => {
            let end = (0..=bytes).rev().find(|&end| input.is_char_boundary(end)).unwrap_or(0);
            &input[..end]
        }
        // No character is shorter than a byte, so the common short text is not counted.
        Limit::Characters(characters) if input.len() <= characters => input,
        Limit::Characters(characters) => {
            input.char_indices().nth(characters).map_or(input, |(end, _)| &input[..end])
        }
    }
}

fn without_invisible(input: &str) -> Cow<'_, str> {
    if !input.chars().any(|character| is_joiner(character) || is_removed(character)) {
        return Cow::Borrowed(input);
    }
    let mut kept = String::with_capacity(input.len());
    let mut characters = input.chars().peekable();
    while let Some(character) = characters.next() {
        let joins = is_joiner(character)
            && kept.chars().next_back().is_some_and(may_be_joined)
            && characters.peek().copied().is_some_and(may_be_joined);
        if joins || !(is_joiner(character) || is_removed(character)) {
            kept.push(character);
        }
    }
    if kept.len() == input.len() { Cow::Borrowed(input) } else { Cow::Owned(kept) }
}

fn is_removed(character: char) -> bool {
    (character.is_control() && character != '\n' && character != '\t') || is_invisible(character)
}

/// ZERO WIDTH NON-JOINER and ZERO WIDTH JOINER, which Persian, the scripts of India and emoji need.
fn is_joiner(character: char) -> bool {
    matches!(character, '\u{200C}' | '\u{200D}')
}

/// A letter that is not ASCII, an emoji, or what may end one: only between two of these does a
/// joiner do anything but hide.
fn may_be_joined(character: char) -> bool {
    (character.is_alphabetic() && !character.is_ascii())
        || matches!(u32::from(character),
            0x0300..=0x036F | 0x0900..=0x0DFF | 0x2190..=0x2BFF | 0xFE0F | 0x1_F000..=0x1_FAFF)
}

/// Whether `character` is of Unicode's category Cf: format characters, which show nothing and can
/// reorder or hide what is beside them. U+200C and U+200D are among them.
pub(crate) fn is_invisible(character: char) -> bool {
    matches!(u32::from(character),
        0x00AD | 0x0600..=0x0605 | 0x061C | 0x06DD | 0x070F | 0x0890..=0x0891 | 0x08E2 | 0x180E
        | 0x200B..=0x200F | 0x202A..=0x202E | 0x2060..=0x2064 | 0x2066..=0x206F | 0xFEFF
        | 0xFFF9..=0xFFFB | 0x1_10BD | 0x1_10CD | 0x1_3430..=0x1_343F | 0x1_BCA0..=0x1_BCA3
        | 0x1_D173..=0x1_D17A | 0xE_0001 | 0xE_0020..=0xE_007F)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn n064_text_is_cut_at_a_character() {
        let long = "é".repeat(20_001);
        let cleaned = text(&long, TEXT_LIMIT);
        assert_eq!(cleaned.text.chars().count(), 20_000);
        assert!(cleaned.cut && !cleaned.changed);
        assert_eq!(line("ééé", Limit::Bytes(5)).text, "éé");
        assert!(!text("short", TEXT_LIMIT).cut);
    }

    #[test]
    fn n065_control_and_invisible_characters_are_removed() {
        let cases = [
            ("a\u{1b}[31mb", "a[31mb"),
            ("a\r\nb\tc", "a\nb\tc"),
            ("safe\u{202e}exe.txt", "safeexe.txt"),
            ("pass\u{200b}word", "password"),
            ("a\u{200d}b", "ab"),
            ("\u{e0041}\u{e0042}x", "x"),
            ("👩\u{200d}🚀", "👩\u{200d}🚀"),
            ("❤\u{fe0f}\u{200d}🔥", "❤\u{fe0f}\u{200d}🔥"),
            ("می\u{200c}خواهم", "می\u{200c}خواهم"),
        ];
        for (input, expected) in cases {
            assert_eq!(text(input, TEXT_LIMIT).text, expected, "{input:?}");
        }
    }

    #[test]
    fn a_line_has_no_line_ends() {
        let cleaned = line("one\r\ntwo\nthree\tfour\u{2028}five", LABEL_LIMIT);
        assert_eq!(cleaned.text, "one two three four five");
        assert!(cleaned.changed);
    }

    proptest! {
        #[test]
        fn cleaning_twice_is_cleaning_once(input in any::<String>()) {
            let once = text(&input, Limit::Characters(20)).text;
            let twice = text(&once, Limit::Characters(20));
            // Cutting may part a joiner from its second letter; nothing else may change.
            prop_assert!(twice.text == once || twice.text == once.trim_end_matches(is_joiner));
            prop_assert!(!once.chars().any(is_removed) || once.chars().any(is_joiner));
        }
    }
}
