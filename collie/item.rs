//! Making items, and holding them to their limits.

use std::time::SystemTime;

use super::clean::{self, LABEL_LIMIT, Limit, TEXT_LIMIT, TOOL_LIMIT};
use super::id::check_id;
use super::rule::RuleError;
use super::time::iso;
use super::wire::{BadgeTone, Item, ItemBody, NoticeLevel, ToolStatus};

impl Item {
    fn new(id: impl Into<String>, body: ItemBody) -> Self {
        Self { id: id.into(), ts: None, body, truncated: false }
    }

    /// What the user said.
    pub fn user(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(id, ItemBody::User { text: text.into(), request_id: None })
    }

    /// What the agent said.
    pub fn reply(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(id, ItemBody::Reply { text: text.into(), partial: false })
    }

    /// What the agent thought.
    pub fn thinking(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(id, ItemBody::Thinking { text: text.into(), partial: false })
    }

    /// Text in Markdown.
    pub fn markdown(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(id, ItemBody::Markdown { text: text.into(), partial: false })
    }

    /// A line about the conversation.
    pub fn notice(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(id, ItemBody::Notice { text: text.into(), level: None, partial: false })
    }

    /// A tool call; say more of it with [`Item::summary`], [`Item::input`] and their like.
    pub fn tool(id: impl Into<String>, name: impl Into<String>, status: ToolStatus) -> Self {
        let (name, summary, input, output, tool_call_id) = (name.into(), None, None, None, None);
        Self::new(id, ItemBody::Tool { name, summary, input, output, status, tool_call_id })
    }

    /// Code.
    pub fn code(id: impl Into<String>, text: impl Into<String>, lang: Option<&str>) -> Self {
        let lang = lang.map(str::to_owned);
        Self::new(id, ItemBody::Code { text: text.into(), lang })
    }

    /// A link.
    pub fn link(id: impl Into<String>, text: impl Into<String>, href: impl Into<String>) -> Self {
        Self::new(id, ItemBody::Link { text: text.into(), href: href.into() })
    }

    /// A word with a colour.
    pub fn badge(id: impl Into<String>, label: impl Into<String>, tone: Option<BadgeTone>) -> Self {
        Self::new(id, ItemBody::Badge { label: label.into(), tone })
    }

    /// How far something is: `value` is 0 to 1.
    pub fn progress(id: impl Into<String>, label: Option<&str>, value: f64) -> Self {
        Self::new(id, ItemBody::Progress { label: label.map(str::to_owned), value })
    }

    /// When it happened, where that is not now.
    pub fn at(self, time: SystemTime) -> Self {
        Self { ts: Some(iso(time)), ..self }
    }

    /// The text still grows (N061): of a reply, thinking, markdown or a notice. Nothing changes for
    /// other kinds.
    pub fn partial(self) -> Self {
        self.with_partial(true)
    }

    pub(crate) fn with_partial(mut self, still_grows: bool) -> Self {
        if let ItemBody::Reply { partial, .. }
        | ItemBody::Thinking { partial, .. }
        | ItemBody::Markdown { partial, .. }
        | ItemBody::Notice { partial, .. } = &mut self.body
        {
            *partial = still_grows;
        }
        self
    }

    /// Whether the user said it.
    pub(crate) fn is_users(&self) -> bool {
        matches!(self.body, ItemBody::User { .. })
    }

    pub(crate) fn is_partial(&self) -> bool {
        matches!(
            self.body,
            ItemBody::Reply { partial: true, .. }
                | ItemBody::Thinking { partial: true, .. }
                | ItemBody::Markdown { partial: true, .. }
                | ItemBody::Notice { partial: true, .. }
        )
    }

