//! Any interleaving of calls, answers, timeouts and failures of a face ends with both faces equal to
//! the model; and of many asks none is lost or doubled.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use agent_presence::presence::{Ask, Block, Session};
use proptest::prelude::*;
use proptest::test_runner::Config;
use serde_json::{Value, json};

use crate::support::fake_herdr::Behaviour;
use crate::support::phone::Phone;
use crate::{FakeHerdr, rig};

/// What the agent does.
#[derive(Clone, Copy, Debug)]
enum Call {
    Working,
    Idle,
    Blocked,
    Ask,
    AskFor { milliseconds: u64 },
    DropAsk,
    Block,
    Unblock,
    Say,
    HerdrFails,
    HerdrRecovers,
    Pause { milliseconds: u64 },
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        3 => Just(Call::Working),
        3 => Just(Call::Idle),
        1 => Just(Call::Blocked),
        3 => Just(Call::Ask),
        2 => (0..20_u64).prop_map(|milliseconds| Call::AskFor { milliseconds }),
        1 => Just(Call::DropAsk),
        1 => Just(Call::Block),
        2 => Just(Call::Unblock),
        1 => Just(Call::Say),
        1 => Just(Call::HerdrFails),
        1 => Just(Call::HerdrRecovers),
        1 => (0..10_u64).prop_map(|milliseconds| Call::Pause { milliseconds }),
    ]
}

/// The agent: what it holds, and what it said last.
struct Agent<'a> {
    session: &'a Session,
    herdr: &'a FakeHerdr,
    asks: Vec<Ask>,
    blocks: Vec<Block>,
    base: &'static str,
}

impl Agent<'_> {
    fn does(&mut self, call: Call) {
        let question = || self.session.ask("Go on?").option("y", "Yes").option("n", "No");
        match call {
            Call::Working => {
                self.session.working();
                self.base = "working";
            }
            Call::Idle => {
                self.session.idle();
                self.base = "idle";
            }
            Call::Blocked => {
                self.session.blocked("log in");
                self.base = "blocked";
            }
            Call::Ask => self.asks.push(question().raise().unwrap()),
            Call::AskFor { milliseconds } => {
                let limit = Duration::from_millis(milliseconds);
                self.asks.push(question().timeout(limit).raise().unwrap());
            }
            Call::DropAsk => drop(self.asks.pop()),
            Call::Block => self.blocks.push(self.session.block("press a key")),
            Call::Unblock => drop(self.blocks.pop()),
            Call::Say => drop(self.session.say("hello").unwrap()),
            Call::HerdrFails => self.herdr.set_usual(Behaviour::Hangs),
            Call::HerdrRecovers => self.herdr.set_usual(Behaviour::Answers),
            Call::Pause { milliseconds } => thread::sleep(Duration::from_millis(milliseconds)),
        }
    }

    /// How many asks wait for the user, as the agent knows it.
    fn open_asks(&mut self) -> usize {
        let mut context = Context::from_waker(Waker::noop());
        self.asks.retain_mut(|ask| {
            let ask = std::pin::Pin::new(ask);
            matches!(Future::poll(ask, &mut context), Poll::Pending)
        });
        self.asks.len()
    }
}

/// Answers whatever is open, in an order of its own, until it is told to stop.
fn answer(socket: &std::path::Path, picks: &[u8], stop: &AtomicBool) {
    let phone = Phone::at(socket);
    for pick in picks {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let asks = phone.pane("s")["asks"].as_array().unwrap().clone();
        if !asks.is_empty() {
            let ask = &asks[usize::from(*pick) % asks.len()];
            let option = if pick % 2 == 0 { "y" } else { "n" };
            phone.answer("s", ask["id"].as_str().unwrap(), &json!({"optionIds": [option]}));
        }
    }
}

