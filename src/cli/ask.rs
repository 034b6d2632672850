//! `agent-presence ask`: the agent asks the user to choose.

use std::time::Duration;

use super::inside::{self, Inside};
use super::{Exit, Failure, output};
use crate::collie::DecidedBy;
use crate::link::{AskParams, AskResult, OptionParam, method};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// One choice: the id that is printed when it is picked, and what the user reads. 2 to 20 of
    /// them; none: Yes and No.
    #[arg(long, value_name = "ID=LABEL", value_parser = choice)]
    choice: Vec<Choice>,
    /// Give up after this time, such as `10m`.
    #[arg(long, value_name = "TIME", value_parser = inside::duration)]
    timeout: Option<Duration>,
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

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let mut inside = Inside::find()?;
    let option = |id: &str, label: &str| OptionParam { id: id.to_owned(), label: label.to_owned() };
    let mut options: Vec<_> =
        arguments.choice.iter().map(|choice| option(&choice.id, &choice.label)).collect();
    if options.is_empty() {
        options = vec![option("yes", "Yes"), option("no", "No")];
    }
    let params = AskParams {
        session: inside.session.clone(),
        title: arguments.title,
        options,
        timeout_ms: arguments.timeout.map(inside::milliseconds),
    };
    let result: AskResult = inside.ask(method::ASK, &params)?;
    match result.option_ids.as_deref() {
        Some([id]) => {
            output::print(id).map_err(|error| Failure::new(Exit::Failed, error))?;
            Ok(Exit::Done)
        }
        Some(_) => Err(Failure::new(Exit::Failed, "the answer is not one choice")),
        None if result.decided_by == DecidedBy::Timeout => {
            Err(Failure::new(Exit::TimedOut, "nobody answered in time"))
        }
        None => Err(Failure::new(Exit::Denied, "the question was closed without an answer")),
    }
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
