//! A relay: a node whose shards hand over what they count to a site.
//!
//! [`attend`] speaks to one parent as long as that one answers, and to the next one otherwise. What is said is durable
//! before it is sent: a worker gives it away with its batch ([`rounds`]). [`passing`] is what becomes of commands that only sites do, [`retiring`] how a relay leaves.

mod passing;
mod retiring;
mod rounds;

use std::{
    fmt::Write,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use quipu_engine::handoff::{Name, Round, Server, exchange::BadExchange};
use tokio::{
    sync::Notify,
    task::JoinHandle,
    time::{sleep, timeout},
};

use self::rounds::Outcome;
pub(super) use self::{passing::passes_on, retiring::Leaving};
use super::{Node, identity::Folder};
use crate::{
    config::Config,
    links::{BackOff, Caller, Throttle, Unanswered, Verdict},
};

/// While there is something to hand over, a parent is spoken to this often.
const PACE: Duration = Duration::from_millis(25);
/// Without, this often: somebody may watch a counter.
const REFRESH: Duration = Duration::from_secs(1);
/// And this often also for shards that have nothing to say: a parent may keep something for them.
const ALL_EVERY: Duration = Duration::from_secs(5);
/// How often the other parents are looked after: they may keep a slot, or a token for an earlier one is here.
const OTHERS_EVERY: Duration = Duration::from_secs(10);
/// Looking after one of them takes no longer.
const OTHERS_MAX: Duration = Duration::from_secs(60);

/// Why a parent is not spoken to any more.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// It is not there, or does not answer.
    #[error("{0}")]
    Lost(String),
    /// Somebody has to repair something.
    #[error("{0}")]
    Wrong(String),
}

impl From<Unanswered> for Trouble {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::NotSent(why) | Unanswered::NoAnswer(why) => Self::Lost(why),
            Unanswered::Refused(why) => Self::Wrong(why),
        }
    }
}

impl From<BadExchange> for Trouble {
    fn from(bad: BadExchange) -> Self {
        Self::Wrong(format!("an answer that cannot be read: {bad}"))
    }
}

/// What all threads of a relay know.
#[derive(Debug)]
pub(super) struct Relay {
    pub(super) name: Name,
    parents: Vec<String>,
    /// Something waits to be handed over.
    news: Notify,
    /// There is a parent.
    met: Notify,
    /// By worker: does something wait there?
    waiting: Vec<AtomicBool>,
    /// Is it to retire? Stored.
    retiring: AtomicBool,
    state: Mutex<State>,
    complaints: Throttle,
}

/// A parent that is handed over to.
#[derive(Debug, Clone)]
struct Current {
    address: String,
    server: Server,
    parent: Arc<Caller>,
}

#[derive(Debug, Default)]
struct State {
    /// Where it hands over now.
    current: Option<Current>,
    /// What was last wrong, and where.
    trouble: Option<String>,
}

