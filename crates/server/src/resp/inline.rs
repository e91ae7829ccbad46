//! Inline commands: a line of words, as typed into `telnet`, quoted as Redis has it.
//!
//! Inside double quotes `\n \r \t \b \a` and `\xHH` stand for bytes, and a backslash before anything else for that
//! byte itself. Inside single quotes only `\'` is special. A closing quote ends the word.

use super::{ProtocolError, arguments::Span};

/// Splits `line` into words. They are put one after the other into `words`, and their places into `spans`.
pub(crate) fn split(line: &[u8], words: &mut Vec<u8>, spans: &mut Vec<Span>) -> Result<(), ProtocolError> {
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        // A vertical tab is a space here, though not for Rust.
        while let [0x0b, after @ ..] = rest {
            rest = after.trim_ascii_start();
        }
        if rest.is_empty() {
            return Ok(());
        }
        let start = words.len();
        rest = word(rest, words)?;
        spans.push(Span::new(start, words.len()));
    }
}

/// Appends one word to `words` and returns what follows it.
fn word<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        match rest {
            [] | [b' ' | b'\n' | b'\r' | b'\t', ..] => return Ok(rest),
            [b'"', quoted @ ..] => return double_quoted(quoted, words),
            [b'\'', quoted @ ..] => return single_quoted(quoted, words),
            [byte, after @ ..] => {
                words.push(*byte);
                rest = after;
            }
        }
    }
}

fn double_quoted<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        let (byte, after) = match rest {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b'"', after @ ..] => return closed(after),
            [b'\\', b'x', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hex(*high) << 4 | hex(*low), after)
            }
            [b'\\', escaped, after @ ..] => (unescape(*escaped), after),
            [byte, after @ ..] => (*byte, after),
        };
        words.push(byte);
        rest = after;
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        let (byte, after) = match rest {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b'\'', after @ ..] => return closed(after),
            [b'\\', b'\'', after @ ..] => (b'\'', after),
            [byte, after @ ..] => (*byte, after),
        };
        words.push(byte);
        rest = after;
    }
}

/// After a closing quote comes a space or the end.
fn closed(after: &[u8]) -> Result<&[u8], ProtocolError> {
    match after {
        [] | [b' ' | b'\t'..=b'\r', ..] => Ok(after),
        _ => Err(ProtocolError::UnbalancedQuotes),
    }
}

fn unescape(escaped: u8) -> u8 {
    match escaped {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::Arguments;

    fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let (mut bytes, mut spans) = (Vec::new(), Vec::new());
        split(line, &mut bytes, &mut spans)?;
        Ok(Arguments::new(&bytes, &spans).iter().map(<[u8]>::to_vec).collect())
    }

    /// Each pair was checked against Redis 7.0.15.
    #[test]
    fn words_are_those_of_redis() {
        let cases: [(&[u8], &[&[u8]]); 13] = [
            (b"PING", &[b"PING"]),
            (b"  SET\ta  1 ", &[b"SET", b"a", b"1"]),
            (b"", &[]),
            (b"   ", &[]),
            (br#"ECHO "a\x41\n\t\q\"b""#, &[b"ECHO", b"aA\n\tq\"b"]),
            (br"ECHO 'a\'b\n'", &[b"ECHO", br"a'b\n"]),
            (br#"ECHO """#, &[b"ECHO", b""]),
            (br#"ECHO a"b c""#, &[b"ECHO", b"ab c"]),
            (br#"ECHO "\xzz\b\a\r""#, &[b"ECHO", b"xzz\x08\x07\r"]),
            (b"ECHO \tx\x0b\x0c", &[b"ECHO", b"x\x0b\x0c"]),
            (b"\x0b\x0c ECHO", &[b"ECHO"]),
            (b"ECHO a\rb", &[b"ECHO", b"a", b"b"]),
            (br#""a"  'b'"#, &[b"a", b"b"]),
        ];
        for (line, expected) in cases {
            assert_eq!(words(line).expect("balanced"), expected, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn quotes_must_balance() {
        for line in
            [r#"ECHO "a"#, r#"ECHO "a"b"#, r"ECHO 'a", r"ECHO 'a'b", r#"ECHO "a\"#, r#"ECHO "a\""#, "'", "\""]
        {
            assert_eq!(words(line.as_bytes()), Err(ProtocolError::UnbalancedQuotes), "{line}");
        }
    }
}
