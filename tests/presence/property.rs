//! Any interleaving of calls, answers, timeouts and failures of both faces ends with both faces equal to
//! the model; and of many asks none is lost or doubled.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use agent_presence::Presence;
use agent_presence::collie::{Answer, AskClosed};
use agent_presence::presence::{Ask, Block, Old, Session};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestCaseResult, TestRunner};
use serde_json::{Value, json};

use crate::support::fake_herdr::Behaviour;
use crate::support::fake_herdr::model::Model;
use crate::support::phone::Phone;
use crate::{FakeHerdr, Rig, rig};

/// How many conversations the agent has at once, each with a thread of its own.
const CONVERSATIONS: usize = 3;

/// How many cases run side by side: they wait most of the time.
const RUNNERS: u32 = 8;

/// What one part of the agent does in its conversation.
#[derive(Clone, Copy, Debug)]
enum Call {
    Working,
    Idle,
    Blocked,
    Ask,
    AskFor {
        milliseconds: u64,
    },
    DropAsk,
    Block,
    Unblock,
    Say,
    Foreground,
    /// It goes over to another conversation.
    Switch(Old),
    /// It ends the conversation, and begins another.
    Close,
    Pause {
        milliseconds: u64,
    },
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        4 => Just(Call::Working),
        4 => Just(Call::Idle),
        2 => Just(Call::Blocked),
        4 => Just(Call::Ask),
        3 => (0..20_u64).prop_map(|milliseconds| Call::AskFor { milliseconds }),
        3 => Just(Call::DropAsk),
        1 => Just(Call::Block),
        2 => Just(Call::Unblock),
        1 => Just(Call::Say),
        1 => Just(Call::Foreground),
        1 => prop_oneof![Just(Old::Closes), Just(Old::Stays)].prop_map(Call::Switch),
        1 => Just(Call::Close),
        3 => (0..10_u64).prop_map(|milliseconds| Call::Pause { milliseconds }),
    ]
}

/// What happens to the faces.
#[derive(Clone, Debug)]
enum Fate {
    /// Herdr does this with all that it is asked from now on.
    Herdr(Behaviour),
    /// Its socket is gone, or back.
    HerdrGone,
    HerdrBack,
    /// It forgets all that it was told, as in a hand-off to a new server.
    HerdrForgets,
    /// Nobody finds Collie's socket, or everybody does again.
    CollieGone,
    CollieBack,
    /// More phones than are served at once, none of which says a word.
    CollieFull,
    /// A phone that asks and asks, and stops reading in the middle of the answers.
    PhoneStopsReading,
    /// A phone that breaks off in the middle of an answer to a card.
    PhoneBreaksOff,
    Pause {
        milliseconds: u64,
    },
}

fn fate() -> impl Strategy<Value = Fate> {
    let herdr = prop::sample::select(vec![
        Behaviour::Answers,
        Behaviour::Slow(Duration::from_millis(20)),
        Behaviour::Hangs,
        Behaviour::Resets,
        Behaviour::LosesTheAnswer,
        Behaviour::HalfAnswers(9),
        Behaviour::Says("nonsense".to_owned()),
        Behaviour::Refuses("server_unavailable"),
    ]);
    prop_oneof![
        6 => herdr.prop_map(Fate::Herdr),
        1 => Just(Fate::HerdrGone),
        2 => Just(Fate::HerdrBack),
        1 => Just(Fate::HerdrForgets),
        1 => Just(Fate::CollieGone),
        2 => Just(Fate::CollieBack),
        1 => Just(Fate::CollieFull),
        1 => Just(Fate::PhoneStopsReading),
        2 => Just(Fate::PhoneBreaksOff),
        8 => (0..15_u64).prop_map(|milliseconds| Fate::Pause { milliseconds }),
    ]
}

/// What a person does with the phone: which card, which option, and whether the phone waits to hear that
/// its answer was taken.
type Pick = (u8, bool, bool);

