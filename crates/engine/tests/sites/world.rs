//! Several sites over stored data in memory, and a network between them that loses, repeats and reorders.

use std::collections::BTreeSet;

use quipu_crdt::testing::Random;
use quipu_engine::{
    Action, Add, BadMessage, Command, Counting, Envelope, Host, Limits, Membership, Message, Moment,
    OperationId, Outcome, Refusal, Released, Reply, Settings, SiteId, Spread, Suspicion, Ticket, WaitsFor,
};
use quipu_storage::{
    Flush, Scan, ShardId, Slice, Store, Table,
    memory::{Memory, MemoryLog, MemoryTable},
};

pub(crate) const SHARD: ShardId = ShardId(0);

pub(crate) fn site(number: u16) -> SiteId {
    SiteId { number, incarnation: 0 }
}

pub(crate) struct Site {
    pub(crate) id: SiteId,
    memory: Memory,
    pub(crate) host: Option<Host<MemoryLog, MemoryTable>>,
    started_ms: u64,
    pub(crate) replies: Vec<(Ticket, Reply)>,
    /// How many batches had something to store.
    pub(crate) records: u64,
}

/// How the network treats messages, in percent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Weather {
    pub(crate) drop: usize,
    pub(crate) duplicate: usize,
}

pub(crate) struct World {
    pub(crate) sites: Vec<Site>,
    pub(crate) random: Random,
    pub(crate) now_ms: u64,
    pub(crate) weather: Weather,
    /// Pairs that hear nothing of each other.
    pub(crate) cut: BTreeSet<(SiteId, SiteId)>,
    settings: Settings,
    membership: Membership,
    flying: Vec<(u64, SiteId, Envelope)>,
    tickets: u64,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// How often a process was started.
    runs: u64,
    /// Why messages were refused, and by whom. That one runs no more.
    pub(crate) refused: Vec<(SiteId, BadMessage)>,
}

impl World {
    pub(crate) fn new(count: u16, seed: u64, settings: Settings) -> Self {
        let sites = (1..=count).map(|number| Site {
            id: site(number),
            memory: Memory::new(),
            host: None,
            started_ms: 0,
            replies: Vec::new(),
            records: 0,
        });
        let mut world = Self {
            sites: sites.collect(),
            random: Random::new(seed),
            now_ms: 0,
            weather: Weather::default(),
            cut: BTreeSet::new(),
            settings,
            membership: Membership::of((1..=count).map(site)),
            flying: Vec::new(),
            tickets: 0,
            messages: 0,
            bytes: 0,
            runs: 0,
            refused: Vec::new(),
        };
        (0..usize::from(count)).for_each(|at| world.start(at));
        world
    }

    fn moment(&self, at: usize) -> Moment {
        Moment {
            elapsed_ms: self.now_ms - self.sites[at].started_ms,
            unix_ms: 1_700_000_000_000 + self.now_ms,
        }
    }

    pub(crate) fn start(&mut self, at: usize) {
        self.runs += 1;
        let settings = Settings { site: self.sites[at].id, run: Some(self.runs), ..self.settings };
        let others: Vec<SiteId> =
            self.sites.iter().map(|site| site.id).filter(|id| *id != self.sites[at].id).collect();
        let memory = &self.sites[at].memory;
        let store = Store::new(memory.log(), memory.table());
        let mut host = Host::new(store, None, settings, Flush::Now);
        host.set_membership(&self.membership);
        self.sites[at].started_ms = self.now_ms;
        let now = self.moment(at);
        host.open(SHARD, now).expect("it opens");
        for other in others {
            host.connected(other);
        }
        self.sites[at].host = Some(host);
    }

    pub(crate) fn set_counting(&mut self, at: usize, counting: Counting) {
        if let Some(host) = &mut self.sites[at].host {
            host.set_counting(counting);
        }
    }

    pub(crate) fn crash(&mut self, at: usize) {
        self.sites[at].host = None;
        self.sites[at].memory.crash();
    }

    /// Lets the table of a site fail within its next write, after so many rows.
    pub(crate) fn fail_next_put_after(&self, at: usize, rows: usize) {
        self.sites[at].memory.fail_next_put_after(rows);
    }

