//! The joins of the presence, on loom's locks and between faces in small: who tells the faces what, who
//! gets which wish, and who decides an ask. The code is the real one.

#[path = "../../src/presence/ask.rs"]
mod ask;
#[path = "../../src/presence/inner.rs"]
mod inner;
#[path = "../../src/presence/nested.rs"]
mod nested;
#[path = "../../src/presence/queue.rs"]
mod queue;
#[path = "../../src/presence/wish.rs"]
mod wish;

/// What the presence is made of, under loom.
mod sync {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;
    use std::time::Duration;

    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU64};
    pub(super) use loom::sync::{Mutex, MutexGuard};

    pub(super) struct Elapsed;

    /// No patience at all ends somewhere between two looks, wherever loom lets the others run; any other
    /// never ends.
    pub(super) async fn timeout<F: Future>(
        patience: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed> {
        let mut future = pin!(future);
        let mut looks = 0;
        poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            looks += 1;
            if patience.is_zero() && looks == 2 {
                return Poll::Ready(Err(Elapsed));
            }
            if patience.is_zero() {
                loom::thread::yield_now();
                context.waker().wake_by_ref();
            }
            Poll::Pending
        })
        .await
    }
}

/// What a wish knows of a session.
mod session {
    pub(super) struct Session;

    impl Session {
        #[expect(clippy::unused_self, reason = "as the real one")]
        pub(super) fn id(&self) -> &'static str {
            "s"
        }
    }
}

use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};

use agent_presence::collie::{DecidedBy, Item, PaneState};
use loom::future::block_on;
use loom::thread;

use self::ask::{Ask, raise};
use self::inner::{Foreground, SessionInner, lock};
use self::queue::Queue;
use self::wish::Wanted;
use crate::collie::{Answer, AskInput, Pane, closed_by};
use crate::herdr::{self, Reporter};
use crate::session::{Rank, SessionId, State};

/// A presence, as its sessions know it.
#[derive(Debug)]
struct Inner {
    display_agent: Option<String>,
    reporter: Option<Reporter>,
    sessions: sync::Mutex<Vec<Weak<SessionInner>>>,
    foreground: sync::Mutex<Foreground>,
    inbox: Arc<Queue>,
    background: Background,
}

/// The background thread, for who wants it to look again.
#[derive(Debug)]
struct Background;

impl Background {
    #[expect(clippy::unused_self, reason = "as the real one")]
    fn changed(&self) {}
}

impl Inner {
    fn open_sessions(&self) -> Vec<Arc<SessionInner>> {
        lock(&self.sessions).iter().filter_map(Weak::upgrade).collect()
    }

    fn turn_ended(&self, _session: &Arc<SessionInner>) {
        self.inbox.wake();
    }
}

impl SessionInner {
    fn show(self: &Arc<Self>, item: Item) {
        self.publish_with(|edit| edit.map(|edit| edit.item(item)));
    }

    fn heard_from_phone(self: &Arc<Self>, request_id: &str, text: &str) {
        self.show(Item::user(request_id, text));
    }

    fn says(self: &Arc<Self>, state: State) {
        lock(&self.model).signal(Rank::Word, state, None, Instant::now());
        self.publish();
    }

    fn pane(&self) -> &Pane {
        self.pane.as_ref().unwrap()
    }
}

fn presence() -> Arc<Inner> {
    Arc::new(Inner {
        display_agent: None,
        reporter: Some(Reporter::new()),
        sessions: sync::Mutex::default(),
        foreground: sync::Mutex::default(),
        inbox: Arc::default(),
        background: Background,
    })
}

/// An open session, as the builder opens it.
fn session(presence: &Arc<Inner>, id: &str) -> Arc<SessionInner> {
    let id = SessionId::new(id).unwrap();
    let (within, pane) = (None, Some(Pane::new()));
    let session = SessionInner::new(Arc::downgrade(presence), id, pane, None, None, within);
    // The hold of an idle state is the clock's business, and has tests of its own.
    lock(&session.model).settle();
    let session = Arc::new(session);
    lock(&presence.sessions).push(Arc::downgrade(&session));
    session.come_to_the_foreground(false);
    session.announced.store(true, Ordering::Relaxed);
    session.publish();
    session
}

/// As many of the orders as differ by at most three switches to another thread that was not waited for.
fn every_order(test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.max_branches = 10_000;
    model.check(test);
}

fn same(state: PaneState) -> herdr::State {
    match state {
        PaneState::Idle => herdr::State::Idle,
        PaneState::Working => herdr::State::Working,
        PaneState::Waiting => herdr::State::Blocked,
    }
}

