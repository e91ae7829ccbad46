//! A site as clients of a Redis Cluster see it: nodes, and the hash slots that each of them has.

use std::{fmt, ops::RangeInclusive};

pub use quipu_engine::{SLOTS, slot_of};

/// What a connection is to its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// One server that takes every command.
    #[default]
    Alone,
    /// A node of a cluster: it takes commands for the hash slots that it has, and names the node that has the others.
    Cluster,
}

/// Where clients connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// A name or an address.
    pub host: String,
    /// The port for clients of a cluster.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    /// As Redis has it, without brackets around an address of IPv6: clients cut at the last colon.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// A node, as its clients know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterNode {
    /// 40 hexadecimal digits.
    pub id: String,
    /// Where its clients connect.
    pub endpoint: Endpoint,
    slots: Vec<RangeInclusive<u16>>,
}

impl ClusterNode {
    /// A node that has no hash slots. It is known by this number.
    pub fn new(id: u128, endpoint: Endpoint) -> Self {
        // Redis has 160 bits.
        Self { id: format!("{id:032x}{:08x}", 0), endpoint, slots: Vec::new() }
    }

    /// It has these hash slots too, which come after all those that it has.
    pub fn add(&mut self, slots: RangeInclusive<u16>) {
        match self.slots.last_mut() {
            Some(last) if *last.end() + 1 == *slots.start() => *last = *last.start()..=*slots.end(),
            _ => self.slots.push(slots),
        }
    }

    /// The hash slots that it has, in order, as few ranges as can be.
    pub fn slots(&self) -> &[RangeInclusive<u16>] {
        &self.slots
    }

    fn slot_count(&self) -> usize {
        self.slots.iter().map(ExactSizeIterator::len).sum()
    }
}

/// Who has which hash slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotMap {
    /// The node that is asked.
    pub own: ClusterNode,
    /// The others.
    pub others: Vec<ClusterNode>,
}

impl SlotMap {
    /// All nodes, the one that is asked first.
    pub fn nodes(&self) -> impl Iterator<Item = &ClusterNode> + Clone {
        std::iter::once(&self.own).chain(&self.others)
    }

    /// How many hash slots somebody has.
    pub fn slot_count(&self) -> usize {
        self.nodes().map(ClusterNode::slot_count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_slots_are_one_range() {
        let mut node = ClusterNode::new(0xab, Endpoint { host: "::1".to_owned(), port: 7 });
        assert_eq!((node.id.len(), node.slot_count()), (40, 0));
        assert_eq!(node.endpoint.to_string(), "::1:7");
        for first in [0, 256, 1024, 16_128] {
            node.add(first..=first + 255);
        }
        assert_eq!(node.slots(), [0..=511, 1024..=1279, 16_128..=16_383]);
        assert_eq!(node.slot_count(), 1024);
    }
}
