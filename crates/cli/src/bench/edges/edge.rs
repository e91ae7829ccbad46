//! One edge, from its first add to its end.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quipu_engine::handoff::exchange::{self, Exchange, Exchanged, ShardAnswer};
use quipu_engine::handoff::{Cluster, Name, Opening, Server, Transient};
use quipu_engine::{Action, Add, Command, Host, Moment, Released, Reply, Settings, Ticket};
use quipu_storage::memory::{Memory, MemoryLog, MemoryTable};
use quipu_storage::{Flush, ShardId, Store};
use ureq::{Agent as Http, Body, http::Response};

use crate::failure::Failure;

/// An edge is one shard.
const SHARD: ShardId = ShardId(0);
/// A handoff takes two exchanges; with more, something is wrong.
const EXCHANGES_MAX: usize = 6;
/// A server that takes longer does not answer any more.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);

/// What edges have said and heard: the bodies of requests and answers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Done {
    pub(super) requests: u64,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
}

impl Done {
    pub(super) fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
    }
}

/// A server, and a connection to it that edges share.
pub(super) struct Agent {
    http: Http,
    url: String,
    adds: String,
    cluster: Cluster,
    server: Server,
}

impl Agent {
    /// Asks the server who it is.
    pub(super) fn new(address: SocketAddr) -> Result<Self, Failure> {
        let config = Http::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .timeout_global(Some(ANSWER_TIME_MAX));
        let (http, url) = (config.build().into(), format!("http://{address}/v1/exchange"));
        let mut done = Done::default();
        let exchanged = post(&http, &url, &Exchange::default(), &mut done)?;
        let (cluster, server) = (exchanged.home(), exchanged.server);
        let adds = format!("http://{address}/v1/counters");
        Ok(Self { http, url, adds, cluster, server })
    }

    /// A plain add of 1 over HTTP, as whoever is no edge makes it.
    pub(super) fn add(&self, key: &str) -> Result<Done, Failure> {
        let (url, body) = (format!("{}/{key}/add", self.adds), r#"{"amount":1}"#);
        let answer = self.http.post(&url).header("content-type", "application/json").send(body);
        let received = read(answer, &url)?;
        Ok(Done { requests: 1, sent_bytes: body.len() as u64, received_bytes: received.len() as u64 })
    }
}

/// The body of an answer that is none of failure.
fn read(answer: Result<Response<Body>, ureq::Error>, url: &str) -> Result<Vec<u8>, Failure> {
    let failed = |what: String| Failure::failed(format!("{url}: {what}"));
    let mut answer = answer.map_err(|error| failed(error.to_string()))?;
    let bytes = answer.body_mut().read_to_vec().map_err(|error| failed(error.to_string()))?;
    if answer.status().is_success() {
        Ok(bytes)
    } else {
        Err(failed(String::from_utf8_lossy(&bytes).into_owned()))
    }
}

fn post(http: &Http, url: &str, request: &Exchange, done: &mut Done) -> Result<Exchanged, Failure> {
    let body = exchange::encode(request);
    done.requests += 1;
    done.sent_bytes += body.len() as u64;
    let answer = http.post(url).header("content-type", "application/cbor").send(&body[..]);
    let bytes = read(answer, url)?;
    done.received_bytes += bytes.len() as u64;
    exchange::decode(&bytes).map_err(|error| Failure::failed(format!("{url}: {error}")))
}

/// One that lives in memory.
pub(super) struct Edge {
    host: Host<MemoryLog, MemoryTable>,
}

impl Edge {
    /// One that counts on so many counters at most.
    pub(super) fn new(seed: u64, number: u64, pending_max: usize) -> Self {
        let mut name = [0; 16];
        // The first byte decides where it is stored: as various as those of edges that draw theirs.
        name[..8].copy_from_slice(&(number ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        name[8..].copy_from_slice(&number.to_be_bytes());
        let transient =
            Transient { name: Name::drawn(name), tier: 2, opening: Opening::default(), pending_max };
        let settings = Settings { transient: Some(transient), ..Settings::default() };
        let memory = Memory::new();
        let mut host = Host::new(Store::new(memory.log(), memory.table()), None, settings, Flush::Now);
        host.open(SHARD, now()).expect("memory can be opened");
        Self { host }
    }

    pub(super) fn add(&mut self, key: &[u8]) -> Result<(), Failure> {
        let action = Action::Add { add: Add::of(1), operation: None };
        self.host.submit(SHARD, Ticket(0), Command { key, action }, now());
        match self.commit().replies.first() {
            Some((_, Reply::Added(_))) => Ok(()),
            other => Err(Failure::failed(format!("an edge does not count: {other:?}"))),
        }
    }

    fn commit(&mut self) -> Released {
        let mut released = Released::default();
        self.host.commit(now(), &mut released);
        released
    }

    /// One exchange.
    pub(super) fn visit(&mut self, agent: &Agent) -> Result<Done, Failure> {
        let visits = self.host.visits(SHARD, agent.server, true);
        self.commit();
        let mut done = Done::default();
        let request = Exchange::new(Some(agent.cluster.clone()), visits);
        let answer = post(&agent.http, &agent.url, &request, &mut done)?;
        for (shard, answer) in answer.answers {
            match answer {
                ShardAnswer::Visited(answer) => self
                    .host
                    .answered(SHARD, shard, agent.server, &answer, now())
                    .map_err(|error| Failure::failed(error.to_string()))?,
                ShardAnswer::Refused(why) => return Err(Failure::failed(why)),
                ShardAnswer::Copy => return Err(Failure::failed("the server takes an edge for a copy")),
            }
        }
        self.commit();
        Ok(done)
    }

    /// All of it, until nothing is open.
    pub(super) fn hand_over(&mut self, agent: &Agent) -> Result<Done, Failure> {
        let mut done = Done::default();
        for _ in 0..EXCHANGES_MAX {
            done.add(self.visit(agent)?);
            let Some(open) = self.host.not_handed_over(SHARD) else { continue };
            if open.is_empty() && open.servers.is_empty() {
                return Ok(done);
            }
        }
        Err(Failure::failed(format!("not handed over after {EXCHANGES_MAX} exchanges")))
    }
}

fn now() -> Moment {
    let unix_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    Moment { elapsed_ms: 0, unix_ms: u64::try_from(unix_ms).unwrap_or(u64::MAX) }
}
