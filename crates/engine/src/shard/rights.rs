//! Rights of other sites: commands that wait for them, asking for them, and giving them.

use std::collections::BTreeMap;

use quipu_crdt::{Bounded, bounded::Right};

use super::{
    Shard, Ticket,
    moving::Moving,
    room::{Lack, right_for, usable},
};
use crate::{
    Action, Add, Command, Moment, Move, OwnedCommand, Refusal, Reply, Rule, SiteId,
    counter::Counter,
    counters::Index,
    coverage::{Branch, reached},
    links::Ask,
};

/// A site is not asked for the same rights again before so many milliseconds have passed.
pub(super) const ASK_EVERY_MS: u64 = 100;
/// Rights that nobody waits for are asked for, for so many milliseconds.
const BALANCING_MS: u64 = 200;
/// So many commands of a shard may wait.
const WAITING_MAX: usize = 4096;

/// Commands that wait for other sites.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) commands: Vec<Waiter>,
    /// Rights that are needed.
    wants: BTreeMap<(Box<[u8]>, Right), Want>,
    /// Counters that were made here and that somebody waits for: the number of the change by which they took effect.
    pub(super) effects: BTreeMap<Box<[u8]>, u64>,
    /// Something has changed that no message told of.
    pub(super) is_woken: bool,
    /// Counters that are being made, and in whose way that is.
    pub(super) unmade: BTreeMap<Box<[u8]>, Want>,
}

/// A command that waits for other sites.
#[derive(Debug)]
pub(crate) struct Waiter {
    ticket: Ticket,
    pub(super) command: OwnedCommand,
    deadline_ms: u64,
    /// What it has asked another site to do.
    pub(super) moving: Option<Moving>,
}

impl Waiter {
    pub(crate) fn command(&self) -> Command<'_> {
        self.command.get()
    }
}

#[derive(Debug, Default)]
pub(super) struct Want {
    /// So many in all.
    pub(super) amount: u64,
    pub(super) until_ms: u64,
    pub(super) asked_ms: BTreeMap<SiteId, u64>,
}

impl Want {
    /// May this site be asked now? Then it is.
    pub(super) fn asks(&mut self, site: SiteId, now_ms: u64) -> bool {
        let is_due = self.asked_ms.get(&site).is_none_or(|asked_ms| now_ms >= asked_ms + ASK_EVERY_MS);
        if is_due {
            self.asked_ms.insert(site, now_ms);
        }
        is_due
    }
}

impl Waiting {
    pub(super) fn len(&self) -> usize {
        self.commands.len()
    }

    /// When something is to be done, if nothing happens before.
    pub(super) fn deadline_ms(&self) -> Option<u64> {
        self.commands.iter().map(|waiter| waiter.deadline_ms).min()
    }

    /// When somebody is to be asked.
    pub(super) fn ask_ms(&self, now_ms: u64) -> Option<u64> {
        let moves = self.commands.iter().filter_map(|waiter| waiter.moving.as_ref()?.asked_ms.as_ref());
        let wants = self.wants.values().chain(self.unmade.values());
        let again = wants.flat_map(|want| want.asked_ms.values()).chain(moves);
        again.map(|asked_ms| asked_ms + ASK_EVERY_MS).filter(|again_ms| *again_ms > now_ms).min()
    }
}

impl Waiting {
    /// Forgets the rights and the counters in the making that nobody needs any more, whoever is connected.
    pub(super) fn expire(&mut self, now_ms: u64) {
        self.wants.retain(|_, want| want.until_ms > now_ms);
        self.unmade.retain(|_, want| want.until_ms > now_ms);
    }

    /// The counters of which others are asked for something: rights, or to go on with making one.
    pub(super) fn wanted(&self) -> impl Iterator<Item = &[u8]> {
        self.wants.keys().map(|(key, _)| &**key).chain(self.unmade.keys().map(|key| &**key))
    }

