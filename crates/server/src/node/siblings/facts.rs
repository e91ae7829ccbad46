//! How it stands with the nodes of this site, for people.

use quipu_storage::ShardId;

use super::Siblings;
use crate::{
    http::nodes::{NodeFacts, NodeTrouble, Nodes, ShardFacts},
    links::join_host,
    node::{Node, Shared},
};

impl Siblings {
    /// Who is there, and who has which shard.
    fn nodes(&self, shared: &Shared) -> Nodes {
        let view = self.view();
        let nodes = view.nodes.iter().map(|(node, sibling)| NodeFacts {
            node: node.to_string(),
            link: sibling.about.link.clone(),
            resp: sibling.about.resp.as_ref().map(|(host, port)| join_host(host, *port)),
            http: sibling.about.http.clone(),
            version: sibling.about.version.clone(),
            drains: sibling.drains,
            speaks: view.speaker == Some(*node),
            shards: view.routes.values().filter(|owner| *owner == node).count() as u64,
        });
        let position = |shard: ShardId| {
            let held = view.held.iter().find(|held| held.shard == shard);
            held.map_or(0, |held| held.fence.last.0)
        };
        let shards = shared.shards.all().map(|shard| ShardFacts {
            shard: shard.0,
            node: view.routes.get(&shard).map(ToString::to_string),
            position: position(shard),
        });
        Nodes { node: self.own().to_string(), nodes: nodes.collect(), shards: shards.collect() }
    }

    /// Says in the metrics what was last seen.
    pub(super) fn measure(&self, shared: &Shared) {
        let (view, metrics) = (self.view(), &shared.metrics.nodes);
        metrics.nodes.set(count(view.nodes.len()));
        metrics.shards_unowned.set(count(usize::from(shared.shards.count()) - view.routes.len()));
        for shard in shared.shards.all() {
            let held = view.held.iter().find(|held| held.shard == shard);
            let position = held.map_or(0, |held| i64::try_from(held.fence.last.0).unwrap_or(i64::MAX));
            metrics.set_shard(shard.0, self.is_here(shard), position);
        }
    }

    /// Why commands cannot be run here, if that is so. A node without shards is as good as any: it passes them on.
    pub(in crate::node) fn trouble(&self) -> Option<String> {
        if self.view().nodes.is_empty() {
            return Some("the other nodes of this site have not been seen yet".to_owned());
        }
        let is_lapsed = !self.standing().holds;
        is_lapsed.then(|| "the store has not heard of this node lately; others take its shards".to_owned())
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Node {
    /// Why this node does not change who belongs to the cluster, if that is so.
    pub(in crate::node) fn who_speaks(&self) -> Result<(), String> {
        let Some(siblings) = self.shared.siblings.as_ref().filter(|_| !self.shared.speaks()) else {
            return Ok(());
        };
        let view = siblings.view();
        let speaker = view.speaker.and_then(|node| view.nodes.get(&node)?.about.http.clone());
        Err(match speaker {
            Some(http) => format!("another node speaks for this site; ask that one: --url http://{http}"),
            None => "no node speaks for this site at the moment; try again".to_owned(),
        })
    }

    pub(in crate::node) fn nodes_of_site(&self) -> Option<Nodes> {
        self.shared.siblings.as_ref().map(|siblings| siblings.nodes(&self.shared))
    }

    /// Asks a node to give its shards away, or to take some again. `named` is its id, the beginning of one, or an address.
    pub(in crate::node) async fn ask_node_to_drain(
        &self,
        named: &str,
        drains: bool,
    ) -> Result<NodeFacts, NodeTrouble> {
        let siblings = self.shared.siblings.clone().ok_or(NodeTrouble::Alone)?;
        let unknown = || NodeTrouble::Unknown(named.to_owned());
        let view = siblings.view();
        let facts = siblings.nodes(&self.shared).nodes;
        let is_meant = |it: &&NodeFacts| {
            let addresses = [Some(&it.link), it.resp.as_ref(), it.http.as_ref()];
            (!named.is_empty() && it.node.starts_with(named))
                || addresses.into_iter().flatten().any(|address| address == named)
        };
        let meant: Vec<&NodeFacts> = facts.iter().filter(is_meant).collect();
        let [meant] = meant[..] else { return Err(unknown()) };
        let id =
            view.nodes.keys().copied().find(|node| node.to_string() == meant.node).ok_or_else(unknown)?;
        let asked = tokio::task::spawn_blocking(move || siblings.ask_to_drain(id, drains)).await;
        asked.map_err(|error| NodeTrouble::NotStored(error.to_string()))?.map_err(NodeTrouble::NotStored)?;
        self.tell_to_look().await;
        Ok(NodeFacts { drains, ..meant.clone() })
    }
}
