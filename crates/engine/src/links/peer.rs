//! What is known of a peer, and how what is sent to it is paced. All of it may be forgotten: the peer tells it again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::message::{Hearsay, Message, Received, Swept};
use crate::SiteId;

/// So many parts may be under way to a peer before it acknowledges one.
const PARTS_UNDER_WAY_MAX: usize = 8;
/// Small messages to a peer are so far apart, in milliseconds.
const PACE_MS: u64 = 2;
/// What is not acknowledged by then is sent again, in milliseconds; later and later while nothing comes back.
const RESEND_MS: u64 = 400;
const RESEND_MS_MAX: u64 = 3_200;

/// A peer.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    pub(crate) connected: bool,
    /// How far it has got with each stream, as it told.
    received: BTreeMap<SiteId, u64>,
    /// And with all rows of a stream.
    swept: BTreeMap<SiteId, Swept>,
    /// What it last said of itself.
    said: Said,
    /// Whom it has a link to.
    direct: BTreeSet<SiteId>,
    /// The membership that it acts under.
    pub(crate) epoch: u64,
    /// How long its stream was when it first spoke under the present membership.
    pub(crate) listed_at: Option<u64>,
    told: Told,
    /// Parts under way, by stream and the position that they go to.
    under_way: VecDeque<(SiteId, u64)>,
    sent: BTreeMap<SiteId, u64>,
    /// By stream, entries of other streams that were sent with its parts, and that it does not have by theirs.
    carried: BTreeMap<SiteId, SentAlong>,
    /// By stream, the last parts without a gap that were taken in from it: after which position, and up to which.
    taken: BTreeMap<SiteId, (u64, u64)>,
    sent_ms: u64,
    /// And one that told how far this site has got.
    told_ms: u64,
    /// Since when it has acknowledged nothing of what is under way.
    waiting_ms: u64,
    resend_ms: u64,
    /// It is to hear from us, whether or not there is something new.
    pub(crate) owed: bool,
    /// It was told that our operations up to here are settled.
    pub(crate) settled_told: u64,
    /// There is something that it may hear of with the next message, or a little later.
    pub(crate) gossip: bool,
    /// The piece of all rows that was sent last.
    pub(crate) sweep_sent: Option<(SiteId, Swept)>,
}

/// Entries that were sent with parts of a stream.
#[derive(Debug)]
struct SentAlong {
    /// The first of these parts began here.
    since: u64,
    entries: BTreeSet<(SiteId, u64)>,
}

/// What a site says of itself in one breath.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    /// Its own stream was so long
    position: u64,
    /// when it had got so far with those of others.
    received: BTreeMap<SiteId, u64>,
    settled: u64,
    epoch: u64,
}

impl Said {
    /// It has said something else. All of it is true for ever, and a site that was restarted may have forgotten what it said
    /// of its operations. Returns whether something is new.
    fn merge(&mut self, other: Self) -> bool {
        let mut is_news = other.position > self.position;
        is_news |= self.go_on(other.position, other.settled, other.epoch);
        for (site, position) in other.received {
            let before = self.received.get(&site).copied();
            is_news |= before.is_none_or(|before| before < position);
            self.received.insert(site, before.unwrap_or(0).max(position));
        }
        is_news
    }

    /// Its stream is longer now, and its operations up to here are settled, whatever it has got of others. Returns whether
    /// others, who do not hear it, need to know.
    fn go_on(&mut self, position: u64, settled: u64, epoch: u64) -> bool {
        let is_news = settled > self.settled || epoch > self.epoch;
        self.position = self.position.max(position);
        self.settled = self.settled.max(settled);
        self.epoch = self.epoch.max(epoch);
        is_news
    }
}

fn positions(received: &[Received]) -> BTreeMap<SiteId, u64> {
    received.iter().map(|received| (received.site, received.position)).collect()
}

/// From when on a peer's silence means that it has not counted an operation of ours: it had acknowledged our stream up to
/// a position when its own was so long, and all of that has arrived here.
#[derive(Debug, Default)]
struct Told {
    /// What has been established.
    settled: u64,
    /// What will be, by the position that its stream must arrive up to: the first and the last that were told.
    pending: Vec<(u64, u64)>,
}

