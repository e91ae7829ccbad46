//! Links as the node sees them: what comes over a link goes to the worker of its shard, and what a worker has to tell goes
//! out after it is durable.

use std::{
    fmt::Write,
    net::TcpListener,
    sync::Arc,
    time::{Duration, Instant},
};

use quipu_engine::{
    Action, BadMessage, Counting, Envelope, Membership, Message, Moment, Refusal, SiteId, Unfinished, call,
};
use quipu_storage::ShardId;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::{
    FolderError, Front, Node, ServeError, Shared, essential::essential, mail::Mail, relay, system,
    worker::Worker,
};
use crate::{
    http::Counters as _,
    links::{self, Board, Draining, Frame, Halt, Inside, NODE_KEY_BYTES, Seen},
};

/// A shard that wants to be asked what is to be sent is asked again after so many milliseconds at the earliest.
const ASK_AGAIN_MS: u64 = 1;
/// And where it may be that it waits for a flush.
const ASK_AGAIN_UNFLUSHED_MS: u64 = 5;
/// For each message that it has sent a worker sends nothing for so long. After a single count that is over before it
/// matters; under load the shards have more to say by then, and say it in one message instead of many.
const SILENCE_PER_MESSAGE: Duration = Duration::from_micros(125);
/// With so many messages at a time it is twice as long for each, and so on: what a message costs by itself is then most of
/// what replication costs.
const MANY_MESSAGES: u32 = 64;
/// No count waits longer than this.
const SILENCE_MAX: Duration = Duration::from_millis(50);

/// What a worker is told of links.
#[derive(Debug)]
pub(super) enum LinkMail {
    /// From now on these belong to the cluster.
    Membership(Membership),
    /// There is a link to this site.
    Connected(SiteId),
    /// There is none any more.
    Disconnected(SiteId),
    /// For a shard of this worker. The room in the link's buffer is free again when this is dropped.
    Message { from: SiteId, shard: ShardId, message: Box<Message>, room: Room },
}

/// Room for what has come and is not dealt with. It is free again when this is dropped.
#[derive(Debug)]
#[expect(dead_code, reason = "what is in it is dropped, and that is all")]
pub(super) enum Room {
    /// In the buffer of a link.
    OfLink(OwnedSemaphorePermit),
    /// At the node that speaks for the site, which waits for this.
    OfSpeaker(oneshot::Sender<()>),
}

/// How much of a site's stream is in the shards of a worker; `None` where that is not known.
pub(super) type Positions = Vec<(ShardId, Option<u64>)>;

impl Shared {
    pub(super) fn board(&self) -> &Board {
        &self.board
    }

    /// This site was removed, or runs from an old copy of its folder: what it counted now would lose against what its peers
    /// have under the same numbers. It goes on answering reads, and talks to nobody.
    /// A folder that is an old copy stays one when it is started again, until it was restored; a database is not restored so.
    pub(super) fn stop_counting(&self, halt: Halt, why: &str) {
        if !self.board.stop(halt, why) {
            return;
        }
        tracing::error!("nothing is counted any more: {why}");
        if halt == Halt::OldCopy
            && self.siblings.is_none()
            && let Err(error) = self.folder.store_old_copy(why)
        {
            tracing::error!(%error, "a later start will not know that the folder is an old copy");
        }
    }

    /// Does the same if an earlier run has noticed that the folder is an old copy.
    pub(super) fn stop_if_old_copy(&self) -> Result<(), FolderError> {
        if let Some(why) = self.folder.old_copy()?
            && self.board.stop(Halt::OldCopy, &why)
        {
            tracing::error!("nothing is counted, as an earlier run has noticed: {why}");
        }
        Ok(())
    }

    /// Why this site must not count, if that is so.
    pub(super) fn why_not_counting(&self) -> Option<Refusal> {
        self.why_not_taking(false)
    }

    /// Why this site takes nothing from an edge or a relay, if that is so. `ends`: a relay ends what it has begun, which a site
    /// that is to leave waits for.
    pub(super) fn why_not_taking(&self, ends: bool) -> Option<Refusal> {
        let leaving = &self.council.leaving;
        let refuses = if ends { leaving.has_said() } else { leaving.takes_no_writes() };
        self.board.refusal().or_else(|| refuses.then_some(Refusal::SiteLeaves))
    }

