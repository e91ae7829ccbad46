//! An edge or a relay: its disk, its processes, and what it knows of others.

use super::ledger::TokenKey;
use super::plan::Who;
use crate::core::Millis;
use crate::system::calls::unix_ms;
use crate::system::plan::Plan;
use crate::system::world::Station;
use crate::system::wrong::Wrong;
use quipu_crdt::testing::Random;
use quipu_engine::handoff::{Name, Open, Opening, RELAY_TIER, Server, Transient, Visit};
use quipu_engine::{Host, Moment, Released, Reply, Settings, Shards, Ticket};
use quipu_storage::memory::{Memory, MemoryLog, MemoryTable};
use quipu_storage::{Flush, ShardId, Store};
use std::collections::{BTreeMap, BTreeSet};

/// An edge is one shard.
pub(super) const EDGE: ShardId = ShardId(0);
/// The tier of edges.
const EDGE_TIER: u8 = 2;
/// So many counters may wait to be handed over: few, so that the limit is reached.
const PENDING_MAX: usize = 40;

/// How an edge or a relay stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::system) enum Stage {
    /// It counts.
    Active,
    /// It counts no more, and is to leave.
    Leaving { early: bool },
    /// It has left, or is lost.
    Gone,
}

/// What a reply is for.
#[derive(Debug)]
pub(in crate::system) enum Purpose {
    /// It was asked to count.
    Add { key: usize, amount: i64 },
    /// It was asked for a value.
    Read { key: usize },
    /// When this is stored, visits may go.
    Send { to: Station, server: Option<Server>, visits: Vec<(u16, Visit)>, waits: bool },
    /// When this is stored, an edge has retired.
    Retire,
    /// What a relay has to say.
    Speak { to: Station, server: Server, chosen: bool },
    /// What a relay leaves.
    Leave { to: Station, server: Server, shard: u16 },
    /// It has been visited.
    Visit { visit: u64, shard: u16 },
}

/// What somebody waits for.
#[derive(Debug, Clone, Copy)]
pub(in crate::system) struct Waiting {
    pub(in crate::system) number: u64,
    pub(in crate::system) until: Millis,
}

/// Whom a letter was for.
#[derive(Debug, Clone, Copy)]
pub(in crate::system) struct Asked {
    pub(in crate::system) to: Station,
    /// For whom it was taken, if it was known.
    pub(in crate::system) server: Option<Server>,
}

/// An edge or a relay, with or without a process.
pub(in crate::system) struct Replica {
    pub(in crate::system) who: Who,
    pub(in crate::system) name: Name,
    pub(in crate::system) memory: Memory,
    pub(super) host: Option<Box<Host<MemoryLog, MemoryTable>>>,
    settings: Settings,
    pub(super) shards: Shards,
    wrong: Wrong,
    started_ms: Millis,
    openings: u64,
    /// How many processes there were, under whatever name.
    pub(in crate::system) run: u32,
    pub(in crate::system) stage: Stage,
    /// It dies in its next commit, and is away for so long.
    pub(in crate::system) dying: Option<Millis>,
    /// It dies when it would hear that its token has arrived there, and is away for so long.
    pub(in crate::system) dies_of_answer: Option<(Station, Millis)>,
    tickets: u64,
    pub(in crate::system) purposes: BTreeMap<Ticket, Purpose>,
    pub(in crate::system) random: Random,
    /// Whom it hands over to: the place in its list of servers.
    pub(in crate::system) current: usize,
    /// Who is where, as far as it knows.
    pub(in crate::system) known: BTreeMap<Station, Server>,
    /// The letter that it waits to be answered.
    pub(in crate::system) waiting: Option<Waiting>,
    /// Letters of this process that were not answered.
    pub(in crate::system) unanswered: BTreeMap<u64, Asked>,
    pub(in crate::system) acts_at: Millis,
    pub(in crate::system) speaks_at: Millis,
    /// When a relay next speaks to all of its parents.
    pub(in crate::system) looks_at: Millis,
    pub(in crate::system) works_at: Option<Millis>,
    maintained_ms: Millis,
    /// Nothing gets through to it or from it until then.
    pub(in crate::system) cut_until: Millis,
    /// What was open after the last answer, and for how many answers that has been so.
    pub(in crate::system) last_open: Open,
    pub(in crate::system) still: u32,
    /// An edge's last words are stored.
    pub(in crate::system) has_retired: bool,
    /// The tokens in them, as far as they were said.
    pub(in crate::system) last_words: BTreeSet<TokenKey>,
    /// What it has shown of counters that only grow, and counted since, in this process.
    pub(in crate::system) shown: BTreeMap<usize, i64>,
}

