//! The node: workers that own shards and clients, a thread for the front ends that are not theirs, and the storage
//! under all of them.

mod acks;
mod answer;
mod connection;
mod council;
mod deferred;
pub(crate) mod essential;
mod exchange;
mod facts;
mod files;
mod folder;
mod gathering;
mod identity;
mod jobs;
mod lanes;
mod leaving;
mod links;
mod mail;
mod overview;
mod patience;
mod peers;
mod relay;
mod requests;
mod restore;
mod siblings;
mod slab;
mod slots;
mod store;
mod wait;
mod waiting;
mod worker;

use std::{
    collections::BTreeMap,
    io,
    net::{SocketAddr, TcpListener},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use mio::{Poll, Waker};
use quipu_engine::{
    Action, Command, Host, Listing, Moment, OpenError, OwnedCommand, Refusal, Reply as Answer, Settings,
    ShardAudit, Shards, SiteId, Window, WindowMode,
    handoff::{
        Name, Opening, RELAY_TIER, Server as HandoffServer, Transient,
        exchange::{Exchange, Exchanged},
    },
};
use quipu_storage::{Checkpointer, Flush, ShardId, StorageError, Store};
use quipu_storage_cassandra::SetupError;
use tokio::sync::{oneshot, watch};

use self::{
    council::Sitting,
    essential::essential,
    facts::{Client, Note},
    identity::Folder,
    jobs::{Cursors, Job, Rendered},
    mail::{ListShard, Mail, Mailbox},
    relay::Relay,
    siblings::{Keeping, Listening, Siblings},
    store::Backend,
    worker::{Listener, Worker},
};
use crate::{
    auth::Users,
    config::{Config, Durability, IdmpMode},
    http::{
        Audit, Counters, ExchangeTrouble, HttpLimits, ListRequest,
        nodes::{NodeFacts, NodeTrouble, Nodes},
        retire::{RetireTrouble, Retiring},
        serve_http_within,
        sites::{Cluster, Progress, SiteTrouble, Wish},
    },
    links::{Board, LinksOf},
    metrics::Metrics,
    random::random,
    resp::{Endpoint, Mode, Protocol, Setting},
};

pub use self::{
    identity::FolderError,
    restore::{RestoreError, Restored, restore},
};

/// What a counter takes at a relay, in memory and until it is handed over, roughly.
const RELAY_COUNTER_BYTES: u64 = 512;
/// How often a counter is looked at that somebody watches, where nodes share a site.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// So many counters of a shard may wait at a relay however little memory it has.
const RELAY_COUNTERS_MIN: usize = 1024;

/// Why a node does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The data folder cannot be used.
    #[error("{place}: {why}")]
    Storage {
        /// The folder, or the database.
        place: String,
        /// What is wrong.
        why: StorageError,
    },
    /// Something of the data folder is gone or damaged.
    #[error("{why}; `quipu repair --data {place}` says what would be lost")]
    Damaged {
        /// The folder.
        place: String,
        /// What is wrong.
        why: StorageError,
    },
    /// A shard cannot be opened.
    #[error("{place}: {why}")]
    Shard {
        /// The folder, or the database.
        place: String,
        /// What is wrong.
        why: OpenError,
    },
    /// The folder is not what was asked for.
    #[error("{place}: {why}")]
    Folder {
        /// The folder, or the database.
        place: String,
        /// What is wrong.
        why: FolderError,
    },
    /// The database cannot be used.
    #[error("--storage: {0}")]
    Database(SetupError),
    /// Somebody else has the address, or it is not this machine's.
    #[error("{flag} {address}: {why}; choose another address, or `off`")]
    Listen {
        /// The flag.
        flag: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system says.
        why: io::Error,
    },
    /// The system refuses something that a node needs.
    #[error("{doing}: {why}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// What the system says.
        why: io::Error,
    },
}

