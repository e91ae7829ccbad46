//! Messages as two shards really exchange them: adds, a retry that both have counted, a reset, a bounded counter whose
//! rights move. What the fuzzer begins with is made of them.

use quipu_engine::{
    Action, Add, Command, Host, Limits, Membership, Moment, OperationId, Released, Settings, SiteId, Spread,
    Ticket,
};
use quipu_server::links::Frame;
use quipu_storage::{
    Flush, ShardId, Store,
    memory::{Memory, MemoryLog, MemoryTable},
};

const SHARD: ShardId = ShardId(0);
const SITES: [SiteId; 2] = [SiteId::FIRST, SiteId { number: 2, incarnation: 0 }];
/// How far apart two looks at the shards are.
const STEP_MS: u64 = 5;

struct Pair {
    hosts: [Host<MemoryLog, MemoryTable>; 2],
    now_ms: u64,
    said: Vec<Vec<u8>>,
}

impl Pair {
    fn new() -> Self {
        let hosts = SITES.map(|site| {
            let memory = Memory::new();
            let store = Store::new(memory.log(), memory.table());
            let mut host = Host::new(store, None, Settings { site, ..Settings::default() }, Flush::Now);
            host.set_membership(&Membership::of(SITES));
            host.open(SHARD, Moment::default()).expect("an empty store");
            host
        });
        Self { hosts, now_ms: 0, said: Vec::new() }
    }

    fn now(&self) -> Moment {
        Moment { elapsed_ms: self.now_ms, unix_ms: self.now_ms }
    }

    fn connect(&mut self) {
        for (host, peer) in self.hosts.iter_mut().zip(SITES.iter().rev()) {
            host.connected(*peer);
        }
    }

    fn ask(&mut self, at: usize, key: &[u8], action: Action<'_>) {
        let now = self.now();
        self.hosts[at].submit(SHARD, Ticket(1), Command { key, action }, now);
        self.hosts[at].commit(now, &mut Released::default());
    }

    /// Lets them talk for half a second.
    fn talk(&mut self) {
        for _ in 0..100 {
            self.now_ms += STEP_MS;
            let now = self.now();
            for (at, site) in SITES.into_iter().enumerate() {
                self.hosts[at].commit(now, &mut Released::default());
                let mut envelopes = Vec::new();
                self.hosts[at].outgoing(now, &mut envelopes);
                for envelope in envelopes {
                    let bytes = envelope.message.encode();
                    if !self.said.contains(&bytes) {
                        self.said.push(bytes);
                    }
                    let received = self.hosts[1 - at].receive(SHARD, site, envelope.message, now);
                    received.expect("an honest message");
                }
            }
        }
    }
}

/// All different messages of a conversation.
pub(crate) fn messages() -> Vec<Vec<u8>> {
    let add = |amount| Action::Add { add: Add { remote_ms: 400, ..Add::of(amount) }, operation: None };
    let once = |amount, id: &'static [u8]| {
        let operation = Some(OperationId { producer: b"p", id });
        Action::Add { add: Add::of(amount), operation }
    };
    let mut pair = Pair::new();
    for at in 0..2 {
        pair.ask(at, b"twice", once(5, b"1"));
        pair.ask(at, b"plain", add(3));
    }
    pair.connect();
    pair.talk();
    let limits = Limits { minimum: Some(0), maximum: Some(100), initial: 50 };
    pair.ask(0, b"bounded", Action::Create { limits, spread: Spread::Creator, wait_ms: 400 });
    pair.talk();
    pair.ask(1, b"bounded", add(-20));
    pair.ask(0, b"bounded", once(30, b"2"));
    pair.talk();
    pair.ask(0, b"bounded", add(-55));
    pair.ask(0, b"plain", Action::Reset { to: Some(7) });
    pair.ask(1, b"twice", Action::Reset { to: None });
    pair.talk();
    pair.said
}

/// What the fuzzer begins with, by name: whole frames, frames without their heads, and messages.
pub(crate) fn corpus() -> Vec<(String, Vec<u8>)> {
    let mut corpus = Vec::new();
    for (number, message) in messages().into_iter().enumerate() {
        let frame = Frame::Shard { shard: SHARD, message: &message }.to_bytes();
        corpus.push((format!("frame-{number:02}"), frame));
        corpus.push((format!("message-{number:02}"), message));
    }
    for name in ["hello", "positions", "refused", "refused-old-copy", "beat", "council"] {
        let bytes = crate::vectors::vector(name);
        corpus.push((format!("{name}-content"), bytes[8..].to_vec()));
        corpus.push((name.to_owned(), bytes));
    }
    corpus
}
