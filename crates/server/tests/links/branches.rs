//! Of two copies of a third site a server has heard one, and its peer the other.

use std::{
    thread,
    time::{Duration, Instant},
};

use quipu_server::links::Frame;
use quipu_storage::ShardId;

use crate::support::{PATIENCE, Raw, Site};

/// Site 2.
const TWO: [u16; 2] = [2, 0];

/// A message as in `docs/protocol.md`: how far its sender is with the stream of site 2, and which process has written the
/// change there; or the first three changes of that stream, and which process has written them.
fn message(received: &[u64], written_by: &[u64]) -> Vec<u8> {
    type Received = ([u16; 2], u64, u64, Option<u8>, u64);
    type Part = ([u16; 2], u64, u64, [u8; 0], [u8; 0]);
    type Runs = ([u16; 2], Vec<[u64; 2]>);
    let received: Vec<Received> = received.iter().map(|nonce| (TWO, 3, 0, None, *nonce)).collect();
    let parts: Vec<Part> = written_by.iter().map(|_| (TWO, 0, 3, [], [])).collect();
    let runs: Vec<Runs> = written_by.iter().map(|nonce| (TWO, vec![[*nonce, 0]])).collect();
    let mut bytes = vec![0x8d];
    let mut add = |value: Vec<u8>| bytes.extend(value);
    let none = || minicbor::to_vec(None::<u8>).expect("memory");
    let empty = || minicbor::to_vec([0_u8; 0]).expect("memory");
    add(minicbor::to_vec(3 * written_by.len()).expect("memory"));
    add(minicbor::to_vec(0_u8).expect("memory"));
    add(minicbor::to_vec(received).expect("memory"));
    add(empty());
    add(empty());
    add(minicbor::to_vec(1_u8).expect("memory"));
    add(minicbor::to_vec(parts).expect("memory"));
    add(empty());
    (0..4).for_each(|_| add(none()));
    add(minicbor::to_vec(runs).expect("memory"));
    bytes
}

#[test]
fn a_third_site_whose_streams_differ_is_named() {
    let server = Site::first();
    let (mut two, mut three) = (Raw::join(&server, 2), Raw::join(&server, 3));
    two.send(&Frame::Shard { shard: ShardId(0), message: &message(&[], &[77]) });
    assert!(two.is_alive() && !server.info().contains("differing"), "{}", server.info());
    let until = Instant::now() + PATIENCE;
    while !server.info().contains("differing:site 2,at=site 3") {
        assert!(Instant::now() < until, "{}", server.info());
        three.send(&Frame::Shard { shard: ShardId(0), message: &message(&[78], &[]) });
        assert!(two.is_alive() && three.is_alive(), "{}", server.info());
        thread::sleep(Duration::from_millis(50));
    }
    // As soon as it has the same.
    while server.info().contains("differing") {
        assert!(Instant::now() < until, "{}", server.info());
        three.send(&Frame::Shard { shard: ShardId(0), message: &message(&[77], &[]) });
        assert!(two.is_alive() && three.is_alive(), "{}", server.info());
        thread::sleep(Duration::from_millis(50));
    }
}
