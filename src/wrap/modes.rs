//! What a program has armed in the terminal, so that exactly that can be undone when it dies without
//! doing so itself.
//!
//! All of it is one word, because it is kept where the guardian can read it after our own death.

use super::escape::{Sequence, numbers};
use super::program_status::{self, Event, Report};

/// DEC private modes that a program can leave behind, and whether a terminal has them on by itself.
/// In the order in which they are undone: the screen freezes with 2026 on, so that goes first.
const PRIVATE: [(u16, bool); 27] = [
    (2026, false), // synchronized output
    (1000, false), // mouse: buttons
    (1001, false),
    (1002, false), // drags
    (1003, false), // moves
    (1005, false), // mouse encodings
    (1006, false),
    (1015, false),
    (1016, false),
    (1004, false), // focus
    (1007, false), // wheel as arrow keys
    (2004, false), // bracketed paste
    (2027, false), // grapheme clusters
    (2031, false), // colour scheme reports
    (2048, false), // size reports
    (1, false),    // application cursor keys
    (5, false),    // reverse video
    (6, false),    // origin
    (7, true),     // wrapping
    (9, false),    // mouse, the oldest form
    (45, false),   // reverse wrapping
    (66, false),   // application keypad
    (69, false),   // left and right margins
    (25, true),    // the cursor
    (47, false),   // the alternate screen, in three forms
    (1047, false),
    (1049, false),
];

/// What else one bit says.
#[derive(Clone, Copy)]
enum Flag {
    Insert = 27,
    Keypad,
    CharacterSet,
    ShiftOut,
    ScrollRegion,
    CursorStyle,
    Rendition,
    ModifyOtherKeys,
    KittyFlagsMain,
    KittyFlagsAlternate,
    Hyperlink,
    Foreground,
    Background,
    CursorColour,
    Palette,
    Progress,
    Status,
    /// The output stopped in the middle of a sequence.
    Inside,
}

const _: () = assert!(PRIVATE.len() == Flag::Insert as usize, "the flags begin after the modes");

/// Three counters of four bits above the flags.
const KITTY_MAIN: u32 = 48;
const KITTY_ALTERNATE: u32 = 52;
const TITLES: u32 = 56;
const COUNTER: u64 = 0xf;

/// What differs from a terminal that nobody has touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Modes(u64);

