//! The books of a trace: what was issued, where it is, and what must not happen to it.

use super::conduct::Replica;
use crate::handoff::{Desk, Token};
use std::collections::BTreeMap;
use std::fmt;

/// A condition that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The seed of the trace.
    pub seed: u64,
    /// After how many steps.
    pub step: u64,
    /// Which condition, and how.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, step {}: {}", self.seed, self.step, self.what)
    }
}

impl std::error::Error for Violation {}

/// What a replica was like before a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before {
    own: u64,
    val: u64,
}

impl Before {
    pub(super) fn of(replica: &Replica) -> Self {
        Before { own: *replica.own(), val: *replica.fetch() }
    }
}

/// The name of a slot: its target and the target's clock.
type SlotName = (u32, u64);

/// A token whose slot is open, and who holds a copy of it.
#[derive(Debug, Clone)]
struct Enabled {
    source: u32,
    value: u64,
    holders: Vec<u32>,
}

/// The books.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) issued: u64,
    /// Σ own values of all replicas.
    held: u64,
    /// Σ values of enabled tokens.
    in_tokens: u64,
    enabled: BTreeMap<SlotName, Enabled>,
    /// The source clock that the next token of a source will have at least.
    next_token: BTreeMap<u32, u64>,
}

impl Books {
    /// Checks one replica after a step that only it took. Returns how many tokens it made.
    pub(super) fn after(&mut self, before: Before, replica: &Replica) -> Result<u64, String> {
        let (own, val, id) = (*replica.own(), *replica.fetch(), *replica.id());
        if val > self.issued {
            return Err(format!("replica {id} reports {val}, but only {} were issued", self.issued));
        }
        if val < before.val {
            return Err(format!("replica {id} reported {} and then {val}", before.val));
        }
        self.held = self.held + own - before.own;
        self.strike_filled(replica);
        let made = self.enter_tokens(replica)?;
        self.balance()?;
        Ok(made)
    }

    /// A replica is gone. Nothing may go with it.
    pub(super) fn left(&mut self, replica: &Replica) -> Result<(), String> {
        let id = *replica.id();
        self.held -= *replica.own();
        self.next_token.remove(&id);
        for (slot, token) in &mut self.enabled {
            token.holders.retain(|&holder| holder != id);
            if token.holders.is_empty() {
                return Err(format!("replica {id} left with the last copy of the token for slot {slot:?}"));
            }
        }
        self.balance()
    }

    pub(super) fn nothing_is_under_way(&self) -> bool {
        self.enabled.is_empty()
    }

    fn balance(&self) -> Result<(), String> {
        let (issued, held, in_tokens) = (self.issued, self.held, self.in_tokens);
        if issued == held + in_tokens {
            return Ok(());
        }
        Err(format!("{issued} were issued, but replicas hold {held} and enabled tokens {in_tokens}"))
    }

    /// Tokens whose slots at the desks of this replica are no longer open are not enabled any more. If they
    /// were not counted either, the books do not balance.
    fn strike_filled(&mut self, replica: &Replica) {
        self.strike_filled_at(*replica.id(), replica.handshake().desk());
        for (&name, desk) in replica.handshake().inherited() {
            self.strike_filled_at(name, desk);
        }
    }

    fn strike_filled_at(&mut self, name: u32, desk: &Desk<u32>) {
        let filled: Vec<SlotName> = self
            .enabled
            .range((name, 0)..=(name, u64::MAX))
            .filter(|((_, clock), token)| !desk.is_open(&token.source, *clock))
            .map(|(&slot, _)| slot)
            .collect();
        for slot in filled {
            let token = self.enabled.remove(&slot).expect("found above");
            self.in_tokens -= token.value;
        }
    }

    /// Enters new tokens and new copies. An enabled token that this replica held must still be there.
    fn enter_tokens(&mut self, replica: &Replica) -> Result<u64, String> {
        let id = *replica.id();
        let mut made = 0;
        for token in replica.handshake().tokens() {
            let next = self.next_token.entry(id).or_default();
            if token.slot.source_clock >= *next {
                *next = token.slot.source_clock + 1;
                made += 1;
                self.in_tokens += token.value;
                let entry = Enabled { source: id, value: token.value, holders: Vec::new() };
                self.enabled.insert((token.target, token.slot.target_clock), entry);
            }
        }
        for (slot, token) in &mut self.enabled {
            let holds = held_tokens(replica).any(|held| (held.target, held.slot.target_clock) == *slot);
            let held = token.holders.contains(&id);
            let left_to_an_heir = !replica.handshake().is_active() && token.holders.len() > 1;
            if held && !holds && left_to_an_heir {
                token.holders.retain(|&holder| holder != id);
            } else if held && !holds {
                return Err(format!("replica {id} dropped the token for slot {slot:?} before it was taken"));
            }
            if holds && !held {
                token.holders.push(id);
            }
        }
        Ok(made)
    }
}

fn held_tokens(replica: &Replica) -> impl Iterator<Item = &Token<u32, u64>> {
    let handshake = replica.handshake();
    let in_notices = handshake.notices().flat_map(|(notice, _)| notice.tokens());
    handshake.tokens().iter().chain(handshake.cached()).chain(in_notices)
}