    /// Cuts or heals the link between two.
    pub(crate) fn link(&mut self, one: usize, other: usize, up: bool) {
        let (a, b) = (self.sites[one].id, self.sites[other].id);
        for pair in [(a, b), (b, a)] {
            if up {
                self.cut.remove(&pair);
            } else {
                self.cut.insert(pair);
            }
        }
        for (at, peer) in [(one, b), (other, a)] {
            if let Some(host) = &mut self.sites[at].host {
                if up { host.connected(peer) } else { host.disconnected(peer) }
            }
        }
    }

    pub(crate) fn submit(&mut self, at: usize, key: &[u8], action: Action<'_>) -> Ticket {
        self.tickets += 1;
        let (ticket, now) = (Ticket(self.tickets), self.moment(at));
        if let Some(host) = &mut self.sites[at].host {
            host.submit(SHARD, ticket, Command { key, action }, now);
        }
        self.commit(at);
        ticket
    }

    pub(crate) fn run(&mut self, at: usize, key: &[u8], action: Action<'_>) -> Reply {
        let ticket = self.submit(at, key, action);
        let replies = &mut self.sites[at].replies;
        let found = replies.iter().position(|(other, _)| *other == ticket).expect("it is answered at once");
        replies.swap_remove(found).1
    }

    pub(crate) fn answer(&mut self, at: usize, ticket: Ticket) -> Option<Reply> {
        let replies = &mut self.sites[at].replies;
        let found = replies.iter().position(|(other, _)| *other == ticket)?;
        Some(replies.swap_remove(found).1)
    }

    pub(crate) fn add(&mut self, at: usize, key: &[u8], amount: i64) -> Reply {
        self.run(at, key, Action::Add { add: Add::of(amount), operation: None })
    }

    pub(crate) fn add_once(&mut self, at: usize, key: &[u8], amount: i64, id: &[u8]) -> Reply {
        let operation = Some(OperationId { producer: b"p", id });
        self.run(at, key, Action::Add { add: Add::of(amount), operation })
    }

    pub(crate) fn get(&mut self, at: usize, key: &[u8]) -> Option<i64> {
        match self.run(at, key, Action::Get) {
            Reply::Value(value) => value,
            other => panic!("{other:?}"),
        }
    }

