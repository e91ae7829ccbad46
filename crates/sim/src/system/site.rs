//! One site: the real engine over a store in memory. Everything that the simulation asks of the engine is asked here.

use super::calls::{Act, Call, Key, Mistake, unix_ms};
use super::plan::Plan;
use super::wrong::Wrong;
use crate::core::Millis;
use quipu_engine::handoff::{HandoffStats, Name, Server};
use quipu_engine::{
    BadMessage, Command, Envelope, Host, Membership, Message, Moment, OperationId, Released, Reply, Rule,
    Settings, ShardAudit, Shards, SiteId, Ticket, Unfinished, Window, WindowMode,
};
use quipu_storage::memory::{Memory, MemoryLog, MemoryTable};
use quipu_storage::{Flush, ShardId, Store};
use std::collections::{BTreeMap, BTreeSet};

/// A site may want to work at once so many times in a row without anything to say.
const RESTLESS_MAX: u32 = 200;

/// How a site stands to the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has not come yet.
    Outside,
    /// It gathers what the others have, and takes no writes.
    Joining,
    /// It takes writes.
    Member,
    /// It takes no more calls, and leaves when the others have all that it wrote.
    Leaving,
    /// Its disk is lost; a copy will go on in its place.
    Away,
    /// A copy that runs beside its original.
    Beside,
    /// It has left, or is lost.
    Gone,
}

/// One process of a site: a number that grows with each start and is stored, and one that no other process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Run {
    pub(super) number: u32,
    pub(super) nonce: u64,
}

/// A copy of a site's disk.
pub(super) struct Copy {
    /// When what it holds was on the device.
    pub(super) state_ms: Millis,
    memory: Memory,
    membership: Membership,
    runs: Vec<Run>,
}

/// A site, with or without a process.
pub(super) struct Site {
    pub(super) id: SiteId,
    /// What outlives its processes.
    pub(super) memory: Memory,
    host: Option<Box<Host<MemoryLog, MemoryTable>>>,
    settings: Settings,
    shards: Shards,
    membership: Membership,
    wrong: Wrong,
    started_ms: Millis,
    /// By how much its wall clock is wrong.
    pub(super) skew_ms: i64,
    /// The processes that there were, as its disk knows them.
    runs: Vec<Run>,
    /// What tells its runs from those of a site beside which it was started.
    of_copies: u64,
    pub(super) standing: Standing,
    /// The copy of its disk that will go on in its place.
    pub(super) copy: Option<Copy>,
    /// How often it flushes what it has acknowledged; 0: before it does.
    interval_ms: Millis,
    pub(super) flushed_ms: Millis,
    /// When it works next.
    pub(super) works_at: Option<Millis>,
    /// When it last looked after its store.
    pub(super) maintained_ms: Millis,
    /// It dies in its next commit, and is away for so long.
    pub(super) dying: Option<Millis>,
    /// Attempts that it has not answered.
    pub(super) open: Vec<usize>,
    /// How often in a row it wanted to work at once, and then had nothing to say.
    restless: u32,
    /// How far it has told others that it had got with each site's stream, its own too, by shard.
    told: BTreeMap<ShardId, BTreeMap<SiteId, u64>>,
}

/// What comes out of a site's work.
#[derive(Default)]
pub(super) struct Worked {
    pub(super) replies: Vec<(Ticket, Reply)>,
    /// Was something handed to the store?
    pub(super) wrote: bool,
}

impl Site {
    pub(super) fn new(index: usize, plan: &Plan) -> Self {
        let (id, is_first) = (Self::id_of(index), index < plan.sites);
        let window = Window::new(plan.window_ms, WindowMode::Exact, 1e-6).expect("a window that can be");
        let settings = Settings {
            site: id,
            window,
            memory_bytes: plan.memory_bytes,
            seed: plan.seed ^ u64::from(id.number),
            unsettled_max: plan.unsettled_max,
            rules: plan.wrong.rules,
            edge_ttl_s: plan.fleet.ttl_s,
            ..Settings::default()
        };
        Self {
            id,
            memory: Memory::new(),
            host: None,
            settings,
            shards: Shards::new(plan.shards).expect("a power of two"),
            membership: if is_first {
                Membership::of((0..plan.sites).map(Self::id_of))
            } else {
                Self::newcomers(id)
            },
            wrong: plan.wrong,
            started_ms: 0,
            skew_ms: plan.skews_ms.get(index).copied().unwrap_or(0),
            runs: Vec::new(),
            of_copies: 0,
            standing: if is_first { Standing::Member } else { Standing::Outside },
            copy: None,
            interval_ms: plan.intervals_ms.get(index).copied().unwrap_or(0),
            flushed_ms: 0,
            works_at: None,
            maintained_ms: 0,
            dying: None,
            open: Vec::new(),
            restless: 0,
            told: BTreeMap::new(),
        }
    }

