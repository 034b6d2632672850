//! The plan against the model of Herdr, in a time of the test's own: no sockets, no waiting.

use super::*;
use crate::herdr::identity::{AgentName, Source};
use crate::herdr::report::{Claimant, Refusal, read_answer};
use crate::herdr::resume_command::ResumeCommand;
use crate::herdr::slots::Session;
use crate::herdr::status::{ReadBack, TransportKind};
use crate::os::clock::SystemClock;
use proptest::prelude::*;
use std::time::Duration;

#[path = "../../tests/support/fake_herdr/model.rs"]
mod model;

use model::{Holder, Model, Pane};

/// What becomes of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answered,
    /// It never arrives.
    Lost,
    /// It arrives, and its answer does not.
    AnswerLost,
    Refused(&'static str),
    /// What the CLI cannot ask.
    NotByCli,
    /// What an old CLI says to a resume command.
    UnknownOption,
}

/// A plan, a model, and the time between them.
struct World {
    plan: Plan,
    wanted: Wanted,
    model: Model,
    claimant: Claimant,
    now: Instant,
    over: TransportKind,
    /// Whether the CLI knows resume commands.
    knows_commands: bool,
    /// The next requests' fates. None left: all are answered.
    fates: Vec<Fate>,
    sent: Vec<Request>,
}

impl World {
    fn new(version: &str) -> Self {
        Self::with_sessions(version, None)
    }

    fn with_sessions(version: &str, session_of: Option<SessionOf>) -> Self {
        let agent = AgentName::new("my-agent").unwrap();
        let sequence = Sequence::in_memory(Arc::new(SystemClock));
        Self {
            plan: Plan::new(&agent, sequence, session_of),
            wanted: Wanted::default(),
            model: Model::new(version),
            claimant: Claimant {
                pane_id: "w1:p1".to_owned(),
                source: Source::new("src").unwrap(),
                agent,
            },
            now: Instant::now(),
            over: TransportKind::Socket,
            knows_commands: true,
            fates: Vec::new(),
            sent: Vec::new(),
        }
    }

    fn want(&mut self, change: impl FnOnce(&mut Wanted)) {
        change(&mut self.wanted);
        self.wanted.generation += 1;
    }

    fn report(&mut self, state: State, message: Option<&str>) {
        let claim = Claim { state, message: message.map(Arc::from) };
        self.want(|wanted| wanted.claim = Some(claim));
    }

    fn session(&mut self, id: &str, has_command: bool) {
        let resume = has_command
            .then(|| Arc::new(ResumeCommand::new(["my-agent", "--resume", id]).unwrap()));
        self.want(|wanted| {
            wanted.session = Some(Session { id: id.into(), resume });
        });
    }

    fn pane(&mut self) -> &mut Pane {
        self.model.panes.get_mut("w1:p1").unwrap()
    }

    fn shown(&mut self) -> Option<String> {
        self.pane().holder.as_ref().map(|holder| holder.state.clone())
    }

    /// Does one step that is due now. False: there is none.
    fn step(&mut self) -> bool {
        let Step::Send(request) = self.plan.next(&self.wanted, self.now) else {
            return false;
        };
        let fate = if self.fates.is_empty() { Fate::Answered } else { self.fates.remove(0) };
        let line = request.to_line(&self.claimant);
        let mut ask = || {
            let answer = self.model.handle(&serde_json::from_slice(&line).unwrap());
            read_answer(answer.to_string().as_bytes()).unwrap()
        };
        let is_cli = self.over == TransportKind::Cli;
        let only_by_socket = matches!(request, Request::Ping | Request::ReadProcess);
        let is_new_to_it = request.resume().is_some() && !self.knows_commands;
        let fate = match fate {
            _ if is_cli && only_by_socket => Fate::NotByCli,
            _ if is_cli && is_new_to_it => Fate::UnknownOption,
            fate => fate,
        };
        let outcome = match fate {
            Fate::Answered => match ask() {
                Ok(answer) => Ok(Reply { answer, over: self.over }),
                Err(refusal) => Err(TransportError::Refused(refusal)),
            },
            Fate::NotByCli => Err(TransportError::Unsupported),
            Fate::UnknownOption => Err(TransportError::NoResumeCommands),
            Fate::Lost => Err(TransportError::HalfAnswer),
            Fate::AnswerLost => {
                let _ = ask();
                Err(TransportError::HalfAnswer)
            }
            Fate::Refused(code) => Err(TransportError::Refused(Refusal {
                code: code.to_owned(),
                message: String::new(),
            })),
        };
        self.plan.sent(&request, outcome, self.wanted.generation, self.now);
        self.sent.push(request);
        true
    }

