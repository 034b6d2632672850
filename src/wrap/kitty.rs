//! The kitty keyboard protocol's flags: how the program wants its keys.

use super::escape::{Sequence, numbers};

/// Terminals keep no more, either.
const DEPTH_LIMIT: usize = 16;

/// The flags of both screens.
#[derive(Debug, Default)]
pub(super) struct Kitty {
    main: Flags,
    alternate: Flags,
}

#[derive(Debug, Default)]
struct Flags {
    now: u16,
    pushed: Vec<u16>,
}

impl Kitty {
    /// Takes in a sequence that went to the terminal.
    pub(super) fn apply(&mut self, sequence: Sequence<'_>, alternate: bool) {
        let (body, last) = match sequence {
            Sequence::Csi { body, last } => (body, last),
            Sequence::Escape { intermediate: 0, last: b'c' } => return *self = Self::default(),
            _ => return,
        };
        let flags = if alternate { &mut self.alternate } else { &mut self.main };
        let (Some((first, body)), b'u') = (body.split_first(), last) else { return };
        let mut numbers = numbers(body);
        let number = numbers.next().unwrap_or(0);
        match first {
            b'>' => {
                if flags.pushed.len() == DEPTH_LIMIT {
                    flags.pushed.remove(0);
                }
                flags.pushed.push(flags.now);
                flags.now = number;
            }
            b'<' => {
                for _ in 0..number.clamp(1, 16) {
                    flags.now = flags.pushed.pop().unwrap_or(0);
                }
            }
            b'=' => match numbers.next().unwrap_or(1) {
                2 => flags.now |= number,
                3 => flags.now &= !number,
                _ => flags.now = number,
            },
            _ => {}
        }
    }

    /// The flags in force.
    pub(super) fn flags(&self, alternate: bool) -> u16 {
        if alternate { self.alternate.now } else { self.main.now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wrap::escape::Parser;

    #[test]
    fn the_flags_follow_the_stack_of_each_screen() {
        let flags = |output: &str| {
            let (mut parser, mut kitty) = (Parser::default(), Kitty::default());
            parser.feed(output.as_bytes(), |sequence| kitty.apply(sequence, false));
            (kitty.flags(false), kitty.flags(true))
        };
        assert_eq!(flags("\x1b[>5u"), (5, 0));
        assert_eq!(flags("\x1b[>5u\x1b[>7u\x1b[<u"), (5, 0));
        assert_eq!(flags("\x1b[>5u\x1b[>7u\x1b[<9u"), (0, 0));
        assert_eq!(flags("\x1b[=1u\x1b[=8;2u\x1b[=1;3u"), (8, 0));
        assert_eq!(flags("\x1b[>5u\x1bc\x1b[?u"), (0, 0));
        assert_eq!(flags(&"\x1b[>1u".repeat(100_000)), (1, 0), "bounded");
    }
}
