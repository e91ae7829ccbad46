//! Any bytes at all: read or refused, never a panic, and what is read is the same when it is written again. The fuzz target
//! `link` runs the same checks.

use quipu_engine::{
    Action, Add, Command, Host, Membership, Message, Moment, Released, Settings, SiteId, Ticket,
};
use quipu_server::links::{FRAME_BYTES_MAX, Frame, Inbox};
use quipu_storage::{Flush, ShardId, Store, memory::Memory};

const SHARD: ShardId = ShardId(0);
const SECOND: SiteId = SiteId { number: 2, incarnation: 0 };
const NOW: Moment = Moment { elapsed_ms: 1_000, unix_ms: 1_700_000_000_000 };

/// Checks the bytes as all that they could be.
pub(crate) fn check(bytes: &[u8]) {
    as_stream(bytes);
    as_frame(bytes);
    as_message(bytes);
}

/// In pieces and at once the same frames are found.
fn as_stream(bytes: &[u8]) {
    let found = |piece: usize| {
        let mut inbox = Inbox::default();
        let mut frames = Vec::new();
        for piece in bytes.chunks(piece) {
            inbox.push(piece);
            loop {
                match inbox.next(FRAME_BYTES_MAX) {
                    Ok(Some(frame)) => frames.push(frame.to_bytes()),
                    Ok(None) => break,
                    Err(error) => return (frames, Some(error.to_string())),
                }
            }
        }
        (frames, None)
    };
    assert_eq!(found(7), found(bytes.len().max(1)));
}

fn as_frame(bytes: &[u8]) {
    let Ok(frame) = Frame::decode(bytes) else { return };
    let again = frame.to_bytes();
    let mut inbox = Inbox::default();
    inbox.push(&again);
    assert_eq!(inbox.next(again.len()).expect("what was written is read"), Some(frame.clone()));
    if let Frame::Shard { message, .. } = frame {
        as_message(message);
    }
}

fn as_message(bytes: &[u8]) {
    let Ok(message) = Message::decode(bytes) else { return };
    assert_eq!(Message::decode(&message.encode()).expect("what was written is read"), message);
    receive(SiteId::FIRST, SECOND, message.clone());
    receive(SECOND, SiteId::FIRST, message);
}

/// A shard takes the message in, goes on, and its store can be opened again.
fn receive(own: SiteId, peer: SiteId, message: Message) {
    let memory = Memory::new();
    let mut host = open(&memory, own);
    host.connected(peer);
    add(&mut host);
    // Refused or not: it goes on.
    let _ = host.receive(SHARD, peer, message, NOW);
    let mut released = Released::default();
    host.commit(NOW, &mut released);
    add(&mut host);
    let later = Moment { elapsed_ms: NOW.elapsed_ms + 60_000, ..NOW };
    host.maintain(later, &mut released);
    host.outgoing(later, &mut Vec::new());
    drop(host);
    add(&mut open(&memory, own));
}

type MemoryHost = Host<quipu_storage::memory::MemoryLog, quipu_storage::memory::MemoryTable>;

fn open(memory: &Memory, site: SiteId) -> MemoryHost {
    let store = Store::new(memory.log(), memory.table());
    let mut host = Host::new(store, None, Settings { site, ..Settings::default() }, Flush::Now);
    host.set_membership(&Membership::of([SiteId::FIRST, SECOND]));
    host.open(SHARD, NOW).expect("what was stored can be read");
    host
}

fn add(host: &mut MemoryHost) {
    let command = Command { key: b"hits", action: Action::Add { add: Add::of(1), operation: None } };
    host.submit(SHARD, Ticket(1), command, NOW);
    let mut released = Released::default();
    host.commit(NOW, &mut released);
    assert_eq!(released.replies.len(), 1, "every command is answered");
}