impl Peer {
    /// Takes in what the peer says of itself; `own` is this site, `epoch` that of the present membership. Returns whether
    /// others, who do not hear it, would learn something.
    pub(crate) fn hear(&mut self, message: &Message, own: SiteId, epoch: u64) -> bool {
        if message.received.is_empty() {
            // What it said before is true still, now that its stream is longer. But that was not said under the membership that
            // it acts under by now: it may have heard more of a removed site since.
            if message.epoch >= epoch {
                self.listed_at.get_or_insert(message.position);
            }
            return self.said.go_on(message.position, message.settled, self.said.epoch);
        }
        for received in &message.received {
            match &received.swept {
                Some(swept) => self.swept.insert(received.site, swept.clone()),
                None => self.swept.remove(&received.site),
            };
        }
        self.direct = message.direct.iter().copied().collect();
        let Message { position, settled, epoch: theirs, .. } = *message;
        let said = Said { position, received: positions(&message.received), settled, epoch: theirs };
        let is_news = self.learn(said, own, epoch);
        let before = self.under_way.len();
        let received = &self.received;
        self.under_way.retain(|(site, to)| received.get(site).is_none_or(|position| position < to));
        self.carried.retain(|_, along| {
            let lacks =
                |(site, number): &(_, u64)| received.get(site).is_none_or(|position| position < number);
            along.entries.retain(lacks);
            !along.entries.is_empty()
        });
        if self.under_way.len() < before {
            self.resend_ms = RESEND_MS;
            self.waiting_ms = self.sent_ms;
        }
        is_news
    }

    /// Takes in what somebody else has heard it say. Returns as [`Self::hear`].
    pub(crate) fn overhear(&mut self, hearsay: &Hearsay, own: SiteId, epoch: u64) -> bool {
        let Hearsay { position, settled, epoch: theirs, .. } = *hearsay;
        let said = Said { position, received: positions(&hearsay.received), settled, epoch: theirs };
        self.learn(said, own, epoch)
    }

    /// Each statement is true for ever, whenever it arrives.
    fn learn(&mut self, said: Said, own: SiteId, epoch: u64) -> bool {
        for (site, received) in &said.received {
            let position = self.received.entry(*site).or_default();
            *position = (*received).max(*position);
        }
        if let Some(received) = said.received.get(&own) {
            self.tell(*received, said.position);
        }
        self.hear_epoch(said.epoch, said.position, epoch);
        self.said.merge(said)
    }

    /// It acts under this membership, and its stream is so long; `epoch` is that of the present one.
    fn hear_epoch(&mut self, theirs: u64, position: u64, epoch: u64) {
        if theirs >= epoch {
            self.listed_at.get_or_insert(position);
        }
        self.epoch = self.epoch.max(theirs);
    }

    /// What it said last, for whoever does not hear it.
    pub(crate) fn hearsay(&self, site: SiteId) -> Option<Hearsay> {
        let Said { position, received, settled, epoch } = &self.said;
        let received = received.iter().map(|(site, position)| Received {
            site: *site,
            position: *position,
            settled: 0,
            swept: None,
            writer: None,
        });
        let hearsay = Hearsay {
            site,
            position: *position,
            received: received.collect(),
            settled: *settled,
            epoch: *epoch,
        };
        (!hearsay.received.is_empty()).then_some(hearsay)
    }

    /// It had got so far with our stream when its own was so long.
    fn tell(&mut self, received: u64, position: u64) {
        if received <= self.told.settled || self.told.pending.contains(&(position, received)) {
            return;
        }
        self.told.pending.truncate(1);
        self.told.pending.push((position, received));
    }

    /// Up to where our stream is settled with this peer, of whose own all up to `arrived` is here.
    pub(crate) fn settled_with(&mut self, arrived: u64) -> u64 {
        let Told { settled, pending } = &mut self.told;
        pending.retain(|(position, received)| {
            let is_established = *position <= arrived;
            if is_established {
                *settled = (*settled).max(*received);
            }
            !is_established
        });
        *settled
    }

    /// Is all that it had written when it last spoke here, if all up to `arrived` is?
    pub(crate) fn is_heard_out(&self, arrived: u64) -> bool {
        self.said.position <= arrived
    }

    pub(crate) fn received(&self, site: SiteId) -> u64 {
        self.received.get(&site).copied().unwrap_or(0)
    }

    /// Where it is in a stream, and where it will be when it gets what is under way.
    pub(crate) fn positions(&self, site: SiteId) -> impl Iterator<Item = u64> {
        let under_way = self.under_way.iter().filter(move |(stream, _)| *stream == site);
        under_way.map(|(_, to)| *to).chain([self.received(site)])
    }

    pub(crate) fn swept(&self, site: SiteId) -> Option<&Swept> {
        self.swept.get(&site)
    }

    /// Does it hear of this site without our help?
    pub(crate) fn hears(&self, site: SiteId) -> bool {
        self.direct.contains(&site)
    }

    /// What had arrived here when it told how far it had got may not have been stored: it has to say it again.
    pub(crate) fn forget_told(&mut self) {
        self.told = Told::default();
    }

