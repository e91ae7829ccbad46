//! Edges and relays among the sites: they count, speak to servers, go elsewhere when no answer comes, leave, and are lost.
//!
//! - `lives`: how they begin, work and end.
//! - `speaking`: what they say, to whom, and what they make of the answers.
//! - `serving`: what sites and relays do with what they are told.
//! - `counting`: what they count and read.
//! - `leaving`: how it stands with them in the end.

mod counting;
mod leaving;
mod lives;
mod serving;
mod speaking;

use super::{Event, World, node};
use crate::core::{Backbone, Delay, Millis, Network, Node};
use crate::system::fleet::{Answered, Ledger, Letter, Replica, TokenKey, Who};
use crate::system::plan::Plan;
use quipu_engine::Ticket;
use quipu_engine::handoff::{Name, Server, exchange::ShardAnswer};
use std::collections::{BTreeMap, BTreeSet};

/// Tickets of visits have this bit; those of calls do not.
const VISIT_BIT: u64 = 1 << 63;

/// Who can be handed over to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::system) enum Station {
    /// The site with this index.
    Site(usize),
    /// The relay that is the replica with this index.
    Relay(usize),
}

/// Something that is to happen to an edge or a relay.
#[derive(Debug, Clone)]
pub(in crate::system) enum Happening {
    /// It works.
    Wake { replica: usize, run: u32 },
    /// Its process starts again.
    Restart { replica: usize },
    /// Another one comes in its place.
    Come { replica: usize },
    /// A letter reaches a server.
    Letter { to: Station, letter: Letter },
    /// An answer reaches whoever has written.
    Answer { to: usize, run: u32, number: u64, answered: Answered },
}

/// A letter that a server has not answered.
#[derive(Debug)]
struct Visited {
    number: u64,
    from: usize,
    run: u32,
    at: Station,
    server: Server,
    /// So many shards have to answer.
    wanted: usize,
    answers: Vec<(u16, ShardAnswer)>,
    /// What it brought.
    tokens: Vec<TokenKey>,
}

/// All edges and relays.
pub(in crate::system) struct Band {
    /// First the edges, then the relays.
    pub(in crate::system) replicas: Vec<Replica>,
    network: Network<Backbone>,
    visits: BTreeMap<u64, Visited>,
    next_visit: u64,
    letters: u64,
    /// Letters that have arrived.
    arrived: BTreeSet<u64>,
    /// The newest of these, by sender, server and shard.
    newest: BTreeMap<(usize, Station, u16), u64>,
    pub(in crate::system) ledger: Ledger,
    /// By relay that has left: who has its estate, by shard.
    heirs: BTreeMap<Name, BTreeMap<u16, Name>>,
    /// How many edges there were.
    pub(in crate::system) edges: u64,
    /// How often they have counted.
    pub(in crate::system) counted: u64,
    /// They have been told to leave.
    is_closing: bool,
}

impl Band {
    pub(super) fn new(plan: &Plan) -> Self {
        let edges = (0..plan.fleet.edges).map(Who::Edge);
        let relays = (0..plan.fleet.relays).map(Who::Relay);
        let latency = Delay::weibull(1, 1.5, plan.fleet.latency_ms as f64);
        let latency = Backbone::new(Node::MAX, latency.clone(), latency);
        Self {
            replicas: edges.chain(relays).map(|who| Replica::new(who, plan)).collect(),
            network: Network::new(latency, plan.fleet.faults, plan.seed ^ 3),
            visits: BTreeMap::new(),
            next_visit: 0,
            letters: 0,
            arrived: BTreeSet::new(),
            newest: BTreeMap::new(),
            ledger: Ledger::default(),
            heirs: BTreeMap::new(),
            edges: 0,
            counted: 0,
            is_closing: false,
        }
    }

    /// Messages between these and the servers.
    pub(in crate::system) fn messages(&self) -> u64 {
        self.network.sent()
    }

    pub(super) fn index_of(&self, who: Who) -> Option<usize> {
        self.replicas.iter().position(|replica| replica.who == who)
    }

    /// The ticket of a visit to a shard of a site.
    fn ticket(visit: u64, shard: u16) -> Ticket {
        Ticket(VISIT_BIT | visit << 16 | u64::from(shard))
    }

    /// The visit and the shard of such a ticket.
    pub(super) fn visit_of(ticket: Ticket) -> Option<(u64, u16)> {
        let shard = u16::try_from(ticket.0 & 0xffff).expect("16 bits");
        (ticket.0 & VISIT_BIT != 0).then_some(((ticket.0 & !VISIT_BIT) >> 16, shard))
    }
}

impl World {
    pub(super) fn happen_to_fleet(&mut self, happening: Happening) -> Result<(), String> {
        match happening {
            Happening::Wake { replica, run } => self.wake_replica(replica, run),
            Happening::Restart { replica } => self.restart_replica(replica),
            Happening::Come { replica } => {
                if self.fleet.is_closing {
                    Ok(())
                } else {
                    self.come(replica)
                }
            }
            Happening::Letter { to, letter } => self.letter_arrives(to, letter),
            Happening::Answer { to, run, number, answered } => self.answer_arrives(to, run, number, answered),
        }
    }

    /// Lets an edge or a relay work after a while, unless it does sooner.
    fn schedule_replica(&mut self, replica: usize, delay: Millis) {
        let at = self.now() + delay;
        let Replica { works_at, run, .. } = &mut self.fleet.replicas[replica];
        if works_at.is_none_or(|planned| at < planned) {
            *works_at = Some(at);
            let run = *run;
            self.queue.push(delay, Event::Fleet(Happening::Wake { replica, run }));
        }
    }

    /// Sends something to a node of the fleet's network.
    fn send_in_fleet(&mut self, from: usize, to: usize, happening: Happening) {
        self.fleet.network.send(&mut self.queue, node(from), node(to), Event::Fleet(happening));
    }
}
