//! Commands with ids at a relay: a site does them, and its answer is the relay's.
//!
//! Whether an operation was counted before only sites can know. So a relay counts none itself: it asks the site that it
//! hands over to, and says what it knows if there is no answer.

use std::{sync::Arc, time::Duration};

use quipu_engine::{Action, OwnedCommand, Refusal, Reply, call};
use tokio::time::timeout;

use super::{Current, Relay};
use crate::{
    links::Unanswered,
    node::{Node, Shared},
};

/// For so long a command waits until there is a parent.
const PARENT_WAIT: Duration = Duration::from_secs(1);
/// For so long it waits for the answer, besides what it may wait itself for other sites.
const CALL_MAX: Duration = Duration::from_secs(5);

/// Does a relay pass such a command on to a site? A site takes no other from it.
pub(in crate::node) fn passes_on(action: &Action<'_>) -> bool {
    matches!(action, Action::Add { operation: Some(_), .. } | Action::Outcome(_))
}

impl Shared {
    /// Is this a relay, and does it pass such a command on to a site?
    pub(in crate::node) fn passes_on(&self, action: &Action<'_>) -> bool {
        passes_on(action) && self.relay.is_some()
    }

    /// Passes a command on to a site, on the thread of the front ends.
    pub(in crate::node) fn pass_on_command(
        self: &Arc<Self>,
        command: OwnedCommand,
        done: impl FnOnce(Reply) + Send + 'static,
    ) {
        let node = Node { shared: Arc::clone(self) };
        self.runtime.spawn(async move {
            let reply = match &node.shared.relay {
                Some(relay) => relay.pass_on(&command).await,
                None => Err(Refusal::OnlyAtSites),
            };
            done(reply.unwrap_or_else(Reply::Refused));
        });
    }
}

impl Relay {
    async fn pass_on(&self, command: &OwnedCommand) -> Result<Reply, Refusal> {
        if self.is_retiring() {
            return Err(Refusal::Leaving);
        }
        let Some(Current { parent, .. }) = self.met().await else {
            let trouble = self.state().trouble.clone();
            return Err(Refusal::NoSite(trouble.unwrap_or_else(|| "none has answered yet".to_owned())));
        };
        let (own_wait, counts) = match command.get().action {
            Action::Add { add, .. } => (Duration::from_millis(add.remote_ms), true),
            _ => (Duration::ZERO, false),
        };
        let answer = parent.call(&call::encode_command(command.get()), CALL_MAX + own_wait).await;
        match answer {
            Ok(reply) => call::decode_reply(&reply).map_err(|bad| Refusal::InDoubt(bad.to_string())),
            Err(Unanswered::NotSent(why)) => Err(Refusal::NoSite(why)),
            Err(Unanswered::NoAnswer(why) | Unanswered::Refused(why)) if counts => {
                Err(Refusal::InDoubt(format!("it was passed on to a site: {why}")))
            }
            Err(Unanswered::NoAnswer(why) | Unanswered::Refused(why)) => Err(Refusal::NoSite(why)),
        }
    }

    /// The parent that is handed over to, once there is one. `None`: there was none for a while.
    async fn met(&self) -> Option<Current> {
        let wait = async {
            loop {
                let met = self.met.notified();
                if let Some(current) = self.state().current.clone() {
                    return current;
                }
                met.await;
            }
        };
        timeout(PARENT_WAIT, wait).await.ok()
    }
}