    /// Does all that is due now.
    fn run(&mut self) {
        for _ in 0..50 {
            if !self.step() {
                return;
            }
        }
        panic!("it never rests: {:#?}", self.sent);
    }

    /// Does all that is due within `time`, at its time.
    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.run();
            match self.plan.next(&self.wanted, self.now) {
                Step::Wait(Some(until)) if until <= end => {
                    assert!(until > self.now, "a wait for what has passed is a busy loop");
                    self.now = until;
                }
                _ => break,
            }
        }
        self.now = end;
    }

    fn take_sent(&mut self) -> Vec<&'static str> {
        self.sent.drain(..).map(|request| request.method()).collect()
    }

    fn seqs(&self) -> Vec<u64> {
        let seq = |request: &Request| match request {
            Request::Report { seq, .. }
            | Request::Session { seq, .. }
            | Request::Metadata { seq, .. }
            | Request::Release { seq } => Some(*seq),
            _ => None,
        };
        self.sent.iter().filter_map(seq).collect()
    }
}

const SECOND: Duration = Duration::from_secs(1);
const HEARTBEAT: Duration = Duration::from_secs(25);

#[test]
fn nothing_goes_out_before_the_first_state() {
    let mut world = World::new("0.9.3");
    world.session("s1", true);
    world.want(|wanted| wanted.metadata = Arc::new(Metadata::new().title("T")));
    world.run();
    assert_eq!(world.take_sent(), Vec::<&str>::new());
    world.report(State::Idle, None);
    world.run();
    let expected = ["ping", "pane.report_agent", "pane.report_metadata", "pane.get"];
    assert_eq!(world.take_sent(), expected);
    assert!(world.pane().resume.is_some());
}

#[test]
fn looks_back_at_once_then_after_two_seconds_then_every_twenty_five() {
    let mut world = World::new("0.9.3");
    world.report(State::Idle, None);
    world.run();
    assert_eq!(world.take_sent(), ["pane.report_agent", "pane.get"]);
    for (wait, expected) in [
        (SECOND, vec![]),
        (SECOND, vec!["pane.get"]),
        (24 * SECOND, vec![]),
        (SECOND, vec!["pane.get"]),
        (HEARTBEAT, vec!["pane.get"]),
    ] {
        world.run_for(wait);
        assert_eq!(world.take_sent(), expected);
    }
    let status = world.plan.status(&world.wanted);
    assert_eq!((status.read_back, status.settled), (ReadBack::Agrees, true));
}

#[test]
fn idle_that_reads_back_as_done_is_fine() {
    let mut world = World::new("0.9.3");
    world.report(State::Working, None);
    world.run();
    world.report(State::Idle, None);
    world.run();
    assert!(world.pane().unseen, "it shows as done");
    world.take_sent();
    world.run_for(60 * SECOND);
    let sent = world.take_sent();
    assert!(sent.iter().all(|method| *method == "pane.get") && sent.len() == 3, "{sent:?}");
}

#[test]
fn equal_values_are_not_sent_again() {
    let mut world = World::new("0.9.3");
    world.report(State::Idle, None);
    world.run();
    world.take_sent();
    for _ in 0..10 {
        world.report(State::Working, None);
        world.report(State::Idle, None);
        world.run();
    }
    assert_eq!(world.take_sent(), Vec::<&str>::new());
}

#[test]
fn a_report_that_a_stop_cleared_comes_back_with_its_command() {
    for through_resumed in [true, false] {
        let mut world = World::new("0.9.3");
        world.session("s1", true);
        world.report(State::Working, None);
        world.run_for(3 * SECOND);
        world.model.clear("w1:p1");
        if through_resumed {
            world.want(|wanted| wanted.resumed += 1);
            world.run();
        } else {
            world.run_for(HEARTBEAT);
        }
        assert_eq!(world.shown().as_deref(), Some("working"), "resumed: {through_resumed}");
        assert!(world.pane().resume.is_some());
    }
}

