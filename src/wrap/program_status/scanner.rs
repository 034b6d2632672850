//! Finds what concerns the protocol in a program's output.

use super::Report;
use crate::wrap::escape::{Parser, Sequence};

/// The longest sequence, its start and its end included.
const SEQUENCE_LIMIT: usize = 4096;

/// What a program's output said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A record is set or cleared.
    Report(Report),
    /// The program asks whether its terminal knows the protocol. The answer is the same sequence.
    Query,
    /// A shell drew its prompt (OSC 133 `A`): what ran before is over.
    ShellPrompt,
    /// The terminal is reset (RIS).
    Reset,
}

/// Finds the events in output that comes in pieces, wherever it is cut, in bounded memory. Text between
/// escape sequences and strings of other protocols are skipped.
#[derive(Debug, Default)]
pub struct Scanner(Parser);

impl Scanner {
    /// Reads on, and tells each event that ends in `bytes`.
    pub fn feed(&mut self, bytes: &[u8], mut tell: impl FnMut(Event)) {
        self.0.feed(bytes, |sequence| {
            if let Some(event) = event(sequence) {
                tell(event);
            }
        });
    }
}

/// What one escape sequence says.
pub(in crate::wrap) fn event(sequence: Sequence<'_>) -> Option<Event> {
    match sequence {
        Sequence::Escape { intermediate: 0, last: b'c' } => Some(Event::Reset),
        Sequence::Osc { body, terminator } => {
            if let Some(rest) = body.strip_prefix(b"133;A") {
                return (rest.is_empty() || rest[0] == b';').then_some(Event::ShellPrompt);
            }
            let text = body.strip_prefix(b"7501;")?;
            if text == b"?" {
                return Some(Event::Query);
            }
            let length = "\x1b]".len() + body.len() + terminator;
            (length <= SEQUENCE_LIMIT).then(|| Report::parse(text).map(Event::Report))?
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::strategy::Strategy as _;

    use super::*;

    fn events(chunks: &[&[u8]]) -> Vec<Event> {
        let mut scanner = Scanner::default();
        let mut events = Vec::new();
        for chunk in chunks {
            scanner.feed(chunk, |event| events.push(event));
        }
        events
    }

    const OUTPUT: &[u8] = b"\x1b]7501;?\x1b\\\x1b[c hello \x1b]7501;state=working:id=a/b\x07\
        \x1bPtmux;\x1b\x1b]7501;state=error\x07\x1b\\\x1b]133;A;k=s\x07\x1b]133;B\x07\x1b]7501;?\x07\x1bc";

    #[test]
    fn every_event_is_told_wherever_the_output_is_cut() {
        let whole = events(&[OUTPUT]);
        assert!(
            matches!(
                whole.as_slice(),
                [Event::Query, Event::Report(_), Event::ShellPrompt, Event::Query, Event::Reset]
            ),
            "{whole:?}"
        );
        for at in 0..OUTPUT.len() {
            let (start, end) = OUTPUT.split_at(at);
            assert_eq!(events(&[start, end]), whole, "cut at {at}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_output_says_the_same_in_any_pieces(
            pieces in proptest::collection::vec(
                proptest::prop_oneof![
                    proptest::sample::select(vec![
                        "\x1b", "]", "7501;", "?", "\x07", "\x1b\\", "state=idle", "133;A", "\x1bP", "\x1b[",
                        "\x18", ";", "\x1bc", "text",
                    ]).prop_map(|text| text.as_bytes().to_vec()),
                    proptest::collection::vec(proptest::num::u8::ANY, 0..4),
                ],
                0..40,
            )
        ) {
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            proptest::prop_assert_eq!(events(&pieces), events(&[&pieces.concat()]));
        }
    }

    #[test]
    fn a_sequence_of_4096_bytes_counts_and_a_longer_one_does_not() {
        for (terminator, ending) in [(1, "\x07"), (2, "\x1b\\")] {
            let start = "\x1b]7501;state=done:pad=";
            let padding = "x".repeat(4096 - start.len() - terminator);
            let fits = format!("{start}{padding}{ending}");
            assert_eq!(events(&[fits.as_bytes()]).len(), 1, "4096 bytes, ended by {terminator}");
            let long = format!("{start}x{padding}{ending}");
            assert_eq!(events(&[long.as_bytes()]), [], "4097 bytes, ended by {terminator}");
        }
    }
}
