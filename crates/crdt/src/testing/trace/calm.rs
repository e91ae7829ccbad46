//! The network behaves for a while: then everything must be accounted for.

use super::check::Violation;
use super::conduct::Replica;
use super::fleet::{CLIENT, Fleet, Intent, Message, ROOT, Sent};

/// Everything must be accounted for after so many rounds of exchanges between all neighbours.
const CALM_ROUNDS_MAX: usize = 40;
/// An heir keeps the desks of all whose heir it is; after so many the trace goes on with new replicas.
const HEIRS_MAX: usize = 64;

impl Fleet {
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
        let sources = sources_of_slots(&self.nodes[&id].replica);
        let gone: Vec<u32> = sources.filter(|source| !self.nodes.contains_key(source)).copied().collect();
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
            let open = sources_of_slots(&node.replica).count();
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

/// For whom slots are open, at the replica's own desk and at those that it inherited.
fn sources_of_slots(replica: &Replica) -> impl Iterator<Item = &u32> {
    let handshake = replica.handshake();
    let inherited = handshake.inherited().flat_map(|(_, desk)| desk.slots().keys());
    handshake.desk().slots().keys().chain(inherited)
}
