//! How a cluster stands at one moment, as it is shown.

use super::cable::Cable;
use std::{collections::BTreeMap, net::SocketAddr};

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Snapshot {
    pub(super) sites: Vec<SiteNow>,
    pub(super) links: Vec<LinkNow>,
    /// Those that changed last come first.
    pub(super) counters: Vec<CounterNow>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SiteNow {
    pub(super) number: u16,
    /// The number of its process, while it runs.
    pub(super) process: Option<u32>,
    pub(super) resp: SocketAddr,
    pub(super) http: SocketAddr,
    /// What it lacks of the streams of others: by how many positions it is behind whoever has most of them. Only those of
    /// which it lacks something. Unknown if it does not answer.
    pub(super) behind: Option<Behind>,
}

/// Positions, by the name of the site whose stream it is.
pub(super) type Behind = BTreeMap<String, u64>;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LinkNow {
    pub(super) one: u16,
    pub(super) other: u16,
    pub(super) cable: Cable,
    /// Both sites say so.
    pub(super) is_up: bool,
    /// How long the one that has heard less has heard nothing.
    pub(super) heard_seconds: Option<f64>,
    /// Bytes, in both directions.
    pub(super) passed: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CounterNow {
    pub(super) key: String,
    /// For each site.
    pub(super) cells: Vec<Cell>,
    pub(super) is_bounded: bool,
}

/// A counter at a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cell {
    /// The site does not answer.
    Unknown,
    /// The site does not know this counter yet.
    Absent,
    Known {
        value: i64,
        /// How much the site may still add by itself, if there is a maximum.
        rights_to_add: Option<u128>,
        /// How much it may still subtract, if there is a minimum.
        rights_to_subtract: Option<u128>,
    },
}

impl CounterNow {
    /// Whether sites that answer show different values.
    pub(super) fn differs(&self) -> bool {
        let mut values = self.cells.iter().filter_map(Cell::value);
        values.next().is_some_and(|first| values.any(|value| value != first))
    }
}

impl Cell {
    /// The value; what a site does not know yet is 0 to it.
    pub(super) fn value(&self) -> Option<i64> {
        match self {
            Self::Unknown => None,
            Self::Absent => Some(0),
            Self::Known { value, .. } => Some(*value),
        }
    }

    pub(super) fn rights_to_add(&self) -> Option<u128> {
        if let Self::Known { rights_to_add, .. } = self { *rights_to_add } else { None }
    }

    pub(super) fn rights_to_subtract(&self) -> Option<u128> {
        if let Self::Known { rights_to_subtract, .. } = self { *rights_to_subtract } else { None }
    }

    /// As it is shown.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Unknown => "?".to_owned(),
            Self::Absent => "-".to_owned(),
            Self::Known { value, .. } => value.to_string(),
        }
    }
}

impl SiteNow {
    /// What it lacks: `0`, or site and positions, such as `1:12 3:2`.
    pub(super) fn lacks(&self) -> String {
        match &self.behind {
            None => "?".to_owned(),
            Some(behind) if behind.is_empty() => "0".to_owned(),
            Some(behind) => {
                let parts: Vec<String> =
                    behind.iter().map(|(site, lacks)| format!("{site}:{lacks}")).collect();
                parts.join(" ")
            }
        }
    }
}

impl LinkNow {
    /// In one word.
    pub(super) fn state(&self) -> &'static str {
        match self.cable {
            Cable::Cut => "cut",
            Cable::Silent => "silent",
            Cable::Whole if self.is_up => "up",
            Cable::Whole => "down",
        }
    }
}
