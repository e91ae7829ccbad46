//! Bytes that no site would send. Each time: the connection is closed, people are told why, and a good peer keeps its link.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use quipu_server::links::{FRAME_BYTES_MAX, Frame};
use quipu_storage::ShardId;

use crate::support::{Raw, SHARDS, Site, hello, nobody};

/// Somebody sends these bytes at once, and nothing else.
fn before_the_handshake(bytes: &[u8], reason: &str) {
    let server = Site::first();
    let mut good = Raw::join(&server, 3);
    let mut raw = Raw::dial(&server);
    raw.write(bytes);
    raw.stream.shutdown(std::net::Shutdown::Write).expect("it is open");
    raw.closed();
    server.expect(reason);
    assert!(good.is_alive());
    assert_eq!(server.ask("DBSIZE"), ":0");
}

/// Site 2 goes through the handshake and sends these bytes.
fn after_the_handshake(bytes: &[u8], reason: &str) {
    let server = Site::first();
    let mut good = Raw::join(&server, 3);
    let mut raw = Raw::join(&server, 2);
    raw.write(bytes);
    raw.closed();
    server.expect("peer2:link=down");
    server.expect(reason);
    assert!(good.is_alive());
    assert!(server.info().contains("peer3:link=up"));
    assert_eq!(server.ask("DBSIZE"), ":0");
    // It may come back, and behave.
    assert!(Raw::join(&server, 2).is_alive());
}

fn with_a_broken_checksum(frame: &Frame<'_>) -> Vec<u8> {
    let mut bytes = frame.to_bytes();
    bytes[5] ^= 1;
    bytes
}

#[test]
fn a_visitor_that_speaks_another_protocol() {
    before_the_handshake(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "turned_away:a frame of ");
}

#[test]
fn a_hello_that_ends_in_the_middle() {
    let bytes = Frame::Hello(hello(2, 1)).to_bytes();
    before_the_handshake(&bytes[..20], "turned_away:the other side has closed the connection in the middle");
}

#[test]
fn a_hello_with_a_wrong_checksum() {
    before_the_handshake(&with_a_broken_checksum(&Frame::Hello(hello(2, 1))), "whose checksum is");
}

#[test]
fn a_message_instead_of_a_hello() {
    let bytes = Frame::Shard { shard: ShardId(0), message: b"x" }.to_bytes();
    before_the_handshake(&bytes, "a message for a shard came before the handshake was over");
}

#[test]
fn a_hello_that_would_be_long() {
    before_the_handshake(&(1_000_000_u32).to_le_bytes(), "a frame of 1000000 bytes; at most 16384");
}

#[test]
fn somebody_who_says_nothing_is_not_waited_for() {
    let server = Site::first();
    let mut good = Raw::join(&server, 3);
    let mut silent = Raw::dial(&server);
    let start = Instant::now();
    while !silent.stream.peek(&mut [0]).is_ok_and(|bytes| bytes == 0) {
        assert!(good.is_alive() && start.elapsed() < Duration::from_secs(20));
    }
    silent.closed();
    assert!(start.elapsed() >= Duration::from_secs(4), "{:?}", start.elapsed());
    assert!(good.is_alive());
}

#[test]
fn a_second_hello() {
    after_the_handshake(&Frame::Hello(hello(2, 1)).to_bytes(), "trouble=a second Hello after the handshake");
}

#[test]
fn positions_once_more() {
    let bytes = Frame::Positions(vec![0; SHARDS.into()]).to_bytes();
    after_the_handshake(&bytes, "trouble=Positions after the handshake");
}

#[test]
fn a_shard_that_does_not_exist() {
    let bytes = Frame::Shard { shard: ShardId(SHARDS), message: b"x" }.to_bytes();
    after_the_handshake(&bytes, "trouble=a message for shard 4, and there are 4");
}

#[test]
fn a_message_that_is_none() {
    let bytes = Frame::Shard { shard: ShardId(0), message: b"\xff no message" }.to_bytes();
    after_the_handshake(&bytes, "trouble=bytes that are no message");
}

