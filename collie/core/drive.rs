//! What happens by itself: asks expire, growing texts are written, what the agent had accepted before
//! a restart is given to it.

use std::cmp::Reverse;

use tokio::time::Instant;

use super::Core;
use super::state::Due;

impl Core {
    /// Lets asks expire and growing texts be written; never ends. It runs on a tokio runtime, once
    /// for each core, and wakes only when something is due. [`open`](crate::collie::open) does this
    /// itself.
    pub async fn drive(&self) {
        loop {
            let next = self.run_due();
            self.give_sends();
            let earlier = self.shared.earlier.notified();
            match next {
                None => earlier.await,
                Some(at) => {
                    // A timeout is the next thing being due, and that is no error.
                    let _ = tokio::time::timeout_at(at, earlier).await;
                }
            }
        }
    }

    /// Does what is due, and says when the next is.
    fn run_due(&self) -> Option<Instant> {
        self.edit(|edit| {
            loop {
                let Reverse((at, _)) = edit.state.due.peek()?;
                if *at > Instant::now() {
                    return Some(*at);
                }
                match edit.state.due.pop()?.0.1 {
                    Due::Expiry { pane, ask } => edit.expiry_is_due(&pane, &ask),
                    Due::Partial { pane, item } => edit.flush_partial(&pane, &item),
                }
            }
        })
    }
}
