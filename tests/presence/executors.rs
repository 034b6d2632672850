//! The whole life of an agent, from a plain thread, inside tokio's runtimes, and on another executor: no
//! call needs one, and none stands in the way of one.

use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use agent_presence::Presence;
use agent_presence::presence::Wanted;
use serde_json::json;
use tokio::runtime;

use crate::support::phone::Phone;
use crate::{Rig, rig};

/// Two turns: one with an approval, and one that gives up on its question. Everything is called from
/// within the task, and nothing of it may block there.
async fn life(presence: Presence) {
    let session = presence.session("s").title("Try it").open().unwrap();
    session.working();
    let reply = session.reply("r");
    reply.partial("Look").unwrap();
    reply.done("Looking.").unwrap();
    session.say("hello").unwrap();
    let block = session.block("log in");
    drop(block);
    let verdict = session.approve("rm", json!({"path": "/"})).await.unwrap();
    assert!(verdict.approved);
    assert_eq!(session.turn().as_deref(), Some("t-1"));
    session.title("Better").unwrap();
    session.resume(["my-agent", "--resume", "s"]).unwrap();
    session.foreground();

    // A question that is polled, and given up.
    let mut asked =
        Box::pin(session.ask("Sure?").option("y", "Y").option("n", "N").raise().unwrap());
    assert!(asked.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(asked);
    session.idle();
    let inbox = session.inbox();
    assert!(inbox.try_recv().is_none());
    let wish = inbox.recv().await.unwrap();
    assert_eq!(wish.accept(), Wanted::Send { text: "bye".to_owned() });
    presence.status();
    session.release();
    presence.close();
}

/// The person: allows, sees the card go that was given up, and sends a last text.
fn person(rig: &Rig) {
    rig.phone.wait_ready();
    let (pane, ask) = rig.phone.wait_for_ask();
    rig.herdr.wait_for_state("blocked");
    rig.phone.answer(&pane, ask["id"].as_str().unwrap(), &json!({"optionIds": ["allow"]}));
    let is_idle = |state: &serde_json::Value| state["panes"][0]["state"] == "idle";
    let state = rig.phone.wait_for("an idle agent without a card", is_idle);
    assert_eq!(state["panes"][0]["asks"], json!([]));
    rig.herdr.wait_for_state("idle");
    let items = rig.phone.events("s", None)["items"].clone();
    let texts: Vec<_> = items.as_array().unwrap().iter().map(|item| item["text"].clone()).collect();
    assert!(texts.contains(&json!("Withdrawn before an answer: Sure?")), "{texts:?}");
    assert_eq!(rig.phone.send("s", "bye").status, 200);
    rig.herdr.wait_for_pane(|pane| pane.holder.is_none());
}

/// The life on a thread, with this executor; the person on ours.
fn lived(on: impl FnOnce(Presence) + Send + 'static) {
    let rig = rig();
    let presence = rig.presence.clone();
    let agent = thread::spawn(move || on(presence));
    person(&rig);
    agent.join().unwrap();
}

#[test]
fn on_a_thread_of_tokio_alone() {
    lived(|presence| {
        runtime::Builder::new_current_thread().build().unwrap().block_on(life(presence));
    });
}

#[test]
fn on_one_of_several_threads_of_tokio() {
    lived(|presence| {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        runtime.block_on(async { tokio::spawn(life(presence)).await.unwrap() });
    });
}

#[test]
fn on_an_executor_that_knows_nothing_of_tokio() {
    lived(|presence| pollster::block_on(life(presence)));
}

/// The presence itself begins and ends inside a runtime too, and no call waits for a Herdr that hangs.
#[test]
fn a_presence_begins_and_ends_inside_a_runtime() {
    let runtime = runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let rig = rig();
        rig.herdr.set_usual(crate::Behaviour::Hangs);
        let begun = Instant::now();
        let session = rig.presence.session("s").open().unwrap();
        for _ in 0..1000 {
            session.working();
            session.idle();
        }
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        assert_eq!(Phone::at(rig.phone.socket()).pane("s")["id"], "s");
        drop(session);
        rig.presence.close();
    });
}

/// A future that is dropped while it is awaited, by whatever drops it: the card goes, and Herdr is back.
#[test]
fn a_future_that_is_dropped_withdraws_its_card() {
    let rig = rig();
    let session = rig.presence.session("s").open().unwrap();
    session.working();
    let runtime = runtime::Builder::new_current_thread().build().unwrap();
    for round in 0..3 {
        // It is raised when it is polled first.
        let approval = session.approve("rm", json!({"round": round})).into_future();
        let (give_up, no_more) = tokio::sync::oneshot::channel();
        let asking = async {
            tokio::select! {
                verdict = approval => Some(verdict),
                _ = no_more => None,
            }
        };
        let verdict = thread::scope(|scope| {
            let asked = scope.spawn(|| runtime.block_on(asking));
            rig.herdr.wait_for_state("blocked");
            assert_eq!(rig.phone.pane("s")["asks"].as_array().unwrap().len(), 1);
            give_up.send(()).unwrap();
            asked.join().unwrap()
        });
        assert!(verdict.is_none());
        assert_eq!(rig.phone.pane("s")["asks"], json!([]));
        assert_eq!(rig.phone.pane("s")["state"], "working");
        rig.herdr.wait_for_state("working");
    }
}
