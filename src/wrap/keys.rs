//! What the user's keys are, in the old and in the kitty encoding, wherever the bytes are cut.

/// The longest sequence that is kept. Real ones are far shorter.
const SEQUENCE_LIMIT: usize = 64;
/// The longest text of the user's that is kept, in bytes.
const LINE_LIMIT: usize = 16 * 1024;

const PASTE_BEGINS: &[u8] = b"200";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// One key, as far as it concerns us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// Text, one character at a time.
    Text(char),
    /// Text out of a paste, in which nothing is a command.
    Pasted(char),
    /// Return.
    Enter,
    /// Esc or Ctrl-C: what interrupts most agents.
    Interrupt,
    /// Backspace.
    Backspace,
    /// Ctrl-U.
    ClearLine,
    /// Ctrl-W.
    ClearWord,
    /// Another one, after which the line is not known any more: arrows, Tab, history.
    Edit,
    /// What a terminal says by itself: a report, the mouse, the focus.
    Report,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    Escape,
    Csi,
    /// After `ESC O`.
    Ss3,
    /// In a string that the terminal answers with.
    String,
    StringEscape,
    /// In the oldest form of a mouse report: so many bytes are left, which look like text.
    Mouse(u8),
    Paste,
}

/// Finds the keys in what comes from a terminal.
#[derive(Debug, Default)]
pub struct Keys {
    state: State,
    kept: Vec<u8>,
    /// The bytes of an unfinished character.
    character: Vec<u8>,
    /// How much of [`PASTE_ENDS`] was seen.
    ending: usize,
}

impl Keys {
    /// Reads on, and tells each key that ends in `bytes`.
    pub fn feed(&mut self, bytes: &[u8], mut tell: impl FnMut(Key)) {
        for &byte in bytes {
            self.step(byte, &mut tell);
        }
    }

    /// Nothing came for a moment: an ESC that was last is the key.
    pub fn flush(&mut self, mut tell: impl FnMut(Key)) {
        if self.state == State::Escape {
            self.state = State::Text;
            tell(Key::Interrupt);
        }
    }

    /// Whether [`Keys::flush`] has something to do.
    pub fn is_waiting(&self) -> bool {
        self.state == State::Escape
    }

    fn step(&mut self, byte: u8, tell: &mut impl FnMut(Key)) {
        match self.state {
            State::Text => self.text(byte, tell),
            State::Escape => {
                self.kept.clear();
                self.state = match byte {
                    b'[' => State::Csi,
                    b'O' => State::Ss3,
                    b']' | b'P' | b'_' | b'^' | b'X' => State::String,
                    0x1b => {
                        tell(Key::Interrupt);
                        State::Escape
                    }
                    // Alt and a key.
                    _ => {
                        tell(Key::Edit);
                        State::Text
                    }
                };
            }
            State::Ss3 => {
                self.state = State::Text;
                tell(if byte == b'M' { Key::Enter } else { Key::Edit });
            }
            State::Csi => match byte {
                b'@'..=b'~' => {
                    self.state = State::Text;
                    self.csi(byte, tell);
                }
                0x1b => self.state = State::Escape,
                _ if self.kept.len() < SEQUENCE_LIMIT => self.kept.push(byte),
                _ => {}
            },
            State::String => match byte {
                0x1b => self.state = State::StringEscape,
                0x07 => {
                    self.state = State::Text;
                    tell(Key::Report);
                }
                _ => {}
            },
            State::StringEscape => {
                self.state = if byte == b'\\' { State::Text } else { State::String };
                if byte == b'\\' {
                    tell(Key::Report);
                }
            }
            State::Mouse(left @ 2..) => self.state = State::Mouse(left - 1),
            State::Mouse(_) => {
                self.state = State::Text;
                tell(Key::Report);
            }
            State::Paste => self.paste(byte, tell),
        }
    }

