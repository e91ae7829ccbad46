//! Relays made of a socket: what a site answers them, and that none of them holds anybody up.

use std::time::{Duration, Instant};

use quipu_engine::{
    Action, Add, Added, Command, OperationId, Refusal, Reply, call,
    handoff::{
        Name, Server,
        exchange::{self, Exchange, Exchanged},
    },
};
use quipu_server::links::{Frame, HELLO_BYTES_MAX, RELAY_FRAME_BYTES_MAX};
use quipu_storage::ShardId;

use crate::support::{CLUSTER, Raw, SHARDS, Site, site};

fn hello(cluster: &str) -> Vec<u8> {
    exchange::encode(&Exchange { cluster: Some(cluster.to_owned()), ..Exchange::default() })
}

/// A relay that has introduced itself.
pub(crate) fn join(to: &Site) -> Raw {
    let mut raw = Raw::dial(to);
    raw.send(&Frame::Exchange(&hello(CLUSTER)));
    let answer = exchanged(&mut raw);
    let server = Server { name: Name::of_site(site(1)), tier: 0, shards: SHARDS };
    assert_eq!((answer.cluster.as_str(), answer.server, answer.answers), (CLUSTER, server, Vec::new()));
    raw
}

/// The next frame that is no beat.
pub(crate) fn next<T>(raw: &mut Raw, mut look: impl FnMut(Frame<'_>) -> T) -> Option<T> {
    loop {
        let seen = raw.next(|frame| (frame != Frame::Beat).then(|| look(frame)))?;
        if seen.is_some() {
            return seen;
        }
    }
}

fn exchanged(raw: &mut Raw) -> Exchanged {
    let answer = next(raw, |frame| match frame {
        Frame::Exchanged(body) => exchange::decode(body).expect("an answer"),
        other => panic!("{other:?}"),
    });
    answer.expect("it answers")
}

fn call(raw: &mut Raw, number: u64, command: Command<'_>) {
    raw.send(&Frame::Call { number, command: &call::encode_command(command) });
}

fn called(raw: &mut Raw) -> (u64, Reply) {
    let answer = next(raw, |frame| match frame {
        Frame::Called { number, reply } => (number, call::decode_reply(reply).expect("a reply")),
        other => panic!("{other:?}"),
    });
    answer.expect("it answers")
}

#[test]
fn a_site_tells_a_relay_who_it_is_and_does_commands_for_it() {
    let server = Site::first();
    let mut relay = join(&server);
    let operation = Some(OperationId { producer: b"web", id: b"1" });
    let add = Command { key: b"hits", action: Action::Add { add: Add::of(5), operation } };
    for (number, repeated) in [(7, false), (u64::MAX, true)] {
        call(&mut relay, number, add);
        let added = Added { value: 5, applied: 5, repeated, site: site(1) };
        assert_eq!(called(&mut relay), (number, Reply::Added(added)));
    }
    assert_eq!(server.ask("GET hits"), "5");
    let other = Command { key: b"hits", action: Action::Add { add: Add::of(6), operation } };
    call(&mut relay, 8, other);
    assert_eq!(called(&mut relay), (8, Reply::Refused(Refusal::OtherAmount { first: 5, now: 6 })));
    assert!(relay.is_alive());
}

#[test]
fn a_relay_of_another_cluster_is_told_so() {
    let server = Site::first();
    let mut raw = Raw::dial(&server);
    raw.send(&Frame::Exchange(&hello("other")));
    let text = raw.refused().text;
    assert!(text.contains("belongs to the cluster \"other\""), "{text}");
}

/// A relay says this after it has introduced itself; a good peer, and another relay, go on.
fn said_by_a_relay(bytes: &[u8], expected: Option<&str>) {
    let server = Site::first();
    let (mut good, mut other) = (Raw::join(&server, 3), join(&server));
    let mut relay = join(&server);
    relay.write(bytes);
    let text = next(&mut relay, |frame| match frame {
        Frame::Refused(refused) => refused.text,
        other => panic!("{other:?}"),
    });
    match expected {
        Some(part) => assert!(text.as_ref().is_some_and(|text| text.contains(part)), "{text:?}"),
        None => assert_eq!(text, None, "it closes"),
    }
    assert!(good.is_alive() && other.is_alive());
    assert_eq!(server.ask("DBSIZE"), ":0");
}

#[test]
fn what_cannot_be_read_is_refused() {
    said_by_a_relay(
        &Frame::Exchange(b"\xff nothing").to_bytes(),
        Some("this version reads 1; nothing was done"),
    );
    said_by_a_relay(&Frame::Exchange(b"\x01\xff").to_bytes(), Some("no exchange"));
    said_by_a_relay(&Frame::Estate(b"\x01\x80").to_bytes(), Some("nothing was done"));
    said_by_a_relay(&Frame::Call { number: 1, command: b"" }.to_bytes(), Some("nothing was done"));
}

#[test]
fn what_relays_do_not_say_ends_the_connection() {
    said_by_a_relay(&Frame::Shard { shard: ShardId(0), message: b"x" }.to_bytes(), None);
    said_by_a_relay(&Frame::Council(b"x").to_bytes(), None);
    said_by_a_relay(&Frame::Positions(vec![0]).to_bytes(), None);
    let length = u32::try_from(RELAY_FRAME_BYTES_MAX + 1).expect("fits");
    said_by_a_relay(&length.to_le_bytes(), None);
}

#[test]
fn a_peer_does_not_become_a_relay() {
    let server = Site::first();
    let mut peer = Raw::join(&server, 2);
    peer.send(&Frame::Exchange(&hello(CLUSTER)));
    peer.closed();
    server.expect("trouble=an Exchange after the handshake");
}

#[test]
fn the_first_word_of_a_relay_is_short() {
    let server = Site::first();
    let mut raw = Raw::dial(&server);
    raw.write(&Frame::Exchange(&vec![1; HELLO_BYTES_MAX]).to_bytes());
    raw.closed();
    server.expect("turned_away:a frame of 16385 bytes; at most 16384");
}

#[test]
fn a_relay_that_falls_silent_is_given_up() {
    let server = Site::first();
    let mut relay = join(&server);
    let start = Instant::now();
    while next(&mut relay, |frame| format!("{frame:?}")).is_some() {}
    let after = start.elapsed();
    assert!(after >= Duration::from_secs(4) && after < Duration::from_secs(20), "{after:?}");
}

#[test]
fn a_relay_that_never_reads_holds_nobody_up() {
    let server = Site::first();
    let mut good = Raw::join(&server, 3);
    let stuck = join(&server);
    let mut voice = stuck.stream.try_clone().expect("a handle");
    voice.set_write_timeout(Some(Duration::from_millis(200))).expect("a time");
    // A site that has just been started asks its peers first whether it still belongs to them.
    assert_eq!(server.ask("INCR other"), ":1");
    let get = call::encode_command(Command { key: b"hits", action: Action::Get });
    let calls: Vec<u8> =
        (0..20_000).flat_map(|number| Frame::Call { number, command: &get }.to_bytes()).collect();
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        // It does not read, so at some time it is not read from either.
        let _ = std::io::Write::write(&mut voice, &calls);
        let before = Instant::now();
        assert_eq!(server.ask("INCR other").as_bytes()[0], b':');
        assert!(before.elapsed() < Duration::from_secs(2), "clients wait for it: {:?}", before.elapsed());
    }
    assert!(good.is_alive() && join(&server).is_alive());
}

#[test]
fn so_many_relays_and_no_more() {
    let server = Site::first();
    let mut relays: Vec<Raw> = (0..128).map(|_| join(&server)).collect();
    let mut raw = Raw::dial(&server);
    raw.send(&Frame::Exchange(&hello(CLUSTER)));
    assert!(raw.refused().text.contains("too many relays"));
    assert!(relays[0].is_alive());
    drop(relays);
    // Their places are free again before long.
    let start = Instant::now();
    loop {
        let mut raw = Raw::dial(&server);
        raw.send(&Frame::Exchange(&hello(CLUSTER)));
        if next(&mut raw, |frame| matches!(frame, Frame::Exchanged(_))) == Some(true) {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(20));
    }
}
