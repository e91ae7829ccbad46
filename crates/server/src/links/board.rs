//! What all threads know of the links: who belongs to the cluster, which links are up, and what was last heard or refused.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use quipu_engine::{
    Membership, Moment, Refusal, SiteId,
    handoff::{Cluster, ClusterId},
};
use tokio::sync::{Semaphore, watch};

use super::{
    Frame, Identity, Run,
    queue::Queue,
    silence::Silence,
    throttle::{Throttle, Verdict},
};
use crate::metrics::{Metrics, PeerMetrics};

/// Never heard of.
const NEVER: u64 = u64::MAX;

/// What all threads know of the links.
#[derive(Debug)]
pub(crate) struct Board {
    identity: RwLock<Identity>,
    /// Where the links to other sites are.
    links_of: Mutex<LinksOf>,
    /// Where peers can be dialled.
    addresses: Mutex<BTreeMap<u16, String>>,
    membership: RwLock<Membership>,
    /// By their numbers.
    peers: RwLock<BTreeMap<u16, Arc<Peer>>>,
    /// Somebody has come or gone, or is found elsewhere.
    changes: watch::Sender<()>,
    metrics: Metrics,
    started: Instant,
    /// Somebody who is none of the peers was turned away, and this was said.
    turned_away: Mutex<Option<String>>,
    /// Sites that were removed, and where they were found: they have yet to be told.
    farewells: Mutex<Vec<(SiteId, String)>>,
    /// Places for relays.
    pub(super) relays: Arc<Semaphore>,
    /// Limits what is logged of those who dial.
    complaints: Throttle,
    /// Why this site talks to nobody any more, once that is so.
    stopped: OnceLock<(Halt, String)>,
    /// Whether this site was silent, and must ask before it counts.
    silence: Silence,
    /// Once it is known, and stored.
    cluster_id: OnceLock<ClusterId>,
    /// What others have told of it while it is not known.
    heard_cluster_ids: Mutex<BTreeMap<SiteId, ClusterId>>,
}

/// Another site of the cluster.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) metrics: PeerMetrics,
    wanted: watch::Sender<Wanted>,
    standing: Mutex<Standing>,
    /// In milliseconds after the start.
    heard_ms: AtomicU64,
    /// Another node of this site has a link to it.
    is_up_elsewhere: AtomicBool,
    up: watch::Sender<bool>,
}

/// Which node of this site has the links to the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LinksOf {
    /// This one.
    This,
    /// The one that is reached there. Whoever dials this one is passed on.
    Other(String),
    /// None at this moment.
    Nobody,
}

/// What this site does to get a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// It dials this address.
    Dial(String),
    /// It does not know where: the peer has to dial.
    Wait,
    /// Nothing: another node of this site has the links.
    Elsewhere,
    /// Nothing; the peer does not belong to the cluster any more.
    Gone,
}

#[derive(Debug, Default)]
struct Standing {
    link: Option<Link>,
    /// Why there is no link: how the last one ended, or was refused.
    trouble: Option<String>,
    /// Why it cannot be dialled.
    unreachable: Option<String>,
}

#[derive(Debug)]
struct Link {
    site: SiteId,
    queue: Arc<Queue>,
    by: Dialler,
}

/// Who has dialled. Both do; of two links the one that the lower number has dialled stays, so that both ends keep the
/// same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialler {
    LowerSite,
    HigherSite,
}

/// Why a site counts no more, and talks to nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Halt {
    /// It runs from an old copy of its folder.
    OldCopy,
    /// It was removed from the cluster; or this node, from its site.
    Removed,
}

/// What becomes of a link that has come about.
#[derive(Debug)]
pub(crate) enum Entered {
    /// It is the one.
    Stays {
        /// Who is at the other end.
        peer: Arc<Peer>,
        /// What is to be sent over it.
        queue: Arc<Queue>,
        /// It takes the place of another.
        replaced: bool,
    },
    /// There is one that stays.
    Superfluous,
}

