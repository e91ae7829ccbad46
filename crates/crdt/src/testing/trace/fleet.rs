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
/// Everything must be accounted for after so many rounds of exchanges between all neighbours.
const CALM_ROUNDS_MAX: usize = 40;

/// An heir keeps the desks of all whose heir it is; after so many the trace goes on with new replicas.
const HEIRS_MAX: usize = 64;

const ROOT: u8 = 0;
const SERVER: u8 = 1;
const CLIENT: u8 = 2;

#[derive(Debug, Clone)]
enum Message {
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
struct Sent {
    to: u32,
    from: u32,
    message: Message,
}

/// What a replica is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Intent {
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
struct Node {
    replica: Replica,
    intent: Intent,
    /// The servers to which a client has sent a value.
    used: BTreeSet<u32>,
}

#[derive(Debug)]
pub(super) struct Fleet {
    shape: Shape,
    conduct: Conduct,
    seed: u64,
    random: Random,
    nodes: BTreeMap<u32, Node>,
    /// Names in use, by tier.
    tiers: [Vec<u32>; 3],
    next_id: u32,
    history: Vec<Sent>,
    newest: usize,
    /// Who holds the desk of a retired server, as far as adopted.
    heirs: BTreeMap<u32, u32>,
    books: Books,
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
    fn start_over(&mut self) {
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
    fn leave(&mut self, id: u32) -> Result<(), Violation> {
        let node = self.nodes.remove(&id).expect("only replicas that are there leave");
        let tier = node.replica.tier();
        self.tiers[usize::from(tier)].retain(|&other| other != id);
        self.summary.left += 1;
        let outcome = self.books.left(&node.replica);
        self.check(outcome)?;
        self.arrive(tier);
        Ok(())
    }

    fn check<T>(&self, outcome: Result<T, String>) -> Result<T, Violation> {
        outcome.map_err(|what| Violation { seed: self.seed, step: self.summary.steps, what })
    }

    /// Changes one replica, and checks it.
    fn change<T>(&mut self, id: u32, act: impl FnOnce(&mut Node) -> T) -> Result<T, Violation> {
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

    fn any_id(&mut self) -> u32 {
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

    fn heir_of(&self, name: u32) -> u32 {
        self.heirs.get(&name).copied().unwrap_or(name)
    }

    fn adopted(&mut self, name: u32, heir: u32) {
        let heir = self.heir_of(heir);
        self.heirs.insert(name, heir);
        for holder in self.heirs.values_mut().filter(|holder| **holder == name) {
            *holder = heir;
        }
    }

    fn view(&mut self, from: u32, to: u32) -> Option<Seen> {
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

    fn send(&mut self, from: u32, to: u32, message: Message) {
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

    fn deliver(&mut self, sent: Sent, reply_chance: f64) -> Result<(), Violation> {
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

    /// One event in the life of a replica.
    fn live(&mut self) -> Result<(), Violation> {
        let id = self.any_id();
        let (tier, intent) = (self.nodes[&id].replica.tier(), self.nodes[&id].intent);
        match (tier, intent) {
            (CLIENT, Intent::Stay) if self.random.chance(0.3) => self.decide_to_leave(id),
            (CLIENT, Intent::Silent) if self.random.chance(0.5) => self.set_intent(id, Intent::Stay),
            (SERVER, Intent::Stay) if self.random.chance(0.05) => self.decide_to_bequeath(id)?,
            (_, Intent::Stay | Intent::Silent) => self.fold_any_slot(id)?,
            _ => self.go_on_leaving(id)?,
        }
        if tier < CLIENT {
            self.pass_notices(id);
        }
        Ok(())
    }

    fn set_intent(&mut self, id: u32, intent: Intent) {
        self.nodes.get_mut(&id).expect("it is there").intent = intent;
    }

    fn decide_to_leave(&mut self, id: u32) {
        let intent = *self.random.pick(&[
            Intent::Silent,
            Intent::LeaveWhenHandedOver,
            Intent::LeaveWhenCached,
            Intent::LeaveWithNotice,
        ]);
        self.set_intent(id, intent);
    }

    /// One server at a time leaves, and one always stays.
    fn decide_to_bequeath(&mut self, id: u32) -> Result<(), Violation> {
        let leaving = self.nodes.values().filter(|node| node.intent == Intent::Bequeath).count();
        if self.tiers[usize::from(SERVER)].len() > leaving + 1 {
            let stop = self.conduct.stop;
            self.change(id, |node| stop(&mut node.replica).expect("servers may stop"))?;
            self.set_intent(id, Intent::Bequeath);
        }
        Ok(())
    }

    fn fold_any_slot(&mut self, id: u32) -> Result<(), Violation> {
        let sources: Vec<u32> = self.nodes[&id].replica.handshake().desk().slots().keys().copied().collect();
        if sources.is_empty() {
            return Ok(());
        }
        let source = *self.random.pick(&sources);
        let fold = self.conduct.fold;
        self.summary.folded += u64::from(self.change(id, |node| fold(&mut node.replica, &source))?);
        Ok(())
    }

    fn go_on_leaving(&mut self, id: u32) -> Result<(), Violation> {
        let node = &self.nodes[&id];
        match node.intent {
            Intent::Stay | Intent::Silent => {}
            Intent::LeaveWhenHandedOver if !node.replica.must_hand_off() => self.leave(id)?,
            Intent::LeaveWhenCached if (self.conduct.may_leave_early)(&node.replica) => self.leave(id)?,
            Intent::LeaveWhenHandedOver | Intent::LeaveWhenCached => {}
            Intent::LeaveWithNotice => {
                let used: Vec<u32> = node.used.iter().copied().collect();
                let retire = self.conduct.retire;
                let notice = self.change(id, |node| retire(&mut node.replica, &used))?;
                let tier = *self.random.pick(&[ROOT, SERVER]);
                let to = *self.random.pick(&self.tiers[usize::from(tier)]);
                if let Ok(notice) = notice {
                    self.send(id, to, Message::Keep(notice));
                }
            }
            Intent::Bequeath if (self.conduct.may_leave)(&node.replica) => self.leave(id)?,
            Intent::Bequeath => {
                let tier = *self.random.pick(&[ROOT, SERVER]);
                let heir = *self.random.pick(&self.tiers[usize::from(tier)]);
                self.bequeath(id, heir)?;
            }
        }
        Ok(())
    }

    /// To this heir, unless another has been named and has not refused.
    fn bequeath(&mut self, id: u32, heir: u32) -> Result<(), Violation> {
        let bequeath = self.conduct.bequeath;
        let named = self.nodes[&id].replica.handshake().named_heir().copied();
        for heir in std::iter::once(heir).chain(named) {
            if let Ok(estate) = self.change(id, |node| bequeath(&mut node.replica, &heir))? {
                self.send(id, self.heir_of(heir), Message::Estate(Box::new(estate)));
                break;
            }
        }
        Ok(())
    }

    fn pass_notices(&mut self, keeper: u32) {
        let Some(node) = self.nodes.get(&keeper) else { return };
        let pending: Vec<(u32, Notice<u32, u64>)> = node
            .replica
            .handshake()
            .notices()
            .flat_map(|(notice, pending)| pending.iter().map(|&server| (server, notice.clone())))
            .collect();
        for (server, notice) in pending {
            self.send(keeper, self.heir_of(server), Message::Pass { keeper, notice });
        }
    }

    /// The network behaves until everything is accounted for.
    pub(super) fn calm(&mut self) -> Result<(), Violation> {
        let slots = self.nodes.values().map(|node| node.replica.handshake().desk().slots().len()).sum();
        self.summary.slots_max = self.summary.slots_max.max(slots);
        for node in self.nodes.values_mut().filter(|node| node.intent == Intent::Silent) {
            node.intent = Intent::Stay;
        }
        for _ in 0..CALM_ROUNDS_MAX {
            self.exchange_with_all()?;
            if self.unfinished().is_none() {
                self.summary.accounted += 1;
                if self.heirs.len() > HEIRS_MAX {
                    self.start_over();
                }
                return Ok(());
            }
        }
        let unfinished = self.unfinished().unwrap_or_default();
        self.check(Err(format!("after {CALM_ROUNDS_MAX} rounds of undisturbed exchanges {unfinished}")))
    }

    fn exchange_with_all(&mut self) -> Result<(), Violation> {
        let ids: Vec<u32> = self.nodes.keys().copied().collect();
        for &from in &ids {
            for &to in &ids {
                self.exchange(from, to)?;
            }
            if self.nodes.get(&from).is_some_and(|node| node.replica.tier() < CLIENT) {
                self.deliver_all(|fleet| fleet.pass_notices(from))?;
                self.fold_slots_of_the_gone(from)?;
            }
            if self.nodes.contains_key(&from) {
                let mut outcome = Ok(());
                self.deliver_all(|fleet| outcome = fleet.go_on_leaving(from))?;
                outcome?;
            }
        }
        Ok(())
    }

    /// There and back, between neighbours or from who caches a token to its target.
    fn exchange(&mut self, from: u32, to: u32) -> Result<(), Violation> {
        let (Some(a), Some(b)) = (self.nodes.get(&from), self.nodes.get(&to)) else { return Ok(()) };
        let (a_tier, b_tier) = (a.replica.tier(), b.replica.tier());
        let caches = a.replica.handshake().cached().any(|token| self.heir_of(token.target) == to);
        let neighbours = match (a_tier.min(b_tier), a_tier.max(b_tier)) {
            (CLIENT, CLIENT) => false,
            (ROOT, CLIENT) => self.shape.lives,
            _ => true,
        };
        if from == to || !(neighbours || caches) {
            return Ok(());
        }
        let Some(view) = self.view(from, to) else { return Ok(()) };
        self.deliver(Sent { from, to, message: Message::View(view.clone()) }, 0.0)?;
        let reply = (self.conduct.reply_to)(&self.nodes[&to].replica, &view);
        self.deliver(Sent { from: to, to: from, message: Message::View(reply) }, 0.0)
    }

    /// Delivers at once what `act` sends, and what is sent in answer.
    fn deliver_all(&mut self, act: impl FnOnce(&mut Self)) -> Result<(), Violation> {
        let (history, newest) = (std::mem::take(&mut self.history), self.newest);
        act(self);
        while !self.history.is_empty() {
            for sent in std::mem::take(&mut self.history) {
                self.deliver(sent, 0.0)?;
            }
        }
        (self.history, self.newest) = (history, newest);
        Ok(())
    }

    /// An old message of a replica that has left may have opened a slot again.
    fn fold_slots_of_the_gone(&mut self, id: u32) -> Result<(), Violation> {
        let gone: Vec<u32> = self.nodes[&id]
            .replica
            .handshake()
            .desk()
            .slots()
            .keys()
            .filter(|source| !self.nodes.contains_key(source))
            .copied()
            .collect();
        let fold = self.conduct.fold;
        for source in gone {
            self.summary.folded += u64::from(self.change(id, |node| fold(&mut node.replica, &source))?);
        }
        Ok(())
    }

    fn unfinished(&self) -> Option<String> {
        for (id, node) in &self.nodes {
            let handshake = node.replica.handshake();
            let val = *node.replica.fetch();
            if val != self.books.issued {
                return Some(format!("replica {id} reports {val} of {} issued", self.books.issued));
            }
            let tokens = handshake.tokens().len() + handshake.cached().count();
            let open = handshake.desk().slots().len();
            if tokens + open > 0 {
                return Some(format!("replica {id} still has {open} slots and {tokens} tokens"));
            }
            if let Some((notice, pending)) = handshake.notices().next() {
                let client = notice.client();
                return Some(format!("replica {id} still keeps the notice of {client} for {pending:?}"));
            }
        }
        (!self.books.nothing_is_under_way()).then(|| "tokens are still under way".to_owned())
    }
}