impl ServeError {
    /// May it go well later, without anybody doing anything about it here: because a database does not answer?
    pub fn may_pass(&self) -> bool {
        let is_silence = |why: &StorageError| matches!(why, StorageError::Unanswered { .. });
        match self {
            Self::Database(SetupError::Unreachable { .. }) => true,
            Self::Database(SetupError::Storage(why))
            | Self::Storage { why, .. }
            | Self::Shard { why: OpenError::Storage(why), .. }
            | Self::Folder { why: FolderError::Storage(why), .. } => is_silence(why),
            _ => false,
        }
    }
}

fn system(doing: &'static str) -> impl Fn(io::Error) -> ServeError {
    move |why| ServeError::System { doing, why }
}

/// What all threads of a node know.
pub(crate) struct Shared {
    shards: Shards,
    mailboxes: Vec<Mailbox>,
    started: Instant,
    /// With `interval`: how often the log is flushed.
    flush_every: Option<Duration>,
    /// For how long anybody waits for the store.
    storage_deadline_ms: u64,
    users: Users,
    settings: Vec<Setting>,
    clients: Mutex<BTreeMap<u64, Client>>,
    clients_max: usize,
    tcp_keepalive: Option<Duration>,
    client_ids: AtomicU64,
    commands_forgotten: AtomicU64,
    notes: Mutex<Vec<Note>>,
    cursors: Cursors,
    metrics: Metrics,
    resp_address: Option<SocketAddr>,
    /// Where clients of a cluster are told to connect.
    endpoint: Option<Endpoint>,
    folder: Folder,
    board: Board,
    council: Sitting,
    /// What it is besides, if it is a relay.
    relay: Option<Relay>,
    /// The other nodes of this site, if there can be any.
    siblings: Option<Arc<Siblings>>,
    is_stopping: AtomicBool,
    /// Are there links at all?
    has_links: bool,
    runtime: tokio::runtime::Handle,
}

impl Shared {
    fn workers(&self) -> usize {
        self.mailboxes.len()
    }

    fn mailbox(&self, worker: usize) -> &Mailbox {
        &self.mailboxes[worker]
    }

    /// The worker of a shard.
    fn owner(&self, shard: ShardId) -> usize {
        usize::from(shard.0) % self.workers()
    }

    fn post(&self, worker: usize, mail: Mail) {
        if let Err(error) = self.mailboxes[worker].post(mail) {
            // It looks again by itself before long.
            tracing::warn!(%error, worker, "a worker could not be woken");
        }
    }

    /// A worker is to look again: a commit has come to its end.
    fn wake(&self, worker: usize) {
        if let Err(error) = self.mailboxes[worker].wake() {
            tracing::warn!(%error, worker, "a worker could not be woken");
        }
    }

    fn moment(&self, now: Instant) -> Moment {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment { elapsed_ms: millis(now.duration_since(self.started)), unix_ms: millis(unix) }
    }

    /// Are all shards of this site here?
    fn has_all_shards(&self) -> bool {
        let mut all = self.shards.all();
        self.siblings.as_ref().is_none_or(|siblings| all.all(|shard| siblings.is_here(shard)))
    }