    fn text(&mut self, byte: u8, tell: &mut impl FnMut(Key)) {
        match byte {
            0x1b => self.state = State::Escape,
            b'\r' | b'\n' => tell(Key::Enter),
            0x03 => tell(Key::Interrupt),
            0x08 | 0x7f => tell(Key::Backspace),
            0x15 => tell(Key::ClearLine),
            0x17 => tell(Key::ClearWord),
            0..0x20 => tell(Key::Edit),
            _ => {
                if let Some(character) = self.character(byte) {
                    tell(Key::Text(character));
                }
            }
        }
    }

    fn paste(&mut self, byte: u8, tell: &mut impl FnMut(Key)) {
        if byte == PASTE_ENDS[self.ending] {
            self.ending += 1;
            if self.ending == PASTE_ENDS.len() {
                self.ending = 0;
                self.state = State::Text;
            }
            return;
        }
        // What looked like the end was none. Its ESC is left out, the rest is text.
        for &held in &PASTE_ENDS[..self.ending] {
            if held != 0x1b {
                tell(Key::Pasted(held as char));
            }
        }
        self.ending = 0;
        match byte {
            0x1b => self.ending = 1,
            b'\r' | b'\n' => tell(Key::Pasted('\n')),
            b'\t' => tell(Key::Pasted('\t')),
            0..0x20 | 0x7f => {}
            _ => {
                if let Some(character) = self.character(byte) {
                    tell(Key::Pasted(character));
                }
            }
        }
    }

    /// The character that ends with this byte, in UTF-8.
    fn character(&mut self, byte: u8) -> Option<char> {
        if byte.is_ascii() || byte >= 0xc0 {
            self.character.clear();
        }
        self.character.push(byte);
        let whole = std::str::from_utf8(&self.character).ok().and_then(|text| text.chars().next());
        if whole.is_some() || self.character.len() >= 4 {
            self.character.clear();
        }
        whole
    }

    fn csi(&mut self, last: u8, tell: &mut impl FnMut(Key)) {
        let body = std::mem::take(&mut self.kept);
        match last {
            b'~' if body == PASTE_BEGINS => self.state = State::Paste,
            b'M' if body.is_empty() => self.state = State::Mouse(3),
            b'u' if !body.starts_with(b"?") => kitty(&body, tell),
            b'~' => modify_other_keys(&body, tell),
            // The answer where the cursor is. F3 with a modifier may look the same, and changes no line.
            b'R' if body.contains(&b';') => tell(Key::Report),
            b'A'..=b'H' | b'P'..=b'S' | b'Z' if !body.starts_with(b"?") => tell(Key::Edit),
            // Answers, the mouse, the focus.
            _ => tell(Key::Report),
        }
        self.kept = body;
        self.kept.clear();
    }
}

/// `CSI key[:shifted…] ; modifiers[:event] ; text u`.
fn kitty(body: &[u8], tell: &mut impl FnMut(Key)) {
    let mut fields = body.split(|&byte| byte == b';');
    let first = |field: Option<&[u8]>, at: usize| -> Option<u32> {
        let part = field?.split(|&byte| byte == b':').nth(at)?;
        std::str::from_utf8(part).ok()?.parse().ok()
    };
    let key = first(fields.next(), 0);
    let modifiers = fields.next();
    // 3: the key was let go.
    if first(modifiers, 1) == Some(3) {
        return tell(Key::Report);
    }
    tell(named(key, first(modifiers, 0).unwrap_or(1)));
}

/// `CSI 27 ; modifiers ; key ~`, and the keys that have a number of their own.
fn modify_other_keys(body: &[u8], tell: &mut impl FnMut(Key)) {
    let numbers: Vec<u32> = body
        .split(|&byte| byte == b';')
        .map(|part| std::str::from_utf8(part).ok().and_then(|text| text.parse().ok()).unwrap_or(0))
        .collect();
    tell(match numbers[..] {
        [27, modifiers, key] => named(Some(key), modifiers),
        _ => Key::Edit,
    });
}

