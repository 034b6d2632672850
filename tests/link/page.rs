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
            link.write(written);
        } else {
            let read = link.lines.recv_timeout(crate::PATIENCE).unwrap();
            assert_eq!(Some(read.as_str()), line.strip_prefix("< "));
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
        link.request(1, method, &json!({}));
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
