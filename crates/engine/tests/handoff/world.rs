//! Sites and edges over stored data in memory, and a network of requests and answers between them.

use quipu_crdt::testing::Random;
use quipu_engine::{
    Action, Add, Command, Envelope, Host, Membership, Moment, Refusal, Released, Reply, Settings, Shards,
    SiteId, Ticket,
    handoff::{Answer, Name, Open, Opening, RELAY_TIER, Round, Server, Transient, Visit},
};
use quipu_storage::{
    Batch, Flush, Row, Scan, ShardId, Slice, Store, Table as _, Write,
    memory::{Memory, MemoryLog, MemoryTable},
};

/// An edge is one shard.
const EDGE_SHARD: ShardId = ShardId(0);
/// So many counters may wait in a shard of a relay or an edge.
pub(crate) const PENDING_MAX: usize = 1000;

pub(crate) fn shards() -> Shards {
    Shards::new(4).expect("a power of two")
}

fn site(number: u16) -> SiteId {
    SiteId { number, incarnation: 0 }
}

/// A site or an edge.
pub(crate) struct Node {
    settings: Settings,
    membership: Membership,
    shards: Vec<ShardId>,
    flush: Flush,
    memory: Memory,
    pub(crate) host: Host<MemoryLog, MemoryTable>,
    openings: u64,
}

impl Node {
    pub(crate) fn site(number: u16, settings: Settings) -> Self {
        let settings = Settings { site: site(number), ..settings };
        Self::new(settings, shards().all().collect(), Membership::alone(site(number)))
    }

    /// One of several.
    pub(crate) fn one_of(count: u16, number: u16) -> Self {
        Self::one_of_with(count, number, Settings::default())
    }

    pub(crate) fn one_of_with(count: u16, number: u16, settings: Settings) -> Self {
        let settings = Settings { site: site(number), ..settings };
        Self::new(settings, shards().all().collect(), Membership::of((1..=count).map(site)))
    }

    pub(crate) fn edge(number: u8) -> Self {
        let transient = Transient {
            name: Name::drawn([number; 16]),
            tier: 2,
            opening: Opening::default(),
            pending_max: PENDING_MAX,
        };
        let settings = Settings { transient: Some(transient), ..Settings::default() };
        Self::new(settings, vec![EDGE_SHARD], Membership::alone(settings.site))
    }

    pub(crate) fn relay(number: u8) -> Self {
        let transient = Transient {
            name: Name::drawn([0x40 + number; 16]),
            tier: RELAY_TIER,
            opening: Opening::default(),
            pending_max: PENDING_MAX,
        };
        let settings = Settings { transient: Some(transient), ..Settings::default() };
        Self::new(settings, shards().all().collect(), Membership::alone(settings.site))
    }

    fn new(settings: Settings, shards: Vec<ShardId>, membership: Membership) -> Self {
        let memory = Memory::new();
        let flush = Flush::Now;
        let host = open(&memory, settings, &membership, &shards, flush, 0);
        Self { settings, membership, shards, flush, memory, host, openings: 0 }
    }

    /// Answers clients before what they count is on the device.
    pub(crate) fn lazy(mut self) -> Self {
        self.flush = Flush::Later;
        self.restart(0);
        self
    }

    /// From now on its shards cannot store anything.
    pub(crate) fn break_store(&self) {
        self.memory.crash();
    }

    /// From now on these belong to the cluster.
    pub(crate) fn follow(&mut self, membership: &Membership) {
        self.membership = membership.clone();
        self.host.set_membership(membership);
    }

    /// There are links to all others.
    pub(crate) fn connect_all(&mut self) {
        let others: Vec<SiteId> = self.membership.members.iter().copied().collect();
        others
            .into_iter()
            .filter(|site| *site != self.settings.site)
            .for_each(|site| self.host.connected(site));
    }

    /// What it has to say to other sites.
    pub(crate) fn letters(&mut self, now_ms: u64) -> Vec<Envelope> {
        let mut letters = Vec::new();
        self.host.outgoing(moment(now_ms), &mut letters);
        letters
    }

    /// What another site has said to it.
    pub(crate) fn read(&mut self, from: SiteId, letter: Envelope, now_ms: u64) {
        self.host.receive(letter.shard, from, letter.message, moment(now_ms)).expect("an honest site");
        self.commit(now_ms);
    }

    pub(crate) fn id(&self) -> SiteId {
        self.settings.site
    }

    /// Ends without a word, and begins again with what was stored.
    pub(crate) fn restart(&mut self, now_ms: u64) {
        self.memory.crash();
        self.openings += 1;
        if let Some(transient) = &mut self.settings.transient {
            transient.opening = Opening { count: self.openings, drawn: self.openings };
        }
        self.host = open(&self.memory, self.settings, &self.membership, &self.shards, self.flush, now_ms);
    }