    /// Must this site ask its peers whether it is still a member, before it counts?
    pub(super) fn must_ask(&self) -> bool {
        self.board.must_ask(|| self.moment(Instant::now()))
    }

    /// Whether commands may count that have waited for other sites. A site that leaves does what it has begun.
    pub(super) fn counting(&self, must_ask: bool) -> Counting {
        match self.board.refusal() {
            Some(refusal) => Counting::Ended(refusal),
            None if must_ask => Counting::Paused(Refusal::NotStored(
                "this site was silent and asks its peers whether it is still a member; nothing was counted. Try again"
                    .to_owned(),
            )),
            None => Counting::Allowed,
        }
    }

    /// Why a command is not done, if it would count and this site must not.
    pub(super) fn forbids(&self, action: &Action<'_>) -> Option<Refusal> {
        if counts(action) { self.why_not_counting() } else { None }
    }

    /// What `INFO` says of the other sites.
    pub(super) fn write_replication(&self, text: &mut String) -> std::fmt::Result {
        let (board, membership) = (self.board(), self.board().membership());
        let identity = board.identity();
        if let Some(relay) = &self.relay {
            let cluster = &identity.cluster;
            write!(text, "# Replication\r\nrole:master\r\nconnected_slaves:0\r\ncluster:{cluster}\r\n")?;
            return relay.write_info(text);
        }
        write!(
            text,
            "# Replication\r\nrole:master\r\nconnected_slaves:0\r\nsite:{}\r\ncluster:{}\r\nsites:{}\r\nepoch:{}\r\n",
            identity.site,
            identity.cluster,
            membership.members.len(),
            membership.epoch,
        )?;
        for peer in board.facts() {
            let state = if peer.is_up { "up" } else { "down" };
            write!(text, "peer{}:link={state}", peer.number)?;
            if let Some(address) = peer.address {
                write!(text, ",address={address}")?;
            }
            if let Some(seconds) = peer.heard_seconds {
                write!(text, ",last_heard_seconds={seconds}")?;
            }
            if let Some(why) = peer.unreachable {
                write!(text, ",unreachable={why}")?;
            }
            if let Some(trouble) = peer.trouble {
                write!(text, ",trouble={trouble}")?;
            }
            text.push_str("\r\n");
        }
        if let Some(why) = board.turned_away() {
            write!(text, "turned_away:{why}\r\n")?;
        }
        for (of, at) in self.summary().differing {
            write!(text, "differing:site {of},at=site {at}\r\n")?;
        }
        for why in self.council.waits_for() {
            write!(text, "joining:{why}\r\n")?;
        }
        match board.stopped() {
            Some(why) => write!(text, "counting:no,{why}\r\n"),
            None if self.council.leaving.takes_no_writes() => {
                write!(text, "counting:no,the site is leaving\r\n")
            }
            None if self.must_ask() => {
                write!(text, "counting:soon,the site was silent and asks its peers\r\n")
            }
            None => write!(text, "counting:yes\r\n"),
        }
    }

    pub(super) fn tell_workers(&self, mail: impl Fn() -> LinkMail) {
        for worker in 0..self.workers() {
            self.post(worker, Mail::Link(mail()));
        }
    }
}

/// Does this change anything?
pub(super) fn counts(action: &Action<'_>) -> bool {
    match action {
        Action::Get | Action::Inspect | Action::Outcome(_) => false,
        Action::Add { .. } | Action::Reset { .. } | Action::Create { .. } | Action::Move(_) => true,
    }
}

impl Inside for Node {
    fn board(&self) -> &Board {
        self.shared.board()
    }

    fn moment(&self) -> Moment {
        self.shared.moment(Instant::now())
    }

    async fn positions(&self, of: SiteId) -> Option<Vec<u64>> {
        let mut all = vec![None; usize::from(self.shared.shards.count())];
        let mut positions = self.positions_here(of).await;
        if positions.iter().any(|(_, position)| position.is_none()) {
            positions.extend(self.positions_elsewhere(of).await);
        }
        for (shard, position) in positions {
            let known = all.get_mut(usize::from(shard.0))?;
            *known = position.max(*known);
        }
        all.into_iter().collect()
    }

    fn seen(&self, site: SiteId) -> Result<Option<Seen>, String> {
        self.shared.folder.seen(site).map_err(|error| error.to_string())
    }