#[test]
fn a_hand_off_is_healed_by_the_heartbeat() {
    let mut world = World::new("0.9.3");
    world.session("s1", true);
    world.report(State::Blocked, Some("Run it?"));
    world.run_for(3 * SECOND);
    world.model.hand_off();
    world.take_sent();
    world.run_for(HEARTBEAT);
    assert_eq!(world.shown().as_deref(), Some("blocked"));
    assert!(world.pane().resume.is_some());
    let label = world.pane().metadata["src"]["state_labels"]["blocked"].clone();
    assert_eq!(label, "Run it?", "metadata went with the old server");
}

#[test]
fn a_hand_off_to_a_newer_herdr_gets_the_command() {
    let mut world = World::new("0.8.2");
    world.session("s1", true);
    world.report(State::Working, None);
    world.run_for(3 * SECOND);
    assert_eq!(world.plan.status(&world.wanted).takes_resume_commands, Some(false));
    world.model.hand_off();
    world.model.version = "0.9.3".to_owned();
    world.run_for(HEARTBEAT);
    assert!(world.pane().resume.is_some());
}

#[test]
fn another_holder_loses_the_pane_again() {
    let mut world = World::new("0.9.3");
    world.session("s1", true);
    world.report(State::Working, None);
    world.run_for(3 * SECOND);
    let other = Holder {
        source: "other".to_owned(),
        agent: "other".to_owned(),
        state: "idle".to_owned(),
        message: None,
    };
    world.pane().holder = Some(other);
    world.pane().resume = None;
    world.run_for(HEARTBEAT);
    assert_eq!(world.pane().holder.as_ref().unwrap().source, "src");
    assert!(world.pane().resume.is_some());
}

#[test]
fn an_anchored_pane_is_tried_once_a_heartbeat_and_no_more() {
    let mut world = World::new("0.9.3");
    world.pane().anchor = Some("herdr:claude".to_owned());
    world.session("s1", true);
    world.report(State::Working, None);
    world.run_for(3 * SECOND);
    let status = world.plan.status(&world.wanted);
    let shown = ReadBack::Differs { agent: None, state: Some("unknown".to_owned()) };
    assert_eq!(status.read_back, shown);
    world.take_sent();
    world.run_for(10 * HEARTBEAT);
    let claims = world.take_sent().iter().filter(|method| **method == "pane.report_agent").count();
    assert!((10..=40).contains(&claims), "{claims}");
    world.pane().anchor = None;
    world.run_for(HEARTBEAT);
    assert_eq!(world.shown().as_deref(), Some("working"));
}

/// What is logged at `warn` while `work` is done.
fn warnings(work: impl FnOnce()) -> Vec<String> {
    #[derive(Clone, Default)]
    struct Buffer(Arc<std::sync::Mutex<Vec<u8>>>);
    impl std::io::Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let buffer = Buffer::default();
    let writer = buffer.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, work);
    let text = String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_pane_that_another_program_holds_is_told_once() {
    let mut world = World::new("0.9.3");
    world.pane().anchor = Some("herdr:claude".to_owned());
    let holder = Holder {
        source: "herdr:claude".to_owned(),
        agent: "claude".to_owned(),
        state: "working".to_owned(),
        message: None,
    };
    world.pane().holder = Some(holder);
    world.report(State::Idle, None);
    let told = warnings(|| world.run_for(10 * HEARTBEAT));
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(told[0].contains("holder=\"claude\""), "{told:#?}");
}

#[test]
fn a_command_that_is_not_taken_is_told_once_and_never_shown() {
    for code in ["invalid_resume_argv", "resume_not_accepted"] {
        let mut world = World::new("0.9.3");
        world.session("s3cret", true);
        world.report(State::Idle, None);
        world.model.unaccepted_commands = u32::MAX;
        world.fates = vec![Fate::Answered, Fate::Refused(code)];
        let told = warnings(|| {
            world.run_for(10 * HEARTBEAT);
            world.report(State::Working, None);
            world.run_for(10 * HEARTBEAT);
        });
        assert_eq!(told.len(), 1, "{code}: {told:#?}");
        assert!(!told[0].contains("s3cret"), "{told:#?}");
    }
}

#[test]
fn a_source_that_was_muted_is_heard_again() {
    // By microseconds of another program, and by nanoseconds.
    for (muted_by, heartbeats) in [(9_000_000_000_000_000, 0), (1_800_000_000_000_000_000, 1)] {
        let mut world = World::new("0.9.3");
        world.pane().seqs.insert("src".to_owned(), muted_by);
        world.session("s1", true);
        world.report(State::Working, None);
        world.run_for(3 * SECOND + heartbeats * HEARTBEAT);
        assert_eq!(world.shown().as_deref(), Some("working"), "{muted_by}");
        assert!(world.pane().resume.is_some());
    }
}

