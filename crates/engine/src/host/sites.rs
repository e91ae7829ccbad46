//! Messages between sites: what comes in goes into the batch; what goes out speaks of what is durable.

use std::collections::{BTreeMap, BTreeSet};

use quipu_storage::{Flush, Log, Page, Scan, ShardId, Slice, StorageError, Table};

use super::{Host, Running, State, load, prepare};
use crate::{
    BadMessage, Membership, Message, Moment, Refusal, Rule, ShardAudit, SiteId, WaitsFor,
    record::row_key,
    shard::{Shard, SweepWanted},
};

/// How many rows of the table are looked at for one piece of all rows.
const SWEEP_ROWS_MAX: usize = 1024;

/// So many pages of the table are looked through in one go for rows of removed sites.
const TOLD_PAGES_MAX: usize = 64;

/// A message to the same shard at another site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The site.
    pub to: SiteId,
    /// The shard.
    pub shard: ShardId,
    /// The message.
    pub message: Message,
}

/// What must come to its end before a site can leave and take nothing with it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unfinished {
    /// Commands that wait for other sites, and may still count.
    pub commands: u64,
    /// Own operations that are not settled.
    pub operations: u64,
    /// How many own changes another site lacks, or has not acknowledged; only of those that lack some.
    pub behind: BTreeMap<SiteId, u64>,
    /// Tokens and last words that edges and relays have left here for others, and that have not arrived there: what they
    /// carry may be nowhere else.
    pub kept: u64,
}

impl Unfinished {
    /// Has everything come to its end? What edges and relays have in the middle of a handoff its heir goes on with.
    pub fn is_nothing(&self) -> bool {
        let Self { commands, operations, behind, kept } = self;
        *commands == 0 && *operations == 0 && *kept == 0 && behind.is_empty()
    }
}

/// Whether commands that have waited for other sites may count when they are resumed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Counting {
    /// They may.
    #[default]
    Allowed,
    /// Not now: they wait on, and are refused when their time is up.
    Paused(Refusal),
    /// Never again: they are refused.
    Ended(Refusal),
}

impl<L: Log, T: Table> Host<L, T> {
    /// From now on these belong to the cluster. To be said before shards are opened, and whenever it changes.
    pub fn set_membership(&mut self, membership: &Membership) {
        self.membership = membership.clone();
        self.connected.retain(|site| membership.members.contains(site));
        for running in self.shards.iter_mut().flatten() {
            running.shard.follow(membership);
        }
    }

    /// There is a link to this site now: it is sent what it says that it lacks.
    pub fn connected(&mut self, peer: SiteId) {
        self.connected.insert(peer);
        self.shards.iter_mut().flatten().for_each(|running| running.shard.connect(peer, true));
    }

    /// The link is gone.
    pub fn disconnected(&mut self, peer: SiteId) {
        self.connected.remove(&peer);
        self.shards.iter_mut().flatten().for_each(|running| running.shard.connect(peer, false));
    }

    /// Takes in a message of the same shard at another site. Its effects are committed with the batch. A shard that cannot
    /// store anything at the moment does not hear it, nor one that may be another node's by now, who is meant: the other
    /// site will say it again.
    pub fn receive(
        &mut self,
        id: ShardId,
        from: SiteId,
        message: Message,
        now: Moment,
    ) -> Result<(), BadMessage> {
        if !self.may_speak(id) {
            self.ask_fence(id);
            return Ok(());
        }
        let table = self.store.table();
        let Some(running) = self.shards.get_mut(usize::from(id.0)).and_then(Option::as_deref_mut) else {
            return Ok(());
        };
        for key in message.keys().map(<[u8]>::to_vec).collect::<Vec<_>>() {
            if load(table, running, &key).is_err() {
                return Ok(());
            }
        }
        let now = running.clock.at(now);
        let received = running.shard.receive(id.0, from, message, now);
        try_again(table, running, &self.counting, now);
        self.mark_pending(id);
        received
    }

