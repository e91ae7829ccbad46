//! What is measured about the nodes of a site.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ShardLabels {
    shard: u16,
}

/// The numbers of a node that shares its site with others; all zero for one that does not.
#[derive(Debug, Clone, Default)]
pub struct NodeMetrics {
    /// Nodes that are there, this one included.
    pub nodes: Gauge,
    /// Shards that nobody has, or is about to take.
    pub shards_unowned: Gauge,
    /// Shards taken by this node.
    pub taken: Counter,
    /// Shards handed over by it.
    pub released: Counter,
    /// Shards that others took from it.
    pub lost: Counter,
    /// Commands passed on to other nodes.
    pub passed_on: Counter,
    /// Commands that clients of a Redis Cluster were told to take to another node.
    pub redirected: Counter,
    here: Family<ShardLabels, Gauge>,
    position: Family<ShardLabels, Gauge>,
}

impl NodeMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("nodes", "Nodes of this site that are there", self.nodes.clone());
        registry.register("shards_unowned", "Shards that no node has", self.shards_unowned.clone());
        registry.register("shards_taken", "Shards that this node has taken", self.taken.clone());
        registry.register("shards_released", "Shards that this node has handed over", self.released.clone());
        registry.register("shards_lost", "Shards that other nodes took from this one", self.lost.clone());
        registry.register("commands_passed_on", "Commands passed on to other nodes", self.passed_on.clone());
        registry.register(
            "commands_redirected",
            "Commands that clients of a Redis Cluster were told to take to another node",
            self.redirected.clone(),
        );
        registry.register("shard_here", "Has this node the shard", self.here.clone());
        registry.register(
            "shard_log_position",
            "The newest record of the shard's log, as last seen",
            self.position.clone(),
        );
    }

    /// Where a shard is, and how far its log is.
    pub fn set_shard(&self, shard: u16, is_here: bool, position: i64) {
        let labels = ShardLabels { shard };
        self.here.get_or_create(&labels).set(i64::from(is_here));
        self.position.get_or_create(&labels).set(position);
    }
}