#[test]
fn a_source_that_is_muted_in_mid_life_is_heard_again() {
    let mut world = World::new("0.9.3");
    world.report(State::Working, None);
    world.run_for(3 * SECOND);
    world.pane().seqs.insert("src".to_owned(), 9_000_000_000_000_000);
    world.report(State::Idle, None);
    world.run_for(HEARTBEAT);
    assert_eq!(world.shown().as_deref(), Some("idle"));
}

#[test]
fn a_command_that_is_invalid_is_lost_and_the_state_is_not() {
    let mut world = World::new("0.9.3");
    world.session("s1", true);
    world.report(State::Working, None);
    world.fates = vec![Fate::Answered, Fate::Refused("invalid_resume_argv")];
    world.run();
    assert_eq!(world.shown().as_deref(), Some("working"), "at once, without the command");
    world.take_sent();
    world.run_for(3 * HEARTBEAT);
    assert!(world.sent.iter().all(|request| request.resume().is_none()));
    world.session("s2", true);
    world.run();
    assert_eq!(world.pane().resume.as_ref().unwrap()[2], "s2", "another command may be fine");
}

#[test]
fn a_command_that_is_not_accepted_is_tried_four_times_then_with_the_heartbeat() {
    let mut world = World::new("0.9.3");
    world.model.unaccepted_commands = 6;
    world.session("s1", true);
    world.report(State::Working, None);
    world.run();
    assert_eq!(world.shown().as_deref(), Some("working"));
    for left in [5, 4, 3, 2, 1] {
        assert_eq!(world.model.unaccepted_commands, left);
        world.run_for(Duration::from_millis(500));
    }
    world.run_for(20 * SECOND);
    assert_eq!(world.model.unaccepted_commands, 1, "no more before the heartbeat");
    world.run_for(HEARTBEAT);
    assert_eq!(world.pane().resume, None);
    world.run_for(HEARTBEAT);
    assert!(world.pane().resume.is_some());
    assert!(world.plan.status(&world.wanted).resume_in_force);
}

#[test]
fn an_old_cli_is_learned_from_and_remembered() {
    let mut world = World::new("nightly");
    world.over = TransportKind::Cli;
    world.knows_commands = false;
    world.session("s1", true);
    world.report(State::Working, None);
    world.run();
    assert_eq!(world.shown().as_deref(), Some("working"));
    let carried: Vec<_> = world.sent.drain(..).map(|request| request.resume().is_some()).collect();
    assert_eq!(carried, [false, true, false], "asked, tried, and the state alone");
    world.session("s2", true);
    world.run_for(2 * HEARTBEAT);
    assert!(world.sent.iter().all(|request| request.resume().is_none()));
}

/// A switch is one report, and never a release, whatever the sessions have.
#[test]
fn another_session_is_a_new_report_and_never_a_release() {
    let mut world = World::new("0.9.3");
    world.session("s1", true);
    world.report(State::Working, None);
    world.run();
    let command = |world: &mut World| world.pane().resume.clone().unwrap()[2].clone();
    let status = |world: &World| world.plan.status(&world.wanted);
    for (id, has_command, held) in
        [("s2", true, "s2"), ("s3", false, "s2"), ("s4", false, "s2"), ("s5", true, "s5")]
    {
        world.take_sent();
        world.session(id, has_command);
        assert!(!status(&world).settled);
        world.run();
        assert_eq!(world.sent.len(), 1, "{id}: {:?}", world.sent);
        let Request::Report { state: State::Working, session_id, .. } = &world.sent[0] else {
            panic!("{id}: {:?}", world.sent);
        };
        assert_eq!(session_id.as_deref(), Some(id));
        assert_eq!(world.shown().as_deref(), Some("working"));
        assert_eq!(command(&mut world), held);
        assert_eq!(status(&world).resumes_another_session, !has_command, "{id}");
        assert!(status(&world).settled);
    }
}

