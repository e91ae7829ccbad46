//! Sites in this process, with what networks do to requests: for tests of this crate and of programs that use it.

use std::{
    collections::VecDeque,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use quipu_engine::{
    Action, Command, Envelope, Host, Membership, Moment, Released, Reply, Settings, Shards, SiteId, Ticket,
    handoff::{
        Cluster, ClusterId, HandoffStats, Name, Server,
        exchange::{self, Exchange, Exchanged, ShardAnswer},
    },
};
use quipu_storage::{
    Flush, Store,
    memory::{Memory, MemoryLog, MemoryTable},
};

/// Into how many shards counters are divided.
const SHARDS: u16 = 4;
/// A request that takes longer is given up.
const READ_TIME_MAX: Duration = Duration::from_secs(20);

/// How long sites wait between two letters, in their time.
const LETTERS_EVERY_MS: u64 = 500;
static PASSED_MS: AtomicU64 = AtomicU64::new(0);

/// What happens to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It does not arrive.
    LoseRequest,
    /// It arrives, and the answer does not.
    LoseAnswer,
    /// It arrives twice, and the second answer comes.
    Repeat,
    /// Its answer comes later.
    Delay(Duration),
    /// Something else is answered, with the status 200.
    Say(Vec<u8>),
    /// An error is answered: a status and a body.
    Fail(u16, String),
    /// It arrives, and the answer has been changed: its cluster, its server, or half of its shards.
    Garble(Garble),
}

/// How an answer is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Garble {
    /// It names another cluster.
    Cluster,
    /// It names another server.
    Server,
    /// It lacks the last shard.
    Shards,
    /// Each shard has answered for another one.
    Views,
}

/// A site of a cluster, on a port of its own.
#[derive(Debug)]
pub struct Site {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    cluster: Mutex<String>,
    cluster_id: Mutex<Option<ClusterId>>,
    id: Mutex<SiteId>,
    host: Mutex<Host<MemoryLog, MemoryTable>>,
    /// For the next requests that say something.
    faults: Mutex<VecDeque<Fault>>,
    /// For all, when there is no other.
    always: Mutex<Option<Fault>>,
    requests: AtomicU64,
    is_over: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shards() -> Shards {
    Shards::new(SHARDS).expect("a power of two")
}

/// The time of all sites: that of the process, and what was passed over.
fn moment() -> Moment {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    let elapsed = BEGAN.get_or_init(Instant::now).elapsed();
    let elapsed_ms =
        u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX) + PASSED_MS.load(Ordering::Relaxed);
    Moment { elapsed_ms, unix_ms: 1_700_000_000_000 + elapsed_ms }
}

impl Site {
    /// The only site of a cluster.
    pub fn start(cluster: &str) -> io::Result<Self> {
        let id = SiteId { number: 1, incarnation: 0 };
        Self::of(cluster, id, &Membership::alone(id))
    }

    /// The sites of a cluster, numbered from 1. They have spoken to each other, as sites do before they open slots.
    pub fn cluster(cluster: &str, count: u16) -> io::Result<Vec<Self>> {
        let ids: Vec<SiteId> = (1..=count).map(|number| SiteId { number, incarnation: 0 }).collect();
        let membership = Membership::of(ids.iter().copied());
        let sites: Vec<Self> =
            ids.into_iter().map(|id| Self::of(cluster, id, &membership)).collect::<io::Result<_>>()?;
        Self::talk(&sites);
        Ok(sites)
    }

