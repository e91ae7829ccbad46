//! The arguments of one command: places in a buffer, so that nothing is copied to look at them.

/// Where one argument lies in the bytes of its command. Commands have at most 32 MiB, so 32 bits do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// From `start` up to `end`.
    #[inline]
    pub(crate) fn new(start: usize, end: usize) -> Self {
        let narrow = |at: usize| u32::try_from(at).expect("a command has at most COMMAND_BYTES_MAX bytes");
        Self { start: narrow(start), end: narrow(end) }
    }

    #[inline]
    fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.end as usize]
    }
}

/// The arguments of one command; the first is its name.
#[derive(Clone, Copy)]
pub struct Arguments<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Arguments<'a> {
    /// Every span lies within `bytes`.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], spans: &'a [Span]) -> Self {
        Self { bytes, spans }
    }

    /// How many there are, the name included.
    #[inline]
    pub fn len(self) -> usize {
        self.spans.len()
    }

    /// Are there none at all?
    pub fn is_empty(self) -> bool {
        self.spans.is_empty()
    }

    /// One of them.
    #[inline]
    pub fn get(self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| span.of(self.bytes))
    }

    /// The name of the command, as it was sent.
    #[inline]
    pub fn name(self) -> &'a [u8] {
        self.get(0).unwrap_or_default()
    }

    /// All but the first `count`.
    #[inline]
    pub fn skip(self, count: usize) -> Self {
        Self { bytes: self.bytes, spans: self.spans.get(count..).unwrap_or_default() }
    }

    /// All but the last `count`.
    pub(crate) fn without_last(self, count: usize) -> Self {
        let kept = self.len().saturating_sub(count);
        Self { bytes: self.bytes, spans: self.spans.get(..kept).unwrap_or_default() }
    }

    /// All of them, in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone {
        self.spans.iter().map(move |span| span.of(self.bytes))
    }
}

impl std::fmt::Debug for Arguments<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter().map(String::from_utf8_lossy)).finish()
    }
}

impl PartialEq for Arguments<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Arguments<'_> {}

/// Arguments that outlive the receive buffer, for commands that wait for `EXEC`.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnedArguments {
    bytes: Box<[u8]>,
    spans: Box<[Span]>,
}

impl OwnedArguments {
    /// Copies what `arguments` points to, and nothing around it.
    pub fn new(arguments: Arguments<'_>) -> Self {
        let mut bytes = Vec::with_capacity(arguments.iter().map(<[u8]>::len).sum());
        let spans = arguments
            .iter()
            .map(|argument| {
                let start = bytes.len();
                bytes.extend_from_slice(argument);
                Span::new(start, bytes.len())
            })
            .collect();
        Self { bytes: bytes.into_boxed_slice(), spans }
    }

    /// The arguments again.
    pub fn get(&self) -> Arguments<'_> {
        Arguments::new(&self.bytes, &self.spans)
    }

    /// How much memory they take.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.len() + size_of_val(&*self.spans)
    }
}

impl std::fmt::Debug for OwnedArguments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}
