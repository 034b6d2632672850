//! Asks: what the agent gives, and what becomes of it.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use super::clean::{self, Cleaned, LABEL_LIMIT, Limit};
use super::id::{ask_id_for, check_id, digest_hex};
use super::rule::RuleError;
use super::time::{from_iso, iso};
use super::wire::{AskKind, AskOption, AskView, Field, FieldKind, Push, to_json};

/// A question to the user, before it is raised.
///
/// ```
/// use agent_presence::collie::{AskInput, AskOption};
///
/// let ask = AskInput::choice("Ship it?", [AskOption::new("yes", "Yes"), AskOption::new("no", "No")])
///     .tool_call_id("ship-1")
///     .timeout(std::time::Duration::from_secs(600));
/// # let _ = ask;
/// ```
#[derive(Clone, Debug)]
pub struct AskInput {
    kind: AskKind,
    title: String,
    id: Option<String>,
    tool_call_id: Option<String>,
    item_id: Option<String>,
    reason: Option<String>,
    tool: Option<String>,
    push: Option<Push>,
    expiry: Option<Expiry>,
    again: bool,
}

#[derive(Clone, Debug)]
enum Expiry {
    At(SystemTime),
    Iso(String),
    After(Duration),
}

/// Why an ask is not raised.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// A value that Collie would throw away.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// An ask of this id is open already (N085).
    #[error("ask `{id}` is open already")]
    AlreadyOpen {
        /// The id.
        id: String,
    },
    /// Always-allow is off in the core's options (N105).
    #[error("ask offers allow-always, which this core does not allow")]
    AllowAlways,
    /// The pane is closed.
    #[error("the pane is closed")]
    PaneClosed,
}

impl AskInput {
    fn new(title: impl Into<String>, kind: AskKind) -> Self {
        Self {
            kind,
            title: title.into(),
            id: None,
            tool_call_id: None,
            item_id: None,
            reason: None,
            tool: None,
            push: None,
            expiry: None,
            again: true,
        }
    }

    /// May the agent do this? With the options `allow` and `deny`.
    pub fn approval(title: impl Into<String>) -> Self {
        let options = vec![AskOption::new("allow", "Allow"), AskOption::new("deny", "Deny")];
        Self::new(title, AskKind::Approval { options })
    }

    /// One of 2 to 20 options.
    pub fn choice(title: impl Into<String>, options: impl Into<Vec<AskOption>>) -> Self {
        let options = options.into();
        Self::new(title, AskKind::Choice { options, multiple: false, min: None, max: None })
    }

    /// Several of 2 to 20 options: `at_least` to `at_most` of them.
    pub fn choices(
        title: impl Into<String>,
        options: impl Into<Vec<AskOption>>,
        at_least: u32,
        at_most: u32,
    ) -> Self {
        let (options, min, max) = (options.into(), Some(at_least), Some(at_most));
        Self::new(title, AskKind::Choice { options, multiple: true, min, max })
    }

    /// A typed line of at most 4000 characters.
    pub fn text(title: impl Into<String>) -> Self {
        Self::new(title, AskKind::Text { placeholder: None, max_length: None })
    }

    /// 1 to 20 fields.
    pub fn form(title: impl Into<String>, fields: impl Into<Vec<Field>>) -> Self {
        Self::new(title, AskKind::Form { fields: fields.into() })
    }

    /// Any kind, as the wire has it.
    pub fn of_kind(title: impl Into<String>, kind: AskKind) -> Self {
        Self::new(title, kind)
    }

    /// Of an approval: also offers to let every later call through (N103). It is left out where it
    /// may not be offered (N106).
    pub fn allow_always(mut self) -> Self {
        if let AskKind::Approval { options } = &mut self.kind
            && options.iter().all(|option| option.id != "allow-always")
        {
            options.push(AskOption::new("allow-always", "Always allow"));
        }
        self
    }

    /// The ask's own id, where it is not to be derived from the tool call's (N082).
    pub fn id(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }

    /// The tool call that it is about. The ask's id is derived from it, so that the same call has
    /// the same ask after a restart (N084).
    pub fn tool_call_id(self, id: impl Into<String>) -> Self {
        Self { tool_call_id: Some(id.into()), ..self }
    }

    /// The item that it belongs to; it need not exist (N251).
    pub fn item_id(self, id: impl Into<String>) -> Self {
        Self { item_id: Some(id.into()), ..self }
    }

    /// Why it is asked: cut to 2 KiB.
    pub fn reason(self, reason: impl Into<String>) -> Self {
        Self { reason: Some(reason.into()), ..self }
    }

