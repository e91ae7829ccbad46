//! What sites pass on to each other for those who hand over: copies of tokens, last words, and that they have arrived.
//!
//! All of it may be forgotten, lost and repeated: whoever keeps a token or last words says so again until it is told that
//! they have arrived.

use std::collections::BTreeMap;

use super::{Shard, handoff::Rows};
use crate::{
    EXCHANGE_BYTES_MAX, Moment, SiteId,
    handoff::{Guest, Name, NoticeDone, PassedOn, TokenName},
};

/// What is kept is passed on again after so many milliseconds.
const PASS_ON_EVERY_MS: u64 = 1_000;

/// What was said to whom.
#[derive(Debug, Default)]
pub(super) struct Passing {
    peers: BTreeMap<SiteId, Peer>,
}

#[derive(Debug, Default)]
struct Peer {
    /// When it was last passed on what is kept here.
    sent_ms: Option<u64>,
    /// What it is to be told.
    closed: Vec<TokenName>,
    done: Vec<NoticeDone>,
    /// Something is kept for it.
    keeps: bool,
}

impl Passing {
    /// When something is to be passed on again.
    pub(super) fn wake_ms(&self) -> Option<u64> {
        let waiting = self.peers.values().filter(|peer| peer.keeps);
        waiting.filter_map(|peer| peer.sent_ms).map(|sent_ms| sent_ms + PASS_ON_EVERY_MS).min()
    }
}

impl Shard {
    /// What a peer is to hear now of what is kept here.
    pub(super) fn pass_on(&mut self, site: SiteId, now_ms: u64) -> Option<Box<PassedOn>> {
        let mut passed_on = PassedOn::default();
        if let Some(peer) = self.passing.peers.get_mut(&site) {
            passed_on.closed = std::mem::take(&mut peer.closed);
            passed_on.done = std::mem::take(&mut peer.done);
        }
        if self.desk.keeps_for_others() {
            self.pass_on_kept(site, now_ms, &mut passed_on);
        }
        (!passed_on.is_empty()).then(|| Box::new(passed_on))
    }

    fn pass_on_kept(&mut self, site: SiteId, now_ms: u64, passed_on: &mut PassedOn) {
        let peers = &self.links.peers;
        // Who has a link to the target is not known, so all are told for whom there is none here.
        let goes_there = |target: Name| {
            target.site().is_some_and(|target| {
                target == site || peers.get(&target).is_some_and(|peer| !peer.connected)
            })
        };
        let mut bytes = 0;
        for (_, handshake) in self.desk.handshakes() {
            for token in handshake.cached().filter(|token| goes_there(token.target)) {
                bytes += token.value.keys().map(|key| key.bytes().len() + 24).sum::<usize>();
                if bytes <= EXCHANGE_BYTES_MAX || passed_on.tokens.is_empty() {
                    passed_on.tokens.push(token.clone());
                }
            }
            let notices = handshake.notices();
            let notices = notices.filter(|(_, pending)| pending.iter().any(|server| goes_there(*server)));
            passed_on.notices.extend(notices.map(|(notice, _)| notice.clone()));
        }
        let peer = self.passing.peers.entry(site).or_default();
        peer.keeps = !passed_on.tokens.is_empty() || !passed_on.notices.is_empty();
        if peer.sent_ms.is_some_and(|sent_ms| now_ms < sent_ms + PASS_ON_EVERY_MS) {
            passed_on.tokens.clear();
            passed_on.notices.clear();
        } else if peer.keeps {
            peer.sent_ms = Some(now_ms);
        }
    }

    /// Takes in what a peer passes on.
    pub(super) fn take_passed_on(&mut self, shard: u16, from: SiteId, passed_on: PassedOn, now: Moment) {
        let PassedOn { tokens, closed, notices, done } = passed_on;
        let mut names: Vec<Name> = tokens.iter().map(|token| token.source).collect();
        names.extend(closed.iter().map(|name| name.source));
        names.extend(notices.iter().map(|notice| *notice.client()));
        names.extend(done.iter().map(|done| done.client));
        let folded = self.desk.handshake(shard).desk().folded_len();
        let mut handshake = self.desk.take(shard);
        let mut rows = Rows::taking(self, now);
        let mut to_sender = Peer::default();
        for token in &tokens {
            to_sender.closed.extend(handshake.take_passed_on(&mut rows, token));
        }
        for notice in &notices {
            if handshake.keep_notice(&mut rows, notice) {
                let pending = handshake.notices().find(|(kept, _)| kept.client() == notice.client());
                let open = pending.map(|(_, pending)| pending.clone()).unwrap_or_default();
                let servers = notice.servers().iter().filter(|server| !open.contains(server));
                let client = *notice.client();
                to_sender.done.extend(servers.map(|server| NoticeDone { client, server: *server }));
            }
        }
        let closed: Vec<TokenName> = closed.into_iter().filter(|name| handshake.token_closed(name)).collect();
        let done: Vec<NoticeDone> = done.into_iter().filter(|it| handshake.is_pending(it)).collect();
        done.iter().for_each(|it| handshake.notice_done(it));
        self.desk.put_back(shard, handshake);
        self.desk.note(shard, names, Guest::default());
        if self.desk.handshake(shard).desk().folded_len() != folded {
            self.desk.note_archives(shard);
        }
        self.tell_others(from, to_sender, &closed, &done);
    }

    /// A site that does not belong to the cluster any more has nothing to hear.
    pub(super) fn let_gone_servers_be(&mut self) {
        if !self.desk.keeps_for_others() {
            return;
        }
        let members = &self.links.membership.members;
        let is_gone = |server: &Name| server.site().is_some_and(|site| !members.contains(&site));
        let gone = self.desk.handshakes().flat_map(|(shard, handshake)| {
            let notices = handshake.notices();
            notices.flat_map(move |(notice, pending)| {
                let client = *notice.client();
                pending.iter().map(move |server| (shard, NoticeDone { client, server: *server }))
            })
        });
        let gone: Vec<_> = gone.filter(|(_, done)| is_gone(&done.server)).collect();
        for (shard, done) in gone {
            self.desk.handshake(shard).notice_done(&done);
            self.desk.note(shard, [done.client], Guest::default());
        }
    }

    /// Who has passed something on is told what has become of it, and what was news here is told to all.
    fn tell_others(&mut self, from: SiteId, to_sender: Peer, closed: &[TokenName], done: &[NoticeDone]) {
        let others: Vec<SiteId> = self.links.peers.keys().copied().filter(|site| *site != from).collect();
        for site in others {
            let peer = self.passing.peers.entry(site).or_default();
            peer.closed.extend_from_slice(closed);
            peer.done.extend_from_slice(done);
        }
        let sender = self.passing.peers.entry(from).or_default();
        sender.closed.extend(to_sender.closed);
        sender.done.extend(to_sender.done);
    }
}