    /// A counter has taken effect that was made here.
    pub(super) fn note_effect(&mut self, key: &[u8], number: u64) {
        let is_awaited = |waiter: &Waiter| {
            let Command { key: other, action } = waiter.command.get();
            other == key && matches!(action, Action::Create { .. })
        };
        if self.commands.iter().any(is_awaited) || self.effects.contains_key(key) {
            self.effects.insert(key.into(), number);
        }
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
    pub(super) fn rights_elsewhere(&self, key: &[u8], right: Right) -> Vec<(SiteId, u128)> {
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
        reached(Branch::RightsInherited);
        self.counters.change(index, |entry| {
            if let Some(Counter::Bounded(bounded)) = &mut entry.counter {
                estates.into_iter().for_each(|site| bounded.inherit(site));
            }
        });
        self.touch(index, true);
    }

    /// Has this site yet to take over such rights of a removed one, whose heir it is?
    fn will_inherit(&self, key: &[u8], right: Right) -> bool {
        let (own, membership) = (self.settings.site, &self.links.membership);
        let Some(bounded) = self.bounded(key) else { return false };
        let mut removed = membership.removed.keys().filter(|site| membership.holder(**site) == own);
        removed.any(|site| bounded.rights(right, site).is_some_and(|rights| rights > 0))
            && self.settings.rules.keep(Rule::HeirsWait)
    }

    /// May a command that lacks rights wait for those of others? Not if nobody is known to have any.
    pub(super) fn may_wait(&mut self, key: &[u8], lack: Lack, add: Add, now: Moment) -> bool {
        let has_none = self.rights_elsewhere(key, lack.right).is_empty();
        if add.remote_ms == 0 || (has_none && !self.will_inherit(key, lack.right)) {
            return false;
        }
        if self.waiting.commands.len() >= WAITING_MAX {
            reached(Branch::WaitRefused);
            return false;
        }
        self.want(key, lack.right, lack.amount, now.elapsed_ms + add.remote_ms);
        reached(Branch::WaitBegun);
        true
    }

    pub(super) fn want(&mut self, key: &[u8], right: Right, amount: u64, until_ms: u64) {
        let want = self.waiting.wants.entry((key.into(), right)).or_default();
        want.amount = want.amount.max(amount);
        want.until_ms = want.until_ms.max(until_ms);
        self.links.restless = true;
    }

    /// Says where there are rights; with how many there are in all, if it is rights that are lacking here.
    pub(super) fn say_where(&self, key: &[u8], lack: Option<Lack>, refusal: Refusal) -> Refusal {
        match refusal {
            Refusal::OutOfBounds { amount, limit, value, available, .. } => {
                let elsewhere = self.rights_elsewhere(key, right_for(amount));
                let in_all = lack.and_then(|lack| self.rights_in_all(key, lack.right));
                let in_all = in_all.filter(|in_all| *in_all > available);
                Refusal::OutOfBounds { amount, limit, value, available, elsewhere, in_all }
            }
            other => other,
        }
    }

    /// The rights of all sites together, as far as is known here.
    pub(super) fn rights_in_all(&self, key: &[u8], right: Right) -> Option<u64> {
        let bounded = self.bounded(key)?;
        u64::try_from(bounded.definition().rights_in_all(right, bounded.value())?).ok()
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
            reached(Branch::RightsDrift);
            self.want(key, right, share, now.elapsed_ms + BALANCING_MS);
        }
    }

    /// A command waits, until its deadline, for what other sites do.
    pub(super) fn wait(&mut self, ticket: Ticket, command: Command<'_>, now_ms: u64) {
        let wait_ms = match command.action {
            Action::Add { add, .. } => add.remote_ms,
            Action::Create { wait_ms, .. } | Action::Move(Move { wait_ms, .. }) => wait_ms,
            _ => 0,
        };
        let moving = match command.action {
            Action::Move(it) => self.moving(command.key, it),
            _ => None,
        };
        let command = OwnedCommand::new(command);
        self.waiting.commands.push(Waiter { ticket, command, deadline_ms: now_ms + wait_ms, moving });
    }

    /// Takes back commands whose time was up before then: they will not be done any more.
    pub(crate) fn take_back(&mut self, before_ms: u64) -> Vec<(Ticket, OwnedCommand)> {
        let due = self.waiting.commands.extract_if(.., |waiter| waiter.deadline_ms < before_ms);
        due.inspect(|_| reached(Branch::WaitTakenBack))
            .map(|waiter| (waiter.ticket, waiter.command))
            .collect()
    }

