//! kill -9 at random moments, while a phone answers: of the agent, of each process of ours, and of several.
//! `RECORDS_KILLS` sets how often, `RECORDS_SEED` with which moments.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::phone::Phone;
use super::support::terminal::{Modes, Terminal, eventually, is_alive};
use super::{PROGRAM, User, kill_all, kill_each, log, tree, try_post, try_request};
use crate::support::fake_herdr::model::Model;

/// Asks about one call after the other, and notes each that it may do in one write: what is not noted is
/// not done.
const AGENT: &str = r#"#!/bin/sh
call=$(($(wc -l <"$LOG") + 1))
while :; do
    if "$AP" approve --call "c$call" tool "{\"n\":$call}"; then
        echo "allowed $call" >>"$LOG"
        call=$((call + 1))
    else
        sleep 0.02
    fi
done
"#;

/// Who is killed, in turn.
const VICTIMS: [&[usize]; 8] = [
    // The guardian, the relay, the leader, the agent.
    &[0],
    &[1],
    &[2],
    &[3],
    // The agent, and one or two of ours.
    &[0, 3],
    &[1, 3],
    &[1, 2, 3],
    // Everything, so that nobody can say goodbye.
    &[],
];

/// A number that the next one follows from.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// What a phone knows of one life after the other.
#[derive(Default)]
struct Person {
    /// The last acknowledged answer: path, body, and what came back.
    last: Option<(String, Value, Value)>,
    /// The answer that was on its way when its connection broke: it is said again, word by word.
    unsure: Option<(u64, String, Value)>,
    requests: u64,
    posted: Vec<u64>,
    acknowledged: Vec<u64>,
    /// Calls that were answered, and asked about again.
    again: Vec<u64>,
    repeated: usize,
}

impl Person {
    /// Answers what is asked until it is to stop.
    fn answer(&mut self, socket: &Path, stop: impl Fn() -> bool) {
        while !stop() {
            let Some((id, number)) = ask(socket) else {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            if self.acknowledged.contains(&number) {
                self.again.push(number);
            }
            self.requests += 1;
            let path = format!("panes/s/asks/{id}");
            let request_id = format!("r{}", self.requests);
            let body = json!({"requestId": request_id, "answer": {"optionIds": ["allow"]}});
            self.posted.push(number);
            self.post(socket, number, path, body);
        }
    }

    fn post(&mut self, socket: &Path, number: u64, path: String, body: Value) {
        self.unsure = None;
        match try_post(socket, &path, &body) {
            None => self.unsure = Some((number, path, body)),
            Some(reply) if reply.status == 200 => {
                self.acknowledged.push(number);
                self.last = Some((path, body, reply.json()));
            }
            // Somebody was faster, such as this very answer on its way before.
            Some(_) => {}
        }
    }

    /// In the next life: what broke off is said again, and what was acknowledged is told again.
    fn go_on(&mut self, phone: &Phone) {
        if let Some((number, path, body)) = self.unsure.take() {
            self.repeated += 1;
            self.post(phone.socket(), number, path, body);
        }
        let Some((path, body, first)) = &self.last else { return };
        let mut again = phone.post(path, body).json();
        again.as_object_mut().unwrap().remove("replayed");
        let mut first = first.clone();
        first.as_object_mut().unwrap().remove("replayed");
        assert_eq!(again, first, "the first answer to {body}");
    }
}

/// The open ask, and the number of its call.
fn ask(socket: &Path) -> Option<(String, u64)> {
    let state = try_request(socket, "GET", "state", "")?;
    let ask = state.status.eq(&200).then(|| state.json())?["panes"][0]["asks"][0].clone();
    let number = ask["toolCallId"].as_str()?.strip_prefix('c')?.parse().ok()?;
    Some((ask["id"].as_str()?.to_owned(), number))
}

/// A command of the pane's shell, with the toy agent's variables.
fn command(user: &User, like: &Command) -> Command {
    let mut command = Command::new(PROGRAM);
    command.env_clear();
    for (name, value) in like.get_envs() {
        command.env(name, value.unwrap());
    }
    let path = std::env::var_os("PATH").unwrap();
    let folders = [user.path("bin")].into_iter().chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(folders).unwrap());
    command.env("AP", PROGRAM).env("LOG", user.path("log"));
    command
}