    pub(crate) fn server(&self) -> Server {
        let (name, tier) = match self.settings.transient {
            Some(Transient { name, tier, .. }) => (name, tier),
            None => (Name::of_site(self.settings.site), 0),
        };
        Server { name, tier, shards: shards().count() }
    }

    /// Brings the table up to date.
    pub(crate) fn look_after(&mut self, now_ms: u64) {
        let mut released = Released::default();
        for _ in 0..self.shards.len() {
            self.host.maintain(moment(now_ms), &mut released);
            self.host.commit(moment(now_ms), &mut released);
        }
    }

    pub(crate) fn commit(&mut self, now_ms: u64) -> Vec<(Ticket, Reply)> {
        let mut released = Released::default();
        self.host.commit(moment(now_ms), &mut released);
        released.replies
    }

    /// How many records the log of a shard has.
    pub(crate) fn records(&self, shard: ShardId) -> usize {
        self.memory.records(shard)
    }

    /// What is stored of a shard. It is not used any more then.
    pub(crate) fn found(&self, shard: ShardId) -> Found {
        let mut store = Store::new(self.memory.log(), self.memory.table());
        let records = store.open(shard).expect("it opens").records;
        let scan = Scan { slice: Slice::KEPT, prefix: b"", after: None, rows_max: 1_000 };
        let rows = self.memory.table().scan(shard, scan).expect("it can be read").rows;
        Found { records: records.into_iter().map(|record| record.bytes).collect(), rows }
    }

    /// One that finds this in a shard.
    pub(crate) fn with(mut self, shard: ShardId, found: &Found, now_ms: u64) -> Self {
        self.memory = Memory::new();
        let write =
            |(key, row): &(Vec<u8>, Row)| Write { slice: Slice::KEPT, key: key.clone(), row: row.clone() };
        let writes: Vec<Write> = found.rows.iter().map(write).collect();
        self.memory.table().put(shard, &writes).expect("nothing fails here");
        let mut store = Store::new(self.memory.log(), self.memory.table());
        store.open(shard).expect("it opens");
        for record in &found.records {
            store.commit(&[Batch { shard, record: record.clone() }], Flush::Now);
        }
        self.host = open(&self.memory, self.settings, &self.membership, &self.shards, self.flush, now_ms);
        self
    }

    /// All that is stored is in the table, and nothing in the log.
    pub(crate) fn checkpoint(&mut self, now_ms: u64) {
        for shard in self.shards.clone() {
            self.host.checkpoint(shard, moment(now_ms));
        }
        self.commit(now_ms);
    }

    fn shard_of(&self, key: &[u8]) -> ShardId {
        if self.is_edge() { EDGE_SHARD } else { shards().of(key) }
    }

    fn is_edge(&self) -> bool {
        self.settings.transient.is_some_and(|transient| transient.tier > RELAY_TIER)
    }

    pub(crate) fn is_relay(&self) -> bool {
        self.settings.transient.is_some_and(|transient| transient.tier == RELAY_TIER)
    }

    /// The shard of this node that deals with a shard of the cluster.
    fn own_shard(&self, shard: u16) -> ShardId {
        if self.is_edge() { EDGE_SHARD } else { ShardId(shard) }
    }

    pub(crate) fn run(&mut self, key: &[u8], action: Action<'_>, now_ms: u64) -> Reply {
        let shard = self.shard_of(key);
        self.host.submit(shard, Ticket(0), Command { key, action }, moment(now_ms));
        let mut replies = self.commit(now_ms);
        assert_eq!(replies.len(), 1);
        replies.remove(0).1
    }

    pub(crate) fn add(&mut self, key: &[u8], amount: i64, now_ms: u64) {
        let reply = self.run(key, Action::Add { add: Add::of(amount), operation: None }, now_ms);
        assert!(matches!(reply, Reply::Added(added) if added.applied == amount), "{reply:?}");
    }

