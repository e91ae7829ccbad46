//! What must hold for any bytes that a client sends. The fuzz target and the tests run the same checks.

use std::fmt::Write as _;

use quipu_server::{
    SITES_WAIT_MS_MAX,
    resp::{
        KEY_BYTES_MAX, Mode, OPERATION_ID_BYTES_MAX, Parsed, Parser, QUEUED_BYTES_MAX, Queued, Reply,
        Request, Session, Step,
    },
};

use super::Facts;

/// The parser may hold this much for nothing, and as much again as was sent for each byte: the place of an argument
/// takes 8 bytes, and the shortest argument 6, in a vector that doubles.
const PARSER_BYTES_IDLE: usize = 16 * 1024;
const PARSER_BYTES_PER_BYTE: usize = 4;

/// The first byte says how to cut the rest, whether there is a password, and what the connection is.
pub(crate) fn check(data: &[u8]) {
    let Some((how, stream)) = data.split_first() else { return };
    let password = (how & 0x80 != 0).then_some("secret");
    let mode = if how & 0x40 != 0 { Mode::Cluster } else { Mode::Alone };
    let whole = transcript(stream, stream.len().max(1), password, mode);
    let piece = usize::from(how & 0x3f) + 1;
    assert_eq!(whole, transcript(stream, piece, password, mode), "in pieces of {piece}");
}

/// Everything that came of a stream which arrives `piece` bytes at a time.
pub(crate) fn transcript(stream: &[u8], piece: usize, password: Option<&'static str>, mode: Mode) -> String {
    let facts = Facts { password, ..Facts::default() };
    let (mut parser, mut session) = (Parser::new(), Session::in_mode(mode, 1, &facts));
    let (mut received, mut log) = (Vec::new(), String::new());
    for arrived in stream.chunks(piece) {
        received.extend_from_slice(arrived);
        let mut at = 0;
        loop {
            match parser.parse(&received[at..], session.peer()) {
                Ok(Parsed::Command { arguments, consumed }) => {
                    assert!(consumed > 0 && at + consumed <= received.len());
                    assert!(!arguments.is_empty());
                    at += consumed;
                    let mut out = Vec::new();
                    let step = session.step(arguments, &mut out, &facts);
                    check_step(&step, &out);
                    writeln!(log, "{arguments:?} {} {step:?}", out.escape_ascii()).expect("a string");
                    if step == Step::ReplyThenClose {
                        return log;
                    }
                }
                Ok(Parsed::Incomplete { consumed }) => {
                    received.drain(..at + consumed);
                    break;
                }
                Err(error) => {
                    let mut out = Vec::new();
                    Reply::new(&mut out, session.protocol()).error(&error);
                    assert_eq!(replies(&out), 1);
                    writeln!(log, "{error}").expect("a string");
                    return log;
                }
            }
            assert!(session.queued_bytes() <= QUEUED_BYTES_MAX);
        }
        assert!(parser.memory_bytes() <= PARSER_BYTES_IDLE + PARSER_BYTES_PER_BYTE * stream.len());
    }
    log
}

/// One command, one reply: written, or still to come.
fn check_step(step: &Step<'_>, out: &[u8]) {
    match step {
        Step::Replied => assert_eq!(replies(out), 1, "{}", out.escape_ascii()),
        Step::Run(request) => {
            assert!(out.is_empty());
            check_request(*request);
        }
        Step::RunAll(all) => {
            assert!(out.is_empty());
            for queued in all {
                match queued {
                    Queued::Run(request) => check_request(request.get()),
                    Queued::Reply(reply) => assert_eq!(replies(reply), 1, "{}", reply.escape_ascii()),
                }
            }
        }
        Step::ReplyThenClose => assert!(replies(out) <= 1),
    }
}

fn check_request(request: Request<'_>) {
    let check_key = |key: &[u8]| assert!((1..=KEY_BYTES_MAX).contains(&key.len()));
    match request {
        Request::Add { key, remote_ms, operation, .. }
        | Request::AddWithin { key, remote_ms, operation, .. } => {
            check_key(key);
            assert!(remote_ms <= SITES_WAIT_MS_MAX);
            for half in operation.iter().flat_map(|operation| [operation.producer, operation.id]) {
                assert!((1..=OPERATION_ID_BYTES_MAX).contains(&half.len()));
            }
        }
        Request::GetAll { keys } | Request::Exists { keys } | Request::Delete { keys } => {
            assert!(!keys.is_empty());
            keys.iter().for_each(check_key);
        }
        Request::Get { key }
        | Request::Set { key, .. }
        | Request::Type { key }
        | Request::Inspect { key }
        | Request::Rights { key }
        | Request::Outcome { key, .. }
        | Request::Move { key, .. } => check_key(key),
        Request::Create { key, minimum, maximum, value, wait_ms, spread: _ } => {
            check_key(key);
            assert!(wait_ms.is_none_or(|wait_ms| wait_ms <= SITES_WAIT_MS_MAX));
            assert!(minimum.is_none_or(|minimum| minimum <= value));
            assert!(maximum.is_none_or(|maximum| value <= maximum));
        }
        Request::Scan { count, .. } => assert!(count > 0),
        Request::Keys { .. } | Request::Count | Request::Flush | Request::Wait { .. } => {}
    }
}

/// How many replies these bytes are, as another implementation of the protocol reads them.
pub(crate) fn replies(bytes: &[u8]) -> usize {
    let mut rest = bytes.to_vec().into();
    let mut count = 0;
    while !bytes.is_empty() {
        let (_, after) = resp_rs::resp3::parse_frame(rest)
            .unwrap_or_else(|error| panic!("{error} in {}", bytes.escape_ascii()));
        count += 1;
        if after.is_empty() {
            break;
        }
        rest = after;
    }
    count
}
