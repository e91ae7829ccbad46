//! What edges and relays have counted and what became of it, told apart from what the engine knows: each token that was
//! ever sent, whether a server has it, and what is lost with those whose disks are lost.

use super::number_of;
use quipu_engine::handoff::{Deltas, Name};
use std::collections::{BTreeMap, BTreeSet};

/// A token: source, shard, target, and the clock of the target.
pub(in crate::system) type TokenKey = (Name, u16, Name, u64);

/// How an edge or a relay has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::system) enum Ended {
    /// It had handed over everything.
    Retired,
    /// With its disk.
    Lost,
}

/// How it stands with one for whom there was a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::system) enum Standing {
    /// It is there, or whoever has taken its place.
    There,
    /// A site that is gone; of what it has counted others know this much.
    Gone {
        known: u64,
        /// And so is its first heir, who may have counted it since.
        is_heir_gone: bool,
    },
    /// A relay that nobody answers for: its heir is gone.
    Orphaned {
        /// It has heard that its heir had taken over, and others knew it.
        has_left: bool,
    },
}

/// One edge or relay, from its beginning to its end.
#[derive(Debug)]
struct Life {
    counted: BTreeMap<usize, i128>,
    /// Perhaps stored.
    doubts: Vec<(usize, i64)>,
    ended: Option<Ended>,
}

/// A token that was sent.
#[derive(Debug)]
struct Sent {
    source: Name,
    deltas: Vec<(usize, i64)>,
    /// How far its target's stream was when it was first sent: it counts after that.
    after: u64,
    /// And how far when it was known to be counted.
    upto: Option<u64>,
    /// Its target has said that it has it.
    is_taken: bool,
    /// Others that have said that they have a copy.
    copies: BTreeSet<Name>,
    /// A server died with it, or could not count it: it may have it.
    perhaps: bool,
    /// The last words of its source have it, and a site has said that it keeps them.
    is_left: bool,
}

/// What the edges and relays together have brought to a counter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Balance {
    pub(in crate::system) certain: i128,
    pub(in crate::system) doubts: Vec<i64>,
}

/// The accounts.
#[derive(Debug, Default)]
pub(in crate::system) struct Ledger {
    lives: BTreeMap<Name, Life>,
    tokens: BTreeMap<TokenKey, Sent>,
    /// Slots that may stay open: who has them, its shard, and for whom.
    leftovers: BTreeSet<(Name, u16, Name)>,
    /// Where each has asked for a slot.
    asked: BTreeSet<(Name, u16, Name)>,
}

fn amounts(deltas: &Deltas) -> Vec<(usize, i64)> {
    let amount = |added: u64, subtracted: u64| {
        i64::try_from(i128::from(added) - i128::from(subtracted)).expect("small amounts")
    };
    deltas.iter().map(|(key, pn)| (number_of(key.bytes()), amount(pn.added, pn.subtracted))).collect()
}

impl Ledger {
    /// Somebody begins.
    pub(in crate::system) fn begin(&mut self, name: Name) {
        self.lives.insert(name, Life { counted: BTreeMap::new(), doubts: Vec::new(), ended: None });
    }

    /// Somebody ends.
    pub(in crate::system) fn end(&mut self, name: Name, ended: Ended) {
        self.life(name).ended = Some(ended);
        if ended == Ended::Lost {
            let asked = self.asked.iter().filter(|(_, _, source)| *source == name);
            self.leftovers.extend(asked.copied());
        }
    }

    /// Somebody leaves, and a server may keep slots for it.
    pub(in crate::system) fn leaves_slots_at(&mut self, server: Name, source: Name) {
        let asked = self.asked.iter().filter(|(of, _, by)| *of == server && *by == source);
        self.leftovers.extend(asked.copied());
    }

    fn life(&mut self, name: Name) -> &mut Life {
        self.lives.get_mut(&name).expect("everybody has begun")
    }

    /// Somebody has counted, durably.
    pub(in crate::system) fn counted(&mut self, name: Name, key: usize, amount: i64) {
        *self.life(name).counted.entry(key).or_default() += i128::from(amount);
    }

    /// Somebody may have.
    pub(in crate::system) fn doubt(&mut self, name: Name, key: usize, amount: i64) {
        self.life(name).doubts.push((key, amount));
    }

    /// A token leaves its source, perhaps not for the first time.
    pub(in crate::system) fn sent(&mut self, token: TokenKey, deltas: &Deltas, after: u64) {
        self.tokens.entry(token).or_insert_with(|| Sent {
            source: token.0,
            deltas: amounts(deltas),
            after,
            upto: None,
            is_taken: false,
            copies: BTreeSet::new(),
            perhaps: false,
            is_left: false,
        });
    }

    /// A site has said that it keeps last words of which these are tokens.
    pub(in crate::system) fn left(&mut self, token: TokenKey) {
        if let Some(sent) = self.tokens.get_mut(&token) {
            sent.is_left = true;
        }
    }

    /// A server has said that it has a token; its stream is this far.
    pub(in crate::system) fn arrived(&mut self, token: TokenKey, at: Name, position: u64) {
        let Some(sent) = self.tokens.get_mut(&token) else { return };
        if at == token.2 {
            sent.is_taken = true;
            sent.upto = Some(sent.upto.map_or(position, |upto| upto.min(position)));
        } else {
            sent.copies.insert(at);
        }
    }

