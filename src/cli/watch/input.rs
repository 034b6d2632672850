//! What is being typed, and what for: a text for the agent, or the answer to a card.

use serde_json::{Map, Number, Value};

use crate::collie::{AnswerValue, AskKind, AskView, Field, FieldKind};

/// A line that is being typed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Input {
    purpose: Purpose,
    text: String,
    /// Why the line was not taken.
    problem: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Purpose {
    Send { pane: String, steer: bool },
    Answer { pane: String, ask: Box<AskView>, values: Map<String, Value> },
}

/// What was typed, whole.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Typed {
    Send { pane: String, text: String, steer: bool },
    Answer { pane: String, ask: String, hash: String, value: AnswerValue },
}

impl Input {
    /// A text for the agent's next turn, or into the running one.
    pub(super) fn send(pane: &str, steer: bool) -> Self {
        Self::of(Purpose::Send { pane: pane.to_owned(), steer })
    }

    /// The answer to a card that is typed; other cards take keys.
    pub(super) fn answer(pane: &str, ask: &AskView) -> Option<Self> {
        let is_typed = matches!(ask.kind, AskKind::Text { .. } | AskKind::Form { .. });
        let (pane, ask, values) = (pane.to_owned(), Box::new(ask.clone()), Map::new());
        is_typed.then(|| Self::of(Purpose::Answer { pane, ask, values }))
    }

    fn of(purpose: Purpose) -> Self {
        Self { purpose, text: String::new(), problem: None }
    }

    /// The card that is answered.
    pub(super) fn card(&self) -> Option<&AskView> {
        match &self.purpose {
            Purpose::Send { .. } => None,
            Purpose::Answer { ask, .. } => Some(ask),
        }
    }

