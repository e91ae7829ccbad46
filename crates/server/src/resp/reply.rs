//! Writes replies in either version of the protocol.

use std::io::Write as _;

use super::integer::{self, INTEGER_BYTES_MAX};

/// The version of the protocol that a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// What every client understands.
    #[default]
    Resp2,
    /// With maps, sets, doubles, booleans and one kind of null.
    Resp3,
}

impl Protocol {
    /// 2 or 3.
    pub fn number(self) -> i64 {
        match self {
            Self::Resp2 => 2,
            Self::Resp3 => 3,
        }
    }
}

/// Appends replies to a buffer. After the head of an array, map or set its elements must follow.
#[derive(Debug)]
pub struct Reply<'o> {
    out: &'o mut Vec<u8>,
    protocol: Protocol,
}

impl<'o> Reply<'o> {
    /// Appends to `out` what a client that speaks `protocol` understands.
    #[inline]
    pub fn new(out: &'o mut Vec<u8>, protocol: Protocol) -> Self {
        Self { out, protocol }
    }

    /// `+OK`.
    pub fn ok(&mut self) {
        self.simple("OK");
    }

    /// A short text without line ends; any that there are become spaces.
    pub fn simple(&mut self, text: &str) {
        self.out.push(b'+');
        self.one_line(text);
    }

    /// An error; its text begins with a code, such as `ERR`.
    pub fn error(&mut self, error: &impl std::fmt::Display) {
        self.out.push(b'-');
        let start = self.out.len();
        let written = write!(self.out, "{error}");
        debug_assert!(written.is_ok(), "a vector takes everything");
        flatten(&mut self.out[start..]);
        self.end();
    }

    /// An integer.
    #[inline]
    pub fn integer(&mut self, value: i64) {
        self.head(b':', value);
    }

    /// Bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.length(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.end();
    }

    /// A number as text, the form in which `GET` gives it.
    #[inline]
    pub fn bulk_integer(&mut self, value: i64) {
        let digits = value.unsigned_abs().checked_ilog10().unwrap_or(0) + 1;
        self.head(b'$', i64::from(digits) + i64::from(value < 0));
        integer::write(self.out, value);
        self.end();
    }

    /// Text for people to read; marked as such in RESP 3.
    pub fn text(&mut self, text: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => {
                self.length(b'=', text.len() + "txt:".len());
                self.out.extend_from_slice(b"txt:");
                self.out.extend_from_slice(text.as_bytes());
                self.end();
            }
        }
    }

    /// Nothing, where a value could be.
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Nothing, where an array could be.
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// The head of an array: `len` elements follow.
    pub fn array(&mut self, len: usize) {
        self.length(b'*', len);
    }

    /// The head of a map: `len` pairs follow. RESP 2 has an array of keys and values instead.
    pub fn map(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.length(b'*', len.saturating_mul(2)),
            Protocol::Resp3 => self.length(b'%', len),
        }
    }

    /// The head of a set: `len` elements follow. RESP 2 has an array instead.
    pub fn set(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.length(b'*', len),
            Protocol::Resp3 => self.length(b'~', len),
        }
    }

    /// A number that need not be whole. RESP 2 has bytes instead.
    pub fn double(&mut self, value: f64) {
        let text = if value.is_nan() { "nan".to_owned() } else { value.to_string() };
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => {
                self.out.push(b',');
                self.one_line(&text);
            }
        }
    }

    /// Yes or no. RESP 2 has 1 or 0 instead.
    pub fn boolean(&mut self, value: bool) {
        match self.protocol {
            Protocol::Resp2 => self.integer(i64::from(value)),
            Protocol::Resp3 => self.out.extend_from_slice(if value { b"#t\r\n" } else { b"#f\r\n" }),
        }
    }

    /// Replies that were written before, in the same protocol.
    pub fn raw(&mut self, replies: &[u8]) {
        self.out.extend_from_slice(replies);
    }

    fn one_line(&mut self, text: &str) {
        let start = self.out.len();
        self.out.extend_from_slice(text.as_bytes());
        flatten(&mut self.out[start..]);
        self.end();
    }

    fn length(&mut self, kind: u8, len: usize) {
        self.head(kind, i64::try_from(len).unwrap_or(i64::MAX));
    }

    #[inline]
    fn head(&mut self, kind: u8, value: i64) {
        // Put together first, so that the buffer has to make room only once.
        const LINE_BYTES_MAX: usize = 1 + INTEGER_BYTES_MAX + 2;
        let mut line = [0; LINE_BYTES_MAX];
        line[LINE_BYTES_MAX - 2..].copy_from_slice(b"\r\n");
        let start = integer::write_before(&mut line, LINE_BYTES_MAX - 2, value) - 1;
        line[start] = kind;
        self.out.extend_from_slice(&line[start..]);
    }

    #[inline]
    fn end(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }
}

