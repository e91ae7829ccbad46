//! The replicas of a trace and what they do at random.

use super::check::{Before, Books, Violation};
use super::conduct::{Conduct, Replica, Seen};
use super::{Shape, Summary};
use crate::handoff::{Addressee, Adoption, Estate, Notice, NoticeDone};
use crate::testing::Random;
use std::collections::{BTreeMap, BTreeSet};

/// Messages that may be delivered again.
const HISTORY_MESSAGES_MAX: usize = 1024;
/// Of these, the newest, which are delivered most.
const RECENT_MESSAGES: usize = 12;

pub(super) const ROOT: u8 = 0;
pub(super) const SERVER: u8 = 1;
pub(super) const CLIENT: u8 = 2;

#[derive(Debug, Clone)]
pub(super) enum Message {
    View(Seen),
    /// A client's notice, to the server that shall keep it.
    Keep(Notice<u32, u64>),
    Kept,
    /// A notice that its keeper passes on.
    Pass {
        keeper: u32,
        notice: Notice<u32, u64>,
    },
    Done(NoticeDone<u32>),
    Estate(Box<Estate<u32, u64>>),
    Adoption(Adoption<u32>),
}

#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) to: u32,
    pub(super) from: u32,
    pub(super) message: Message,
}

/// What a replica is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Intent {
    Stay,
    /// Neither sends nor receives; it may be back.
    Silent,
    LeaveWhenHandedOver,
    LeaveWhenCached,
    LeaveWithNotice,
    /// A server that hands its estate to an heir.
    Bequeath,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) replica: Replica,
    pub(super) intent: Intent,
    /// The servers to which a client has sent a value.
    pub(super) used: BTreeSet<u32>,
}

#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) shape: Shape,
    pub(super) conduct: Conduct,
    seed: u64,
    pub(super) random: Random,
    pub(super) nodes: BTreeMap<u32, Node>,
    /// Names in use, by tier.
    pub(super) tiers: [Vec<u32>; 3],
    next_id: u32,
    pub(super) history: Vec<Sent>,
    pub(super) newest: usize,
    /// Who holds the desk of a retired server, as far as adopted.
    pub(super) heirs: BTreeMap<u32, u32>,
    pub(super) books: Books,
    pub(super) summary: Summary,
}

impl Fleet {
    pub(super) fn new(shape: Shape, seed: u64, conduct: Conduct) -> Self {
        let mut fleet = Fleet {
            shape,
            conduct,
            seed,
            random: Random::stream(seed, "trace"),
            nodes: BTreeMap::new(),
            tiers: [Vec::new(), Vec::new(), Vec::new()],
            next_id: 0,
            history: Vec::new(),
            newest: 0,
            heirs: BTreeMap::new(),
            books: Books::default(),
            summary: Summary::default(),
        };
        fleet.arrive_all();
        fleet
    }

    fn arrive_all(&mut self) {
        let Shape { roots, servers, clients, .. } = self.shape;
        for (tier, count) in [(ROOT, roots), (SERVER, servers), (CLIENT, clients)] {
            (0..count).for_each(|_| self.arrive(tier));
        }
    }

    /// Goes on with new replicas that have never met anybody.
    pub(super) fn start_over(&mut self) {
        self.nodes.clear();
        self.tiers = [Vec::new(), Vec::new(), Vec::new()];
        self.history.clear();
        self.heirs.clear();
        self.books = Books::default();
        self.arrive_all();
    }

    fn arrive(&mut self, tier: u8) {
        let id = self.next_id;
        self.next_id += 1;
        let replica = (self.conduct.new)(id, tier);
        self.nodes.insert(id, Node { replica, intent: Intent::Stay, used: BTreeSet::new() });
        self.tiers[usize::from(tier)].push(id);
    }

    /// Removes a replica for good; a new one takes its place.
    pub(super) fn leave(&mut self, id: u32) -> Result<(), Violation> {
        let node = self.nodes.remove(&id).expect("only replicas that are there leave");
        let tier = node.replica.tier();
        self.tiers[usize::from(tier)].retain(|&other| other != id);
        self.summary.left += 1;
        let outcome = self.books.left(&node.replica);
        self.check(outcome)?;
        self.arrive(tier);
        Ok(())
    }

    pub(super) fn check<T>(&self, outcome: Result<T, String>) -> Result<T, Violation> {
        outcome.map_err(|what| Violation { seed: self.seed, step: self.summary.steps, what })
    }

    /// Changes one replica, and checks it.
    pub(super) fn change<T>(&mut self, id: u32, act: impl FnOnce(&mut Node) -> T) -> Result<T, Violation> {
        let node = self.nodes.get_mut(&id).expect("only replicas that are there act");
        let before = Before::of(&node.replica);
        let done = act(node);
        let outcome = self.books.after(before, &node.replica);
        self.summary.tokens += self.check(outcome)?;
        Ok(done)
    }

    pub(super) fn step(&mut self) -> Result<(), Violation> {
        self.summary.steps += 1;
        match self.random.below(if self.shape.lives { 110 } else { 100 }) {
            0..20 => self.add()?,
            20..50 => self.send_somewhere(),
            50..100 => self.deliver_something()?,
            _ => self.live()?,
        }
        Ok(())
    }

    pub(super) fn any_id(&mut self) -> u32 {
        // By tier first: the few roots act as often as the many clients.
        let tier = self.random.below(3);
        *self.random.pick(&self.tiers[tier])
    }

