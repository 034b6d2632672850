//! What `src/link/LINK.md` and `src/link/schema.json` say is so.

use std::thread;

use serde_json::{Value, json};

use crate::support::phone::Phone;
use crate::{Link, User};

const PAGE: &str = include_str!("../../src/link/LINK.md");
const SCHEMA: &str = include_str!("../../src/link/schema.json");

/// The transcript of the page, replayed: every line that it shows as read is read, byte for byte.
#[test]
fn the_transcript_is_what_happens() {
    let user = User::new();
    let mut link = Link::start(&user, None, "--takes send");
    let socket = user.socket("prog");
    let phone = thread::spawn(move || {
        let phone = Phone::at(socket);
        phone.wait_ready();
        // Refused until the agent has subscribed and accepts; the request waits for that.
        phone.post("panes/s-1/send", &json!({"requestId": "r1", "text": "Deploy it"}));
        let (pane, ask) = phone.wait_for_ask();
        phone.answer(&pane, ask["id"].as_str().unwrap(), &json!({"optionIds": ["allow"]}));
    });
    let transcript = PAGE.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    for line in transcript.lines() {
        if let Some(written) = line.strip_prefix("> ") {
            if !written.contains("\"answer\"") {
                link.conversation.requested(written);
            }
            link.write(written);
        } else {
            assert_eq!(Some(link.read_line().as_str()), line.strip_prefix("< "));
        }
    }
    phone.join().unwrap();
    assert_eq!(link.end(), Some(0));
}

#[test]
fn the_schema_names_what_there_is() {
    let user = User::new();
    let mut link = Link::start(&user, None, "");
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let methods = schema["methods"].as_object().unwrap();
    for (method, shape) in methods {
        assert!(PAGE.contains(&format!("| `{method}` |")), "{method} is not on the page");
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}});
        link.write(&request.to_string());
        let answer = link.read();
        // Without its parameters it says which one is missing, unless it needs none.
        let required = &shape["params"]["required"];
        if required.is_null() {
            assert!(answer["result"].is_object(), "{method}: {answer}");
        } else {
            assert_eq!(answer["error"]["code"], -32602, "{method}");
            let message = answer["error"]["message"].as_str().unwrap();
            let names = required.as_array().unwrap().iter();
            let mut names = names.map(|name| format!("`{}`", name.as_str().unwrap()));
            assert!(names.any(|name| message.contains(&name)), "{method}: {message}");
        }
    }
    // And the page has no method that is not in the schema.
    let rows = PAGE.split("## Methods").nth(1).unwrap().split("## Wishes").next().unwrap();
    let rows = rows.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(rows, methods.len());
}

/// The methods mirror the API one to one: every public call of these types is in the page's table, and
/// whatever the table names beside it is there.
#[test]
fn every_call_of_the_api_has_its_method() {
    let table = PAGE.split("## The same in Rust").nth(1).unwrap();
    let rows: Vec<(&str, &str)> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "))
        .skip(1)
        .collect();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/presence");
    let mut calls = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let mut of = None;
        for line in text.lines() {
            if let Some(named) = line.strip_prefix("impl ") {
                of = named
                    .strip_suffix(" {")
                    .filter(|named| named.chars().all(char::is_alphanumeric));
            }
            let call = line.strip_prefix("    pub fn ").or(line.strip_prefix("    pub async fn "));
            if let (Some(of), Some(call)) = (of, call) {
                let name = call.split(['(', '<']).next().unwrap();
                calls.push((of.to_owned(), format!("`{of}::{name}`")));
            }
        }
    }
    assert!(calls.len() > 60, "{calls:?}");
    for (of, call) in &calls {
        // What only prepares something has one row for all of its calls: their names are parameters.
        let is_there = |(rust, _): &(&str, &str)| {
            rust.contains(call) || rust.split(", ").any(|part| part == format!("`{of}`"))
        };
        assert!(rows.iter().any(is_there), "{call} is not in the table of LINK.md");
    }
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let methods = schema["methods"].as_object().unwrap();
    let is_code = |(place, word): (usize, &'static str)| (place % 2 == 1).then_some(word);
    let named: Vec<&str> =
        rows.iter().flat_map(|(_, here)| here.split('`').enumerate().filter_map(is_code)).collect();
    for method in methods.keys() {
        assert!(named.contains(&method.as_str()), "{method} mirrors no call");
    }
    for (call, method) in [("Session::block", "block"), ("Session::turn", "turn")] {
        let here = rows.iter().find(|(rust, _)| rust.contains(&format!("`{call}`"))).unwrap().1;
        assert!(here.contains(&format!("`{method}`")) && methods.contains_key(method));
    }
    // And the builders' calls are parameters or options.
    for (of, call) in calls.iter().filter(|(of, _)| of == "Question" || of == "ApprovalQuestion") {
        let name = call.trim_matches('`').rsplit("::").next().unwrap();
        let parameter = match name {
            "option" => "options",
            "several" => "multiple",
            "max_length" => "maxLength",
            "timeout" => "timeoutMs",
            "raise" => continue,
            same => same,
        };
        let method = if of == "Question" { "ask" } else { "approve" };
        let parameters = &schema["methods"][method]["params"]["properties"];
        assert!(parameters.get(parameter).is_some(), "{call} has no parameter {parameter}");
    }
}