#[test]
fn a_doubtful_state_is_sent_again_even_if_it_is_the_old_one() {
    let mut world = World::new("0.9.3");
    world.report(State::Idle, None);
    world.run();
    world.report(State::Working, None);
    world.fates = vec![Fate::AnswerLost];
    world.run();
    assert_eq!(world.shown().as_deref(), Some("working"));
    world.report(State::Idle, None);
    world.run_for(SECOND);
    assert_eq!(world.shown().as_deref(), Some("idle"));
}

#[test]
fn a_failed_state_waits_longer_each_time_and_a_new_one_does_not() {
    let mut world = World::new("0.9.3");
    world.report(State::Working, None);
    world.fates = vec![Fate::Lost; 7];
    world.run();
    let mut gaps = Vec::new();
    while let Step::Wait(Some(until)) = world.plan.next(&world.wanted, world.now)
        && !world.fates.is_empty()
    {
        gaps.push((until - world.now).as_millis());
        world.now = until;
        world.run();
    }
    assert_eq!(gaps, [250, 500, 1_000, 2_000, 4_000, 5_000]);
    world.report(State::Idle, None);
    world.run_for(Duration::from_millis(250));
    assert_eq!(world.shown().as_deref(), Some("idle"));
}

#[test]
fn a_release_is_last_and_after_the_metadata() {
    let mut world = World::new("0.9.3");
    world.session("s1", true);
    world.want(|wanted| wanted.metadata = Arc::new(Metadata::new().title("T")));
    world.report(State::Working, None);
    world.run();
    world.take_sent();
    world.want(|wanted| wanted.released = true);
    world.run();
    assert_eq!(world.take_sent(), ["pane.report_metadata", "pane.release_agent", "pane.get"]);
    let pane = world.pane();
    assert_eq!((&pane.holder, &pane.resume), (&None, &None));
    assert_eq!(pane.metadata["src"], serde_json::json!({}));
    assert_eq!(world.plan.next(&world.wanted, world.now), Step::End { settled: true });
}

#[test]
fn a_release_waits_for_no_backoff_and_is_tried_until_it_is_taken() {
    let mut world = World::new("0.9.3");
    world.report(State::Working, None);
    world.fates = vec![Fate::AnswerLost, Fate::Lost, Fate::Lost, Fate::Lost, Fate::Lost];
    world.run_for(3 * SECOND);
    world.fates = vec![Fate::Lost];
    world.want(|wanted| wanted.released = true);
    world.run();
    assert_eq!(world.fates, [], "tried at once");
    world.run_for(6 * SECOND);
    assert_eq!(world.shown(), None);
}

#[test]
fn a_release_does_not_wait_for_metadata_that_cannot_be_cleared() {
    let mut world = World::new("0.9.3");
    world.want(|wanted| wanted.metadata = Arc::new(Metadata::new().title("T")));
    world.report(State::Working, None);
    world.run();
    world.fates = vec![Fate::Lost];
    world.want(|wanted| wanted.released = true);
    world.run();
    assert_eq!(world.shown(), None, "at once");
}

/// Herdr may take 100 ms for each answer. A title that stays is a blemish, an agent that stays is a lie.
#[test]
fn a_release_goes_first_when_there_is_no_time_to_clear_the_metadata() {
    let mut world = World::with_sessions("0.9.3", Some(sessions));
    world.want(|wanted| wanted.metadata = Arc::new(Metadata::new().title("T")));
    world.report(State::Working, None);
    world.run();
    world.take_sent();
    // What was on its way was lost, and whose pane it is is not known either.
    world.fates = vec![Fate::Lost];
    world.want(|wanted| wanted.metadata = Arc::new(Metadata::new().title("U")));
    assert!(world.step());
    world.take_sent();
    world.wanted.finish_by = Some(world.now + SECOND / 10);
    world.want(|wanted| wanted.released = true);
    world.run();
    assert_eq!(world.take_sent()[0], "pane.release_agent");
    assert_eq!(world.shown(), None);
}

#[test]
fn a_release_that_was_not_heard_is_made_again() {
    let mut world = World::new("0.9.3");
    world.report(State::Working, None);
    world.run();
    world.pane().seqs.insert("src".to_owned(), 9_000_000_000_000_000);
    world.want(|wanted| wanted.released = true);
    world.run();
    assert_eq!(world.shown(), None);
}

#[test]
fn a_release_of_a_pane_that_is_gone_is_done() {
    let mut world = World::new("0.9.3");
    world.report(State::Working, None);
    world.run();
    world.model.panes.clear();
    world.want(|wanted| wanted.released = true);
    world.run();
    assert_eq!(world.plan.next(&world.wanted, world.now), Step::End { settled: true });
}

