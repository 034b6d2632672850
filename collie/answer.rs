//! Answers, and whether they fit their ask.

use std::time::SystemTime;

use serde_json::{Map, Value};

use super::wire::{AnswerValue, AskKind, AskOption, DecidedBy, Field, FieldKind};

/// A person's answer to an ask.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Answer {
    /// What was answered, in the shape of the ask's kind.
    pub value: AnswerValue,
    /// When.
    pub decided_at: SystemTime,
}

impl Answer {
    /// The ids of the chosen options: one for an approval or a plain choice (N074).
    pub fn option_ids(&self) -> &[String] {
        match &self.value {
            AnswerValue::Options(ids) => ids,
            AnswerValue::Text(_) | AnswerValue::Values(_) => &[],
        }
    }

    /// The typed line.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            AnswerValue::Text(text) => Some(text),
            AnswerValue::Options(_) | AnswerValue::Values(_) => None,
        }
    }

    /// The values of a form, by field.
    pub fn values(&self) -> Option<&Map<String, Value>> {
        match &self.value {
            AnswerValue::Values(values) => Some(values),
            AnswerValue::Options(_) | AnswerValue::Text(_) => None,
        }
    }

    /// An approval was given, this time or for always.
    pub fn allowed(&self) -> bool {
        self.option_ids().iter().any(|id| id == "allow" || id == "allow-always")
    }

    /// An approval was given for always (N103).
    pub fn allowed_always(&self) -> bool {
        self.option_ids().iter().any(|id| id == "allow-always")
    }
}

/// An ask that was closed without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ask was closed by {}", self.words())]
#[non_exhaustive]
pub struct AskClosed {
    /// `Program` or `Timeout` (N087, N090).
    pub decided_by: DecidedBy,
    /// When.
    pub decided_at: SystemTime,
}

impl AskClosed {
    fn words(&self) -> &'static str {
        match self.decided_by {
            DecidedBy::Phone => "the phone",
            DecidedBy::Program => "the agent",
            DecidedBy::Timeout => "its timeout",
        }
    }
}

/// The answer that `fields` give to an ask of `kind`, or one sentence that says what does not fit.
pub(crate) fn fitting_answer(
    kind: &AskKind,
    fields: &Map<String, Value>,
) -> Result<AnswerValue, String> {
    match kind {
        AskKind::Approval { options } => chosen(fields, options, 1, 1).map(AnswerValue::Options),
        AskKind::Choice { options, multiple, min, max } => {
            let (least, most) = if *multiple {
                let all = u32::try_from(options.len()).unwrap_or(u32::MAX);
                (min.unwrap_or(1), max.unwrap_or(all))
            } else {
                (1, 1)
            };
            chosen(fields, options, least, most).map(AnswerValue::Options)
        }
        AskKind::Text { max_length, .. } => {
            typed(fields, max_length.unwrap_or(4000)).map(AnswerValue::Text)
        }
        AskKind::Form { fields: form } => filled(fields, form).map(AnswerValue::Values),
    }
}

fn chosen(
    answer: &Map<String, Value>,
    options: &[AskOption],
    least: u32,
    most: u32,
) -> Result<Vec<String>, String> {
    let Some(Value::Array(ids)) = answer.get("optionIds") else {
        return Err("answer.optionIds is not a list.".to_owned());
    };
    let mut chosen: Vec<String> = Vec::new();
    for id in ids {
        let known = options.iter().find(|option| Some(option.id.as_str()) == id.as_str());
        let Some(option) = known else {
            return Err("answer.optionIds names an unknown option.".to_owned());
        };
        if chosen.contains(&option.id) {
            return Err("answer.optionIds names an option twice.".to_owned());
        }
        chosen.push(option.id.clone());
    }
    let count = u32::try_from(chosen.len()).unwrap_or(u32::MAX);
    if count < least || count > most {
        return Err(format!("answer.optionIds has {count} options, not {least} to {most}."));
    }
    Ok(chosen)
}

