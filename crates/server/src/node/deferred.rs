//! What has come for shards that cannot take it now, because it is not known what became of a commit or because the store
//! does not answer. It waits until they can, and is then the next batch; commands do not wait for ever.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use quipu_engine::{OwnedCommand, Ticket};
use quipu_storage::ShardId;

use super::mail::Mail;

/// A command that waits.
#[derive(Debug)]
pub(super) struct Late {
    /// When it came, in the time of this process.
    pub(super) since_ms: u64,
    pub(super) ticket: Ticket,
    pub(super) command: OwnedCommand,
}

/// What waits, in the order in which it came.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    commands: BTreeMap<ShardId, VecDeque<Late>>,
    mail: BTreeMap<ShardId, Vec<Mail>>,
    /// Questions about all that a shard holds, and since when they wait.
    asks: BTreeMap<ShardId, VecDeque<(u64, Mail)>>,
    /// Those of the last batch that had waited before, and since when.
    taken: BTreeMap<ShardId, Vec<(u64, Ticket)>>,
}

impl Deferred {
    pub(super) fn push(&mut self, shard: ShardId, late: Late) {
        self.commands.entry(shard).or_default().push_back(late);
    }

    pub(super) fn push_mail(&mut self, shard: ShardId, mail: Mail) {
        self.mail.entry(shard).or_default().push(mail);
    }

    pub(super) fn push_ask(&mut self, shard: ShardId, since_ms: u64, ask: Mail) {
        self.asks.entry(shard).or_default().push_back((since_ms, ask));
    }

    /// Do commands wait for this shard? Then no other may overtake them.
    pub(super) fn has_commands(&self, shard: ShardId) -> bool {
        !self.commands.is_empty() && self.commands.contains_key(&shard)
    }

    /// How much waits to be counted.
    pub(super) fn len(&self) -> usize {
        let commands = self.commands.values().map(VecDeque::len).sum::<usize>();
        commands + self.mail.values().map(Vec::len).sum::<usize>()
    }

    /// Commands for shards that are free. They are the next batch, and it is remembered since when they have waited.
    pub(super) fn take(&mut self, is_free: impl Fn(ShardId) -> bool) -> Vec<(ShardId, VecDeque<Late>)> {
        let free: Vec<_> = self.commands.extract_if(.., |shard, _| is_free(*shard)).collect();
        for (shard, late) in &free {
            let taken = late.iter().map(|late| (late.since_ms, late.ticket));
            self.taken.insert(*shard, taken.collect());
        }
        free
    }

    /// Mail for shards that are free.
    pub(super) fn take_mail(&mut self, is_free: impl Fn(ShardId) -> bool) -> Vec<Mail> {
        self.mail.extract_if(.., |shard, _| is_free(*shard)).flat_map(|(_, mail)| mail).collect()
    }

    /// Questions about shards that are free.
    pub(super) fn take_asks(&mut self, is_free: impl Fn(ShardId) -> bool) -> Vec<Mail> {
        let free = self.asks.extract_if(.., |shard, _| is_free(*shard));
        free.flat_map(|(_, asks)| asks).map(|(_, ask)| ask).collect()
    }

    /// Questions that have come before then.
    pub(super) fn give_up_asks(&mut self, before_ms: u64) -> Vec<Mail> {
        let mut given_up = Vec::new();
        self.asks.retain(|_, asks| {
            let overdue = asks.partition_point(|(since_ms, _)| *since_ms <= before_ms);
            given_up.extend(asks.drain(..overdue).map(|(_, ask)| ask));
            !asks.is_empty()
        });
        given_up
    }

    /// Commands that have come before then and still wait: they wait no longer.
    pub(super) fn give_up(&mut self, before_ms: u64) -> Vec<(ShardId, Late)> {
        let mut given_up = Vec::new();
        self.commands.retain(|shard, waiting| {
            let overdue = waiting.partition_point(|late| late.since_ms <= before_ms);
            given_up.extend(waiting.drain(..overdue).map(|late| (*shard, late)));
            !waiting.is_empty()
        });
        given_up
    }

    /// Those in the last batches that have come before then.
    pub(super) fn taken_before(&self, before_ms: u64) -> BTreeSet<Ticket> {
        let mut early = BTreeSet::new();
        for taken in self.taken.values() {
            let overdue = taken.partition_point(|(since_ms, _)| *since_ms <= before_ms);
            early.extend(taken[..overdue].iter().map(|(_, ticket)| *ticket));
        }
        early
    }

    /// A shard is decided: nobody waits for its last batch any more.
    pub(super) fn forget_taken(&mut self, is_decided: impl Fn(ShardId) -> bool) {
        self.taken.retain(|shard, _| !is_decided(*shard));
    }
}

#[cfg(test)]
mod tests {
    use quipu_engine::{Action, Command};

    use super::*;

    const ONE: ShardId = ShardId(1);
    const TWO: ShardId = ShardId(2);

    fn late(since_ms: u64, ticket: u64) -> Late {
        let command = OwnedCommand::new(Command { key: b"k", action: Action::Get });
        Late { since_ms, ticket: Ticket(ticket), command }
    }

    fn tickets<'a>(late: impl IntoIterator<Item = &'a Late>) -> Vec<u64> {
        late.into_iter().map(|late| late.ticket.0).collect()
    }

    #[test]
    fn who_waits_too_long_is_let_go_in_order() {
        let mut deferred = Deferred::default();
        for (shard, since_ms, ticket) in [(ONE, 10, 1), (ONE, 10, 2), (TWO, 15, 3), (ONE, 20, 4)] {
            deferred.push(shard, late(since_ms, ticket));
        }
        assert!(deferred.give_up(9).is_empty());
        assert_eq!(tickets(deferred.give_up(15).iter().map(|(_, late)| late)), [1, 2, 3]);
        assert!(deferred.has_commands(ONE) && !deferred.has_commands(TWO));
        assert!(deferred.give_up(19).is_empty());
    }

    #[test]
    fn what_was_taken_is_remembered_until_it_is_decided() {
        let mut deferred = Deferred::default();
        deferred.push(ONE, late(10, 1));
        deferred.push(ONE, late(20, 2));
        deferred.push(TWO, late(10, 3));
        let free = deferred.take(|shard| shard == ONE);
        assert_eq!(tickets(free.iter().flat_map(|(_, late)| late)), [1, 2]);
        assert!(deferred.taken_before(9).is_empty());
        assert_eq!(deferred.taken_before(10), BTreeSet::from([Ticket(1)]));
        deferred.forget_taken(|shard| shard == TWO);
        assert_eq!(deferred.taken_before(20).len(), 2);
        deferred.forget_taken(|shard| shard == ONE);
        assert!(deferred.taken_before(20).is_empty());
        assert!(deferred.has_commands(TWO));
    }
}
