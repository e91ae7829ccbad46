//! How large a naive version vector would be: who has heard of whom, over the very messages of a run.
//!
//! A naive counter sends with every message the set of all ids that its sender knows, and whoever receives it
//! takes the union. To keep such sets exactly it is not necessary to send them. A set only grows, so each node
//! keeps the *order* in which it learned its ids; what it knew when it sent a message is then a prefix of that
//! order, and a message needs to carry only the length of it. The receiver looks at the part of the prefix
//! that it has not looked at before: every id once for each neighbour, instead of once for each message.
//!
//! As in the runs of the paper, clients do not pass on what they are told: a client sends its own id alone. As
//! long as a client keeps its server that makes no difference to any server: it could only return what the
//! server had sent it.

use crate::core::Node;

/// A node of tier 0 or 1.
#[derive(Debug, Default)]
struct Member {
    /// Bit by bit, which ids it knows.
    known: Vec<u64>,
    count: u32,
    /// The ids in the order in which it learned them, but for the first `forgotten`, which all have read.
    learned: Vec<Node>,
    forgotten: u32,
    /// Who receives messages from this node, and how much of its order each has read. By name.
    readers: Vec<Reader>,
}

#[derive(Debug)]
struct Reader {
    node: Node,
    read: u32,
}

/// When so many ids are kept in order, those that all have read are forgotten.
const LEARNED_MAX: usize = 4_096;

impl Member {
    fn learn(&mut self, id: Node) {
        let (word, bit) = (index(id / 64), id % 64);
        if self.known.len() <= word {
            self.known.resize(word + 1, 0);
        }
        if self.known[word] >> bit & 1 == 0 {
            self.known[word] |= 1 << bit;
            self.count += 1;
            self.learned.push(id);
        }
    }

    fn position(&self) -> u32 {
        self.forgotten + u32::try_from(self.learned.len()).expect("no more ids than names")
    }

    fn forget_what_all_have_read(&mut self) {
        let read = self.readers.iter().map(|reader| reader.read).min().unwrap_or(self.position());
        self.learned.drain(..index(read - self.forgotten));
        self.forgotten = read;
    }
}

/// The sets of all nodes of tiers 0 and 1, which are numbered from zero.
#[derive(Debug)]
pub(super) struct Gossip {
    members: Vec<Member>,
}

impl Gossip {
    /// Every node knows itself. `reads(a, b)`: may b ever receive a message from a?
    pub(super) fn new(nodes: Node, reads: impl Fn(Node, Node) -> bool) -> Self {
        let member = |id| {
            let readers = (0..nodes).filter(|&node| node != id && reads(id, node));
            let readers = readers.map(|node| Reader { node, read: 0 }).collect();
            let mut member = Member { readers, ..Member::default() };
            member.learn(id);
            member
        };
        Gossip { members: (0..nodes).map(member).collect() }
    }

    /// What a message from this node has to carry.
    pub(super) fn position(&self, from: Node) -> u32 {
        self.members[index(from)].position()
    }

    /// A message arrives that carries this position of its sender.
    pub(super) fn receive(&mut self, to: Node, from: Node, position: u32) {
        let [sender, receiver] = self
            .members
            .get_disjoint_mut([index(from), index(to)])
            .expect("two different nodes of tiers 0 and 1");
        let reader = sender.readers.binary_search_by_key(&to, |reader| reader.node);
        let reader = &mut sender.readers[reader.expect("it was announced as a reader")];
        if position <= reader.read {
            return;
        }
        let (start, end) = (index(reader.read - sender.forgotten), index(position - sender.forgotten));
        reader.read = position;
        sender.learned[start..end].iter().for_each(|&id| receiver.learn(id));
        if sender.learned.len() >= LEARNED_MAX {
            sender.forget_what_all_have_read();
        }
    }

    /// A message of a client arrives, which tells of the client alone.
    pub(super) fn meet(&mut self, to: Node, client: Node) {
        self.members[index(to)].learn(client);
    }

    /// How many ids this node knows.
    pub(super) fn count(&self, node: Node) -> u32 {
        self.members[index(node)].count
    }
}

fn index(node: u32) -> usize {
    usize::try_from(node).expect("32 bits fit")
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_crdt::testing::Random;
    use std::collections::BTreeSet;

    /// The naive way, set by set and message by message, beside ours; messages are delayed and overtake.
    #[test]
    fn the_sizes_are_those_of_sets_sent_with_every_message() {
        let mut random = Random::new(1);
        for nodes in [2, 3, 8] {
            let mut gossip = Gossip::new(nodes, |_, _| true);
            let mut sets: Vec<BTreeSet<Node>> = (0..nodes).map(|id| BTreeSet::from([id])).collect();
            let mut under_way = Vec::new();
            for step in 0..30_000 {
                let from = random.below(index(nodes));
                let to = (from + 1 + random.below(index(nodes) - 1)) % index(nodes);
                if step % 3 == 0 {
                    let client = nodes + u32::try_from(random.below(20_000)).expect("small");
                    gossip.meet(u32::try_from(to).expect("small"), client);
                    sets[to].insert(client);
                } else if random.chance(0.2) {
                    let position = gossip.position(u32::try_from(from).expect("small"));
                    under_way.push((from, to, position, sets[from].clone()));
                }
                if under_way.len() > 5 {
                    let (from, to, position, set) = under_way.swap_remove(random.below(under_way.len()));
                    let name = |node: usize| u32::try_from(node).expect("small");
                    gossip.receive(name(to), name(from), position);
                    sets[to].extend(set);
                    assert_eq!(index(gossip.count(name(to))), sets[to].len());
                }
            }
            let largest = sets.iter().map(BTreeSet::len).max().expect("there are nodes");
            assert!(largest > LEARNED_MAX, "orders were cut");
        }
    }
}