    /// Is a command to be looked at again now, because its time is up?
    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        let is_woken = self.waiting.is_woken && !self.waiting.commands.is_empty();
        is_woken || self.waiting.deadline_ms().is_some_and(|deadline_ms| deadline_ms <= now_ms)
    }

    /// The shard goes to another node: what waits is answered.
    pub(crate) fn give_up_waiting(&mut self) -> Vec<(Ticket, Reply)> {
        let waiting = std::mem::take(&mut self.waiting.commands).into_iter();
        let refuse = |Waiter { ticket, command, .. }: Waiter| {
            reached(Branch::WaitMoved);
            let Command { key, action } = command.get();
            let refusal = match action {
                Action::Create { .. } => Refusal::Creating { missing: self.without_counter(key) },
                Action::Move(it) => self.not_moved_yet(it),
                _ => Refusal::NotHere,
            };
            (ticket, Reply::refused(refusal))
        };
        waiting.map(refuse).collect()
    }

    /// The commands that wait, to be [resumed](Self::resume) one after the other: something may have come, or time is up.
    pub(crate) fn take_waiting(&mut self) -> Vec<Waiter> {
        self.waiting.is_woken = false;
        std::mem::take(&mut self.waiting.commands)
    }

    /// Tries a command again. All that a new one needs must have been read from the table: its id may have been counted,
    /// settled and stored while it waited.
    pub(crate) fn resume(&mut self, waiter: Waiter, now: Moment) {
        let is_late = waiter.deadline_ms <= now.elapsed_ms;
        let command = waiter.command();
        let tried = match (command.action, waiter.moving) {
            (Action::Move(it), Some(moving)) => self.moved(command.key, it, moving, is_late),
            _ => self.try_once_more(command, is_late, now),
        };
        match tried {
            Ok(Some(reply)) => {
                reached(Branch::WaitResumed);
                self.outputs.replies.push((waiter.ticket, reply));
            }
            Err(refusal) => {
                reached(Branch::WaitTimedOut);
                self.refuse(&waiter, refusal);
            }
            Ok(None) => self.waiting.commands.push(waiter),
        }
    }

    /// A command that has waited is not done.
    fn refuse(&mut self, waiter: &Waiter, refusal: Refusal) {
        self.outputs.replies.push((waiter.ticket, Reply::refused(refusal)));
    }

    /// A command waits no more, for a reason of this site. A creation goes on by itself once it has begun, and the site that was
    /// asked to pass rights on may have done so.
    pub(crate) fn stop_waiting(&mut self, waiter: &Waiter, refusal: Refusal) {
        let may_be_done = matches!(waiter.command().action, Action::Create { .. } | Action::Move(_));
        let refusal = match may_be_done && self.settings.rules.keep(Rule::StoppedIsInDoubt) {
            true => Refusal::InDoubt(
                "this site has stopped waiting for other sites, and they may have done it: COUNTER.RIGHTS shows it"
                    .to_owned(),
            ),
            false => refusal,
        };
        self.refuse(waiter, refusal);
    }

    /// Commands that wait are resumed with the next batch.
    pub(crate) fn wake_waiting(&mut self) {
        self.waiting.is_woken = true;
    }

    /// What a command needs cannot be read now: it waits on, unless its time is up.
    pub(crate) fn wait_on(&mut self, waiter: Waiter, refusal: Refusal, now: Moment) {
        if waiter.deadline_ms <= now.elapsed_ms {
            self.stop_waiting(&waiter, refusal);
        } else {
            self.waiting.commands.push(waiter);
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
                None if is_late => {
                    reached(Branch::CreationLate);
                    let missing = self.without_counter(command.key);
                    self.waiting.effects.remove(command.key);
                    Err(Refusal::Creating { missing })
                }
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
                if site == peer && want.asks(site, now_ms) {
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
        asks.extend(self.asks_to_go_on(peer, now_ms));
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
            reached(Branch::RightsOnTheirWay);
            return;
        }
        let here = usable(bounded, ask.right, own, provisional).unwrap_or(0);
        let here = u64::try_from(here).unwrap_or(u64::MAX);
        let amount = ask.amount.max(here / 2).min(here);
        let Ok(prepared) = bounded.prepare_transfer(ask.right, amount, to) else { return };
        if amount == 0 {
            return;
        }
        reached(Branch::RightsGiven);
        self.counters.change(index, |entry| {
            if let Some(Counter::Bounded(bounded)) = &mut entry.counter {
                bounded.apply(prepared);
            }
        });
        self.touch(index, true);
    }
}

#[cfg(test)]
mod tests;
