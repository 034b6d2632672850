//! kill -9 while answers are given. `COLLIE_KILLS` sets how often.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::agent::{Agent, folder};

/// Posts, and gives the body of a whole 200; anything else was not acknowledged.
fn post(socket: &Path, path: &str, body: &Value) -> Option<Value> {
    let body = body.to_string();
    let request = format!(
        "POST /durable/v1/{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200").then(|| serde_json::from_str(body).ok())?
}

#[test]
fn no_acknowledged_answer_is_lost_by_a_kill() {
    let folder = folder();
    let receipts = folder.path().join("receipts");
    let kills: u64 =
        std::env::var("COLLIE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(300);
    let (mut acknowledged, mut before) = (0, None::<(String, Value, Value)>);
    for round in 0..=kills {
        let mut agent = Agent::start_with(folder.path(), &[&receipts]);
        if let Some((path, body, first)) = before.take() {
            let mut again = post(&agent.socket(), &path, &body).expect("it is answered again");
            assert_eq!(again.as_object_mut().unwrap().remove("replayed"), Some(json!(true)));
            assert_eq!(again, first);
            acknowledged += 1;
        }
        let ask = format!("q{round}");
        agent.tell(&format!("ask {ask}"));
        let path = format!("panes/p/asks/{ask}");
        let body = json!({"requestId": format!("r{round}"), "answer": {"optionIds": ["allow"]}});
        let socket = agent.socket();
        let posting = std::thread::spawn({
            let (path, body) = (path.clone(), body.clone());
            move || post(&socket, &path, &body)
        });
        // From before the answer arrives to after it has left.
        std::thread::sleep(Duration::from_micros(round * 37 % 1500));
        agent.kill();
        before = posting.join().unwrap().map(|first| (path, body, first));
    }
    assert!(acknowledged > 0, "the kills were all too early to show anything");
}
