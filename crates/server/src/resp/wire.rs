//! Finds commands in a receive buffer: arrays of bulk strings, or inline lines.
//!
//! Nothing is copied (but the words of an inline line, which may be quoted), nothing recurses, and no byte of a
//! command that arrives in pieces is looked at twice, except for a few bytes of a length that was cut in two.
//!
//! Framing is stricter than in Redis in one point: the two bytes after a length or an argument must be CR and LF.
//! Redis skips over whatever is there, so that a client that miscounts is misunderstood instead of refused.

use super::{
    ARGUMENTS_MAX, Arguments, COMMAND_BYTES_MAX, INLINE_BYTES_MAX, ProtocolError,
    UNAUTHENTICATED_ARGUMENT_BYTES_MAX, UNAUTHENTICATED_ARGUMENTS_MAX, arguments::Span, inline, integer,
};

/// A line with a length has at most this many bytes; the longest number has 20.
const LENGTH_LINE_BYTES_MAX: usize = 32;
/// Lengths with up to this many digits take the short way.
const SHORT_DIGITS_MAX: usize = 9;
/// Redis takes no argument longer than this, and says so in its own words.
const REDIS_ARGUMENT_BYTES_MAX: i64 = 512 * 1024 * 1024;
/// Redis takes no more arguments than this, and says so in its own words.
const REDIS_ARGUMENTS_MAX: i64 = i32::MAX as i64;
/// Room for this many arguments is kept from one command to the next.
const SPANS_KEPT: usize = 1024;
/// Room for this many bytes of inline words is kept from one command to the next.
const WORDS_KEPT_BYTES: usize = 4096;

/// Whether the client has authenticated; until then it may send only little.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// It has, or there is no password.
    Authenticated,
    /// Not yet.
    Unknown,
}

/// What [`Parser::parse`] found. The first `consumed` bytes of the buffer are done with.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A command with at least one argument.
    Command {
        /// Its name and its arguments.
        arguments: Arguments<'a>,
        /// To be dropped from the buffer before the next call.
        consumed: usize,
    },
    /// No whole command yet. Drop what was consumed, add what arrives, and call again.
    Incomplete {
        /// To be dropped from the buffer before the next call.
        consumed: usize,
    },
}

/// The parser of one connection. After an error the connection must be closed.
#[derive(Debug, Default)]
pub struct Parser {
    spans: Vec<Span>,
    /// The words of an inline command, without their quotes.
    words: Vec<u8>,
    /// How many bytes of the current command need not be looked at again.
    at: usize,
    /// Arguments of the current command that are still to come; 0 between commands.
    missing: usize,
    /// The length of the next argument, if it has been read; `at` is where the argument begins.
    argument_bytes: Option<usize>,
}

/// What became of the command at the start of the bytes at hand.
enum Progress {
    /// Not a command: an empty line or array.
    Nothing {
        bytes: usize,
    },
    Array {
        bytes: usize,
    },
    Inline {
        bytes: usize,
    },
    Incomplete,
}

impl Parser {
    /// A parser at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks for one command at the start of `buffer`: all that was received and not yet reported as consumed.
    #[inline]
    pub fn parse<'a>(&'a mut self, buffer: &'a [u8], peer: Peer) -> Result<Parsed<'a>, ProtocolError> {
        let mut start = 0;
        loop {
            let rest = &buffer[start..];
            match self.advance(rest, peer)? {
                Progress::Array { bytes } => {
                    let arguments = Arguments::new(rest, &self.spans);
                    return Ok(Parsed::Command { arguments, consumed: start + bytes });
                }
                Progress::Inline { bytes } => {
                    let arguments = Arguments::new(&self.words, &self.spans);
                    return Ok(Parsed::Command { arguments, consumed: start + bytes });
                }
                Progress::Nothing { bytes } => start += bytes,
                Progress::Incomplete => return Ok(Parsed::Incomplete { consumed: start }),
            }
        }
    }