    /// Commands that have waited long enough are answered with the next batch. What waits for nobody any more is settled,
    /// and what has changed by itself is stored.
    pub(super) fn try_again(&mut self, now: Moment) {
        for at in 0..self.shards.len() {
            let Some(running) = self.shards[at].as_deref_mut() else { continue };
            let now = running.clock.at(now);
            let is_live = matches!(running.state, State::Live);
            if is_live && running.shard.is_left_alone() {
                running.shard.settle_alone(now);
            }
            let has_to_tell = is_live && running.shard.has_to_tell();
            if has_to_tell {
                tell_ahead(self.store.table(), running);
            }
            if has_to_tell || is_live && running.shard.has_moved() {
                let id = running.id;
                self.mark_pending(id);
            }
            let Some(running) = self.shards[at].as_deref_mut() else { continue };
            if !running.shard.is_due(now.elapsed_ms) || !matches!(running.state, State::Live) {
                continue;
            }
            let id = running.id;
            try_again(self.store.table(), running, &self.counting, now);
            self.mark_pending(id);
        }
    }

    /// Says whether commands that wait may count when they are resumed. The caller keeps new ones away by itself.
    pub fn set_counting(&mut self, counting: Counting) {
        if self.counting == counting {
            return;
        }
        if !matches!(counting, Counting::Paused(_)) {
            self.shards.iter_mut().flatten().for_each(|running| running.shard.wake_waiting());
        }
        self.counting = counting;
    }

    /// What is to be sent now: call it after [`Self::commit`], and again at [`Self::wants_at`]. It speaks of what is
    /// durable: while something is not [flushed](Self::flush), there is nothing.
    pub fn outgoing(&mut self, now: Moment, envelopes: &mut Vec<Envelope>) {
        debug_assert!(self.pending.is_empty());
        if self.connected.is_empty() || (self.flush == Flush::Later && self.unflushed) {
            return;
        }
        let (table, standing) = (self.store.table(), self.standing);
        let mut lapsed = Vec::new();
        for running in self.shards.iter_mut().flatten() {
            let now_ms = running.clock.at(now).elapsed_ms;
            if !running.shard.is_restless(now_ms) {
                continue;
            }
            if !running.may_speak(standing) {
                lapsed.push(running.id);
                continue;
            }
            for peer in running.shard.peers_to_serve(now_ms) {
                let wanted = running.shard.sweep_wanted(peer, now_ms);
                // What cannot be read now is tried again later.
                let sweep = wanted.and_then(|wanted| sweep(table, running.id, &mut running.shard, wanted));
                if let Some(message) = running.shard.message_for(peer, sweep, now_ms) {
                    envelopes.push(Envelope { to: peer, shard: running.id, message });
                }
            }
            running.shard.forget_part();
        }
        lapsed.into_iter().for_each(|id| self.ask_fence(id));
    }

    /// When there is something to be sent or answered, in the time of this process, if nothing happens before.
    pub fn wants_at(&self) -> Option<u64> {
        let waits_for_flush = self.flush == Flush::Later && self.unflushed;
        let may_send = !self.connected.is_empty() && !waits_for_flush;
        // One that its store keeps from working is looked at by `maintain`.
        let live = self.shards.iter().flatten().filter(|running| matches!(running.state, State::Live));
        live.filter_map(|running| running.clock.outside(running.shard.wants_at_ms(may_send)?)).min()
    }

    /// Is a shard open, and surely no other node's? Only then does it speak with other sites.
    pub fn may_speak(&self, id: ShardId) -> bool {
        let running = self.shards.get(usize::from(id.0)).and_then(Option::as_deref);
        running.is_some_and(|running| running.may_speak(self.standing))
    }

    /// The number of the last change that this site has made in a shard.
    pub fn position(&self, id: ShardId) -> Option<u64> {
        Some(self.shard(id)?.position())
    }

    /// The number of the last change that this site has made in a shard and that is not only here since it was started.
    pub fn heard_position(&self, id: ShardId) -> Option<u64> {
        Some(self.shard(id)?.heard_position())
    }

    /// How far this site has got with another one's changes of a shard.
    pub fn received(&self, id: ShardId, of: SiteId) -> Option<u64> {
        self.shard(id)?.received(of)
    }

    /// How many other sites have the changes that this one has made in a shard, up to a position.
    pub fn acknowledged(&self, id: ShardId, position: u64) -> usize {
        self.shard(id).map_or(0, |shard| shard.acknowledged(position))
    }

