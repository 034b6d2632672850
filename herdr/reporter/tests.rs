//! The driver in a time that the tests move, with a transport that only remembers.

use super::*;
use crate::herdr::report::{Answer, Request};
use crate::herdr::status::TransportKind;

type Log = Arc<Mutex<Vec<(Instant, Request)>>>;

/// Takes every request, each after `delay`; none: never.
struct Remembers {
    delay: Option<Duration>,
    begun: Log,
    ended: Log,
}

impl Transport for Remembers {
    async fn exchange(&mut self, request: &Request) -> Result<Reply, TransportError> {
        lock(&self.begun).push((Instant::now(), request.clone()));
        match self.delay {
            Some(delay) => tokio::time::sleep(delay).await,
            None => std::future::pending().await,
        }
        lock(&self.ended).push((Instant::now(), request.clone()));
        Ok(Reply { answer: Answer::default(), over: TransportKind::Socket })
    }
}

/// A reporter, its running driver, and what was begun and what was ended.
struct Running {
    reporter: Reporter,
    driver: tokio::task::JoinHandle<()>,
    begun: Log,
    ended: Log,
    start: Instant,
}

fn run(delay: Option<Duration>) -> Running {
    let (begun, ended) = (Log::default(), Log::default());
    let transport = Remembers { delay, begun: begun.clone(), ended: ended.clone() };
    let sequence = Sequence::in_memory(Arc::new(SystemClock));
    let plan = Plan::new(&AgentName::new("my-agent").unwrap(), sequence, None);
    let (reporter, driver) = Reporter::drive(plan, transport);
    let driver = tokio::spawn(driver);
    Running { reporter, driver, begun, ended, start: Instant::now() }
}

fn states(log: &Log) -> Vec<State> {
    let state = |(_, request): &(Instant, Request)| match request {
        Request::Report { state, .. } => Some(*state),
        _ => None,
    };
    lock(log).iter().filter_map(state).collect()
}

/// Lets everything happen that can without time.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_reporter_can_be_anywhere() {
    fn check<T: Send + Sync + Clone + 'static>() {}
    check::<Reporter>();
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_changes_are_two_reports() {
    let Running { reporter, driver, ended, .. } = run(Some(Duration::from_secs(1)));
    reporter.report(State::Working, None);
    settle().await;
    for turn in 0..10_000 {
        let state = if turn % 2 == 0 { State::Blocked } else { State::Working };
        reporter.report(state, Some("turn"));
    }
    reporter.report(State::Idle, None);
    reporter.finish_within(Duration::from_secs(60));
    driver.await.unwrap();
    assert_eq!(states(&ended), [State::Working, State::Idle]);
    assert!(reporter.status().settled);
}

#[tokio::test(start_paused = true)]
async fn a_hung_herdr_is_left_in_time() {
    let Running { reporter, driver, start, ended, .. } = run(None);
    reporter.report(State::Idle, None);
    settle().await;
    reporter.release();
    reporter.finish_within(Duration::from_millis(300));
    driver.await.unwrap();
    let took = start.elapsed();
    assert!(took <= Duration::from_millis(300), "{took:?}");
    assert!(took >= Duration::from_millis(250), "it used the time that it had: {took:?}");
    assert_eq!(lock(&ended).len(), 0);
    assert!(!reporter.finish(Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_release_overtakes_a_request_that_keeps_it_waiting() {
    let Running { reporter, driver, begun, ended, start } = run(Some(Duration::from_millis(150)));
    reporter.report(State::Working, None);
    settle().await;
    reporter.release();
    reporter.finish_within(Duration::from_millis(300));
    driver.await.unwrap();
    let begun: Vec<_> =
        lock(&begun).iter().map(|(at, request)| (*at - start, request.method())).collect();
    let overtaken = (Duration::from_millis(100), "pane.release_agent");
    assert_eq!(begun[..2], [(Duration::ZERO, "pane.report_agent"), overtaken]);
    assert_eq!(states(&ended), [], "the state that the release made pointless");
    assert!(matches!(lock(&ended)[..], [(_, Request::Release { .. })]));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_nearly_done_is_not_overtaken() {
    let Running { reporter, driver, ended, .. } = run(Some(Duration::from_millis(50)));
    reporter.report(State::Working, None);
    settle().await;
    reporter.release();
    reporter.finish_within(Duration::from_millis(300));
    driver.await.unwrap();
    let methods: Vec<_> = lock(&ended).iter().map(|(_, request)| request.method()).collect();
    assert_eq!(methods, ["pane.report_agent", "pane.release_agent", "pane.get"]);
}

#[tokio::test(start_paused = true)]
async fn the_last_handle_ends_the_driver_and_leaves_the_state() {
    let Running { reporter, driver, ended, .. } = run(Some(Duration::from_millis(10)));
    let clone = reporter.clone();
    reporter.report(State::Working, None);
    drop(reporter);
    settle().await;
    clone.report(State::Idle, None);
    drop(clone);
    driver.await.unwrap();
    assert_eq!(states(&ended).last(), Some(&State::Idle));
    let is_release = |(_, request): &(_, _)| matches!(request, Request::Release { .. });
    assert!(!lock(&ended).iter().any(is_release), "dropping is not a quit");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_taken_after_a_release() {
    let Running { reporter, driver, ended, .. } = run(Some(Duration::from_millis(10)));
    reporter.report(State::Working, None);
    settle().await;
    reporter.release();
    reporter.report(State::Blocked, Some("too late"));
    reporter.session("s1", ResumeCommand::new(["a"]).ok());
    driver.await.unwrap();
    assert_eq!(states(&ended), [State::Working]);
    assert_eq!(reporter.status().reported, None);
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_is_dropped_keeps_nobody_waiting() {
    let Running { reporter, driver, .. } = run(None);
    settle().await;
    driver.abort();
    settle().await;
    assert!(!reporter.finish(Duration::from_secs(3_600)), "returned at once");
    reporter.report(State::Idle, None);
}

#[tokio::test(start_paused = true)]
async fn a_session_without_an_id_is_ignored() {
    let Running { reporter, driver, ended, .. } = run(Some(Duration::from_millis(10)));
    reporter.session(" \u{7}", ResumeCommand::new(["a"]).ok());
    reporter.report(State::Idle, None);
    reporter.finish_within(Duration::from_secs(1));
    driver.await.unwrap();
    assert!(lock(&ended).iter().all(|(_, request)| request.resume().is_none()));
}

#[test]
fn many_threads_end_with_the_last_value() {
    let (begun, ended) = (Log::default(), Log::default());
    let delay = Some(Duration::from_micros(300));
    let transport = Remembers { delay, begun, ended: ended.clone() };
    let sequence = Sequence::in_memory(Arc::new(SystemClock));
    let plan = Plan::new(&AgentName::new("my-agent").unwrap(), sequence, None);
    let (reporter, driver) = Reporter::drive(plan, transport);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let thread = thread::spawn(move || runtime.block_on(driver));
    for _ in 0..20 {
        thread::scope(|scope| {
            for state in [State::Idle, State::Working, State::Blocked] {
                let reporter = reporter.clone();
                scope.spawn(move || {
                    for _ in 0..500 {
                        reporter.report(state, None);
                    }
                });
            }
        });
        reporter.report(State::Blocked, Some("last"));
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        while states(&ended).last() != Some(&State::Blocked) || !reporter.status().settled {
            assert!(std::time::Instant::now() < deadline, "{:?}", reporter.status());
            thread::yield_now();
        }
    }
    assert!(reporter.finish(Duration::from_secs(10)));
    thread.join().unwrap();
}