    /// How much memory it holds.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.spans.capacity() * size_of::<Span>() + self.words.capacity()
    }

    #[inline]
    fn advance(&mut self, bytes: &[u8], peer: Peer) -> Result<Progress, ProtocolError> {
        if self.missing > 0 {
            return self.array(bytes, peer);
        }
        match bytes.first() {
            None => Ok(Progress::Incomplete),
            Some(b'*') => {
                let Some(line) = read_length(&bytes[1..]).map_err(BadLine::in_array)? else {
                    return Ok(Progress::Incomplete);
                };
                let count = check_count(line.value, peer)?;
                if count == 0 {
                    return Ok(Progress::Nothing { bytes: 1 + line.bytes });
                }
                self.begin();
                self.missing = count;
                self.at = 1 + line.bytes;
                self.array(bytes, peer)
            }
            Some(_) => self.inline(bytes),
        }
    }

    /// Forgets the last command, and gives memory back if that one was unusually large.
    #[inline]
    fn begin(&mut self) {
        self.spans.clear();
        if self.spans.capacity() > SPANS_KEPT {
            self.spans = Vec::new();
        }
    }

    /// Reads the arguments that have arrived.
    #[inline]
    fn array(&mut self, bytes: &[u8], peer: Peer) -> Result<Progress, ProtocolError> {
        while self.missing > 0 {
            let length = match self.argument_bytes {
                Some(length) => length,
                None => match bytes.get(self.at) {
                    None => return Ok(Progress::Incomplete),
                    Some(b'$') => {
                        let Some(line) = read_length(&bytes[self.at + 1..]).map_err(BadLine::in_bulk)? else {
                            return Ok(Progress::Incomplete);
                        };
                        self.at += 1 + line.bytes;
                        check_bulk(line.value, self.at, peer)?
                    }
                    Some(other) => return Err(ProtocolError::ExpectedBulk { got: char::from(*other) }),
                },
            };
            let end = self.at + length;
            match bytes.get(end..end + 2) {
                Some(b"\r\n") => {}
                Some(_) => return Err(ProtocolError::UnterminatedBulk),
                None => {
                    self.argument_bytes = Some(length);
                    return Ok(Progress::Incomplete);
                }
            }
            self.spans.push(Span::new(self.at, end));
            self.argument_bytes = None;
            self.at = end + 2;
            self.missing -= 1;
        }
        Ok(Progress::Array { bytes: std::mem::take(&mut self.at) })
    }

    /// Reads a line, if it has arrived whole.
    fn inline(&mut self, bytes: &[u8]) -> Result<Progress, ProtocolError> {
        let within = &bytes[..bytes.len().min(INLINE_BYTES_MAX + 1)];
        let unseen = within.get(self.at..).unwrap_or_default();
        let Some(newline) = unseen.iter().position(|byte| *byte == b'\n') else {
            if bytes.len() > INLINE_BYTES_MAX {
                return Err(ProtocolError::InlineTooLong);
            }
            self.at = bytes.len();
            return Ok(Progress::Incomplete);
        };
        let end = std::mem::take(&mut self.at) + newline;
        let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
        self.begin();
        self.words.clear();
        self.words.shrink_to(WORDS_KEPT_BYTES);
        inline::split(line, &mut self.words, &mut self.spans)?;
        let bytes = end + 1;
        Ok(if self.spans.is_empty() { Progress::Nothing { bytes } } else { Progress::Inline { bytes } })
    }
}

/// How many arguments will come, if that many may.
#[inline]
fn check_count(count: i64, peer: Peer) -> Result<usize, ProtocolError> {
    let Ok(arguments) = usize::try_from(count) else {
        return Ok(0); // as in Redis: a negative number of arguments is an empty command
    };
    if count > REDIS_ARGUMENTS_MAX {
        return Err(ProtocolError::InvalidArrayLength);
    }
    if peer == Peer::Unknown && arguments > UNAUTHENTICATED_ARGUMENTS_MAX {
        return Err(ProtocolError::UnauthenticatedArrayLength);
    }
    if arguments > ARGUMENTS_MAX {
        return Err(ProtocolError::TooManyArguments { arguments });
    }
    Ok(arguments)
}

/// How long the next argument will be, if it may be that long when it begins `at` bytes into its command.
#[inline]
fn check_bulk(length: i64, at: usize, peer: Peer) -> Result<usize, ProtocolError> {
    if length > REDIS_ARGUMENT_BYTES_MAX {
        return Err(ProtocolError::InvalidBulkLength);
    }
    let length = usize::try_from(length).map_err(|_| ProtocolError::InvalidBulkLength)?;
    if peer == Peer::Unknown && length > UNAUTHENTICATED_ARGUMENT_BYTES_MAX {
        return Err(ProtocolError::UnauthenticatedBulkLength);
    }
    if at + length + 2 > COMMAND_BYTES_MAX {
        return Err(ProtocolError::CommandTooLong);
    }
    Ok(length)
}

/// A number with its CR and LF.
struct Line {
    value: i64,
    bytes: usize,
}

/// What is wrong with a line that should hold a length.
enum BadLine {
    NoLength,
    TooLong,
}

impl BadLine {
    fn in_array(self) -> ProtocolError {
        match self {
            Self::NoLength => ProtocolError::InvalidArrayLength,
            Self::TooLong => ProtocolError::ArrayLengthTooLong,
        }
    }

    fn in_bulk(self) -> ProtocolError {
        match self {
            Self::NoLength => ProtocolError::InvalidBulkLength,
            Self::TooLong => ProtocolError::BulkLengthTooLong,
        }
    }
}

/// Reads a length and its end of line; `None` if they have not arrived whole.
#[inline]
fn read_length(bytes: &[u8]) -> Result<Option<Line>, BadLine> {
    // Nearly every length has one or two digits and is all there.
    let mut value = 0;
    for (digits, byte) in bytes.iter().take(SHORT_DIGITS_MAX + 1).enumerate() {
        match byte {
            b'0'..=b'9' => value = value * 10 + i64::from(byte - b'0'),
            b'\r' if digits == 1 || (digits > 1 && bytes[0] != b'0') => {
                return end_of_line(bytes, digits, value);
            }
            _ => break,
        }
    }
    read_length_slowly(bytes)
}

#[cold]
fn read_length_slowly(bytes: &[u8]) -> Result<Option<Line>, BadLine> {
    match bytes.iter().take(LENGTH_LINE_BYTES_MAX).position(|byte| *byte == b'\r') {
        Some(end) => {
            let value = integer::parse(&bytes[..end]).ok_or(BadLine::NoLength)?;
            end_of_line(bytes, end, value)
        }
        None if bytes.len() >= LENGTH_LINE_BYTES_MAX => Err(BadLine::TooLong),
        None => Ok(None),
    }
}

/// The CR is at `end`; is there a LF after it?
#[inline]
fn end_of_line(bytes: &[u8], end: usize, value: i64) -> Result<Option<Line>, BadLine> {
    match bytes.get(end + 1) {
        Some(b'\n') => Ok(Some(Line { value, bytes: end + 2 })),
        Some(_) => Err(BadLine::NoLength),
        None => Ok(None),
    }
}