    fn add(&mut self) -> Result<(), Violation> {
        let id = self.any_id();
        if self.nodes[&id].intent != Intent::Stay {
            return Ok(());
        }
        let amount = self.random.bits() % 3;
        self.books.issued += amount;
        self.summary.issued += amount;
        self.change(id, |node| node.replica.add(&amount).expect("it stays, and the numbers are small"))
    }

    /// Whom a replica talks to: clients to servers (to roots too, where replicas come and go), servers to
    /// everybody below and beside them, roots to roots and servers.
    fn any_neighbour(&mut self, tier: u8) -> Option<u32> {
        let choice: &[u8] = match (tier, self.shape.lives) {
            (ROOT, _) => &[ROOT, SERVER],
            (SERVER, _) => &[ROOT, SERVER, CLIENT],
            (_, false) => &[SERVER],
            (_, true) => &[SERVER, SERVER, ROOT],
        };
        let tier = usize::from(*self.random.pick(choice));
        (!self.tiers[tier].is_empty()).then(|| *self.random.pick(&self.tiers[tier]))
    }

    fn send_somewhere(&mut self) {
        let from = self.any_id();
        let node = &self.nodes[&from];
        if node.intent == Intent::Silent {
            return;
        }
        let tier = node.replica.tier();
        let cached = node.replica.handshake().cached().next().map(|token| token.target);
        if let Some(target) = cached
            && self.random.chance(0.3)
        {
            self.send_view(from, self.heir_of(target));
        } else if let Some(to) = self.any_neighbour(tier) {
            self.send_view(from, to);
        }
    }

    pub(super) fn heir_of(&self, name: u32) -> u32 {
        self.heirs.get(&name).copied().unwrap_or(name)
    }

    fn adopted(&mut self, name: u32, heir: u32) {
        let heir = self.heir_of(heir);
        self.heirs.insert(name, heir);
        for holder in self.heirs.values_mut().filter(|holder| **holder == name) {
            *holder = heir;
        }
    }

    pub(super) fn view(&mut self, from: u32, to: u32) -> Option<Seen> {
        let tier = self.nodes.get(&to)?.replica.tier();
        let stands_for: Vec<u32> =
            self.heirs.iter().filter(|&(_, &heir)| heir == to).map(|(&name, _)| name).collect();
        let cleaning = self.random.chance(0.1);
        let node = self.nodes.get_mut(&from)?;
        let to = Addressee { id: &to, tier, stands_for: &stands_for };
        if cleaning && node.replica.tier() > tier {
            return Some(node.replica.cleaning_view(to.id, tier));
        }
        if node.replica.tier() > tier {
            node.used.insert(*to.id);
        }
        Some((self.conduct.view)(&node.replica, &to))
    }

    fn send_view(&mut self, from: u32, to: u32) {
        if from != to
            && let Some(view) = self.view(from, to)
        {
            self.send(from, to, Message::View(view));
        }
    }

    pub(super) fn send(&mut self, from: u32, to: u32, message: Message) {
        let sent = Sent { to, from, message };
        if self.history.len() < HISTORY_MESSAGES_MAX {
            self.newest = self.history.len();
            self.history.push(sent);
        } else {
            self.newest = (self.newest + 1) % HISTORY_MESSAGES_MAX;
            self.history[self.newest] = sent;
        }
    }

    fn deliver_something(&mut self) -> Result<(), Violation> {
        if self.history.is_empty() {
            return Ok(());
        }
        let len = self.history.len();
        let age = if self.random.chance(0.7) {
            self.random.below(RECENT_MESSAGES.min(len))
        } else {
            self.summary.replayed += 1;
            self.random.below(len)
        };
        let sent = self.history[(self.newest + len - age) % len].clone();
        self.deliver(sent, 0.5)
    }

    pub(super) fn deliver(&mut self, sent: Sent, reply_chance: f64) -> Result<(), Violation> {
        let Sent { from, to, message } = sent;
        let Some(node) = self.nodes.get(&to) else { return Ok(()) };
        if node.intent == Intent::Silent {
            return Ok(());
        }
        self.summary.merged += 1;
        match message {
            Message::View(view) => {
                let merge = self.conduct.merge;
                let merged = self.change(to, |node| merge(&mut node.replica, &view))?;
                self.check(merged.map_err(|twin| format!("replica {to}: {twin}")))?;
                if self.random.chance(reply_chance) && self.nodes.contains_key(&from) {
                    let reply = (self.conduct.reply_to)(&self.nodes[&to].replica, &view);
                    self.send(to, from, Message::View(reply));
                }
            }
            Message::Keep(notice) => {
                let kept = self.change(to, |node| node.replica.keep_notice(&notice))?;
                if kept {
                    self.send(to, from, Message::Kept);
                }
            }
            Message::Kept => {
                if self.nodes[&to].intent == Intent::LeaveWithNotice {
                    self.leave(to)?;
                }
            }
            Message::Pass { keeper, notice } => {
                let act = self.conduct.act_on_notice;
                for done in self.change(to, |node| act(&mut node.replica, &notice))? {
                    self.send(to, keeper, Message::Done(done));
                }
            }
            Message::Done(done) => self.change(to, |node| node.replica.notice_done(&done))?,
            Message::Estate(estate) => {
                let adopt = self.conduct.adopt;
                if let Some(answer) = self.change(to, |node| adopt(&mut node.replica, &estate))? {
                    self.send(to, from, Message::Adoption(answer));
                }
            }
            Message::Adoption(answer) => {
                self.change(to, |node| node.replica.adopted(&answer))?;
                if let Some(&heir) = self.nodes[&to].replica.handshake().heir() {
                    self.adopted(to, heir);
                }
            }
        }
        Ok(())
    }
}