/// How it stands with a peer, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerFacts {
    pub(crate) number: u16,
    pub(crate) address: Option<String>,
    pub(crate) is_up: bool,
    pub(crate) heard_seconds: Option<u64>,
    pub(crate) trouble: Option<String>,
    pub(crate) unreachable: Option<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T>(of: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    of.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(of: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    of.write().unwrap_or_else(PoisonError::into_inner)
}

impl Board {
    /// `addresses` are where peers can be dialled, by their numbers.
    pub(crate) fn new(
        identity: Identity,
        membership: Membership,
        addresses: &BTreeMap<u16, String>,
        metrics: &Metrics,
    ) -> Self {
        let board = Self {
            membership: RwLock::new(Membership::alone(identity.site)),
            identity: RwLock::new(identity),
            links_of: Mutex::new(LinksOf::This),
            addresses: Mutex::default(),
            peers: RwLock::default(),
            changes: watch::Sender::new(()),
            metrics: metrics.clone(),
            started: Instant::now(),
            turned_away: Mutex::default(),
            farewells: Mutex::default(),
            relays: Arc::new(Semaphore::new(super::RELAYS_MAX)),
            complaints: Throttle::default(),
            stopped: OnceLock::new(),
            silence: Silence::default(),
            cluster_id: OnceLock::new(),
            heard_cluster_ids: Mutex::default(),
        };
        board.follow(membership, addresses);
        board
    }

    /// From now on these belong to the cluster and are found there. Links to others are closed.
    pub(crate) fn follow(&self, membership: Membership, addresses: &BTreeMap<u16, String>) {
        *lock(&self.addresses) = addresses.clone();
        let own = self.identity().site.number;
        let mut peers = write(&self.peers);
        let is_other =
            |number: &u16| *number != own && membership.members.iter().any(|member| member.number == *number);
        peers.retain(|number, peer| {
            let stays = is_other(number);
            if !stays {
                peer.wanted.send_replace(Wanted::Gone);
            }
            let why = "the site is no member of the cluster any more";
            peer.close_unless(why, |site| membership.members.contains(&site));
            stays
        });
        for number in membership.members.iter().map(|member| member.number).filter(is_other) {
            let peer = peers.entry(number).or_insert_with(|| Arc::new(Peer::new(self.metrics.peer(number))));
            peer.wanted.send_replace(self.wanted_of(number));
        }
        *write(&self.membership) = membership;
        self.changes.send_replace(());
    }

    fn wanted_of(&self, number: u16) -> Wanted {
        if self.stopped().is_some() {
            return Wanted::Gone;
        }
        match (self.links_of(), lock(&self.addresses).get(&number)) {
            (LinksOf::Other(_) | LinksOf::Nobody, _) => Wanted::Elsewhere,
            (LinksOf::This, Some(address)) => Wanted::Dial(address.clone()),
            (LinksOf::This, None) => Wanted::Wait,
        }
    }

    /// Which node of this site has the links to the others.
    pub(crate) fn links_of(&self) -> LinksOf {
        lock(&self.links_of).clone()
    }

    /// From now on this node has the links, or another one.
    pub(crate) fn set_links_of(&self, links_of: LinksOf) {
        let is_this = links_of == LinksOf::This;
        let before = std::mem::replace(&mut *lock(&self.links_of), links_of);
        if before == self.links_of() {
            return;
        }
        for (number, peer) in self.peers() {
            peer.wanted.send_replace(self.wanted_of(number));
            peer.is_up_elsewhere.store(false, Ordering::Relaxed);
            if !is_this {
                peer.close_unless("another node of this site has the links", |_| false);
            }
        }
        self.changes.send_replace(());
    }

    /// This node begins to speak for its site.
    pub(crate) fn set_run(&self, run: Run) {
        let mut identity = write(&self.identity);
        // Which runs came before it is not known: other nodes had them.
        (identity.run, identity.earlier) = (run, Vec::new());
    }

    /// Tells when somebody has come or gone, or is found elsewhere.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    pub(crate) fn identity(&self) -> Identity {
        read(&self.identity).clone()
    }

    /// The id of the cluster, if it is known here.
    pub(crate) fn cluster_id(&self) -> Option<ClusterId> {
        self.cluster_id.get().copied()
    }

    /// It is known, and stored. It never changes.
    pub(crate) fn set_cluster_id(&self, id: ClusterId) {
        // Two may have heard it at the same time.
        let _ = self.cluster_id.set(id);
    }

    /// The cluster, as it is known here.
    pub(crate) fn cluster(&self) -> Cluster {
        Cluster { name: self.identity().cluster, id: self.cluster_id() }
    }

    /// Another site has told the id of its cluster.
    pub(crate) fn hear_cluster_id(&self, site: SiteId, id: Option<ClusterId>) {
        if let Some(id) = id.filter(|_| self.cluster_id().is_none()) {
            lock(&self.heard_cluster_ids).insert(site, id);
        }
    }

    /// What a member of this cluster has told, if it is not known here.
    pub(crate) fn heard_cluster_id(&self) -> Option<ClusterId> {
        if self.cluster_id().is_some() {
            return None;
        }
        let membership = read(&self.membership);
        let heard = lock(&self.heard_cluster_ids);
        let is_member = |site: &SiteId| membership.epoch > 0 && membership.members.contains(site);
        heard.iter().find(|(site, _)| is_member(site)).map(|(_, id)| *id)
    }

    pub(crate) fn membership(&self) -> Membership {
        read(&self.membership).clone()
    }

    /// All other sites, by their numbers.
    pub(crate) fn peers(&self) -> BTreeMap<u16, Arc<Peer>> {
        read(&self.peers).clone()
    }

    pub(crate) fn peer(&self, number: u16) -> Option<Arc<Peer>> {
        read(&self.peers).get(&number).cloned()
    }

    /// Sends frames with so many messages of shards, if there is a link; otherwise they are sent again when there is one.
    /// Leaves an empty buffer.
    pub(crate) fn send(&self, to: SiteId, frames: &mut Vec<u8>, messages: u64) {
        let Some(peer) = self.peer(to.number) else { return frames.clear() };
        let standing = lock(&peer.standing);
        let Some(link) = standing.link.as_ref().filter(|link| link.site == to) else { return frames.clear() };
        link.queue.push(frames);
        peer.metrics.messages_sent.inc_by(messages);
    }

    /// Sends a message for the council, if there is a link.
    pub(crate) fn send_council(&self, to: SiteId, message: &[u8]) {
        self.send_frame(to, &Frame::Council(message));
    }

    /// Sends what is for the site itself, if there is a link.
    pub(crate) fn send_frame(&self, to: SiteId, frame: &Frame<'_>) {
        let Some(peer) = self.peer(to.number) else { return };
        let standing = lock(&peer.standing);
        if let Some(link) = standing.link.as_ref().filter(|link| link.site == to) {
            link.queue.push(&mut frame.to_bytes());
        }
    }

    /// These sites were removed, and were last found there: they are to be told.
    pub(crate) fn bid_farewell(&self, sites: Vec<(SiteId, String)>) {
        lock(&self.farewells).extend(sites);
        self.changes.send_replace(());
    }

    pub(super) fn take_farewells(&self) -> Vec<(SiteId, String)> {
        std::mem::take(&mut lock(&self.farewells))
    }

    /// To whom there is a link.
    pub(crate) fn linked(&self) -> Vec<SiteId> {
        let linked = |peer: &Arc<Peer>| lock(&peer.standing).link.as_ref().map(|link| link.site);
        self.peers().values().filter_map(linked).collect()
    }

    /// A newcomer does not know yet who belongs to the cluster: whoever has its address does.
    fn newcomers_peer(&self, number: u16) -> Option<Arc<Peer>> {
        if read(&self.membership).epoch > 0 {
            return None;
        }
        let mut peers = write(&self.peers);
        let new = || Arc::new(Peer::new(self.metrics.peer(number)));
        Some(Arc::clone(peers.entry(number).or_insert_with(new)))
    }

    /// Closes the link to a peer that has sent something wrong.
    pub(crate) fn fail(&self, site: SiteId, why: String) {
        let Some(peer) = self.peer(site.number) else { return };
        let standing = lock(&peer.standing);
        if let Some(link) = standing.link.as_ref().filter(|link| link.site == site) {
            link.queue.close(why);
        }
    }

    /// This site must talk to nobody any more: all links end, and none comes about. Is this news?
    pub(crate) fn stop(&self, halt: Halt, why: &str) -> bool {
        let is_news = self.stopped.set((halt, why.to_owned())).is_ok();
        for peer in self.peers().values() {
            peer.wanted.send_replace(Wanted::Gone);
            peer.close_unless(why, |_| false);
        }
        is_news
    }

    /// Why this site talks to nobody any more, if that is so.
    pub(crate) fn stopped(&self) -> Option<&str> {
        self.stopped.get().map(|(_, why)| why.as_str())
    }

    /// What clients are told then who want to count.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        self.stopped.get().map(|(halt, why)| match halt {
            Halt::OldCopy => Refusal::OldCopy(why.clone()),
            Halt::Removed => Refusal::Removed(why.clone()),
        })
    }

    /// This site begins to talk to others. It was silent until now, and asks them before it counts.
    pub(crate) fn begin(&self, now: Moment) {
        self.silence.watch(now, self.peers().into_keys().collect());
    }

    /// The thread of the links runs. If it has not for a long time, all links are made anew.
    pub(super) fn run(&self, now: Moment) {
        if !self.silence.run(now, || self.peers().into_keys().collect()) {
            return;
        }
        tracing::warn!("this site was silent for a while; its peers are asked whether it is still a member");
        for (number, peer) in self.peers() {
            peer.close_unless("this site was silent for a while", |_| false);
            peer.wanted.send_replace(self.wanted_of(number));
        }
    }

    /// Must this site ask its peers whether it is still a member, before it counts?
    pub(crate) fn must_ask(&self, now: impl FnOnce() -> Moment) -> bool {
        self.silence.is_watched() && self.silence.must_ask(now())
    }

    /// A peer that was dialled is not there.
    pub(super) fn cannot_be_asked(&self, peer: u16) {
        self.silence.answered(peer);
    }

    /// A peer says that this site is a member.
    pub(crate) fn confirmed_by(&self, peer: SiteId) {
        self.silence.answered(peer.number);
    }

    /// To which round of asking a connection belongs that is made now.
    pub(super) fn round(&self) -> u64 {
        self.silence.round()
    }

    /// A handshake is complete: is this connection the link now? It was begun in this round.
    pub(crate) fn enter(&self, site: SiteId, dialled_here: bool, round: u64) -> Entered {
        let Some(peer) = self.peer(site.number).or_else(|| self.newcomers_peer(site.number)) else {
            return Entered::Superfluous;
        };
        let by = if dialled_here == (self.identity().site.number < site.number) {
            Dialler::LowerSite
        } else {
            Dialler::HigherSite
        };
        let mut standing = lock(&peer.standing);
        // Looked at under the lock: a stop that comes later finds the link and closes it.
        if self.stopped().is_some() || self.links_of() != LinksOf::This || round != self.round() {
            return Entered::Superfluous;
        }
        let replaced = match &standing.link {
            None => false,
            Some(link) if link.by == Dialler::LowerSite && by == Dialler::HigherSite => {
                return Entered::Superfluous;
            }
            Some(link) => {
                link.queue.close("another link has taken its place".to_owned());
                true
            }
        };
        let queue = Arc::new(Queue::default());
        let link = Link { site, queue: Arc::clone(&queue), by };
        *standing = Standing { link: Some(link), ..Standing::default() };
        peer.up.send_replace(true);
        peer.metrics.up.set(1);
        peer.metrics.silent_seconds.set(0.0);
        drop(standing);
        Entered::Stays { peer, queue, replaced }
    }

    /// There is no link, and this is why. Of somebody who is no peer it is remembered apart.
    pub(crate) fn note_trouble(&self, number: Option<u16>, why: &str) {
        match number.and_then(|number| self.peer(number)) {
            Some(peer) => {
                let mut standing = lock(&peer.standing);
                if standing.link.is_none() {
                    standing.trouble = Some(why.to_owned());
                }
            }
            None => *lock(&self.turned_away) = Some(why.to_owned()),
        }
    }

    /// A dial did not reach anybody; what was wrong with an earlier link is still worth knowing. Is this news?
    pub(crate) fn note_unreachable(&self, number: u16, why: &str) -> bool {
        self.cannot_be_asked(number);
        let Some(peer) = self.peer(number) else { return false };
        let before = lock(&peer.standing).unreachable.replace(why.to_owned());
        before.as_deref() != Some(why)
    }

    /// One side has refused the other.
    pub(crate) fn note_refusal(&self, number: Option<u16>, why: &str) {
        if let Some(peer) = number.and_then(|number| self.peer(number)) {
            peer.metrics.refusals.inc();
        }
        self.note_trouble(number, why);
    }

    /// Logs what was wrong with somebody who has dialled: not more often than is of use.
    pub(crate) fn complain(&self, address: SocketAddr, what: &str) {
        match self.complaints.ask(Instant::now()) {
            Verdict::Write => tracing::warn!(%address, "{what}"),
            Verdict::WriteLast => {
                tracing::warn!(%address, "{what}; more like this are not logged for a while");
            }
            Verdict::Omit => {}
        }
    }

    /// Something has come from this peer.
    pub(crate) fn heard(&self, peer: &Peer) {
        peer.heard_ms.store(self.elapsed_ms(), Ordering::Relaxed);
    }

    /// Another node of this site has links to these, and heard so long ago from each.
    pub(crate) fn hear_elsewhere(&self, silent_ms: &BTreeMap<u16, Option<u64>>) {
        for (number, peer) in self.peers() {
            let silent_ms = silent_ms.get(&number);
            peer.is_up_elsewhere.store(silent_ms.is_some(), Ordering::Relaxed);
            peer.metrics.up.set(i64::from(silent_ms.is_some()));
            if let Some(silent_ms) = silent_ms.copied().flatten() {
                peer.heard_ms.store(self.elapsed_ms().saturating_sub(silent_ms), Ordering::Relaxed);
            }
        }
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(NEVER - 1)
    }

    /// How long ago something came from this peer.
    pub(crate) fn silent_ms(&self, peer: &Peer) -> Option<u64> {
        match peer.heard_ms.load(Ordering::Relaxed) {
            NEVER => None,
            heard => Some(self.elapsed_ms().saturating_sub(heard)),
        }
    }

    /// How it stands with every peer.
    pub(crate) fn facts(&self) -> Vec<PeerFacts> {
        let facts = self.peers().into_iter().map(|(number, peer)| {
            let address =
                if let Wanted::Dial(address) = &*peer.wanted.borrow() { Some(address.clone()) } else { None };
            let standing = lock(&peer.standing);
            PeerFacts {
                number,
                address,
                is_up: standing.link.is_some() || peer.is_up_elsewhere.load(Ordering::Relaxed),
                heard_seconds: self.silent_ms(&peer).map(|ms| ms / 1000),
                trouble: standing.trouble.clone(),
                unreachable: standing.unreachable.clone().filter(|_| standing.link.is_none()),
            }
        });
        facts.collect()
    }

    /// What was last said to somebody who is none of the peers.
    pub(crate) fn turned_away(&self) -> Option<String> {
        lock(&self.turned_away).clone()
    }
}

