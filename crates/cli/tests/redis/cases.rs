//! The lists of commands in `data`: one line is one connection to an empty database.
//!
//! ```text
//! INCR a ; GET a                    commands, their words apart by spaces
//! @raw PING\r\n                     bytes as they are
//! @sorted KEYS *                    replies whose lines may come in another order
//! @3 GET nokey                      in this version of the protocol alone
//! ! the reason                      the next line is answered in another way than by Redis, on purpose:
//! SET a x => -ERR value is <any>    this is how
//! ? the reason                      the same, where Redis sometimes answers so too, as the pieces reach it
//! ```
//!
//! `%` stands for a key that no line before has used. Escapes: `\r \n \t \0 \\ \xHH`, `\s` for a space and `\e` for an empty word. `<any>` stands for anything.

use crate::harness::client::encode;

/// One connection.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) line: &'static str,
    text: &'static str,
    is_raw: bool,
    pub(crate) order: Order,
    /// 2 or 3, if not both.
    pub(crate) protocol: Option<u8>,
    pub(crate) difference: Option<Difference>,
}

#[derive(Debug)]
pub(crate) enum Requests {
    Commands(Vec<Vec<u8>>),
    Raw(Vec<u8>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    AsSent,
    Any,
}

impl Case {
    /// What is sent; `fresh` is a key that was not used before.
    pub(crate) fn requests(&self, fresh: &str) -> Requests {
        let text = self.text.replace('%', fresh);
        if self.is_raw {
            return Requests::Raw(unescape(&text));
        }
        let words = |command: &str| command.split(' ').map(unescape).collect::<Vec<_>>();
        Requests::Commands(text.split(" ; ").map(|command| encode(&words(command))).collect())
    }

    pub(crate) fn is_raw(&self) -> bool {
        self.is_raw
    }
}

/// An answer that is not that of Redis, on purpose.
#[derive(Debug)]
pub(crate) struct Difference {
    pub(crate) reason: &'static str,
    /// Whether Redis must answer in another way every time.
    pub(crate) always: bool,
    pub(crate) ours: Vec<u8>,
}

impl Difference {
    /// Is this what was meant?
    pub(crate) fn allows(&self, replied: &[u8]) -> bool {
        let text = replied.escape_ascii().to_string();
        let ours = self.ours.escape_ascii().to_string();
        let mut parts = ours.split("<any>");
        let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
        let mut last = None;
        for part in parts {
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
            last = Some(part);
        }
        // After a final `<any>` anything may follow.
        rest.is_empty() || last == Some("")
    }
}

/// All cases of a file.
pub(crate) fn read(file: &'static str) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut reason = None;
    for line in file.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(why) = line.strip_prefix(['!', '?']) {
            let before = reason.replace((why.trim_start(), line.starts_with('!')));
            assert!(before.is_none(), "a reason without a line: {why}");
        } else {
            cases.push(case(line, reason.take()));
        }
    }
    assert!(reason.is_none(), "a reason without a line at the end");
    cases
}

fn case(line: &'static str, reason: Option<(&'static str, bool)>) -> Case {
    let (mut text, mut order, mut protocol, mut is_raw) = (line, Order::AsSent, None, false);
    while let Some((word, rest)) = text.strip_prefix('@').and_then(|text| text.split_once(' ')) {
        match word {
            "sorted" => order = Order::Any,
            "raw" => is_raw = true,
            "2" => protocol = Some(2),
            "3" => protocol = Some(3),
            other => panic!("what is @{other}?"),
        }
        text = rest;
    }
    let (text, difference) = match (reason, text.split_once(" => ")) {
        (Some((reason, always)), Some((text, ours))) => {
            (text, Some(Difference { reason, always, ours: unescape(ours) }))
        }
        (None, None) => (text, None),
        (Some(_), None) => panic!("how does it differ? {line}"),
        (None, Some(_)) => panic!("why does it differ? {line}"),
    };
    Case { line, text, is_raw, order, protocol, difference }
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
            b't' => bytes.push(b'\t'),
            b's' => bytes.push(b' '),
            b'0' => bytes.push(0),
            b'\\' => bytes.push(b'\\'),
            b'e' => {}
            b'x' => {
                let digits = [rest.next(), rest.next()].map(|digit| char::from(digit.expect("two digits")));
                let value =
                    digits.iter().fold(0, |value, digit| value * 16 + digit.to_digit(16).expect("hex"));
                bytes.push(u8::try_from(value).expect("two digits"));
            }
            other => panic!("unknown escape {}", char::from(other)),
        }
    }
    bytes
}

pub(crate) fn differences_say_what_is_meant() {
    let difference = |ours: &str| Difference { reason: "", always: true, ours: unescape(ours) };
    assert!(difference("-ERR a\\r\\n").allows(b"-ERR a\r\n"));
    assert!(!difference("-ERR a\\r\\n").allows(b"-ERR ab\r\n"));
    assert!(difference("-ERR <any>b\\r\\n").allows(b"-ERR a b\r\n"));
    assert!(difference("-ERR <any>").allows(b"-ERR a b\r\n"));
    assert!(!difference("-ERR <any>c\\r\\n").allows(b"-ERR a b\r\n"));
    assert!(!difference("-ERR <any>b").allows(b"-ERR b\r\n"));
}
