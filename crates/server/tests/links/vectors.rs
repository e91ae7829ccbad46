//! The examples of `docs/protocol.md`, byte by byte: what we write is what stands there, and what stands there is read.

use std::{collections::BTreeMap, fs, path::PathBuf, time::Instant};

use quipu_engine::{
    Action, Add, Added, Command, Message, OperationId, Reply, SiteId, call, handoff::ClusterId,
};
use quipu_server::links::{
    Behind, Draining, FRAME_BYTES_MAX, Frame, Hello, Inbox, Instance, Reason, Refused, Run,
};
use quipu_storage::ShardId;

use crate::support::{PATIENCE, Raw, SHARDS, Site, nobody, site};

/// Length, checksum, kind and shard stand before a message.
const HEAD_BYTES: usize = 11;

/// The bytes of an example. Lines that begin with `#` say what it is.
pub(crate) fn vector(name: &str) -> Vec<u8> {
    let path = path(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let digits: Vec<u8> = lines.flat_map(str::bytes).filter(|byte| !byte.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).expect("text");
        u8::from_str_radix(pair, 16).unwrap_or_else(|_| panic!("{pair} in {name}"))
    };
    digits.chunks(2).map(byte).collect()
}

/// With this variable examples of frames that have none are written.
const WRITE: &str = "QUIPU_WRITE_VECTORS";

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/vectors/{name}.hex"))
}

/// Writes an example if it is wanted, and checks it.
fn check_or_write(name: &str, what: &str, frame: &Frame<'_>) {
    if std::env::var_os(WRITE).is_some() {
        let digits: Vec<String> = frame.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let lines: Vec<String> = digits.chunks(32).map(<[String]>::concat).collect();
        fs::write(path(name), format!("# {what}\n{}\n", lines.join("\n"))).expect("it can be written");
    }
    check(name, frame);
}

#[test]
fn what_relays_say_is_written_and_read_as_documented() {
    // The bodies are examples, too.
    let [hello, answer, left, taken] =
        ["exchange-hello", "exchange-hello-answer", "estate", "adopted"].map(vector);
    check_or_write("frame-exchange", "Frame 9 with exchange-hello", &Frame::Exchange(&hello));
    check_or_write("frame-exchanged", "Frame 10 with exchange-hello-answer", &Frame::Exchanged(&answer));
    check_or_write("frame-estate", "Frame 11 with estate", &Frame::Estate(&left));
    check_or_write("frame-adopted", "Frame 12 with adopted", &Frame::Adopted(&taken));
    let operation = Some(OperationId { producer: b"web-1", id: b"17" });
    let command = Command { key: b"hits", action: Action::Add { add: Add::of(2), operation } };
    let command = call::encode_command(command);
    let what = "Frame 13: call number 1, INCRBY hits 2 IDMP web-1 17";
    check_or_write("call", what, &Frame::Call { number: 1, command: &command });
    let added = Added { value: 7, applied: 2, repeated: false, site: site(1) };
    let reply = call::encode_reply(Reply::Added(added));
    let what = "Frame 14: the answer to call number 1, hits is 7, 2 were counted at site 1";
    check_or_write("called", what, &Frame::Called { number: 1, reply: &reply });
    let what = "Frame 17: the key of the node that was dialled";
    check_or_write("node", what, &Frame::Node { key: *b"drawn at a start" });
}

fn check(name: &str, frame: &Frame<'_>) {
    let bytes = vector(name);
    assert_eq!(hex(&frame.to_bytes()), hex(&bytes), "{name} is written otherwise");
    let mut inbox = Inbox::default();
    inbox.push(&bytes);
    assert_eq!(inbox.next(FRAME_BYTES_MAX).expect("sound").as_ref(), Some(frame), "{name} is read otherwise");
    assert!(!inbox.is_within_a_frame());
}

