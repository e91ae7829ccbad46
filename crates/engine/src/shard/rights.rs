//! Rights of other sites: commands that wait for them, asking for them, and giving them.

use std::collections::BTreeMap;

use quipu_crdt::{Bounded, bounded::Right};

use super::{
    Shard, Ticket,
    room::{Lack, right_for, usable},
};
use crate::{
    Action, Add, Command, Moment, OwnedCommand, Refusal, Reply, SiteId, counter::Counter, counters::Index,
    links::Ask,
};

/// A site is not asked for the same rights again before so many milliseconds have passed.
const ASK_EVERY_MS: u64 = 100;
/// Rights that nobody waits for are asked for, for so many milliseconds.
const BALANCING_MS: u64 = 200;
/// So many commands of a shard may wait.
const WAITING_MAX: usize = 4096;

/// Commands that wait for other sites.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    commands: Vec<Waiter>,
    /// Rights that are needed.
    wants: BTreeMap<(Box<[u8]>, Right), Want>,
}

#[derive(Debug)]
struct Waiter {
    ticket: Ticket,
    command: OwnedCommand,
    deadline_ms: u64,
}

#[derive(Debug)]
struct Want {
    /// So many in all.
    amount: u64,
    until_ms: u64,
    asked_ms: BTreeMap<SiteId, u64>,
}

impl Waiting {
    /// When something is to be done, if nothing happens before.
    pub(super) fn deadline_ms(&self) -> Option<u64> {
        self.commands.iter().map(|waiter| waiter.deadline_ms).min()
    }

    /// When somebody is to be asked.
    pub(super) fn ask_ms(&self, now_ms: u64) -> Option<u64> {
        let again = self.wants.values().flat_map(|want| want.asked_ms.values());
        again.map(|asked_ms| asked_ms + ASK_EVERY_MS).filter(|again_ms| *again_ms > now_ms).min()
    }
}

impl Shard {
    pub(super) fn bounded(&self, key: &[u8]) -> Option<&Bounded<SiteId>> {
        match self.counter(key)? {
            Counter::Bounded(bounded) => Some(bounded),
            Counter::Plain(_) | Counter::Shared(_) => None,
        }
    }

    /// The rights that other sites have, as far as is known here; the most first.
    fn rights_elsewhere(&self, key: &[u8], right: Right) -> Vec<(SiteId, u128)> {
        let Some(bounded) = self.bounded(key) else { return Vec::new() };
        // With those of removed sites that a peer is the heir of: it takes them when it is asked.
        let held = |peer: &SiteId| {
            let removed = self.links.membership.removed.keys();
            let mut sites =
                removed.filter(|site| self.links.membership.holder(**site) == *peer).chain([peer]);
            sites.try_fold(0, |sum, site| Some(sum + bounded.rights(right, site)?))
        };
        let rights = self.links.peers.keys().filter_map(|site| Some((*site, held(site)?)));
        let mut rights: Vec<_> = rights.filter(|(_, rights)| *rights > 0).collect();
        rights.sort_unstable_by_key(|(_, rights)| std::cmp::Reverse(*rights));
        rights
    }

    /// Takes over the rights of removed sites that this one is the heir of, once all that anybody knows of them is here.
    pub(super) fn inherit(&mut self, index: Index) {
        let removed = self.links.membership.removed.keys().copied();
        let estates: Vec<SiteId> = removed.filter(|site| self.links.answers_for(*site)).collect();
        let Some(Counter::Bounded(bounded)) = &self.counters.get(index).counter else { return };
        let own = self.settings.site;
        let estates: Vec<_> = estates.into_iter().filter(|site| *bounded.holder(site) != own).collect();
        if estates.is_empty() {
            return;
        }
        self.counters.change(index, |entry| {
            if let Some(Counter::Bounded(bounded)) = &mut entry.counter {
                estates.into_iter().for_each(|site| bounded.inherit(site));
            }
        });
        self.touch(index, true);
    }

