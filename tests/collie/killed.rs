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

/// A life that was killed: its ask, what was posted, its answer if there was one, and whether the
/// agent had the person's word.
struct Before {
    ask: String,
    path: String,
    body: Value,
    first: Option<Value>,
    was_told: bool,
}

#[test]
fn no_acknowledged_answer_is_lost_by_a_kill() {
    let folder = folder();
    let records = folder.path().join("records");
    let kills: u64 =
        std::env::var("COLLIE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(300);
    let (mut acknowledged, mut delivered, mut twice, mut cards) = (0, 0, 0, 0);
    let mut before = None::<Before>;
    for round in 0..=kills {
        let mut agent = Agent::start_with(folder.path(), &[&records]);
        if let Some(Before { ask, path, body, first, was_told }) = before.take() {
            let card = agent.phone.pane("p")["asks"]
                .as_array()
                .unwrap()
                .iter()
                .any(|open| open["id"] == *ask);
            if let Some(first) = &first {
                let mut again = post(&agent.socket(), &path, &body).expect("it is answered again");
                assert_eq!(again.as_object_mut().unwrap().remove("replayed"), Some(json!(true)));
                assert_eq!(again, *first);
                assert!(!card, "{ask} was answered, and is not asked again");
                acknowledged += 1;
            }
            cards += u32::from(card);
            // The agent asks again. What it was told is over; what it was not told is its answer now.
            for line in [format!("ask {ask}"), format!("withdraw {ask}"), "tool echo over".into()] {
                agent.say(&line);
            }
            let said: Vec<String> = std::iter::repeat_with(|| agent.line())
                .take_while(|line| line != "tool over")
                .collect();
            let has_it = said.contains(&format!("answer {ask} allow"));
            assert!(!(card && has_it), "{ask} was open and answered");
            if first.is_some() && !was_told {
                assert!(has_it, "{ask} was acknowledged and lost: {said:?}");
            }
            delivered += u32::from(has_it && !was_told);
            twice += u32::from(has_it && was_told);
        }
        before = Some(one_life(agent, round));
    }
    assert!(acknowledged > 0, "the kills were all too early to show anything");
    println!("{acknowledged} acknowledged, {delivered} delivered later, {cards} cards kept");
    // Only where the kill came between the agent's having it and the note of that.
    println!("{twice} delivered once more");
}

fn one_life(mut agent: Agent, round: u64) -> Before {
    let ask = format!("q{round}");
    agent.say(&format!("ask {ask}"));
    while agent.line() != "done ask" {}
    let path = format!("panes/p/asks/{ask}");
    let body = json!({"requestId": format!("r{round}"), "answer": {"optionIds": ["allow"]}});
    let socket = agent.socket();
    let posting = std::thread::spawn({
        let (path, body) = (path.clone(), body.clone());
        move || post(&socket, &path, &body)
    });
    // From before the answer arrives to after it has left.
    std::thread::sleep(Duration::from_micros(round * 37 % 1500));
    let said = agent.kill();
    let first = posting.join().unwrap();
    let was_told = said.contains(&format!("answer {ask} allow"));
    Before { ask, path, body, first, was_told }
}