/// Whatever a text repeats of what a client sent, it must not end the reply early.
fn flatten(text: &mut [u8]) {
    for byte in text {
        if matches!(byte, b'\r' | b'\n') {
            *byte = b' ';
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(protocol: Protocol, write: impl Fn(&mut Reply<'_>)) -> String {
        let mut out = Vec::new();
        write(&mut Reply::new(&mut out, protocol));
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn both_versions_to_the_letter() {
        type Write = fn(&mut Reply<'_>);
        let cases: [(Write, &str, &str); 19] = [
            (|reply| reply.ok(), "+OK\r\n", "+OK\r\n"),
            (|reply| reply.simple("a\r\nb"), "+a  b\r\n", "+a  b\r\n"),
            (|reply| reply.error(&"ERR a\nb"), "-ERR a b\r\n", "-ERR a b\r\n"),
            (|reply| reply.integer(-7), ":-7\r\n", ":-7\r\n"),
            (|reply| reply.bulk(b"a\r\n"), "$3\r\na\r\n\r\n", "$3\r\na\r\n\r\n"),
            (|reply| reply.bulk(b""), "$0\r\n\r\n", "$0\r\n\r\n"),
            (|reply| reply.bulk_integer(0), "$1\r\n0\r\n", "$1\r\n0\r\n"),
            (|reply| reply.bulk_integer(-10), "$3\r\n-10\r\n", "$3\r\n-10\r\n"),
            (|reply| reply.text("hi"), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"),
            (|reply| reply.null(), "$-1\r\n", "_\r\n"),
            (|reply| reply.null_array(), "*-1\r\n", "_\r\n"),
            (|reply| reply.array(2), "*2\r\n", "*2\r\n"),
            (|reply| reply.map(2), "*4\r\n", "%2\r\n"),
            (|reply| reply.set(2), "*2\r\n", "~2\r\n"),
            (|reply| reply.double(0.5), "$3\r\n0.5\r\n", ",0.5\r\n"),
            (|reply| reply.double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n"),
            (|reply| reply.double(f64::NAN), "$3\r\nnan\r\n", ",nan\r\n"),
            (|reply| reply.boolean(true), ":1\r\n", "#t\r\n"),
            (|reply| reply.boolean(false), ":0\r\n", "#f\r\n"),
        ];
        for (write, resp2, resp3) in cases {
            assert_eq!(written(Protocol::Resp2, write), resp2);
            assert_eq!(written(Protocol::Resp3, write), resp3);
        }
    }

    #[test]
    fn a_number_as_text_has_its_length() {
        for value in [1, 9, 10, 99, 100, 12_345, -1, -9, -10, i64::MAX, i64::MIN] {
            let text = value.to_string();
            assert_eq!(
                written(Protocol::Resp2, |reply| reply.bulk_integer(value)),
                format!("${}\r\n{text}\r\n", text.len())
            );
        }
    }
}
