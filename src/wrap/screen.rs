//! What a person sees: the program's screen, emulated on a copy of its output.

use std::num::NonZeroU16;

use memchr::memchr3;

/// How many rows that scrolled off are kept: the chat's longest text at 80 columns.
const SCROLLBACK: usize = 400;
/// A terminal larger than this is not emulated as it is: 65535 by 65535 cells are 100 GB.
const SIDE_LIMIT: u16 = 1000;

/// The emulated screen.
pub struct Screen {
    parser: vt100::Parser<Bells>,
    strainer: Strainer,
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Screen").finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Bells(bool);

impl vt100::Callbacks for Bells {
    fn audible_bell(&mut self, _: &mut vt100::Screen) {
        self.0 = true;
    }
}

/// A row that looks like an agent's input line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Composer {
    /// Its row, from the top.
    pub row: u16,
    /// What is typed into it. A hint that is shown while it is empty is no text.
    pub text: String,
}

/// A place in the text, to read from later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(usize);

fn side(cells: u16) -> NonZeroU16 {
    NonZeroU16::new(cells.min(SIDE_LIMIT)).unwrap_or(NonZeroU16::MIN)
}

impl Screen {
    /// An empty screen.
    pub fn new(rows: u16, columns: u16) -> Self {
        let parser =
            vt100::Parser::new_with_callbacks(side(rows), side(columns), SCROLLBACK, Bells(false));
        Self { parser, strainer: Strainer::default() }
    }

    /// Shows output.
    pub fn feed(&mut self, bytes: &[u8]) {
        let parser = &mut self.parser;
        self.strainer.strain(bytes, |text| parser.process(text));
    }

    /// Forgets everything, because output in between was not seen.
    pub fn forget(&mut self, alternate: bool) {
        let (rows, columns) = self.parser.screen().size();
        *self = Self::new(rows.get(), columns.get());
        if alternate {
            self.feed(b"\x1b[?1049h");
        }
    }

    /// Takes the terminal's new size.
    pub fn resize(&mut self, rows: u16, columns: u16) {
        self.parser.set_size(side(rows), side(columns));
    }

    /// Whether the bell rang since the last call.
    pub fn rang(&mut self) -> bool {
        std::mem::take(&mut self.parser.callbacks_mut().0)
    }

    fn screen(&self) -> &vt100::Screen {
        self.parser.screen()
    }

    /// Whether the program has the full screen.
    pub fn is_alternate(&self) -> bool {
        self.screen().alternate_screen()
    }

    /// Whether the cursor is hidden.
    pub fn hides_cursor(&self) -> bool {
        self.screen().hide_cursor()
    }

    fn rows(&self) -> Vec<String> {
        let (_, columns) = self.screen().size();
        self.screen().rows(0, columns.get()).map(|row| row.trim_end().to_owned()).collect()
    }

    /// All that is seen, without empty rows at the end.
    pub fn text(&self) -> String {
        let mut rows = self.rows();
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        rows.join("\n")
    }

    /// The last rows that are not empty, in one line and without frames: so many of 80 columns, and more
    /// where the screen is narrower, so that neither the width nor how lines are wrapped matters.
    pub fn bottom(&self, count: usize) -> String {
        let (_, columns) = self.screen().size();
        let count = count * usize::from(80_u16.div_ceil(columns.get()));
        let rows = self.rows();
        let mut last: Vec<_> =
            rows.iter().map(|row| plain(row)).filter(|row| !row.is_empty()).collect();
        let rest = last.split_off(last.len().saturating_sub(count));
        rest.join(" ")
    }

    /// Everything without white space and frames: to find text however it is wrapped.
    pub fn squeezed(&self) -> String {
        squeeze(&self.rows().concat())
    }

    /// The row that the cursor is in, up to the cursor.
    pub fn before_cursor(&self) -> String {
        let (row, column) = self.screen().cursor_position();
        self.screen().rows(0, column).nth(usize::from(row)).unwrap_or_default()
    }

