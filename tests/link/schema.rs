//! `src/link/schema.json` against what is really said: every message of these tests goes through it, in
//! both directions, and the link takes and refuses what the schema does.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Stdio;
use std::thread;

use serde_json::{Map, Value, json};

use crate::support::fake_herdr::write_program;
use crate::{Link, PROGRAM, User};

const SCHEMA: &str = include_str!("../../src/link/schema.json");

/// One conversation over the link, held to the schema as it goes.
pub(crate) struct Conversation {
    pub(crate) schema: Value,
    /// The methods of the requests that have no answer yet, by the JSON text of their ids.
    asked: RefCell<HashMap<String, String>>,
}

impl Conversation {
    pub(crate) fn new() -> Self {
        Self { schema: serde_json::from_str(SCHEMA).unwrap(), asked: RefCell::default() }
    }

    /// What is wrong with a value of this shape. A property that the schema does not name is wrong, too.
    fn faults(&self, shape: &Value, value: &Value) -> Vec<String> {
        let mut shape = shape.clone();
        shape["$defs"] = self.schema["$defs"].clone();
        refuse_unnamed(&mut shape);
        let validator = jsonschema::draft202012::new(&shape).unwrap();
        validator.iter_errors(value).map(|error| error.to_string()).collect()
    }

    fn check(&self, what: &str, shape: &Value, value: &Value) {
        let faults = self.faults(shape, value);
        assert!(faults.is_empty(), "{what}: {faults:?}");
    }

    /// Remembers what a line asks, which may be malformed.
    pub(crate) fn written(&self, line: &str) {
        let request: Value = serde_json::from_str(line).unwrap_or_default();
        if let (Some(method), Some(id)) = (request["method"].as_str(), request.get("id")) {
            self.asked.borrow_mut().insert(id.to_string(), method.to_owned());
        }
    }

    /// A request that is meant to be right.
    pub(crate) fn requested(&self, line: &str) {
        let request: Value = serde_json::from_str(line).unwrap();
        let method = request["method"].as_str().unwrap();
        let params = request.get("params").cloned().unwrap_or_else(|| json!({}));
        self.check(line, &self.schema["methods"][method]["params"], &params);
        self.written(line);
    }

    /// What the link says.
    pub(crate) fn read(&self, line: &str) {
        let message: Value = serde_json::from_str(line).unwrap();
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        let names: Vec<_> = message.as_object().unwrap().keys().map(String::as_str).collect();
        if let Some(method) = message["method"].as_str() {
            assert_eq!(names, ["jsonrpc", "method", "params"], "{line}");
            let shape = &self.schema["notifications"][method]["params"];
            return self.check(line, shape, &message["params"]);
        }
        let asked = self.asked.borrow_mut().remove(&message["id"].to_string());
        if message.get("error").is_some() {
            assert_eq!(names, ["error", "id", "jsonrpc"], "{line}");
            return self.check(line, &json!({"$ref": "#/$defs/error"}), &message["error"]);
        }
        assert_eq!(names, ["id", "jsonrpc", "result"], "{line}");
        let method = asked.unwrap_or_else(|| panic!("nobody asked for {line}"));
        self.check(line, &self.schema["methods"][method]["result"], &message["result"]);
    }

    fn resolved<'a>(&'a self, shape: &'a Value) -> &'a Value {
        match shape["$ref"].as_str() {
            Some(path) => self.schema.pointer(path.trim_start_matches('#')).unwrap(),
            None => shape,
        }
    }

    /// Values of a shape, the first with all that there can be: together they use each alternative.
    fn fitting(&self, shape: &Value) -> Vec<Value> {
        let shape = self.resolved(shape);
        if let Some(shapes) = shape["oneOf"].as_array() {
            return shapes.iter().flat_map(|shape| self.fitting(shape)).collect();
        }
        if let Some(words) = shape["enum"].as_array() {
            return words.clone();
        }
        match type_of(shape) {
            "string" => vec![json!("x")],
            "integer" | "number" => vec![shape.get("minimum").cloned().unwrap_or(json!(1))],
            "boolean" => vec![json!(true), json!(false)],
            "array" => {
                self.fitting(&shape["items"]).into_iter().map(|item| json!([item])).collect()
            }
            _ => {
                let each = properties(shape).into_iter();
                let each: Vec<_> = each.map(|(name, shape)| (name, self.fitting(&shape))).collect();
                let whole: Map<String, Value> =
                    each.iter().map(|(name, values)| (name.clone(), values[0].clone())).collect();
                let others = each.iter().flat_map(|(name, values)| {
                    values[1..].iter().map(|value| with(&whole, name, value.clone()))
                });
                let required = |(name, _): &(&String, &Value)| is_required(shape, name);
                let least: Map<String, Value> = whole
                    .iter()
                    .filter(required)
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect();
                let others: Vec<_> = others.chain([json!(least)]).collect();
                [vec![json!(whole)], others].concat()
            }
        }
    }

