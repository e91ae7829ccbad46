//! Links between sites: how what one site has counted reaches the others.
//!
//! [`Frame`] is what travels and in which order; [`Identity::check`] decides whom a site talks to. `session` is one
//! connection, `board` what all threads know of the links. They run on a thread of their own, so that no load of clients
//! keeps a site from saying that it is there. What a message means is the engine's business.

mod backoff;
mod board;
mod caller;
mod farewell;
mod frame;
mod hello;
mod queue;
mod relays;
mod session;
mod silence;
mod throttle;
mod wire;

use std::{collections::BTreeMap, future::Future, net::TcpListener, sync::Arc, time::Duration};

use quipu_engine::{Moment, SiteId};
use quipu_storage::ShardId;
use tokio::{
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};

use self::{
    board::{Peer, Wanted},
    session::{End, Session},
};

use crate::node::essential::vital;

pub(crate) use self::{
    backoff::BackOff,
    board::{Board, Halt, LinksOf},
    caller::{Caller, Unanswered},
    throttle::{Throttle, Verdict},
};
pub use self::{
    frame::{
        BadFrame, Behind, Draining, FRAME_BYTES_MAX, Frame, HELLO_BYTES_MAX, Inbox, NODE_KEY_BYTES,
        REFUSED_TEXT_BYTES_MAX, RELAY_FRAME_BYTES_MAX, Reason, Refused,
    },
    hello::{Hello, Identity, Instance, PROTOCOL, Rejection, Run, Seen},
};

/// So many connections may be in their handshake. One beyond is closed at once; whoever should have got it dials again, or
/// is dialled.
const HANDSHAKES_MAX: usize = 64;
/// So many relays may be connected. Each may send a large message at any time.
const RELAYS_MAX: usize = 128;
/// How long a dial may take.
const DIAL_MAX: Duration = Duration::from_secs(3);
/// Of two links the one that the lower number has dialled stays; so the higher one lets it try first.
const HEAD_START: Duration = Duration::from_millis(200);
/// After an error of `accept` (too many open files, for example).
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// How often the metrics are told how long peers have been silent.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// So many files a peer may need: its link, one that this site dials, and one that takes the place of another.
const FILES_PER_PEER: usize = 3;
/// The listener and what the thread of the links needs.
const FILES_OTHERS: usize = 8;

/// A host and a port as one text; an IPv6 address gets its brackets.
pub(crate) fn join_host(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// How many files the links to so many peers may have open.
pub(crate) const fn files_max(peers: usize) -> usize {
    HANDSHAKES_MAX + RELAYS_MAX + FILES_PER_PEER * peers + FILES_OTHERS
}

/// How many files a relay may have open because of so many parents.
pub(crate) const fn files_of_relay(parents: usize) -> usize {
    if parents == 0 { 0 } else { FILES_PER_PEER * parents + FILES_OTHERS }
}

/// The node behind the links.
pub(crate) trait Inside: Clone + Send + Sync + 'static {
    /// What all threads know of the links.
    fn board(&self) -> &Board;
    /// Now.
    fn moment(&self) -> Moment;
    /// How much of a site's stream is here, in each shard: all of it, durably, for this site. `None`: not known now.
    fn positions(&self, of: SiteId) -> impl Future<Output = Option<Vec<u64>>> + Send;
    /// What is remembered of a site.
    fn seen(&self, site: SiteId) -> Result<Option<Seen>, String>;
    /// Remembers a site, durably.
    fn remember(&self, site: SiteId, seen: Seen) -> Result<(), String>;
    /// What this site says of who belongs to the cluster.
    fn notice(&self) -> Vec<u8>;
    /// There is a link.
    fn connected(&self, peer: SiteId);
    /// There is none any more.
    fn disconnected(&self, peer: SiteId);
    /// Passes a message on to its shard. `room` is dropped when it has been dealt with. The error is why it is none.
    fn deliver(
        &self,
        from: SiteId,
        shard: ShardId,
        message: &[u8],
        room: OwnedSemaphorePermit,
    ) -> Result<(), String>;
    /// Passes a message on to the council.
    fn council(&self, from: SiteId, message: &[u8]);
    /// A site wants this one to leave, or to stay.
    fn leave(&self, from: SiteId, leaves: bool);
    /// How far a site that leaves has got.
    fn draining(&self, from: SiteId, draining: Draining);
    /// This site runs from an old copy of its folder, as a peer says: it must not count any more.
    fn is_old_copy(&self, why: &str);
    /// Answers a relay that introduces itself. The error is for it: nothing else is done for it then.
    fn meet_relay(&self, bytes: &[u8]) -> Result<Vec<u8>, String>;
    /// Answers another node of this site, which shows that it is one. The error is for whoever is none.
    fn meet_node(&self, key: &[u8; NODE_KEY_BYTES]) -> Result<Vec<u8>, String>;
    /// Takes in what a relay says. The answer comes when it is durable; the error is for the relay.
    fn exchange(&self, bytes: &[u8]) -> impl Future<Output = Result<Vec<u8>, String>> + Send;
    /// Takes over what a relay leaves.
    fn adopt(&self, bytes: &[u8]) -> impl Future<Output = Result<Vec<u8>, String>> + Send;
    /// Does a command for a relay.
    fn call_for(&self, bytes: &[u8]) -> impl Future<Output = Result<Vec<u8>, String>> + Send;
    /// Answers another node of this site.
    fn answer_sibling(&self, bytes: &[u8]) -> impl Future<Output = Result<Vec<u8>, String>> + Send;
}

