//! Text from outside, made fit for one line of a terminal.

/// `text` on one line, without control characters and invisible ones, at most `limit` characters.
///
/// Runs of white space become one space, the ends are trimmed. What goes: C0, DEL, C1, and the
/// characters that reorder or hide text (bidirectional controls, zero-width ones but the joiners that
/// scripts and emoji need, tags).
pub(super) fn one_line(text: &str, limit: usize) -> String {
    let mut line = String::with_capacity(text.len().min(limit * 4));
    let mut count = 0;
    let mut gap = false;
    for character in text.chars() {
        if character.is_whitespace() || character.is_control() {
            gap = !line.is_empty();
            continue;
        }
        if is_invisible(character) {
            continue;
        }
        if gap {
            if count + 2 > limit {
                break;
            }
            line.push(' ');
            count += 1;
            gap = false;
        }
        if count == limit {
            break;
        }
        line.push(character);
        count += 1;
    }
    line
}

fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{061C}' | '\u{200B}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_terminal_would_act_on_is_gone() {
        for (text, expected) in [
            ("", ""),
            ("Fix the build", "Fix the build"),
            ("  two\n\tlines  ", "two lines"),
            ("a\u{1b}]0;evil\u{7}b", "a ]0;evil b"),
            ("a\u{85}b\u{7f}", "a b"),
            ("\u{202e}abc\u{2066}", "abc"),
            ("한국어 🙂", "한국어 🙂"),
            ("\u{0}", ""),
        ] {
            assert_eq!(one_line(text, 80), expected, "{text:?}");
        }
    }

    #[test]
    fn the_limit_counts_characters() {
        assert_eq!(one_line(&"é".repeat(81), 80), "é".repeat(80));
        assert_eq!(one_line(&"é".repeat(80), 80), "é".repeat(80));
        assert_eq!(one_line("ab cd", 3), "ab");
        assert_eq!(one_line("ab cd", 4), "ab c");
    }

    proptest! {
        #[test]
        fn a_cleaned_text_stays_as_it_is(text in any::<String>(), limit in 1_usize..100) {
            let once = one_line(&text, limit);
            prop_assert!(once.chars().count() <= limit);
            prop_assert!(!once.chars().any(char::is_control));
            prop_assert_eq!(one_line(&once, limit), once);
        }
    }
}