#[derive(Clone, Debug)]
struct Case {
    calls: Vec<Vec<Call>>,
    fates: Vec<Fate>,
    picks: Vec<Vec<Pick>>,
    /// No phone looks at any time before the end.
    is_watched: bool,
    /// The conversation that is named to Herdr in the end, if one is.
    named: Option<usize>,
}

fn case() -> impl Strategy<Value = Case> {
    let calls = prop::collection::vec(prop::collection::vec(call(), 0..30), CONVERSATIONS);
    let fates = prop::collection::vec(fate(), 0..12);
    let picks = prop::collection::vec(prop::collection::vec(any::<Pick>(), 0..30), 2);
    let named = prop::option::of(0..CONVERSATIONS);
    (calls, fates, picks, prop::bool::weighted(0.9), named).prop_map(
        |(calls, fates, picks, is_watched, named)| Case { calls, fates, picks, is_watched, named },
    )
}

/// A part of the agent: its conversation, what it holds, and what it said last.
struct Part<'a> {
    presence: &'a Presence,
    session: Session,
    asks: Vec<Ask>,
    /// Those of conversations that it left.
    left_asks: Vec<Ask>,
    blocks: Vec<Block>,
    base: &'static str,
    /// Conversations that it left, and that the phone may still read.
    left: Vec<String>,
    ended: Vec<(String, Result<Answer, AskClosed>)>,
}

impl<'a> Part<'a> {
    fn new(presence: &'a Presence) -> Self {
        let session = presence.session(&new_id()).open().unwrap();
        let (asks, left_asks, blocks, left, ended) = Default::default();
        Self { presence, session, asks, left_asks, blocks, base: "idle", left, ended }
    }

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
            Call::Foreground => self.session.foreground(),
            Call::Switch(old) => {
                let opening = self.presence.session(&new_id()).replaces(&self.session, old);
                let before = self.session.id().to_owned();
                self.session = opening.open().unwrap();
                if old == Old::Stays {
                    self.left.push(before);
                }
                self.begins_anew();
            }
            Call::Close => {
                self.session.clone().close();
                self.session = self.presence.session(&new_id()).open().unwrap();
                self.begins_anew();
            }
            Call::Pause { milliseconds } => thread::sleep(Duration::from_millis(milliseconds)),
        }
    }

    /// What it was blocked by was of the conversation before.
    fn begins_anew(&mut self) {
        self.base = "idle";
        self.blocks.clear();
        self.left_asks.append(&mut self.asks);
    }

    /// How many asks wait for the user, as the agent knows it: of this conversation, and of those before.
    fn open_asks(&mut self) -> (usize, usize) {
        let mut context = Context::from_waker(Waker::noop());
        let ended = &mut self.ended;
        for asks in [&mut self.asks, &mut self.left_asks] {
            asks.retain_mut(|ask| {
                let id = ask.id().to_owned();
                match Future::poll(std::pin::Pin::new(ask), &mut context) {
                    Poll::Ready(outcome) => {
                        ended.push((id, outcome));
                        false
                    }
                    Poll::Pending => true,
                }
            });
        }
        (self.asks.len(), self.left_asks.len())
    }

    /// What both faces have to show.
    fn shown(&mut self) -> (&'static str, usize) {
        let (open, _) = self.open_asks();
        let is_blocked = open > 0 || !self.blocks.is_empty();
        (if is_blocked { "blocked" } else { self.base }, open)
    }
}

