//! Keeping this node's place among the others: a thread that says again and again that it is there, and looks who else is.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use quipu_engine::{
    handoff::exchange,
    nodes::{Advice, Keeper, LookError, Seat, Trust},
};
use quipu_storage::{Log, NodeId, Registry, ShardId, StorageError};
use tokio::sync::{Notify, watch};

use super::{About, Nudge, Sibling, Siblings, View, lock, seat::SEAT};
use crate::{
    config::Config,
    links::{self, Halt, NODE_KEY_BYTES},
    node::{Shared, essential::essential, mail::Mail, slots::advertised},
    random::random,
};

/// How often a node says that it is there, and looks.
const BEAT_EVERY: Duration = Duration::from_millis(500);
/// How long a node that starts waits for its first shards.
const FIRST_SHARDS: Duration = Duration::from_secs(30);
/// How long a node that stops waits for others to take over.
const LAST_SHARDS: Duration = Duration::from_secs(10);
/// How often somebody who waits for shards looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The thread. It has to be started, and to be ended before the workers are.
pub(in crate::node) struct Keeping {
    keeper: Keeper,
    nudges: mpsc::Receiver<Nudge>,
}

/// A thread that runs.
pub(in crate::node) struct Running {
    siblings: Arc<Siblings>,
    thread: JoinHandle<()>,
}

/// Where this node listens.
#[derive(Debug, Clone, Copy)]
pub(in crate::node) struct Listening {
    pub(in crate::node) link: SocketAddr,
    pub(in crate::node) resp: Option<SocketAddr>,
    pub(in crate::node) resp_cluster: Option<SocketAddr>,
    pub(in crate::node) http: Option<SocketAddr>,
}

impl Listening {
    fn about(&self, config: &Config) -> About {
        let host = |address| advertised(address, config).host;
        let text = |address: SocketAddr| links::join_host(&host(address), address.port());
        About {
            link: text(self.link),
            resp: self.resp.map(|address| (host(address), address.port())),
            resp_cluster: self.resp_cluster.map(|address| (host(address), address.port())),
            http: self.http.map(text),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            key: new_key(),
        }
    }
}

fn new_key() -> [u8; NODE_KEY_BYTES] {
    let halves = [random(), random()].map(u64::to_le_bytes);
    halves.concat().try_into().expect("two halves")
}

impl Keeping {
    /// Prepares to take this node's place. Whoever was there under the same address is gone.
    pub(in crate::node) fn new(
        registry: Arc<dyn Registry>,
        seat: Box<dyn Log>,
        shards: quipu_engine::Shards,
        listening: Listening,
        config: &Config,
    ) -> Result<(Arc<Siblings>, Self), StorageError> {
        let about = listening.about(config);
        for registered in registry.nodes()? {
            if About::decode(&registered).is_some_and(|other| other.shares_an_address_with(&about)) {
                registry.remove(registered.node)?;
            }
        }
        let (nudge, nudges) = mpsc::channel();
        let silence_ms = crate::node::millis(config.takeover_after);
        let all = shards.all().collect();
        let keeper = Keeper::new(Arc::clone(&registry), all, SEAT, silence_ms, exchange::encode(&about));
        let siblings = Arc::new(Siblings {
            registry,
            key: about.key,
            started: Instant::now(),
            here: shards.all().map(|_| AtomicBool::new(false)).collect(),
            moving: Mutex::default(),
            view: Mutex::default(),
            changed: watch::Sender::new(()),
            trust: Mutex::new(Trust { epoch: 0, until_ms: 0 }),
            drains: AtomicBool::new(false),
            seat: Mutex::new(Seat::new(seat, SEAT)),
            links_changed: Notify::new(),
            failure: Mutex::default(),
            nudge,
            callers: tokio::sync::Mutex::default(),
        });
        Ok((siblings, Self { keeper, nudges }))
    }

    /// Takes this node's place, and with it its first shards. The error is why one of these cannot be opened.
    pub(in crate::node) fn start(
        mut self,
        shared: Arc<Shared>,
        siblings: Arc<Siblings>,
    ) -> io::Result<Result<Running, quipu_engine::OpenError>> {
        let until = Instant::now() + FIRST_SHARDS;
        let mut is_first = true;
        let (looked, has_looked) = mpsc::sync_channel(1);
        let theirs = Arc::clone(&siblings);
        let work = move || {
            loop {
                let went_well = turn(&mut self.keeper, &shared, &theirs);
                if is_first && went_well {
                    is_first = false;
                    // Whoever starts may have given up.
                    let _ = looked.try_send(());
                }
                match self.nudges.recv_timeout(BEAT_EVERY) {
                    Ok(Nudge::Look) | Err(mpsc::RecvTimeoutError::Timeout) => {}
                    Ok(Nudge::Stop) | Err(mpsc::RecvTimeoutError::Disconnected) => break,
                }
                // Many may have asked at once.
                while let Ok(nudge) = self.nudges.try_recv() {
                    if matches!(nudge, Nudge::Stop) {
                        return;
                    }
                }
            }
        };
        let thread = essential("keeper", work)?;
        let running = Running { siblings, thread };
        let _ = has_looked.recv_timeout(FIRST_SHARDS);
        // Whoever is told that this node is ready finds all counters: here, or at a node that is alive.
        while Instant::now() < until && !running.siblings.is_settled() {
            std::thread::sleep(LOOK_EVERY);
        }
        let failure = lock(&running.siblings.failure).take();
        Ok(match failure {
            Some(error) => {
                running.end();
                Err(error)
            }
            None => Ok(running),
        })
    }
}