    /// Values that are not of a shape, each for one reason.
    fn unfitting(&self, shape: &Value) -> Vec<Value> {
        let shape = self.resolved(shape);
        if let Some(shapes) = shape["oneOf"].as_array() {
            return shapes.iter().flat_map(|shape| self.unfitting(shape)).collect();
        }
        if shape.get("enum").is_some() {
            // No number: serde takes one for the place of the word in its list.
            return vec![json!("nonsense"), json!(true), json!(["idle"])];
        }
        if shape["type"].is_array() {
            return vec![json!({}), json!(["x"])];
        }
        match type_of(shape) {
            "string" => vec![json!(5), json!(["x"]), json!({"x": "x"})],
            "integer" => vec![json!("1"), json!(1.5), json!(-1)],
            "number" => vec![json!("1"), json!(true)],
            "boolean" => vec![json!("true"), json!(1)],
            "array" => {
                let items = self.unfitting(&shape["items"]).into_iter().map(|item| json!([item]));
                items.chain([json!({}), json!("x")]).collect()
            }
            _ => {
                let whole = self.fitting(shape).swap_remove(0).as_object().cloned().unwrap();
                let mut all = vec![json!(["x"]), json!("x"), json!(5)];
                for (name, shape_of_it) in properties(shape) {
                    for value in self.unfitting(&shape_of_it) {
                        all.push(with(&whole, &name, value));
                    }
                    if is_required(shape, &name) {
                        let mut without = whole.clone();
                        without.remove(&name);
                        all.push(json!(without));
                    }
                }
                all
            }
        }
    }
}

fn type_of(shape: &Value) -> &str {
    shape["type"].as_str().or(shape["type"][0].as_str()).unwrap()
}

fn properties(shape: &Value) -> Map<String, Value> {
    shape["properties"].as_object().cloned().unwrap_or_default()
}

fn is_required(shape: &Value, name: &str) -> bool {
    shape["required"].as_array().is_some_and(|required| required.contains(&json!(name)))
}

fn with(object: &Map<String, Value>, name: &str, value: Value) -> Value {
    let mut object = object.clone();
    object.insert(name.to_owned(), value);
    json!(object)
}

fn refuse_unnamed(shape: &mut Value) {
    if let Some(shape) = shape.as_object_mut() {
        if shape
            .get("properties")
            .is_some_and(|named| named.get("type").is_none_or(Value::is_object))
        {
            shape.entry("additionalProperties").or_insert(json!(false));
        }
        shape.values_mut().for_each(refuse_unnamed);
    } else if let Some(shapes) = shape.as_array_mut() {
        shapes.iter_mut().for_each(refuse_unnamed);
    }
}

/// The schema is no rubber stamp: what is not of its shape is found, in any place.
#[test]
fn what_is_wrong_is_found() {
    let conversation = Conversation::new();
    for (method, shapes) in conversation.schema["methods"].as_object().unwrap() {
        for part in ["params", "result"] {
            let shape = &shapes[part];
            for value in conversation.fitting(shape) {
                let is_one_of_several = |shape: &Value| shape.get("maxProperties").is_some();
                if !properties(shape)
                    .values()
                    .any(|it| is_one_of_several(conversation.resolved(it)))
                {
                    conversation.check(method, shape, &value);
                }
            }
            for value in conversation.unfitting(shape) {
                let faults = conversation.faults(shape, &value);
                assert!(!faults.is_empty(), "{method} {part} takes {value}");
            }
            let unnamed = json!({"session": "s", "nonsense": 1});
            assert!(!conversation.faults(shape, &unnamed).is_empty(), "{method} {part}");
        }
    }
}