    /// Whether nothing comes after the cursor in its row.
    pub fn cursor_is_last(&self) -> bool {
        let (row, column) = self.screen().cursor_position();
        let (_, columns) = self.screen().size();
        let rest = columns.get().saturating_sub(column);
        self.screen()
            .rows(column, rest)
            .nth(usize::from(row))
            .is_none_or(|rest| rest.trim().is_empty())
    }

    /// The lowest row that begins with one of `marks`. A numbered choice is none, and with `ruled` it
    /// needs a rule above it: lists of choices mark the chosen one in the same way.
    pub fn composer(&self, marks: &[String], ruled: bool) -> Option<Composer> {
        let rows = self.rows();
        let found = rows.iter().enumerate().rev().find_map(|(at, row)| {
            let row_text = row.trim_start_matches(is_frame_or_space);
            let mark = marks.iter().find(|mark| row_text.starts_with(mark.as_str()))?;
            let after = row_text[mark.len()..].trim_start();
            let is_rule = |row: &String| {
                let line = row.trim();
                line.chars().count() > 2 && line.chars().all(|c| is_frame(c) || c == '-')
            };
            let choice = after.trim_start_matches(|c: char| c.is_ascii_digit());
            let is_choice = choice.len() < after.len() && choice.starts_with(['.', ')']);
            let fits = !is_choice && (!ruled || at > 0 && is_rule(&rows[at - 1]));
            fits.then(|| (at, mark.clone()))
        });
        let (at, mark) = found?;
        let row = u16::try_from(at).ok()?;
        Some(Composer { row, text: self.typed_text(row, &mark) })
    }

    /// The text of a row after `mark`, without what is dim or the drawn cursor: that is a hint.
    fn typed_text(&self, row: u16, mark: &str) -> String {
        let (_, columns) = self.screen().size();
        let cells = (0..columns.get()).filter_map(|column| self.screen().cell(row, column));
        let mut text = String::new();
        let mut after_mark = false;
        for cell in cells {
            if !after_mark {
                text.push_str(cell.contents());
                if text.ends_with(mark) {
                    after_mark = true;
                    text.clear();
                }
            } else if !cell.dim() && !cell.inverse() {
                text.push_str(if cell.has_contents() { cell.contents() } else { " " });
            }
        }
        plain(&text)
    }

    /// Marks the row of the cursor. What had scrolled off before is forgotten.
    pub fn mark(&mut self) -> Mark {
        self.parser.screen_mut().clear_scrollback();
        Mark(usize::from(self.screen().cursor_position().0))
    }

    /// The text since the mark, and whether some of it is lost because it was too much.
    pub fn since(&mut self, mark: Mark) -> (Vec<String>, bool) {
        let screen = self.parser.screen_mut();
        let (height, columns) = screen.size();
        let kept = screen.scrollback_len();
        let mut rows: Vec<(String, bool)> = Vec::with_capacity(kept + usize::from(height.get()));
        let mut offset = kept;
        loop {
            screen.set_scrollback(offset);
            let shown: Vec<_> = screen.rows(0, columns.get()).collect();
            let wanted = if offset == 0 { shown.len() } else { offset.min(shown.len()) };
            for (at, row) in shown.into_iter().take(wanted).enumerate() {
                let wrapped = u16::try_from(at).is_ok_and(|at| screen.row_wrapped(at));
                rows.push((row, wrapped));
            }
            if offset == 0 {
                break;
            }
            offset -= wanted;
        }
        let lost = kept >= screen.scrollback_capacity();
        let start = if lost { 0 } else { mark.0.min(rows.len()) };
        let mut lines = Vec::new();
        let mut line = String::new();
        for (row, wrapped) in rows.split_off(start) {
            line.push_str(&row);
            if !wrapped {
                lines.push(std::mem::take(&mut line).trim_end().to_owned());
            }
        }
        if !line.is_empty() {
            lines.push(line);
        }
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        (lines, lost)
    }
}