    /// The tool's line, such as `refund(order: "5521", amount: 40)`.
    pub fn tool(self, tool: impl Into<String>) -> Self {
        Self { tool: Some(tool.into()), ..self }
    }

    /// The words of the notification: cut to 60 and 120 characters (N080).
    pub fn push(self, title: Option<&str>, line: Option<&str>) -> Self {
        let push = Push { title: title.map(str::to_owned), line: line.map(str::to_owned) };
        Self { push: Some(push), ..self }
    }

    /// When it closes by itself, decided by `timeout` (N087).
    pub fn expires_at(self, time: SystemTime) -> Self {
        Self { expiry: Some(Expiry::At(time)), ..self }
    }

    /// The same in ISO 8601 with a time zone (N081); another text is an error when it is raised.
    pub fn expires_at_iso(self, time: impl Into<String>) -> Self {
        Self { expiry: Some(Expiry::Iso(time.into())), ..self }
    }

    /// The same, from when it is raised.
    pub fn timeout(self, after: Duration) -> Self {
        Self { expiry: Some(Expiry::After(after)), ..self }
    }

    /// Its id is new each time, so that it cannot be raised again: where there are
    /// [records](super::FileRecords), its card ends with the process.
    pub fn only_now(self) -> Self {
        Self { again: false, ..self }
    }

    pub(crate) fn can_come_again(&self) -> bool {
        self.again
    }

    /// The ask as the phone sees it, and when it expires.
    pub(crate) fn prepared(
        self,
        pane_id: &str,
        now: SystemTime,
    ) -> Result<(AskView, Option<SystemTime>), RuleError> {
        let id = match (self.id, &self.tool_call_id) {
            (Some(id), _) => id,
            (None, Some(call)) => ask_id_for(pane_id, call),
            (None, None) => {
                return Err(RuleError::new("ask", "has neither an id nor a tool call's id"));
            }
        };
        check_id("ask id", &id)?;
        self.tool_call_id.as_deref().map_or(Ok(()), |id| check_id("ask toolCallId", id))?;
        self.item_id.as_deref().map_or(Ok(()), |id| check_id("ask itemId", id))?;
        let expires = match self.expiry {
            None => None,
            Some(Expiry::At(time)) => Some(time),
            Some(Expiry::After(after)) => now.checked_add(after),
            Some(Expiry::Iso(text)) => Some(from_iso(&text).ok_or_else(|| {
                RuleError::new("ask expiresAt", "is not ISO 8601 with a time zone")
            })?),
        };

        let mut words = Words { as_written: true };
        let title = words.line(&self.title, Limit::Bytes(256));
        if title.is_empty() {
            return Err(RuleError::new("ask title", "is empty"));
        }
        let reason = self.reason.map(|reason| words.text(&reason, Limit::Bytes(2048)));
        let tool = self.tool.map(|tool| words.line(&tool, Limit::Characters(2_000)));
        let push = self.push.map(|push| Push {
            title: push.title.map(|title| words.line(&title, Limit::Characters(60))),
            line: push.line.map(|line| words.line(&line, Limit::Characters(120))),
        });
        let mut kind = words.kind(self.kind)?;
        if let AskKind::Approval { options } = &mut kind {
            // A person must not allow for always what they have not seen whole (N106).
            let may_be_always = words.as_written && tool.as_deref().is_some_and(|t| !t.is_empty());
            options.retain(|option| may_be_always || option.id != "allow-always");
        }

        let mut view = AskView {
            id,
            kind,
            tool_call_id: self.tool_call_id,
            item_id: self.item_id,
            title,
            reason,
            tool,
            push,
            expires_at: expires.map(iso),
            opened_at: iso(now),
            hash: String::new(),
        };
        view.hash = hash_of(&view);
        Ok((view, expires))
    }

    pub(crate) fn offers_always(&self) -> bool {
        matches!(&self.kind, AskKind::Approval { options }
            if options.iter().any(|option| option.id == "allow-always"))
    }
}

/// SHA-256 over the canonical JSON of the ask without `hash` and `openedAt`, its first 32 hex digits.
fn hash_of(ask: &AskView) -> String {
    let mut value = serde_json::to_value(ask).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("hash");
        fields.remove("openedAt");
    }
    // The maps of serde_json are sorted, so this text is canonical.
    digest_hex(&[to_json(&value).as_bytes()])
}

/// Over the words that a person sees: an ask of the same id and the same words is the same question,
/// whenever it was raised and whenever it expires.
pub(crate) fn question_of(ask: &AskView) -> String {
    let words = serde_json::json!([ask.id, ask.kind, ask.title, ask.reason, ask.tool]);
    digest_hex(&[to_json(&words).as_bytes()])
}