fn named(key: Option<u32>, modifiers: u32) -> Key {
    let bits = modifiers.saturating_sub(1);
    // Caps lock and num lock are no modifiers here.
    let (plain, shifted) = (bits & !(64 | 128) == 0, bits & !(64 | 128) == 1);
    let control = bits & !(64 | 128) == 4;
    match key.and_then(char::from_u32) {
        Some('\u{1b}') if plain => Key::Interrupt,
        Some('c' | 'C') if control => Key::Interrupt,
        Some('u') if control => Key::ClearLine,
        Some('w') if control => Key::ClearWord,
        // 57414 is the keypad's.
        Some('\r' | '\u{e046}') if plain => Key::Enter,
        Some('\u{7f}' | '\u{8}') if plain => Key::Backspace,
        Some(character) if plain && !character.is_control() && !is_private(character) => {
            Key::Text(character)
        }
        Some(character) if shifted && !character.is_control() && !is_private(character) => {
            Key::Text(character.to_ascii_uppercase())
        }
        _ => Key::Edit,
    }
}

/// Kitty's numbers of keys without a character.
fn is_private(character: char) -> bool {
    ('\u{e000}'..='\u{f8ff}').contains(&character)
}

/// The line that the user types, as far as the keys tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    text: String,
    /// A key came that changes the line in a way that only the program knows.
    unknown: bool,
}

impl Line {
    /// Takes in a key. Enter and an interrupt are the caller's.
    pub fn apply(&mut self, key: &Key) {
        match key {
            Key::Text(character) | Key::Pasted(character) if self.text.len() < LINE_LIMIT => {
                self.text.push(*character);
            }
            Key::Backspace => _ = self.text.pop(),
            Key::ClearLine => *self = Self::default(),
            Key::ClearWord => {
                let kept = self.text.trim_end();
                let kept = kept.rfind(char::is_whitespace).map_or(0, |at| at + 1);
                self.text.truncate(kept);
            }
            Key::Edit => self.unknown = true,
            _ => {}
        }
    }

    /// Whether nothing was typed, as far as is known.
    pub fn is_empty(&self) -> bool {
        self.text.trim().is_empty() && !self.unknown
    }

    /// The text, if it is known for sure.
    pub fn text(&self) -> Option<&str> {
        Some(self.text.trim()).filter(|text| !self.unknown && !text.is_empty())
    }

