//! Asking about one tool call, in the call's own words.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::ask::{AskError, AskInput};
use super::pane::Pane;
use super::waiter::Verdict;
use super::wire::DecidedBy;

/// What became of a tool call that was asked about (N098).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Approval {
    /// A person allowed it. A denial, a timeout and a withdrawal are all `false` (N099), and
    /// [`decided_by`](Self::decided_by) tells them apart.
    pub approved: bool,
    /// Who decided.
    pub decided_by: DecidedBy,
    /// When.
    pub decided_at: SystemTime,
    /// The ask's id.
    pub ask_id: String,
}

impl Pane {
    /// Asks about one tool call, with a card that is made from the call itself and not from what
    /// the model says of it (N093): `refund wants to run`, the line
    /// `refund(order: "5521", amount: 40)`, Allow and Deny. A timeout never approves.
    ///
    /// Dropping the future withdraws the card.
    ///
    /// # Errors
    /// The card cannot be raised: an id breaks its rule, or an ask of this call is open already.
    pub async fn require_approval<A: Serialize + ?Sized>(
        &self,
        tool: &str,
        arguments: &A,
        tool_call_id: &str,
        timeout: Option<Duration>,
    ) -> Result<Approval, AskError> {
        let ask = self.ask(approval_of(tool, arguments, tool_call_id, timeout))?;
        let ask_id = ask.id().to_owned();
        Ok(Approval::of(ask_id, &ask.await))
    }
}

impl Approval {
    fn of(ask_id: String, verdict: &Verdict) -> Self {
        match verdict {
            Ok(answer) => {
                let (approved, decided_at) = (answer.allowed(), answer.decided_at);
                Self { approved, decided_by: DecidedBy::Phone, decided_at, ask_id }
            }
            Err(closed) => {
                let (decided_by, decided_at) = (closed.decided_by, closed.decided_at);
                Self { approved: false, decided_by, decided_at, ask_id }
            }
        }
    }
}

/// The ask that [`Pane::require_approval`] raises (N093 to N097).
pub fn approval_of<A: Serialize + ?Sized>(
    tool: &str,
    arguments: &A,
    tool_call_id: &str,
    timeout: Option<Duration>,
) -> AskInput {
    let line = call_summary(tool, arguments);
    let ask = AskInput::approval(format!("{tool} wants to run"))
        .tool_call_id(tool_call_id)
        .tool(&line)
        .push(Some(&format!("{tool} needs a yes")), Some(&line));
    match timeout {
        Some(timeout) => ask.timeout(timeout),
        None => ask,
    }
}

/// A call as one line (N101). Arguments keep their order where their type does: a struct does, and
/// JSON text as `serde_json::value::RawValue`; a `serde_json::Value` is sorted by name.
///
/// ```
/// use agent_presence::collie::call_summary;
///
/// #[derive(serde::Serialize)]
/// struct Refund { order: &'static str, amount: u32 }
/// let line = call_summary("refund", &Refund { order: "5521", amount: 40 });
/// assert_eq!(line, r#"refund(order: "5521", amount: 40)"#);
/// ```
pub fn call_summary<A: Serialize + ?Sized>(name: &str, arguments: &A) -> String {
    format!("{name}({})", arguments_view(arguments))
}

/// Arguments as `name: value` pairs in which each value is JSON (N102); what is no object is one
/// value.
pub fn arguments_view<A: Serialize + ?Sized>(arguments: &A) -> String {
    let Ok(text) = serde_json::to_string(arguments) else {
        return String::new();
    };
    match serde_json::from_str::<Pairs>(&text) {
        Ok(Pairs(pairs)) => {
            let pairs = pairs.iter().map(|(name, value)| format!("{name}: {}", compact(value)));
            pairs.collect::<Vec<_>>().join(", ")
        }
        Err(_) if text == "null" => String::new(),
        Err(_) => compact(&text),
    }
}

/// JSON without the white space between its parts.
fn compact(json: &str) -> String {
    let (mut in_text, mut escaped) = (false, false);
    json.chars()
        .filter(|&character| {
            if in_text {
                (in_text, escaped) = (character != '"' || escaped, character == '\\' && !escaped);
                return true;
            }
            in_text = character == '"';
            !character.is_ascii_whitespace()
        })
        .collect()
}

/// An object in the order of its text.
struct Pairs(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Pairs;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Pairs, M::Error> {
                let mut pairs = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                    pairs.push((name, value.get().to_owned()));
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn n095_n101_n102_a_call_is_one_line_in_its_own_order() {
        let arguments = raw(r#"{"order": "5521", "amount": 40}"#);
        assert_eq!(call_summary("refund", &arguments), r#"refund(order: "5521", amount: 40)"#);
        let nested = raw("{\"a\": {\n \"b c\": [1, 2]}, \"d\": \"e \\\" f\"}");
        assert_eq!(arguments_view(&nested), r#"a: {"b c":[1,2]}, d: "e \" f""#);
        assert_eq!(call_summary("now", &json!({})), "now()");
        assert_eq!(call_summary("now", &json!(null)), "now()");
        assert_eq!(call_summary("echo", &json!("a b")), r#"echo("a b")"#);
    }
}