    fn of(cluster: &str, id: SiteId, membership: &Membership) -> io::Result<Self> {
        let host = open(id, membership)?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            cluster: Mutex::new(cluster.to_owned()),
            cluster_id: Mutex::default(),
            id: Mutex::new(id),
            host: Mutex::new(host),
            faults: Mutex::default(),
            always: Mutex::default(),
            requests: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        });
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new().spawn(move || serve(&listener, &theirs))?;
        Ok(Self { address, shared, thread: Some(thread) })
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its name.
    pub fn name(&self) -> Name {
        Name::of_site(self.shared.id())
    }

    /// The next requests that say something fare like this, one after the other.
    pub fn next(&self, faults: impl IntoIterator<Item = Fault>) {
        lock(&self.shared.faults).extend(faults);
    }

    /// All requests fare like this. `None`: all arrive from now on.
    pub fn always(&self, fault: Option<Fault>) {
        if fault.is_none() {
            lock(&self.shared.faults).clear();
        }
        *lock(&self.shared.always) = fault;
    }

    /// From now on it knows that its cluster has the id of these bytes.
    pub fn know_cluster_id(&self, byte: u8) {
        *lock(&self.shared.cluster_id) = Some(ClusterId([byte; 16]));
    }

    /// It says that it belongs to another cluster.
    pub fn rename_cluster(&self, cluster: &str) {
        cluster.clone_into(&mut lock(&self.shared.cluster));
    }

    /// Its disk is lost, and it goes on, alone and empty, as a new incarnation of itself.
    pub fn lose_disk(&self) -> io::Result<()> {
        let mut id = lock(&self.shared.id);
        id.incarnation += 1;
        *lock(&self.shared.host) = open(*id, &Membership::alone(*id))?;
        Ok(())
    }

    /// How many requests have come.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// The value of a counter.
    pub fn value(&self, key: impl AsRef<[u8]>) -> i64 {
        let key = key.as_ref();
        let mut host = lock(&self.shared.host);
        host.submit(shards().of(key), Ticket(0), Command { key, action: Action::Get }, moment());
        match commit(&mut host) {
            Some(Reply::Value(value)) => value.unwrap_or(0),
            _ => 0,
        }
    }

    /// Adds at the site itself.
    pub fn add(&self, key: impl AsRef<[u8]>, amount: i64) {
        let key = key.as_ref();
        let action = Action::Add { add: quipu_engine::Add::of(amount), operation: None };
        let mut host = lock(&self.shared.host);
        host.submit(shards().of(key), Ticket(0), Command { key, action }, moment());
        commit(&mut host);
    }

    /// What it keeps for edges.
    pub fn stats(&self) -> HandoffStats {
        lock(&self.shared.host).handoff_stats()
    }

    /// Lets sites say to each other all that they have to.
    pub fn talk(sites: &[Self]) {
        for _ in 0..40 {
            PASSED_MS.fetch_add(LETTERS_EVERY_MS, Ordering::Relaxed);
            let mut letters: Vec<(SiteId, Envelope)> = Vec::new();
            for site in sites {
                let mut said = Vec::new();
                lock(&site.shared.host).outgoing(moment(), &mut said);
                letters.extend(said.into_iter().map(|letter| (site.shared.id(), letter)));
            }
            for (from, letter) in letters {
                let Some(site) = sites.iter().find(|site| site.shared.id() == letter.to) else { continue };
                let mut host = lock(&site.shared.host);
                host.receive(letter.shard, from, letter.message, moment()).expect("sites are honest");
                commit(&mut host);
            }
        }
    }
}

fn open(id: SiteId, membership: &Membership) -> io::Result<Host<MemoryLog, MemoryTable>> {
    let memory = Memory::new();
    let settings = Settings { site: id, ..Settings::default() };
    let mut host = Host::new(Store::new(memory.log(), memory.table()), None, settings, Flush::Now);
    host.set_membership(membership);
    membership.members.iter().filter(|peer| **peer != id).for_each(|peer| host.connected(*peer));
    for shard in shards().all() {
        host.open(shard, moment()).map_err(io::Error::other)?;
    }
    Ok(host)
}

impl Drop for Site {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        // It looks whether it is over at each connection.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            // What has failed there has been reported.
            let _ = thread.join();
        }
    }
}

fn commit(host: &mut Host<MemoryLog, MemoryTable>) -> Option<Reply> {
    let mut released = Released::default();
    host.commit(moment(), &mut released);
    released.replies.pop().map(|(_, reply)| reply)
}

fn serve(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.is_over.load(Ordering::Acquire) {
            return;
        }
        let (Ok(stream), shared) = (stream, Arc::clone(shared)) else { continue };
        // A connection that breaks is what the other side makes of it.
        thread::spawn(move || converse(stream, &shared));
    }
}

