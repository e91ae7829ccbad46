//! Replies of a RESP server, taken from a stream that may be cut anywhere. Nothing is allocated for a reply.

/// The longest reply that is understood, and what one read takes at most.
const INBOX_BYTES: usize = 16 * 1024;

/// One reply, without its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply<'a> {
    Integer(&'a [u8]),
    Bulk(&'a [u8]),
    Nil,
    Simple(&'a [u8]),
    Error(&'a [u8]),
}

impl Reply<'_> {
    /// For people: what the server said.
    pub(super) fn text(&self) -> String {
        match self {
            Reply::Integer(text) | Reply::Simple(text) | Reply::Error(text) | Reply::Bulk(text) => {
                String::from_utf8_lossy(text).into_owned()
            }
            Reply::Nil => "nil".to_owned(),
        }
    }
}

/// The stream holds something that is no reply to an add, a read or a login.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a reply: {0:?}")]
pub(super) struct NotAReply(String);

/// How much of a wrong reply is shown.
const SHOWN_BYTES: usize = 60;

impl NotAReply {
    fn new(bytes: &[u8]) -> Self {
        NotAReply(String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES)]).into_owned())
    }
}

/// What has arrived on one connection and was not yet taken out.
pub(super) struct Inbox {
    bytes: Box<[u8]>,
    /// Where the next reply begins.
    start: usize,
    /// Where the next bytes from the stream go.
    end: usize,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Inbox { bytes: vec![0; INBOX_BYTES].into_boxed_slice(), start: 0, end: 0 }
    }

    /// Room for what the stream has next; never empty once `next` has returned nothing.
    pub(super) fn room(&mut self) -> &mut [u8] {
        self.bytes.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        &mut self.bytes[self.end..]
    }

    /// So many bytes were put into the room.
    pub(super) fn filled(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.bytes.len());
    }

    /// The last so many bytes that were put in.
    pub(super) fn latest(&self, bytes: usize) -> &[u8] {
        &self.bytes[self.end.saturating_sub(bytes)..self.end]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether the next reply has arrived as a whole.
    pub(super) fn holds_reply(&self) -> Result<bool, NotAReply> {
        Ok(first(&self.bytes[self.start..self.end])?.is_some())
    }

    /// The next whole reply, if it has arrived.
    pub(super) fn next(&mut self) -> Result<Option<Reply<'_>>, NotAReply> {
        let found = first(&self.bytes[self.start..self.end])?;
        Ok(found.map(|(reply, length)| {
            self.start += length;
            reply
        }))
    }
}

/// As `scan`, of what is in an inbox: a reply that does not fit into it will never be whole.
fn first(waiting: &[u8]) -> Result<Option<(Reply<'_>, usize)>, NotAReply> {
    match scan(waiting)? {
        None if waiting.len() == INBOX_BYTES => Err(NotAReply::new(waiting)),
        found => Ok(found),
    }
}

/// The reply at the beginning of these bytes and its length with the frame, or nothing if more must come.
fn scan(bytes: &[u8]) -> Result<Option<(Reply<'_>, usize)>, NotAReply> {
    let Some(&kind) = bytes.first() else { return Ok(None) };
    if !matches!(kind, b':' | b'$' | b'+' | b'-' | b'_') {
        return Err(NotAReply::new(bytes));
    }
    let Some(line_feed) = bytes.iter().position(|&byte| byte == b'\n') else { return Ok(None) };
    let Some(line) = bytes[1..line_feed].strip_suffix(b"\r") else { return Err(NotAReply::new(bytes)) };
    let after_line = line_feed + 1;
    let reply = match kind {
        b':' if is_number(line) => Reply::Integer(line),
        b'+' => Reply::Simple(line),
        b'-' => Reply::Error(line),
        b'_' if line.is_empty() => Reply::Nil,
        b'$' if line == b"-1" => Reply::Nil,
        b'$' => return bulk(bytes, line, after_line),
        _ => return Err(NotAReply::new(bytes)),
    };
    Ok(Some((reply, after_line)))
}

fn bulk<'a>(bytes: &'a [u8], length: &[u8], start: usize) -> Result<Option<(Reply<'a>, usize)>, NotAReply> {
    let length = number(length).filter(|length| *length <= INBOX_BYTES as u64);
    let Some(length) = length.and_then(|length| usize::try_from(length).ok()) else {
        return Err(NotAReply::new(bytes));
    };
    let end = start + length;
    match bytes.get(end..end + 2) {
        None => Ok(None),
        Some(b"\r\n") => Ok(Some((Reply::Bulk(&bytes[start..end]), end + 2))),
        Some(_) => Err(NotAReply::new(bytes)),
    }
}

fn is_number(line: &[u8]) -> bool {
    let digits = line.strip_prefix(b"-").unwrap_or(line);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

fn number(line: &[u8]) -> Option<u64> {
    std::str::from_utf8(line).ok().filter(|text| !text.starts_with('+'))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] =
        b":1\r\n$-1\r\n$2\r\n42\r\n-ERR no such thing\r\n:-9223372036854775808\r\n+OK\r\n$0\r\n\r\n_\r\n";

    fn read(pieces: &[&[u8]]) -> Vec<String> {
        let mut inbox = Inbox::new();
        let mut replies = Vec::new();
        for piece in pieces {
            inbox.room()[..piece.len()].copy_from_slice(piece);
            inbox.filled(piece.len());
            while let Some(reply) = inbox.next().expect("replies") {
                replies.push(format!("{reply:?}"));
            }
        }
        assert!(inbox.is_empty());
        replies
    }

    #[test]
    fn a_stream_cut_anywhere_gives_the_same_replies() {
        let whole = read(&[STREAM]);
        assert_eq!(whole.len(), 8);
        for cut in 0..=STREAM.len() {
            assert_eq!(read(&[&STREAM[..cut], &STREAM[cut..]]), whole, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = STREAM.chunks(1).collect();
        assert_eq!(read(&bytes), whole);
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for wrong in [
            "HTTP/1.1 400 Bad Request\r\n",
            "*1\r\n:1\r\n",
            ":\r\n",
            ":1\n",
            ":x\r\n",
            "$x\r\n",
            "$-2\r\n",
            "$+1\r\n",
            "$16385\r\n",
            "$99999999999999999999\r\n",
            "$1\r\nabc",
            "_1\r\n",
        ] {
            assert!(scan(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_reply_that_never_ends_is_refused_when_the_room_is_full() {
        let mut inbox = Inbox::new();
        let room = inbox.room();
        room.fill(b'-');
        let filled = room.len();
        inbox.filled(filled);
        assert!(inbox.next().is_err());
    }
}
