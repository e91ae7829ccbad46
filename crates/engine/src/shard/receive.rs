//! Taking in what another site says.

use super::{Shard, tally};
use crate::{
    BadMessage, Message, Moment, Rule, SiteId,
    counter::Counter,
    counters::VERSION_MAX,
    entry::Entry,
    handoff::Name,
    links::{Changed, KeyRow, Part, SharedPart, Sweep, Swept, WireRow},
};

impl Message {
    /// The counters that it speaks of: they must be in memory before it is taken in.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let parts = || self.parts.iter().map(SharedPart::part);
        let rows = parts().flat_map(|part| &part.rows).chain(self.sweep.iter().flat_map(|it| &it.rows));
        let entries = parts().flat_map(|part| &part.entries).map(|entry| &*entry.key);
        let asks = self.asks.iter().map(|ask| &*ask.key);
        let passed_on = self.passed_on.iter().flat_map(|it| it.keys());
        rows.map(|row| &*row.key).chain(entries).chain(asks).chain(passed_on)
    }
}

impl Shard {
    /// Takes in a message. Its effects come out with the batch. What is wrong with it is said, and the rest of it ignored:
    /// what was taken in until then is true.
    pub(crate) fn receive(
        &mut self,
        shard: u16,
        from: SiteId,
        message: Message,
        now: Moment,
    ) -> Result<(), BadMessage> {
        self.check(shard, from, &message)?;
        let (own, epoch) = (self.settings.site, self.links.membership.epoch);
        self.hear(from, &message, epoch);
        let has_news = !message.parts.is_empty() || message.sweep.is_some() || message.answer == Some(true);
        let is_behind = self.can_tell(from, &message);
        self.take_streams(from, message.position, message.epoch, message.parts, message.sweep, now)?;
        let Message { settled, hearsay, asks, passed_on, .. } = message;
        self.settle_learned(from, settled, now);
        for said in hearsay.iter().filter(|said| said.site != own) {
            self.settle_learned(said.site, said.settled, now);
        }
        for ask in &asks {
            self.give(from, ask);
        }
        if let Some(passed_on) = passed_on {
            self.take_passed_on(shard, Name::of_site(from), *passed_on, now);
        }
        self.settle(now);
        self.settle_removed(now);
        self.count_all_parked(now);
        self.links.trim();
        if let Some(peer) = self.links.peers.get_mut(&from) {
            // What it lacks may be on its way to it.
            peer.owed |= has_news || (is_behind && now.elapsed_ms >= peer.ask_again_ms());
        }
        self.links.restless = true;
        Ok(())
    }

    /// Takes in pieces of streams; the sender's own one was so long, and it acts under the membership of this epoch.
    fn take_streams(
        &mut self,
        from: SiteId,
        position: u64,
        theirs: u64,
        parts: Vec<SharedPart>,
        sweep: Option<Sweep>,
        now: Moment,
    ) -> Result<(), BadMessage> {
        let epoch = self.links.membership.epoch;
        let (own_parts, other_parts): (Vec<_>, Vec<_>) =
            parts.into_iter().map(SharedPart::into_part).partition(|part| part.origin == from);
        let (own_sweep, other_sweep) = match sweep {
            Some(sweep) if sweep.origin == from => (Some(sweep), None),
            other => (None, other),
        };
        // All rows first: what follows them may be in the same message.
        own_sweep.into_iter().try_for_each(|sweep| self.take_sweep(sweep))?;
        for part in own_parts {
            self.take_part(from, part, now)?;
        }
        // Of a bounded counter all rows travel together, so that the sender's own one may be among those of others. It is
        // not taken in before its stream has come that far: were the sender lost, nobody would have the entries.
        let lacks = self.received(from).is_none_or(|here| here < position);
        let is_early = |rows: &[KeyRow]| lacks && rows.iter().any(KeyRow::is_bounded);
        let early = other_sweep.as_ref().filter(|sweep| is_early(&sweep.rows)).map(|sweep| sweep.origin);
        let other_sweep = other_sweep.filter(|_| early.is_none());
        other_sweep.into_iter().try_for_each(|sweep| self.take_sweep(sweep))?;
        for part in other_parts {
            if is_early(&part.rows) || early == Some(part.origin) {
                continue;
            }
            // If the sender knows of a newcomer that is not known here yet, it will say it again.
            if theirs <= epoch || self.links.origins.contains_key(&part.origin) {
                self.take_part(from, part, now)?;
            }
        }
        Ok(())
    }