    /// Of a user item: the send that it came from, which becomes effective by it (N068).
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        if let ItemBody::User { request_id, .. } = &mut self.body {
            *request_id = Some(id.into());
        }
        self
    }

    /// Of a notice: how much it matters.
    pub fn level(mut self, how_much: NoticeLevel) -> Self {
        if let ItemBody::Notice { level, .. } = &mut self.body {
            *level = Some(how_much);
        }
        self
    }

    /// Of a tool call: one line about it.
    pub fn summary(mut self, text: impl Into<String>) -> Self {
        if let ItemBody::Tool { summary, .. } = &mut self.body {
            *summary = Some(text.into());
        }
        self
    }

    /// Of a tool call: what went in.
    pub fn input(mut self, text: impl Into<String>) -> Self {
        if let ItemBody::Tool { input, .. } = &mut self.body {
            *input = Some(text.into());
        }
        self
    }

    /// Of a tool call: what came out.
    pub fn output(mut self, text: impl Into<String>) -> Self {
        if let ItemBody::Tool { output, .. } = &mut self.body {
            *output = Some(text.into());
        }
        self
    }

    /// Of a tool call: its id.
    pub fn tool_call_id(mut self, id: impl Into<String>) -> Self {
        if let ItemBody::Tool { tool_call_id, .. } = &mut self.body {
            *tool_call_id = Some(id.into());
        }
        self
    }

    /// The item as Collie keeps it: cut and cleaned (N064, N065), or the rule that it breaks (N066).
    pub(crate) fn prepared(mut self) -> Result<Self, RuleError> {
        check_id("item id", &self.id)?;
        let mut cut = Cut(self.truncated);
        match &mut self.body {
            ItemBody::User { text, request_id } => {
                cut.text(text, TEXT_LIMIT);
                request_id.as_deref().map_or(Ok(()), |id| check_id("item requestId", id))?;
            }
            ItemBody::Reply { text, .. }
            | ItemBody::Thinking { text, .. }
            | ItemBody::Markdown { text, .. }
            | ItemBody::Notice { text, .. } => cut.text(text, TEXT_LIMIT),
            ItemBody::Tool { name, summary, input, output, tool_call_id, .. } => {
                cut.line(name, LABEL_LIMIT);
                if let Some(text) = summary {
                    cut.line(text, LABEL_LIMIT);
                }
                for text in input.iter_mut().chain(output) {
                    cut.text(text, TOOL_LIMIT);
                }
                tool_call_id.as_deref().map_or(Ok(()), |id| check_id("item toolCallId", id))?;
            }
            ItemBody::Code { text, lang } => {
                lang.as_deref().map_or(Ok(()), check_lang)?;
                cut.text(text, TEXT_LIMIT);
            }
            ItemBody::Link { text, href } => {
                check_href(href)?;
                cut.text(text, TEXT_LIMIT);
            }
            ItemBody::Badge { label, .. } => {
                cut.line(label, LABEL_LIMIT);
                if label.is_empty() {
                    return Err(RuleError::new("badge label", "is empty"));
                }
            }
            ItemBody::Progress { label, value } => {
                if !(0.0..=1.0).contains(value) {
                    let rule = format!("is {value}, not 0 to 1");
                    return Err(RuleError::new("progress value", rule));
                }
                if let Some(text) = label {
                    cut.line(text, LABEL_LIMIT);
                }
            }
        }
        self.truncated = cut.0;
        Ok(self)
    }
}

/// Whether anything was cut.
struct Cut(bool);

impl Cut {
    fn text(&mut self, text: &mut String, limit: Limit) {
        let cleaned = clean::text(text, limit);
        self.0 |= cleaned.cut;
        *text = cleaned.text;
    }

    fn line(&mut self, text: &mut String, limit: Limit) {
        let cleaned = clean::line(text, limit);
        self.0 |= cleaned.cut;
        *text = cleaned.text;
    }
}

fn check_lang(lang: &str) -> Result<(), RuleError> {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"+#._-".contains(&byte);
    if (1..=32).contains(&lang.len()) && lang.bytes().all(known) {
        return Ok(());
    }
    Err(RuleError::new("code lang", "is not 1 to 32 of letters, digits and + # . _ -"))
}

