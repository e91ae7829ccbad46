//! What goes wrong with nodes and with the store that they share.

use super::plan::Plan;
use crate::core::Millis;
use crate::system::plan::{between, choose};
use quipu_crdt::testing::Random;

/// Something that a node asks of the store, at which it can come to a halt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// Before a shard is taken as it was seen.
    Take,
    /// The shard is taken, and the node has not heard it yet.
    Taken,
    /// Before the log of a shard is read.
    Read,
    /// Before it is asked how a log stands.
    Confirm,
    /// Commands were applied in memory, and are not under way to the log.
    Commit,
    /// Before a commit that was not answered is issued again.
    Settle,
    /// Before a shard is given back.
    Release,
    /// The rows of a checkpoint are written, and its mark not moved.
    Mark,
    /// Before rows are read.
    Row,
    /// Before the rows of a checkpoint are written.
    Put,
    /// Before a node writes that it is there.
    Beat,
    /// That is written, and the node has not heard it yet.
    Beaten,
    /// Before it is looked who has which shard.
    Held,
    /// Before it is looked who is there.
    Nodes,
    /// Before it is read what the node that speaks has stored.
    Last,
}

impl Call {
    /// Where nodes are made to halt.
    const HALTS: [Self; 13] = [
        Self::Take,
        Self::Taken,
        Self::Read,
        Self::Commit,
        Self::Settle,
        Self::Release,
        Self::Mark,
        Self::Put,
        Self::Beat,
        Self::Beaten,
        Self::Held,
        Self::Nodes,
        Self::Last,
    ];
}

/// One kind of trouble. Nodes are numbered by their places, from 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Trouble {
    /// A node does nothing at all for a while, and then goes on exactly where it was.
    Pause {
        /// Which.
        node: usize,
        /// It stops when it next asks this of the store; `None`: at once.
        within: Option<Call>,
        /// For how long.
        for_ms: Millis,
    },
    /// A node dies with all that it has in memory, and another one starts in its place.
    Crash {
        /// Which.
        node: usize,
        /// After so long.
        away_ms: Millis,
    },
    /// A node does not reach the store.
    Cut {
        /// Which.
        node: usize,
        /// For how long.
        for_ms: Millis,
    },
    /// The store answers a node slowly.
    Slow {
        /// Which.
        node: usize,
        /// The next time that it asks this, and the rest of the node goes on meanwhile; `None`: whatever it asks.
        within: Option<Call>,
        /// For so long.
        for_ms: Millis,
    },
    /// The store leaves more than usual unanswered.
    Storm {
        /// How many of all requests.
        share: f64,
        /// For how long.
        for_ms: Millis,
    },
    /// A node is asked to give its shards away, and to take some again after a while.
    Drain {
        /// Which.
        node: usize,
        /// After so long.
        for_ms: Millis,
    },
    /// A node gives its shards away and goes.
    Leave {
        /// Which.
        node: usize,
    },
    /// Another node comes.
    Join {
        /// Which.
        node: usize,
    },
}

/// A trouble and when it begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Planned {
    /// After the start.
    pub at_ms: Millis,
    /// What.
    pub trouble: Trouble,
}

impl Trouble {
    /// The node that it is about.
    pub(super) fn node(self) -> Option<usize> {
        match self {
            Self::Pause { node, .. }
            | Self::Crash { node, .. }
            | Self::Cut { node, .. }
            | Self::Slow { node, .. }
            | Self::Drain { node, .. }
            | Self::Leave { node }
            | Self::Join { node } => Some(node),
            Self::Storm { .. } => None,
        }
    }

    /// The troubles of a plan: each seed leaves some kinds out.
    pub(super) fn draw(random: &mut Random, plan: &Plan) -> Vec<Planned> {
        let mut kinds: Vec<usize> = (1..7).filter(|_| random.chance(0.5)).collect();
        // Pauses are what most of this is about.
        let pauses = if kinds.is_empty() || random.chance(0.8) { 1 + kinds.len() } else { 0 };
        kinds.extend(std::iter::repeat_n(0, pauses));
        let mut nodes = plan.nodes;
        let mut left = 0;
        let mut troubles = Vec::new();
        let mut at_ms = between(random, 200, 2_000);
        while at_ms < plan.active_ms {
            let node = random.below(nodes);
            let trouble = match choose(random, &kinds) {
                0 => Self::pause(random, node, plan.silence_ms),
                1 => Self::Crash { node, away_ms: choose(random, &[10, 500, 3_000, 12_000]) },
                2 => Self::Cut { node, for_ms: between(random, 100, 2 * plan.silence_ms) },
                3 => {
                    let within = random.chance(0.5).then(|| choose(random, &Call::HALTS));
                    Self::Slow { node, within, for_ms: between(random, 100, 2 * plan.silence_ms) }
                }
                4 => Self::Storm {
                    share: choose(random, &[0.05, 0.3]),
                    for_ms: between(random, 500, plan.silence_ms),
                },
                5 => Self::Drain { node, for_ms: between(random, 100, 2 * plan.silence_ms) },
                _ if nodes < super::plan::NODES_MAX && random.chance(0.6) => {
                    nodes += 1;
                    Self::Join { node: nodes - 1 }
                }
                _ if left + 1 < plan.nodes => {
                    left += 1;
                    Self::Leave { node }
                }
                _ => Self::pause(random, node, plan.silence_ms),
            };
            troubles.push(Planned { at_ms, trouble });
            at_ms += between(random, 100, 2 * plan.pace_ms);
        }
        troubles
    }

    fn pause(random: &mut Random, node: usize, silence_ms: Millis) -> Self {
        let within = random.chance(0.7).then(|| choose(random, &Call::HALTS));
        // Around the time of silence, far shorter and far longer.
        let for_ms = match random.below(4) {
            0 => between(random, 100, silence_ms),
            1 => between(random, silence_ms / 2, silence_ms * 3 / 2),
            2 => between(random, silence_ms, 2 * silence_ms),
            _ => between(random, 100, 6 * silence_ms),
        };
        Self::Pause { node, within, for_ms }
    }
}