#[test]
fn an_end_without_a_release_leaves_state_and_command() {
    let mut world = World::new("0.9.3");
    world.session("s1", true);
    world.report(State::Idle, None);
    world.wanted.finish_by = Some(world.now + SECOND);
    world.run();
    assert_eq!(world.plan.next(&world.wanted, world.now), Step::End { settled: true });
    assert_eq!(world.shown().as_deref(), Some("idle"));
    assert!(world.pane().resume.is_some());
    assert_eq!(world.take_sent(), ["pane.report_agent"], "no questions on the way out");
}

#[test]
fn an_end_that_comes_too_early_says_so() {
    let mut world = World::new("0.9.3");
    world.report(State::Idle, None);
    world.fates = vec![Fate::Lost; 9];
    world.wanted.finish_by = Some(world.now + SECOND / 4);
    world.run_for(SECOND / 4);
    assert_eq!(world.plan.next(&world.wanted, world.now), Step::End { settled: false });
}

fn sessions(pid: Option<u32>) -> Option<u32> {
    match pid {
        None | Some(10) => Some(1),
        Some(20) => Some(2),
        _ => None,
    }
}

#[test]
fn a_pane_that_is_not_ours_gets_nothing() {
    let mut world = World::with_sessions("0.9.3", Some(sessions));
    world.pane().shell_pid = Some(20);
    world.report(State::Working, None);
    world.run_for(2 * HEARTBEAT);
    assert_eq!(world.take_sent(), ["pane.process_info"]);
    let foreign = Ownership::Foreign { shell_pid: 20 };
    assert_eq!(world.plan.status(&world.wanted).ownership, foreign);
    world.want(|wanted| wanted.released = true);
    world.run();
    assert_eq!(world.plan.next(&world.wanted, world.now), Step::End { settled: true });
    assert_eq!(world.take_sent(), Vec::<&str>::new(), "and no release of its holder either");
}

#[test]
fn a_pane_that_is_ours_or_that_nobody_knows_about_is_reported() {
    for (shell_pid, expected) in
        [(Some(10), Ownership::Ours), (Some(30), Ownership::Unknown), (None, Ownership::Unknown)]
    {
        let mut world = World::with_sessions("0.9.3", Some(sessions));
        world.pane().shell_pid = shell_pid;
        world.report(State::Working, None);
        world.run();
        assert_eq!(world.shown().as_deref(), Some("working"));
        assert_eq!(world.plan.status(&world.wanted).ownership, expected);
    }
}

#[test]
fn whose_pane_it_is_is_asked_again_when_the_answer_was_lost() {
    let mut world = World::with_sessions("0.9.3", Some(sessions));
    world.pane().shell_pid = Some(20);
    world.report(State::Working, None);
    world.fates = vec![Fate::Lost, Fate::Lost];
    world.run_for(10 * SECOND);
    assert_eq!(world.shown(), None, "it is not our pane");
}

#[test]
fn metadata_that_herdr_will_not_have_is_not_in_the_way() {
    let mut world = World::new("0.9.3");
    world.report(State::Idle, None);
    world.want(|wanted| wanted.metadata = Arc::new(Metadata::new().title("T")));
    world.fates = vec![Fate::Answered, Fate::Refused("unknown_method")];
    world.run();
    world.report(State::Working, None);
    world.run();
    assert_eq!(world.shown().as_deref(), Some("working"));
}

