//! The checks. Each looks at what sites are asked and answer, keeps accounts of its own, and knows nothing of clients,
//! networks or faults.
//!
//! - [`counting`]: every operation counts once, and in the end every site says so.
//! - [`reads`]: counters that only grow never go backwards at a site, and include its own writes.
//! - [`bounds`]: no bound is crossed, at any site, at any time, or in the sum over all sites.
//! - [`answers`]: what is said about an operation is always the same.
//! - [`mistakes`]: what cannot be done is refused.
//! - [`resets`]: what a reset has seen is gone, and what it cannot have seen is there.

pub(super) mod answers;
pub(super) mod bounds;
pub(crate) mod counting;
pub(super) mod mistakes;
pub(super) mod reads;
pub(super) mod resets;

use super::calls::{Call, Key};
use super::claims::{Acked, Fate};
use super::fleet::{Balance, Who};
use super::plan::Plan;
use crate::core::Millis;
use quipu_engine::{Reply, SiteId};
use std::collections::BTreeMap;

/// A call at a site.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) now: Millis,
    /// The number of this happening: what happened before has a lower one.
    pub(crate) order: u64,
    pub(crate) site: usize,
    /// As which the site goes: a copy that was put back goes as another one.
    pub(crate) id: SiteId,
    pub(crate) key: &'a Key,
    pub(crate) call: &'a Call,
    pub(crate) attempt: usize,
}

impl Seen<'_> {
    /// The counter's name, for people.
    pub(crate) fn name(&self) -> String {
        String::from_utf8_lossy(&self.key.name).into_owned()
    }
}

/// What all sites say in the end, when everything has settled.
pub(crate) struct Final<'a> {
    pub(crate) keys: &'a [Key],
    /// The sites that are left.
    pub(crate) sites: &'a [usize],
    /// By counter, then by site, in that order.
    pub(crate) values: &'a [Vec<Option<i64>>],
    /// Was the counter created with bounds?
    pub(crate) bounded: &'a [bool],
    /// By counter, what waits for rights.
    pub(crate) parked: &'a [i128],
    /// By counter, what edges and relays have brought.
    pub(crate) brought: &'a BTreeMap<usize, Balance>,
}

/// One check. An error says what does not hold.
pub(crate) trait Check {
    /// A site takes a call.
    fn taken(&mut self, _: Seen<'_>) {}
    /// A site answers: all it says is durable.
    fn released(&mut self, _: Seen<'_>, _: &Reply) -> Result<(), String> {
        Ok(())
    }
    /// A site dies with a call; in doubt, it may have been stored.
    fn lost(&mut self, _: Seen<'_>, _doubt: bool) {}
    /// A site that had acknowledged this is lost, and others may not know it.
    fn unsure(&mut self, _: Seen<'_>, _: Acked) {}
    /// It turns out what became of something that a site had acknowledged and does not know any more.
    fn forgotten(&mut self, _: Seen<'_>, _: Acked, _: Fate) {}
    /// A site comes back with an earlier state, that of a time, or is lost; renamed, as another one.
    fn set_back(&mut self, _site: usize, _renamed: bool, _state_of: Millis) {}
    /// An edge or a relay is asked to count.
    fn issued(&mut self, _key: usize, _: &Key, _amount: i64) {}
    /// An edge or a relay shows a value.
    fn shown_elsewhere(&self, _: Who, _key: usize, _: &Key, _value: i64) -> Result<(), String> {
        Ok(())
    }
    /// The end.
    fn finished(&mut self, _: &Final<'_>) -> Result<(), String> {
        Ok(())
    }
}

/// All checks.
pub(crate) fn all(plan: &Plan) -> Vec<Box<dyn Check>> {
    vec![
        Box::new(counting::Counting::default()),
        Box::new(reads::Reads::new(plan)),
        Box::new(bounds::Bounds::default()),
        Box::new(answers::Answers::new(plan)),
        Box::new(mistakes::Mistakes),
        Box::new(resets::Resets::default()),
    ]
}

/// The entry of a list that grows as needed.
pub(crate) fn at<T: Default>(list: &mut Vec<T>, index: usize) -> &mut T {
    if list.len() <= index {
        list.resize_with(index + 1, T::default);
    }
    &mut list[index]
}
