//! A small client of the Redis protocol. It blocks, never reconnects and never sends anything twice.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// A reply that takes longer than this is a failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    /// Arrays, sets and maps, which have their keys and values one after the other.
    Array(Vec<Value>),
}

impl Value {
    /// The number, whether it came as one or as text.
    pub(crate) fn integer(&self) -> i64 {
        match self {
            Self::Integer(value) => *value,
            Self::Bulk(text) => String::from_utf8_lossy(text).parse().expect("a number"),
            other => panic!("not a number: {other:?}"),
        }
    }

    /// The same, and nothing is 0.
    pub(crate) fn count(&self) -> i64 {
        if *self == Self::Null { 0 } else { self.integer() }
    }

    pub(crate) fn array(self) -> Vec<Self> {
        match self {
            Self::Array(values) => values,
            other => panic!("not an array: {other:?}"),
        }
    }

    /// The same for people, arrays in brackets.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
            Self::Integer(number) => number.to_string(),
            Self::Simple(text) | Self::Error(text) => text.clone(),
            Self::Null => "null".to_owned(),
            Self::Array(values) => {
                format!("[{}]", values.iter().map(Self::text).collect::<Vec<_>>().join(" "))
            }
        }
    }

    pub(crate) fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }

    pub(crate) fn ok() -> Self {
        Self::Simple("OK".to_owned())
    }
}

/// A command as an array of bulk strings.
pub(crate) fn encode<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words.iter().map(AsRef::as_ref) {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Self> {
        Self::connect_within(address, PATIENCE)
    }

    /// The same, for somebody who waits no longer than this for anything.
    pub(crate) fn connect_within(address: SocketAddr, patience: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Self { reader: BufReader::new(stream) })
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        self.reader.get_ref()
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// Sends a command, its words apart by spaces, and waits for the reply.
    pub(crate) fn ask(&mut self, command: &str) -> io::Result<Value> {
        self.write(&encode(&command.split(' ').collect::<Vec<_>>()))?;
        self.read()
    }

    /// The same, where a broken connection is a failure of the test.
    pub(crate) fn call(&mut self, command: &str) -> Value {
        self.ask(command).unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    /// The next reply.
    pub(crate) fn read(&mut self) -> io::Result<Value> {
        self.read_into(&mut Vec::new())
    }

    /// The next reply, and its bytes.
    pub(crate) fn read_into(&mut self, raw: &mut Vec<u8>) -> io::Result<Value> {
        let start = raw.len();
        if self.reader.read_until(b'\n', raw)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = raw[start..].strip_suffix(b"\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        let (kind, text) = (line[0], String::from_utf8_lossy(&line[1..]).into_owned());
        let length =
            || text.parse::<i64>().map_err(|_| io::Error::other(format!("a reply that is none: {text}")));
        Ok(match kind {
            b'+' => Value::Simple(text),
            b'-' => Value::Error(text),
            b':' => Value::Integer(length()?),
            b'_' => Value::Null,
            b'$' | b'=' => match usize::try_from(length()?) {
                Ok(length) => Value::Bulk(self.read_bulk(length, raw)?),
                Err(_) => Value::Null,
            },
            b'*' | b'~' | b'%' => match usize::try_from(length()?) {
                Ok(length) => {
                    let length = if kind == b'%' { 2 * length } else { length };
                    Value::Array((0..length).map(|_| self.read_into(raw)).collect::<io::Result<_>>()?)
                }
                Err(_) => Value::Null,
            },
            _ => {
                return Err(io::Error::other(format!("a reply of an unknown kind: {}", line.escape_ascii())));
            }
        })
    }

    fn read_bulk(&mut self, length: usize, raw: &mut Vec<u8>) -> io::Result<Vec<u8>> {
        let start = raw.len();
        raw.resize(start + length + 2, 0);
        self.reader.read_exact(&mut raw[start..])?;
        Ok(raw[start..start + length].to_vec())
    }

    /// All bytes up to the end of the connection, which the other side must bring about.
    pub(crate) fn read_to_end(&mut self, raw: &mut Vec<u8>) -> io::Result<()> {
        match self.reader.read_to_end(raw) {
            // The other side has closed without reading everything.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
            result => result.map(|_| ()),
        }
    }
}
