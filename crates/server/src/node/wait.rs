//! `WAIT`: how many other sites have what a connection has written.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use quipu_engine::{Refusal, SiteId};
use quipu_storage::ShardId;
use tokio::sync::{mpsc, oneshot};

use super::{
    Node,
    acks::{Acks, AskAcks, Written},
    mail::Mail,
};

/// How often the owner of a shard is asked, when there are other nodes.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// How long somebody waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// To be told what there is.
    None,
    /// So long.
    For(Duration),
    /// Until it is so, or the client goes.
    Endless,
}

/// A client that waits.
#[derive(Debug)]
pub(super) struct Wait {
    /// So many sites are enough.
    pub(super) sites: u64,
    pub(super) patience: Patience,
    pub(super) written: Vec<Written>,
    /// Its other end is dropped when the client goes.
    pub(super) gone: oneshot::Receiver<()>,
}

/// What it is told.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Waited {
    pub(super) sites: u64,
    /// With all positions.
    pub(super) written: Vec<Written>,
}

impl Wait {
    pub(super) async fn run(self, node: &Node) -> Waited {
        let nothing = [Written { shard: ShardId(0), position: Some(0) }];
        // Whoever has written nothing is told who is there: all of them have all of it.
        let written = if self.written.is_empty() { &nothing[..] } else { &self.written };
        let (answers, mut told) = mpsc::unbounded_channel();
        let asked = if node.shared.siblings.is_some() {
            ask_owners(node, written, &answers)
        } else {
            ask_workers(node, written, &answers)
        };
        drop(answers);
        let mut tally = Tally { workers: asked, acks: BTreeMap::new() };
        let patience = self.patience;
        let give_up = async move {
            match patience {
                Patience::None => {}
                Patience::For(time) => tokio::time::sleep(time).await,
                Patience::Endless => std::future::pending().await,
            }
        };
        // Whoever has gone is told what there is, and nobody reads it.
        let gone = async { drop(self.gone.await) };
        let mut out_of_patience = std::pin::pin!(async {
            tokio::select! { () = give_up => {}, () = gone => {} }
        });
        let mut is_over = false;
        loop {
            if tally.is_whole() && (is_over || tally.sites() >= self.sites) {
                return tally.result();
            }
            tokio::select! {
                biased;
                acks = told.recv() => match acks {
                    Some(acks) => tally.note(acks),
                    // The workers stop.
                    None => return tally.result(),
                },
                () = &mut out_of_patience, if !is_over => is_over = true,
            }
        }
    }
}

/// Asks the workers of all shards. Returns how many answer.
fn ask_workers(node: &Node, written: &[Written], answers: &mpsc::UnboundedSender<Acks>) -> usize {
    let mut shares: BTreeMap<usize, Vec<Written>> = BTreeMap::new();
    for written in written {
        shares.entry(node.shared.owner(written.shard)).or_default().push(*written);
    }
    let workers = shares.len();
    for (worker, written) in shares {
        node.shared.post(worker, Mail::Acks(AskAcks { written, answers: answers.clone() }));
    }
    workers
}

/// Asks the owners of all shards, which may be other nodes. Returns how many answer.
fn ask_owners(node: &Node, written: &[Written], answers: &mpsc::UnboundedSender<Acks>) -> usize {
    for written in written {
        node.shared.runtime.spawn(ask_again(node.clone(), *written, answers.clone()));
    }
    written.len()
}

/// Asks the owner of a shard, which may be another node, and another one later, as long as somebody wants to know.
async fn ask_again(node: Node, mut written: Written, answers: mpsc::UnboundedSender<Acks>) {
    while !answers.is_closed() {
        let sites = match node.acks(written).await {
            Ok((position, sites)) => {
                written.position = Some(position);
                sites
            }
            // Nobody can say: whoever has waited long enough waits no longer for that.
            Err(_) => BTreeSet::new(),
        };
        // It is noticed above if nobody wants to know.
        let _ = answers.send(Acks { written: vec![written], sites });
        tokio::time::sleep(ASK_AGAIN_AFTER).await;
    }
}

impl Node {
    /// Which other sites have what was written in a shard that is here: up to a position, or up to now, and that position.
    pub(super) async fn acks_here(&self, written: Written) -> Result<(u64, BTreeSet<SiteId>), Refusal> {
        if self.shared.is_elsewhere(written.shard) {
            return Err(Refusal::NotHere);
        }
        let (answers, mut told) = mpsc::unbounded_channel();
        let ask = AskAcks { written: vec![written], answers };
        self.shared.post(self.shared.owner(written.shard), Mail::Acks(ask));
        let Acks { written, sites } = told.recv().await.ok_or(Refusal::NotHere)?;
        let position = written.first().and_then(|written| written.position).ok_or(Refusal::NotHere)?;
        Ok((position, sites))
    }
}

/// What the workers have said.
struct Tally {
    /// So many were asked.
    workers: usize,
    /// By the first shard of each.
    acks: BTreeMap<ShardId, Acks>,
}

impl Tally {
    fn note(&mut self, acks: Acks) {
        if let Some(first) = acks.written.first() {
            self.acks.insert(first.shard, acks);
        }
    }

    /// Have all of them said something?
    fn is_whole(&self) -> bool {
        self.acks.len() == self.workers
    }

    /// So many have everything.
    fn sites(&self) -> u64 {
        let sites = self.acks.values().map(|acks| acks.sites.clone());
        sites.reduce(|all, these| &all & &these).map_or(0, |sites| sites.len() as u64)
    }

    fn result(self) -> Waited {
        let sites = if self.is_whole() { self.sites() } else { 0 };
        Waited { sites, written: self.acks.into_values().flat_map(|acks| acks.written).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acks(shards: &[u16], sites: &[u16]) -> Acks {
        let written = shards.iter().map(|shard| Written { shard: ShardId(*shard), position: Some(9) });
        let sites = sites.iter().map(|number| SiteId { number: *number, incarnation: 0 });
        Acks { written: written.collect(), sites: sites.collect() }
    }

    #[test]
    fn sites_count_that_lack_nothing_in_any_shard() {
        let mut tally = Tally { workers: 2, acks: BTreeMap::new() };
        tally.note(acks(&[0, 2], &[2]));
        assert!(!tally.is_whole(), "another worker has not answered");
        tally.note(acks(&[1], &[2, 3]));
        assert!(tally.is_whole());
        assert_eq!(tally.sites(), 1);
        tally.note(acks(&[1], &[3]));
        assert_eq!(tally.sites(), 0, "each lacks something");
        tally.note(acks(&[0, 2], &[2, 3]));
        tally.note(acks(&[1], &[2, 3]));
        let waited = tally.result();
        let shards: Vec<u16> = waited.written.iter().map(|written| written.shard.0).collect();
        assert_eq!((waited.sites, shards), (2, vec![0, 2, 1]));
    }

    #[test]
    fn who_is_not_told_everything_is_told_nothing() {
        let mut tally = Tally { workers: 2, acks: BTreeMap::new() };
        tally.note(acks(&[0], &[2]));
        assert_eq!(tally.result().sites, 0);
    }
}