impl Relay {
    pub(super) fn new(name: Name, config: &Config, folder: &Folder) -> Result<Self, super::FolderError> {
        Ok(Self {
            name,
            parents: config.parents.clone(),
            news: Notify::new(),
            met: Notify::new(),
            waiting: (0..config.workers).map(|_| AtomicBool::new(false)).collect(),
            retiring: AtomicBool::new(folder.is_retiring()?),
            state: Mutex::default(),
            complaints: Throttle::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Is it to retire?
    pub(super) fn is_retiring(&self) -> bool {
        self.retiring.load(Ordering::Acquire)
    }

    /// To whom it hands over now.
    pub(super) fn current(&self) -> Option<Name> {
        self.state().current.as_ref().map(|current| current.server.name)
    }

    /// A worker says whether something waits there.
    pub(super) fn note(&self, worker: usize, waits: bool) {
        self.waiting[worker].store(waits, Ordering::Release);
        if waits {
            self.news.notify_one();
        }
    }

    fn waits(&self) -> bool {
        self.waiting.iter().any(|waits| waits.load(Ordering::Acquire))
    }

    fn complain(&self, address: &str, what: &str) {
        self.state().trouble = Some(format!("{address}: {what}"));
        match self.complaints.ask(Instant::now()) {
            Verdict::Write => tracing::warn!(parent = address, "{what}"),
            Verdict::WriteLast => {
                tracing::warn!(parent = address, "{what}; more like this are not logged for a while");
            }
            Verdict::Omit => {}
        }
    }

    /// What `INFO` says of the parents.
    pub(super) fn write_info(&self, text: &mut String) -> std::fmt::Result {
        let State { current, trouble } = &*self.state();
        write!(text, "relay:{}\r\n", self.name)?;
        for (number, address) in self.parents.iter().enumerate() {
            write!(text, "parent{number}:address={address}")?;
            match current.as_ref().filter(|current| current.address == *address) {
                Some(current) => write!(text, ",link=up,server={}\r\n", current.server.name)?,
                None => write!(text, ",link=idle\r\n")?,
            }
        }
        if let Some(trouble) = trouble {
            write!(text, "trouble:{trouble}\r\n")?;
        }
        write!(text, "retiring:{}\r\n", if self.is_retiring() { "yes" } else { "no" })
    }
}

/// Hands over, as long as the node runs.
pub(super) async fn attend(node: &Node) {
    let Some(relay) = &node.shared.relay else { return std::future::pending().await };
    let mut backoff = BackOff::default();
    for address in relay.parents.iter().cycle() {
        let (was_up, trouble) = serve_by(node, relay, address).await;
        relay.state().current = None;
        relay.complain(address, &format!("nothing can be handed over there: {trouble}"));
        if was_up {
            backoff.reset();
        }
        let wait = match trouble {
            Trouble::Lost(_) => backoff.failed(),
            Trouble::Wrong(_) => backoff.refused(),
        };
        sleep(wait).await;
    }
}

/// Hands over to one parent until that does not work any more. Was there a time when it did?
async fn serve_by(node: &Node, relay: &Relay, address: &str) -> (bool, Trouble) {
    let (parent, server) = match meet(node, address).await {
        Ok(met) => met,
        Err(trouble) => return (false, trouble),
    };
    tracing::info!(parent = address, server = %server.name, "handing over");
    let parent = Arc::new(parent);
    let current = Current { address: address.to_owned(), server, parent: Arc::clone(&parent) };
    *relay.state() = State { current: Some(current), trouble: None };
    relay.met.notify_waiters();
    let (mut all_at, mut others_at) = (Instant::now(), Instant::now());
    let mut others: Option<JoinHandle<()>> = None;
    loop {
        let now = Instant::now();
        let all = now >= all_at;
        if all {
            all_at = now + ALL_EVERY;
        }
        let outcome = match node.hand_over(&parent, server, Round { chosen: true, all }).await {
            Ok(outcome) => outcome,
            Err(trouble) => return (true, trouble),
        };
        if let Outcome::Refused(why) = &outcome {
            relay.complain(address, why);
        }
        if relay.is_retiring()
            && let Err(trouble) = node.leave_estates(&parent, server).await
        {
            return (true, trouble);
        }
        if now >= others_at && others.as_ref().is_none_or(JoinHandle::is_finished) {
            others_at = now + OTHERS_EVERY;
            others = Some(tokio::spawn(look_after_others(node.clone(), address.to_owned())));
        }
        match outcome {
            Outcome::Done if relay.waits() => sleep(PACE).await,
            Outcome::Done => {
                // Only so that it is not spoken to too often.
                _ = timeout(REFRESH, relay.news.notified()).await;
                sleep(PACE).await;
            }
            Outcome::Refused(_) => sleep(REFRESH).await,
        }
    }
}

/// The parents that are not handed over to now are told what they must know to close their slots, and asked what they keep.
async fn look_after_others(node: Node, current: String) {
    let Some(relay) = &node.shared.relay else { return };
    for address in relay.parents.iter().filter(|address| **address != current) {
        let look = async {
            let (parent, server) = meet(&node, address).await?;
            node.hand_over(&parent, server, Round { chosen: false, all: true }).await?;
            if relay.is_retiring() {
                node.leave_estates(&parent, server).await?;
            }
            Ok::<_, Trouble>(())
        };
        match timeout(OTHERS_MAX, look).await {
            Ok(Ok(())) => {}
            Ok(Err(trouble)) => tracing::debug!(parent = address, "not looked after: {trouble}"),
            Err(_) => tracing::debug!(parent = address, "not looked after: it takes too long"),
        }
    }
}

/// Dials a parent and asks who it is.
async fn meet(node: &Node, address: &str) -> Result<(Caller, Server), Trouble> {
    let parent = Caller::dial(address).await.map_err(|error| Trouble::Lost(error.to_string()))?;
    let server = node.introduce_to(&parent).await?;
    Ok((parent, server))
}