fn converse(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(READ_TIME_MAX))?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        let mut line = String::new();
        while reader.read_line(&mut line)? > 0 && line != "\r\n" {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
            line.clear();
        }
        if line.is_empty() || shared.is_over.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let Some((status, body)) = shared.answer(&body) else { return Ok(()) };
        let kind = if status == 200 { "application/cbor" } else { "application/problem+json" };
        let head =
            format!("HTTP/1.1 {status} x\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
        writer.write_all(head.as_bytes())?;
        writer.write_all(&body)?;
    }
}

impl Shared {
    fn id(&self) -> SiteId {
        *lock(&self.id)
    }

    /// A status and a body; `None`: no answer comes.
    fn answer(&self, body: &[u8]) -> Option<(u16, Vec<u8>)> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let Ok(exchange) = exchange::decode::<Exchange>(body) else {
            return Some((400, br#"{"detail":"bytes that are no exchange; nothing was done"}"#.to_vec()));
        };
        let next = if exchange.visits.is_empty() { None } else { lock(&self.faults).pop_front() };
        let fault = next.or_else(|| lock(&self.always).clone());
        match fault {
            None => Some(self.take(exchange, None)),
            Some(Fault::LoseRequest) => None,
            Some(Fault::LoseAnswer) => {
                self.take(exchange, None);
                None
            }
            Some(Fault::Repeat) => {
                self.take(exchange.clone(), None);
                Some(self.take(exchange, None))
            }
            Some(Fault::Delay(time)) => {
                let answer = self.take(exchange, None);
                thread::sleep(time);
                Some(answer)
            }
            Some(Fault::Say(bytes)) => Some((200, bytes)),
            Some(Fault::Fail(status, text)) => Some((status, text.into_bytes())),
            Some(Fault::Garble(how)) => Some(self.take(exchange, Some(how))),
        }
    }

    fn take(&self, exchange: Exchange, garble: Option<Garble>) -> (u16, Vec<u8>) {
        let cluster = Cluster { name: lock(&self.cluster).clone(), id: *lock(&self.cluster_id) };
        if let Some(theirs) = exchange.home().filter(|theirs| cluster.is_other(theirs)) {
            let (theirs, ours) = (theirs.beside(&cluster), cluster.beside(&theirs));
            let text = format!("the edge belongs to the cluster {theirs}, and this is a server of {ours}");
            return (409, format!("{{\"detail\":\"{text}\"}}").into_bytes());
        }
        let mut host = lock(&self.host);
        let mut answers = Vec::new();
        for (shard, visit) in exchange.visits {
            host.visit(quipu_storage::ShardId(shard), Ticket(0), visit, true, moment());
            answers.push((
                shard,
                match commit(&mut host) {
                    Some(Reply::Visited(answer)) => ShardAnswer::Visited(answer),
                    Some(Reply::Refused(refusal)) => refusal.into(),
                    other => ShardAnswer::Refused(format!("{other:?}")),
                },
            ));
        }
        let server = Server { name: Name::of_site(self.id()), tier: 0, shards: SHARDS };
        let mut exchanged = Exchanged::new(cluster, server, answers);
        match garble {
            None => {}
            Some(Garble::Cluster) => exchanged.cluster.push('?'),
            Some(Garble::Server) => {
                exchanged.server.name = Name::of_site(SiteId { number: 99, incarnation: 0 });
            }
            Some(Garble::Shards) => drop(exchanged.answers.pop()),
            Some(Garble::Views) => exchanged.answers.iter_mut().for_each(|(_, answer)| garble_view(answer)),
        }
        (200, exchange::encode(&exchanged))
    }
}

/// The view of another server, as if it were this one's.
fn garble_view(answer: &mut ShardAnswer) {
    let ShardAnswer::Visited(answer) = answer else { return };
    let mut bytes = Vec::new();
    let written = minicbor::encode(&*answer, &mut bytes);
    if written.is_err() {
        return;
    }
    // The first 16 bytes that follow a byte string's head of that length are the name of whoever speaks.
    if let Some(at) = bytes.windows(1).position(|it| it == [0x50]) {
        bytes[at + 13] ^= 0xff;
    }
    if let Ok(changed) = minicbor::decode(&bytes) {
        **answer = changed;
    }
}