fn check_href(href: &str) -> Result<(), RuleError> {
    let scheme = href.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    let rule = match scheme.as_deref() {
        Some("http" | "https" | "mailto") if href.len() > 2048 => "is over 2048 bytes long",
        Some("http" | "https" | "mailto") if href.chars().any(is_blank) => {
            "holds a space or a control character"
        }
        Some("http" | "https" | "mailto") => return Ok(()),
        _ => "is not https, http or mailto",
    };
    Err(RuleError::new("link href", rule))
}

fn is_blank(character: char) -> bool {
    character.is_whitespace() || character.is_control() || clean::is_invisible(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(item: Item) -> String {
        item.prepared().unwrap_err().to_string()
    }

    fn json(item: Item) -> serde_json::Value {
        serde_json::to_value(item.prepared().unwrap()).unwrap()
    }

    #[test]
    fn n059_every_kind_has_its_shape() {
        let tool = Item::tool("t", "bash", ToolStatus::Running)
            .summary("tests")
            .input("cargo test")
            .tool_call_id("c1");
        insta::assert_json_snapshot!([
            json(Item::user("u", "hi").request_id("r1")),
            json(Item::reply("r", "hello").partial()),
            json(Item::thinking("h", "hm")),
            json(Item::markdown("m", "# a")),
            json(Item::notice("n", "careful").level(NoticeLevel::Warning)),
            json(tool),
            json(Item::code("c", "fn main() {}", Some("rust"))),
            json(Item::link("l", "docs", "https://example.com/")),
            json(Item::badge("b", "green", Some(BadgeTone::Good))),
            json(Item::progress("p", None, 0.5).at(SystemTime::UNIX_EPOCH)),
        ]);
    }

    #[test]
    fn every_kind_is_read_back_as_it_was_written() {
        let item = Item::tool("t", "bash", ToolStatus::Denied).output("no");
        let text = serde_json::to_string(&item).unwrap();
        assert_eq!(serde_json::from_str::<Item>(&text).unwrap(), item);
    }

    #[test]
    fn n061_only_growing_kinds_are_partial() {
        let growing = [
            Item::reply("i", "a"),
            Item::thinking("i", "a"),
            Item::markdown("i", "a"),
            Item::notice("i", "a"),
        ];
        for item in growing {
            assert_eq!(json(item.clone().partial())["partial"], true);
            assert!(json(item).get("partial").is_none());
        }
        for item in [Item::user("u", "a"), Item::code("c", "a", None)] {
            assert!(json(item.partial()).get("partial").is_none());
        }
    }

    #[test]
    fn n064_a_cut_item_says_so() {
        assert_eq!(json(Item::reply("r", "x".repeat(20_001)))["truncated"], true);
        let tool = json(Item::tool("t", "x", ToolStatus::Ok).output("y".repeat(2_001)));
        assert_eq!(tool["output"].as_str().unwrap().len(), 2_000);
        assert_eq!(tool["truncated"], true);
    }

    #[test]
    fn n065_text_is_cleaned() {
        assert_eq!(json(Item::reply("r", "a\u{202e}b\u{7}"))["text"], "ab");
    }

    #[test]
    fn n066_what_collie_would_throw_away_is_an_error() {
        let cases = [
            (Item::code("c", "x", Some("")), "code lang"),
            (Item::code("c", "x", Some("a b")), "code lang"),
            (Item::link("l", "x", "javascript:alert(1)"), "link href is not https"),
            (Item::link("l", "x", "relative"), "link href is not https"),
            (Item::link("l", "x", "https://a b"), "link href holds a space"),
            (Item::link("l", "x", format!("https://{}", "x".repeat(2048))), "link href is over"),
            (Item::badge("b", "\u{200b}", None), "badge label is empty"),
            (Item::progress("p", None, 1.5), "progress value is 1.5, not 0 to 1"),
            (Item::progress("p", None, f64::NAN), "progress value is NaN"),
            (Item::reply("a b", "x"), "item id holds white space"),
        ];
        for (item, expected) in cases {
            assert!(rule(item.clone()).starts_with(expected), "{item:?}");
        }
    }
}
