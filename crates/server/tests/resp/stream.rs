//! Streams: cut anywhere, made of anything.

use std::{fs, path::Path};

use crate::support::{
    check::{check, transcript},
    encode,
};
use proptest::prelude::*;
use quipu_server::resp::{
    ARGUMENTS_MAX, COMMAND_BYTES_MAX, INLINE_BYTES_MAX, Mode, Parsed, Parser, Peer, ProtocolError,
};

/// Parses all of a stream that arrives at once.
fn commands(stream: &[u8], peer: Peer) -> Result<Vec<Vec<Vec<u8>>>, ProtocolError> {
    let (mut parser, mut at, mut found) = (Parser::new(), 0, Vec::new());
    loop {
        match parser.parse(&stream[at..], peer)? {
            Parsed::Command { arguments, consumed } => {
                found.push(arguments.iter().map(<[u8]>::to_vec).collect());
                at += consumed;
            }
            Parsed::Incomplete { .. } => return Ok(found),
        }
    }
}

fn refused(stream: &[u8], peer: Peer) -> String {
    commands(stream, peer).expect_err("a protocol error").to_string()
}

/// As Redis 7.0.15 has them.
#[test]
fn protocol_errors_have_the_texts_of_redis() {
    let long = vec![b'1'; INLINE_BYTES_MAX + 1];
    let cases: [(&[u8], &str); 17] = [
        (b"*x\r\n", "invalid multibulk length"),
        (b"*70000000000\r\n", "invalid multibulk length"),
        (b"* 1\r\n", "invalid multibulk length"),
        (b"*01\r\n", "invalid multibulk length"),
        (b"*+1\r\n", "invalid multibulk length"),
        (b"*\r\n", "invalid multibulk length"),
        (b"*1\n$4\r\nPING\r\n", "invalid multibulk length"),
        (b"*1\r\nx4\r\n", "expected '$', got 'x'"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$x\r\n", "invalid bulk length"),
        (b"*1\r\n$600000000\r\n", "invalid bulk length"),
        (b"*2\r\n$4\r\nPING\r\n:3\r\n", "expected '$', got ':'"),
        (&[b"*".as_slice(), &long].concat(), "too big mbulk count string"),
        (&[b"*1\r\n$".as_slice(), &long].concat(), "too big bulk count string"),
        (&long, "too big inline request"),
        (b"ECHO \"a\r\n", "unbalanced quotes in request"),
        (b"ECHO 'a'b\r\n", "unbalanced quotes in request"),
    ];
    for (stream, text) in cases {
        assert_eq!(refused(stream, Peer::Authenticated), format!("ERR Protocol error: {text}"));
    }
    assert_eq!(refused(b"*11\r\n", Peer::Unknown), "ERR Protocol error: unauthenticated multibulk length");
    assert_eq!(
        refused(b"*1\r\n$16385\r\n", Peer::Unknown),
        "ERR Protocol error: unauthenticated bulk length"
    );
    for taken in [&b"*10\r\n"[..], b"*1\r\n$16384\r\n", &long[..INLINE_BYTES_MAX]] {
        assert_eq!(commands(taken, Peer::Unknown), Ok(Vec::new()));
    }
}

/// Limits of our own are refused when they are announced, not when they have arrived.
#[test]
fn limits_are_refused_before_anything_arrives() {
    let too_many = format!("*{}\r\n", ARGUMENTS_MAX + 1);
    assert!(refused(too_many.as_bytes(), Peer::Authenticated).contains("at most 65536"));
    assert_eq!(commands(format!("*{ARGUMENTS_MAX}\r\n").as_bytes(), Peer::Authenticated), Ok(Vec::new()));
    let too_long = format!("*1\r\n${}\r\n", COMMAND_BYTES_MAX);
    assert_eq!(commands(too_long.as_bytes(), Peer::Authenticated), Err(ProtocolError::CommandTooLong));
    let half = vec![b'x'; COMMAND_BYTES_MAX / 2];
    let mut stream = format!("*2\r\n${}\r\n", half.len()).into_bytes();
    stream.extend(&half);
    stream.extend(format!("\r\n${}\r\n", half.len()).bytes());
    assert_eq!(commands(&stream, Peer::Authenticated), Err(ProtocolError::CommandTooLong));
    assert_eq!(commands(b"*1\r\n$4\r\nPINGxx", Peer::Authenticated), Err(ProtocolError::UnterminatedBulk));
}

#[test]
fn empty_commands_are_skipped() {
    let stream = b"\r\n*0\r\n   \r\n*-5\r\n\n*1\r\n$4\r\nPING\r\n*0\r\nECHO x\n";
    let expected = vec![vec![b"PING".to_vec()], vec![b"ECHO".to_vec(), b"x".to_vec()]];
    assert_eq!(commands(stream, Peer::Authenticated), Ok(expected));
}

/// 32 MiB in pieces of 1 KiB: were each piece to begin from the start, this would look at 500 GiB.
#[test]
fn a_long_command_in_small_pieces_is_read_once() {
    let argument = vec![b'x'; 1024];
    let arguments = vec![&argument; 30 * 1024];
    let stream = encode(&arguments);
    let mut parser = Parser::new();
    let mut calls = 0;
    for end in (1024..).step_by(1024) {
        calls += 1;
        match parser.parse(&stream[..stream.len().min(end)], Peer::Authenticated).expect("well formed") {
            Parsed::Incomplete { consumed } => assert_eq!(consumed, 0),
            Parsed::Command { arguments, consumed } => {
                assert_eq!((arguments.len(), consumed), (30 * 1024, stream.len()));
                break;
            }
        }
    }
    assert!(calls > 30_000);
    // The room for so many arguments is given back with the next command.
    parser.parse(b"PING\r\n", Peer::Authenticated).expect("well formed");
    assert!(parser.memory_bytes() < 4096);
}

/// The corpus of the fuzz target, and with it every input that ever failed.
#[test]
fn the_fuzz_corpus_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/resp");
    let mut inputs = 0;
    for entry in fs::read_dir(folder).expect("the corpus") {
        let path = entry.expect("an entry").path();
        println!("{}", path.display());
        check(&fs::read(path).expect("an input"));
        inputs += 1;
    }
    assert!(inputs >= 10);
}

