//! Finds the escape sequences in a terminal's output, wherever it is cut, in bounded memory.
//!
//! It reads a copy. Text between sequences is skipped at the speed of memory; strings (DCS, APC, PM, SOS,
//! and OSC above the limit) are skipped without being kept.

use memchr::memchr3;

/// The longest OSC body that is kept: the whole of an OSC 7501 is at most 4096 bytes.
const OSC_LIMIT: usize = 4096;
/// The longest CSI that is kept. Real ones are far shorter.
const CSI_LIMIT: usize = 256;

const BEL: u8 = 0x07;
const SHIFT_OUT: u8 = 0x0e;
const SHIFT_IN: u8 = 0x0f;
const CANCEL: u8 = 0x18;
const SUBSTITUTE: u8 = 0x1a;
const ESC: u8 = 0x1b;

/// One sequence, whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sequence<'a> {
    /// `ESC [ body last`: parameters and intermediate bytes, and the byte that says what it is.
    Csi { body: &'a [u8], last: u8 },
    /// `ESC ] body`, ended by BEL (1 byte) or ST (2 bytes).
    Osc { body: &'a [u8], terminator: usize },
    /// `ESC intermediate last`; the intermediate byte is 0 where there is none.
    Escape { intermediate: u8, last: u8 },
    /// SO (`true`) or SI: the other character set.
    Shift { out: bool },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    Escape,
    /// After `ESC` and an intermediate byte.
    EscapeIntermediate(u8),
    Csi,
    Osc,
    /// In an OSC, after an ESC that may begin its end.
    OscEscape,
    /// In a DCS, APC, PM or SOS.
    String,
    StringEscape,
}

/// A parser, with whatever the last bytes left unfinished.
#[derive(Debug, Default)]
pub(super) struct Parser {
    state: State,
    kept: Vec<u8>,
    /// The sequence is longer than what is kept: it will not be told.
    too_long: bool,
}

impl Parser {
    /// Reads on, and tells each sequence that ends in `bytes`.
    pub(super) fn feed(&mut self, bytes: &[u8], mut tell: impl FnMut(Sequence<'_>)) {
        let mut rest = bytes;
        while let Some(&byte) = rest.first() {
            match self.state {
                State::Text => {
                    let Some(at) = memchr3(ESC, SHIFT_OUT, SHIFT_IN, rest) else {
                        return;
                    };
                    match rest[at] {
                        ESC => self.state = State::Escape,
                        shift => tell(Sequence::Shift { out: shift == SHIFT_OUT }),
                    }
                    rest = &rest[at + 1..];
                }
                State::Osc => {
                    let end = rest.iter().position(|&byte| ends_osc(byte));
                    self.keep(&rest[..end.unwrap_or(rest.len())], OSC_LIMIT);
                    let Some(end) = end else { return };
                    match rest[end] {
                        BEL => self.tell_osc(1, &mut tell),
                        ESC => self.state = State::OscEscape,
                        _ => self.state = State::Text,
                    }
                    rest = &rest[end + 1..];
                }
                State::String => {
                    let Some(end) = memchr3(ESC, CANCEL, SUBSTITUTE, rest) else {
                        return;
                    };
                    let escape = rest[end] == ESC;
                    self.state = if escape { State::StringEscape } else { State::Text };
                    rest = &rest[end + 1..];
                }
                _ => {
                    self.step(byte, &mut tell);
                    rest = &rest[1..];
                }
            }
        }
    }

    /// Whether the bytes so far end in the middle of a sequence.
    pub(super) fn is_inside(&self) -> bool {
        self.state != State::Text
    }

    fn step(&mut self, byte: u8, tell: &mut impl FnMut(Sequence<'_>)) {
        if byte == CANCEL || byte == SUBSTITUTE {
            self.state = State::Text;
            return;
        }
        match self.state {
            State::OscEscape if byte == b'\\' => self.tell_osc(2, tell),
            // A doubled ESC is how a program sends one through tmux, inside a string.
            State::StringEscape if byte == ESC => self.state = State::String,
            State::StringEscape if byte == b'\\' => self.state = State::Text,
            // Any other sequence ends the string that it is in, and counts itself.
            State::Escape | State::OscEscape | State::StringEscape => self.after_escape(byte, tell),
            State::EscapeIntermediate(intermediate) => match byte {
                ESC => self.state = State::Escape,
                b'0'..=b'~' => {
                    self.state = State::Text;
                    tell(Sequence::Escape { intermediate, last: byte });
                }
                _ => {}
            },
            State::Csi => match byte {
                ESC => self.state = State::Escape,
                b'@'..=b'~' => {
                    self.state = State::Text;
                    if !self.too_long {
                        tell(Sequence::Csi { body: &self.kept, last: byte });
                    }
                }
                b' '..=b'?' => self.keep(&[byte], CSI_LIMIT),
                // A control in the middle is carried out by the terminal, and the sequence goes on.
                _ => {}
            },
            State::Text | State::Osc | State::String => {}
        }
    }

    fn after_escape(&mut self, byte: u8, tell: &mut impl FnMut(Sequence<'_>)) {
        self.kept.clear();
        self.too_long = false;
        self.state = match byte {
            b'[' => State::Csi,
            b']' => State::Osc,
            b'P' | b'X' | b'^' | b'_' => State::String,
            b' '..=b'/' => State::EscapeIntermediate(byte),
            b'0'..=b'~' => {
                tell(Sequence::Escape { intermediate: 0, last: byte });
                State::Text
            }
            // A control after ESC is carried out and the ESC waits on; a second ESC begins anew.
            0..b' ' => State::Escape,
            _ => State::Text,
        };
    }

    fn keep(&mut self, bytes: &[u8], limit: usize) {
        let room = limit - self.kept.len().min(limit);
        self.too_long |= bytes.len() > room;
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn tell_osc(&mut self, terminator: usize, tell: &mut impl FnMut(Sequence<'_>)) {
        self.state = State::Text;
        if !self.too_long {
            tell(Sequence::Osc { body: &self.kept, terminator });
        }
    }
}

fn ends_osc(byte: u8) -> bool {
    matches!(byte, BEL | CANCEL | SUBSTITUTE | ESC)
}

/// The numbers of a CSI's body: `;` between them, what is absent is 0, and sub-parameters (`:`) are left
/// out.
pub(super) fn numbers(body: &[u8]) -> impl Iterator<Item = u16> {
    body.split(|&byte| byte == b';').map(|text| {
        let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0_u16, |number, digit| {
            number.saturating_mul(10).saturating_add(u16::from(digit - b'0'))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequences(chunks: &[&[u8]]) -> Vec<String> {
        let mut parser = Parser::default();
        let mut told = Vec::new();
        for chunk in chunks {
            parser.feed(chunk, |sequence| {
                told.push(match sequence {
                    Sequence::Csi { body, last } => {
                        format!("CSI {}{}", String::from_utf8_lossy(body), last as char)
                    }
                    Sequence::Osc { body, terminator } => {
                        format!("OSC {} ({terminator})", String::from_utf8_lossy(body))
                    }
                    Sequence::Escape { intermediate: 0, last } => format!("ESC {}", last as char),
                    Sequence::Escape { intermediate, last } => {
                        format!("ESC {}{}", intermediate as char, last as char)
                    }
                    Sequence::Shift { out } => format!("shift {out}"),
                });
            });
        }
        told
    }

    const EVERYTHING: &[u8] = b"text\x1b[?1049h\x1b]7501;state=idle\x07more\x0e\x1b(0\x0f\x1b]0;t\x1b\\\
        \x1bPq#0;2\x1b\x1b]7501;state=working\x07\x1b\x1b\\data\x1b\\\x1b_Gf=1;AAAA\x1b\\\x1b[1;\n2r\x1bc\
        \x1b]unfinished\x1b[5m\x1b[12\x18m\x1b]52;c;\x1aafter\x1b[0m";

    fn everything() -> Vec<&'static str> {
        vec![
            "CSI ?1049h",
            "OSC 7501;state=idle (1)",
            "shift true",
            "ESC (0",
            "shift false",
            "OSC 0;t (2)",
            "CSI 1;2r",
            "ESC c",
            "CSI 5m",
            "CSI 0m",
        ]
    }

    #[test]
    fn sequences_are_found_and_strings_are_skipped() {
        assert_eq!(sequences(&[EVERYTHING]), everything());
    }

    #[test]
    fn a_cut_at_any_byte_changes_nothing() {
        for at in 0..=EVERYTHING.len() {
            let (start, end) = EVERYTHING.split_at(at);
            assert_eq!(sequences(&[start, end]), everything(), "cut at {at}");
        }
        let bytes: Vec<&[u8]> = EVERYTHING.chunks(1).collect();
        assert_eq!(sequences(&bytes), everything(), "byte by byte");
    }

    proptest::proptest! {
        /// Mostly what sequences are made of, so that there are some.
        #[test]
        fn how_output_is_parted_changes_nothing(
            bytes in proptest::collection::vec(
                proptest::prop_oneof![
                    proptest::sample::select(&b"\x1b\x1b\x1b[]]P_\\\x07\x18\x1a\x0e?>;07hmu"[..]),
                    proptest::num::u8::ANY,
                ],
                0..200,
            ),
            parts in proptest::collection::vec(1_usize..20, 1..10),
        ) {
            let mut rest = &bytes[..];
            let mut chunks = Vec::new();
            for part in parts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (chunk, after) = rest.split_at((*part).min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            proptest::prop_assert_eq!(sequences(&chunks), sequences(&[&bytes]));
        }
    }

    #[test]
    fn memory_is_bounded_whatever_never_ends() {
        for start in [&b"\x1b]52;c;"[..], b"\x1bP", b"\x1b[", b"\x1b_G"] {
            let mut parser = Parser::default();
            let mut told = 0;
            parser.feed(start, |_| told += 1);
            let chunk = vec![b'1'; 1 << 20];
            for _ in 0..10 {
                parser.feed(&chunk, |_| told += 1);
            }
            assert!(parser.is_inside());
            assert!(parser.kept.capacity() <= 2 * OSC_LIMIT, "{}", parser.kept.capacity());
            parser.feed(b"\x1b\\\x07", |_| told += 1);
            assert_eq!(told, usize::from(start == b"\x1b["), "only the new ESC \\ counts");
        }
    }

    #[test]
    fn numbers_of_a_sequence() {
        assert_eq!(numbers(b"1;;38:2:5;99999999").collect::<Vec<_>>(), [1, 0, 38, u16::MAX]);
    }
}