    /// A server may have it.
    pub(in crate::system) fn may_have_arrived(&mut self, token: TokenKey) {
        if let Some(sent) = self.tokens.get_mut(&token) {
            sent.perhaps = true;
        }
    }

    /// Somebody asks a server for a slot.
    pub(in crate::system) fn asks(&mut self, server: Name, shard: u16, source: Name) {
        self.asked.insert((server, shard, source));
    }

    /// A server may keep a slot that its source does not know of.
    pub(in crate::system) fn may_stay(&mut self, server: Name, shard: u16, source: Name) {
        self.leftovers.insert((server, shard, source));
    }

    /// How many slots may stay open for ever, or as long as somebody is there.
    pub(in crate::system) fn leftovers(&self) -> u64 {
        let is_there = |source: &Name| self.lives.get(source).is_some_and(|life| life.ended.is_none());
        let in_use = self.asked.iter().filter(|(_, _, source)| is_there(source));
        self.leftovers.iter().chain(in_use).collect::<BTreeSet<_>>().len() as u64
    }

    /// By counter, what must have come to the sites by now, and what may have. Rows of bounded counters may have come ahead
    /// of the stream of a site that is gone. So many sites have lost their disks.
    pub(in crate::system) fn balance(
        &self,
        standing: impl Fn(Name, u16) -> Standing,
        is_bounded: impl Fn(usize) -> bool,
        lost: usize,
    ) -> BTreeMap<usize, Balance> {
        let mut all: BTreeMap<usize, Balance> = BTreeMap::new();
        for life in self.lives.values().filter(|life| life.ended != Some(Ended::Lost)) {
            for (key, amount) in &life.counted {
                all.entry(*key).or_default().certain += amount;
            }
            for (key, amount) in &life.doubts {
                all.entry(*key).or_default().doubts.push(*amount);
            }
        }
        for (token, sent) in &self.tokens {
            let ended = self.lives.get(&sent.source).and_then(|life| life.ended);
            let was_in = if ended == Some(Ended::Lost) { Fate::Not } else { Fate::Counted };
            let target = standing(token.2, token.1);
            // What an edge has left to a site outlives any one site.
            let is_safe = ended == Some(Ended::Retired) && sent.is_left && lost < 2;
            let is_orphaned = matches!(target, Standing::Orphaned { .. });
            let fate = match is_safe && !is_orphaned {
                true => Fate::Counted,
                false => sent.fate(ended, target, &|name| standing(name, token.1)),
            };
            let is_gone = target != Standing::There;
            for (key, amount) in &sent.deltas {
                let balance = all.entry(*key).or_default();
                let may_be_ahead = fate == Fate::Not && is_gone && is_bounded(*key);
                let fate = if may_be_ahead { Fate::Perhaps } else { fate };
                let change = i128::from(fate == Fate::Counted) - i128::from(was_in == Fate::Counted);
                balance.certain += change * i128::from(*amount);
                balance.doubts.extend((fate == Fate::Perhaps).then_some(*amount));
            }
        }
        all
    }
}

/// What became of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Counted,
    Perhaps,
    Not,
}

impl Sent {
    fn fate(&self, source: Option<Ended>, target: Standing, standing: &dyn Fn(Name) -> Standing) -> Fate {
        let is_kept = self.copies.iter().any(|name| standing(*name) == Standing::There);
        let source_has_it = match source {
            // It says it until somebody has it.
            None => true,
            // It has left it to those who said that they had a copy. If the disks of all of these were lost before they could
            // pass it on, so is the token: nobody else knew of it.
            Some(Ended::Retired) => self.copies.is_empty(),
            Some(Ended::Lost) => false,
        };
        // An heir that is gone, too, may have said that it had counted it; or the one that is gone has kept its last words
        // and could not count it.
        let is_left = source == Some(Ended::Retired) && self.copies.is_empty() && self.perhaps;
        let is_heir_gone = matches!(target, Standing::Gone { is_heir_gone: true, .. });
        let was_heard =
            is_left || is_heir_gone || self.copies.iter().any(|name| standing(*name) != Standing::There);
        let is_somewhere = source_has_it || self.is_taken || is_kept;
        let may_be = is_somewhere || self.perhaps || !self.copies.is_empty();
        match target {
            Standing::There if is_somewhere => Fate::Counted,
            Standing::There if may_be => Fate::Perhaps,
            Standing::Gone { known, .. } if self.upto.is_some_and(|upto| upto <= known) => Fate::Counted,
            // What the one that is gone may have counted, nobody has heard of.
            Standing::Gone { known, .. } if self.after >= known && !may_be => Fate::Not,
            Standing::Orphaned { .. } if self.is_taken => Fate::Counted,
            // The heir counts it, if the one that is gone has not.
            Standing::Gone { .. } | Standing::Orphaned { has_left: true }
                if !self.is_taken && is_somewhere && !was_heard =>
            {
                Fate::Counted
            }
            Standing::Gone { .. } | Standing::Orphaned { .. } if may_be => Fate::Perhaps,
            _ => Fate::Not,
        }
    }
}