    pub(crate) fn value(&mut self, key: &[u8]) -> i64 {
        match self.run(key, Action::Get, 0) {
            Reply::Value(value) => value.unwrap_or(0),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn open_handoffs(&mut self) -> Open {
        let mut open = Open::default();
        for shard in self.shards.clone() {
            let part = self.host.not_handed_over(shard).expect("its store works");
            open.pending += part.pending;
            open.tokens.extend(part.tokens);
            open.servers.extend(part.servers);
            open.last_words += part.last_words;
        }
        open
    }

    /// What it has to say to a server, which is durable.
    pub(crate) fn visits(&mut self, server: Server, chosen: bool, now_ms: u64) -> Vec<(u16, Visit)> {
        if self.is_relay() {
            return self.round(server, Round { chosen, all: true }, now_ms);
        }
        let visits = self.host.visits(EDGE_SHARD, server, chosen);
        self.commit(now_ms);
        visits
    }

    /// What a relay has to say.
    pub(crate) fn round(&mut self, server: Server, round: Round, now_ms: u64) -> Vec<(u16, Visit)> {
        for shard in self.shards.clone() {
            self.host.speak(shard, Ticket(0), server, round, moment(now_ms));
        }
        let said = self.commit(now_ms).into_iter().flat_map(|(_, reply)| match reply {
            Reply::Visits(visits) => visits,
            other => panic!("{other:?}"),
        });
        said.collect()
    }

    pub(crate) fn take(&mut self, shard: u16, visit: Visit, now_ms: u64) -> Reply {
        assert!(visit.speaks_only_of(|key| shards().of(key) == ShardId(shard)));
        let is_leaf = visit.view.tier() > RELAY_TIER;
        self.host.visit(ShardId(shard), Ticket(0), visit, is_leaf, moment(now_ms));
        let mut replies = self.commit(now_ms);
        assert_eq!(replies.len(), 1);
        replies.remove(0).1
    }

    pub(crate) fn answered(&mut self, shard: u16, server: Server, answer: &Answer, now_ms: u64) {
        let own = self.own_shard(shard);
        self.host.answered(own, shard, server, answer, moment(now_ms)).expect("an honest server");
        self.commit(now_ms);
    }

    /// One exchange in which nothing is lost.
    pub(crate) fn exchange(&mut self, site: &mut Self, chosen: bool, now_ms: u64) {
        let server = site.server();
        for (shard, visit) in self.visits(server, chosen, now_ms) {
            match site.take(shard, visit, now_ms) {
                Reply::Visited(answer) => self.answered(shard, server, &answer, now_ms),
                // It retires.
                Reply::Refused(Refusal::Leaving) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    pub(crate) fn hand_over(&mut self, site: &mut Self, now_ms: u64) {
        for _ in 0..10 {
            if self.open_handoffs().is_empty() {
                return;
            }
            self.exchange(site, true, now_ms);
        }
        panic!("not handed over: {:?}", self.open_handoffs());
    }

    pub(crate) fn retire(&mut self) {
        self.host.retire_edge(EDGE_SHARD).expect("it has handed over everything");
        self.commit(0);
    }

    pub(crate) fn ask(&mut self, key: &[u8]) -> Option<i64> {
        self.host.ask(EDGE_SHARD, key)
    }
}

/// Stored bytes.
pub(crate) struct Found {
    records: Vec<Vec<u8>>,
    rows: Vec<(Vec<u8>, Row)>,
}

impl Found {
    /// A line for each, with a space before it.
    pub(crate) fn to_text(&self) -> String {
        let records = self.records.iter().map(|bytes| format!(" record {}\n", hex(bytes)));
        let row =
            |(key, row): &(Vec<u8>, Row)| format!(" row {} {} {}\n", hex(key), row.version, hex(&row.bytes));
        records.chain(self.rows.iter().map(row)).collect()
    }

    pub(crate) fn from_text<'a>(lines: impl Iterator<Item = &'a str>) -> Self {
        let mut found = Self { records: Vec::new(), rows: Vec::new() };
        for line in lines {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["record", bytes] => found.records.push(from_hex(bytes)),
                ["row", key, version, bytes] => {
                    let version = version.parse().expect("a number");
                    found.rows.push((from_hex(key), Row { version, bytes: from_hex(bytes) }));
                }
                ref other => panic!("{other:?}"),
            }
        }
        found
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(byte).collect()
}

fn open(
    memory: &Memory,
    settings: Settings,
    membership: &Membership,
    shards: &[ShardId],
    flush: Flush,
    now_ms: u64,
) -> Host<MemoryLog, MemoryTable> {
    let mut host = Host::new(Store::new(memory.log(), memory.table()), None, settings, flush);
    host.set_membership(membership);
    for peer in membership.members.iter().filter(|peer| **peer != settings.site) {
        host.connected(*peer);
    }
    for shard in shards {
        host.open(*shard, moment(now_ms)).expect("it opens");
    }
    host
}

pub(crate) fn moment(now_ms: u64) -> Moment {
    Moment { elapsed_ms: now_ms, unix_ms: 1_700_000_000_000 + now_ms }
}

pub(crate) fn key(random: &mut Random) -> Vec<u8> {
    format!("key-{}", random.below(12)).into_bytes()
}