    /// Which other sites have the changes that this one has made in a shard, up to a position.
    pub fn acknowledged_by(&self, id: ShardId, position: u64) -> BTreeSet<SiteId> {
        self.shard(id).map(|shard| shard.acknowledged_by(position).collect()).unwrap_or_default()
    }

    /// Has this site, which joins, everything that the others had when they listed it?
    pub fn is_caught_up(&self) -> bool {
        self.waits_for().is_empty()
    }

    /// What it lacks of that, in any shard.
    pub fn waits_for(&self) -> BTreeSet<WaitsFor> {
        self.shards.iter().flatten().flat_map(|running| running.shard.waits_for()).collect()
    }

    /// Third sites, each with a peer that has taken in another branch of their streams than this site, as far as this process
    /// has heard: two copies of one site have run. The values at the two differ until somebody corrects them.
    pub fn differing(&self) -> BTreeSet<(SiteId, SiteId)> {
        self.shards.iter().flatten().flat_map(|running| running.shard.differing()).copied().collect()
    }

    /// What of this site's own has yet to come to its end, in all shards that are open.
    pub fn unfinished(&self) -> Unfinished {
        let mut unfinished = Unfinished::default();
        for running in self.shards.iter().flatten() {
            running.shard.add_unfinished(&mut unfinished);
        }
        unfinished.behind.retain(|_, changes| *changes > 0);
        unfinished
    }

    /// The books of all shards.
    pub fn audit(&self) -> Vec<ShardAudit> {
        self.shards.iter().flatten().map(|running| running.shard.audit(running.id.0)).collect()
    }

    fn shard(&self, id: ShardId) -> Option<&Shard> {
        Some(&self.shards.get(usize::from(id.0))?.as_deref()?.shard)
    }
}

/// Resumes the commands that wait. Each goes the whole way of a new one, which would be refused where the site must not count.
fn try_again<T: Table>(table: &T, running: &mut Running, counting: &Counting, now: Moment) {
    let as_new = running.shard.rules().keep(Rule::ResumedAsNew);
    for waiter in running.shard.take_waiting() {
        let ready = match counting {
            Counting::Ended(refusal) if as_new => {
                running.shard.stop_waiting(&waiter, refusal.clone());
                continue;
            }
            Counting::Paused(refusal) if as_new => Err(refusal.clone()),
            _ if as_new => prepare(table, running, &waiter.command()),
            _ => load(table, running, waiter.command().key),
        };
        match ready {
            Ok(()) => running.shard.resume(waiter, now),
            Err(refusal) => running.shard.wait_on(waiter, refusal, now),
        }
    }
}

/// Tells rows of removed sites that are ahead of their streams, of some pages of the table. What cannot be read now is
/// tried again.
fn tell_ahead<T: Table>(table: &T, running: &mut Running) {
    if !running.shard.tells_ahead() {
        running.shard.has_told(None);
        return;
    }
    for _ in 0..TOLD_PAGES_MAX {
        let after = running.shard.told_up_to().map(row_key);
        let Ok(page) = scan(table, running.id, after.as_deref()) else { return };
        let Ok((keys, next)) = running.shard.keys_ahead(&page) else { return };
        for (key, ()) in &keys {
            if load(table, running, key).is_err() {
                return;
            }
        }
        keys.iter().for_each(|(key, ())| running.shard.tell_ahead(key));
        let is_last = next.is_none();
        running.shard.has_told(next);
        if is_last {
            return;
        }
    }
}

fn scan<T: Table>(table: &T, id: ShardId, after: Option<&[u8]>) -> Result<Page, StorageError> {
    let prefix = row_key(b"");
    table.scan(id, Scan { slice: Slice::KEPT, prefix: &prefix, after, rows_max: SWEEP_ROWS_MAX })
}

fn sweep<T: Table>(
    table: &T,
    id: ShardId,
    shard: &mut Shard,
    wanted: SweepWanted,
) -> Option<crate::links::Sweep> {
    let after = wanted.after.as_deref().map(row_key);
    let page = scan(table, id, after.as_deref()).ok()?;
    shard.sweep(wanted, &page).ok()
}