fn typed(answer: &Map<String, Value>, most: u32) -> Result<String, String> {
    let Some(Value::String(text)) = answer.get("text") else {
        return Err("answer.text is not text.".to_owned());
    };
    let length = text.chars().count();
    if length == 0 || length > most as usize {
        return Err(format!("answer.text is {length} characters long, not 1 to {most}."));
    }
    Ok(text.clone())
}

fn filled(answer: &Map<String, Value>, form: &[Field]) -> Result<Map<String, Value>, String> {
    let Some(Value::Object(values)) = answer.get("values") else {
        return Err("answer.values is not an object.".to_owned());
    };
    if values.keys().any(|id| form.iter().all(|field| field.id != *id)) {
        return Err("answer.values names an unknown field.".to_owned());
    }
    for field in form {
        let id = &field.id;
        let fits = match (values.get(id), field.kind) {
            (None, _) if field.required => return Err(format!("answer.values.{id} is missing.")),
            (Some(Value::String(text)), FieldKind::Text) => {
                text.chars().count() <= 4000 && !(field.required && text.is_empty())
            }
            (None, _)
            | (Some(Value::Number(_)), FieldKind::Number)
            | (Some(Value::Bool(_)), FieldKind::Boolean) => true,
            (Some(Value::String(chosen)), FieldKind::Choice) => {
                field.options.iter().any(|option| option.id == *chosen)
            }
            _ => false,
        };
        if !fits {
            return Err(format!("answer.values.{id} does not fit its field."));
        }
    }
    Ok(values.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fit(kind: &AskKind, answer: &Value) -> Result<AnswerValue, String> {
        fitting_answer(kind, answer.as_object().unwrap())
    }

    fn options(ids: &[&str]) -> Vec<AskOption> {
        ids.iter().map(|id| AskOption::new(*id, *id)).collect()
    }

    #[test]
    fn n074_a_choice_is_answered_with_option_ids() {
        let one = AskKind::Choice {
            options: options(&["yes", "no"]),
            multiple: false,
            min: None,
            max: None,
        };
        let yes = AnswerValue::Options(vec!["yes".to_owned()]);
        assert_eq!(fit(&one, &json!({"optionIds": ["yes"]})), Ok(yes));
        for bad in [
            json!({}),
            json!({"optionIds": "yes"}),
            json!({"optionIds": []}),
            json!({"optionIds": ["yes", "no"]}),
            json!({"optionIds": ["yes", "yes"]}),
            json!({"optionIds": ["maybe"]}),
            json!({"optionIds": [1]}),
            json!({"text": "yes"}),
        ] {
            assert!(fit(&one, &bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn n075_several_of_many_hold_to_their_bounds() {
        let kind = AskKind::Choice {
            options: options(&["a", "b", "c"]),
            multiple: true,
            min: Some(2),
            max: None,
        };
        assert!(fit(&kind, &json!({"optionIds": ["a"]})).is_err());
        assert!(fit(&kind, &json!({"optionIds": ["a", "c"]})).is_ok());
    }

    #[test]
    fn n075_text_and_forms_are_checked() {
        let text = AskKind::Text { placeholder: None, max_length: Some(3) };
        assert!(fit(&text, &json!({"text": "äöü"})).is_ok());
        assert!(fit(&text, &json!({"text": "abcd"})).is_err());
        let form = AskKind::Form {
            fields: vec![
                Field::new("n", "N", FieldKind::Number).required(),
                Field::new("b", "B", FieldKind::Boolean),
                Field::new("c", "C", FieldKind::Choice).options(options(&["x", "y"])),
            ],
        };
        assert!(fit(&form, &json!({"values": {"n": 1.5, "c": "x"}})).is_ok());
        for bad in [
            json!({"values": {}}),
            json!({"values": {"n": "1"}}),
            json!({"values": {"n": 1, "c": "z"}}),
            json!({"values": {"n": 1, "other": 2}}),
        ] {
            assert!(fit(&form, &bad).is_err(), "{bad}");
        }
    }
}
