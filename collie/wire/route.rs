//! Which path and method mean what.

use super::Refusal;
use crate::collie::id::check_id;

/// A request, as far as its method and target say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Read(Read),
    /// Collie's own hello, which is not a write.
    HelloFromCollie,
    Write(Write),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Hello,
    State,
    Events { pane: String, page: Page },
    History { page: Page },
    HistoryItems { session: String, page: Page },
}

/// `after` and `limit` of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) after: Option<String>,
    pub(crate) limit: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Send { pane: String },
    Stop { pane: String },
    Action { pane: String, action: String },
    Answer { pane: String, ask: String },
    Rename,
    Close,
    Reopen,
    Start,
}

impl Route {
    /// Reads a method and a target such as `/durable/v1/panes/p/events?limit=9`.
    pub(crate) fn read(method: &str, target: &str) -> Result<Self, Refusal> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let below = path.strip_prefix("/durable/v1/").ok_or_else(Refusal::unknown_path)?;
        let parts: Vec<&str> = below.split('/').collect();
        let allowed = match parts[..] {
            ["hello"] => "GET, POST",
            ["state" | "history"] | ["panes", _, "events"] | ["history", _] => "GET",
            ["panes", _, "send" | "stop"]
            | ["panes", _, "actions" | "asks", _]
            | ["rename" | "close" | "reopen" | "start"] => "POST",
            _ => return Err(Refusal::unknown_path()),
        };
        if !allowed.split(", ").any(|allowed| allowed == method) {
            return Err(Refusal::method_not_allowed(allowed));
        }
        Ok(match parts[..] {
            ["hello"] if method == "POST" => Self::HelloFromCollie,
            ["hello"] => Self::Read(Read::Hello),
            ["state"] => Self::Read(Read::State),
            ["panes", pane, "events"] => {
                let pane = segment("pane id", pane)?;
                Self::Read(Read::Events { pane, page: Page::read(query, 1000)? })
            }
            ["history"] => Self::Read(Read::History { page: Page::read(query, 200)? }),
            ["history", session] => {
                let page = Page::read(query, 200)?;
                Self::Read(Read::HistoryItems { session: segment("session id", session)?, page })
            }
            ["panes", pane, "send"] => Self::Write(Write::Send { pane: segment("pane id", pane)? }),
            ["panes", pane, "stop"] => Self::Write(Write::Stop { pane: segment("pane id", pane)? }),
            ["panes", pane, "actions", action] => Self::Write(Write::Action {
                pane: segment("pane id", pane)?,
                action: segment("action id", action)?,
            }),
            ["panes", pane, "asks", ask] => Self::Write(Write::Answer {
                pane: segment("pane id", pane)?,
                ask: segment("ask id", ask)?,
            }),
            ["rename"] => Self::Write(Write::Rename),
            ["close"] => Self::Write(Write::Close),
            ["reopen"] => Self::Write(Write::Reopen),
            ["start"] => Self::Write(Write::Start),
            _ => return Err(Refusal::unknown_path()),
        })
    }
}

impl Page {
    fn read(query: &str, most: u32) -> Result<Self, Refusal> {
        let mut page = Self::default();
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "after" => page.after = Some(cursor(value)?),
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=most).contains(limit));
                    let rule = || Refusal::bad_request(format!("limit is not 1 to {most}."));
                    page.limit = Some(limit.ok_or_else(rule)?);
                }
                _ => {}
            }
        }
        Ok(page)
    }
}

/// A cursor: 1 to 512 bytes of printable ASCII without a space (N129).
fn cursor(encoded: &str) -> Result<String, Refusal> {
    percent_decoded(encoded).filter(|cursor| is_cursor(cursor)).ok_or_else(|| {
        Refusal::bad_request("after is not 1 to 512 characters of printable ASCII without spaces.")
    })
}

pub(crate) fn is_cursor(text: &str) -> bool {
    (1..=512).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn segment(place: &'static str, encoded: &str) -> Result<String, Refusal> {
    let decoded = percent_decoded(encoded)
        .ok_or_else(|| Refusal::bad_request(format!("{place} is not percent-encoded UTF-8.")))?;
    check_id(place, &decoded).map_err(|error| Refusal::bad_request(format!("{error}.")))?;
    Ok(decoded)
}

fn percent_decoded(encoded: &str) -> Option<String> {
    let mut bytes = encoded.bytes();
    let mut decoded = Vec::with_capacity(encoded.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let high = char::from(bytes.next()?).to_digit(16)?;
        let low = char::from(bytes.next()?).to_digit(16)?;
        decoded.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(decoded).ok()
}

/// `id` as one segment of a path.
pub(super) fn percent_encoded(id: &str) -> String {
    use std::fmt::Write as _;
    id.bytes().fold(String::with_capacity(id.len()), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn code(method: &str, target: &str) -> &'static str {
        Route::read(method, target).unwrap_err().code
    }

    #[test]
    fn every_path_is_known_by_its_method() {
        let ask = Route::read("POST", "/durable/v1/panes/a%3Ab/asks/q1").unwrap();
        assert_eq!(ask, Route::Write(Write::Answer { pane: "a:b".into(), ask: "q1".into() }));
        let events = Route::read("GET", "/durable/v1/panes/p/events?after=i%3A4&limit=7").unwrap();
        let page = Page { after: Some("i:4".into()), limit: Some(7) };
        assert_eq!(events, Route::Read(Read::Events { pane: "p".into(), page }));
        assert_eq!(Route::read("POST", "/durable/v1/hello"), Ok(Route::HelloFromCollie));
    }

    #[test]
    fn n129_what_is_not_the_wire_is_refused() {
        for target in
            ["/", "/durable/v1", "/durable/v1/", "/durable/v2/hello", "/durable/v1/hello/"]
        {
            assert_eq!(code("GET", target), "unknown-path", "{target}");
        }
        assert_eq!(code("DELETE", "/durable/v1/state"), "method-not-allowed");
        assert_eq!(code("GET", "/durable/v1/panes/p/send"), "method-not-allowed");
        for target in [
            "/durable/v1/panes//events",
            "/durable/v1/panes/%2F/events",
            "/durable/v1/panes/%zz/events",
            "/durable/v1/panes/%ff/events",
            "/durable/v1/panes/p/events?limit=0",
            "/durable/v1/panes/p/events?limit=1001",
            "/durable/v1/panes/p/events?after=",
            "/durable/v1/panes/p/events?after=a%20b",
        ] {
            assert_eq!(code("GET", target), "bad-request", "{target}");
        }
    }

    proptest! {
        #[test]
        fn a_segment_survives_its_encoding(id in any::<String>()) {
            prop_assert_eq!(percent_decoded(&percent_encoded(&id)), Some(id));
        }

        #[test]
        fn no_target_panics(method in "(GET|POST|PUT)", target in "/durable/v1/(panes/)?[ -~]{0,40}") {
            let _ = Route::read(&method, &target);
        }
    }
}
