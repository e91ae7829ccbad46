//! One connection: who is at the other end, which version of the protocol it speaks, and what it has queued.
//!
//! A state machine without sockets. A command goes in; a reply, or a request for the counters, comes out.

use super::{
    Arguments, EXEC_REPLY_BYTES_MAX, Identity, Mode, Peer, Protocol, Queued, Reply, Request, RequestError,
    ServerFacts,
    commands::{self, Call, Gate, Handler, Spec},
    transaction::{Transaction, Waiting},
};

/// What to do after a command.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Its reply has been written.
    Replied,
    /// Run this and write its reply.
    Run(Request<'a>),
    /// Write the head of an array, then run each in order and write its reply, all in the version of the protocol that
    /// the session speaks now.
    RunAll(Vec<Queued>),
    /// Send what has been written, if anything, and close the connection.
    ReplyThenClose,
}

/// The state of one connection.
pub struct Session {
    client_id: u64,
    mode: Mode,
    authenticated: bool,
    identity: Identity,
    /// Since `MULTI`.
    transaction: Option<Transaction>,
}

impl Session {
    /// A new connection, under a number that no other has had.
    pub fn new(client_id: u64, server: &dyn ServerFacts) -> Self {
        Self::in_mode(Mode::Alone, client_id, server)
    }

    /// The same, in this mode.
    pub fn in_mode(mode: Mode, client_id: u64, server: &dyn ServerFacts) -> Self {
        let authenticated = !server.password_required();
        Self { client_id, mode, authenticated, identity: Identity::default(), transaction: None }
    }

    /// What this connection is to its client. It stays so.
    #[inline]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The version of the protocol for the next reply.
    #[inline]
    pub fn protocol(&self) -> Protocol {
        self.identity.protocol
    }

    /// How far the parser may trust the client.
    #[inline]
    pub fn peer(&self) -> Peer {
        if self.authenticated { Peer::Authenticated } else { Peer::Unknown }
    }

    /// May the client use more than `AUTH`?
    pub fn is_authenticated(&self) -> bool {
        self.authenticated
    }

    /// The number of this connection.
    pub fn client_id(&self) -> u64 {
        self.client_id
    }

    /// What the client has said of itself so far.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Is the client between `MULTI` and `EXEC`?
    pub fn in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// The memory of the commands that wait for `EXEC`.
    pub fn queued_bytes(&self) -> usize {
        self.transaction.as_ref().map_or(0, Transaction::memory_bytes)
    }

    pub(crate) fn identity_mut(&mut self) -> &mut Identity {
        &mut self.identity
    }

    pub(crate) fn authenticated_as(&mut self, user: &str) {
        self.authenticated = true;
        user.clone_into(&mut self.identity.user);
    }

