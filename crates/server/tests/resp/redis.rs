//! Replies to the letter: `data` holds what Redis 7.0.15 replied to each line of commands.
//!
//! To ask a Redis again, start one (`redis-server --save ''`, and another with `--requirepass secret`) and run
//! `QUIPU_REDIS=127.0.0.1:6379 QUIPU_REDIS_PASSWORD=127.0.0.1:6380 cargo test -p quipu-server --test resp`. All
//! its keys are deleted.

use std::{
    env,
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use crate::support::{Conversation, encode};

const OPEN: &str = include_str!("data/redis-7.0.15.txt");
const PASSWORD: &str = include_str!("data/redis-7.0.15-password.txt");
const CLOSED: &str = "<close>";

struct Case {
    line: &'static str,
    commands: Vec<u8>,
    expected: Vec<u8>,
    closed: bool,
}

fn cases(file: &'static str) -> Vec<Case> {
    let lines = file.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (commands, expected) = line.split_once(" => ").expect("commands => replies");
            let commands = commands.split(" ; ").flat_map(|command| {
                let words: Vec<_> = command.split(' ').map(unescape).collect();
                encode(&words)
            });
            let closed = expected.ends_with(CLOSED);
            let expected = unescape(expected.strip_suffix(CLOSED).unwrap_or(expected));
            Case { line, commands: commands.collect(), expected, closed }
        })
        .collect()
}

fn unescape(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.bytes());
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next().expect("a letter after a backslash") {
            b'r' => bytes.push(b'\r'),
            b'n' => bytes.push(b'\n'),
            b'0' => bytes.push(0),
            b'e' => {}
            b'x' => {
                let digits = [rest.next(), rest.next()].map(|digit| char::from(digit.expect("two digits")));
                let value =
                    digits.iter().fold(0, |value, digit| value * 16 + digit.to_digit(16).expect("hex"));
                bytes.push(u8::try_from(value).expect("two digits"));
            }
            other => panic!("unknown escape {other}"),
        }
    }
    bytes
}

fn compare(file: &'static str, password: Option<&'static str>) {
    for case in cases(file) {
        let mut conversation = Conversation::new(password);
        let replied = conversation.receive(&case.commands).to_vec();
        let (replied, expected) =
            (replied.escape_ascii().to_string(), case.expected.escape_ascii().to_string());
        assert_eq!(replied, expected, "{}", case.line);
        assert_eq!(conversation.closed, case.closed, "{}", case.line);
    }
}

#[test]
fn replies_are_those_of_redis() {
    assert!(cases(OPEN).len() > 150, "the file is there");
    compare(OPEN, None);
}

#[test]
fn replies_without_the_password_are_those_of_redis() {
    assert!(cases(PASSWORD).len() > 30, "the file is there");
    compare(PASSWORD, Some("secret"));
}

/// Does the file say what a Redis says? Only where one was named.
#[test]
fn the_files_are_true() {
    for (variable, file, before) in
        [("QUIPU_REDIS", OPEN, ["FLUSHALL"]), ("QUIPU_REDIS_PASSWORD", PASSWORD, ["PING"])]
    {
        let Ok(address) = env::var(variable) else {
            println!("skipped: {variable} names no Redis");
            continue;
        };
        for case in cases(file) {
            let ask = |commands: &[u8]| {
                let mut stream = TcpStream::connect(&address).expect("the Redis that was named");
                stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a time limit");
                stream.write_all(commands).expect("sent");
                let mut replied = Vec::new();
                stream.read_to_end(&mut replied).expect("replies");
                replied
            };
            let quit = encode(&["QUIT"]);
            ask(&[encode(&before), quit.clone()].concat());
            let (quit, end) = if case.closed { (&[][..], "") } else { (&quit[..], "+OK\r\n") };
            let expected = [&case.expected, end.as_bytes()].concat();
            assert_eq!(
                ask(&[&case.commands, quit].concat()).escape_ascii().to_string(),
                expected.escape_ascii().to_string(),
                "{}",
                case.line
            );
        }
    }
}
