//! The other nodes of this site, when several serve one store: who has which shard, and how what is for another node gets
//! there.
//!
//! A thread ([`keeping`]) writes that this node is there, looks at the others, and lets the workers take and release shards.
//! Commands for shards elsewhere are passed on ([`passing`]) over the link port, and answered there ([`answering`]). What
//! shards say to other sites goes through the one node that has the links ([`crossing`]).

mod answering;
mod crossing;
mod facts;
mod keeping;
mod passing;
mod question;
mod seat;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Instant,
};

use minicbor::{Decode, Encode};
use quipu_engine::{
    OpenError,
    handoff::exchange,
    host::Standing,
    nodes::{Holding, Seat, Trust},
};
use quipu_storage::{Held, Log, NodeId, Registered, Registry, ShardId};
use tokio::sync::{Notify, watch};

pub(super) use self::{
    crossing::attend,
    keeping::{Keeping, Listening, Running},
    passing::{Passed, own_wait},
    seat::SEAT,
};
use super::Shared;
use crate::auth::equal;
use crate::links::{Caller, LinksOf, NODE_KEY_BYTES};

/// Where a node can be reached.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct About {
    /// By other nodes.
    #[n(0)]
    pub(crate) link: String,
    /// By Redis clients: host and port.
    #[n(1)]
    pub(crate) resp: Option<(String, u16)>,
    /// By HTTP clients.
    #[n(2)]
    pub(crate) http: Option<String>,
    /// The version that it runs.
    #[n(3)]
    pub(crate) version: String,
    /// By clients of a Redis Cluster: host and port.
    #[n(4)]
    pub(crate) resp_cluster: Option<(String, u16)>,
    /// What other nodes of the site show when they dial it: drawn at the start, and known to nobody who cannot read the
    /// database.
    #[cbor(n(5), with = "minicbor::bytes", default)]
    pub(crate) key: [u8; NODE_KEY_BYTES],
}

impl About {
    fn decode(registered: &Registered) -> Option<Self> {
        exchange::decode(&registered.about).ok()
    }

    /// Then the two are not there at the same time.
    fn shares_an_address_with(&self, other: &Self) -> bool {
        let is_same = |one: &Option<String>, two: &Option<String>| one.is_some() && one == two;
        self.link == other.link
            || is_same(&self.http, &other.http)
            || (self.resp.is_some() && self.resp == other.resp)
            || (self.resp_cluster.is_some() && self.resp_cluster == other.resp_cluster)
    }
}

/// A node of this site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sibling {
    pub(crate) about: About,
    pub(crate) drains: bool,
}

/// Where a shard is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Here,
    There(NodeId),
    Nowhere,
}

/// What was last seen of the others.
#[derive(Debug, Clone, Default)]
pub(crate) struct View {
    /// Who has each shard, or is about to take it.
    pub(crate) routes: BTreeMap<ShardId, NodeId>,
    /// Who is there, this node included.
    pub(crate) nodes: BTreeMap<NodeId, Sibling>,
    /// All of them are known to be alive.
    pub(crate) is_certain: bool,
    /// Who speaks for the site.
    pub(crate) speaker: Option<NodeId>,
    /// Where the logs stand.
    pub(crate) held: Vec<Held>,
}

/// What the thread that keeps this node's place is told.
enum Nudge {
    /// Look at once.
    Look,
    /// Look no more.
    Stop,
}

