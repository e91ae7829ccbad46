//! Guests that have dialled. A relay says what it has to hand over, and is answered when that is durable; another node of
//! this site asks questions. Each may say what its role permits, after it has introduced itself.
//!
//! A relay that does not read, or sends without end, waits for itself alone: what it has sent and is not answered is
//! bounded, and so is what waits to be sent to it.

use std::{net::SocketAddr, sync::Arc};

use tokio::{net::TcpStream, sync::Semaphore};

use super::{
    Frame, Inside, NODE_KEY_BYTES, Reason, Refused,
    frame::RELAY_FRAME_BYTES_MAX,
    queue::Queue,
    wire::{Reader, Wire, write},
};

/// So many bytes of a relay may wait for their answers; then it is not read from until they have them.
const INBOUND_BYTES_MAX: usize = 2 * RELAY_FRAME_BYTES_MAX;

/// A request counts as at least so many bytes, so that there are not too many of them.
const REQUEST_BYTES_MIN: usize = 4096;

/// Who has dialled, as it says.
#[derive(Debug)]
pub(super) enum Guest {
    /// Hands over, passes commands on and leaves an estate.
    Relay { hello: Vec<u8> },
    /// Another node of this site, if the key is right. Asks questions.
    Node { key: [u8; NODE_KEY_BYTES] },
}

/// What a guest may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Relay,
    Node,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Relay => "a relay",
            Self::Node => "a node of this site",
        }
    }
}

/// What a guest wants.
#[derive(Debug, Clone, Copy)]
enum Wish {
    Exchange,
    Adopt,
    Call { number: u64 },
    Answer { number: u64 },
}

/// Serves a guest until something ends it.
pub(super) async fn serve<N: Inside>(node: N, wire: Wire, address: SocketAddr, guest: Guest) {
    let Ok(_place) = Arc::clone(&node.board().relays).try_acquire_owned() else {
        return turn_away(wire, "there are too many relays here; use another parent").await;
    };
    if let Some(why) = node.board().stopped() {
        return turn_away(wire, why).await;
    }
    // Who is in the wrong cluster hears so before anything else.
    let (role, met) = match &guest {
        Guest::Relay { hello } => (Role::Relay, node.meet_relay(hello)),
        Guest::Node { key } => (Role::Node, node.meet_node(key)),
    };
    let answer = match met {
        Ok(answer) => answer,
        Err(why) => {
            node.board().complain(address, &format!("{} was refused: {why}", role.name()));
            return turn_away(wire, &why).await;
        }
    };
    let queue = Arc::new(Queue::default());
    queue.push(&mut Frame::Exchanged(&answer).to_bytes());
    tracing::info!(%address, "{} has come", role.name());
    let Wire { stream, reader } = wire;
    let why = tokio::select! {
        why = read(&node, role, &stream, reader, &queue) => why,
        why = write(&stream, &queue, |_| ()) => why,
        why = queue.closed() => why,
    };
    tracing::info!(%address, "{} has gone: {why}", role.name());
}

async fn turn_away(wire: Wire, why: &str) {
    let refused = Refused { reason: Reason::Other, text: why.to_owned() };
    // If it has gone it needs no explanation.
    let _ = wire.send(&Frame::Refused(refused)).await;
    wire.close().await;
}

/// Reads until something is wrong, and says what.
async fn read<N: Inside>(
    node: &N,
    role: Role,
    stream: &TcpStream,
    mut reader: Reader,
    queue: &Arc<Queue>,
) -> String {
    let room = Arc::new(Semaphore::new(INBOUND_BYTES_MAX));
    loop {
        loop {
            let frame = match reader.inbox.next(RELAY_FRAME_BYTES_MAX) {
                Ok(None) => break,
                Ok(Some(frame)) => frame,
                Err(error) => return error.to_string(),
            };
            let (wish, body) = match (role, frame) {
                (_, Frame::Beat) => continue,
                (Role::Relay, Frame::Exchange(body)) => (Wish::Exchange, body.to_vec()),
                (Role::Relay, Frame::Estate(body)) => (Wish::Adopt, body.to_vec()),
                (Role::Relay, Frame::Call { number, command }) => (Wish::Call { number }, command.to_vec()),
                (Role::Node, Frame::Ask { number, question }) => (Wish::Answer { number }, question.to_vec()),
                (role, other) => return format!("{} from {}", other.name(), role.name()),
            };
            let bytes = u32::try_from(body.len().max(REQUEST_BYTES_MIN)).expect("frames are bounded");
            let room = Arc::clone(&room).acquire_many_owned(bytes).await.expect("it is never closed");
            let (node, queue) = (node.clone(), Arc::clone(queue));
            tokio::spawn(async move {
                answer(&node, wish, &body, &queue).await;
                drop(room);
            });
        }
        if let Err(broken) = reader.fill(stream).await {
            return broken.to_string();
        }
    }
}

async fn answer<N: Inside>(node: &N, wish: Wish, body: &[u8], queue: &Queue) {
    let answer = match wish {
        Wish::Exchange => node.exchange(body).await,
        Wish::Adopt => node.adopt(body).await,
        Wish::Call { .. } => node.call_for(body).await,
        Wish::Answer { .. } => node.answer_sibling(body).await,
    };
    match (wish, answer) {
        (Wish::Exchange, Ok(answer)) => queue.push(&mut Frame::Exchanged(&answer).to_bytes()),
        (Wish::Adopt, Ok(answer)) => queue.push(&mut Frame::Adopted(&answer).to_bytes()),
        (Wish::Call { number }, Ok(reply)) => {
            queue.push(&mut Frame::Called { number, reply: &reply }.to_bytes());
        }
        (Wish::Answer { number }, Ok(answer)) => {
            queue.push(&mut Frame::Told { number, answer: &answer }.to_bytes());
        }
        (_, Err(text)) => {
            let refused = Refused { reason: Reason::Other, text };
            queue.push(&mut Frame::Refused(refused).to_bytes());
        }
    }
}