#[test]
fn a_frame_that_would_be_too_long() {
    let length = u32::try_from(FRAME_BYTES_MAX + 1).expect("fits");
    after_the_handshake(&length.to_le_bytes(), &format!("trouble=a frame of {length} bytes; at most"));
}

#[test]
fn a_message_with_a_wrong_checksum() {
    let bytes = with_a_broken_checksum(&Frame::Shard { shard: ShardId(0), message: b"x" });
    after_the_handshake(&bytes, "trouble=a frame whose checksum is");
}

#[test]
fn a_kind_that_nobody_knows() {
    let mut bytes = Frame::Beat.to_bytes();
    bytes[8] = 77;
    after_the_handshake(&bytes, "trouble=a frame whose checksum is");
}

#[test]
fn a_peer_that_falls_silent_is_given_up() {
    let server = Site::first();
    let mut good = Raw::join(&server, 3);
    let _silent = Raw::join(&server, 2);
    let start = Instant::now();
    while server.info().contains("peer2:link=up") {
        assert!(good.is_alive() && start.elapsed() < Duration::from_secs(20));
    }
    assert!(start.elapsed() >= Duration::from_secs(4), "{:?}", start.elapsed());
    server.expect("trouble=nothing was heard for 5 s");
    assert!(good.is_alive());
}

#[test]
fn a_peer_that_never_reads_is_given_up_and_nobody_waits_for_it() {
    const SHARDS: u16 = 64;
    let server = Site::with_shards(SHARDS, 1, [(2, nobody()), (3, nobody())]);
    let mut good = Raw::join_with_shards(SHARDS, &server, 3);
    good.speak(SHARDS);
    // It reads and answers, until the other side closes.
    let good = std::thread::spawn(move || {
        let mut bytes = 0;
        while let Some((is_beat, length)) = good.next(|frame| (frame == Frame::Beat, frame.to_bytes().len()))
        {
            bytes += length;
            if is_beat {
                good.send(&Frame::Beat);
            }
        }
        bytes
    });
    let stuck = Raw::join_with_shards(SHARDS, &server, 2);
    let mut voice = stuck.stream.try_clone().expect("a handle");
    let start = Instant::now();
    server.fill(40_000);
    while server.info().contains("peer2:link=up") {
        assert!(start.elapsed() < Duration::from_secs(60), "{}", server.info());
        // It does say that it is there.
        let _ = voice.write_all(&Frame::Beat.to_bytes());
        let before = Instant::now();
        assert_eq!(server.ask("GET other"), "$-1");
        assert!(before.elapsed() < Duration::from_secs(2), "clients wait for it: {:?}", before.elapsed());
        std::thread::sleep(Duration::from_millis(100));
    }
    // For so long, or for so many bytes.
    let info = server.info();
    let reasons = [
        "trouble=nothing could be sent for 5 s: the other side does not read",
        "bytes wait to be sent, and the peer does not read",
    ];
    assert!(reasons.iter().any(|reason| info.contains(reason)), "{info}");
    assert!(server.info().contains("peer3:link=up"));
    drop(server);
    let bytes = good.join().expect("no panic");
    assert!(bytes > 16 << 20, "the good one was sent only {bytes} bytes");
}

#[test]
fn a_crowd_of_strangers_does_not_disturb_a_link() {
    let server = Site::first();
    let mut good = Raw::join(&server, 3);
    let mut crowd: Vec<Raw> = (0..80).map(|_| Raw::dial(&server)).collect();
    // Those beyond the limit are closed at once.
    crowd.last_mut().expect("somebody").closed();
    assert!(good.is_alive());
    drop(crowd);
    // Their places are free again before long.
    let start = Instant::now();
    let mut next = loop {
        let mut raw = Raw::dial(&server);
        raw.send(&Frame::Hello(hello(2, 1)));
        if raw.hello().is_some() {
            break raw;
        }
        assert!(start.elapsed() < Duration::from_secs(20));
    };
    assert!(next.positions().is_some() && good.is_alive());
}
