//! The bodies of writes. They are read by hand: serde's messages do not name the field.

use serde_json::{Map, Value};

use super::{Refusal, SEND_LIMIT, Target, WireRange, Write};
use crate::collie::core::Action;
use crate::collie::id::check_id;

/// The body of a write: a JSON object, of which unknown fields are ignored.
#[derive(Debug)]
pub(crate) struct Body(Map<String, Value>);

impl Body {
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Refusal> {
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(fields)) => Ok(Self(fields)),
            Ok(_) => Err(Refusal::bad_request("The body is not a JSON object.")),
            Err(error) => Err(Refusal::bad_request(format!("The body is not JSON: {error}."))),
        }
    }

    /// The same text for the same fields in any order: `serde_json`'s maps are sorted.
    pub(crate) fn canonical(&self) -> String {
        super::to_json(&self.0)
    }

    pub(crate) fn request_id(&self) -> Result<&str, Refusal> {
        self.id("requestId")
    }

    fn optional_text(&self, name: &str) -> Result<Option<&str>, Refusal> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(ill_typed(name, "text")),
        }
    }

    fn text(&self, name: &str) -> Result<&str, Refusal> {
        self.optional_text(name)?.ok_or_else(|| missing(name))
    }

    fn optional_id(&self, name: &'static str) -> Result<Option<&str>, Refusal> {
        let Some(id) = self.optional_text(name)? else {
            return Ok(None);
        };
        check_id(name, id).map_err(|error| Refusal::bad_request(format!("{error}.")))?;
        Ok(Some(id))
    }

    fn id(&self, name: &'static str) -> Result<&str, Refusal> {
        self.optional_id(name)?.ok_or_else(|| missing(name))
    }

    fn flag(&self, name: &str) -> Result<bool, Refusal> {
        match self.0.get(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(ill_typed(name, "true or false")),
        }
    }

    fn object(&self, name: &str) -> Result<&Map<String, Value>, Refusal> {
        match self.0.get(name) {
            None => Err(missing(name)),
            Some(Value::Object(object)) => Ok(object),
            Some(_) => Err(ill_typed(name, "an object")),
        }
    }

    fn send_text(text: &str) -> Result<String, Refusal> {
        if text.is_empty() || text.len() > SEND_LIMIT {
            let message = format!("text is {} bytes long, not 1 to {SEND_LIMIT}.", text.len());
            return Err(Refusal::bad_request(message));
        }
        Ok(text.to_owned())
    }

    fn target(&self) -> Result<Target, Refusal> {
        let target = self.object("target")?;
        let named: Vec<&str> = ["pane", "tab", "workspace"]
            .into_iter()
            .filter(|name| target.contains_key(*name))
            .collect();
        let [name] = named[..] else {
            return Err(Refusal::bad_request("target does not name one pane, tab or workspace."));
        };
        let Some(Value::String(id)) = target.get(name) else {
            return Err(ill_typed(&format!("target.{name}"), "text"));
        };
        check_id("target", id).map_err(|error| Refusal::bad_request(format!("{error}.")))?;
        Ok(match name {
            "pane" => Target::Pane(id.clone()),
            "tab" => Target::Tab(id.clone()),
            _ => Target::Workspace(id.clone()),
        })
    }
}

fn missing(name: &str) -> Refusal {
    Refusal::bad_request(format!("{name} is missing."))
}

fn ill_typed(name: &str, kind: &str) -> Refusal {
    Refusal::bad_request(format!("{name} is not {kind}."))
}

/// What a write asks for.
pub(crate) fn read_action(write: Write, body: &Body) -> Result<Action, Refusal> {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    Ok(match write {
        Write::Send { pane } => Action::Send {
            pane,
            text: Body::send_text(body.text("text")?)?,
            turn_id: owned(body.optional_id("turnId")?),
            steer: body.flag("steer")?,
        },
        Write::Stop { pane } => Action::Stop { pane, turn_id: owned(body.optional_id("turnId")?) },
        Write::Action { pane, action } => {
            Action::Tap { pane, action, item_id: owned(body.optional_id("itemId")?) }
        }
        Write::Answer { pane, ask } => Action::Answer {
            pane,
            ask,
            answer: body.object("answer")?.clone(),
            hash: owned(body.optional_text("hash")?),
        },
        Write::Rename => {
            Action::Rename { target: body.target()?, title: body.text("title")?.to_owned() }
        }
        Write::Close => Action::Close { target: body.target()? },
        Write::Reopen => Action::Reopen { session_id: body.id("sessionId")?.to_owned() },
        Write::Start => Action::Start {
            starter: body.id("starterId")?.to_owned(),
            workspace: owned(body.optional_id("workspaceId")?),
            text: body.optional_text("text")?.map(Body::send_text).transpose()?,
        },
    })
}

/// Collie's own hello: the versions that it speaks.
pub(crate) fn read_hello(body: &Body) -> Result<WireRange, Refusal> {
    let wire = body.object("wire")?;
    let version = |name: &str| {
        let place = format!("wire.{name}");
        match wire.get(name) {
            None => Err(missing(&place)),
            Some(value) => value
                .as_u64()
                .and_then(|version| u32::try_from(version).ok())
                .ok_or_else(|| ill_typed(&place, "a version")),
        }
    };
    let range = WireRange { min: version("min")?, max: version("max")? };
    if range.min > range.max {
        return Err(Refusal::bad_request("wire.min is above wire.max."));
    }
    Ok(range)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(write: Write, body: &str) -> String {
        let body = Body::read(body.as_bytes()).unwrap();
        read_action(write, &body).unwrap_err().message
    }

    #[test]
    fn a_message_names_the_field() {
        let send = || Write::Send { pane: "p".into() };
        assert_eq!(message(send(), "{}"), "text is missing.");
        assert_eq!(message(send(), r#"{"text":5}"#), "text is not text.");
        assert_eq!(message(send(), r#"{"text":""}"#), "text is 0 bytes long, not 1 to 65536.");
        assert_eq!(message(send(), r#"{"text":"a","steer":1}"#), "steer is not true or false.");
        assert_eq!(
            message(Write::Close, r#"{"target":{}}"#),
            "target does not name one pane, tab or workspace."
        );
        assert_eq!(
            message(Write::Reopen, r#"{"sessionId":"a b"}"#),
            "sessionId holds white space."
        );
    }

    #[test]
    fn a_body_is_an_object() {
        assert_eq!(Body::read(b"[]").unwrap_err().code, "bad-request");
        assert_eq!(Body::read(b"{").unwrap_err().code, "bad-request");
        assert_eq!(
            Body::read(b"{\"a\":1}").unwrap().request_id().unwrap_err().message,
            "requestId is missing."
        );
    }

    #[test]
    fn the_order_of_fields_does_not_matter() {
        let one = Body::read(br#"{"b":{"y":1,"x":2},"a":0}"#).unwrap();
        let two = Body::read(br#"{"a":0, "b":{"x":2,"y":1}}"#).unwrap();
        assert_eq!(one.canonical(), two.canonical());
    }

    proptest! {
        #[test]
        fn no_body_panics(body in r#"\{("(text|target|wire|answer|requestId)":("[a-z]{0,3}"|\{\}|[0-9]|null),?){0,3}\}"#) {
            if let Ok(body) = Body::read(body.as_bytes()) {
                for write in [Write::Send { pane: "p".into() }, Write::Close, Write::Start, Write::Reopen, Write::Rename] {
                    let _ = read_action(write, &body);
                }
                let _ = read_hello(&body);
                let _ = body.request_id();
            }
        }
    }
}
