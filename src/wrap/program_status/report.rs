//! One report, as the protocol writes it.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

const APP_LIMIT: usize = 32;
const SEGMENT_LIMIT: usize = 32;
const DEPTH_LIMIT: usize = 8;
const ID_LIMIT: usize = 128;
const TITLE_LIMIT: usize = 192;
const MESSAGE_LIMIT: usize = 2048;
const KEY_LIMIT: usize = 16;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What a program says that it is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Nothing.
    Idle,
    /// Finished, and nobody has looked yet.
    Done,
    /// Something.
    Working,
    /// Nothing more: it failed.
    Error,
    /// It waits for the user.
    Blocked,
}

/// What a blocked program waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Leave to do something.
    Permission,
    /// An answer.
    Question,
    /// A login.
    Auth,
}

/// What is known of a program, or of a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it is doing.
    pub state: State,
    /// What it waits for, with [`State::Blocked`] only.
    pub kind: Option<Kind>,
    /// Per cent done, 0 to 100, with [`State::Working`] and [`State::Blocked`] only.
    pub progress: Option<u8>,
    /// The program's name, at most 32 bytes.
    pub app: Option<String>,
    /// What it works on, at most 192 bytes.
    pub title: Option<String>,
    /// What it has to say, at most 2048 bytes.
    pub message: Option<String>,
}

/// One report. The id is a path with `/` between its segments, and empty for the program as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// The record and all below it are gone; all records with an empty id.
    Clear {
        /// Which record.
        id: String,
    },
    /// The record is now this one, whole.
    Set {
        /// Which record.
        id: String,
        /// What it says.
        record: Record,
    },
}

impl Report {
    /// Reads the `key=value:key=value…` of a report. `None`: the protocol says to ignore it.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let mut fields = Fields::default();
        for pair in text.split(|&byte| byte == b':') {
            fields.read(pair)?;
        }
        let id = match fields.id {
            None => String::new(),
            Some(id) => parse_id(id)?,
        };
        let state = match fields.state? {
            b"clear" => return Some(Self::Clear { id }),
            b"idle" => State::Idle,
            b"done" => State::Done,
            b"working" => State::Working,
            b"error" => State::Error,
            b"blocked" => State::Blocked,
            _ => return None,
        };
        let kind = fields.kind.filter(|_| state == State::Blocked).and_then(parse_kind);
        let shows_progress = matches!(state, State::Working | State::Blocked);
        let progress = fields.progress.filter(|_| shows_progress).and_then(parse_progress);
        let app = fields.app.and_then(parse_segment);
        let record =
            Record { state, kind, progress, app, title: fields.title, message: fields.message };
        Some(Self::Set { id, record })
    }
}

/// The last of each key.
#[derive(Debug, Default)]
struct Fields<'a> {
    state: Option<&'a [u8]>,
    id: Option<&'a [u8]>,
    kind: Option<&'a [u8]>,
    progress: Option<&'a [u8]>,
    app: Option<&'a [u8]>,
    title: Option<String>,
    message: Option<String>,
}

impl<'a> Fields<'a> {
    /// `None`: the pair spoils the whole report, whatever else it says.
    fn read(&mut self, pair: &'a [u8]) -> Option<()> {
        let Some(equals) = memchr::memchr(b'=', pair) else {
            return Some(());
        };
        let (key, value) = (pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii());
        if key.len() > KEY_LIMIT {
            return Some(());
        }
        match key {
            b"state" => self.state = Some(value),
            b"id" => self.id = Some(value),
            b"kind" => self.kind = Some(value),
            b"progress" => self.progress = Some(value),
            b"app" if value.len() > APP_LIMIT => return None,
            b"app" => self.app = Some(value),
            b"title" => self.title = parse_text(value, TITLE_LIMIT)?,
            b"msg" => self.message = parse_text(value, MESSAGE_LIMIT)?,
            _ => {}
        }
        Some(())
    }
}

fn parse_id(id: &[u8]) -> Option<String> {
    let segments = id.split(|&byte| byte == b'/');
    let fits = id.len() <= ID_LIMIT && segments.clone().count() <= DEPTH_LIMIT;
    if !fits || !segments.clone().all(|segment| parse_segment(segment).is_some()) {
        return None;
    }
    String::from_utf8(id.to_vec()).ok()
}