impl Replica {
    pub(in crate::system) fn new(who: Who, plan: &Plan) -> Self {
        let purpose = format!("system: {who}");
        let (tier, number) = match who {
            Who::Edge(number) => (EDGE_TIER, number),
            Who::Relay(number) => (RELAY_TIER, number),
        };
        let name = Name::drawn([0; 16]);
        let transient = Transient { name, tier, opening: Opening::default(), pending_max: PENDING_MAX };
        let settings = Settings {
            seed: plan.seed ^ number as u64,
            transient: Some(transient),
            edge_ttl_s: plan.fleet.ttl_s,
            rules: plan.wrong.rules,
            ..Settings::default()
        };
        Self {
            who,
            name,
            memory: Memory::new(),
            host: None,
            settings,
            shards: Shards::new(plan.shards).expect("a power of two"),
            wrong: plan.wrong,
            started_ms: 0,
            openings: 0,
            run: 0,
            stage: Stage::Gone,
            dying: None,
            dies_of_answer: None,
            tickets: 0,
            purposes: BTreeMap::new(),
            random: Random::stream(plan.seed, &purpose),
            current: 0,
            known: BTreeMap::new(),
            waiting: None,
            unanswered: BTreeMap::new(),
            acts_at: 0,
            speaks_at: 0,
            looks_at: 0,
            works_at: None,
            maintained_ms: 0,
            cut_until: 0,
            last_open: Open::default(),
            still: 0,
            has_retired: false,
            last_words: BTreeSet::new(),
            shown: BTreeMap::new(),
        }
    }

    pub(in crate::system) fn is_edge(&self) -> bool {
        matches!(self.who, Who::Edge(_))
    }

    pub(in crate::system) fn is_up(&self) -> bool {
        self.host.is_some()
    }

    /// Another one begins in this place, under a name of its own and with an empty disk.
    pub(in crate::system) fn begin(&mut self) {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.random.bits().to_be_bytes());
        bytes[8..].copy_from_slice(&self.random.bits().to_be_bytes());
        self.name = Name::drawn(bytes);
        self.memory = Memory::new();
        self.openings = 0;
        self.stage = Stage::Active;
        self.last_words.clear();
        self.dies_of_answer = None;
        self.known.clear();
    }

    pub(super) fn moment(&self, now: Millis) -> Moment {
        Moment { elapsed_ms: now - self.started_ms, unix_ms: unix_ms(now) }
    }

    pub(super) fn own_shards(&self) -> Vec<ShardId> {
        if self.is_edge() { vec![EDGE] } else { self.shards.all().collect() }
    }

    /// The shard here that deals with a shard of the cluster.
    pub(super) fn own(&self, shard: u16) -> ShardId {
        if self.is_edge() { EDGE } else { ShardId(shard) }
    }

    /// Starts a process.
    pub(in crate::system) fn start(&mut self, now: Millis) -> Result<(), String> {
        self.started_ms = now;
        self.maintained_ms = now;
        self.run += 1;
        self.openings += 1;
        self.dying = None;
        self.works_at = None;
        self.waiting = None;
        self.still = 0;
        self.has_retired = false;
        self.speaks_at = now + 1;
        self.acts_at = now + 1;
        let opening = Opening { count: self.openings, drawn: u64::from(self.run) };
        if let Some(transient) = &mut self.settings.transient {
            (transient.name, transient.opening) = (self.name, opening);
        }
        let store = Store::new(self.memory.log(), self.memory.table());
        let mut host = Box::new(self.with_rules(Host::new(store, None, self.settings, Flush::Now)));
        for shard in self.own_shards() {
            let opened = host.open(shard, self.moment(now));
            opened.map_err(|error| format!("{} cannot open its store: {error}", self.who))?;
        }
        self.host = Some(host);
        // Whether it was about to leave is stored, and so are an edge's last words.
        if self.is_leaving() {
            self.has_retired = self.is_edge();
            if self.stage == Stage::Active {
                self.stage = Stage::Leaving { early: false };
            }
        }
        Ok(())
    }

    #[cfg(feature = "testing")]
    fn with_rules(&self, host: Host<MemoryLog, MemoryTable>) -> Host<MemoryLog, MemoryTable> {
        host.with_discipline(self.wrong.discipline)
    }

    #[cfg(not(feature = "testing"))]
    fn with_rules(&self, host: Host<MemoryLog, MemoryTable>) -> Host<MemoryLog, MemoryTable> {
        let Wrong { discipline: _, .. } = self.wrong;
        host
    }

    /// The process dies; what was not stored is lost. Returns what was open.
    pub(in crate::system) fn crash(&mut self) -> Vec<Purpose> {
        self.host = None;
        self.memory.crash();
        self.memory.heal();
        self.waiting = None;
        self.unanswered.clear();
        self.shown.clear();
        std::mem::take(&mut self.purposes).into_values().collect()
    }

    pub(super) fn ticket(&mut self, purpose: Purpose) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.purposes.insert(ticket, purpose);
        ticket
    }

    /// Makes durable what was asked and heard, and hands out what may be known then. Was something handed to the store?
    pub(in crate::system) fn commit(&mut self, now: Millis) -> (Vec<(Ticket, Reply)>, bool) {
        let moment = self.moment(now);
        let Some(host) = &mut self.host else { return (Vec::new(), false) };
        let mut released = Released::default();
        let wrote = host.commit(moment, &mut released).is_some();
        (released.replies, wrote)
    }

    /// Looks after the store between commits.
    pub(in crate::system) fn maintain(&mut self, now: Millis, every_ms: Millis) -> Vec<(Ticket, Reply)> {
        if now - self.maintained_ms < every_ms {
            return Vec::new();
        }
        self.maintained_ms = now;
        let (moment, saves) = (self.moment(now), self.random.chance(0.1));
        let shards = self.own_shards();
        let Some(host) = &mut self.host else { return Vec::new() };
        let mut released = Released::default();
        host.maintain(moment, &mut released);
        if saves {
            shards.into_iter().for_each(|shard| host.checkpoint(shard, moment));
        }
        released.replies
    }
}