fn is_frame(character: char) -> bool {
    ('\u{2500}'..='\u{259f}').contains(&character)
}

fn is_frame_or_space(character: char) -> bool {
    character.is_whitespace() || is_frame(character)
}

/// A row without its frame.
fn plain(row: &str) -> String {
    row.trim_matches(is_frame_or_space).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Text without white space and frames.
pub fn squeeze(text: &str) -> String {
    text.chars().filter(|&character| !is_frame_or_space(character)).collect()
}

/// Leaves out the strings of escape sequences (OSC, DCS, APC and the like): the emulator has no use for
/// them, and would keep one that never ends.
#[derive(Debug, Default)]
struct Strainer {
    state: Straining,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Straining {
    #[default]
    Text,
    Escape,
    /// In an OSC, which a BEL ends, too.
    Osc,
    String,
    StringEscape,
}

impl Strainer {
    fn strain(&mut self, bytes: &[u8], mut show: impl FnMut(&[u8])) {
        let mut rest = bytes;
        while let Some(&byte) = rest.first() {
            match self.state {
                Straining::Text => {
                    let end = memchr::memchr(0x1b, rest).unwrap_or(rest.len());
                    show(&rest[..end]);
                    if end == rest.len() {
                        return;
                    }
                    self.state = Straining::Escape;
                    rest = &rest[end + 1..];
                }
                Straining::Escape => {
                    self.state = match byte {
                        b']' => Straining::Osc,
                        b'P' | b'X' | b'^' | b'_' => Straining::String,
                        0x1b => Straining::Escape,
                        _ => {
                            show(&[0x1b, byte]);
                            Straining::Text
                        }
                    };
                    rest = &rest[1..];
                }
                Straining::Osc => {
                    let end =
                        rest.iter().position(|byte| matches!(byte, 0x07 | 0x18 | 0x1a | 0x1b));
                    let Some(end) = end else { return };
                    let escape = rest[end] == 0x1b;
                    self.state = if escape { Straining::StringEscape } else { Straining::Text };
                    rest = &rest[end + 1..];
                }
                Straining::String => {
                    let Some(end) = memchr3(0x1b, 0x18, 0x1a, rest) else { return };
                    let escape = rest[end] == 0x1b;
                    self.state = if escape { Straining::StringEscape } else { Straining::Text };
                    rest = &rest[end + 1..];
                }
                // ST, or another sequence: both end the string.
                Straining::StringEscape if byte == b'\\' => {
                    self.state = Straining::Text;
                    rest = &rest[1..];
                }
                Straining::StringEscape => self.state = Straining::Escape,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(output: &str) -> Screen {
        let mut screen = Screen::new(10, 40);
        screen.feed(output.as_bytes());
        screen
    }

    fn strained(chunks: &[&[u8]]) -> Vec<u8> {
        let (mut strainer, mut text) = (Strainer::default(), Vec::new());
        for chunk in chunks {
            strainer.strain(chunk, |shown| text.extend_from_slice(shown));
        }
        text
    }

    const OUTPUT: &[u8] = b"a\x1b]0;title\x07b\x1b[1mc\x1bPq#0\x1b\\d\x1b_Gi=1;AA\x1b\\e\x1b]8;;x\x1b\\f\x1b]9;\x1b[0mg";

    #[test]
    fn strings_are_left_out_wherever_they_are_cut() {
        assert_eq!(strained(&[OUTPUT]), b"ab\x1b[1mcdef\x1b[0mg");
        for at in 0..=OUTPUT.len() {
            let (start, end) = OUTPUT.split_at(at);
            assert_eq!(strained(&[start, end]), strained(&[OUTPUT]), "cut at {at}");
        }
    }

    proptest::proptest! {
        /// No output ends the thread that reads it.
        #[test]
        fn any_output_is_shown(
            pieces in proptest::collection::vec(
                proptest::prop_oneof![
                    proptest::string::string_regex("\x1b\\[[0-9;?]{0,12}[@-~]").unwrap(),
                    proptest::string::string_regex("[ -~\r\n\t\u{8}\u{1100}\u{1f600}\u{301}]{0,12}").unwrap(),
                    proptest::string::string_regex("\x1b[ -~]").unwrap(),
                ],
                0..60,
            ),
            rows in 1_u16..12, columns in 1_u16..12,
        ) {
            let mut screen = Screen::new(rows, columns);
            let mark = screen.mark();
            for (at, piece) in pieces.iter().enumerate() {
                screen.feed(piece.as_bytes());
                if at % 7 == 3 {
                    screen.resize(columns, rows);
                }
            }
            let _ = (screen.since(mark), screen.text(), screen.bottom(3), screen.squeezed());
            let _ = (screen.before_cursor(), screen.cursor_is_last(), screen.composer(&[">".to_owned()], true));
        }
    }

    #[test]
    fn the_bottom_is_the_same_at_any_width() {
        let footer = "Press enter to confirm or esc to cancel";
        for columns in [12, 20, 40, 200] {
            let mut screen = Screen::new(30, columns);
            screen.feed(format!("some text\r\n\r\n{footer}\r\n\r\n").as_bytes());
            assert!(screen.squeezed().contains(&squeeze(footer)), "{columns}");
            assert!(squeeze(&screen.bottom(5)).contains(&squeeze(footer)), "{columns}");
        }
    }

    #[test]
    fn the_composer_is_found_and_a_choice_is_none() {
        let marks = ["❯".to_owned()];
        let rule = "─".repeat(40);
        let find = |output: &str| screen(output).composer(&marks, true).map(|found| found.text);
        assert_eq!(find(&format!("{rule}\r\n❯ fix it\r\n{rule}\r\n")), Some("fix it".to_owned()));
        assert_eq!(
            find(&format!("{rule}\r\n❯ \x1b[7mT\x1b[0;2mry this\x1b[0m\r\n")),
            Some(String::new())
        );
        assert_eq!(find("Proceed?\r\n❯ 1. Yes\r\n  2. No"), None);
        assert_eq!(find(&format!("{rule}\r\n❯ 1. Yes\r\n  2. No")), None);
        assert_eq!(find("Which?\r\n❯ No\r\n  Yes"), None);
        let framed = "╭──────╮\r\n│ > hi │\r\n╰──────╯";
        let found = screen(framed).composer(&[">".to_owned()], true);
        assert_eq!(found, Some(Composer { row: 1, text: "hi".to_owned() }));
    }

    #[test]
    fn text_since_a_mark_is_read_over_the_scrollback() {
        let mut screen = screen("before\r\n> go\r\n");
        let mark = screen.mark();
        for number in 0..30 {
            screen.feed(format!("line {number}\r\n").as_bytes());
        }
        screen.feed("x".repeat(100).as_bytes());
        let (lines, lost) = screen.since(mark);
        assert!(!lost);
        assert_eq!((lines.len(), lines[0].as_str(), lines[29].as_str()), (31, "line 0", "line 29"));
        assert_eq!(lines[30].len(), 100, "a wrapped line is one");
        for number in 0..500 {
            screen.feed(format!("more {number}\r\n").as_bytes());
        }
        let (lines, lost) = screen.since(mark);
        assert!(lost && lines.len() <= SCROLLBACK + 10);
        assert_eq!(lines.last().map(String::as_str), Some("more 499"));
    }

    #[test]
    fn a_frame_drawn_again_and_again_is_there_once() {
        let mut screen = screen("");
        let mark = screen.mark();
        for frame in ["⠋", "⠙", "⠹"] {
            screen.feed(format!("\r\x1b[K{frame} Working").as_bytes());
        }
        screen.feed(b"\r\x1b[KDone.\r\n");
        assert_eq!(screen.since(mark).0, ["Done."]);
    }
}