fn new_id() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("s-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Answers whatever is open, in an order of its own, until it is told to stop; gives which answers were
/// taken. The socket may be gone, and no answer may come.
fn answer(socket: &Path, picks: &[Pick], stop: &AtomicBool, taken: &Mutex<HashMap<String, &str>>) {
    let phone = Phone::at(socket);
    for (place, is_yes, waits) in picks {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let Some(state) = phone.try_get("state") else { continue };
        let panes = state["panes"].as_array().unwrap().iter();
        let asks: Vec<_> = panes
            .flat_map(|pane| pane["asks"].as_array().unwrap().iter().map(move |ask| (pane, ask)))
            .collect();
        let Some((pane, ask)) = asks.get(usize::from(*place) % asks.len().max(1)) else { continue };
        let option = if *is_yes { "y" } else { "n" };
        let (pane, ask) = (pane["id"].as_str().unwrap(), ask["id"].as_str().unwrap());
        let body = json!({"requestId": new_id(), "answer": {"optionIds": [option]}});
        let path = format!("panes/{pane}/asks/{ask}");
        if !waits {
            phone.post_and_leave(&path, &body);
        } else if phone.try_post(&path, &body).is_some_and(|status| status == 200) {
            let before = taken.lock().unwrap().insert(ask.to_owned(), option);
            assert_eq!(before, None, "{ask} was answered twice");
        }
    }
}

/// Lets the faces fail; gives what must live until the end.
fn befall(fake: &FakeHerdr, collie: &Path, fates: &[Fate]) -> Vec<UnixStream> {
    let herdr = fake.socket_path();
    let away = |socket: &Path| socket.with_extension("away");
    let mut held = Vec::new();
    for fate in fates {
        match fate {
            Fate::Herdr(behaviour) => fake.set_usual(behaviour.clone()),
            Fate::HerdrGone => drop(fs::rename(herdr, away(herdr))),
            Fate::HerdrBack => drop(fs::rename(away(herdr), herdr)),
            Fate::HerdrForgets => fake.change(Model::hand_off),
            Fate::CollieGone => drop(fs::rename(collie, away(collie))),
            Fate::CollieBack => drop(fs::rename(away(collie), collie)),
            Fate::CollieFull => {
                held.extend((0..80).map_while(|_| connect(collie)));
            }
            Fate::PhoneStopsReading => held.extend(connect(collie).map(|mut stream| {
                let get = "GET /durable/v1/state HTTP/1.1\r\nhost: x\r\n\r\n".repeat(50);
                let _ = stream.write(get.as_bytes());
                stream
            })),
            Fate::PhoneBreaksOff => held.extend(connect(collie).map(|mut stream| {
                let post = "POST /durable/v1/panes/s/asks/a HTTP/1.1\r\nhost: x\r\n\
                            content-type: application/json\r\ncontent-length: 90\r\n\r\n{\"requ";
                let _ = stream.write(post.as_bytes());
                stream
            })),
            Fate::Pause { milliseconds } => thread::sleep(Duration::from_millis(*milliseconds)),
        }
    }
    // Everything is well again.
    let _ = fs::rename(away(herdr), herdr);
    let _ = fs::rename(away(collie), collie);
    fake.set_usual(Behaviour::Answers);
    held
}

fn connect(socket: &Path) -> Option<UnixStream> {
    let stream = UnixStream::connect(socket).ok()?;
    stream.set_nonblocking(true).unwrap();
    Some(stream)
}

fn run(case: &Case) -> TestCaseResult {
    let rig = rig();
    let (herdr, socket) = (&rig.herdr, rig.phone.socket());
    let (stop, taken) = (AtomicBool::new(false), Mutex::default());
    let mut parts: Vec<_> = (0..CONVERSATIONS).map(|_| Part::new(&rig.presence)).collect();
    rig.phone.wait_ready();
    thread::scope(|scope| {
        let befallen = scope.spawn(|| befall(herdr, socket, &case.fates));
        let phones = case.picks.iter().filter(|_| case.is_watched);
        let phones: Vec<_> =
            phones.map(|picks| scope.spawn(|| answer(socket, picks, &stop, &taken))).collect();
        let calling: Vec<_> = parts
            .iter_mut()
            .zip(&case.calls)
            .map(|(part, calls)| scope.spawn(|| calls.iter().for_each(|call| part.does(*call))))
            .collect();
        for part in calling {
            part.join().unwrap();
        }
        drop(befallen.join().unwrap());
        stop.store(true, Ordering::Relaxed);
        for phone in phones {
            phone.join().unwrap();
        }
    });
    if let Some(named) = case.named {
        parts[named].session.foreground();
    }
    if case.fates.iter().any(|fate| matches!(fate, Fate::HerdrForgets)) {
        // Who went away in between has to be told again; else the next heartbeat does it.
        rig.presence.resumed();
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let faults = differences(&rig, &mut parts, case.named);
        if faults.is_empty() {
            break;
        }
        if Instant::now() > deadline {
            return Err(TestCaseError::fail(faults.join("\n")));
        }
        thread::sleep(Duration::from_millis(5));
    }
    // Whoever was told that its answer was taken, was heard; unless its asker was gone by then.
    let taken = taken.into_inner().unwrap();
    for (id, outcome) in parts.iter().flat_map(|part| &part.ended) {
        match (taken.get(id), outcome) {
            (Some(option), Ok(answer)) => prop_assert_eq!(answer.option_ids(), [*option]),
            (Some(option), Err(closed)) => {
                return Err(TestCaseError::fail(format!("{id}: {option} was lost: {closed:?}")));
            }
            (None, _) => {}
        }
    }
    Ok(())
}

/// Where the faces and the model disagree.
fn differences(rig: &Rig, parts: &mut [Part<'_>], named: Option<usize>) -> Vec<String> {
    let mut faults = Vec::new();
    let state = rig.phone.state();
    let panes: HashMap<&str, &Value> = state["panes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pane| (pane["id"].as_str().unwrap(), pane))
        .collect();
    let mut expected = HashMap::new();
    for part in parts.iter_mut() {
        expected.insert(part.session.id().to_owned(), part.shown());
        if part.open_asks().1 > 0 {
            faults.push("an ask did not end with its conversation".to_owned());
        }
        expected.extend(part.left.iter().map(|id| (id.clone(), ("idle", 0))));
    }
    if panes.len() != expected.len() {
        faults.push(format!("the phone has {:?}, the model {expected:?}", panes.keys()));
    }
    for (id, (is, cards)) in &expected {
        let pane = panes.get(id.as_str()).copied().cloned().unwrap_or_default();
        let shown = if pane["state"] == "waiting" {
            "blocked"
        } else {
            pane["state"].as_str().unwrap_or("gone")
        };
        let shown = (shown, pane["asks"].as_array().map_or(0, Vec::len));
        if shown != (*is, *cards) {
            faults.push(format!("{id}: {is} with {cards} asks, the phone has {shown:?}"));
        }
    }
    // Herdr shows one conversation that is open, the named one if one is, and as it is.
    let requests = rig.herdr.requests();
    let last = requests.iter().rev().find(|request| request.state().is_some());
    let session = last.and_then(|report| report.params["agent_session_id"].as_str());
    let holder = rig.herdr.pane("w1:p1").holder.map(|holder| holder.state);
    let mut may_be = parts.iter_mut().enumerate();
    let is_right = may_be.any(|(place, part)| {
        let is_it = session == Some(part.session.id()) && named.is_none_or(|named| named == place);
        is_it && holder.as_deref() == Some(part.shown().0)
    });
    if !is_right {
        faults
            .push(format!("Herdr shows {session:?} as {holder:?}: {expected:?}, named {named:?}"));
    }
    let releases = requests.iter().filter(|request| request.method == "pane.release_agent").count();
    if releases > 0 {
        faults.push("Herdr was released".to_owned());
    }
    faults
}

/// `PROPTEST_CASES` runs more of them.
#[test]
fn both_faces_equal_the_model_in_the_end() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    let cases = cases.unwrap_or(128_u32).div_ceil(RUNNERS);
    thread::scope(|scope| {
        for _ in 0..RUNNERS {
            scope.spawn(|| {
                let config = Config {
                    cases,
                    max_shrink_iters: 0,
                    failure_persistence: None,
                    ..Config::default()
                };
                TestRunner::new(config).run(&case(), |case| run(&case)).unwrap();
            });
        }
    });
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