    /// Everything may have been lost: begin from what it says that it has.
    pub(crate) fn begin(&mut self, connected: bool) {
        self.connected = connected;
        self.forget_under_way();
        self.sweep_sent = None;
        self.settled_told = 0;
        (self.sent_ms, self.told_ms) = (0, 0);
        self.resend_ms = RESEND_MS;
        self.owed = connected;
    }

    /// A stream is to be sent from where the peer is.
    pub(crate) fn begin_stream(&mut self, site: SiteId) {
        self.under_way.retain(|(other, _)| *other != site);
        self.sent.remove(&site);
        self.carried.remove(&site);
    }

    fn forget_under_way(&mut self) {
        self.under_way.clear();
        self.sent.clear();
        self.carried.clear();
    }

    /// Is this entry to be carried with the part of a stream that begins after `from`? Not if an earlier part carries it: then
    /// this one [leans](Self::leans) on that.
    pub(crate) fn carries(&mut self, stream: SiteId, from: u64, site: SiteId, number: u64) -> bool {
        let along =
            self.carried.entry(stream).or_insert_with(|| SentAlong { since: from, entries: BTreeSet::new() });
        along.entries.insert((site, number))
    }

    /// A part of a stream relies on what was carried with earlier ones: where the first of these began.
    pub(crate) fn leans(&self, stream: SiteId) -> Option<u64> {
        self.carried.get(&stream).map(|along| along.since)
    }

    /// Were all parts of a stream from one position to another taken in from this peer?
    pub(crate) fn has_given(&self, stream: SiteId, since: u64, to: u64) -> bool {
        self.taken.get(&stream).is_some_and(|(after, end)| *after <= since && *end == to)
    }

    /// A part of a stream was taken in from this peer.
    pub(crate) fn gives(&mut self, stream: SiteId, from: u64, to: u64) {
        let taken = self.taken.entry(stream).or_insert((from, from));
        *taken = if taken.1 == from { (taken.0, to) } else { (from, to) };
    }

    /// From where on a stream is to be sent; `None`: not now.
    pub(crate) fn next(&mut self, site: SiteId, position: u64) -> Option<u64> {
        let received = self.received(site);
        let sent = self.sent.entry(site).or_default();
        *sent = (*sent).max(received);
        (*sent < position && self.under_way.len() < PARTS_UNDER_WAY_MAX).then_some(*sent)
    }

    /// May a message go now?
    pub(crate) fn may_send(&self, now_ms: u64) -> bool {
        self.under_way.is_empty() || now_ms >= self.sent_ms + PACE_MS
    }

    /// What was not acknowledged is to be sent again?
    pub(crate) fn give_up_waiting(&mut self, now_ms: u64) -> bool {
        let is_late = !self.under_way.is_empty() && now_ms >= self.waiting_ms + self.resend_ms;
        if is_late {
            self.forget_under_way();
            self.resend_ms = (2 * self.resend_ms).min(RESEND_MS_MAX);
        }
        is_late
    }

    /// A part goes to the peer.
    pub(crate) fn send(&mut self, site: SiteId, to: u64, now_ms: u64) {
        if self.under_way.is_empty() {
            self.waiting_ms = now_ms;
        }
        self.under_way.push_back((site, to));
        self.sent.insert(site, to);
    }

    /// A message has gone. One that asks for rights and `tells` nothing else is no reason to be silent about the rest:
    /// there may be no end to those.
    pub(crate) fn sent_at(&mut self, now_ms: u64, tells: bool) {
        self.sent_ms = now_ms;
        if tells {
            self.told_ms = now_ms;
        }
        self.owed = false;
        self.gossip = false;
    }

    pub(crate) fn last_sent_ms(&self) -> u64 {
        self.sent_ms
    }

    /// When it should be looked at again, if something is under way.
    pub(crate) fn wake_ms(&self) -> Option<u64> {
        (!self.under_way.is_empty()).then_some(self.waiting_ms + self.resend_ms)
    }

    /// The time between two messages that only ask.
    pub(crate) fn ask_again_ms(&self) -> u64 {
        self.told_ms + RESEND_MS
    }

    pub(crate) fn pace_ms(&self) -> u64 {
        self.sent_ms + PACE_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_counts_when_all_that_was_told_with_it_has_arrived() {
        let mut peer = Peer::default();
        peer.tell(5, 10);
        assert_eq!(peer.settled_with(9), 0);
        peer.tell(6, 11);
        peer.tell(9, 30);
        assert_eq!(peer.settled_with(10), 5);
        assert_eq!(peer.settled_with(29), 5);
        assert_eq!(peer.settled_with(30), 9);
    }
}