/// Takes and makes links until it is dropped.
pub(crate) async fn run<N: Inside>(node: N, listener: Option<TcpListener>) {
    if let Some(listener) = listener {
        match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => drop(tokio::spawn(vital(accept(node.clone(), listener)))),
            Err(error) => tracing::error!(%error, "no links are taken"),
        }
    }
    tokio::spawn(vital(notice_silence(node.clone())));
    let mut changes = node.board().changes();
    let mut kept: BTreeMap<u16, Arc<Peer>> = BTreeMap::new();
    loop {
        let peers = node.board().peers();
        for (number, peer) in &peers {
            let silent_ms = node.board().silent_ms(peer);
            peer.metrics.silent_seconds.set(silent_ms.map_or(f64::NAN, |ms| ms as f64 / 1000.0));
            if !kept.get(number).is_some_and(|kept| Arc::ptr_eq(kept, peer)) {
                tokio::spawn(vital(keep_link(node.clone(), *number, Arc::clone(peer))));
            }
        }
        kept = peers;
        for (site, address) in node.board().take_farewells() {
            tokio::spawn(farewell::tell(node.clone(), site, address));
        }
        tokio::select! {
            // The sender lives as long as the node.
            _ = changes.changed() => {}
            () = sleep(REPORT_EVERY), if !kept.is_empty() => {}
        }
    }
}

/// Notices when this thread has not run for so long that others may have removed this site.
async fn notice_silence<N: Inside>(node: N) {
    loop {
        node.board().run(node.moment());
        sleep(silence::RUN_EVERY).await;
    }
}

async fn accept<N: Inside>(node: N, listener: tokio::net::TcpListener) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a link could not be taken; trying again");
                sleep(ACCEPT_AGAIN_AFTER).await;
                continue;
            }
        };
        let Ok(handshake) = Arc::clone(&handshakes).try_acquire_owned() else {
            tracing::debug!(%address, "too many handshakes at a time; a connection is closed");
            continue;
        };
        let session = Session::new(node.clone(), stream, address, None);
        tokio::spawn(session.run(handshake));
    }
}

/// Sees to it that there is a link to a peer, as long as it is one, unless it does so itself.
async fn keep_link<N: Inside>(node: N, number: u16, peer: Arc<Peer>) {
    let mut backoff = BackOff::default();
    let mut wanted = peer.wanted();
    let head_start = if number < node.board().identity().site.number { HEAD_START } else { Duration::ZERO };
    loop {
        peer.down().await;
        sleep(head_start).await;
        if peer.is_up() {
            continue;
        }
        let now = wanted.borrow_and_update().clone();
        let wait = match now {
            Wanted::Gone => return,
            Wanted::Elsewhere => None,
            Wanted::Wait => {
                tracing::info!(site = number, "it is not known where this site is; it has to dial");
                None
            }
            Wanted::Dial(address) => Some(dial(&node, number, &address, &mut backoff).await),
        };
        tokio::select! {
            // The sender is the peer's own.
            _ = wanted.changed() => backoff.reset(),
            () = sleep(wait.unwrap_or_default()), if wait.is_some() => {}
        }
    }
}

/// Dials once, stays until the link has ended, and says how long to wait before the next time.
async fn dial<N: Inside>(node: &N, number: u16, address: &str, backoff: &mut BackOff) -> Duration {
    let end = match connect(address).await {
        Ok((stream, to)) => Session::new(node.clone(), stream, to, Some(number)).run(()).await,
        Err(why) => {
            if node.board().note_unreachable(number, &why.to_string()) {
                tracing::warn!(site = number, address, "cannot be dialled, and is tried again: {why}");
            }
            End::Failed
        }
    };
    match end {
        End::WasUp => {
            backoff.reset();
            backoff.failed()
        }
        End::Superfluous | End::Failed => backoff.failed(),
        End::Refused => backoff.refused(),
    }
}

async fn connect(address: &str) -> std::io::Result<(TcpStream, std::net::SocketAddr)> {
    let stream = timeout(DIAL_MAX, TcpStream::connect(address)).await??;
    let to = stream.peer_addr()?;
    Ok((stream, to))
}