    fn remember(&self, site: SiteId, seen: Seen) -> Result<(), String> {
        self.shared.folder.remember(site, seen).map_err(|error| error.to_string())
    }

    fn notice(&self) -> Vec<u8> {
        self.shared.council.notice()
    }

    fn connected(&self, peer: SiteId) {
        self.shared.link_is_up(peer);
    }

    fn disconnected(&self, peer: SiteId) {
        self.shared.link_is_down(peer);
    }

    fn deliver(
        &self,
        from: SiteId,
        shard: ShardId,
        message: &[u8],
        room: OwnedSemaphorePermit,
    ) -> Result<(), String> {
        if !self.shared.council.listens_to(from) {
            // It says it again when both sides know that they belong together.
            return Ok(());
        }
        if let Some(siblings) = self.shared.siblings.as_ref().filter(|siblings| !siblings.is_here(shard)) {
            self.pass_inward(siblings, from, shard, message, room);
            return Ok(());
        }
        let message = Message::decode(message).map_err(|bad| bad.to_string())?;
        let mail = LinkMail::Message { from, shard, message: Box::new(message), room: Room::OfLink(room) };
        self.shared.post(self.shared.owner(shard), Mail::Link(mail));
        Ok(())
    }

    fn council(&self, from: SiteId, message: &[u8]) {
        self.shared.hear_notice(from, message);
    }

    fn meet_relay(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        self.welcome_relay(bytes)
    }

    fn meet_node(&self, key: &[u8; NODE_KEY_BYTES]) -> Result<Vec<u8>, String> {
        self.welcome_node(key)
    }

    async fn exchange(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        self.answer_relay(bytes).await
    }

    async fn adopt(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        self.take_estate(bytes).await
    }

    async fn call_for(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let command = call::decode_command(bytes).map_err(|bad| format!("{bad}; nothing was done"))?;
        if !relay::passes_on(&command.get().action) {
            return Err(
                "a relay passes on adds with an id, and questions about them; nothing was done".to_owned()
            );
        }
        Ok(call::encode_reply(self.call(command.get()).await))
    }

    async fn answer_sibling(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        self.answer_node(bytes).await
    }

    fn leave(&self, from: SiteId, leaves: bool) {
        self.shared.hear_wish(from, leaves);
    }

    fn draining(&self, from: SiteId, draining: Draining) {
        self.shared.hear_draining(from, draining);
    }

    fn is_old_copy(&self, why: &str) {
        self.shared.stop_counting(Halt::OldCopy, why);
    }
}

/// Starts the thread of the links.
pub(super) fn start(node: Node, listener: Option<TcpListener>) -> Result<Front, ServeError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(system("starting the links"))?;
    let (stop, stopped) = oneshot::channel();
    let work = move || {
        runtime.block_on(async {
            tokio::select! {
                () = links::run(node.clone(), listener) => {}
                () = super::council::attend(&node), if node.shared.relay.is_none() => {}
                () = relay::attend(&node) => {}
                () = super::siblings::attend(&node) => {}
                // Whoever holds the other end has gone too, if not told.
                _ = stopped => {}
            }
        });
        // A name that is being looked up is not waited for.
        runtime.shutdown_background();
    };
    let thread = essential("links", work);
    Ok(Front { stop, thread: thread.map_err(system("starting the links"))? })
}

impl Node {
    /// How much of a site's stream is in each shard here.
    pub(super) async fn positions_here(&self, of: SiteId) -> Positions {
        let mut all = Positions::new();
        for worker in 0..self.shared.workers() {
            // A worker that does not answer has ended.
            all.extend(self.ask(worker, |answer| Mail::Positions { of, answer }).await.unwrap_or_default());
        }
        all
    }
}

impl Worker {
    /// What has come over a link.
    pub(super) fn open_link_mail(&mut self, mail: LinkMail) {
        match mail {
            LinkMail::Membership(membership) => {
                self.collect(true);
                self.host.set_membership(&membership);
            }
            LinkMail::Connected(peer) => self.host.connected(peer),
            LinkMail::Disconnected(peer) => self.host.disconnected(peer),
            // Taking it in could change own rows, too.
            LinkMail::Message { .. } if self.shared.board().stopped().is_some() => {}
            LinkMail::Message { from, shard, message, room } => {
                self.tell_standing();
                if let Err(bad) = self.host.receive(shard, from, *message, self.moment) {
                    let own = self.shared.board().identity().site;
                    let is_old_copy = match &bad {
                        BadMessage::OldCopy { .. } => true,
                        BadMessage::Branched { of, .. } => *of == own,
                        _ => false,
                    };
                    self.shared.fail_link(from, bad.to_string(), is_old_copy);
                }
                drop(room);
                self.commit_large();
            }
        }
    }

