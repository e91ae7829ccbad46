//! An edge: the engine over stored data in memory, and exchanges over HTTP.

use std::net::SocketAddr;

use quipu_engine::{
    Action, Add, Command, Host, Membership, Moment, Released, Reply, Settings, Ticket,
    handoff::{
        Cluster, ClusterId, Name, Open, Opening, Server, Transient,
        exchange::{self, Exchange, Exchanged, ShardAnswer},
    },
};
use quipu_storage::{
    Flush, ShardId, Store,
    memory::{Memory, MemoryLog, MemoryTable},
};

const SHARD: ShardId = ShardId(0);
const TIER: u8 = 2;

pub(crate) struct Edge {
    host: Host<MemoryLog, MemoryTable>,
    memory: Memory,
    settings: Settings,
    cluster: Option<Cluster>,
}

impl Edge {
    pub(crate) fn new(number: u8) -> Self {
        let transient = Transient {
            name: Name::drawn([number; 16]),
            tier: TIER,
            opening: Opening { count: 1, drawn: 1 },
            pending_max: 1000,
        };
        let settings = Settings { transient: Some(transient), ..Settings::default() };
        let memory = Memory::new();
        let host = open(&memory, settings);
        Self { host, memory, settings, cluster: None }
    }

    /// Ends without a word, and begins again with what was stored.
    pub(crate) fn restart(&mut self) {
        self.memory.crash();
        if let Some(transient) = &mut self.settings.transient {
            transient.opening.count += 1;
        }
        self.host = open(&self.memory, self.settings);
    }

    fn commit(&mut self) -> Vec<Reply> {
        let mut released = Released::default();
        self.host.commit(Moment::default(), &mut released);
        released.replies.into_iter().map(|(_, reply)| reply).collect()
    }

    pub(crate) fn add(&mut self, key: &str, amount: i64) {
        let action = Action::Add { add: Add::of(amount), operation: None };
        self.host.submit(SHARD, Ticket(0), Command { key: key.as_bytes(), action }, Moment::default());
        let replies = self.commit();
        assert!(matches!(replies[..], [Reply::Added(_)]), "{replies:?}");
    }

    pub(crate) fn value(&mut self, key: &str) -> Option<i64> {
        self.host.ask(SHARD, key.as_bytes())
    }

    pub(crate) fn open(&mut self) -> Open {
        self.host.not_handed_over(SHARD).expect("its store works")
    }

    /// One exchange. `None`: nobody has answered; texts: what shards have refused.
    pub(crate) fn exchange(&mut self, at: SocketAddr, chosen: bool) -> Option<Vec<String>> {
        let exchanged = post(at, &Exchange::new(self.cluster.clone(), vec![]))?;
        self.cluster = Some(exchanged.home());
        self.exchange_with(at, exchanged.server, chosen)
    }

    fn exchange_with(&mut self, at: SocketAddr, server: Server, chosen: bool) -> Option<Vec<String>> {
        let visits = self.host.visits(SHARD, server, chosen);
        self.commit();
        let exchanged = post(at, &Exchange::new(self.cluster.clone(), visits))?;
        let mut refused = Vec::new();
        for (shard, answer) in exchanged.answers {
            match answer {
                ShardAnswer::Visited(answer) => {
                    let taken =
                        self.host.answered(SHARD, shard, exchanged.server, &answer, Moment::default());
                    taken.expect("an honest server");
                }
                ShardAnswer::Refused(why) => refused.push(why),
                ShardAnswer::Copy => refused.push("a copy".to_owned()),
            }
        }
        self.commit();
        Some(refused)
    }

    /// Hands over everything.
    pub(crate) fn flush(&mut self, at: SocketAddr) {
        crate::wait("everything is handed over", || {
            self.exchange(at, true);
            self.open().is_empty()
        });
    }

    /// Hands over everything and leaves, with its last words at a server.
    pub(crate) fn retire(&mut self, at: SocketAddr) {
        self.flush(at);
        self.host.retire_edge(SHARD).expect("everything is handed over");
        self.commit();
        crate::wait("the last words are heard", || {
            self.exchange(at, true);
            self.open().last_words == 0
        });
    }
}

fn open(memory: &Memory, settings: Settings) -> Host<MemoryLog, MemoryTable> {
    let mut host = Host::new(Store::new(memory.log(), memory.table()), None, settings, Flush::Now);
    host.set_membership(&Membership::alone(settings.site));
    host.open(SHARD, Moment::default()).expect("it opens");
    host
}

/// What a server says of the id of its cluster.
pub(crate) fn cluster_id(at: SocketAddr) -> Option<ClusterId> {
    post(at, &Exchange::default()).and_then(|exchanged| exchanged.cluster_id)
}

/// `None`: nobody is there, or it cannot now.
fn post(at: SocketAddr, request: &Exchange) -> Option<Exchanged> {
    let config = ureq::Agent::config_builder().timeout_global(Some(std::time::Duration::from_secs(10)));
    let agent: ureq::Agent = config.build().into();
    let request = agent
        .post(format!("http://{at}/v1/exchange"))
        .header("content-type", "application/cbor")
        .send(&exchange::encode(request)[..]);
    let body = request.ok()?.body_mut().read_to_vec().ok()?;
    Some(exchange::decode(&body).expect("an answer"))
}
