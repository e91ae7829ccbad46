//! Which node clients of a Redis Cluster go to for which hash slots.

use std::{collections::BTreeMap, net::SocketAddr};

use quipu_storage::NodeId;

use super::Shared;
use crate::{
    config::Config,
    resp::{ClusterNode, Endpoint, SlotMap},
};

/// Where others are told to connect.
pub(super) fn advertised(address: SocketAddr, config: &Config) -> Endpoint {
    let host = config.advertise.clone().unwrap_or_else(|| address.ip().to_string());
    Endpoint { host, port: address.port() }
}

impl Shared {
    /// The node that has a hash slot, if it is another one and has a port for clients of a cluster. Without one this node
    /// passes commands on, as it does while nobody has the slot: one that is only about to take it may not know that yet,
    /// and would send clients back.
    pub(super) fn endpoint_of(&self, slot: u16) -> Option<Endpoint> {
        let siblings = self.siblings.as_ref()?;
        let shard = self.shards.of_slot(slot);
        if siblings.is_here(shard) {
            return None;
        }
        let view = siblings.view();
        let node = view.routes.get(&shard).filter(|node| **node != siblings.own())?;
        let (host, port) = view.nodes.get(node)?.about.resp_cluster.clone()?;
        let has_it = view.held.iter().any(|held| held.shard == shard && held.by == Some(*node));
        has_it.then_some(Endpoint { host, port })
    }

    /// Who has which hash slots. Those of nodes that have no port for clients of a cluster are this one's, which passes on
    /// what comes for them.
    pub(super) fn slots_by_node(&self) -> SlotMap {
        // Who asks has come to that port.
        let endpoint = self.endpoint.clone().unwrap_or_else(|| Endpoint { host: String::new(), port: 0 });
        let Some(siblings) = &self.siblings else {
            // A folder is known by the same name as long as it exists.
            let mut own =
                ClusterNode::new(u128::from_be_bytes(self.board.identity().instance.fingerprint()), endpoint);
            self.shards.all().for_each(|shard| own.add(self.shards.slots(shard)));
            return SlotMap { own, others: Vec::new() };
        };
        let (own_id, view) = (siblings.own(), siblings.view());
        let mut own = ClusterNode::new(own_id.0, endpoint);
        let others = view.nodes.iter().filter(|(node, _)| **node != own_id);
        let mut others: BTreeMap<NodeId, ClusterNode> = others
            .filter_map(|(node, sibling)| {
                let (host, port) = sibling.about.resp_cluster.clone()?;
                Some((*node, ClusterNode::new(node.0, Endpoint { host, port })))
            })
            .collect();
        for shard in self.shards.all() {
            let owner = if siblings.is_here(shard) { Some(&own_id) } else { view.routes.get(&shard) };
            let Some(owner) = owner else { continue };
            others.get_mut(owner).unwrap_or(&mut own).add(self.shards.slots(shard));
        }
        SlotMap { own, others: others.into_values().collect() }
    }
}