/// The guardian, the relay, the leader and the agent, once they are there.
fn processes(terminal: &Terminal) -> Vec<u32> {
    eventually("an agent", || tree(terminal.pid()).len() >= 4);
    tree(terminal.pid())
}

/// What is left in the folder of the socket.
fn left(user: &User) -> Vec<String> {
    let entries = fs::read_dir(user.path("run")).unwrap().map(|entry| entry.unwrap().file_name());
    let names = entries.map(|name| name.to_str().unwrap().to_owned());
    names.filter(|name| name.starts_with("c.sock")).collect()
}

#[test]
fn kills_at_random_moments_lose_nothing_and_do_nothing_twice() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let kills = number("RECORDS_KILLS").unwrap_or(8);
    let seed = number("RECORDS_SEED").unwrap_or_else(|| u64::from(std::process::id()) + 1);
    println!("RECORDS_SEED={seed}");
    let mut random = Random(seed);
    let user = User::new();
    let agent = user.program("agent", AGENT);
    std::os::unix::fs::symlink(PROGRAM, user.path("bin/agent-presence")).unwrap();
    fs::write(user.path("log"), "").unwrap();
    let template = format!("{agent} --resume {{session}}");
    let wrap = user.wrap(&["--resume", &template, "--", &agent]);
    let mut first = command(&user, &wrap);
    first.args(wrap.get_args());
    let socket: PathBuf = user.path("run/c.sock");
    let mut person = Person::default();
    let mut terminal = up(&user, &mut first);
    let resume = user.herdr.wait_for_pane(|pane| pane.resume.is_some()).resume.unwrap();
    assert_eq!(resume[..2], ["agent-presence", "resume"]);
    for round in 0..kills {
        person.go_on(&user.phone());
        let victims = VICTIMS[usize::try_from(round).unwrap() % VICTIMS.len()];
        let pids = processes(&terminal);
        let stop = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| person.answer(&socket, || stop.load(Ordering::Relaxed)));
            // The moment is what is tried: it is another one each time.
            std::thread::sleep(Duration::from_micros(random.below(150_000)));
            match victims {
                [] => kill_each(&tree(terminal.pid())),
                victims => {
                    let victims: Vec<u32> = victims.iter().map(|&place| pids[place]).collect();
                    kill_each(&victims);
                }
            }
            terminal.wait();
            let all_ended = || !pids.iter().any(|&pid| is_alive(pid));
            eventually(&format!("the end of all in round {round}"), all_ended);
            stop.store(true, Ordering::Relaxed);
        });
        if !victims.is_empty() {
            terminal.wait_for_modes("a shell", Modes::is_cooked);
            eventually("no socket and no lock", || left(&user).is_empty());
        }
        let pane = user.herdr.pane("w1:p1");
        assert_eq!(
            pane.resume.as_ref(),
            Some(&resume),
            "round {round}: Herdr has not forgotten it"
        );
        user.herdr.change(Model::hand_off);
        terminal = up(&user, command(&user, &wrap).args(&resume[1..]));
        user.herdr.wait_for_pane(|pane| pane.resume.as_ref() == Some(&resume));
    }
    person.go_on(&user.phone());
    let last = person.acknowledged.iter().max().copied().unwrap_or(0);
    let end = Instant::now() + Duration::from_secs(20);
    while !log(&user).contains(&format!("allowed {last}")) {
        assert!(Instant::now() < end, "{last} was acknowledged, and is not in {:?}", log(&user));
        let until = Instant::now() + Duration::from_millis(20);
        person.answer(&socket, || Instant::now() > until);
    }
    let done = log(&user);
    let expected: Vec<_> = (1..=done.len()).map(|call| format!("allowed {call}")).collect();
    assert_eq!(done, expected, "each once, and in order");
    for call in 1..=done.len() as u64 {
        assert!(person.posted.contains(&call), "nobody has allowed {call}");
    }
    assert_eq!(person.again, [0; 0], "nobody is asked again for what was acknowledged");
    let (answers, repeated) = (person.acknowledged.len(), person.repeated);
    println!("{answers} answers in {kills} kills, {repeated} of them said again");
    kill_all(terminal);
}

fn up(user: &User, command: &mut Command) -> Terminal {
    super::wait_for_the_lock(user);
    let terminal = Terminal::start(command);
    super::wait_until_served(user);
    terminal
}
