//! What nodes say when one of them does not answer, and to whom.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use quipu_engine::handoff::exchange::{self, Exchange};
use quipu_server::links::{Frame, Inbox, RELAY_FRAME_BYTES_MAX};

use crate::{
    crew::{Crew, SHARDS},
    harness::Value,
    store::Store,
};

const COUNTERS: i64 = 64;
/// How long clients wait.
const DEADLINE: Duration = Duration::from_secs(2);
/// So much longer may an answer take on a machine with much else to do.
const SLACK: Duration = Duration::from_secs(4);

fn count(crew: &Crew) {
    let mut client = crew.client(0);
    for number in 0..COUNTERS {
        assert_eq!(client.call(&format!("INCR c:{number}")), Value::Integer(1));
    }
}

/// A node that was paused, and whose shards others have by now.
pub(crate) fn a_node_that_wakes_counts_nothing_twice(store: &Store) {
    let crew = Crew::start(&store.keyspace(), 3);
    count(&crew);
    for _ in 0..3 {
        let mut client = crew.client(1);
        assert_eq!(client.call("DBSIZE"), Value::Integer(COUNTERS));
        crew.signal(1, "STOP");
        crew.wait("others have its shards", || crew.shares(0) == [SHARDS / 2, SHARDS / 2]);
        let reads: String = (0..COUNTERS).map(|number| format!("GET c:{number}\r\n")).collect();
        client.write(format!("{reads}DBSIZE\r\n").as_bytes()).expect("the system takes it");
        crew.signal(1, "CONT");
        for number in 0..COUNTERS {
            let read = client.read().expect("an answer");
            let is_true = match &read {
                Value::Bulk(value) => value == b"1",
                refused => refused.is_error() && refused.text().starts_with("TRYAGAIN "),
            };
            assert!(is_true, "c:{number}: {read:?}");
        }
        let size = client.read().expect("an answer").integer();
        assert!(size <= COUNTERS, "{size} counters of {COUNTERS}");
        crew.settle();
    }
}

/// Commands for the shards of a node that does not answer, and is not given up.
pub(crate) fn nobody_waits_longer_for_another_node(store: &Store) {
    let flags = format!("--storage-deadline {}s --takeover-after 60s", DEADLINE.as_secs());
    let crew = Crew::start_alike(&store.keyspace(), 2, &flags);
    count(&crew);
    crew.signal(1, "STOP");
    let mut client = crew.client(0);
    let mut in_doubt = Vec::new();
    for number in 0..COUNTERS {
        for command in [format!("INCRBY c:{number} 2 IDMP p {number}"), format!("GET c:{number}")] {
            let start = Instant::now();
            let answer = client.call(&command);
            let waited = start.elapsed();
            assert!(waited < DEADLINE + SLACK, "{command}: {answer:?} after {waited:?}");
            if answer.is_error() {
                let word = if command.starts_with("GET") { "TRYAGAIN " } else { "INDOUBT " };
                assert!(answer.text().starts_with(word), "{command}: {answer:?}");
                in_doubt.push(number);
            }
        }
        if in_doubt.len() >= 4 {
            break;
        }
    }
    assert!(in_doubt.len() >= 4, "everything was answered: no shard was there");
    // Many at once wait no longer than one.
    let many: String = (0..COUNTERS).map(|number| format!("INCR c:{number}\r\n")).collect();
    let start = Instant::now();
    client.write(many.as_bytes()).expect("it reads");
    for _ in 0..COUNTERS {
        client.read().expect("an answer");
    }
    assert!(start.elapsed() < DEADLINE + SLACK, "{:?}", start.elapsed());
    crew.signal(1, "CONT");
    crew.settle();
    // Each id counts once, whatever was said of it.
    for number in in_doubt {
        let again = format!("INCRBY c:{number} 2 IDMP p {number}");
        crew.wait("it is counted", || !crew.client(0).call(&again).is_error());
        let outcome = crew.client(0).call(&format!("COUNTER.OUTCOME c:{number} p {number}"));
        assert_eq!(outcome.array()[0], Value::Bulk(b"counted".to_vec()));
    }
}

/// Somebody who knows the protocol, and cannot read the database.
pub(crate) fn a_stranger_is_answered_no_questions(store: &Store) {
    let crew = Crew::start(&store.keyspace(), 2);
    count(&crew);
    let clear = |shard: u8| [b"\x01\x82\x01\x85".as_slice(), &[shard], b"\x40\xf6\x18\x64\xf5"].concat();
    let hello = exchange::encode(&Exchange { cluster: Some("quipu".to_owned()), ..Exchange::default() });
    for first in [Frame::Exchange(&hello), Frame::Node { key: [0; 16] }] {
        for shard in 0..u8::try_from(SHARDS).expect("few") {
            let question = clear(shard);
            let bytes = [first.to_bytes(), Frame::Ask { number: 1, question: &question }.to_bytes()].concat();
            let told = told(crew.link(0), &bytes);
            assert!(!told.iter().any(|frame| frame.starts_with("Told")), "{told:?}");
        }
    }
    assert_eq!(crew.client(0).call("DBSIZE"), Value::Integer(COUNTERS));
}

/// What a node answers until it closes the connection.
fn told(link: SocketAddr, bytes: &[u8]) -> Vec<String> {
    let mut stream = TcpStream::connect(link).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time");
    stream.write_all(bytes).expect("it reads");
    let (mut inbox, mut told, mut buffer) = (Inbox::default(), Vec::new(), [0; 4096]);
    // A reset is an end, too.
    while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
        inbox.push(&buffer[..bytes]);
        while let Some(frame) = inbox.next(RELAY_FRAME_BYTES_MAX).expect("sound") {
            told.push(format!("{frame:?}"));
        }
    }
    told
}
