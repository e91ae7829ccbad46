//! The checks of a run, apart from the run: each is given what was sent, answered and seen, and says what is wrong with it.
//! Those of a single operation are in [`books`](super::books); [`teeth`](super::teeth) feeds all of them with histories
//! that are wrong.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    books::{Operation, Plain, Told},
    clients::BOUNDED_MAX,
};

/// By client and id, where an operation is counted; `None` if it is not.
pub(crate) type Outcomes = BTreeMap<(String, u64), Option<Told>>;

/// A counter with bounds is never shown beyond them.
pub(crate) fn bounds(site: u16, key: &str, value: i64) -> Result<(), String> {
    match (0..=BOUNDED_MAX).contains(&value) {
        true => Ok(()),
        false => Err(format!("site {site} shows {value} for {key}")),
    }
}

/// A site shows at least the value of a growing counter that it had shown before it was asked.
pub(crate) fn rises(site: u16, key: &str, floor: i64, value: i64) -> Result<(), String> {
    match value >= floor {
        true => Ok(()),
        false => Err(format!("site {site} tells {value} of {key}, and had told {floor} before")),
    }
}

/// The values of one counter at one site, in the order in which a watcher has received them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Watched {
    pub(crate) events: u64,
    /// By how much the value went down, in all.
    pub(crate) down: i64,
    last: i64,
}

impl Watched {
    /// Two watchers, each of its site: all events, and the larger fall.
    pub(crate) fn together(self, other: Self) -> Self {
        Self { events: self.events + other.events, down: self.down.max(other.down), ..self }
    }

    /// The site has told this value to somebody before the next event.
    pub(crate) fn at_least(&mut self, floor: i64) {
        self.last = self.last.max(floor);
    }

    /// The next event. `may_fall`: operations on this counter can be taken back.
    pub(crate) fn sees(&mut self, site: u16, key: &str, value: i64, may_fall: bool) -> Result<(), String> {
        let last = std::mem::replace(&mut self.last, value);
        self.events += 1;
        self.down += (last - value).max(0);
        match value < last && !may_fall {
            true => Err(format!("a watcher of {key} at site {site} sees {value} after {last}")),
            false => Ok(()),
        }
    }
}

/// A counter to which nobody subtracts goes down by no more than was taken back.
pub(crate) fn falls(key: &str, down: i64, taken_back: i64) -> Result<(), String> {
    match down <= taken_back {
        true => Ok(()),
        false => Err(format!("{key} went down by {down} at one site, and {taken_back} was taken back")),
    }
}

/// All sites tell the same of an operation: where it is counted, or that it is not; and it is counted if any site has
/// acknowledged it.
pub(crate) fn agreed(told: &[Option<Told>], operation: &Operation) -> Result<Option<Told>, String> {
    let wrong = |what: &str| Err(format!("{what}: {told:?} is told of {operation}"));
    let mut places = BTreeSet::new();
    let mut counted = None;
    for told in told {
        places.insert(match told {
            Some(Told::Counted { site, .. }) => {
                counted.clone_from(told);
                Some(*site)
            }
            Some(Told::Cancelled { site }) => Some(*site),
            Some(Told::Unknown) => None,
            _ => return wrong("not every site tells an outcome that is settled"),
        });
    }
    if places.len() > 1 {
        return wrong("sites differ");
    }
    match (operation.is_acknowledged(), &counted) {
        (true, None) => wrong("no site knows of an operation that was acknowledged"),
        _ => Ok(counted),
    }
}

/// After all sites were killed they tell the same outcomes as before.
pub(crate) fn unchanged(before: &Outcomes, after: &Outcomes) -> Vec<String> {
    let changed = before.iter().filter(|(name, told)| after.get(*name) != Some(told));
    changed
        .map(|(name, told)| {
            format!("{name:?}: {told:?} was told before all were killed, and {:?} after", after.get(name))
        })
        .collect()
}

/// Each site ends with what was counted.
pub(crate) fn ends_with(key: &str, values: &BTreeMap<u16, i64>, expected: i64) -> Vec<String> {
    let wrong = values.iter().filter(|(_, value)| **value != expected);
    wrong
        .map(|(site, value)| format!("site {site} ends with {value} for {key}, and {expected} was counted"))
        .collect()
}

/// Sites end with the same, and it is what was acknowledged and some of what was not answered.
pub(crate) fn ends_within(key: &str, values: &BTreeMap<u16, i64>, plain: &Plain) -> Result<(), String> {
    let shown: BTreeSet<i64> = values.values().copied().collect();
    match shown.len() == 1 && shown.iter().all(|value| plain.allows(*value)) {
        true => Ok(()),
        false => Err(format!("sites end with {values:?} for {key}, and it was {plain:?}")),
    }
}