impl Running {
    /// Gives all shards to others, if there are any, while this node still serves.
    pub(in crate::node) fn drain(&self) {
        self.siblings.drains.store(true, Ordering::Release);
        self.siblings.look_now();
        let until = Instant::now() + LAST_SHARDS;
        let own = self.siblings.own();
        let takes_over = |view: &View| view.nodes.iter().any(|(node, it)| *node != own && !it.drains);
        while Instant::now() < until && takes_over(&self.siblings.view()) && !self.is_bare() {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Have others taken everything that was here?
    fn is_bare(&self) -> bool {
        let view = self.siblings.view();
        self.siblings.open().is_empty()
            && view.routes.values().all(|node| *node != self.siblings.own())
            && lock(&self.siblings.moving).is_empty()
    }

    /// Looks no more.
    pub(in crate::node) fn end(self) -> Arc<Siblings> {
        // It has ended already if nobody hears this.
        let _ = self.siblings.nudge.send(Nudge::Stop);
        // A panic there has been reported by itself.
        let _ = self.thread.join();
        self.siblings
    }
}

impl Siblings {
    /// Is it known where all shards are, and are those open that are for this node?
    fn is_settled(&self) -> bool {
        let view = self.view();
        let is_open = |(shard, node): (&ShardId, &NodeId)| *node != self.own() || self.is_here(*shard);
        let has_failed = lock(&self.failure).is_some();
        has_failed || (view.is_certain && lock(&self.moving).is_empty() && view.routes.iter().all(is_open))
    }

    /// Nothing of this node is left: others need not wait until it has been silent.
    pub(in crate::node) fn sign_off(&self) {
        if let Err(error) = self.registry.remove(self.own()) {
            tracing::warn!("others find out by themselves that this node has gone: {error}");
        }
    }
}

/// One beat and one look. Returns whether both went well.
fn turn(keeper: &mut Keeper, shared: &Shared, siblings: &Siblings) -> bool {
    match siblings.registry.is_asked_to_drain() {
        Ok(Some(drains)) if !shared.is_stopping() => {
            let was = siblings.drains.swap(drains, Ordering::AcqRel);
            if was != drains {
                let what = if drains { "gives its shards away" } else { "takes shards again" };
                tracing::info!("as was asked, this node {what}");
            }
        }
        _ => {}
    }
    if !shared.speaks() {
        follow_rows(shared);
    }
    let clock = || siblings.now_ms();
    match keeper.beat(clock, siblings.drains()) {
        Ok(_) if shared.board().stopped().is_some() => {}
        Ok(trust) => *lock(&siblings.trust) = trust,
        Err(error) => {
            tracing::warn!("the store does not hear that this node is there: {error}");
            return false;
        }
    }
    match keeper.look(clock, || siblings.holding(shared)) {
        Ok(advice) => {
            follow(advice, shared, siblings);
            true
        }
        Err(LookError::Storage(error)) => {
            tracing::warn!("the other nodes cannot be seen: {error}");
            false
        }
        Err(LookError::Removed(removed)) => {
            // Nobody hears this node any more, whatever the store answers to it.
            lock(&siblings.trust).until_ms = 0;
            shared.stop_counting(Halt::Removed, &removed.to_string());
            false
        }
    }
}

/// What the node that speaks has stored in the table, beside what was agreed with other sites.
fn follow_rows(shared: &Shared) {
    match shared.folder.is_leaving() {
        Ok(leaves) => shared.follow_wish(leaves),
        Err(error) => tracing::warn!("the store does not answer: {error}"),
    }
    if shared.board().cluster_id().is_none()
        && let Ok(Some(id)) = shared.folder.cluster_id()
    {
        shared.board().set_cluster_id(id);
    }
}

/// Does what was advised, and lets everybody know where the shards are.
fn follow(mut advice: Advice, shared: &Shared, siblings: &Siblings) {
    let nodes = advice.present.iter().filter_map(|(node, registered)| {
        Some((*node, Sibling { about: About::decode(registered)?, drains: registered.drains }))
    });
    let (routes, held) = (std::mem::take(&mut advice.routes), std::mem::take(&mut advice.held));
    let view = View {
        routes,
        nodes: nodes.collect(),
        is_certain: advice.is_certain,
        speaker: advice.seat.speaker,
        held,
    };
    *lock(&siblings.view) = Arc::new(view);
    shared.follow_seat(siblings, advice.seat);
    if let Err(why) = shared.follow_agreed(siblings, advice.agreed.as_ref()) {
        // It must be known who belongs to the cluster before a shard is opened.
        tracing::warn!("no shards are taken yet: {why}");
        advice.take.clear();
    }
    let mut moving = lock(&siblings.moving);
    for (shard, seen) in advice.take {
        if moving.insert(shard) {
            shared.post(shared.owner(shard), Mail::Take { shard, seen });
        }
    }
    for (shard, seen) in advice.free {
        if moving.insert(shard) {
            shared.post(shared.owner(shard), Mail::Free { shard, seen });
        }
    }
    for shard in advice.release {
        if moving.insert(shard) {
            shared.post(shared.owner(shard), Mail::Release { shard });
        }
    }
    for shard in advice.doubtful.into_iter().filter(|shard| !moving.contains(shard)) {
        shared.post(shared.owner(shard), Mail::Confirm { shard });
    }
    drop(moving);
    siblings.measure(shared);
    siblings.changed.send_replace(());
}