/// What Herdr was told of the session is what the phone was told, in the same order.
fn assert_agreed(presence: &Inner, session: &SessionInner) {
    let phone: Vec<_> = session.pane().states().into_iter().map(same).collect();
    let herdr = presence.reporter.as_ref().unwrap().told();
    let herdr: Vec<_> =
        herdr.into_iter().filter(|(id, _)| id == session.id()).map(|(_, state)| state).collect();
    assert_eq!(herdr, phone);
}

fn question() -> AskInput {
    AskInput { id: "ask".to_owned() }
}

const YES: Answer = Answer { is_yes: true };

/// A part of the agent says states, another asks, and the background thread publishes: both faces are
/// told the same values in the same order.
#[test]
fn both_faces_are_told_the_same_in_the_same_order() {
    every_order(|| {
        let presence = presence();
        let session = session(&presence, "s");
        let says = {
            let session = session.clone();
            thread::spawn(move || {
                session.says(State::Working);
                session.says(State::Blocked);
            })
        };
        let asks = {
            let session = session.clone();
            thread::spawn(move || drop(raise(&session, "Sure?", question(), None).unwrap()))
        };
        session.publish();
        says.join().unwrap();
        asks.join().unwrap();
        assert_agreed(&presence, &session);
        assert_eq!(session.pane().states().last(), Some(&PaneState::Waiting));
        assert_eq!(session.pane().open_asks(), 0);
    });
}

/// Two sessions that become active at the same time, and one that is named: Herdr ends with one of them,
/// in the state that its pane has.
#[test]
fn herdr_ends_with_one_session_as_its_pane_is() {
    every_order(|| {
        let presence = presence();
        let (one, two) = (session(&presence, "one"), session(&presence, "two"));
        let active = {
            let one = one.clone();
            thread::spawn(move || {
                one.says(State::Working);
                one.says(State::Blocked);
            })
        };
        two.says(State::Working);
        two.come_to_the_foreground(true);
        active.join().unwrap();
        let told = presence.reporter.as_ref().unwrap().told();
        assert_eq!(told.last(), Some(&("two".to_owned(), herdr::State::Working)), "{told:?}");
        assert_eq!(one.pane().states().last(), Some(&PaneState::Waiting));
        two.end(false);
        let told = presence.reporter.as_ref().unwrap().told();
        assert_eq!(told.last(), Some(&("one".to_owned(), herdr::State::Blocked)), "{told:?}");
    });
}

/// The phone answers while the time runs out and the agent works on: one of them decides, the asker hears
/// it, and both faces are back.
#[test]
fn an_answer_and_a_timeout_decide_once() {
    every_order(|| {
        let presence = presence();
        let session = session(&presence, "s");
        let asked = raise(&session, "Sure?", question(), None).unwrap();
        let phone = {
            let session = session.clone();
            thread::spawn(move || session.pane().decide("ask", Ok(YES)))
        };
        let clock = {
            let session = session.clone();
            thread::spawn(move || session.pane().decide("ask", closed_by(DecidedBy::Timeout)))
        };
        let outcome = block_on(asked);
        let (answered, timed_out) = (phone.join().unwrap(), clock.join().unwrap());
        assert!(answered != timed_out);
        assert_eq!(outcome.is_ok(), answered);
        assert_agreed(&presence, &session);
        assert_eq!(session.pane().states().last(), Some(&PaneState::Idle));
    });
}

/// The phone answers while the asker gives up: the answer counts or it does not, and one that was taken is
/// given to the same question of the same call, once.
#[test]
fn an_answer_and_a_withdrawal_decide_once_and_no_answer_is_lost() {
    every_order(|| {
        let presence = presence();
        let session = session(&presence, "s");
        let id = crate::collie::ask_id_for("s", "call");
        let ask = |session: &Arc<SessionInner>| -> Ask {
            let id = crate::collie::ask_id_for("s", "call");
            raise(session, "Sure?", AskInput { id }, Some(("call", "words".to_owned()))).unwrap()
        };
        let asked = ask(&session);
        let phone = {
            let session = session.clone();
            thread::spawn(move || session.pane().decide(&id, Ok(YES)))
        };
        drop(asked);
        let answered = phone.join().unwrap();
        assert_agreed(&presence, &session);
        assert_eq!(session.pane().states().last(), Some(&PaneState::Idle));
        let again = ask(&session);
        assert_eq!(session.pane().open_asks(), usize::from(!answered), "asked again, or answered");
        if answered {
            assert!(block_on(again).unwrap().allowed());
            drop(ask(&session));
        } else {
            drop(again);
        }
        assert_eq!(session.pane().open_asks(), 0);
        assert_agreed(&presence, &session);
    });
}