/// Cuts and cleans the words of an ask, and remembers whether all stayed as they were written.
struct Words {
    as_written: bool,
}

impl Words {
    fn line(&mut self, text: &str, limit: Limit) -> String {
        self.keep(clean::line(text, limit))
    }

    fn text(&mut self, text: &str, limit: Limit) -> String {
        self.keep(clean::text(text, limit))
    }

    fn keep(&mut self, cleaned: Cleaned) -> String {
        self.as_written &= !cleaned.cut && !cleaned.changed;
        cleaned.text
    }

    fn kind(&mut self, kind: AskKind) -> Result<AskKind, RuleError> {
        Ok(match kind {
            AskKind::Approval { options } => {
                let ids: Vec<&str> = options.iter().map(|option| option.id.as_str()).collect();
                if !matches!(ids[..], ["allow", "deny"] | ["allow", "deny", "allow-always"]) {
                    let rule = "are not allow and deny, and perhaps allow-always";
                    return Err(RuleError::new("approval options", rule));
                }
                AskKind::Approval { options: self.options("approval options", options)? }
            }
            AskKind::Choice { options, multiple, min, max } => {
                let options = self.options("choice options", options)?;
                let count = u32::try_from(options.len()).unwrap_or(u32::MAX);
                let (least, most) = (min.unwrap_or(1), max.unwrap_or(count));
                if !multiple && (min.is_some() || max.is_some()) {
                    return Err(RuleError::new("choice", "has bounds but is not multiple"));
                }
                if least > most || most > count || most == 0 {
                    let rule = format!("are {least} to {most} of {count} options");
                    return Err(RuleError::new("choice bounds", rule));
                }
                AskKind::Choice { options, multiple, min, max }
            }
            AskKind::Text { placeholder, max_length } => {
                if max_length.is_some_and(|length| !(1..=4000).contains(&length)) {
                    return Err(RuleError::new("text maxLength", "is not 1 to 4000"));
                }
                let placeholder = placeholder.map(|text| self.line(&text, LABEL_LIMIT));
                AskKind::Text { placeholder, max_length }
            }
            AskKind::Form { fields } => AskKind::Form { fields: self.fields(fields)? },
        })
    }

    fn options(
        &mut self,
        place: &'static str,
        options: Vec<AskOption>,
    ) -> Result<Vec<AskOption>, RuleError> {
        check_count(place, options.len(), 2)?;
        check_unique(place, options.iter().map(|option| option.id.as_str()))?;
        let cleaned = options.into_iter().map(|option| AskOption {
            label: self.line(&option.label, LABEL_LIMIT),
            detail: option.detail.map(|detail| self.line(&detail, LABEL_LIMIT)),
            id: option.id,
        });
        Ok(cleaned.collect())
    }

    fn fields(&mut self, fields: Vec<Field>) -> Result<Vec<Field>, RuleError> {
        check_count("form fields", fields.len(), 1)?;
        check_unique("form fields", fields.iter().map(|field| field.id.as_str()))?;
        let mut cleaned = Vec::with_capacity(fields.len());
        for field in fields {
            let options = match (field.kind, field.options) {
                (FieldKind::Choice, options) => self.options("form field options", options)?,
                (_, options) if options.is_empty() => options,
                _ => return Err(RuleError::new("form field", "has options but is no choice")),
            };
            let label = self.line(&field.label, LABEL_LIMIT);
            cleaned.push(Field { label, options, ..field });
        }
        Ok(cleaned)
    }
}

fn check_count(place: &'static str, count: usize, least: usize) -> Result<(), RuleError> {
    if (least..=20).contains(&count) {
        return Ok(());
    }
    Err(RuleError::new(place, format!("are {count}, not {least} to 20")))
}