impl Peer {
    fn new(metrics: PeerMetrics) -> Self {
        Self {
            metrics,
            wanted: watch::Sender::new(Wanted::Wait),
            standing: Mutex::default(),
            heard_ms: AtomicU64::new(NEVER),
            is_up_elsewhere: AtomicBool::new(false),
            up: watch::Sender::new(false),
        }
    }

    /// What is to be done to get a link; it tells when that changes.
    pub(crate) fn wanted(&self) -> watch::Receiver<Wanted> {
        self.wanted.subscribe()
    }

    pub(crate) fn is_up(&self) -> bool {
        *self.up.borrow()
    }

    /// Waits until there is no link.
    pub(crate) async fn down(&self) {
        // The sender is this peer's own.
        let _ = self.up.subscribe().wait_for(|up| !up).await;
    }

    /// A link has ended. Was it still the one?
    pub(crate) fn leave(&self, queue: &Arc<Queue>, why: &str) -> bool {
        let mut standing = lock(&self.standing);
        let is_current = standing.link.as_ref().is_some_and(|link| Arc::ptr_eq(&link.queue, queue));
        if is_current {
            *standing = Standing { trouble: Some(why.to_owned()), ..Standing::default() };
            self.up.send_replace(false);
            self.metrics.up.set(0);
        }
        is_current
    }

    fn close_unless(&self, why: &str, may_stay: impl FnOnce(SiteId) -> bool) {
        if let Some(link) = lock(&self.standing).link.as_ref().filter(|link| !may_stay(link.site)) {
            link.queue.close(why.to_owned());
        }
    }
}

#[cfg(test)]
mod tests;
