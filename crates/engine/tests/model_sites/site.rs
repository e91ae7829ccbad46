//! One site: the real engine over stored data in memory, driven by one input after the other.
//!
//! Each site has a clock of its own, which goes on only when the site itself waits for it. So what a site does depends
//! on its own inputs alone, and what sites do one after the other could as well have happened in the other order.

use std::fmt::Write;

use quipu_engine::{
    Action, Command, Host, Inspection, Membership, Message, Moment, Outcome, Released, Reply, Settings,
    ShardAudit, SiteId, Ticket,
};
use quipu_storage::{
    Flush, ShardId, Store,
    memory::{Memory, MemoryLog, MemoryTable},
};
use xxhash_rust::xxh3::xxh3_128;

use crate::plan::{Ask, Plan};

const SHARD: ShardId = ShardId(0);
/// Messages that only wait for their turn go out without being waited for.
const PACE_MS: u64 = 2;
/// A site whose timer does nothing is looked at again after so many milliseconds.
const WAIT_MS: u64 = 400;
/// The tickets of what a client is not told.
const LOOKING: u64 = 1 << 32;

/// The sites are numbered from one; here, from zero.
pub(crate) fn site_id(at: usize) -> SiteId {
    SiteId { number: u16::try_from(at + 1).expect("a few sites"), incarnation: 0 }
}

/// Something that happens to a site.
#[derive(Debug, Clone)]
pub(crate) enum Happening {
    /// The wish of the client of this number.
    Asked(usize, Ask),
    Received {
        from: SiteId,
        message: Box<Message>,
    },
    /// The next timer is due.
    Timer,
    /// Its memory is lost.
    Restarted,
    /// The window passes.
    Aged,
}

/// What came out of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Came {
    pub(crate) messages: Vec<(SiteId, Message)>,
    /// Answers, by the number of the client.
    pub(crate) replies: Vec<(usize, Reply)>,
    pub(crate) refused: Option<String>,
}

/// What can be seen of a site.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    /// By key, as the plan has them.
    pub(crate) counters: Vec<Option<Inspection>>,
    /// By operation.
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) audit: ShardAudit,
    pub(crate) waits: bool,
}

pub(crate) struct Site {
    at: usize,
    settings: Settings,
    memory: Memory,
    host: Host<MemoryLog, MemoryTable>,
    now_ms: u64,
}

impl Site {
    /// A site that has just been made.
    pub(crate) fn new(plan: &Plan, at: usize) -> (Self, Came) {
        let settings = Settings { site: site_id(at), ..plan.settings };
        let memory = Memory::new();
        let host = start(&memory, settings, plan, at);
        let mut site = Self { at, settings, memory, host, now_ms: 0 };
        let mut came = Came::default();
        site.run(plan.sites, &mut came);
        (site, came)
    }

    fn moment(&self) -> Moment {
        Moment { elapsed_ms: self.now_ms, unix_ms: 1_700_000_000_000 }
    }

    /// Lets something happen.
    pub(crate) fn happens(&mut self, plan: &Plan, happening: Happening) -> Came {
        let mut came = Came::default();
        match happening {
            Happening::Asked(client, ask) => {
                let (now, host) = (self.moment(), &mut self.host);
                let ticket = Ticket(client as u64);
                plan.commands(ask, &mut |command| host.submit(SHARD, ticket, command, now));
            }
            Happening::Received { from, message } => {
                let now = self.moment();
                if let Err(why) = self.host.receive(SHARD, from, *message, now) {
                    came.refused = Some(why.to_string());
                }
            }
            Happening::Timer => {
                // A timer may be due that waits for something else in turn.
                let due_ms = self.host.wants_at().filter(|at_ms| *at_ms > self.now_ms);
                self.now_ms = due_ms.unwrap_or(self.now_ms + WAIT_MS);
            }
            Happening::Restarted => {
                self.memory.crash();
                self.now_ms = 0;
                self.host = start(&self.memory, self.settings, plan, self.at);
            }
            Happening::Aged => self.now_ms += self.settings.window.length_ms() + 1,
        }
        self.run(plan.sites, &mut came);
        came
    }

    /// Stores what has changed, and says what there is to say.
    fn run(&mut self, sites: usize, came: &mut Came) {
        // As often as there are peers that have to wait for their turn.
        for _ in 0..=2 * sites {
            let now = self.moment();
            let mut released = Released::default();
            self.host.commit(now, &mut released);
            self.host.maintain(now, &mut released);
            let replies = released.replies.into_iter();
            came.replies.extend(replies.map(|(Ticket(client), reply)| (to_usize(client), reply)));
            let mut envelopes = Vec::new();
            self.host.outgoing(now, &mut envelopes);
            came.messages.extend(envelopes.into_iter().map(|envelope| (envelope.to, envelope.message)));
            match self.host.wants_at() {
                Some(at_ms) if at_ms <= self.now_ms + PACE_MS => self.now_ms = at_ms.max(self.now_ms),
                _ => break,
            }
        }
    }

    /// What can be seen of it.
    pub(crate) fn facts(&mut self, plan: &Plan) -> Facts {
        let keys = plan.keys();
        let names = plan.operations.iter().map(|operation| (operation.key, operation.name()));
        let looks = keys.iter().map(|key| (*key, Action::Inspect));
        let looks = looks.chain(names.map(|(key, name)| (key, Action::Outcome(name))));
        let now = self.moment();
        let mut released = Released::default();
        for (number, (key, action)) in looks.enumerate() {
            self.host.submit(SHARD, Ticket(LOOKING + number as u64), Command { key, action }, now);
        }
        self.host.commit(now, &mut released);
        let mut facts = Facts {
            counters: Vec::new(),
            outcomes: Vec::new(),
            audit: self.host.audit().swap_remove(0),
            waits: self.host.wants_at().is_some(),
        };
        for (_, reply) in released.replies {
            match reply {
                Reply::Inspected(view) => facts.counters.push(view.map(|view| *view)),
                Reply::Outcome(outcome) => facts.outcomes.push(outcome),
                other => panic!("asked for what there is, site {} says {other:?}", self.at + 1),
            }
        }
        facts
    }

    /// A hash of all that decides what the site will do. What is stored matters if its memory may be lost.
    pub(crate) fn fingerprint(&self, with_stored: bool) -> u128 {
        let mut text = format!("{:x}", self.host.fingerprint(self.moment()));
        if with_stored {
            write!(text, "{:?}", self.memory).expect("writing to memory does not fail");
        }
        xxh3_128(text.as_bytes())
    }
}

fn to_usize(client: u64) -> usize {
    usize::try_from(client).expect("a few clients")
}

fn start(memory: &Memory, settings: Settings, plan: &Plan, at: usize) -> Host<MemoryLog, MemoryTable> {
    let store = Store::new(memory.log(), memory.table());
    let mut host = Host::new(store, None, settings, Flush::Now);
    host.set_membership(&Membership::of((0..plan.sites).map(site_id)));
    host.open(SHARD, Moment::default()).expect("it opens");
    plan.linked(at).for_each(|other| host.connected(site_id(other)));
    host
}