    /// How much of a site's stream is here. All that is told is durable: nothing is uncommitted at this moment. Of a shard
    /// that may be another node's by now nothing is told.
    pub(super) fn tell_positions(&mut self, of: SiteId, answer: oneshot::Sender<Positions>) {
        self.tell_standing();
        let own = self.shared.board().identity().site;
        let shared = Arc::clone(&self.shared);
        let mine = shared.shards.all().filter(|shard| shared.owner(*shard) == self.index);
        let positions = mine.map(|shard| {
            if !self.host.may_speak(shard) {
                self.host.ask_fence(shard);
                return (shard, None);
            }
            let own_position = self.host.position(shard);
            // Nothing has come from a site that is not listed here.
            let received = || self.host.received(shard, of).or(own_position.map(|_| 0));
            let position = if of == own { own_position } else { received() };
            (shard, position)
        });
        // Whoever has asked may have gone.
        let _ = answer.send(positions.collect());
    }

    /// What of this site's own has yet to come to its end; `None`: a shard is not available.
    pub(super) fn unfinished(&self) -> Option<Unfinished> {
        let mut mine = self.shared.shards.all().filter(|shard| self.shared.owner(*shard) == self.index);
        mine.all(|shard| self.host.position(shard).is_some()).then(|| self.host.unfinished())
    }

    /// Sends what may be known elsewhere by now, unless so much was sent a moment ago that it can wait.
    pub(super) fn send_to_peers(&mut self) {
        let is_silent = self.silent_until.is_some_and(|until| self.now < until);
        if is_silent {
            return;
        }
        self.tell_standing();
        let mut envelopes = std::mem::take(&mut self.envelopes);
        self.host.outgoing(self.moment, &mut envelopes);
        self.silent_until = silence_after(envelopes.len()).map(|silence| self.now + silence);
        let speaks = envelopes.is_empty() || self.shared.speaks();
        // Together to each peer: a link that is woken for every message sends every message by itself.
        while let Some(to) = envelopes.last().map(|envelope| envelope.to) {
            let theirs = envelopes.extract_if(.., |envelope| envelope.to == to);
            if !speaks {
                self.shared.send_through_speaker(to, theirs);
                continue;
            }
            let mut messages = 0;
            for Envelope { shard, message, .. } in theirs {
                Frame::encode_message(shard, &message, &mut self.frames);
                messages += 1;
            }
            self.shared.board().send(to, &mut self.frames, messages);
        }
        self.envelopes = envelopes;
    }

    /// How long the shards can wait before they want to be asked what is to be sent.
    pub(super) fn peers_can_wait(&self) -> Option<Duration> {
        let silence = self.silent_until.map(|until| until.saturating_duration_since(Instant::now()));
        let wanted = self.host.wants_at().map(|at_ms| {
            let now_ms = super::millis(self.shared.started.elapsed());
            let soonest =
                if self.shared.flush_every.is_some() { ASK_AGAIN_UNFLUSHED_MS } else { ASK_AGAIN_MS };
            Duration::from_millis(at_ms.saturating_sub(now_ms).max(soonest))
        });
        [silence, wanted].into_iter().flatten().min()
    }
}

/// How long nothing is sent after so many messages.
fn silence_after(messages: usize) -> Option<Duration> {
    let messages = u32::try_from(messages).unwrap_or(u32::MAX);
    let weight = messages.saturating_add(messages.saturating_mul(messages) / MANY_MESSAGES);
    (messages > 0).then(|| SILENCE_PER_MESSAGE.saturating_mul(weight).min(SILENCE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_said_little_may_go_on_at_once_and_nobody_is_silent_for_long() {
        assert_eq!(silence_after(0), None);
        assert!(silence_after(2) < Some(Duration::from_millis(1)), "a count at a site with two peers");
        assert_eq!(silence_after(usize::MAX), Some(SILENCE_MAX));
    }
}