    /// Does the sender not know of operations that are settled, and will not hear it from anybody else?
    fn can_tell(&self, from: SiteId, message: &Message) -> bool {
        let hears = |site: SiteId| self.links.peers.get(&from).is_some_and(|peer| peer.hears(site));
        message.received.iter().any(|it| {
            let settled = self.links.origins.get(&it.site).map_or(0, |origin| origin.last_settled);
            it.settled < settled.min(it.position) && (it.site == self.settings.site || !hears(it.site))
        })
    }

    fn check(&self, shard: u16, from: SiteId, message: &Message) -> Result<(), BadMessage> {
        if !self.links.peers.contains_key(&from) {
            return Err(BadMessage::Impossible("its sender does not belong to the cluster"));
        }
        let own = self.links.own().position;
        let of_us = message.received.iter().filter(|received| received.site == self.settings.site);
        let most = of_us.map(|received| received.position).max().filter(|theirs| *theirs > own);
        if let Some(theirs) = most.filter(|_| self.settings.rules.keep(Rule::NewIncarnation)) {
            return Err(BadMessage::OldCopy { peer: from, shard, theirs, ours: own });
        }
        for part in message.parts.iter().map(SharedPart::part) {
            let numbers = part.entries.iter().map(|entry| entry.number);
            let is_sorted = numbers.clone().is_sorted_by(|one, next| one < next);
            let is_within = numbers.clone().all(|number| part.from < number && number <= part.to);
            if part.from > part.to || part.to > VERSION_MAX / 2 || !is_sorted || !is_within {
                return Err(BadMessage::Impossible("a part whose positions are out of order"));
            }
            if part.entries.iter().any(Entry::contradicts_itself) {
                return Err(BadMessage::Impossible("a count that was taken back for a higher site"));
            }
        }
        Ok(())
    }

    /// What the sender says of itself and has heard of others.
    fn hear(&mut self, from: SiteId, message: &Message, epoch: u64) {
        let own = self.settings.site;
        let mut news = Vec::new();
        if let Some(peer) = self.links.peers.get_mut(&from)
            && peer.hear(message, own, epoch)
        {
            news.push(from);
        }
        for said in message.hearsay.iter().filter(|said| said.site != own && said.site != from) {
            let position = self.links.own().position;
            let is_possible = said.received.iter().all(|it| it.site != own || it.position <= position);
            if let Some(peer) = self.links.peers.get_mut(&said.site).filter(|_| is_possible)
                && peer.overhear(said, own, epoch)
            {
                news.push(said.site);
            }
        }
        for site in news {
            // Whoever does not hear it hears of it here.
            let others = self.links.peers.iter_mut().filter(|(other, _)| **other != from && **other != site);
            others.filter(|(_, peer)| !peer.hears(site)).for_each(|(_, peer)| peer.gossip = true);
        }
    }

    fn take_part(&mut self, from: SiteId, part: Part, now: Moment) -> Result<(), BadMessage> {
        let Part { origin: site, from: begin, to, rows, entries, rows_after } = part;
        if site == self.settings.site {
            return Ok(());
        }
        if self.links.membership.removed.contains_key(&site) && site == from {
            return Err(BadMessage::Impossible("its sender was removed"));
        }
        let Some(origin) = self.links.origins.get(&site) else {
            return Err(BadMessage::Impossible("a stream of a site that does not belong to the cluster"));
        };
        let here = origin.position;
        if begin > here || to <= here {
            return Ok(());
        }
        for row in rows {
            self.take_row(site, Some(to), row)?;
        }
        for entry in entries.into_iter().filter(|entry| entry.number > here) {
            let (hash, number) = (entry.hash, entry.number);
            self.keep(site, entry);
            self.reconcile(hash);
            if !self.settings.rules.keep(Rule::LearnedUntilSettled) {
                self.retire(site, number, now);
            }
        }
        let origin = self.links.origins.entry(site).or_default();
        origin.position = to;
        if let Some(position) = rows_after {
            origin.forget_until(position.min(to));
        }
        self.links.sweeping.remove(&site);
        self.moved = true;
        Ok(())
    }

