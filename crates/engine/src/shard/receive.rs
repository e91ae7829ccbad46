//! Taking in what another site says.

use super::{Shard, tally};
use crate::{
    BadMessage, Message, Moment, Rule, SiteId,
    counter::{Counter, Merged},
    counters::VERSION_MAX,
    coverage::{Branch, reached},
    entry::{Entry, What},
    handoff::Name,
    links::{
        Carried, CarriedEntry, Changed, KeyRow, Leaning, Part, Received, SharedPart, StreamRuns, Sweep,
        Swept, WireRow,
    },
};

impl Message {
    /// The counters that it speaks of: they must be in memory before it is taken in.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let parts = || self.parts.iter().map(SharedPart::part);
        let rows = parts().flat_map(|part| &part.rows).chain(self.sweep.iter().flat_map(|it| &it.rows));
        let entries = parts().flat_map(|part| &part.entries).map(|entry| &*entry.key);
        let moves = self.moves.iter().flatten().map(|ask| &*ask.key);
        let asks = self.asks.iter().map(|ask| &*ask.key).chain(moves);
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
        self.take_in(shard, from, message, now).map_err(BadMessage::reached)
    }

    fn take_in(
        &mut self,
        shard: u16,
        from: SiteId,
        mut message: Message,
        now: Moment,
    ) -> Result<(), BadMessage> {
        self.check(shard, from, &message)?;
        self.compare_streams(from, &message);
        self.leave_out_branches(from, &mut message);
        self.leave_out_leaning(from, &mut message);
        self.be_heard();
        let (own, epoch) = (self.settings.site, self.links.membership.epoch);
        self.hear(from, &message, epoch);
        self.take_tables(message.tables.take().unwrap_or_default());
        let has_news = !message.parts.is_empty() || message.sweep.is_some() || message.answer == Some(true);
        let is_behind = self.can_tell(from, &message);
        let Message { parts, sweep, carried, runs, .. } = message;
        let others = runs.into_iter().flatten().filter(|it| it.site != own);
        let before: Vec<_> = others.map(|it| (self.received(it.site).unwrap_or(0), it)).collect();
        let taken = self.take_streams(from, parts, sweep, carried.unwrap_or_default(), now);
        for (from, StreamRuns { site, runs }) in before {
            let origin = self.links.origins.get_mut(&site);
            if let Some(origin) = origin.filter(|origin| origin.position > from) {
                origin.runs.go_on(from, origin.position, &runs);
            }
        }
        taken?;
        let Message { settled, hearsay, asks, passed_on, moves, .. } = message;
        self.settle_learned(from, settled, now);
        self.hear_settled(&message.received, now);
        for said in hearsay.iter().filter(|said| said.site != own) {
            self.settle_learned(said.site, said.settled, now);
        }
        for ask in &asks {
            self.give(from, ask);
            self.go_on(ask, now);
        }
        for ask in moves.iter().flatten() {
            self.give_moved(ask);
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

    /// Takes in pieces of streams, and the entries that come with their rows.
    fn take_streams(
        &mut self,
        from: SiteId,
        parts: Vec<SharedPart>,
        sweep: Option<Sweep>,
        carried: Vec<Carried>,
        now: Moment,
    ) -> Result<(), BadMessage> {
        let (own_parts, other_parts): (Vec<_>, Vec<_>) =
            parts.into_iter().map(SharedPart::into_part).partition(|part| part.origin == from);
        let (own_sweep, other_sweep) = match sweep {
            Some(sweep) if sweep.origin == from => (Some(sweep), None),
            other => (None, other),
        };
        // All rows first: what follows them may be in the same message.
        own_sweep.into_iter().try_for_each(|sweep| self.take_sweep(from, sweep))?;
        for part in own_parts {
            self.take_part(from, part, now)?;
        }
        other_sweep.into_iter().try_for_each(|sweep| self.take_sweep(from, sweep))?;
        for part in other_parts {
            // If the sender knows of a newcomer that is not known here yet, it will say it again.
            if self.links.origins.contains_key(&part.origin) {
                self.take_part(from, part, now)?;
            } else {
                reached(Branch::PartOfNewcomer);
            }
        }
        self.take_carried(carried);
        Ok(())
    }

    /// Takes in entries that come with the rows of their counters, ahead of their streams. One whose row is not here is
    /// ignored: the piece that it came with was not taken in.
    fn take_carried(&mut self, carried: Vec<Carried>) {
        for Carried { key, entries } in carried {
            for CarriedEntry { site, number, hash, what } in entries {
                let Some(origin) = self.links.origins.get(&site) else { continue };
                let is_removed = self.links.membership.removed.contains_key(&site);
                let is_known = number <= origin.position || origin.open.contains_key(&number);
                let is_old = is_known || (is_removed && self.links.all_have_removed());
                if !is_old && site != self.settings.site && self.row_includes(site, &key, &what) {
                    reached(Branch::EntryCarried);
                    self.keep(site, Entry { number, hash, key: key.clone(), what });
                    self.reconcile(hash);
                }
            }
        }
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
        if self.settings.rules.keep(Rule::StreamsStayOne)
            && let Some((of, position)) = self.branched(from, message)
        {
            return Err(BadMessage::Branched { peer: from, of, shard, position });
        }
        for part in message.parts.iter().map(SharedPart::part) {
            let numbers = part.entries.iter().map(|entry| entry.number);
            let is_sorted = numbers.clone().is_sorted_by(|one, next| one < next);
            let is_within = numbers.clone().all(|number| part.from < number && number <= part.to);
            if part.from > part.to || part.to > VERSION_MAX / 2 || !is_sorted || !is_within {
                return Err(BadMessage::Impossible("a part whose positions are out of order"));
            }
            if part.entries.iter().any(|entry| entry.what.contradicts_itself()) {
                return Err(BadMessage::Impossible("a count that was taken back for a higher site"));
            }
        }
        for entry in message.carried.iter().flatten().flat_map(|it| &it.entries) {
            if entry.what.contradicts_itself() || entry.number > VERSION_MAX / 2 {
                return Err(BadMessage::Impossible("an entry ahead of its stream that nobody has written"));
            }
        }
        Ok(())
    }

    /// Is the sender, or this site, an old copy? Of a stream, its own or of an earlier incarnation, one has another change
    /// than the other: where.
    fn branched(&self, from: SiteId, message: &Message) -> Option<(SiteId, u64)> {
        let (own, ours) = (self.settings.site, &self.links.own().runs);
        let mut of_us = message.received.iter().filter(|it| it.site == own);
        if let Some(it) = of_us.find(|it| ours.contradict(it.position, it.writer)) {
            return Some((own, it.position));
        }
        let ends = message.parts.iter().map(|part| (part.origin(), part.to()));
        let ends = ends.chain(message.sweep.iter().map(|sweep| (sweep.origin, sweep.until)));
        let mut senders = ends.filter(|(site, _)| site.number == from.number);
        senders.find_map(|(site, to)| Some((site, self.differs(message, site, to)?)))
    }

    /// Where a piece of a stream that goes up to a position belongs to another stream than the one that is known here.
    fn differs(&self, message: &Message, site: SiteId, to: u64) -> Option<u64> {
        let theirs = message.runs.iter().flatten().find(|it| it.site == site)?;
        let origin = self.links.origins.get(&site).filter(|origin| origin.position <= to)?;
        let here = origin.position;
        origin.runs.contradict(here, theirs.runs.writer(here)).then_some(here)
    }

    /// Notes which third sites' streams have branched off, as the sender acknowledges them: of two copies of a site this one
    /// knows one, and the sender the other.
    fn compare_streams(&mut self, from: SiteId, message: &Message) {
        if !self.settings.rules.keep(Rule::StreamsStayOne) {
            return;
        }
        let own = self.settings.site;
        for it in message.received.iter().filter(|it| it.site != own) {
            let Some(origin) = self.links.origins.get(&it.site) else { continue };
            // What comes after the end of the stream here cannot be compared.
            let ours = origin.runs.writer(it.position).filter(|_| it.position <= origin.position);
            match (ours, it.writer) {
                (Some(ours), Some(theirs)) if ours == theirs => {
                    self.links.differing.remove(&(it.site, from));
                }
                (Some(_), Some(_)) => self.note_branch(it.site, from),
                _ => {}
            }
        }
    }

    fn note_branch(&mut self, of: SiteId, at: SiteId) {
        reached(Branch::StreamsDiffer);
        self.links.differing.insert((of, at));
    }

    /// Leaves out pieces of streams that have branched off. The copies are told when they come themselves.
    fn leave_out_branches(&mut self, from: SiteId, message: &mut Message) {
        if !self.settings.rules.keep(Rule::StreamsStayOne) {
            return;
        }
        let parts = message.parts.iter().map(|part| (part.origin(), part.to()));
        let ends = parts.chain(message.sweep.iter().map(|sweep| (sweep.origin, sweep.until)));
        let branched = ends.filter(|(site, to)| self.differs(message, *site, *to).is_some());
        let branched: Vec<SiteId> = branched.map(|(site, _)| site).collect();
        message.parts.retain(|part| !branched.contains(&part.origin()));
        message.sweep.take_if(|sweep| branched.contains(&sweep.origin));
        let own = self.settings.site;
        branched.into_iter().filter(|of| *of != own).for_each(|of| self.note_branch(of, from));
    }

    /// Leaves out parts that rely on earlier ones of the sender which were not taken in, because they were lost, or were known
    /// from somebody else. The sender gives up waiting, and sends all of it again.
    fn leave_out_leaning(&self, from: SiteId, message: &mut Message) {
        let leaning = message.leaning.take().unwrap_or_default();
        if leaning.is_empty() || !self.settings.rules.keep(Rule::PartsLeanOnTaken) {
            return;
        }
        let peer = self.links.peers.get(&from);
        let relies = |part: &SharedPart| leaning.iter().find(|it| it.stream == part.origin());
        let was_given = |it: &Leaning, to| peer.is_some_and(|peer| peer.has_given(it.stream, it.since, to));
        message.parts.retain(|part| {
            let is_kept = relies(part).is_none_or(|it| was_given(it, part.after()));
            if !is_kept {
                reached(Branch::PartLeaning);
            }
            is_kept
        });
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
            if !is_possible {
                reached(Branch::HearsayImpossible);
            }
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
            reached(if begin > here { Branch::PartGap } else { Branch::PartKnown });
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
        if let Some(peer) = self.links.peers.get_mut(&from) {
            peer.gives(site, begin, to);
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
        let KeyRow { key, row, ahead } = row;
        let ahead = ahead.unwrap_or_default();
        let version = match &row {
            WireRow::Counted { version, .. } => *version,
            WireRow::Full(row) => row.version,
            WireRow::Bounded(_) => 0,
        };
        if ahead.iter().map(|it| it.row.version).fold(version, u64::max) > VERSION_MAX / 2 {
            return Err(BadMessage::Impossible("a row with a version that no change has"));
        }
        let own = self.settings.site;
        let index = self.find(&key).unwrap_or_else(|| self.counters.insert(&key));
        let (before, existed) = (self.counters.get(index).version(), self.counters.get(index).exists());
        let ahead =
            ahead.into_iter().filter(|it| it.site != own && self.links.origins.contains_key(&it.site));
        let ahead: Vec<_> = ahead.map(|it| (it.site, WireRow::Full(Box::new(it.row)))).collect();
        let merged = self.counters.change(index, |entry| {
            let mut merge = |site, row| Counter::merge(&mut entry.counter, own, before, site, row);
            let mut merged = merge(site, row)?;
            for (site, row) in ahead {
                let Merged { marks, grown } = merge(site, row)?;
                merged.marks |= marks;
                merged.grown.extend(grown);
            }
            Ok(merged)
        });
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
    fn take_sweep(&mut self, from: SiteId, sweep: Sweep) -> Result<(), BadMessage> {
        let is_whole = sweep.is_whole();
        let Sweep { origin: site, until, after, next, rows } = sweep;
        let Some(origin) = self.links.origins.get(&site).filter(|_| site != self.settings.site) else {
            return Ok(());
        };
        let here = origin.position;
        let begun = self.links.sweeping.get(&site);
        let is_next = match (begun.map(|(_, swept)| swept), &after) {
            (None, None) => until > here,
            // Whatever came before.
            (Some(_), None) if is_whole => until > here,
            (Some(swept), None) => until > swept.until,
            (Some(swept), Some(_)) => swept.until == until && swept.after == after,
            (None, Some(_)) => false,
        };
        if !is_next {
            reached(Branch::SweepIgnored);
            return Ok(());
        }
        let by = begun.filter(|_| after.is_some()).map_or(from, |(by, _)| *by);
        reached(match (begun.is_some(), &after) {
            (_, Some(_)) => Branch::SweepContinued,
            (true, None) => Branch::SweepReplaced,
            (false, None) => Branch::SweepBegun,
        });
        for row in rows {
            self.take_row(site, None, row)?;
        }
        // Which rows these were is not remembered: whoever is behind is swept too.
        self.links.origins.entry(site).or_default().forget_until(until);
        self.links.sweeping.insert(site, (by, Swept { until, after: next }));
        Ok(())
    }

    /// Is this an entry of a token of which other counters are not noted?
    fn is_taken_in_part(&self, site: SiteId, number: u64) -> bool {
        let entry = self.links.origins.get(&site).and_then(|origin| origin.open.get(&number));
        entry.is_some_and(|entry| match &entry.what {
            What::Taken(taken) => !self.is_wholly_taken(entry.hash, taken),
            What::Counted(_) | What::Cancelled(_) => false,
        })
    }

    /// All that a removed site has counted is settled, and this one answers for it: others, and a copy that is put back and
    /// has entries which are settled, hear of it.
    fn tell_settled(&mut self, removed: SiteId) {
        let Some(origin) = self.links.origins.get_mut(&removed) else { return };
        if origin.settled < origin.position && self.settings.rules.keep(Rule::HeirsTell) {
            (origin.settled, origin.last_settled) = (origin.position, origin.position);
            self.moved = true;
            self.links.peers.values_mut().for_each(|peer| peer.gossip = true);
            self.links.restless = true;
        }
    }

    /// What others know of removed sites is as true as if these had said it.
    fn hear_settled(&mut self, received: &[Received], now: Moment) {
        if !self.settings.rules.keep(Rule::HeirsTell) {
            return;
        }
        for it in received.iter().filter(|it| it.settled > 0) {
            if self.links.membership.removed.contains_key(&it.site) {
                self.settle_learned(it.site, it.settled, now);
            }
        }
    }

    /// What all that stay have of a removed site is settled: nobody else can come with more.
    pub(super) fn settle_removed(&mut self, now: Moment) {
        let removed = self.links.membership.removed.keys().copied();
        let closed: Vec<SiteId> = removed.filter(|site| self.links.is_closed(*site)).collect();
        if closed.is_empty() {
            return;
        }
        let acknowledged = self.all_have_of_own();
        // A count of another one that was removed may be on its way, and of the two one is to be taken back.
        let are_all_here =
            self.links.all_removed_are_closed() || !self.settings.rules.keep(Rule::RemovedTogether);
        for site in closed {
            let Some(origin) = self.links.origins.get(&site) else { continue };
            let origin_position = origin.position;
            let open: Vec<_> = origin.open.iter().map(|(number, entry)| (*number, entry.hash)).collect();
            if open.is_empty() {
                if are_all_here && self.links.answers_for(site) && self.links.all_have(site) {
                    self.tell_settled(site);
                }
                continue;
            }
            if self.links.answers_for(site) {
                open.iter().for_each(|(_, hash)| self.reconcile(*hash));
                self.balance_estate(site);
            }
            let all_have_stream = self.links.all_have(site);
            let (position, all_have_removed) = (origin_position, self.links.all_have_removed());
            for (number, hash) in open {
                // What came ahead of the stream came with another one's, of a site that is gone too.
                let all_have_it = if number <= position { all_have_stream } else { all_have_removed };
                let counts = self.links.counts(hash);
                let mut others = counts.iter().skip(1);
                let others_are_cancelled =
                    others.all(|(site, _)| self.all_know_it_taken_back(hash, *site, acknowledged));
                if are_all_here && all_have_it && others_are_cancelled && !self.is_taken_in_part(site, number)
                {
                    reached(Branch::SettledRemoved);
                    let settled = self.retire_from_now_on(site, number, now);
                    // Others of its operations may be open: no position says which ones are settled.
                    let stored = settled.filter(|_| self.settings.rules.keep(Rule::SettledIsStored));
                    self.counted.extend(stored);
                }
            }
        }
    }
}