fn parse_segment(segment: &[u8]) -> Option<String> {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.+-".contains(byte);
    let fits = (1..=SEGMENT_LIMIT).contains(&segment.len()) && segment.iter().all(allowed);
    fits.then(|| String::from_utf8(segment.to_vec()).ok())?
}

fn parse_kind(kind: &[u8]) -> Option<Kind> {
    match kind {
        b"permission" => Some(Kind::Permission),
        b"question" => Some(Kind::Question),
        b"auth" => Some(Kind::Auth),
        _ => None,
    }
}

fn parse_progress(progress: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(progress).ok()?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|&number| plain && number <= 100)
}

/// The outer `None`: it spoils the report. The inner one: there is no text.
#[expect(clippy::option_option, reason = "two different kinds of nothing, told apart on the spot")]
fn parse_text(base64: &[u8], limit: usize) -> Option<Option<String>> {
    let bytes = BASE64.decode(base64).ok().filter(|bytes| bytes.len() <= limit)?;
    let text = String::from_utf8(bytes).ok()?;
    if text.contains(char::is_control) {
        return None;
    }
    Some(Some(text).filter(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(text: &str) -> Option<Record> {
        match Report::parse(text.as_bytes())? {
            Report::Set { record, .. } => Some(record),
            Report::Clear { .. } => None,
        }
    }

    fn encode(text: &str) -> String {
        BASE64.encode(text)
    }

    #[test]
    fn a_full_report() {
        let text = format!(
            " state = blocked :kind=question:progress=7:app=pi:title={}:msg={}:junk:later=x",
            encode("Fix it"),
            encode("Which colour?").trim_end_matches('='),
        );
        let expected = Record {
            state: State::Blocked,
            kind: Some(Kind::Question),
            progress: Some(7),
            app: Some("pi".to_owned()),
            title: Some("Fix it".to_owned()),
            message: Some("Which colour?".to_owned()),
        };
        assert_eq!(record(&text), Some(expected));
    }

    #[test]
    fn a_report_without_a_known_state_or_with_a_bad_id_is_ignored() {
        let long = "a".repeat(33);
        let deep = ["a"; 9].join("/");
        let wide = [long[1..].to_owned().as_str(); 4].join("/");
        for bad in [
            "",
            "?x",
            "msg=aGk",
            "state=resting",
            "state=idle:state=nap",
            "State=idle",
            "state=idle:id=",
            "state=idle:id=/a",
            "state=idle:id=a//b",
            "state=idle:id=a b",
            &format!("state=idle:id={long}"),
            &format!("state=clear:id={deep}"),
            &format!("state=idle:id={wide}"),
        ] {
            assert_eq!(Report::parse(bad.as_bytes()), None, "{bad}");
        }
        assert!(record("state=nap:state=idle:id=a b:id=a/b").is_some(), "the last of a key wins");
    }

    #[test]
    fn text_that_may_not_be_spoils_the_whole_report() {
        let fits = [
            format!("state=idle:title={}", encode(&"t".repeat(192))),
            format!("state=idle:msg={}", encode(&"m".repeat(2048))),
        ];
        for good in fits {
            assert!(record(&good).is_some(), "{good}");
        }
        for bad in [
            format!("title={}", encode(&"t".repeat(193))),
            format!("msg={}", encode(&"m".repeat(2049))),
            format!("title={}:title={}", encode("a\nb"), encode("fine")),
            format!("msg={}", encode("C1 \u{85}")),
            "title=***".to_owned(),
            "msg=/w".to_owned(),
            format!("app={}:app=fine", "a".repeat(33)),
        ] {
            assert_eq!(Report::parse(format!("state=idle:{bad}").as_bytes()), None, "{bad}");
            assert_eq!(Report::parse(format!("state=clear:{bad}").as_bytes()), None, "clear:{bad}");
        }
    }

    #[test]
    fn what_does_not_belong_to_the_state_is_left_out() {
        let idle = record("state=idle:kind=auth:progress=5").expect("a record");
        assert_eq!((idle.kind, idle.progress), (None, None));
        let working = record("state=working:kind=auth:progress=100").expect("a record");
        assert_eq!((working.kind, working.progress), (None, Some(100)));
        for progress in ["101", "-1", "+5", "5.0", "", "999999999999"] {
            let record = record(&format!("state=working:progress={progress}")).expect("a record");
            assert_eq!(record.progress, None, "{progress}");
        }
        assert_eq!(record("state=blocked:kind=coffee").expect("a record").kind, None);
    }
}