    /// May a command that lacks rights wait for those of others? Not if nobody is known to have any.
    pub(super) fn may_wait(&mut self, key: &[u8], lack: Lack, add: Add, now: Moment) -> bool {
        if add.remote_ms == 0 || self.rights_elsewhere(key, lack.right).is_empty() {
            return false;
        }
        if self.waiting.commands.len() >= WAITING_MAX {
            return false;
        }
        self.want(key, lack.right, lack.amount, now.elapsed_ms + add.remote_ms);
        true
    }

    pub(super) fn want(&mut self, key: &[u8], right: Right, amount: u64, until_ms: u64) {
        let new = || Want { amount: 0, until_ms: 0, asked_ms: BTreeMap::new() };
        let want = self.waiting.wants.entry((key.into(), right)).or_insert_with(new);
        want.amount = want.amount.max(amount);
        want.until_ms = want.until_ms.max(until_ms);
        self.links.restless = true;
    }

    /// Says where there are rights.
    pub(super) fn say_where(&self, key: &[u8], refusal: Refusal) -> Refusal {
        match refusal {
            Refusal::OutOfBounds { amount, limit, value, available, .. } => {
                let elsewhere = self.rights_elsewhere(key, right_for(amount));
                Refusal::OutOfBounds { amount, limit, value, available, elsewhere }
            }
            other => other,
        }
    }

    /// Rights drift to where they are used: whoever has used some and has few left asks for more before it needs them.
    pub(super) fn balance_rights(&mut self, key: &[u8], applied: i64, now: Moment) {
        let (own, right) = (self.settings.site, right_for(applied));
        let sites = self.links.membership.members.len() as u128;
        if sites < 2 || applied == 0 {
            return;
        }
        let Some(bounded) = self.bounded(key) else { return };
        let in_all = bounded.definition().rights_in_all(right, bounded.value());
        let in_all = in_all.and_then(|in_all| u128::try_from(in_all).ok()).unwrap_or(0);
        let here = bounded.rights(right, &own).unwrap_or(u128::MAX);
        if here < in_all / (2 * sites)
            && let Ok(share) = u64::try_from(in_all / sites)
        {
            self.want(key, right, share, now.elapsed_ms + BALANCING_MS);
        }
    }

    /// A command waits, until its deadline, for what other sites do.
    pub(super) fn wait(&mut self, ticket: Ticket, command: Command<'_>, now_ms: u64) {
        let wait_ms = match command.action {
            Action::Add { add, .. } => add.remote_ms,
            Action::Create { wait_ms, .. } => wait_ms,
            _ => 0,
        };
        let waiter = Waiter { ticket, command: OwnedCommand::new(command), deadline_ms: now_ms + wait_ms };
        self.waiting.commands.push(waiter);
    }

    /// Takes back commands whose time was up before then: they will not be done any more.
    pub(crate) fn take_back(&mut self, before_ms: u64) -> Vec<(Ticket, OwnedCommand)> {
        let due = self.waiting.commands.extract_if(.., |waiter| waiter.deadline_ms < before_ms);
        due.map(|waiter| (waiter.ticket, waiter.command)).collect()
    }