    /// Takes one command. Replies are appended to `out`.
    #[inline]
    pub fn step<'a>(
        &mut self,
        arguments: Arguments<'a>,
        out: &mut Vec<u8>,
        server: &dyn ServerFacts,
    ) -> Step<'a> {
        let spec = match commands::find(self.mode, arguments) {
            Ok(spec) => spec,
            // What we do not do is nobody's business before that; what nobody knows is told to anyone, as in Redis.
            Err(RequestError::NotSupported { .. } | RequestError::ClusterDisabled) if !self.authenticated => {
                return self.refuse(arguments, &RequestError::NotAuthenticated, out);
            }
            Err(error) => return self.refuse(arguments, &error, out),
        };
        if !self.authenticated && spec.gate != Gate::Anyone {
            return self.refuse(arguments, &RequestError::NotAuthenticated, out);
        }
        if self.mode == Mode::Cluster
            && let Err(error) = self.check_slot(spec, arguments, server)
        {
            return self.send_away(spec, arguments, &error, out);
        }
        if self.transaction.is_some() && spec.waits_for_exec() {
            return self.queue(spec, arguments, out);
        }
        match spec.handler {
            Handler::Keyed(grammar) => match grammar(arguments) {
                Ok(request) => Step::Run(request),
                Err(error) => self.reply_error(&error, out),
            },
            _ => self.step_connection(spec, arguments, out, server),
        }
    }

    /// In a cluster the keys of a command, or of a whole transaction, are in one hash slot, and in one of this node.
    fn check_slot(
        &self,
        spec: &Spec,
        arguments: Arguments<'_>,
        server: &dyn ServerFacts,
    ) -> Result<(), RequestError> {
        let slot = match (&spec.handler, &self.transaction) {
            (Handler::Exec, Some(transaction)) => {
                let slots: Result<Vec<_>, _> = transaction.slots().collect();
                commands::one_slot(slots?.into_iter().flatten())?
            }
            _ => spec.slot(arguments)?,
        };
        match slot.and_then(|slot| Some((slot, server.redirect(slot)?))) {
            Some((slot, to)) => Err(RequestError::Moved { slot, to }),
            None => Ok(()),
        }
    }

    /// Refuses what is not for this node. As in Redis, an `EXEC` gets the very error, and ends the transaction.
    #[cold]
    fn send_away<'a>(
        &mut self,
        spec: &Spec,
        arguments: Arguments<'_>,
        error: &RequestError,
        out: &mut Vec<u8>,
    ) -> Step<'a> {
        if matches!(spec.handler, Handler::Exec) {
            self.transaction = None;
            return self.reply_error(error, out);
        }
        self.refuse(arguments, error, out)
    }

    /// A command that is not for the counters.
    fn step_connection<'a>(
        &mut self,
        spec: &'static Spec,
        arguments: Arguments<'_>,
        out: &mut Vec<u8>,
        server: &dyn ServerFacts,
    ) -> Step<'a> {
        let result = match spec.handler {
            Handler::Quit => {
                Reply::new(out, self.protocol()).ok();
                return Step::ReplyThenClose;
            }
            Handler::HangUp => return Step::ReplyThenClose,
            Handler::Exec => match self.execute(server) {
                Ok(replies) => return Step::RunAll(replies),
                Err(error) => Err(error),
            },
            Handler::Multi => self.begin(out),
            Handler::Discard => self.discard(out),
            Handler::Watch if self.transaction.is_some() => Err(RequestError::WatchInsideMulti),
            Handler::Watch => Err(commands::watch()),
            Handler::Reset => {
                *self = Self::in_mode(self.mode, self.client_id, server);
                Reply::new(out, self.protocol()).simple("RESET");
                Ok(())
            }
            Handler::Connection(run) | Handler::Container { alone: Some(run), .. } => {
                run(&mut Call { session: self, out, server }, arguments)
            }
            // Both are taken care of before; the name is all that is left to say.
            Handler::Keyed(_) | Handler::Container { alone: None, .. } => {
                Err(RequestError::WrongArity { command: spec.name })
            }
        };
        match result {
            Ok(()) => Step::Replied,
            Err(error) => self.reply_error(&error, out),
        }
    }

    fn begin(&mut self, out: &mut Vec<u8>) -> Result<(), RequestError> {
        if self.transaction.is_some() {
            return Err(RequestError::NestedMulti);
        }
        self.transaction = Some(Transaction::default());
        Reply::new(out, self.protocol()).ok();
        Ok(())
    }

    fn discard(&mut self, out: &mut Vec<u8>) -> Result<(), RequestError> {
        self.transaction.take().ok_or(RequestError::WithoutMulti("DISCARD"))?;
        Reply::new(out, self.protocol()).ok();
        Ok(())
    }

    #[cold]
    fn queue<'a>(&mut self, spec: &'static Spec, arguments: Arguments<'_>, out: &mut Vec<u8>) -> Step<'a> {
        // All of it goes into one batch: what waits would leave it. Other mistakes are told by EXEC, as in Redis.
        if let Handler::Keyed(grammar) = spec.handler
            && let Some(option) = grammar(arguments).ok().and_then(|request| request.waits_by())
        {
            return self.refuse(arguments, &RequestError::WaitsInsideMulti(option), out);
        }
        match self.transaction.get_or_insert_default().push(spec, arguments) {
            Ok(()) => {
                Reply::new(out, self.protocol()).simple("QUEUED");
                Step::Replied
            }
            Err(error) => self.refuse(arguments, &error, out),
        }
    }

    /// What waits is run as far as it is about the connection, and handed out as far as it is about counters.
    fn execute(&mut self, server: &dyn ServerFacts) -> Result<Vec<Queued>, RequestError> {
        let transaction = self.transaction.take().ok_or(RequestError::WithoutMulti("EXEC"))?;
        let mut reply_bytes = 0;
        let mut execute = |command| {
            let queued = self.execute_one(command, reply_bytes, server);
            if let Queued::Reply(reply) = &queued {
                reply_bytes += reply.len();
            }
            queued
        };
        Ok(transaction.finish()?.into_iter().map(&mut execute).collect())
    }

    /// One of them, after so many bytes of replies.
    fn execute_one(&mut self, command: Waiting, reply_bytes: usize, server: &dyn ServerFacts) -> Queued {
        let mut out = Vec::new();
        if let Handler::Keyed(_) = command.spec.handler {
            match command.into_request() {
                Ok(request) => return Queued::Run(request),
                Err(error) => self.reply_error(&error, &mut out),
            }
        } else if reply_bytes > EXEC_REPLY_BYTES_MAX {
            self.reply_error(&RequestError::RepliesTooLarge, &mut out)
        } else {
            self.step_connection(command.spec, command.arguments.get(), &mut out, server)
        };
        Queued::Reply(out)
    }

    /// Refuses a command before it was queued or run: a transaction that it is in will not run.
    #[cold]
    fn refuse<'a>(&mut self, arguments: Arguments<'_>, error: &RequestError, out: &mut Vec<u8>) -> Step<'a> {
        // As in Redis: an EXEC that is refused ends the transaction, any other command spoils it.
        if arguments.name().eq_ignore_ascii_case(b"EXEC") {
            self.transaction = None;
            let text = error.to_string();
            let reason = text.strip_prefix("ERR ").unwrap_or(&text).to_owned();
            return self.reply_error(&RequestError::AbortedBy(reason), out);
        }
        if let Some(transaction) = &mut self.transaction {
            transaction.fail();
        }
        self.reply_error(error, out)
    }

    #[cold]
    fn reply_error<'a>(&self, error: &RequestError, out: &mut Vec<u8>) -> Step<'a> {
        Reply::new(out, self.protocol()).error(error);
        Step::Replied
    }
}
