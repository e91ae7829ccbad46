//! How far a counter can go.

use quipu_crdt::{Pn, bounded::Right};

use super::saturated;
use crate::{Add, Beyond, Refusal, SiteId, counter::Counter};

/// How far a counter can go in the direction of an add.
pub(super) struct Room {
    pub(super) value: i128,
    /// What the range of numbers allows.
    in_range: u128,
    /// What the limits of the command and the rights of this site allow, and the limit that says so.
    within: Option<(u128, i64)>,
    /// Rights of this site are what it lacks.
    lacks: Option<Lack>,
    is_bounded: bool,
}

/// Rights that a site would need to count an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lack {
    pub(super) right: Right,
    pub(super) amount: u64,
}

/// The right that a change of this amount takes.
pub(super) fn right_for(amount: i64) -> Right {
    if amount < 0 { Right::ToSubtract } else { Right::ToAdd }
}

/// The rights of a site that it may use: those made by operations that are not settled wait.
pub(super) fn usable(
    bounded: &quipu_crdt::Bounded<SiteId>,
    right: Right,
    site: SiteId,
    provisional: Pn,
) -> Option<u128> {
    let waiting = match right {
        Right::ToSubtract => provisional.added,
        Right::ToAdd => provisional.subtracted,
    };
    Some(bounded.rights(right, &site)?.saturating_sub(u128::from(waiting)))
}

impl Room {
    /// `provisional` is what operations of this site that are not settled have counted.
    pub(super) fn of(counter: Option<&Counter>, site: SiteId, provisional: Pn, add: Add) -> Self {
        let value = counter.filter(|counter| counter.exists()).map_or(0, Counter::value);
        let down = add.amount < 0;
        let distance = |limit: i64| {
            let distance = if down { value - i128::from(limit) } else { i128::from(limit) - value };
            u128::try_from(distance).unwrap_or(0)
        };
        let asked = if down { add.lower } else { add.upper };
        let mut within = asked.map(|limit| (distance(limit), limit));
        let mut lacks = None;
        if let Some(Counter::Bounded(bounded)) = counter {
            let definition = bounded.definition();
            let right = right_for(add.amount);
            let bound = if down { definition.minimum() } else { definition.maximum() };
            if let (Some(rights), Some(bound)) = (usable(bounded, right, site, provisional), bound) {
                let needed = u128::from(add.amount.unsigned_abs());
                let is_tighter = within.is_none_or(|(distance, _)| rights <= distance);
                if needed > rights && is_tighter {
                    lacks = Some(Lack { right, amount: add.amount.unsigned_abs() });
                }
                within = Some(within.map_or((rights, bound), |within| within.min((rights, bound))));
            }
        }
        let in_range = distance(if down { i64::MIN } else { i64::MAX });
        let is_bounded = matches!(counter, Some(Counter::Bounded(_)));
        Self { value, in_range, within, lacks, is_bounded }
    }

    pub(super) fn is_bounded(&self) -> bool {
        self.is_bounded
    }

    /// What the site lacks to count all of it, if it is rights.
    pub(super) fn lacks(&self) -> Option<Lack> {
        self.lacks
    }

    /// How much of the amount is counted.
    pub(super) fn admit(&self, add: Add) -> Result<i64, Refusal> {
        let amount = u128::from(add.amount.unsigned_abs());
        let (available, limit) = match self.within {
            Some((available, limit)) if available <= self.in_range => (available, Some(limit)),
            _ => (self.in_range, None),
        };
        if amount <= available {
            return Ok(add.amount);
        }
        match (add.beyond, limit) {
            (Beyond::Saturate, _) => {
                let applied = i64::try_from(available).expect("less than the amount");
                Ok(if add.amount < 0 { -applied } else { applied })
            }
            (Beyond::Skip, Some(_)) => Ok(0),
            (Beyond::Refuse, Some(limit)) => Err(Refusal::OutOfBounds {
                amount: add.amount,
                limit,
                value: saturated(self.value),
                available: u64::try_from(available).expect("less than the amount"),
                elsewhere: Vec::new(),
                in_all: None,
            }),
            (Beyond::Refuse | Beyond::Skip, None) => Err(Refusal::Overflow),
        }
    }
}