#[derive(Clone, Debug)]
enum Event {
    Report(State, Option<&'static str>),
    Session(&'static str, bool),
    Title(&'static str),
    Resumed,
    Wait(u16),
    Step,
    Fates(Vec<Fate>),
    HandOff,
    Cleared,
    OtherHolder,
    Muted,
    SlowDetector,
}

fn event() -> impl Strategy<Value = Event> {
    let state = prop::sample::select(vec![State::Idle, State::Working, State::Blocked]);
    let message = prop::sample::select(vec![None, Some("run?"), Some("other?")]);
    let fate = prop::sample::select(vec![
        Fate::Answered,
        Fate::Lost,
        Fate::AnswerLost,
        Fate::Refused("server_unavailable"),
    ]);
    prop_oneof![
        8 => (state, message).prop_map(|(state, message)| Event::Report(state, message)),
        2 => (prop::sample::select(vec!["s1", "s2"]), any::<bool>())
            .prop_map(|(id, command)| Event::Session(id, command)),
        2 => prop::sample::select(vec!["", "T", "U"]).prop_map(Event::Title),
        1 => Just(Event::Resumed),
        4 => (0_u16..3_000).prop_map(Event::Wait),
        6 => Just(Event::Step),
        3 => prop::collection::vec(fate, 0..6).prop_map(Event::Fates),
        1 => Just(Event::HandOff),
        1 => Just(Event::Cleared),
        1 => Just(Event::OtherHolder),
        1 => Just(Event::Muted),
        1 => Just(Event::SlowDetector),
    ]
}

impl World {
    fn happen(&mut self, event: Event) {
        match event {
            Event::Report(state, message) => self.report(state, message),
            Event::Session(id, has_command) => self.session(id, has_command),
            Event::Title(title) => {
                self.want(|wanted| wanted.metadata = Arc::new(Metadata::new().title(title)));
            }
            Event::Resumed => self.want(|wanted| wanted.resumed += 1),
            Event::Wait(ms) => self.run_for(Duration::from_millis(ms.into())),
            Event::Step => {
                self.step();
            }
            Event::Fates(fates) => self.fates = fates,
            Event::HandOff => self.model.hand_off(),
            Event::Cleared => self.model.clear("w1:p1"),
            Event::OtherHolder => {
                self.pane().holder = Some(Holder {
                    source: "other".to_owned(),
                    agent: "other".to_owned(),
                    state: "working".to_owned(),
                    message: None,
                });
                self.pane().resume = Some(vec!["other".to_owned()]);
            }
            Event::Muted => {
                let last = self.plan.sequence.last().max(9_000_000_000_000_000);
                self.pane().seqs.insert("src".to_owned(), last + 1_000);
            }
            Event::SlowDetector => self.model.unaccepted_commands = 3,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever was called, and whatever failed: once Herdr answers again, the newest of everything is
    /// in force, with numbers that rise, and the release leaves nothing behind.
    #[test]
    fn the_newest_of_everything_is_in_force_in_the_end(
        events in prop::collection::vec(event(), 1..60),
        version in prop::sample::select(vec!["0.8.2", "0.9.1", "0.9.2-preview.3", "0.9.3"]),
        over in prop::sample::select(vec![TransportKind::Socket, TransportKind::Cli]),
    ) {
        let mut world = World::new(version);
        world.over = over;
        world.knows_commands = world.model.takes_commands();
        // Nobody can see that a hand-off lost the metadata, once a new state is there.
        let handed_off = events.iter().any(|event| matches!(event, Event::HandOff));
        for event in events {
            world.happen(event);
        }
        world.fates.clear();
        // A mute that hides behind a state that shows already is seen at the next other state.
        for state in [State::Working, State::Blocked] {
            world.report(state, Some("the end?"));
            world.run_for(4 * HEARTBEAT);
        }
        let session = world.wanted.session.clone();
        let title = world.wanted.metadata.title.clone();
        let pane = world.pane().clone();
        let holder = pane.holder.unwrap();
        prop_assert_eq!((holder.source.as_str(), holder.state.as_str()), ("src", "blocked"));
        // A session without a command leaves what is there: a switch is never a release (H054).
        if let Some(command) = session.and_then(|session| session.resume) {
            prop_assert_eq!(pane.resume, world.knows_commands.then(|| command.words().to_vec()));
        }
        let is_release = |request: &Request| request.method() == "pane.release_agent";
        prop_assert!(!world.sent.iter().any(is_release));
        if !handed_off {
            let metadata = &pane.metadata["src"];
            prop_assert_eq!(metadata["title"].as_str(), title.as_deref());
            prop_assert_eq!(metadata["state_labels"]["blocked"].as_str(), Some("the end?"));
        }
        prop_assert!(world.seqs().is_sorted_by(|before, after| before < after));
        let status = world.plan.status(&world.wanted);
        prop_assert!(status.settled);
        prop_assert_eq!(status.read_back, ReadBack::Agrees);

        world.want(|wanted| wanted.released = true);
        world.run();
        let pane = world.pane().clone();
        prop_assert_eq!((pane.holder, pane.resume), (None, None));
        prop_assert_eq!(&pane.metadata["src"], &serde_json::json!({}));
    }
}