/// The other nodes, and how this one stands among them.
pub(crate) struct Siblings {
    registry: Arc<dyn Registry>,
    /// This node's key, as in [`About`].
    key: [u8; NODE_KEY_BYTES],
    started: Instant,
    /// By shard: is it open here?
    here: Box<[AtomicBool]>,
    /// Shards that a worker is about to take or to release.
    moving: Mutex<BTreeSet<ShardId>>,
    view: Mutex<Arc<View>>,
    changed: watch::Sender<()>,
    trust: Mutex<Trust>,
    /// Does this node give its shards away?
    drains: AtomicBool,
    seat: Mutex<Seat<Box<dyn Log>>>,
    /// A link to another site has come or gone, at this node.
    links_changed: Notify,
    /// Why a shard could not be taken, the last time.
    failure: Mutex<Option<OpenError>>,
    nudge: mpsc::Sender<Nudge>,
    callers: tokio::sync::Mutex<BTreeMap<NodeId, Arc<Caller>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Siblings {
    pub(crate) fn own(&self) -> NodeId {
        self.registry.own()
    }

    /// Has whoever shows this read the database of this site?
    pub(crate) fn knows(&self, key: &[u8; NODE_KEY_BYTES]) -> bool {
        equal(&self.key, key)
    }

    /// What was last seen of the others.
    pub(crate) fn view(&self) -> Arc<View> {
        Arc::clone(&lock(&self.view))
    }

    pub(crate) fn is_here(&self, shard: ShardId) -> bool {
        self.here.get(usize::from(shard.0)).is_some_and(|here| here.load(Ordering::Acquire))
    }

    /// The shards that are open here.
    pub(crate) fn open(&self) -> BTreeSet<ShardId> {
        (0..)
            .zip(&self.here)
            .filter(|(_, here)| here.load(Ordering::Acquire))
            .map(|(at, _)| ShardId(at))
            .collect()
    }

    pub(crate) fn place(&self, shard: ShardId) -> Place {
        if self.is_here(shard) {
            return Place::Here;
        }
        match self.view().routes.get(&shard) {
            Some(node) if *node != self.own() => Place::There(*node),
            _ => Place::Nowhere,
        }
    }

    /// How far this node may rely on what it has at this moment.
    pub(super) fn standing(&self) -> Standing {
        let Trust { epoch, until_ms } = *lock(&self.trust);
        Standing { epoch, holds: self.now_ms() < until_ms }
    }

    fn now_ms(&self) -> u64 {
        super::millis(self.started.elapsed())
    }

    /// What this node has at this moment.
    fn holding(&self, shared: &Shared) -> Holding {
        Holding { shards: self.open(), seat: shared.speaks(), together: shared.council.is_together() }
    }

    /// Where the links to other sites are, if this node has them not.
    fn links_of(&self, speaker: Option<NodeId>) -> LinksOf {
        let sibling = speaker.and_then(|node| self.view().nodes.get(&node).cloned());
        sibling.map_or(LinksOf::Nobody, |sibling| LinksOf::Other(sibling.about.link))
    }

    pub(crate) fn drains(&self) -> bool {
        self.drains.load(Ordering::Acquire)
    }

    /// Wants a node to give its shards away, or to take some again.
    pub(crate) fn ask_to_drain(&self, node: NodeId, drains: bool) -> Result<(), String> {
        self.registry.ask_to_drain(node, drains).map_err(|error| error.to_string())?;
        self.look_now();
        Ok(())
    }

    /// A worker has taken a shard, or could not.
    pub(super) fn took(&self, shard: ShardId, result: Result<bool, OpenError>) {
        match result {
            Ok(true) => self.set_here(shard, true),
            // Somebody else was quicker.
            Ok(false) => {}
            Err(error) => {
                tracing::error!(shard = shard.0, "it could not be taken, and is tried again: {error}");
                *lock(&self.failure) = Some(error);
            }
        }
        lock(&self.moving).remove(&shard);
    }

    /// From now on commands for this shard wait, or go elsewhere.
    pub(super) fn left(&self, shard: ShardId) {
        self.set_here(shard, false);
    }

    /// A worker has released a shard, or could not.
    pub(super) fn released(&self, shard: ShardId, is_gone: bool) {
        self.set_here(shard, !is_gone);
        lock(&self.moving).remove(&shard);
    }

    fn set_here(&self, shard: ShardId, is_here: bool) {
        if let Some(here) = self.here.get(usize::from(shard.0)) {
            here.store(is_here, Ordering::Release);
        }
        self.changed.send_replace(());
    }

    /// Something has changed that is worth a look.
    pub(super) fn look_now(&self) {
        // If nobody looks any more the node is stopping.
        let _ = self.nudge.send(Nudge::Look);
    }
}