/// The asker gives up while the session goes on to its end: no card and no reason stays.
#[test]
fn a_withdrawal_and_the_end_of_its_session_leave_nothing() {
    every_order(|| {
        let presence = presence();
        let session = session(&presence, "s");
        let ending = {
            let session = session.clone();
            thread::spawn(move || session.end(false))
        };
        if let Ok(asked) = raise(&session, "Sure?", question(), None) {
            drop(asked);
        }
        ending.join().unwrap();
        assert_eq!(session.pane().open_asks(), 0);
        assert_eq!(session.pane().states().last(), Some(&PaneState::Idle));
        assert_agreed(&presence, &session);
    });
}

/// Takes the next wish, as an inbox does.
async fn next(queue: &Queue) -> wish::Wish {
    poll_fn(|context| {
        queue.wake_later(context.waker());
        match queue.take(None) {
            Some(wish) => Poll::Ready(wish),
            None => Poll::Pending,
        }
    })
    .await
}

fn action(id: u8) -> Wanted {
    Wanted::Action { action: id.to_string(), item: None }
}

/// A phone that sends one wish after the other, and an agent that waits: each wish is handed out once and
/// in order, and the phone hears that it was taken.
#[test]
fn each_wish_is_handed_out_once_and_in_order() {
    every_order(|| {
        let queue = Arc::new(Queue::default());
        let phone = {
            let queue = queue.clone();
            thread::spawn(move || {
                for id in [1, 2] {
                    let long = Duration::from_secs(10);
                    let taken = block_on(queue.wish(None, id.to_string(), action(id), long, false));
                    assert!(taken.is_ok());
                }
            })
        };
        let taken = [block_on(next(&queue)).accept(), block_on(next(&queue)).accept()];
        assert_eq!(taken, [action(1), action(2)]);
        phone.join().unwrap();
        assert!(queue.take(None).is_none());
    });
}

/// Two that look at the same inbox: a wish goes to one of them.
#[test]
fn a_wish_goes_to_one_of_two_that_look() {
    every_order(|| {
        let queue = Arc::new(Queue::default());
        let phone = {
            let queue = queue.clone();
            let none = Duration::ZERO;
            thread::spawn(move || {
                block_on(queue.wish(None, "r".to_owned(), Wanted::Stop, none, false))
            })
        };
        let other = {
            let queue = queue.clone();
            thread::spawn(move || queue.take(None).map(wish::Wish::accept).is_some())
        };
        let taken = queue.take(None).map(wish::Wish::accept).is_some();
        let taken = [taken, other.join().unwrap()].into_iter().filter(|taken| *taken).count();
        assert_eq!(taken, usize::from(phone.join().unwrap().is_ok()));
        assert!(queue.take(None).is_none());
    });
}

/// A wish whose time runs out just as the agent takes it: the agent has it and the phone hears so, or
/// neither.
#[test]
fn a_wish_that_is_too_late_is_refused_or_taken_and_never_both() {
    every_order(|| {
        let queue = Arc::new(Queue::default());
        let phone = {
            let queue = queue.clone();
            let none = Duration::ZERO;
            thread::spawn(move || {
                block_on(queue.wish(None, "r".to_owned(), Wanted::Stop, none, false))
            })
        };
        let taken = queue.take(None).map(wish::Wish::accept);
        let heard = phone.join().unwrap();
        assert_eq!(taken.is_some(), heard.is_ok());
        assert!(queue.take(None).is_none(), "what is refused is not done later");
    });
}

/// A text that was queued for the end of a turn, and two inboxes that wait for it: the end wakes who gets
/// it, and only one does.
#[test]
fn a_queued_text_is_handed_out_once_when_the_turn_ends() {
    every_order(|| {
        let presence = presence();
        let session = session(&presence, "s");
        session.says(State::Working);
        let text = Wanted::Send { text: "next".to_owned() };
        let long = Duration::from_secs(10);
        let queued =
            block_on(presence.inbox.wish(Some(&session), "r".to_owned(), text, long, false));
        assert!(queued.is_ok(), "the phone has its answer already");
        let agent = {
            let queue = presence.inbox.clone();
            thread::spawn(move || block_on(next(&queue)).accept())
        };
        assert!(presence.inbox.take(None).is_none(), "a turn runs");
        session.says(State::Idle);
        assert!(matches!(agent.join().unwrap(), Wanted::Send { .. }));
        assert!(presence.inbox.take(None).is_none());
        assert_agreed(&presence, &session);
    });
}