    /// The id of the site with this index.
    fn id_of(index: usize) -> SiteId {
        SiteId { number: u16::try_from(index + 1).expect("few sites"), incarnation: 0 }
    }

    /// What a site knows of the cluster before it is listed.
    fn newcomers(id: SiteId) -> Membership {
        Membership { epoch: 0, joining: BTreeSet::from([id]), ..Membership::alone(id) }
    }

    /// The index of the site with this id.
    pub(super) fn index_of(id: SiteId) -> usize {
        usize::from(id.number) - 1
    }

    pub(super) fn is_up(&self) -> bool {
        self.host.is_some()
    }

    /// May it have a process?
    pub(super) fn is_there(&self) -> bool {
        !matches!(self.standing, Standing::Outside | Standing::Away | Standing::Beside | Standing::Gone)
    }

    /// Does it acknowledge before it flushes?
    pub(super) fn is_lazy(&self) -> bool {
        self.interval_ms > 0
    }

    /// The time as a process at this site reads it.
    pub(super) fn moment(&self, now: Millis) -> Moment {
        let unix_ms = unix_ms(now).saturating_add_signed(self.skew_ms);
        Moment { elapsed_ms: now - self.started_ms, unix_ms }
    }

    /// Starts a process.
    pub(super) fn start(&mut self, now: Millis) -> Result<(), String> {
        self.started_ms = now;
        self.maintained_ms = now;
        let number = self.run_of_process().number + 1;
        let nonce = self.of_copies | u64::from(self.id.number) << 32 | u64::from(number);
        self.settings.run = Some(nonce);
        self.runs.push(Run { number, nonce });
        self.dying = None;
        self.works_at = None;
        let store = Store::new(self.memory.log(), self.memory.table());
        let flush = if self.is_lazy() { Flush::Later } else { Flush::Now };
        let mut host = Box::new(self.with_rules(Host::new(store, None, self.settings, flush)));
        host.set_membership(&self.membership);
        for shard in self.shards.all() {
            let opened = host.open(shard, self.moment(now));
            opened.map_err(|error| format!("site {} cannot open its store: {error}", self.id))?;
        }
        self.host = Some(host);
        self.remembers()
    }

    /// What a site has told others it still knows after it has died: it had stored it before.
    fn remembers(&self) -> Result<(), String> {
        for (shard, told) in &self.told {
            for (of, told) in told {
                let known = self.got_to(*shard, *of);
                if known < *told {
                    let id = self.id;
                    return Err(format!(
                        "site {id} comes back with {known} changes of site {of} in shard {}, and has told of {told}",
                        shard.0
                    ));
                }
            }
        }
        Ok(())
    }

    /// The last of its processes.
    pub(super) fn run_of_process(&self) -> Run {
        self.runs.last().copied().unwrap_or_default()
    }

    /// Was this one of its processes?
    pub(super) fn has_run(&self, run: Run) -> bool {
        self.runs.contains(&run)
    }

    /// How far others have heard of what it has written itself in a shard.
    pub(super) fn heard_to(&self, shard: usize) -> u64 {
        let shard = ShardId(u16::try_from(shard).expect("few shards"));
        let host = self.host.as_ref();
        host.and_then(|host| host.heard_position(shard)).unwrap_or(u64::MAX)
    }

    /// How far it has told others that it had got with a site's stream.
    pub(super) fn told(&self, shard: ShardId, of: SiteId) -> u64 {
        self.told.get(&shard).and_then(|told| told.get(&of)).copied().unwrap_or(0)
    }

