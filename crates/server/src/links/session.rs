//! One connection from its first byte to its last: the handshake, and then messages in both directions.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use quipu_engine::SiteId;
use tokio::{net::TcpStream, sync::Semaphore, time::timeout};

use super::{
    Frame, Hello, Inside, LinksOf, Reason, Refused, Rejection, Seen,
    board::{Entered, Peer},
    frame::{FRAME_BYTES_MAX, HELLO_BYTES_MAX},
    queue::Queue,
    relays::{self, Guest},
    wire::{Broken, Reader, Wire, write},
};

/// A handshake that takes longer is given up.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// So many bytes of a peer's messages may wait for the workers; then it is not read from until they have caught up.
const INBOUND_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How a connection has ended.
#[derive(Debug)]
pub(crate) enum End {
    /// There was a link.
    WasUp,
    /// There is another one.
    Superfluous,
    /// One side has refused the other.
    Refused,
    /// It did not come so far.
    Failed,
}

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Broken(#[from] Broken),
    /// By this site.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// By the other one.
    #[error("{}", .0.text)]
    Refused(Refused),
    #[error("{0} came before the handshake was over")]
    Order(&'static str),
    #[error("the handshake took more than {} s", HANDSHAKE_MAX.as_secs())]
    Slow,
    /// Nobody's fault.
    #[error("{0}")]
    NotNow(String),
}

/// Whom a connection has brought.
enum Met {
    /// Another site of the cluster: the handshake is complete.
    Site(Hello),
    /// A relay or another node of this site, and what it has said.
    Guest(Guest),
    /// Another site that has come to the wrong node, and who it says it is.
    PassedOn { hello: Hello, to: String },
}

/// What whoever has dialled says first.
enum First {
    Hello(Hello),
    Guest(Guest),
}

/// Lets a site that has come to the wrong node talk to the right one, byte by byte.
async fn pass_on(wire: Wire, hello: &Hello, to: &str) {
    let Wire { mut stream, .. } = wire;
    let passed = async {
        let (mut there, _) = super::connect(to).await?;
        tokio::io::AsyncWriteExt::write_all(&mut there, &Frame::Hello(hello.clone()).to_bytes()).await?;
        tokio::io::copy_bidirectional(&mut stream, &mut there).await
    };
    match passed.await {
        Ok(_) => {}
        Err(error) => tracing::debug!(to, "a site could not be passed on: {error}"),
    }
}

/// One connection.
pub(crate) struct Session<N> {
    node: N,
    wire: Wire,
    /// Where the other side is.
    address: SocketAddr,
    /// The number that was dialled; `None`: the other side has dialled.
    dialled: Option<u16>,
    /// Who the other side says it is.
    claimed: Option<SiteId>,
    /// In which round of asking it was made.
    round: u64,
}

impl<N: Inside> Session<N> {
    pub(crate) fn new(node: N, stream: TcpStream, address: SocketAddr, dialled: Option<u16>) -> Self {
        let round = node.board().round();
        Self { node, wire: Wire::new(stream), address, dialled, claimed: None, round }
    }

    /// Runs the connection to its end. `agreed` is dropped when the handshake is over.
    pub(crate) async fn run<P>(mut self, agreed: P) -> End {
        let handshake = timeout(HANDSHAKE_MAX, async {
            match self.dialled {
                Some(number) => self.introduce(number).await.map(Met::Site),
                None => self.welcome().await,
            }
        });
        let result = handshake.await.unwrap_or(Err(Failure::Slow));
        drop(agreed);
        let hello = match result {
            Ok(Met::Site(hello)) => hello,
            Ok(Met::Guest(guest)) => {
                relays::serve(self.node, self.wire, self.address, guest).await;
                return End::WasUp;
            }
            Ok(Met::PassedOn { hello, to }) => {
                pass_on(self.wire, &hello, &to).await;
                return End::WasUp;
            }
            Err(failure) => return self.give_up(&failure).await,
        };
        let site = hello.site;
        match self.enter(&hello) {
            Ok(Entered::Stays { peer, queue, .. }) => {
                self.exchange(site, &peer, &queue).await;
                End::WasUp
            }
            Ok(Entered::Superfluous) => {
                tracing::debug!(%site, "there is a link already; this one is closed");
                End::Superfluous
            }
            Err(failure) => self.give_up(&failure).await,
        }
    }

    /// Makes this connection the link, if it is the one that stays. Only then the other side's run is remembered, before
    /// anything is said over the link: a copy that dials beside its original does not take that one's place. It is compared once
    /// more with what was seen: other handshakes may have been completed since this one was begun, but none is while this runs.
    fn enter(&self, hello: &Hello) -> Result<Entered, Failure> {
        let seen = self.check(hello)?;
        let (site, board) = (hello.site, self.node.board());
        let entered = board.enter(site, self.dialled.is_some(), self.round);
        if let Entered::Stays { peer, queue, replaced } = &entered {
            if *replaced {
                self.node.disconnected(site);
            }
            if let Err(why) = self.node.remember(site, seen) {
                peer.leave(queue, &why);
                return Err(Failure::NotNow(why));
            }
            board.hear_cluster_id(site, hello.cluster_id);
        }
        Ok(entered)
    }

    /// The side that has dialled.
    async fn introduce(&mut self, number: u16) -> Result<Hello, Failure> {
        let membership = self.node.board().membership();
        let expected = membership.members.iter().find(|site| site.number == number).copied();
        let expected =
            expected.ok_or_else(|| Failure::NotNow(format!("site {number} is no member any more")))?;
        // Before the other side reads how long its streams are.
        let received = self.positions(expected).await?;
        let own = self.node.board().identity();
        let hello = own.hello(number, &membership, self.node.board().cluster_id());
        self.wire.send(&Frame::Hello(hello)).await?;
        let hello = self.receive_hello().await?;
        let own = self.node.board().identity();
        if hello.site.number != number {
            let (site, own) = (own.site, hello.site);
            return Err(Rejection::OtherSite { site, wanted: number, own }.into());
        }
        let removal = self.check_or_tell(&hello)?;
        let told = self.receive_positions().await?;
        if removal.is_none() {
            self.node.board().identity().check_positions(hello.site, &told, &received)?;
        }
        self.send_positions().await?;
        removal.map_or(Ok(hello), |removal| Err(removal.into()))
    }

    /// Tells a site that was removed that it was, if it is there and does not know. Returns what became of it.
    pub(super) async fn bid_farewell(mut self, site: SiteId) -> Result<String, String> {
        let farewell = timeout(HANDSHAKE_MAX, self.tell_of_removal(site)).await;
        let told = farewell.unwrap_or(Err(Failure::Slow)).map_err(|failure| failure.to_string());
        self.wire.close().await;
        told
    }

    async fn tell_of_removal(&mut self, site: SiteId) -> Result<String, Failure> {
        let board = self.node.board();
        let membership = board.membership();
        let Some(heir) = membership.removed.get(&site).copied() else {
            return Ok(format!("site {site} was not removed"));
        };
        let hello = board.identity().hello(site.number, &membership, board.cluster_id());
        self.wire.send(&Frame::Hello(hello)).await?;
        match self.receive_hello().await {
            Ok(hello) if hello.site == site => {}
            Ok(_) => return Ok(format!("another site is found where site {site} was")),
            Err(Failure::Refused(_)) => {
                return Ok(format!("site {site} refuses links, as one does that was removed"));
            }
            Err(failure) => return Err(failure),
        }
        self.receive_positions().await?;
        self.send_positions().await?;
        self.wire.send(&Frame::Council(&self.node.notice())).await?;
        self.wire.send(&Frame::Refused(Rejection::Removed { site, heir }.refused())).await?;
        Ok(format!("site {site} was removed from the cluster, and was told so"))
    }

    /// The side that was dialled.
    async fn welcome(&mut self) -> Result<Met, Failure> {
        let hello = match self.receive_first().await? {
            First::Hello(hello) => hello,
            First::Guest(guest) => return Ok(Met::Guest(guest)),
        };
        match self.node.board().links_of() {
            LinksOf::This => {}
            LinksOf::Other(to) => return Ok(Met::PassedOn { hello, to }),
            LinksOf::Nobody => return Err(Failure::NotNow("no node speaks for this site yet".to_owned())),
        }
        let removal = self.check_or_tell(&hello)?;
        // Before the other side reads how long its streams are.
        let received = self.positions(hello.site).await?;
        let board = self.node.board();
        let answer = board.identity().hello(hello.site.number, &board.membership(), board.cluster_id());
        self.wire.send(&Frame::Hello(answer)).await?;
        self.send_positions().await?;
        let told = self.receive_positions().await?;
        if let Some(removal) = removal {
            return Err(removal.into());
        }
        self.node.board().identity().check_positions(hello.site, &told, &received)?;
        Ok(Met::Site(hello))
    }

    /// What whoever has dialled says first. A refusal is believed from a peer that was dialled, or whose Hello is in order:
    /// anybody can dial.
    async fn receive_first(&mut self) -> Result<First, Failure> {
        let first = self.wire.receive(HELLO_BYTES_MAX, |frame| match frame {
            Frame::Hello(hello) => Ok(First::Hello(hello)),
            Frame::Exchange(bytes) => Ok(First::Guest(Guest::Relay { hello: bytes.to_vec() })),
            Frame::Node { key } => Ok(First::Guest(Guest::Node { key })),
            other => Err(Failure::Order(other.name())),
        });
        let first = first.await??;
        if let First::Hello(hello) = &first {
            self.claimed = Some(hello.site);
        }
        Ok(first)
    }

    async fn receive_hello(&mut self) -> Result<Hello, Failure> {
        let hello = self.wire.receive(FRAME_BYTES_MAX, |frame| match frame {
            Frame::Hello(hello) => Ok(hello),
            Frame::Refused(refused) => Err(Failure::Refused(refused)),
            other => Err(Failure::Order(other.name())),
        });
        let hello = hello.await??;
        self.claimed = Some(hello.site);
        Ok(hello)
    }

    async fn receive_positions(&mut self) -> Result<Vec<u64>, Failure> {
        let positions = self.wire.receive(FRAME_BYTES_MAX, |frame| match frame {
            Frame::Positions(positions) => Ok(positions),
            Frame::Refused(refused) => Err(Failure::Refused(refused)),
            other => Err(Failure::Order(other.name())),
        });
        positions.await?
    }

    async fn send_positions(&mut self) -> Result<(), Failure> {
        let positions = self.positions(self.node.board().identity().site).await?;
        Ok(self.wire.send(&Frame::Positions(positions)).await?)
    }

    async fn positions(&self, of: SiteId) -> Result<Vec<u64>, Failure> {
        let unknown = || Failure::NotNow("a shard is not available at the moment".to_owned());
        self.node.positions(of).await.ok_or_else(unknown)
    }

    fn check(&self, hello: &Hello) -> Result<Seen, Failure> {
        let board = self.node.board();
        if let Some(why) = board.stopped() {
            return Err(Rejection::Stopped { own: board.identity().site, why: why.to_owned() }.into());
        }
        let seen = self.node.seen(hello.site).map_err(Failure::NotNow)?;
        Ok(board.identity().check(hello, &board.membership(), board.cluster_id(), seen.as_ref())?)
    }

    /// The same before the handshake is complete. A site that was removed goes through all of it: a notice of its removal is
    /// believed only after that.
    fn check_or_tell(&self, hello: &Hello) -> Result<Option<Rejection>, Failure> {
        match self.check(hello) {
            Ok(_) => Ok(None),
            Err(Failure::Rejected(removal @ Rejection::Removed { .. })) => Ok(Some(removal)),
            Err(failure) => Err(failure),
        }
    }

    /// Remembers that there is another folder of this site, as one of them was refused for that.
    fn contest(&self, site: SiteId) {
        let contested = match self.node.seen(site) {
            Ok(Some(seen)) => self.node.remember(site, Seen { contested: true, ..seen }),
            other => other.map(drop),
        };
        if let Err(error) = contested {
            tracing::warn!(%site, %error, "it is not stored that an old copy of the site's folder was refused");
        }
    }

    /// Says why there is no link: to the log, to whoever asks this site, and to the other side if it is at fault.
    async fn give_up(self, failure: &Failure) -> End {
        let board = self.node.board();
        let number = self.dialled.or(self.claimed.map(|site| site.number));
        match failure {
            Failure::Rejected(rejection) => {
                self.complain(&format!("a link was refused: {rejection}"));
                board.note_refusal(number, &rejection.to_string());
                let refused = rejection.refused();
                if let Some(site) = self.claimed.filter(|_| refused.reason == Reason::OldCopy) {
                    self.contest(site);
                }
                if matches!(rejection, Rejection::Removed { .. }) {
                    // It shall know who has taken over, and stop counting. If it has gone, it hears of it next time.
                    let _ = self.wire.send(&Frame::Council(&self.node.notice())).await;
                }
                // If it has gone it needs no explanation.
                let _ = self.wire.send(&Frame::Refused(refused)).await;
                self.wire.close().await;
                End::Refused
            }
            Failure::Refused(refused) => {
                self.complain(&format!("the other side refuses a link: {}", refused.text));
                board.note_refusal(number, &refused.text);
                if refused.reason == Reason::OldCopy {
                    self.node.is_old_copy(&refused.text);
                }
                End::Refused
            }
            failure => {
                self.complain(&format!("no link: {failure}"));
                if let (Some(dialled), Failure::Broken(Broken::Closed | Broken::Torn | Broken::Io(_))) =
                    (self.dialled, failure)
                {
                    board.cannot_be_asked(dialled);
                }
                board.note_trouble(number, &failure.to_string());
                End::Failed
            }
        }
    }

    fn complain(&self, what: &str) {
        match self.dialled {
            // As often as it is dialled.
            Some(site) => tracing::warn!(site, address = %self.address, "{what}"),
            None => self.node.board().complain(self.address, what),
        }
    }

    /// Messages in both directions, until something ends it.
    async fn exchange(self, site: SiteId, peer: &Peer, queue: &Arc<Queue>) {
        let Self { node, wire, address, dialled, .. } = self;
        node.connected(site);
        node.board().heard(peer);
        tracing::info!(%site, %address, dialled = dialled.is_some(), "a link is up");
        let Wire { stream, reader } = wire;
        let why = tokio::select! {
            // First: what has come over a link that is closed is not heard any more.
            biased;
            why = queue.closed() => why,
            why = read(&node, site, peer, &stream, reader) => why,
            why = write(&stream, queue, |bytes| _ = peer.metrics.bytes_sent.inc_by(bytes as u64)) => why,
        };
        if peer.leave(queue, &why) {
            tracing::warn!(%site, %address, "a link is down: {why}");
            node.disconnected(site);
        } else {
            tracing::debug!(%site, %address, "a link is closed: {why}");
        }
    }
}

/// Reads until something is wrong, and says what.
async fn read<N: Inside>(
    node: &N,
    site: SiteId,
    peer: &Peer,
    stream: &TcpStream,
    mut reader: Reader,
) -> String {
    let room = Arc::new(Semaphore::new(INBOUND_BYTES_MAX));
    loop {
        // What came with the end of the handshake is there already.
        if let Err(why) = take_frames(node, site, peer, &mut reader, &room).await {
            return why;
        }
        match reader.fill(stream).await {
            Ok(bytes) => {
                node.board().heard(peer);
                peer.metrics.bytes_received.inc_by(bytes as u64);
            }
            Err(broken) => return broken.to_string(),
        }
    }
}

async fn take_frames<N: Inside>(
    node: &N,
    site: SiteId,
    peer: &Peer,
    reader: &mut Reader,
    room: &Arc<Semaphore>,
) -> Result<(), String> {
    let shards = node.board().identity().shards;
    while let Some(frame) = reader.inbox.next(FRAME_BYTES_MAX).map_err(|error| error.to_string())? {
        match frame {
            Frame::Beat => {}
            Frame::Shard { shard, .. } if shard.0 >= shards => {
                return Err(format!("a message for shard {}, and there are {shards}", shard.0));
            }
            Frame::Shard { shard, message } => {
                let bytes = u32::try_from(message.len()).expect("frames are bounded");
                let room = Arc::clone(room).acquire_many_owned(bytes).await;
                let room = room.expect("it is never closed");
                node.deliver(site, shard, message, room)?;
                peer.metrics.messages_received.inc();
            }
            Frame::Council(bytes) => node.council(site, bytes),
            Frame::Leave { leaves } => node.leave(site, leaves),
            Frame::Draining(draining) => node.draining(site, draining),
            Frame::Refused(refused) => return Err(refused.text),
            other @ (Frame::Hello(_)
            | Frame::Positions(_)
            | Frame::Exchange(_)
            | Frame::Exchanged(_)
            | Frame::Estate(_)
            | Frame::Adopted(_)
            | Frame::Call { .. }
            | Frame::Called { .. }
            | Frame::Ask { .. }
            | Frame::Told { .. }
            | Frame::Node { .. }) => {
                return Err(format!("{} after the handshake", other.name()));
            }
        }
    }
    Ok(())
}