    /// Is a command to be looked at again now, because its time is up?
    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        self.waiting.deadline_ms().is_some_and(|deadline_ms| deadline_ms <= now_ms)
    }

    /// The keys of commands that wait.
    pub(crate) fn keys_of_waiting(&self) -> Vec<Box<[u8]>> {
        self.waiting.commands.iter().map(|waiter| waiter.command.get().key.into()).collect()
    }

    /// The shard goes to another node: what waits is answered.
    pub(crate) fn give_up_waiting(&mut self) -> Vec<(Ticket, Reply)> {
        let waiting = std::mem::take(&mut self.waiting.commands).into_iter();
        let refuse = |Waiter { ticket, command, .. }: Waiter| {
            let Command { key, action } = command.get();
            let refusal = match action {
                Action::Create { .. } => Refusal::Creating { missing: self.missing_agreement(key) },
                _ => Refusal::NotHere,
            };
            (ticket, Reply::Refused(refusal))
        };
        waiting.map(refuse).collect()
    }

    /// Tries again what waits. Something may have come, or time is up.
    pub(crate) fn try_again(&mut self, now: Moment) {
        for waiter in std::mem::take(&mut self.waiting.commands) {
            let command = waiter.command.get();
            let is_late = waiter.deadline_ms <= now.elapsed_ms;
            match self.try_once_more(command, is_late, now) {
                Ok(Some(reply)) => self.outputs.replies.push((waiter.ticket, reply)),
                Err(refusal) => self.outputs.replies.push((waiter.ticket, Reply::Refused(refusal))),
                Ok(None) => self.waiting.commands.push(waiter),
            }
        }
    }

    fn try_once_more(
        &mut self,
        command: Command<'_>,
        is_late: bool,
        now: Moment,
    ) -> Result<Option<Reply>, Refusal> {
        match command.action {
            Action::Create { .. } => match self.created(command.key)? {
                None if is_late => Err(Refusal::Creating { missing: self.missing_agreement(command.key) }),
                reply => Ok(reply),
            },
            Action::Add { mut add, operation } => {
                if is_late {
                    add.remote_ms = 0;
                }
                self.run(Command { key: command.key, action: Action::Add { add, operation } }, now)
            }
            _ => self.run(command, now),
        }
    }

    /// What a peer is to be asked for now: rights that it is known to have, beginning with whoever has most.
    pub(super) fn asks(&mut self, peer: SiteId, now_ms: u64) -> Vec<Ask> {
        let own = self.settings.site;
        let mut wants = std::mem::take(&mut self.waiting.wants);
        wants.retain(|(key, right), want| {
            let usable = self.bounded(key).and_then(|it| usable(it, *right, own, self.waiting_rights(key)));
            let is_met = usable.is_none_or(|usable| usable >= u128::from(want.amount));
            want.until_ms > now_ms && !is_met
        });
        let mut asks = Vec::new();
        for ((key, right), want) in &mut wants {
            let Some(bounded) = self.bounded(key) else { continue };
            let usable = usable(bounded, *right, own, self.waiting_rights(key)).unwrap_or(0);
            let mut missing = u128::from(want.amount).saturating_sub(usable);
            for (site, rights) in self.rights_elsewhere(key, *right) {
                let is_connected = self.links.peers.get(&site).is_some_and(|peer| peer.connected);
                if missing == 0 || !is_connected {
                    continue;
                }
                let again_ms = want.asked_ms.get(&site).map_or(0, |asked_ms| asked_ms + ASK_EVERY_MS);
                if site == peer && now_ms >= again_ms {
                    want.asked_ms.insert(site, now_ms);
                    let row = bounded.rows().get(&site);
                    let passed_on =
                        row.and_then(|row| row.passed_on.get(&own)).map_or(0, |it| it.get(*right));
                    let amount = u64::try_from(missing).unwrap_or(u64::MAX);
                    asks.push(Ask { key: key.clone(), right: *right, amount, passed_on });
                }
                missing = missing.saturating_sub(rights);
            }
        }
        self.waiting.wants = wants;
        asks
    }

    /// Gives rights to whoever asks: what it needs, or half of what there is.
    pub(super) fn give(&mut self, to: SiteId, ask: &Ask) {
        let own = self.settings.site;
        let provisional = self.waiting_rights(&ask.key);
        let Some(index) = self.counters.find(&ask.key) else { return };
        self.inherit(index);
        // What waits here comes first: else rights would go to and fro between two that lack them.
        self.count_parked_here(index);
        let Some(Counter::Bounded(bounded)) = &self.counters.get(index).counter else { return };
        let row = bounded.rows().get(&own);
        let passed_on = row.and_then(|row| row.passed_on.get(&to)).map_or(0, |it| it.get(ask.right));
        if passed_on > ask.passed_on {
            // They are on their way.
            return;
        }
        let here = usable(bounded, ask.right, own, provisional).unwrap_or(0);
        let here = u64::try_from(here).unwrap_or(u64::MAX);
        let amount = ask.amount.max(here / 2).min(here);
        let Ok(prepared) = bounded.prepare_transfer(ask.right, amount, to) else { return };
        if amount == 0 {
            return;
        }
        self.counters.change(index, |entry| {
            if let Some(Counter::Bounded(bounded)) = &mut entry.counter {
                bounded.apply(prepared);
            }
        });
        self.touch(index, true);
    }
}
