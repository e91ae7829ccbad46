//! A client that tries every operation until it is acknowledged.

use super::proxy::Proxy;
use crate::bench::endpoint::{Conversation, Endpoint};
use crate::bench::error::BenchError;
use crate::bench::replies::Reply;
use std::time::{Duration, Instant};

/// After so many attempts something else than bad luck is at work: at a loss of 0.9 it is 10⁻⁴⁵.
const ATTEMPTS_MAX: u32 = 1_000;
/// After so long, too: a server that is stuck answers no attempt.
const OPERATION_TIME_MAX: Duration = Duration::from_secs(60);
/// From attempt to attempt the pause grows by so much, up to the longest.
const PAUSE_STEP: Duration = Duration::from_millis(1);
const PAUSE_STEPS_MAX: u32 = 20;

pub(super) struct Client<'a> {
    network: &'a Proxy,
    /// The proxy's address; its time-out is how long a client waits for an acknowledgement.
    endpoint: &'a Endpoint,
    conversation: Option<Conversation<'a>>,
    pub(super) retries: u64,
}

impl<'a> Client<'a> {
    pub(super) fn new(network: &'a Proxy, endpoint: &'a Endpoint) -> Self {
        Client { network, endpoint, conversation: None, retries: 0 }
    }

    /// Sends the same bytes again and again until all their replies have come. `go_on` is asked before each attempt;
    /// says whether the operation was acknowledged.
    pub(super) fn until_acknowledged(
        &mut self,
        operation: &[u8],
        replies: usize,
        go_on: &dyn Fn() -> bool,
    ) -> Result<bool, BenchError> {
        let started = Instant::now();
        let mut attempts = 0;
        while go_on() {
            attempts += 1;
            self.retries += u64::from(attempts > 1);
            let last = match self.attempt(operation, replies) {
                Ok(()) => return Ok(true),
                Err(error) if is_silence(&error) => Box::new(error),
                Err(error) => return Err(error),
            };
            // A reply that comes late must not be taken for that to a later operation.
            self.conversation = None;
            if let Some(failure) = self.network.failure() {
                return Err(failure);
            }
            if attempts >= ATTEMPTS_MAX || started.elapsed() >= OPERATION_TIME_MAX {
                return Err(BenchError::NeverAcknowledged { attempts, last });
            }
            std::thread::sleep(PAUSE_STEP * (attempts - 1).min(PAUSE_STEPS_MAX));
        }
        Ok(false)
    }

    fn attempt(&mut self, operation: &[u8], replies: usize) -> Result<(), BenchError> {
        let conversation = match &mut self.conversation {
            Some(conversation) => conversation,
            none => none.insert(self.endpoint.open()?),
        };
        conversation.send(operation)?;
        for unanswered in (1..=replies).rev() {
            let reply = conversation.receive(unanswered)?;
            let address = || self.endpoint.name.clone();
            match reply {
                Reply::Integer(_) => {}
                Reply::Error(text) => {
                    let text = String::from_utf8_lossy(text).into_owned();
                    return Err(BenchError::Answer { address: address(), text, remedy: "" });
                }
                other => {
                    let (got, expected) = (other.text(), "a number".to_owned());
                    return Err(BenchError::Unexpected { address: address(), got, expected });
                }
            }
        }
        Ok(())
    }
}

/// Cut off or timed out: whether the operation was counted is unknown, so it is tried again.
fn is_silence(error: &BenchError) -> bool {
    matches!(
        error,
        BenchError::Closed { .. }
            | BenchError::Silent { .. }
            | BenchError::Io { .. }
            | BenchError::Unreachable { .. }
    )
}