impl Modes {
    pub(super) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }

    /// Takes in a sequence that went to the terminal.
    pub(super) fn apply(&mut self, sequence: Sequence<'_>) {
        match sequence {
            Sequence::Csi { body, last } => self.apply_csi(body, last),
            Sequence::Osc { body, .. } => self.apply_osc(sequence, body),
            Sequence::Escape { intermediate: 0, last: b'c' } => *self = Self::default(),
            Sequence::Escape { intermediate: 0, last: last @ (b'=' | b'>') } => {
                self.set(Flag::Keypad, last == b'=');
            }
            Sequence::Escape { intermediate: b'(', last } => {
                self.set(Flag::CharacterSet, last != b'B');
            }
            Sequence::Escape { .. } => {}
            Sequence::Shift { out } => self.set(Flag::ShiftOut, out),
        }
    }

    /// Takes in that the output so far ends in the middle of a sequence, or that it does not.
    pub(super) fn set_inside(&mut self, inside: bool) {
        self.set(Flag::Inside, inside);
    }

    /// What to send to the terminal to undo it all; empty when there is nothing to undo.
    pub(super) fn undo(self) -> Vec<u8> {
        let mut undo = Vec::new();
        if self.has(Flag::Inside) {
            // CAN drops what was begun; where it does not, ST ends it.
            undo.extend(b"\x18\x1b\\");
        }
        self.undo_kitty(self.is_alternate(), &mut undo);
        for (bit, (mode, on)) in PRIVATE.into_iter().enumerate() {
            if self.0 & (1 << bit) != 0 {
                undo.extend(format!("\x1b[?{mode}{}", if on { 'h' } else { 'l' }).bytes());
            }
        }
        if self.is_alternate() {
            self.undo_kitty(false, &mut undo);
        }
        for (flag, sequence) in [
            (Flag::Insert, "\x1b[4l"),
            (Flag::Keypad, "\x1b>"),
            (Flag::CharacterSet, "\x1b(B"),
            (Flag::ShiftOut, "\x0f"),
            // The whole screen scrolls again; the cursor, which this would send home, stays.
            (Flag::ScrollRegion, "\x1b7\x1b[r\x1b8"),
            (Flag::CursorStyle, "\x1b[0 q"),
            (Flag::Rendition, "\x1b[m"),
            (Flag::ModifyOtherKeys, "\x1b[>4;0m"),
            (Flag::Hyperlink, "\x1b]8;;\x1b\\"),
            (Flag::Foreground, "\x1b]110\x1b\\"),
            (Flag::Background, "\x1b]111\x1b\\"),
            (Flag::CursorColour, "\x1b]112\x1b\\"),
            (Flag::Palette, "\x1b]104\x1b\\"),
            (Flag::Progress, "\x1b]9;4;0\x1b\\"),
            (Flag::Status, "\x1b]7501;state=clear\x1b\\"),
        ] {
            if self.has(flag) {
                undo.extend(sequence.bytes());
            }
        }
        for _ in 0..self.count(TITLES) {
            undo.extend(b"\x1b[23;0t");
        }
        undo
    }

    fn undo_kitty(self, alternate: bool, undo: &mut Vec<u8>) {
        let (flags, counter) = kitty(alternate);
        if self.count(counter) > 0 {
            undo.extend(format!("\x1b[<{}u", self.count(counter)).bytes());
        }
        if self.has(flags) {
            undo.extend(b"\x1b[=0u");
        }
    }

    fn apply_csi(&mut self, body: &[u8], last: u8) {
        match (body.split_first(), last) {
            (Some((b'?', body)), b'h' | b'l') => {
                for mode in numbers(body) {
                    self.set_private(mode, last == b'h');
                }
            }
            (Some((b'>', body)), b'm') => {
                let mut numbers = numbers(body);
                if numbers.next() == Some(4) {
                    self.set(Flag::ModifyOtherKeys, numbers.next().unwrap_or(0) != 0);
                }
            }
            (Some((b'>', _)), b'u') => {
                let (_, counter) = kitty(self.is_alternate());
                self.change(counter, |depth| depth + 1);
            }
            (Some((b'<', body)), b'u') => {
                let count = numbers(body).next().unwrap_or(0).max(1);
                let (_, counter) = kitty(self.is_alternate());
                self.change(counter, |depth| depth.saturating_sub(u64::from(count)));
            }
            (Some((b'=', body)), b'u') => {
                let (flags, _) = kitty(self.is_alternate());
                // With a second number of 3 the given flags are taken away instead.
                let mut numbers = numbers(body);
                let (given, how) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(1));
                self.set(flags, given != 0 && how != 3);
            }
            (Some((b'!', [])), b'p') => self.soft_reset(),
            (_, b'q') => {
                if let Some(body) = body.strip_suffix(b" ") {
                    self.set(Flag::CursorStyle, numbers(body).next().unwrap_or(0) != 0);
                }
            }
            // What is left has numbers only: another first byte is another sequence.
            (Some((first, _)), _) if !first.is_ascii_digit() && *first != b';' => {}
            (_, b'h' | b'l') if numbers(body).any(|mode| mode == 4) => {
                self.set(Flag::Insert, last == b'h');
            }
            (_, b'm') => self.set(Flag::Rendition, !matches!(body, b"" | b"0")),
            (_, b'r') => self.set(Flag::ScrollRegion, !body.is_empty()),
            (_, b't') => match numbers(body).next() {
                Some(22) => self.change(TITLES, |depth| depth + 1),
                Some(23) => self.change(TITLES, |depth| depth.saturating_sub(1)),
                _ => {}
            },
            _ => {}
        }
    }

    fn apply_osc(&mut self, sequence: Sequence<'_>, body: &[u8]) {
        let (number, text) = match memchr::memchr(b';', body) {
            Some(at) => (&body[..at], &body[at + 1..]),
            None => (body, &b""[..]),
        };
        let asks = text.ends_with(b"?");
        match number {
            b"4" if !asks => self.set(Flag::Palette, true),
            b"8" => self.set(
                Flag::Hyperlink,
                memchr::memchr(b';', text).is_some_and(|at| at + 1 < text.len()),
            ),
            b"9" if text.starts_with(b"4;") => self.set(Flag::Progress, !text.starts_with(b"4;0")),
            b"10" if !asks => self.set(Flag::Foreground, true),
            b"11" if !asks => self.set(Flag::Background, true),
            b"12" if !asks => self.set(Flag::CursorColour, true),
            b"104" if text.is_empty() => self.set(Flag::Palette, false),
            b"110" => self.set(Flag::Foreground, false),
            b"111" => self.set(Flag::Background, false),
            b"112" => self.set(Flag::CursorColour, false),
            b"7501" => match program_status::event(sequence) {
                Some(Event::Report(Report::Set { .. })) => self.set(Flag::Status, true),
                Some(Event::Report(Report::Clear { id })) if id.is_empty() => {
                    self.set(Flag::Status, false);
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn soft_reset(&mut self) {
        for mode in [1, 6, 7, 25, 66, 69] {
            let on = PRIVATE.iter().any(|&(number, on)| number == mode && on);
            self.set_private(mode, on);
        }
        for flag in [
            Flag::Insert,
            Flag::Keypad,
            Flag::CharacterSet,
            Flag::ShiftOut,
            Flag::ScrollRegion,
            Flag::Rendition,
        ] {
            self.set(flag, false);
        }
    }

    fn set_private(&mut self, mode: u16, on: bool) {
        for (bit, (number, usual)) in PRIVATE.into_iter().enumerate() {
            if number == mode {
                self.set_bit(1 << bit, on != usual);
            }
        }
    }

    /// Whether pasted text is to be put into brackets.
    pub(super) fn has_bracketed_paste(self) -> bool {
        PRIVATE.iter().enumerate().any(|(bit, (mode, _))| *mode == 2004 && self.0 & (1 << bit) != 0)
    }

    pub(super) fn is_alternate(self) -> bool {
        PRIVATE
            .iter()
            .enumerate()
            .any(|(bit, (mode, _))| matches!(mode, 47 | 1047 | 1049) && self.0 & (1 << bit) != 0)
    }

    fn has(self, flag: Flag) -> bool {
        self.0 & (1 << flag as u32) != 0
    }

    fn set(&mut self, flag: Flag, on: bool) {
        self.set_bit(1 << flag as u32, on);
    }

    fn set_bit(&mut self, bit: u64, on: bool) {
        self.0 = if on { self.0 | bit } else { self.0 & !bit };
    }

    fn count(self, counter: u32) -> u64 {
        (self.0 >> counter) & COUNTER
    }

    fn change(&mut self, counter: u32, change: impl FnOnce(u64) -> u64) {
        let count = change(self.count(counter)).min(COUNTER);
        self.0 = (self.0 & !(COUNTER << counter)) | (count << counter);
    }
}

/// The kitty keyboard protocol's flags and stack, of which each screen has its own.
fn kitty(alternate: bool) -> (Flag, u32) {
    if alternate {
        (Flag::KittyFlagsAlternate, KITTY_ALTERNATE)
    } else {
        (Flag::KittyFlagsMain, KITTY_MAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wrap::escape::Parser;

    fn after(output: &str) -> Modes {
        let (mut parser, mut modes) = (Parser::default(), Modes::default());
        parser.feed(output.as_bytes(), |sequence| modes.apply(sequence));
        modes.set_inside(parser.is_inside());
        modes
    }

    fn undo(output: &str) -> String {
        String::from_utf8(after(output).undo()).expect("plain text")
    }

    #[test]
    fn the_flags_fit_below_the_counters() {
        assert!((Flag::Inside as u32) < KITTY_MAIN);
    }

    #[test]
    fn each_thing_armed_is_undone_and_nothing_else() {
        for (armed, expected) in [
            ("plain \x1b[2J\x1b[H\x1b[1A text", ""),
            ("\x1b[?1049h", "\x1b[?1049l"),
            ("\x1b[?1000;1006;2004h", "\x1b[?1000l\x1b[?1006l\x1b[?2004l"),
            ("\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h"),
            ("\x1b[>1u\x1b[>7u", "\x1b[<2u"),
            ("\x1b[>1u\x1b[?1049h\x1b[>7u", "\x1b[<1u\x1b[?1049l\x1b[<1u"),
            ("\x1b[=5u", "\x1b[=0u"),
            ("\x1b[>4;2m", "\x1b[>4;0m"),
            ("\x1b[3;40r", "\x1b7\x1b[r\x1b8"),
            ("\x1b[1;31mred", "\x1b[m"),
            ("\x1b[5 q", "\x1b[0 q"),
            ("\x1b(0\x0e", "\x1b(B\x0f"),
            ("\x1b=\x1b[4h", "\x1b[4l\x1b>"),
            ("\x1b[22;0t", "\x1b[23;0t"),
            ("\x1b]8;;http://x\x1b\\link", "\x1b]8;;\x1b\\"),
            ("\x1b]11;#000000\x07", "\x1b]111\x1b\\"),
            ("\x1b]9;4;1;50\x07", "\x1b]9;4;0\x1b\\"),
            ("\x1b]7501;state=working\x07", "\x1b]7501;state=clear\x1b\\"),
            ("\x1b]52;c;AAAA", "\x18\x1b\\"),
        ] {
            assert_eq!(undo(armed), expected, "after {armed:?}");
        }
    }

    #[test]
    fn what_the_program_undid_itself_is_left_alone() {
        let cleaned = "\x1b[?1049;2004;1003h\x1b[?25l\x1b[>1u\x1b[>4;2m\x1b[2;9r\x1b[7m\x1b(0\x0e\x1b[22t\
            \x1b[=1u\x1b]8;;u\x07\x1b]12;red\x07\x1b]9;4;3\x07\x1b]7501;state=idle\x07\
            \x1b[23t\x1b[<u\x1b[=0u\x1b[>4m\x1b[r\x1b[0m\x1b(B\x0f\x1b]8;;\x07\x1b]112\x07\x1b]9;4;0\x07\
            \x1b]7501;state=clear\x07\x1b[?25h\x1b[?1049;2004;1003l";
        // The kitty flags were armed on the alternate screen and undone on it.
        assert_eq!(undo(cleaned), "");
        assert_eq!(undo("\x1b[?1049h\x1b[>1u\x1b[1;2r\x1bc"), "", "after a reset");
        assert_eq!(undo("\x1b[?25l\x1b[7m\x1b[2;9r\x1b[!p"), "", "after a soft reset");
    }

    #[test]
    fn questions_and_other_sequences_arm_nothing() {
        let questions = "\x1b[c\x1b[>c\x1b[>0q\x1b[?u\x1b[?2026$p\x1b[6n\x1b]10;?\x07\x1b]11;?\x07\x1b]4;1;?\x07\
            \x1b]7501;?\x07\x1b[18t\x1b[?1049$p\x1b[>4;1p";
        assert_eq!(undo(questions), "");
    }

    #[test]
    fn the_bits_hold_everything() {
        let modes = after("\x1b[?1049h\x1b[>1u\x1b[22t");
        assert_eq!(Modes::from_bits(modes.bits()).undo(), modes.undo());
    }
}