    /// Takes in a row of a site's stream: of the part that goes up to position `to`, or of a sweep.
    fn take_row(&mut self, site: SiteId, to: Option<u64>, row: KeyRow) -> Result<(), BadMessage> {
        let KeyRow { key, row } = row;
        let version = match &row {
            WireRow::Counted { version, .. } => *version,
            WireRow::Full(row) => row.version,
            WireRow::Bounded(_) => 0,
        };
        if version > VERSION_MAX / 2 {
            return Err(BadMessage::Impossible("a row with a version that no change has"));
        }
        let own = self.settings.site;
        let index = self.find(&key).unwrap_or_else(|| self.counters.insert(&key));
        let (before, existed) = (self.counters.get(index).version(), self.counters.get(index).exists());
        let merged =
            self.counters.change(index, |entry| Counter::merge(&mut entry.counter, own, before, site, row));
        let merged = merged.map_err(BadMessage::Impossible)?;
        // Even if it was known: it belongs to this part of the stream, and whoever is sent that needs it.
        let here = self.touch_any(index, existed);
        for (site, grown) in merged.grown {
            tally(&mut self.links.origins.entry(site).or_default().counted, grown);
        }
        if let Some(number) = to {
            let boundaries = self.links.peers.values().flat_map(|peer| peer.positions(site));
            let origin = self.links.origins.entry(site).or_default();
            origin.push(Changed { number, here, index }, boundaries);
        }
        if merged.marks {
            self.balance_cancellations(&key);
        }
        self.advance_creation(index);
        self.note_parked(index);
        Ok(())
    }

    /// Takes in a piece of all rows of a stream, if it comes next.
    fn take_sweep(&mut self, sweep: Sweep) -> Result<(), BadMessage> {
        let is_whole = sweep.is_whole();
        let Sweep { origin: site, until, after, next, rows } = sweep;
        let Some(origin) = self.links.origins.get(&site).filter(|_| site != self.settings.site) else {
            return Ok(());
        };
        let here = origin.position;
        let is_next = match (self.links.sweeping.get(&site), &after) {
            (None, None) => until > here,
            // Whatever came before.
            (Some(_), None) if is_whole => until > here,
            (Some(swept), None) => until > swept.until,
            (Some(swept), Some(_)) => swept.until == until && swept.after == after,
            (None, Some(_)) => false,
        };
        if !is_next {
            return Ok(());
        }
        for row in rows {
            self.take_row(site, None, row)?;
        }
        // Which rows these were is not remembered: whoever is behind is swept too.
        self.links.origins.entry(site).or_default().forget_until(until);
        self.links.sweeping.insert(site, Swept { until, after: next });
        Ok(())
    }

    /// What all that stay have of a removed site is settled: nobody else can come with more.
    pub(super) fn settle_removed(&mut self, now: Moment) {
        let removed = self.links.membership.removed.keys().copied();
        let closed: Vec<SiteId> = removed.filter(|site| self.links.is_closed(*site)).collect();
        for site in closed {
            let Some(origin) = self.links.origins.get(&site) else { continue };
            let open: Vec<_> = origin.open.iter().map(|(number, entry)| (*number, entry.hash)).collect();
            if open.is_empty() {
                continue;
            }
            if self.links.answers_for(site) {
                open.iter().for_each(|(_, hash)| self.reconcile(*hash));
                self.balance_estate(site);
            }
            let all_have_it = self.links.all_have(site);
            for (number, hash) in open {
                let counts = self.links.counts(hash);
                let others_are_cancelled =
                    counts.iter().skip(1).all(|(site, _)| self.links.is_cancelled(hash, *site));
                if all_have_it && others_are_cancelled {
                    self.retire(site, number, now);
                }
            }
        }
    }
}