/// Words that commands are made of, so that random commands get beyond the first check.
fn word() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(
        &[
            "INCR",
            "decr",
            "INCRBY",
            "DECRBY",
            "INCREX",
            "GET",
            "SET",
            "MGET",
            "DEL",
            "EXISTS",
            "SCAN",
            "KEYS",
            "FLUSHDB",
            "COUNTER.CREATE",
            "COUNTER.OUTCOME",
            "COUNTER.INFO",
            "MULTI",
            "EXEC",
            "DISCARD",
            "WATCH",
            "PING",
            "ECHO",
            "HELLO",
            "AUTH",
            "SELECT",
            "CLIENT",
            "COMMAND",
            "CONFIG",
            "INFO",
            "RESET",
            "QUIT",
            "SETNAME",
            "GETNAME",
            "LIST",
            "DOCS",
            "COUNT",
            "MATCH",
            "TYPE",
            "IDMP",
            "REMOTE",
            "WAIT",
            "BYINT",
            "LBOUND",
            "UBOUND",
            "SATURATE",
            "MIN",
            "MAX",
            "VALUE",
            "NX",
            "EX",
            "default",
            "secret",
            "LPUSH",
            "EVAL",
            "CLUSTER",
            "SLOTS",
            "READONLY",
            "other",
            "0",
            "1",
            "2",
            "3",
            "-1",
            "9223372036854775807",
            "-9223372036854775808",
            "key",
            "*",
            "",
        ][..],
    );
    prop_oneof![8 => known.prop_map(|word| word.as_bytes().to_vec()), 1 => prop::collection::vec(any::<u8>(), 0..20)]
}

fn command() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(word(), 1..7)
}

proptest! {
    #[test]
    fn what_was_sent_is_read(sent in prop::collection::vec(command(), 0..8)) {
        let stream: Vec<u8> = sent.iter().flat_map(|command| encode(command)).collect();
        prop_assert_eq!(commands(&stream, Peer::Authenticated), Ok(sent));
    }

    /// Quoted in the way of `redis-cli`, any bytes get through an inline command.
    #[test]
    fn what_was_quoted_is_read(sent in command()) {
        let quoted: Vec<String> = sent
            .iter()
            .map(|word| format!("\"{}\"", word.iter().map(|byte| format!("\\x{byte:02x}")).collect::<String>()))
            .collect();
        let stream = quoted.join(" ") + "\r\n";
        prop_assert_eq!(commands(stream.as_bytes(), Peer::Authenticated), Ok(vec![sent]));
    }

    #[test]
    fn pieces_make_no_difference(
        sent in prop::collection::vec(command(), 0..12),
        rest in prop::collection::vec(any::<u8>(), 0..10),
        piece in 1usize..64,
        password: bool,
        is_node: bool,
    ) {
        let mut stream: Vec<u8> = sent.iter().flat_map(|command| encode(command)).collect();
        stream.extend(rest);
        let password = password.then_some("secret");
        let mode = if is_node { Mode::Cluster } else { Mode::Alone };
        let whole = transcript(&stream, stream.len().max(1), password, mode);
        prop_assert_eq!(whole, transcript(&stream, piece, password, mode));
    }

    #[test]
    fn anything_may_arrive(data: Vec<u8>) {
        check(&data);
    }

    /// Nearly right is more wicked than random.
    #[test]
    fn anything_may_be_wrong(
        sent in prop::collection::vec(command(), 1..6),
        how: u8,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut data = vec![how];
        data.extend(sent.iter().flat_map(|command| encode(command)));
        for (index, byte) in changes {
            let index = index.index(data.len());
            data[index] = byte;
        }
        check(&data);
    }
}
