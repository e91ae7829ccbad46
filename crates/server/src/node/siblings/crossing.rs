//! Between the shards of this node and other sites: the node that speaks for the site has the links, and what shards say
//! and hear goes through it.
//!
//! Whatever is lost on the way, because a shard has moved, or another node speaks by now, is said again, as over a link.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use minicbor::{Decode, Encode, bytes::ByteVec};
use quipu_engine::{Envelope, Message, SiteId};
use quipu_storage::{NodeId, ShardId};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::{
    Place, Siblings,
    question::{Question, Told},
};
use crate::{
    links::{Frame, Halt},
    node::{
        Node, Shared,
        council::Opening,
        links::{LinkMail, Room},
        mail::Mail,
    },
};

/// How often the others are told which links there are, if nothing changes.
const TELL_EVERY: Duration = Duration::from_millis(500);
/// For so long a node is waited for.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// So many bytes of messages go together.
const BUNDLE_BYTES: usize = 256 * 1024;

/// A link to another site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(super) struct LinkFacts {
    #[n(0)]
    site: SiteId,
    /// Another number for each link.
    #[n(1)]
    number: u64,
    /// How long ago something came over it.
    #[n(2)]
    silent_ms: Option<u64>,
}

/// A message of a shard to the same one at another site, or from there.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(super) struct Crossing {
    #[n(0)]
    shard: u16,
    #[n(1)]
    message: ByteVec,
}

/// Tells the other nodes, as long as this one speaks for the site, which links there are.
pub(in crate::node) async fn attend(node: &Node) {
    let Some(siblings) = &node.shared.siblings else { return std::future::pending().await };
    loop {
        tokio::select! {
            () = siblings.links_changed.notified() => {}
            () = tokio::time::sleep(TELL_EVERY) => {}
        }
        if node.shared.speaks() {
            node.tell_links(siblings);
        }
    }
}

impl Shared {
    /// A link has come or gone: the other nodes are told.
    pub(in crate::node) fn links_have_changed(&self) {
        if let Some(siblings) = &self.siblings {
            siblings.links_changed.notify_one();
        }
    }

    /// Sends what shards here have to say to another site.
    pub(in crate::node) fn send_through_speaker(
        self: &Arc<Self>,
        to: SiteId,
        envelopes: impl Iterator<Item = Envelope>,
    ) {
        let (mut messages, mut bytes) = (Vec::new(), 0);
        for Envelope { shard, message, .. } in envelopes {
            let message = message.encode();
            bytes += message.len();
            messages.push(Crossing { shard: shard.0, message: message.into() });
            if bytes >= BUNDLE_BYTES {
                self.tell_speaker(Question::Outward { to, messages: std::mem::take(&mut messages) });
                bytes = 0;
            }
        }
        if !messages.is_empty() {
            self.tell_speaker(Question::Outward { to, messages });
        }
    }

    /// Another site has sent something wrong: there must be no link to it, and, if this site runs from an old copy, to
    /// nobody.
    pub(in crate::node) fn fail_link(self: &Arc<Self>, from: SiteId, why: String, is_old_copy: bool) {
        if is_old_copy {
            self.stop_counting(Halt::OldCopy, &why);
        }
        if self.speaks() {
            self.board().fail(from, why);
        } else {
            self.tell_speaker(Question::Fault { from, why, is_old_copy });
        }
    }

    fn tell_speaker(self: &Arc<Self>, what: Question) {
        let Some(siblings) = self.siblings.clone() else { return };
        let own = siblings.own();
        let Some(speaker) = siblings.view().speaker.filter(|speaker| *speaker != own) else { return };
        Node { shared: Arc::clone(self) }.tell(&siblings, speaker, what);
    }

    /// Which links the node has that speaks, in its run of this number.
    pub(super) fn hear_links(&self, run: u64, links: &[LinkFacts]) {
        let mut state = self.council.lock();
        let is_outdated = state.open.values().any(|opening| opening.run > run);
        if self.speaks() || is_outdated {
            return;
        }
        let is_listed = |site: &SiteId| state.council.config().sites.contains_key(site);
        let open: BTreeMap<SiteId, Opening> = links
            .iter()
            .filter(|link| is_listed(&link.site))
            .map(|link| (link.site, Opening { run, number: link.number }))
            .collect();
        self.open_instead(&mut state, open);
        drop(state);
        let silent = links.iter().map(|link| (link.site.number, link.silent_ms)).collect();
        self.board().hear_elsewhere(&silent);
    }
}