    /// Begins anew.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(chunks: &[&[u8]]) -> Vec<Key> {
        let (mut keys, mut told) = (Keys::default(), Vec::new());
        for chunk in chunks {
            keys.feed(chunk, |key| told.push(key));
        }
        keys.flush(|key| told.push(key));
        told
    }

    #[test]
    fn interrupts_and_enter_in_every_encoding() {
        for interrupt in [
            "\x1b",
            "\x03",
            "\x1b[27u",
            "\x1b[27;1u",
            "\x1b[27;1:1u",
            "\x1b[27;1:2u",
            "\x1b[99;5u",
            "\x1b[99;5:1u",
            "\x1b[99:67;5u",
            "\x1b[99;69u",
            "\x1b[27;5;99~",
        ] {
            assert_eq!(keys(&[interrupt.as_bytes()]), [Key::Interrupt], "{interrupt:?}");
        }
        for enter in ["\r", "\n", "\x1b[13u", "\x1b[13;1:1u", "\x1bOM", "\x1b[57414u"] {
            assert_eq!(keys(&[enter.as_bytes()]), [Key::Enter], "{enter:?}");
        }
        // Let go, Shift+Enter, Alt+Enter, arrows, F-keys, and what a terminal says by itself.
        for other in [
            "\x1b[27;1:3u",
            "\x1b[13;2u",
            "\x1b\r",
            "\x1b[A",
            "\x1bOP",
            "\x1b[3~",
            "\x1b[?62;4c",
            "\x1b[I",
            "\x1b[<35;10;20M",
            "\x1b]11;rgb:0/0/0\x07",
            "\x1b]11;rgb:0/0/0\x1b\\",
            "\x1bP1+r\x1b\\",
            "\x1b[?5u",
        ] {
            let told = keys(&[other.as_bytes()]);
            assert!(matches!(told[..], [Key::Edit | Key::Report]), "{other:?} is {told:?}");
        }
    }

    /// OpenCode asks three times where the cursor is before it draws anything: to take the answers for keys
    /// would be a user who types for ever.
    #[test]
    fn what_a_terminal_answers_is_no_key() {
        let answers = b"\x1bP>|tmux 3.3a\x1b\\\x1b[1;1R\x1b[24;80R\x1b[?1;1R\x1b[?1016;2$y\x1b[4;9;9t\x1b[?0u";
        assert_eq!(keys(&[answers]), vec![Key::Report; 7]);
        assert_eq!(keys(&[b"\x1b[M !!\x1b[<0;1;1M\x1b[M#\xff\x03x"])[..3], vec![Key::Report; 3]);
        assert_eq!(keys(&[b"\x1b[M !!x"]), [Key::Report, Key::Text('x')]);
    }

    #[test]
    fn nothing_between_paste_brackets_is_a_key() {
        let told = keys(&[b"\x1b[200~a\x1b\x03\x1ab\rc\x1b[27u\x1b[201~\r"]);
        let text: String = told
            .iter()
            .filter_map(
                |key| if let Key::Pasted(character) = key { Some(*character) } else { None },
            )
            .collect();
        assert_eq!(text, "ab\nc[27u");
        assert_eq!(told.last(), Some(&Key::Enter));
        assert_eq!(told.iter().filter(|key| !matches!(key, Key::Pasted(_))).count(), 1);
    }

    const ALL: &[u8] =
        "hé\x1b[27uj\x1b[200~p\x1b[20\x1b[201~\r\x1b[99;5u\x1bOA\x1b]11;x\x1b\\ok\x7f".as_bytes();

    #[test]
    fn a_cut_at_any_byte_changes_nothing() {
        let whole = keys(&[ALL]);
        assert!(whole.contains(&Key::Text('é')) && whole.contains(&Key::Interrupt), "{whole:?}");
        for at in 0..=ALL.len() {
            let (start, end) = ALL.split_at(at);
            assert_eq!(keys(&[start, end]), whole, "cut at {at}");
        }
        assert_eq!(keys(&ALL.chunks(1).collect::<Vec<_>>()), whole);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_the_same_keys_in_any_pieces(
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..64), at in 0_usize..64,
        ) {
            let (start, end) = bytes.split_at(at.min(bytes.len()));
            proptest::prop_assert_eq!(keys(&[start, end]), keys(&[&bytes]));
        }
    }

    #[test]
    fn memory_is_bounded() {
        for start in [&b"\x1b["[..], b"\x1b]", b"\x1b[200~"] {
            let mut keys = Keys::default();
            keys.feed(start, |_| {});
            keys.feed(&vec![b'1'; 1 << 20], |_| {});
            assert!(keys.kept.capacity() <= 2 * SEQUENCE_LIMIT);
            assert!(keys.character.capacity() <= 16);
        }
        let mut line = Line::default();
        (0..1 << 20).for_each(|_| line.apply(&Key::Text('x')));
        assert!(line.text.len() <= LINE_LIMIT + 4);
    }

    #[test]
    fn the_line_follows_the_keys() {
        let line = |bytes: &[u8]| {
            let mut line = Line::default();
            for key in keys(&[bytes]) {
                line.apply(&key);
            }
            line
        };
        assert_eq!(line(b"fix it\x7f\x7fthat").text(), Some("fix that"));
        assert_eq!(line(b"one two\x17three").text(), Some("one three"));
        assert_eq!(line(b"one\x15two").text(), Some("two"));
        assert_eq!(line(b"\x1b[A").text(), None, "out of the history");
        assert!(!line(b"\x1b[A").is_empty());
        assert!(line(b"  ").is_empty() && line(b"").is_empty() && line(b"x\x7f").is_empty());
    }
}