#[test]
fn frames_are_written_and_read_as_documented() {
    check(
        "hello",
        &Frame::Hello(Hello {
            protocol: 1,
            cluster: "quipu".to_owned(),
            shards: 64,
            site: SiteId { number: 2, incarnation: 0 },
            to: 1,
            instance: Instance(*b"0123456789abcdef"),
            run: Run { number: 3, nonce: 0x0102_0304_0506_0708 },
            epoch: 1,
            members: vec![site(1), site(2), site(3)],
            cluster_id: Some(ClusterId(*b"drawn at the 1st")),
            earlier: None,
        }),
    );
    check("positions", &Frame::Positions(vec![0, 23, 1_000, u64::MAX]));
    check("refused", &Frame::Refused(Refused { reason: Reason::Other, text: "no".to_owned() }));
    check("refused-old-copy", &Frame::Refused(Refused { reason: Reason::OldCopy, text: "old".to_owned() }));
    check("beat", &Frame::Beat);
    check("council", &Frame::Council(b"any bytes"));
    check("leave", &Frame::Leave { leaves: true });
    let behind = vec![Behind { site: site(2), changes: 12 }];
    check(
        "draining",
        &Frame::Draining(Draining { leaves: true, commands: 1, operations: 300, behind, kept: 2, slots: 5 }),
    );
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_server_sends_what_is_documented() {
    // `hits` is in shard 1 of 4, `stock` in shard 0.
    let expected = [(1, "shard-counted"), (0, "shard-reset")];
    let server = Site::first();
    for (command, answer) in [
        ("INCRBY hits 5", ":5"),
        ("INCRBY hits 2 IDMP web-1 17", ":7"),
        ("DECRBY stock 3", ":-3"),
        ("SET stock 9", "+OK"),
    ] {
        assert_eq!(server.ask(command), answer);
    }
    let mut raw = Raw::join(&server, 2);
    raw.speak(SHARDS);
    let until = Instant::now() + PATIENCE;
    let mut sent: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
    let is_sent = |sent: &BTreeMap<u16, Vec<u8>>, (shard, name): &(u16, &str)| {
        sent.get(shard).is_some_and(|bytes| contains(bytes, piece(&vector(name))))
    };
    // It is sent from the beginning again and again, as nothing is acknowledged.
    while !expected.iter().all(|it| is_sent(&sent, it)) {
        assert!(Instant::now() < until, "not what stands there: {sent:x?}");
        raw.next(|frame| {
            if let Frame::Shard { shard: ShardId(shard @ (0 | 1)), message } = frame {
                let read = Message::decode(message).expect("a message");
                assert_eq!(hex(&read.encode()), hex(message), "it is written as it was read");
                let bytes = frame.to_bytes();
                if !expected.iter().any(|it| it.0 == shard && is_sent(&sent, it)) {
                    sent.insert(shard, bytes);
                }
            }
        })
        .expect("the link stays up");
        raw.send(&Frame::Beat);
    }
}

/// The piece of a stream in the example of a message. What stands before it tells what was heard, and what follows names
/// the process that wrote it: both differ from run to run.
fn piece(vector: &[u8]) -> &[u8] {
    let message = &vector[HEAD_BYTES..];
    let at = message.windows(2).position(|two| two == [0x81, 0x85]).expect("a piece of a stream");
    &message[at..message.len() - 1]
}

fn contains(bytes: &[u8], piece: &[u8]) -> bool {
    bytes.windows(piece.len()).any(|it| it == piece)
}

/// What was counted at two sites the higher one takes back, and says for whom.
#[test]
fn a_server_says_for_whom_it_has_taken_a_count_back() {
    let server = Site::start(2, [(1, nobody()), (3, nobody())]);
    assert_eq!(server.ask("INCRBY hits 2 IDMP web-1 17"), ":2");
    let mut raw = Raw::join(&server, 1);
    raw.write(&vector("shard-counted"));
    let expected = vector("shard-cancelled");
    let message = &expected[HEAD_BYTES..];
    assert_eq!(hex(&Message::decode(message).expect("a message").encode()), hex(message));
    let until = Instant::now() + PATIENCE;
    let mut sent = Vec::new();
    // It is sent from the beginning again and again, as nothing is acknowledged.
    while sent.last().is_none_or(|sent: &Vec<u8>| !contains(sent, piece(&expected))) {
        assert!(Instant::now() < until, "it is none of {sent:x?}");
        raw.next(|frame| {
            if let Frame::Shard { shard: ShardId(1), .. } = frame {
                sent.push(frame.to_bytes());
            }
        })
        .expect("the link stays up");
        raw.send(&Frame::Beat);
    }
}
