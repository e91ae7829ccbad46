//! Commands that wait for `EXEC`.

use super::{
    Arguments, OwnedArguments, QUEUED_BYTES_MAX, QUEUED_COMMANDS_MAX, Request, RequestError,
    commands::{Handler, Spec},
};

/// One reply of a transaction: still to be found out, or known already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Queued {
    /// For the counters.
    Run(OwnedRequest),
    /// The bytes of the reply.
    Reply(Vec<u8>),
}

/// A request that outlives the receive buffer.
#[derive(Clone)]
pub struct OwnedRequest {
    spec: &'static Spec,
    arguments: OwnedArguments,
}

impl OwnedRequest {
    /// Keeps `arguments` if they are a request for the counters.
    fn new(spec: &'static Spec, arguments: OwnedArguments) -> Result<Self, RequestError> {
        let owned = Self { spec, arguments };
        owned.read()?;
        Ok(owned)
    }

    /// The request itself.
    pub fn get(&self) -> Request<'_> {
        self.read().expect("was read when it was made")
    }

    fn read(&self) -> Result<Request<'_>, RequestError> {
        match self.spec.handler {
            Handler::Keyed(grammar) => grammar(self.arguments.get()),
            _ => Err(RequestError::Syntax),
        }
    }
}

impl std::fmt::Debug for OwnedRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}

impl PartialEq for OwnedRequest {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for OwnedRequest {}

/// What has been sent since `MULTI`.
#[derive(Default)]
pub(crate) struct Transaction {
    commands: Vec<Waiting>,
    /// The memory of all of them.
    bytes: usize,
    /// A command was refused: `EXEC` will refuse all.
    failed: bool,
}

/// A command that is known, with as many arguments as it takes.
pub(crate) struct Waiting {
    pub(crate) spec: &'static Spec,
    pub(crate) arguments: OwnedArguments,
}

impl Waiting {
    /// The request for the counters, if it is one.
    pub(crate) fn into_request(self) -> Result<OwnedRequest, RequestError> {
        OwnedRequest::new(self.spec, self.arguments)
    }
}

impl Transaction {
    /// Keeps a command, if there is room.
    pub(crate) fn push(&mut self, spec: &'static Spec, arguments: Arguments<'_>) -> Result<(), RequestError> {
        if self.failed {
            return Ok(()); // it will never run
        }
        let overhead = size_of::<Waiting>() + size_of::<(usize, usize)>() * arguments.len();
        let bytes = overhead + arguments.iter().map(<[u8]>::len).sum::<usize>();
        if self.commands.len() >= QUEUED_COMMANDS_MAX || self.bytes + bytes > QUEUED_BYTES_MAX {
            return Err(RequestError::TransactionTooLarge);
        }
        self.bytes += bytes;
        self.commands.push(Waiting { spec, arguments: OwnedArguments::new(arguments) });
        Ok(())
    }

    /// Notes that a command was refused; none of the others will run.
    pub(crate) fn fail(&mut self) {
        self.failed = true;
        self.commands = Vec::new();
        self.bytes = 0;
    }

    /// The commands in order, unless one was refused.
    pub(crate) fn finish(self) -> Result<Vec<Waiting>, RequestError> {
        if self.failed { Err(RequestError::Aborted) } else { Ok(self.commands) }
    }

    /// The hash slots of the commands that have keys.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Result<Option<u16>, RequestError>> {
        self.commands.iter().map(|waiting| waiting.spec.slot(waiting.arguments.get()))
    }

    /// The memory that waits.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes
    }
}