    /// How far it has got with a site's stream.
    pub(super) fn got_to(&self, shard: ShardId, of: SiteId) -> u64 {
        let Some(host) = &self.host else { return 0 };
        let known = if of == self.id { host.position(shard) } else { host.received(shard, of) };
        known.unwrap_or(0)
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

    /// The process dies; what was not flushed is lost.
    pub(super) fn crash(&mut self) {
        self.host = None;
        self.memory.crash();
        self.memory.heal();
    }

    /// A copy of its disk is made.
    pub(super) fn make_copy(&mut self, now: Millis) {
        let state_ms = if self.is_lazy() { self.flushed_ms } else { now };
        let (memory, membership, runs) = (self.memory.copy(), self.membership.clone(), self.runs.clone());
        self.copy = Some(Copy { state_ms, memory, membership, runs });
    }

    /// The copy of its disk, as a site that runs beside it.
    pub(super) fn started_copy(&mut self) -> Option<Self> {
        let Copy { memory, membership, runs, .. } = self.copy.take()?;
        Some(Self {
            id: self.id,
            memory,
            host: None,
            settings: self.settings,
            shards: self.shards,
            membership,
            wrong: self.wrong,
            started_ms: 0,
            skew_ms: self.skew_ms,
            runs,
            of_copies: self.of_copies + (1 << 60),
            standing: Standing::Beside,
            copy: None,
            interval_ms: self.interval_ms,
            flushed_ms: 0,
            works_at: None,
            maintained_ms: 0,
            dying: None,
            open: Vec::new(),
            restless: 0,
            told: BTreeMap::new(),
        })
    }

    /// The copy of its disk takes the place of the disk. With the rule it is the next incarnation, which nobody knows yet.
    pub(super) fn put_back(&mut self, now: Millis) -> Result<(), String> {
        let Some(copy) = self.copy.take() else { return Ok(()) };
        self.memory = copy.memory;
        self.membership = copy.membership;
        self.told.clear();
        if !self.wrong.rules.keep(Rule::NewIncarnation) {
            return Ok(());
        }
        let new = SiteId { incarnation: self.id.incarnation + 1, ..self.id };
        self.started_ms = now;
        for shard in self.shards.all() {
            let store = Store::new(self.memory.log(), self.memory.table());
            let mut host = Host::new(store, None, self.settings, Flush::Now);
            host.set_membership(&self.membership);
            let opened = host.open(shard, self.moment(now));
            let renamed = opened.and_then(|()| host.begin_incarnation(shard, new, self.moment(now)));
            renamed.map_err(|error| format!("site {} cannot be restored: {error}", self.id))?;
        }
        self.id = new;
        self.settings.site = new;
        self.membership = Self::newcomers(new);
        Ok(())
    }

    /// Has it, which joins, everything that the others had when they listed it?
    pub(super) fn is_caught_up(&self) -> bool {
        self.host.as_ref().is_some_and(|host| host.is_caught_up())
    }

    /// Hands a call to the engine.
    pub(super) fn submit(&mut self, ticket: usize, key: &Key, call: &Call, now: Millis) {
        let moment = self.moment(now);
        let producer = call.producer.to_be_bytes();
        let operation = call.id.as_ref().map(|id| OperationId { producer: &producer, id: &id.bytes });
        let host = self.host.as_mut().expect("calls go to processes");
        let is_named = call.act != Act::Mistake(Mistake::NoName);
        let name: &[u8] = if is_named { &key.name } else { b"" };
        host.submit(
            key.shard,
            Ticket(ticket as u64),
            Command { key: name, action: call.action(key, operation) },
            moment,
        );
    }

    /// Makes durable what was submitted and received, and hands out what may be known then.
    pub(super) fn commit(&mut self, now: Millis) -> Worked {
        let moment = self.moment(now);
        let Some(host) = &mut self.host else { return Worked::default() };
        let mut released = Released::default();
        let wrote = host.commit(moment, &mut released).is_some();
        Worked { replies: released.replies, wrote }
    }

    /// Looks after the store between commits.
    pub(super) fn maintain(&mut self, now: Millis) -> Worked {
        let moment = self.moment(now);
        let Some(host) = &mut self.host else { return Worked::default() };
        self.maintained_ms = now;
        let mut released = Released::default();
        host.maintain(moment, &mut released);
        Worked { replies: released.replies, wrote: false }
    }

    /// Brings the table up to date. Between commits.
    pub(super) fn checkpoint(&mut self, now: Millis) {
        let moment = self.moment(now);
        let Some(host) = &mut self.host else { return };
        self.shards.all().for_each(|shard| host.checkpoint(shard, moment));
    }

    /// Flushes if it is time. Returns when it will be.
    pub(super) fn flush(&mut self, now: Millis) -> Option<Millis> {
        let host = self.host.as_mut().filter(|_| self.interval_ms > 0)?;
        let since_ms = now - self.flushed_ms;
        // What cannot be flushed now is tried again.
        if since_ms >= self.interval_ms && host.flush().is_ok() {
            self.flushed_ms = now;
        }
        Some(self.interval_ms.saturating_sub(now - self.flushed_ms).max(1))
    }

    /// Who belongs to the cluster from now on.
    pub(super) fn follow(&mut self, membership: &Membership) {
        self.membership = membership.clone();
        if let Some(host) = &mut self.host {
            host.set_membership(membership);
        }
    }

    pub(super) fn membership(&self) -> &Membership {
        &self.membership
    }

    /// May it leave, and take nothing with it? The server asks the same (`quipu_server::node::leaving`).
    pub(super) fn is_drained(&self) -> bool {
        self.open.is_empty() && self.unfinished().is_some_and(|it| it.is_nothing())
    }

    pub(super) fn unfinished(&self) -> Option<Unfinished> {
        self.host.as_ref().map(|host| host.unfinished())
    }

    /// There is a link to another site, or it is gone.
    pub(super) fn link(&mut self, peer: SiteId, up: bool) {
        match &mut self.host {
            Some(host) if up => host.connected(peer),
            Some(host) => host.disconnected(peer),
            None => {}
        }
    }

    /// Takes in a message.
    pub(super) fn receive(
        &mut self,
        shard: ShardId,
        from: SiteId,
        message: Message,
        now: Millis,
    ) -> Result<(), BadMessage> {
        let moment = self.moment(now);
        self.host.as_mut().map_or(Ok(()), |host| host.receive(shard, from, message, moment))
    }

    /// What is to be sent now, after a commit.
    pub(super) fn outgoing(&mut self, now: Millis, envelopes: &mut Vec<Envelope>) {
        let moment = self.moment(now);
        if let Some(host) = &mut self.host {
            host.outgoing(moment, envelopes);
        }
        for shard in envelopes.iter().map(|envelope| envelope.shard) {
            for &of in &self.membership.members {
                let known = self.got_to(shard, of);
                self.told.entry(shard).or_default().insert(of, known);
            }
        }
    }

    /// What it is to those who hand over to it.
    pub(super) fn server(&self) -> Server {
        Server { name: Name::of_site(self.id), tier: 0, shards: self.shards.count() }
    }

    pub(super) fn host_mut(&mut self) -> Option<&mut Host<MemoryLog, MemoryTable>> {
        self.host.as_deref_mut()
    }

    /// Numbers about handoffs.
    pub(super) fn handoff_stats(&self) -> HandoffStats {
        self.host.as_ref().map(|host| host.handoff_stats()).unwrap_or_default()
    }

    /// For whom it keeps tokens and last words of others, by shard.
    pub(super) fn kept_for(&self) -> BTreeSet<(u16, Name)> {
        self.host.as_ref().map(|host| host.kept_for()).unwrap_or_default()
    }

    /// When it wants to work again by itself.
    pub(super) fn wants_at(&self) -> Option<Millis> {
        let wanted = self.host.as_ref()?.wants_at()?;
        Some(self.started_ms.saturating_add(wanted))
    }

    /// Does it rest when it has nothing to say? A process that always wants to work again at once takes a whole processor.
    pub(super) fn rests(&mut self, now: Millis, spoke: bool) -> Result<(), String> {
        let is_restless = !spoke && self.wants_at().is_some_and(|at| at <= now);
        self.restless = if is_restless { self.restless + 1 } else { 0 };
        if self.restless > RESTLESS_MAX {
            return Err(format!("site {} wants to work again and again, and has nothing to say", self.id));
        }
        Ok(())
    }

    /// The books of its shards.
    pub(super) fn audit(&self) -> Vec<ShardAudit> {
        self.host.as_ref().map(|host| host.audit()).unwrap_or_default()
    }
}
