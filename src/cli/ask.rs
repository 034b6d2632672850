//! `agent-presence ask`: the agent asks the user a question.

use std::fs;
use std::path::{Path, PathBuf};

use super::inside::{self, Inside};
use super::{Exit, Failure, output};
use crate::collie::{AskOption, DecidedBy, Field};
use crate::link::{AskParams, AskResult, AskWord, method};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// One choice: the id that is printed when it is picked, and what the user reads. 2 to 20 of
    /// them; none: Yes and No.
    #[arg(long, value_name = "ID=LABEL", value_parser = choice)]
    choice: Vec<Choice>,
    /// The user may pick several choices; each is printed on a line.
    #[arg(long, conflicts_with_all = ["text", "form"])]
    multiple: bool,
    /// The user types a line, which is printed.
    #[arg(long, conflicts_with_all = ["choice", "form"])]
    text: bool,
    /// The user fills in a form: a file of JSON with a list of 1 to 20 fields, such as
    /// `[{"id": "n", "label": "How many?", "type": "number", "required": true}]`. The types are text,
    /// number, boolean and choice (with `options`). The values are printed as one line of JSON.
    #[arg(long, value_name = "FILE", conflicts_with = "choice")]
    form: Option<PathBuf>,
    #[command(flatten)]
    about: inside::About,
    /// The tool's line, such as `refund(order: "5521")`.
    #[arg(long, value_name = "LINE")]
    tool: Option<String>,
    /// Print the whole outcome as one line of JSON.
    #[arg(long)]
    json: bool,
    /// The question.
    title: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Choice {
    id: String,
    label: String,
}

fn choice(text: &str) -> Result<Choice, String> {
    let (id, label) = text.split_once('=').ok_or("there is no `=` in it: ID=LABEL")?;
    if id.is_empty() {
        return Err("there is no id before the `=`".to_owned());
    }
    if label.trim().is_empty() {
        return Err("there is no label after the `=`".to_owned());
    }
    Ok(Choice { id: id.to_owned(), label: label.to_owned() })
}

fn fields(file: &Path) -> Result<Vec<Field>, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(Exit::Usage, format!("the form {} is no use: {error}", file.display()))
    };
    let text = fs::read_to_string(file).map_err(|error| failed(&error))?;
    serde_json::from_str(&text).map_err(|error| failed(&error))
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let mut params = AskParams {
        title: arguments.title,
        multiple: arguments.multiple,
        tool: arguments.tool,
        reason: arguments.about.reason,
        call: arguments.about.call,
        item: arguments.about.item,
        timeout_ms: arguments.about.timeout.map(inside::milliseconds),
        ..AskParams::default()
    };
    if let Some(file) = &arguments.form {
        params.kind = AskWord::Form;
        params.fields = fields(file)?;
    } else if arguments.text {
        params.kind = AskWord::Text;
    } else if arguments.choice.is_empty() {
        params.options = vec![AskOption::new("yes", "Yes"), AskOption::new("no", "No")];
    } else {
        let options = arguments.choice.iter();
        params.options = options.map(|choice| AskOption::new(&choice.id, &choice.label)).collect();
    }
    let mut inside = Inside::find()?;
    params.session.clone_from(&inside.session);
    let result: AskResult = inside.ask(method::ASK, &params)?;
    if arguments.json {
        output::print_json(&result)?;
    }
    match answer(&result) {
        Some(_) if arguments.json => Ok(Exit::Done),
        Some(answer) => output::print(&answer).map(|()| Exit::Done),
        None if result.decided_by == DecidedBy::Timeout => {
            Err(Failure::new(Exit::TimedOut, "nobody answered in time"))
        }
        None => Err(Failure::new(Exit::Denied, "the question was closed without an answer")),
    }
}

/// The answer as text; none if there was none.
fn answer(result: &AskResult) -> Option<String> {
    let values = || Some(serde_json::Value::Object(result.values.clone()?).to_string());
    let options = || result.option_ids.as_ref().map(|ids| ids.join("\n"));
    options().or_else(|| result.text.clone()).or_else(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_an_id_and_a_label() {
        let parsed = Choice { id: "a".to_owned(), label: "b=c".to_owned() };
        assert_eq!(choice("a=b=c"), Ok(parsed));
        for text in ["", "a", "=b", "a=", "a= "] {
            assert!(choice(text).is_err(), "{text}");
        }
    }
}