    /// What each site may subtract, as a site knows it.
    pub(crate) fn rights(&mut self, at: usize, key: &[u8]) -> Vec<u128> {
        match self.run(at, key, Action::Inspect) {
            Reply::Inspected(Some(it)) => {
                it.sites.iter().map(|site| site.rights_to_subtract.expect("there is a minimum")).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn outcome(&mut self, at: usize, key: &[u8], id: &[u8]) -> Outcome {
        match self.run(at, key, Action::Outcome(OperationId { producer: b"p", id })) {
            Reply::Outcome(outcome) => outcome,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn create(
        &mut self,
        at: usize,
        key: &[u8],
        minimum: i64,
        initial: i64,
        wait_ms: u64,
    ) -> Ticket {
        self.create_spread(at, key, (minimum, initial), Spread::Creator, wait_ms)
    }

    pub(crate) fn create_spread(
        &mut self,
        at: usize,
        key: &[u8],
        (minimum, initial): (i64, i64),
        spread: Spread<'_>,
        wait_ms: u64,
    ) -> Ticket {
        let limits = Limits { minimum: Some(minimum), maximum: None, initial };
        self.submit(at, key, Action::Create { limits, spread, wait_ms })
    }

    /// Says who belongs to the cluster from now on, to those that run.
    pub(crate) fn set_membership(&mut self, membership: Membership) {
        self.membership = membership;
        for at in 0..self.sites.len() {
            if !self.membership.members.contains(&self.sites[at].id) {
                self.sites[at].host = None;
            }
            if let Some(host) = &mut self.sites[at].host {
                host.set_membership(&self.membership);
            }
        }
        self.flying.clear();
        let members: Vec<SiteId> = self.membership.members.iter().copied().collect();
        for at in 0..self.sites.len() {
            let own = self.sites[at].id;
            if let Some(host) = &mut self.sites[at].host {
                members.iter().filter(|peer| **peer != own).for_each(|peer| host.connected(*peer));
            }
        }
    }

    pub(crate) fn membership(&self) -> Membership {
        self.membership.clone()
    }

    /// A copy of this site's data, as it is now.
    pub(crate) fn copy(&self, at: usize) -> Memory {
        self.sites[at].memory.copy()
    }

    /// A copy takes the place of this site's data. Nothing runs on it yet.
    pub(crate) fn put_back(&mut self, at: usize, copy: Memory) {
        self.sites[at].host = None;
        self.sites[at].memory = copy;
        self.flying.clear();
    }

    /// A site that was restored takes the place of the old one, and becomes a member.
    pub(crate) fn rejoin(&mut self, at: usize, old: SiteId) {
        self.list_restored(at, old);
        self.start(at);
        self.pass(2_000);
        assert!(self.is_caught_up(at));
        self.all_joined();
        self.pass(1_000);
    }

    /// A site that was restored is listed in the place of the old one.
    pub(crate) fn list_restored(&mut self, at: usize, old: SiteId) {
        let new = self.sites[at].id;
        let mut membership = self.membership();
        membership.epoch += 1;
        membership.members.remove(&old);
        membership.removed.insert(old, new);
        membership.members.insert(new);
        membership.joining.insert(new);
        self.set_membership(membership);
    }

    /// All sites take writes.
    pub(crate) fn all_joined(&mut self) {
        let mut membership = self.membership();
        membership.epoch += 1;
        membership.joining.clear();
        self.set_membership(membership);
    }

    /// A site that was restored runs before the others list it: it knows of nobody.
    pub(crate) fn start_unlisted(&mut self, at: usize) {
        let own = self.sites[at].id;
        let newcomer = Membership { epoch: 0, joining: [own].into(), ..Membership::alone(own) };
        let listed = std::mem::replace(&mut self.membership, newcomer);
        self.start(at);
        self.membership = listed;
    }

    /// A copy of this site's data goes on as another incarnation.
    pub(crate) fn restore(&mut self, at: usize) -> SiteId {
        let old = self.sites[at].id;
        let new = SiteId { incarnation: old.incarnation + 1, ..old };
        let now = self.moment(at);
        let mut host = self.sites[at].host.take().expect("it runs");
        host.begin_incarnation(SHARD, new, now).expect("it is stored");
        self.sites[at].id = new;
        new
    }

    /// How many counters the table has as they were before what nobody has heard of.
    pub(crate) fn notes(&self, at: usize) -> usize {
        let scan = Scan { slice: Slice::KEPT, prefix: b"b", after: None, rows_max: 100 };
        let page = self.sites[at].memory.table().scan(SHARD, scan).expect("it can be read");
        page.rows.len()
    }

    /// What a site that joins waits for.
    pub(crate) fn waits_for(&self, at: usize) -> BTreeSet<WaitsFor> {
        self.sites[at].host.as_ref().expect("it runs").waits_for()
    }

    /// Third sites whose streams have branched off, and who has the other branch.
    pub(crate) fn differing(&self, at: usize) -> BTreeSet<(SiteId, SiteId)> {
        self.sites[at].host.as_ref().expect("it runs").differing()
    }

    pub(crate) fn is_caught_up(&self, at: usize) -> bool {
        self.sites[at].host.as_ref().is_some_and(Host::is_caught_up)
    }

    fn commit(&mut self, at: usize) {
        let now = self.moment(at);
        let mut envelopes = Vec::new();
        let here = &mut self.sites[at];
        let Some(host) = &mut here.host else { return };
        let mut released = Released::default();
        here.records += u64::from(host.commit(now, &mut released).is_some());
        host.maintain(now, &mut released);
        here.replies.append(&mut released.replies);
        host.outgoing(now, &mut envelopes);
        let from = here.id;
        for envelope in envelopes {
            self.post(from, &envelope);
        }
    }

    fn post(&mut self, from: SiteId, envelope: &Envelope) {
        self.messages += 1;
        let bytes = envelope.message.encode();
        self.bytes += bytes.len() as u64;
        assert_eq!(Message::decode(&bytes).expect("what is sent can be read"), envelope.message);
        if self.cut.contains(&(from, envelope.to)) {
            return;
        }
        let copies = if self.random.below(100) < self.weather.duplicate { 2 } else { 1 };
        for _ in 0..copies {
            if self.random.below(100) >= self.weather.drop {
                let delay = 1 + self.random.below(if self.weather.drop > 0 { 80 } else { 5 }) as u64;
                self.flying.push((self.now_ms + delay, from, envelope.clone()));
            }
        }
    }

    /// Lets a millisecond pass.
    pub(crate) fn step(&mut self) {
        self.now_ms += 1;
        let mut landing: Vec<_> = self.flying.extract_if(.., |(at, _, _)| *at <= self.now_ms).collect();
        while !landing.is_empty() {
            let (_, from, envelope) = landing.swap_remove(self.random.below(landing.len()));
            let at = usize::from(envelope.to.number) - 1;
            let now = self.moment_or_zero(at);
            if self.cut.contains(&(from, envelope.to)) {
                continue;
            }
            if let Some(host) = &mut self.sites[at].host
                && let Err(bad) = host.receive(envelope.shard, from, envelope.message, now)
            {
                self.refused.push((envelope.to, bad));
                self.sites[at].host = None;
            }
        }
        for at in 0..self.sites.len() {
            if self.sites[at].host.is_some() {
                self.commit(at);
            }
        }
    }

    fn moment_or_zero(&self, at: usize) -> Moment {
        if self.sites[at].host.is_some() { self.moment(at) } else { Moment::default() }
    }

    pub(crate) fn pass(&mut self, ms: u64) {
        (0..ms).for_each(|_| self.step());
    }

    /// Everything is well again; time passes until nothing moves.
    pub(crate) fn heal(&mut self) {
        assert!(self.refused.is_empty(), "{:?}", self.refused);
        self.weather = Weather::default();
        for at in 0..self.sites.len() {
            if self.sites[at].host.is_none() {
                self.start(at);
            }
            for other in at + 1..self.sites.len() {
                self.link(at, other, true);
            }
        }
        self.pass(20_000);
    }

    /// Entries that are not settled, at all sites.
    pub(crate) fn open_entries(&self) -> u64 {
        let hosts = self.sites.iter().filter_map(|site| site.host.as_ref());
        hosts.flat_map(Host::audit).flat_map(|audit| audit.sites).map(|site| site.open).sum()
    }

    /// What the rows of counters witness, at all sites.
    pub(crate) fn suspicions(&self) -> Vec<Suspicion> {
        let hosts = self.sites.iter().filter_map(|site| site.host.as_ref());
        let suspicious = hosts.flat_map(Host::audit).filter_map(|audit| audit.suspicious);
        suspicious.flatten().map(|it| it.what).collect()
    }

    /// Every site knows of each what that has counted, and nothing was counted twice or lost.
    pub(crate) fn check_books(&self) {
        assert_eq!(self.suspicions(), [], "something was not counted once");
        let audit = |site: &Site| site.host.as_ref().map(Host::audit).unwrap_or_default();
        let audits: Vec<_> = self.sites.iter().map(audit).collect();
        for (at, audit) in audits.iter().enumerate() {
            for shard in audit {
                for known in &shard.sites {
                    let Some(at_home) = self.sites.iter().position(|site| site.id == known.site) else {
                        continue;
                    };
                    let Some(there) = audits[at_home].get(usize::from(shard.shard)) else { continue };
                    let own = there.sites.iter().find(|it| it.site == known.site).expect("it knows itself");
                    assert_eq!(known.counted, own.counted, "site {} about {}", self.sites[at].id, known.site);
                }
            }
        }
    }
}

pub(crate) fn is_refused(reply: &Reply) -> bool {
    matches!(reply, Reply::Refused(Refusal::OutOfBounds { .. }))
}