/// Every shape of the schema is taken, and every value that it forbids is refused as such.
#[test]
fn the_link_takes_and_refuses_what_the_schema_does() {
    let user = User::new();
    let mut link = Link::start(&user, None, "--takes all");
    let methods = link.conversation.schema["methods"].as_object().unwrap().clone();
    let mut number = 1000;
    // An ask is withdrawn as soon as it is raised; without one, that is refused.
    let mut outcome = |link: &mut Link, method: &str, params: &Value| {
        number += 2;
        link.write(
            &json!({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
                .to_string(),
        );
        let withdraw = json!({"request": number});
        link.request(number + 1, "withdraw", &withdraw);
        let answers = [link.read(), link.read()];
        answers.into_iter().find(|answer| answer["id"] == number).unwrap()
    };
    for (method, shapes) in &methods {
        let shape = &shapes["params"];
        for params in link.conversation.fitting(shape) {
            // Some methods end the session.
            link.call("open", &json!({"session": "x"}));
            let answer = outcome(&mut link, method, &params);
            let message = answer["error"]["message"].as_str().unwrap_or_default();
            assert!(!message.contains("`params`"), "{method} {params}: {message}");
        }
        for params in link.conversation.unfitting(shape) {
            link.call("open", &json!({"session": "x"}));
            let answer = outcome(&mut link, method, &params);
            assert_eq!(answer["error"]["code"], -32602, "{method} {params}: {answer}");
        }
    }
}

/// What the commands say to the link of the agent that they run in.
#[test]
fn the_commands_say_what_the_schema_says() {
    let user = User::new();
    let form = user.path().join("form.json");
    fs::write(&form, r#"[{"id": "n", "label": "How many?", "type": "number", "required": true}]"#)
        .unwrap();
    let socket = user.path().join("run/link.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).unwrap();
    let answering = thread::spawn(move || {
        let mut lines = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            for line in BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok) {
                if line == "end" {
                    return lines;
                }
                let result = json!({"id": "r", "decidedBy": "phone", "askId": "a", "approved": true,
                    "optionIds": ["a"], "agent": "toy"});
                let request: Value = serde_json::from_str(&line).unwrap();
                let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
                // A report does not wait long for its answer.
                let _ = writeln!(stream, "{answer}");
                lines.push(line);
            }
        }
        lines
    });
    let form = form.to_str().unwrap();
    let commands: [&[&str]; 14] = [
        &["state", "working"],
        &["state", "blocked", "--message", "log in"],
        &["say", "hello"],
        &["say", "--kind", "markdown", "--id", "r", "--partial", "hello"],
        &["ask", "Sure?"],
        &["ask", "--choice", "a=A", "--choice", "b=B", "--multiple", "--json", "Which?"],
        &[
            "ask",
            "--text",
            "--timeout",
            "10m",
            "--reason",
            "r",
            "--tool",
            "t()",
            "--call",
            "c",
            "N?",
        ],
        &["ask", "--form", form, "--item", "i", "Fill in"],
        &["approve", "rm"],
        &["approve", "--reason", "r", "--call", "c", "--timeout", "2s", "rm", "{\"b\": 1}"],
        &["session", "next"],
        &["session", "next", "--title", "T", "--keep", "--", "toy", "--resume", "next"],
        &["release"],
        &["status", "--json"],
    ];
    for command in commands {
        let mut run = user.command(PROGRAM);
        run.args(command).env("AGENT_PRESENCE_SOCKET", &socket).env("AGENT_PRESENCE_SESSION", "s");
        let output = run.stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{command:?}: {output:?}");
    }
    let mut end = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    writeln!(end, "end").unwrap();
    let lines = answering.join().unwrap();
    assert_eq!(lines.len(), commands.len());
    let conversation = Conversation::new();
    for line in &lines {
        conversation.requested(line);
    }
}

/// An `agent-presence` that keeps what is said to it and by it, for the examples.
pub(crate) fn recorder(user: &User) -> std::path::PathBuf {
    let path = user.path().join("recorder");
    let script = format!(
        "#!/bin/sh\ntee \"$HOME/requests\" | \"{PROGRAM}\" \"$@\" | tee \"$HOME/answers\"\n"
    );
    write_program(&path, &script);
    path
}

/// Holds what a recorder kept to the schema.
pub(crate) fn check_recorded(home: &Path) {
    let conversation = Conversation::new();
    let read = |name: &str| fs::read_to_string(home.join(name)).unwrap();
    let (requests, answers) = (read("requests"), read("answers"));
    assert!(requests.lines().count() > 10 && answers.lines().count() > 10);
    for line in requests.lines() {
        conversation.requested(line);
    }
    for line in answers.lines() {
        conversation.read(line);
    }
}