impl Node {
    fn tell_links(&self, siblings: &Arc<Siblings>) {
        let board = self.shared.board();
        let silent_ms = |site: SiteId| board.peer(site.number).and_then(|peer| board.silent_ms(&peer));
        let open = self.shared.council.lock().open.clone();
        let links = open.iter().map(|(site, opening)| LinkFacts {
            site: *site,
            number: opening.number,
            silent_ms: silent_ms(*site),
        });
        let question = Question::Links { run: board.identity().run.number, links: links.collect() };
        for other in siblings.view().nodes.keys().filter(|other| **other != siblings.own()) {
            self.tell(siblings, *other, question.clone());
        }
    }

    /// Says something to another node, and does not wait for it.
    fn tell(&self, siblings: &Arc<Siblings>, other: NodeId, what: Question) {
        let (node, siblings) = (self.clone(), Arc::clone(siblings));
        self.shared.runtime.spawn(async move {
            // It is said again, or is not needed any more.
            let _ = node.ask_node(&siblings, other, &what, ANSWER_MAX).await;
        });
    }

    /// What has come from another site goes to the shard's owner. The room in the link's buffer is taken until that has
    /// dealt with it.
    pub(in crate::node) fn pass_inward(
        &self,
        siblings: &Arc<Siblings>,
        from: SiteId,
        shard: ShardId,
        message: &[u8],
        room: OwnedSemaphorePermit,
    ) {
        let Place::There(owner) = siblings.place(shard) else { return };
        let epoch = self.shared.board().membership().epoch;
        let message = Crossing { shard: shard.0, message: message.to_vec().into() };
        let question = Question::Inward { from, epoch, message };
        let (node, siblings) = (self.clone(), Arc::clone(siblings));
        self.shared.runtime.spawn(async move {
            if let Ok(Told::Bad(why)) = node.ask_node(&siblings, owner, &question, ANSWER_MAX).await {
                node.shared.board().fail(from, why);
            }
            drop(room);
        });
    }

    /// A message from another site, passed on by the node that speaks, under the membership of this epoch.
    pub(super) async fn take_inward(&self, from: SiteId, epoch: u64, crossing: Crossing) -> Told {
        let shard = ShardId(crossing.shard);
        if !self.is_here(shard) {
            return Told::NotHere;
        }
        if self.shared.board().membership().epoch < epoch {
            // Its sender may be new here. It is said again, when this node has read who belongs to the cluster.
            self.shared.siblings.iter().for_each(|siblings| siblings.look_now());
            return Told::NotHere;
        }
        let message = match Message::decode(&crossing.message) {
            Ok(message) => Box::new(message),
            Err(bad) => return Told::Bad(bad.to_string()),
        };
        let (room, is_free) = oneshot::channel();
        let mail = LinkMail::Message { from, shard, message, room: Room::OfSpeaker(room) };
        self.shared.post(self.shared.owner(shard), Mail::Link(mail));
        // Nothing is sent: it is dropped.
        let _ = is_free.await;
        Told::Done
    }

    /// What shards of another node have to say to another site.
    pub(super) fn send_outward(&self, to: SiteId, messages: &[Crossing]) -> Told {
        if !self.shared.speaks() {
            return Told::NotHere;
        }
        let mut frames = Vec::new();
        for Crossing { shard, message } in messages {
            Frame::Shard { shard: ShardId(*shard), message }.encode(&mut frames);
        }
        self.shared.board().send(to, &mut frames, messages.len() as u64);
        Told::Done
    }

    /// Another node could not take in what a site has sent.
    pub(super) fn hear_fault(&self, from: SiteId, why: String, is_old_copy: bool) -> Told {
        if !self.shared.speaks() {
            return Told::NotHere;
        }
        self.shared.fail_link(from, why, is_old_copy);
        Told::Done
    }

    /// How much of a site's stream is in each shard of the other nodes that have some.
    pub(in crate::node) async fn positions_elsewhere(&self, of: SiteId) -> Vec<(ShardId, Option<u64>)> {
        let mut all = Vec::new();
        for told in self.ask_all(&Question::Positions { of }).await {
            if let Ok(Told::Positions(positions)) = told {
                all.extend(positions.into_iter().map(|(shard, position)| (ShardId(shard), Some(position))));
            }
        }
        all
    }
}