    /// What the line is, in words.
    pub(super) fn label(&self) -> String {
        let label = match &self.purpose {
            Purpose::Send { steer: false, .. } => "Send".to_owned(),
            Purpose::Send { steer: true, .. } => "Send into the running turn".to_owned(),
            Purpose::Answer { ask, .. } => match (&ask.kind, self.field()) {
                (_, Some(field)) => field_label(field),
                (AskKind::Text { placeholder: Some(placeholder), .. }, _) => placeholder.clone(),
                _ => ask.title.clone(),
            },
        };
        match &self.problem {
            Some(problem) => format!("{label}: {problem}"),
            None => label,
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn push(&mut self, character: char) {
        if !character.is_control() {
            self.text.push(character);
        }
    }

    pub(super) fn pop(&mut self) {
        self.text.pop();
    }

    /// Takes the line: all that was typed, if nothing more is to be typed.
    pub(super) fn enter(&mut self) -> Option<Typed> {
        self.problem = None;
        let field = self.field().cloned();
        let text = std::mem::take(&mut self.text);
        match (&mut self.purpose, field) {
            (Purpose::Send { pane, steer }, _) => {
                let (pane, steer) = (pane.clone(), *steer);
                (!text.is_empty()).then_some(Typed::Send { pane, text, steer })
            }
            (Purpose::Answer { values, .. }, Some(field)) => match value_of(&field, text.trim()) {
                Ok(value) => {
                    values.insert(field.id, value);
                    if self.field().is_some() { None } else { self.answered(String::new()) }
                }
                Err(problem) => {
                    (self.text, self.problem) = (text, Some(problem));
                    None
                }
            },
            (Purpose::Answer { .. }, None) if text.is_empty() => None,
            (Purpose::Answer { .. }, None) => self.answered(text),
        }
    }

    /// The field of the form that is typed now.
    fn field(&self) -> Option<&Field> {
        let Purpose::Answer { ask, values, .. } = &self.purpose else { return None };
        let AskKind::Form { fields } = &ask.kind else { return None };
        fields.iter().find(|field| !values.contains_key(&field.id))
    }

    fn answered(&self, text: String) -> Option<Typed> {
        let Purpose::Answer { pane, ask, values } = &self.purpose else { return None };
        let value = match &ask.kind {
            AskKind::Form { .. } => {
                // What was left out is no value.
                let given = values.iter().filter(|(_, value)| !value.is_null());
                AnswerValue::Values(given.map(|(id, value)| (id.clone(), value.clone())).collect())
            }
            _ => AnswerValue::Text(text),
        };
        let (pane, ask, hash) = (pane.clone(), ask.id.clone(), ask.hash.clone());
        Some(Typed::Answer { pane, ask, hash, value })
    }
}

fn field_label(field: &Field) -> String {
    let kind = match field.kind {
        FieldKind::Text => String::new(),
        FieldKind::Number => " (a number)".to_owned(),
        FieldKind::Boolean => " (y or n)".to_owned(),
        FieldKind::Choice => {
            let options = field.options.iter().enumerate();
            let options = options.map(|(place, option)| format!("{} {}", place + 1, option.label));
            format!(" ({})", options.collect::<Vec<_>>().join(", "))
        }
    };
    let optional = if field.required { "" } else { ", may be left out" };
    format!("{}{kind}{optional}", field.label)
}

/// The value of a field; null for one that is left out.
fn value_of(field: &Field, text: &str) -> Result<Value, String> {
    if text.is_empty() {
        return if field.required { Err("it is needed".to_owned()) } else { Ok(Value::Null) };
    }
    match field.kind {
        FieldKind::Text => Ok(text.into()),
        FieldKind::Number => {
            let number: Option<Number> = text.parse().ok();
            number.map(Value::Number).ok_or_else(|| "that is no number".to_owned())
        }
        FieldKind::Boolean => match text.to_lowercase().as_str() {
            "y" | "yes" => Ok(true.into()),
            "n" | "no" => Ok(false.into()),
            _ => Err("that is neither y nor n".to_owned()),
        },
        FieldKind::Choice => {
            let place = text.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            let option = place.and_then(|place| field.options.get(place));
            let option = option.map(|option| option.id.as_str().into());
            option.ok_or_else(|| "that is none of the numbers".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ask(kind: &Value) -> AskView {
        let mut ask =
            json!({"id": "a", "title": "T", "hash": "h", "openedAt": "2026-11-30T14:53:46.120Z"});
        let fields = ask.as_object_mut().unwrap();
        fields.extend(kind.as_object().unwrap().clone());
        serde_json::from_value(ask).unwrap()
    }

    fn type_line(input: &mut Input, line: &str) -> Option<Typed> {
        line.chars().for_each(|character| input.push(character));
        input.enter()
    }

    #[test]
    fn a_text_is_sent_whole_and_an_empty_one_is_not() {
        let mut input = Input::send("p", true);
        assert_eq!(type_line(&mut input, ""), None);
        input.push('\u{7}');
        let sent = Typed::Send { pane: "p".to_owned(), text: "hi".to_owned(), steer: true };
        assert_eq!(type_line(&mut input, "hi"), Some(sent));
    }

    #[test]
    fn a_text_card_is_answered_with_its_line() {
        let ask = ask(&json!({"kind": "text"}));
        let mut input = Input::answer("p", &ask).unwrap();
        let Some(Typed::Answer { value, hash, .. }) = type_line(&mut input, "Ada") else {
            panic!()
        };
        assert_eq!((value, hash.as_str()), (AnswerValue::Text("Ada".to_owned()), "h"));
    }

    #[test]
    fn a_form_is_filled_in_field_by_field() {
        let ask = ask(&json!({"kind": "form", "fields": [
            {"id": "n", "label": "How many", "type": "number", "required": true},
            {"id": "b", "label": "Fast", "type": "boolean"},
            {"id": "t", "label": "Why", "type": "text"},
            {"id": "c", "label": "Which", "type": "choice",
             "options": [{"id": "x", "label": "X"}, {"id": "y", "label": "Y"}]},
        ]}));
        let mut input = Input::answer("p", &ask).unwrap();
        assert_eq!(input.label(), "How many (a number)");
        assert_eq!(type_line(&mut input, "many"), None);
        assert_eq!(input.label(), "How many (a number): that is no number");
        (0..4).for_each(|_| input.pop());
        assert_eq!(type_line(&mut input, ""), None);
        assert_eq!(input.label(), "How many (a number): it is needed");
        for line in ["3", "y", ""] {
            assert_eq!(type_line(&mut input, line), None);
        }
        assert_eq!(input.label(), "Which (1 X, 2 Y), may be left out");
        let Some(Typed::Answer { value, .. }) = type_line(&mut input, "2") else { panic!() };
        let expected = json!({"n": 3, "b": true, "c": "y"}).as_object().unwrap().clone();
        assert_eq!(value, AnswerValue::Values(expected));
    }
}