proptest! {
    #![proptest_config(Config { cases: 12, max_shrink_iters: 4, failure_persistence: None, ..Config::default() })]

    #[test]
    fn both_faces_equal_the_model_in_the_end(
        calls in prop::collection::vec(call(), 1..60),
        picks in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let rig = rig();
        let session = rig.presence.session("s").open().unwrap();
        rig.phone.wait_ready();
        let stop = AtomicBool::new(false);
        let mut agent = Agent {
            session: &session, herdr: &rig.herdr, asks: Vec::new(), blocks: Vec::new(), base: "idle",
        };
        let socket = rig.phone.socket();
        thread::scope(|scope| {
            scope.spawn(|| answer(socket, &picks, &stop));
            for call in &calls {
                agent.does(*call);
            }
            stop.store(true, Ordering::Relaxed);
        });
        rig.herdr.set_usual(Behaviour::Answers);

        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let open = agent.open_asks();
            let expected = if open > 0 || !agent.blocks.is_empty() { "blocked" } else { agent.base };
            let pane = rig.phone.pane("s");
            let shown = if pane["state"] == "waiting" { "blocked" } else { pane["state"].as_str().unwrap() };
            let herdr = rig.herdr.pane("w1:p1").holder.map(|holder| holder.state);
            let cards = pane["asks"].as_array().unwrap().len();
            if (shown, herdr.as_deref(), cards) == (expected, Some(expected), open) {
                break;
            }
            prop_assert!(
                Instant::now() < deadline,
                "model {expected} with {open} asks, phone {shown} with {cards}, Herdr {herdr:?}"
            );
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// 100 sessions with 10 asks each, answered in any order, some of them twice: each asker gets the
/// answer to its own question, and only the first one counts.
#[test]
fn of_many_asks_none_is_lost_or_doubled() {
    let rig = rig();
    let sessions: Vec<Session> = (0..100)
        .map(|number| rig.presence.session(&format!("s-{number}")).open().unwrap())
        .collect();
    let mut asks = Vec::new();
    for round in 0..10 {
        for session in &sessions {
            let question = session.ask(&format!("{} {round}", session.id()));
            let question = question.option("0", "Nought").option("1", "One").option("2", "Two");
            asks.push((session.id().to_owned(), question.raise().unwrap()));
        }
    }
    rig.herdr.wait_for_state("blocked");
    let socket = rig.phone.socket();
    let given = thread::scope(|scope| {
        let phones: Vec<_> = (0..4_usize)
            .map(|phone| {
                let asks = &asks;
                scope.spawn(move || {
                    let mut given = HashMap::new();
                    let client = Phone::at(socket);
                    // Each phone answers a part of them, in an order of its own, and some of
                    // another's.
                    for step in 0..asks.len() {
                        let place = (step * 317 + phone * 251) % asks.len();
                        if place % 4 != phone && place % 16 != phone {
                            continue;
                        }
                        let (pane, ask) = &asks[place];
                        let option = format!("{}", (place + phone) % 3);
                        let body = json!({"requestId": format!("{phone}-{place}"), "answer": {"optionIds": [option]}});
                        let reply = client.post(&format!("panes/{pane}/asks/{}", ask.id()), &body);
                        if reply.status == 200 {
                            given.insert(ask.id().to_owned(), option);
                        } else {
                            assert_eq!(reply.json()["code"], "ask-closed");
                        }
                    }
                    given
                })
            })
            .collect();
        phones.into_iter().map(|phone| phone.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(given.iter().map(HashMap::len).sum::<usize>(), 1000, "each was answered once");
    let given: HashMap<String, String> = given.into_iter().flatten().collect();
    for (_, ask) in asks {
        let id = ask.id().to_owned();
        assert_eq!(ask.wait().unwrap().option_ids(), [given[&id].clone()]);
    }
    let state = rig.phone.state();
    let is_done = |pane: &Value| pane["asks"] == json!([]) && pane["state"] == "idle";
    assert!(state["panes"].as_array().unwrap().iter().all(is_done));
    rig.herdr.wait_for_state("idle");
}