fn check_unique<'a>(
    place: &'static str,
    ids: impl Iterator<Item = &'a str>,
) -> Result<(), RuleError> {
    let mut seen: Vec<&str> = Vec::new();
    for id in ids {
        check_id(place, id)
            .map_err(|error| RuleError::new(place, format!("have an id that {}", error.rule)))?;
        if seen.contains(&id) {
            let rule: Cow<'static, str> = format!("have the id `{id}` twice").into();
            return Err(RuleError::new(place, rule));
        }
        seen.push(id);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(input: AskInput) -> AskView {
        input.prepared("p", SystemTime::UNIX_EPOCH).unwrap().0
    }

    fn rule(input: AskInput) -> String {
        input.prepared("p", SystemTime::UNIX_EPOCH).unwrap_err().to_string()
    }

    fn two() -> Vec<AskOption> {
        vec![AskOption::new("yes", "Yes"), AskOption::new("no", "No")]
    }

    #[test]
    fn n073_the_four_kinds_have_their_shapes() {
        let fields = [Field::new("n", "How many", FieldKind::Number).required()];
        insta::assert_json_snapshot!([
            view(AskInput::approval("a").id("1").tool("run()").allow_always().reason("why")),
            view(AskInput::choice("b", two()).id("2").push(Some("t"), Some("l"))),
            view(AskInput::text("c").id("3").item_id("i").timeout(Duration::from_secs(60))),
            view(AskInput::form("d", fields).tool_call_id("call")),
        ]);
    }

    #[test]
    fn n077_n078_n080_words_are_cut() {
        let ask = view(
            AskInput::approval("é".repeat(200))
                .id("1")
                .reason("r".repeat(3000))
                .push(Some(&"t".repeat(61)), Some(&"l".repeat(121))),
        );
        assert_eq!(ask.title.len(), 256);
        assert_eq!(ask.reason.unwrap().len(), 2048);
        let push = ask.push.unwrap();
        assert_eq!((push.title.unwrap().len(), push.line.unwrap().len()), (60, 120));
    }

    #[test]
    fn n081_expiry_is_a_time_or_iso_8601_with_a_zone() {
        let ask = view(AskInput::text("t").id("1").expires_at_iso("2026-11-30T01:00:00+01:00"));
        assert_eq!(ask.expires_at.as_deref(), Some("2026-11-30T00:00:00.000Z"));
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(60);
        let ask = view(AskInput::text("t").id("1").expires_at(time));
        assert_eq!(ask.expires_at.as_deref(), Some("1970-01-01T00:01:00.000Z"));
        let error = rule(AskInput::text("t").id("1").expires_at_iso("2026-11-30T01:00:00"));
        assert_eq!(error, "ask expiresAt is not ISO 8601 with a time zone");
    }

    #[test]
    fn n082_the_id_is_derived_from_the_tool_call() {
        assert_eq!(view(AskInput::text("t").tool_call_id("c")).id, ask_id_for("p", "c"));
        assert_eq!(view(AskInput::text("t").tool_call_id("c").id("own")).id, "own");
        assert_eq!(rule(AskInput::text("t")), "ask has neither an id nor a tool call's id");
    }

    #[test]
    fn n106_always_is_offered_only_for_what_was_seen_whole() {
        let offers = |input: AskInput| match view(input.id("1").allow_always()).kind {
            AskKind::Approval { options } => options.len() == 3,
            _ => false,
        };
        assert!(offers(AskInput::approval("t").tool("rm()")));
        assert!(!offers(AskInput::approval("t")));
        assert!(!offers(AskInput::approval("t").tool("rm\u{202e}()")));
        assert!(!offers(AskInput::approval("t").tool("rm()").reason("r".repeat(3000))));
    }

    #[test]
    fn n221_the_hash_is_over_what_a_person_sees() {
        let one = view(AskInput::text("t").id("1"));
        let later = AskInput::text("t").id("1").prepared("p", SystemTime::now()).unwrap().0;
        assert_eq!(one.hash, later.hash);
        assert_eq!(one.hash.len(), 32);
        assert_ne!(one.hash, view(AskInput::text("u").id("1")).hash);
        let canonical = br#"{"id":"1","kind":"text","title":"t"}"#;
        assert_eq!(one.hash, digest_hex(&[canonical]));
    }

    #[test]
    fn bad_asks_name_their_rule() {
        assert_eq!(rule(AskInput::text("\u{200b}").id("1")), "ask title is empty");
        let one = vec![AskOption::new("a", "A")];
        assert_eq!(rule(AskInput::choice("t", one).id("1")), "choice options are 1, not 2 to 20");
        let same = vec![AskOption::new("a", "A"), AskOption::new("a", "B")];
        assert_eq!(
            rule(AskInput::choice("t", same).id("1")),
            "choice options have the id `a` twice"
        );
        assert!(rule(AskInput::choices("t", two(), 2, 1).id("1")).contains("2 to 1"));
        assert_eq!(rule(AskInput::form("t", []).id("1")), "form fields are 0, not 1 to 20");
        let endless = AskKind::Text { placeholder: None, max_length: Some(4001) };
        assert_eq!(
            rule(AskInput::of_kind("t", endless).id("1")),
            "text maxLength is not 1 to 4000"
        );
    }
}