    /// Has another node of this site this shard, or nobody at this moment?
    fn is_elsewhere(&self, shard: ShardId) -> bool {
        self.siblings.as_ref().is_some_and(|siblings| !siblings.is_here(shard))
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Shards were released: whoever is to have them need not wait until it looks by itself.
    fn tell_others_to_look(self: &Arc<Self>) {
        let node = Node { shared: Arc::clone(self) };
        self.runtime.spawn(async move { node.tell_to_look().await });
    }

    fn resp_address(&self) -> Option<SocketAddr> {
        self.resp_address
    }

    /// What a relay's shards are told. Each run is an opening: it was counted and stored before anything else was done.
    fn transient(&self, name: Name, config: &Config) -> Transient {
        let run = self.board.identity().run;
        let each = config.memory_bytes / u64::from(self.shards.count()) / RELAY_COUNTER_BYTES;
        Transient {
            name,
            tier: RELAY_TIER,
            opening: Opening { count: run.number, drawn: run.nonce },
            pending_max: usize::try_from(each).unwrap_or(usize::MAX).max(RELAY_COUNTERS_MIN),
        }
    }

    /// A relay knows no more counters than those that wait there.
    fn only_at_sites(&self) -> Result<(), Refusal> {
        if self.relay.is_some() { Err(Refusal::OnlyAtSites) } else { Ok(()) }
    }

    /// Who takes handoffs here.
    fn server(&self) -> HandoffServer {
        let (name, tier) = match &self.relay {
            Some(relay) => (relay.name, RELAY_TIER),
            None => (Name::of_site(self.site()), 0),
        };
        HandoffServer { name, tier, shards: self.shards.count() }
    }

    /// Starts a job on the thread of the front ends.
    fn start_job(
        self: &Arc<Self>,
        job: Job,
        protocol: Protocol,
        done: impl FnOnce(Rendered) + Send + 'static,
    ) {
        let node = Node { shared: Arc::clone(self) };
        self.runtime.spawn(async move { done(job.run(&node, protocol).await) });
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A running node, for front ends. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Node {
    shared: Arc<Shared>,
}

/// Said to whoever asks while the node goes down.
fn stopping() -> Refusal {
    Refusal::InDoubt("the server is stopping".to_owned())
}

impl Node {
    async fn ask<T>(
        &self,
        worker: usize,
        mail: impl FnOnce(oneshot::Sender<T>) -> Mail,
    ) -> Result<T, Refusal> {
        let (answer, asked) = oneshot::channel();
        self.shared.post(worker, mail(answer));
        asked.await.map_err(|_| stopping())
    }

    /// The books of the shards that are here.
    async fn audit_here(&self) -> Result<Vec<ShardAudit>, Refusal> {
        let mut shards = Vec::new();
        for worker in 0..self.shared.workers() {
            shards.extend(self.ask(worker, |answer| Mail::Audit { answer }).await?);
        }
        Ok(shards)
    }

    /// How many counters are in each shard that is here.
    async fn count_here(&self) -> Vec<(ShardId, u64)> {
        let mut counts = Vec::new();
        for worker in 0..self.shared.workers() {
            counts.extend(self.ask(worker, |answer| Mail::Count { answer }).await.unwrap_or_default());
        }
        counts
    }

    /// Tells the changes of a counter that may be at any node, and elsewhere in a moment.
    fn look_at(&self, key: &[u8]) -> watch::Receiver<Option<i64>> {
        let (values, receiver) = watch::channel(None);
        let (node, key) = (self.clone(), key.to_vec());
        self.shared.runtime.spawn(async move {
            while !values.is_closed() {
                // Whatever is wrong now is over before long.
                if let Answer::Value(value) = node.call(Command { key: &key, action: Action::Get }).await {
                    values.send_if_modified(|before| std::mem::replace(before, value) != value);
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        });
        receiver
    }
}

impl Counters for Node {
    async fn call(&self, command: Command<'_>) -> Answer {
        let worker = self.shared.owner(self.shared.shards.of(command.key));
        let command = OwnedCommand::new(command);
        let answer = self.ask(worker, |answer| Mail::Call { command, answer }).await;
        answer.unwrap_or_else(Answer::Refused)
    }

    async fn list(&self, request: ListRequest) -> Result<Listing, Refusal> {
        self.shared.only_at_sites()?;
        let ListRequest { prefix, after, limit } = request;
        let mut counters = Vec::new();
        let mut more = false;
        for shard in self.shared.shards.all() {
            let mut after = after.clone();
            let mut missing = limit;
            while missing > 0 {
                let request = ListShard { shard, prefix: prefix.clone(), after, limit: missing };
                let listing = self.list_page(request).await?;
                missing -= listing.counters.len().min(missing);
                counters.extend(listing.counters);
                after = listing.next;
                more |= after.is_some() && missing == 0;
                if after.is_none() {
                    break;
                }
            }
        }
        counters.sort_unstable();
        more |= counters.len() > limit;
        counters.truncate(limit);
        let next = if more { counters.last().map(|(key, _)| key.clone()) } else { None };
        Ok(Listing { counters, next })
    }

    async fn audit(&self) -> Result<Audit, Refusal> {
        self.shared.only_at_sites()?;
        let mut shards = self.audit_here().await?;
        shards.extend(self.audit_elsewhere().await?);
        shards.sort_unstable_by_key(|audit| audit.shard);
        let is_whole = shards.iter().map(|audit| ShardId(audit.shard)).eq(self.shared.shards.all());
        if !is_whole {
            // Some are moving from one node to another.
            return Err(Refusal::NotHere);
        }
        Ok(Audit { site: self.shared.site(), members: self.shared.members(), shards })
    }

    fn last_heard(&self, site: SiteId) -> Option<Duration> {
        self.shared.last_heard(site)
    }

    async fn size(&self) -> u64 {
        self.count_everywhere().await
    }

    fn watch(&self, key: &[u8]) -> watch::Receiver<Option<i64>> {
        if self.shared.siblings.is_some() {
            return self.look_at(key);
        }
        let (values, receiver) = watch::channel(None);
        let worker = self.shared.owner(self.shared.shards.of(key));
        self.shared.post(worker, Mail::Watch { key: key.into(), values });
        receiver
    }

    fn ready(&self) -> Result<(), String> {
        if let Some(why) = self.shared.board.stopped() {
            return Err(why.to_owned());
        }
        if let Some(trouble) = self.shared.siblings.as_ref().and_then(|siblings| siblings.trouble()) {
            return Err(trouble);
        }
        let summary = self.shared.summary();
        match (summary.host.shards_unavailable, summary.refusing) {
            (0, None) => Ok(()),
            (0, Some(why)) => Err(format!("nothing can be stored at the moment: {why}")),
            (shards, _) => Err(format!("{shards} shards cannot store anything at the moment")),
        }
    }

    async fn exchange(&self, exchange: Exchange) -> Result<Exchanged, ExchangeTrouble> {
        self.take_exchange(exchange, true).await
    }

    async fn retire(&self) -> Result<Retiring, RetireTrouble> {
        self.retire_relay().await
    }

    fn nodes(&self) -> Option<Nodes> {
        self.nodes_of_site()
    }

    async fn drain_node(&self, node: &str, drains: bool) -> Result<NodeFacts, NodeTrouble> {
        self.ask_node_to_drain(node, drains).await
    }

    fn cluster(&self) -> Result<Cluster, String> {
        if self.shared.relay.is_some() {
            return Err("this node belongs to no cluster".to_owned());
        }
        self.who_speaks()?;
        Ok(self.shared.cluster())
    }

    async fn grant(&self, wish: Wish) -> Result<Progress, SiteTrouble> {
        if self.shared.relay.is_some() {
            let text = "this is a relay, and sites are none of its business; nothing was changed. Ask a site";
            return Err(SiteTrouble::Conflict(text.to_owned()));
        }
        self.who_speaks().map_err(|why| SiteTrouble::Conflict(format!("{why}. Nothing was changed")))?;
        match wish {
            Wish::Drain { site } => self.shared.leave_or_stay(site, true),
            Wish::Stay { site } => self.shared.leave_or_stay(site, false),
            Wish::Withdraw => self.shared.withdraw(),
            Wish::Change(wish) => self.shared.grant(&wish),
        }
    }
}

/// A node that serves.
pub struct Server {
    node: Node,
    workers: Vec<JoinHandle<io::Result<()>>>,
    keeping: Option<siblings::Running>,
    front: Option<Front>,
    links: Option<Front>,
    resp: Option<SocketAddr>,
    resp_cluster: Option<SocketAddr>,
    http: Option<SocketAddr>,
    link: Option<SocketAddr>,
    checkpointer: Arc<Checkpointer>,
}

/// A thread that runs until it is told to stop.
struct Front {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

fn listen(flag: &'static str, address: SocketAddr) -> Result<TcpListener, ServeError> {
    let failed = |why| ServeError::Listen { flag, address, why };
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

impl Server {
    /// Opens the data folder and begins to serve.
    pub fn start(config: &Config) -> Result<Self, ServeError> {
        // Before anything is opened: what is left after storage is for clients.
        let places = files::provide(config)?;
        let storage_failed = |why| ServeError::Storage { place: config.place(), why };
        let backend = Backend::open(config)?;
        let folder_failed = |why| ServeError::Folder { place: config.place(), why };
        let folder = Folder::open(backend.table(), config, backend.instance()).map_err(folder_failed)?;
        let shards = folder.shards().map_err(folder_failed)?;
        let council = folder.council(config).map_err(folder_failed)?;
        let cluster_id = folder.cluster_id().map_err(folder_failed)?;
        let relay = folder.relay().map(|name| Relay::new(name, config, &folder));
        let relay = relay.transpose().map_err(folder_failed)?;
        let links_wanted = config.link_given || !council.is_alone() || config.database.is_some();
        let resp = config.resp.map(|address| listen("--resp", address)).transpose()?;
        let resp_cluster =
            config.resp_cluster.map(|address| listen("--resp-cluster", address)).transpose()?;
        let http = config.http.map(|address| listen("--http", address)).transpose()?;
        let address_of =
            |listener: &Option<TcpListener>| listener.as_ref().and_then(|it| it.local_addr().ok());
        let link = config.link.filter(|_| links_wanted);
        let link = link.map(|address| listen("--link", address)).transpose()?;
        if let Some(address) = address_of(&link).filter(|address| !address.ip().is_loopback()) {
            tracing::warn!(%address, "links ask for no password; keep --link to a network of your own");
        }
        let (resp_address, http_address) = (address_of(&resp), address_of(&http));
        let cluster_address = address_of(&resp_cluster);
        let place = match (backend.registry(), address_of(&link)) {
            (Some(registry), Some(link)) => {
                let (resp, http) = (resp_address, http_address);
                let listening = Listening { link, resp, resp_cluster: cluster_address, http };
                let seat = backend.log(0, || ());
                Some(Keeping::new(registry, seat, shards, listening, config).map_err(storage_failed)?)
            }
            _ => None,
        };
        let (siblings, keeping) = place.unzip();
        let metrics = Metrics::new();

        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(system("starting the front ends"))?;
        let polls: Vec<Poll> = (0..config.workers)
            .map(|_| Poll::new())
            .collect::<io::Result<_>>()
            .map_err(system("making a poll"))?;
        let mailboxes =
            polls.iter().map(|poll| Waker::new(poll.registry(), Worker::MAILBOX).map(Mailbox::new));
        let shared = Arc::new(Shared {
            shards,
            mailboxes: mailboxes.collect::<io::Result<_>>().map_err(system("making a mailbox"))?,
            started: Instant::now(),
            flush_every: match config.durability {
                Durability::Always => None,
                Durability::Interval(every) => Some(every),
            },
            storage_deadline_ms: millis(config.storage_deadline),
            users: config.users.clone(),
            settings: folder::settings(config, places.resp),
            clients: Mutex::default(),
            clients_max: places.resp,
            tcp_keepalive: config.tcp_keepalive,
            client_ids: AtomicU64::new(1),
            commands_forgotten: AtomicU64::new(0),
            notes: Mutex::new(vec![Note::default(); config.workers]),
            cursors: Cursors::default(),
            resp_address,
            endpoint: cluster_address.map(|address| slots::advertised(address, config)),
            board: council.board(folder.identity.clone(), &metrics),
            folder,
            council,
            has_links: links_wanted,
            siblings,
            is_stopping: AtomicBool::new(false),
            relay,
            metrics,
            runtime: runtime.handle().clone(),
        });
        if let Some(id) = cluster_id {
            shared.board.set_cluster_id(id);
        }
        if shared.siblings.is_some() {
            // Until this node has the seat.
            shared.board.set_links_of(LinksOf::Nobody);
        }
        let checkpointer = Arc::new(Checkpointer::spawn(backend.table()).map_err(storage_failed)?);
        shared.stop_if_removed();
        shared.stop_if_old_copy().map_err(folder_failed)?;
        if links_wanted
            && shared.siblings.is_none()
            && shared.relay.is_none()
            && shared.board.stopped().is_none()
        {
            // Before anybody is served.
            shared.board.begin(shared.moment(Instant::now()));
        }
        let node = Node { shared };
        let limits = HttpLimits::for_connections(places.http, config.tcp_keepalive);
        let front = start_front(runtime, node.clone(), http, limits)?;
        let mut server = Self {
            node,
            workers: Vec::new(),
            keeping: None,
            front: Some(front),
            links: None,
            resp: resp_address,
            resp_cluster: cluster_address,
            http: http_address,
            link: address_of(&link),
            checkpointer,
        };
        let listeners = [(resp, Mode::Alone), (resp_cluster, Mode::Cluster)].into_iter();
        let listeners = listeners.filter_map(|(socket, mode)| {
            Some(Listener { socket: mio::net::TcpListener::from_std(socket?), mode })
        });
        server.start_workers(config, &backend, polls, listeners.collect())?;
        if links_wanted || server.node.shared.relay.is_some() {
            server.links = Some(links::start(server.node.clone(), link)?);
        }
        if let Some(keeping) = keeping {
            server.take_place(config, keeping)?;
        }
        Ok(server)
    }

    /// Takes this node's place among the others, and its first shards.
    fn take_place(&mut self, config: &Config, keeping: Keeping) -> Result<(), ServeError> {
        let shared = &self.node.shared;
        let Some(siblings) = &shared.siblings else { return Ok(()) };
        let started = keeping.start(Arc::clone(shared), Arc::clone(siblings));
        let started = started.map_err(system("starting the thread that looks at other nodes"))?;
        self.keeping = Some(started.map_err(|why| ServeError::Shard { place: config.place(), why })?);
        Ok(())
    }

    fn start_workers(
        &mut self,
        config: &Config,
        backend: &Backend,
        polls: Vec<Poll>,
        mut listeners: Vec<Listener>,
    ) -> Result<(), ServeError> {
        let shared = &self.node.shared;
        let settings = Settings {
            site: shared.site(),
            window: window(config),
            memory_bytes: usize::try_from(config.memory_bytes).unwrap_or(usize::MAX)
                / usize::from(shared.shards.count()),
            run: Some(random()),
            seed: random(),
            edge_ttl_s: config.edge_ttl.as_secs(),
            transient: shared.relay.as_ref().map(|relay| shared.transient(relay.name, config)),
            ..Settings::default()
        };
        let flush = if shared.flush_every.is_some() { Flush::Later } else { Flush::Now };
        let (opened, results) = mpsc::channel();
        for (index, poll) in polls.into_iter().enumerate() {
            let waker = Arc::clone(shared);
            let log = backend.log(index, move || waker.wake(index));
            let store = Store::new(log, backend.table());
            let mut host = Host::new(store, Some(Arc::clone(&self.checkpointer)), settings, flush);
            // Before it is ready: whoever looks then finds them.
            let metrics = shared.metrics.worker(u32::try_from(index).unwrap_or(u32::MAX));
            let (shared, opened) = (Arc::clone(shared), opened.clone());
            // The first one gets them all.
            let listeners = std::mem::take(&mut listeners);
            let work = move || {
                host.set_membership(&shared.council.membership());
                // Where nodes share a site, shards are taken when the others were seen.
                let is_mine = |shard: &ShardId| shared.siblings.is_none() && shared.owner(*shard) == index;
                let mine = shared.shards.all().filter(is_mine).collect::<Vec<_>>();
                let result =
                    mine.into_iter().try_for_each(|shard| host.open(shard, shared.moment(Instant::now())));
                let failed = result.is_err();
                // The starter waits for this; it cannot have gone.
                let _ = opened.send(result);
                if failed {
                    return Ok(());
                }
                let stopping = Arc::clone(&shared);
                let ran = Worker::new(index, shared, poll, listeners, host, metrics).and_then(Worker::run);
                if let Err(error) = &ran
                    && !stopping.is_stopping()
                {
                    // Its shards are nobody's, and its clients would wait for ever.
                    panic!("a worker cannot go on: {error}");
                }
                ran
            };
            let thread = essential(&format!("worker-{index}"), work);
            self.workers.push(thread.map_err(system("starting a worker"))?);
        }
        drop(opened);
        for _ in 0..self.workers.len() {
            let gone = |_| system("opening shards")(io::Error::other("a worker panicked"));
            let result = results.recv().map_err(gone)?;
            result.map_err(|why| ServeError::Shard { place: config.place(), why })?;
        }
        Ok(())
    }

    /// Where Redis clients connect.
    pub fn resp_address(&self) -> Option<SocketAddr> {
        self.resp
    }

    /// Where clients of a Redis Cluster connect.
    pub fn resp_cluster_address(&self) -> Option<SocketAddr> {
        self.resp_cluster
    }

    /// Where HTTP clients connect.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http
    }

    /// Where other sites connect.
    pub fn link_address(&self) -> Option<SocketAddr> {
        self.link
    }

    /// Stops: everything acknowledged is stored, and what was asked before is answered.
    pub fn stop(mut self) -> Result<(), ServeError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), ServeError> {
        self.node.shared.is_stopping.store(true, Ordering::Release);
        let siblings = self.keeping.take().map(|keeping| {
            // While everything still runs: what comes meanwhile is passed on.
            keeping.drain();
            keeping.end()
        });
        for front in [self.links.take(), self.front.take()].into_iter().flatten() {
            let _ = front.stop.send(());
            // A panic there has been reported by itself.
            let _ = front.thread.join();
        }
        for worker in 0..self.workers.len() {
            self.node.shared.post(worker, Mail::Stop);
        }
        let mut result = Ok(());
        for worker in self.workers.drain(..) {
            match worker.join() {
                Ok(Ok(())) => {}
                Ok(Err(why)) => result = Err(ServeError::System { doing: "running a worker", why }),
                Err(_) => result = Err(system("running a worker")(io::Error::other("it panicked"))),
            }
        }
        if let Some(siblings) = siblings {
            siblings.sign_off();
        }
        result
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Whoever wants to know calls `stop`.
        let _ = self.end();
    }
}

fn window(config: &Config) -> Window {
    let mode = match config.idmp_mode {
        IdmpMode::Exact => WindowMode::Exact,
        IdmpMode::Filter => WindowMode::Filter,
    };
    Window::new(millis(config.idmp_window), mode, config.idmp_fpp)
        .expect("the configuration has been checked")
}

fn start_front(
    runtime: tokio::runtime::Runtime,
    node: Node,
    http: Option<TcpListener>,
    limits: HttpLimits,
) -> Result<Front, ServeError> {
    let (stop, stopped) = oneshot::channel();
    let work = move || {
        runtime.block_on(async move {
            // Whoever holds the other end has gone too, if not told.
            let stopped = async { drop(stopped.await) };
            let Some(listener) = http else { return stopped.await };
            let (users, metrics) = (node.shared.users.clone(), node.shared.metrics.clone());
            if let Err(error) = serve_http_within(limits, listener, node, users, metrics, stopped).await {
                tracing::error!(%error, "HTTP is not served any more");
            }
        });
        runtime.shutdown_timeout(Duration::from_millis(500));
    };
    let thread = essential("front", work);
    Ok(Front { stop, thread: thread.map_err(system("starting the front ends"))? })
}
