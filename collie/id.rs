//! What may be an id, and the ids that are derived.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::clean::is_invisible;
use super::rule::RuleError;

/// The longest id, in bytes (N049).
pub const ID_LIMIT: usize = 128;

/// Checks an id: 1 to 128 bytes, no control or other invisible character, no white space, none of
/// `/`, `?`, `#` (N049). `place` names the id in the error, such as `pane id`.
///
/// # Errors
/// The rule that `id` breaks.
pub fn check_id(place: &'static str, id: &str) -> Result<(), RuleError> {
    if id.is_empty() {
        return Err(RuleError::new(place, "is empty"));
    }
    if id.len() > ID_LIMIT {
        let rule = format!("is {} bytes long, at most {ID_LIMIT} are allowed", id.len());
        return Err(RuleError::new(place, rule));
    }
    for character in id.chars() {
        let rule = match character {
            '/' | '?' | '#' => format!("holds `{character}`, which the wire keeps for addresses"),
            _ if character.is_whitespace() => "holds white space".to_owned(),
            _ if character.is_control() || is_invisible(character) || is_unusable(character) => {
                format!("holds the invisible character U+{:04X}", u32::from(character))
            }
            _ => continue,
        };
        return Err(RuleError::new(place, rule));
    }
    Ok(())
}

/// Checks the id of a workspace or of a tab: an id without `:`, because the wire names a tab
/// `<workspace>:<tab>` (N051).
pub(crate) fn check_part_id(place: &'static str, id: &str) -> Result<(), RuleError> {
    check_id(place, id)?;
    if id.contains(':') {
        return Err(RuleError::new(place, "holds `:`, which parts a workspace from its tab"));
    }
    Ok(())
}

/// Private use and non-characters: with the control and format characters, all of category C that
/// does not depend on the version of Unicode.
fn is_unusable(character: char) -> bool {
    let code = u32::from(character);
    matches!(code, 0xE000..=0xF8FF | 0xFDD0..=0xFDEF | 0xF_0000..=0x10_FFFF)
        || code & 0xFFFE == 0xFFFE
}

/// The id of the ask about one tool call: the first 32 hex digits of SHA-256 over the pane's id, a
/// NUL, and the tool call's id (N083). The same call, raised again after a restart, has the same id
/// (N084).
///
/// ```
/// let id = agent_presence::collie::ask_id_for("deploy", "deploy-1");
/// assert_eq!(id, "f5286b923e30e7081ee2a5464db467ec");
/// ```
pub fn ask_id_for(pane_id: &str, tool_call_id: &str) -> String {
    digest_hex(&[pane_id.as_bytes(), b"\0", tool_call_id.as_bytes()])
}

/// The first 32 hex digits of SHA-256 over `parts`, one after the other.
pub(crate) fn digest_hex(parts: &[&[u8]]) -> String {
    let mut sha = Sha256::new();
    for part in parts {
        sha.update(part);
    }
    sha.finalize()[..16].iter().fold(String::with_capacity(32), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n049_ids_hold_to_the_rule() {
        for good in ["a", "ticket-1", "ws:tab", "é", &"x".repeat(128)] {
            assert_eq!(check_id("pane id", good), Ok(()), "{good}");
        }
        for bad in ["", " ", "a b", "a/b", "a?b", "a#b", "a\nb", "a\u{7f}", "a\u{85}", "\u{a0}"] {
            assert!(check_id("pane id", bad).is_err(), "{bad:?}");
        }
        for bad in ["a\u{200b}", "\u{202e}x", "\u{feff}", "\u{e000}", "\u{fffe}", "\u{10ffff}"] {
            assert!(check_id("pane id", bad).is_err(), "{bad:?}");
        }
        let long = check_id("pane id", &"é".repeat(65)).unwrap_err();
        assert_eq!(long.to_string(), "pane id is 130 bytes long, at most 128 are allowed");
    }

    #[test]
    fn n050_a_bad_id_is_an_error_that_names_the_rule() {
        let error = check_id("ask id", "a b").unwrap_err();
        assert_eq!(error.to_string(), "ask id holds white space");
    }

    #[test]
    fn n051_parts_of_the_layout_hold_no_colon() {
        assert!(check_part_id("tab id", "a:b").is_err());
        assert!(check_part_id("tab id", "ab").is_ok());
    }

    #[test]
    fn n083_ask_ids_are_derived_from_both_ids() {
        assert_eq!(ask_id_for("deploy", "deploy-1"), "f5286b923e30e7081ee2a5464db467ec");
        assert_ne!(ask_id_for("a", "bc"), ask_id_for("ab", "c"));
    }
}
