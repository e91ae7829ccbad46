//! A worker: one thread that owns shards and clients. It reads what has come, applies it, makes it durable in one
//! batch, and only then writes the answers. What arrives meanwhile is the next batch: under light load a single
//! command is committed at once, under heavy load hundreds share one flush.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    io, mem,
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use mio::{Events, Interest, Poll, Token, event::Event, net::TcpListener, net::TcpStream};
use quipu_engine::{
    Action, Command, Envelope, Host, HostStats, Moment, OwnedCommand, Refusal, Released, Reply as Answer,
    SiteId, Ticket,
};
use quipu_storage::{Log, ShardId, Table};
use tokio::sync::watch;

use super::{
    Shared,
    acks::{Asked, LOOK_EVERY, Written},
    connection::{Connection, Received, State},
    deferred::{Deferred, Late},
    facts::Note,
    gathering::Gathering,
    jobs::{Job, Rendered},
    lanes::Lanes,
    links::counts,
    mail::{Cleared, Clearing, ListShard, Mail, Return},
    patience,
    relay::Leaving,
    requests::Submit,
    slab::Slab,
    waiting::{Address, Part, name_of, named},
};
use crate::{
    keepalive::keep_alive,
    metrics::{CommandName, CommandOutcome, CommandTally, WorkerMetrics},
    resp::{Mode, Parsed, Protocol, Reply, Session, Step},
};

const MAILBOX: Token = Token(usize::MAX);
/// Of each listener.
const LISTENERS: [Token; 2] = [Token(usize::MAX - 1), Token(usize::MAX - 2)];
/// How much is read from one client before it is the next one's turn.
const READ_BYTES: usize = 64 * 1024;
/// A batch is committed early when one of its records has become so large.
const RECORD_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How long a worker sleeps when there is nothing to do.
const IDLE: Duration = Duration::from_millis(100);
/// How often a busy worker looks after its shards.
const MAINTAIN_EVERY: Duration = Duration::from_millis(5);
/// How often a worker says how it is doing.
const REPORT_EVERY: Duration = Duration::from_millis(250);
/// After an error of `accept` (too many open files, for example).
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// How long a worker that stops tries to send its last answers.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Shards over whatever store there is.
pub(super) type AnyHost = Host<Box<dyn Log>, Arc<dyn Table>>;

/// Where clients connect.
pub(super) struct Listener {
    pub(super) socket: TcpListener,
    /// What connections to it are.
    pub(super) mode: Mode,
}

pub(super) struct Worker {
    pub(super) index: usize,
    pub(super) shared: Arc<Shared>,
    poll: Poll,
    listeners: Vec<Listener>,
    accept_again: Option<Instant>,
    pub(super) host: AnyHost,
    connections: Slab<Box<Connection>>,
    readable: Vec<usize>,
    news: Vec<usize>,
    /// Commands for shards that other nodes have.
    pub(super) lanes: Lanes,
    /// Commands for other workers' shards.
    outgoing: Vec<Vec<(Ticket, OwnedCommand)>>,
    /// Answers for other workers' clients.
    answers: Vec<Vec<(Ticket, Answer)>>,
    guests: Slab<Return>,
    /// To be started when the commands before them have been sent on.
    jobs: Vec<(Job, Ticket, Protocol)>,
    /// What clients want to know of other sites.
    acks: Asked,
    /// To be done when nothing is uncommitted.
    after_commit: Vec<Mail>,
    /// For shards that cannot take it now.
    pub(super) deferred: Deferred,
    /// Between two commits on a store that is far away.
    pub(super) gathering: Gathering,
    /// When somebody last looked who has waited long enough for the store.
    looked: Instant,
    /// When a store that refuses commits was last tried again.
    pub(super) tried: Instant,
    /// Whether the store was away then.
    pub(super) was_away: bool,
    watches: BTreeMap<Box<[u8]>, Vec<watch::Sender<Option<i64>>>>,
    pub(super) released: Released,
    pub(super) envelopes: Vec<Envelope>,
    /// And their bytes.
    pub(super) frames: Vec<u8>,
    /// So much was sent to peers that the rest can wait until then.
    pub(super) silent_until: Option<Instant>,
    buffer: Box<[u8]>,
    pub(super) now: Instant,
    /// The same, for the shards.
    pub(super) moment: Moment,
    /// This site was silent, and must ask its peers whether it is still a member, before it counts.
    pub(super) must_ask: bool,
    reported_at: Instant,
    /// Sites whose streams have branched off, as it was last reported, each with a peer that has the other branch.
    differing: BTreeSet<(SiteId, SiteId)>,
    maintained: Instant,
    flushed: Instant,
    next_worker: usize,
    commands: u64,
    tally: CommandTally,
    metrics: WorkerMetrics,
    /// What was reported last.
    reported: HostStats,
}

impl Worker {
    pub(super) fn new(
        index: usize,
        shared: Arc<Shared>,
        poll: Poll,
        listeners: Vec<Listener>,
        host: AnyHost,
        metrics: WorkerMetrics,
    ) -> io::Result<Self> {
        let workers = shared.workers();
        let now = Instant::now();
        let moment = shared.moment(now);
        let mut worker = Self {
            index,
            shared,
            poll,
            listeners,
            accept_again: None,
            host,
            connections: Slab::new(),
            readable: Vec::new(),
            news: Vec::new(),
            lanes: Lanes::default(),
            outgoing: (0..workers).map(|_| Vec::new()).collect(),
            answers: (0..workers).map(|_| Vec::new()).collect(),
            guests: Slab::new(),
            jobs: Vec::new(),
            acks: Asked::default(),
            after_commit: Vec::new(),
            deferred: Deferred::default(),
            gathering: Gathering::default(),
            looked: now,
            tried: now,
            was_away: false,
            watches: BTreeMap::new(),
            released: Released::default(),
            envelopes: Vec::new(),
            frames: Vec::new(),
            silent_until: None,
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            now,
            moment,
            must_ask: false,
            reported_at: now,
            differing: BTreeSet::new(),
            maintained: now,
            flushed: now,
            next_worker: 0,
            commands: 0,
            tally: CommandTally::default(),
            metrics,
            reported: HostStats::default(),
        };
        for (Listener { socket, .. }, token) in worker.listeners.iter_mut().zip(LISTENERS) {
            worker.poll.registry().register(socket, token, Interest::READABLE)?;
        }
        Ok(worker)
    }

    /// The token under which the mailbox of a worker is registered.
    pub(super) const MAILBOX: Token = MAILBOX;

    /// Works until it is told to stop.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        let mut mail = Vec::new();
        let mut stopping = false;
        while !stopping {
            let wait = if self.readable.is_empty() { self.idle() } else { Duration::ZERO };
            if let Err(error) = self.poll.poll(&mut events, Some(wait))
                && error.kind() != io::ErrorKind::Interrupted
            {
                return Err(error);
            }
            self.now = Instant::now();
            self.moment = self.shared.moment(self.now);
            self.notice_silence();
            if self.collect(false) {
                // Some shards are between two batches.
                self.maintain();
                self.send_to_peers();
            }
            for event in &events {
                self.notice(event);
            }
            self.take_deferred();
            if self.now.duration_since(self.looked) >= patience::LOOK_EVERY {
                self.looked = self.now;
                self.lose_patience();
                self.try_store_again();
            }
            self.accept_late();
            self.shared.mailbox(self.index).take(&mut mail);
            self.notice_silence();
            for letter in mail.drain(..) {
                stopping |= matches!(letter, Mail::Stop);
                self.open(letter);
            }
            self.read_clients();
            if self.gathering.is_on() {
                // Those that were missing may have come.
                self.take_deferred();
            }
            self.finish_batch();
            self.maintain();
            self.send_to_peers();
        }
        self.stop()
    }

    /// Looks at the clock whenever something has come: it may have come while this process did not run.
    fn notice_silence(&mut self) {
        self.must_ask = self.shared.must_ask();
        self.host.set_counting(self.shared.counting(self.must_ask));
    }

    fn idle(&self) -> Duration {
        let idle = if self.acks.is_late() { LOOK_EVERY } else { IDLE };
        let wait = self.shared.flush_every.map_or(idle, |every| every.min(idle));
        let wait = match self.gathering.is_on() {
            true => self.gathering.left(self.present(), self.now).map_or(wait, |left| left.min(wait)),
            false => wait,
        };
        self.peers_can_wait().map_or(wait, |peers| peers.min(wait))
    }

    fn notice(&mut self, event: &Event) {
        match event.token() {
            MAILBOX => {}
            token if LISTENERS.contains(&token) => self.accept(),
            Token(index) => {
                let Some(connection) = self.connections.get_mut(index) else { return };
                connection.has_ended |= event.is_read_closed();
                if connection.has_ended {
                    connection.queue.end_wait();
                }
                let may_write = event.is_writable() || event.is_error();
                if may_write && !connection.out.is_empty() {
                    connection.tell(index, &mut self.news);
                }
                if event.is_readable() || event.is_read_closed() || event.is_error() {
                    connection.list(index, &mut self.readable);
                }
            }
        }
    }

    fn accept_late(&mut self) {
        if self.accept_again.is_some_and(|at| at <= self.now) {
            self.accept_again = None;
            self.accept();
        }
    }

    fn accept(&mut self) {
        for at in 0..self.listeners.len() {
            self.accept_at(at);
        }
    }

    fn accept_at(&mut self, at: usize) {
        while let Some(Listener { socket, mode }) = self.listeners.get(at) {
            let mode = *mode;
            match socket.accept() {
                Ok((stream, address)) => {
                    let stream: std::net::TcpStream = stream.into();
                    let Some(id) = self.shared.admit(&stream, address) else { continue };
                    let to = self.next_worker % self.shared.workers();
                    self.next_worker += 1;
                    let client = Mail::Client { stream, id, mode };
                    if to == self.index { self.open(client) } else { self.shared.post(to, client) }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::warn!(%error, "a client could not be taken in; trying again");
                    self.accept_again = Some(self.now + ACCEPT_AGAIN_AFTER);
                    return;
                }
            }
        }
    }

    pub(super) fn open(&mut self, mail: Mail) {
        let must_ask = self.must_ask && mail.counts();
        if let Some(shard) =
            mail.shard().filter(|shard| must_ask || self.gathering.is_on() || self.host.is_committing(*shard))
        {
            return self.deferred.push_mail(shard, mail);
        }
        match mail {
            Mail::Client { stream, id, mode } => self.welcome(stream, id, mode),
            Mail::Commands { from, commands } => {
                for (ticket, command) in commands {
                    let guest = self.guest(Return::Worker { index: from, ticket });
                    self.submit(guest, command.get());
                }
            }
            Mail::Answers(answers) => {
                for (ticket, answer) in answers {
                    self.deliver(ticket, Part::Answer(answer));
                }
            }
            Mail::Rendered { ticket, rendered: Rendered { bytes, written } } => {
                self.deliver(ticket, Part::Bytes(bytes));
                self.end_job(ticket, &written);
            }
            Mail::FromSite { ticket, answer } => self.answered_elsewhere(ticket, answer),
            Mail::Group { shard, commands, answer } => self.open_group(shard, &commands, answer),
            Mail::Passed { shard, passed, in_lane } => self.take_passed(shard, passed, in_lane),
            Mail::Take { shard, seen } => self.take_shard(shard, seen),
            Mail::Free { shard, seen } => self.free_shard(shard, seen),
            Mail::Confirm { shard } => self.host.confirm(shard),
            Mail::Call { command, answer } => {
                let guest = self.guest(Return::Caller(answer));
                self.submit(guest, command.get());
            }
            Mail::Visit { shard, visit, leaf, answer } => {
                if let Some(refusal) = self.shared.why_not_taking(visit.ends_something(leaf)) {
                    // Who asked may have gone.
                    let _ = answer.send(Answer::Refused(refusal));
                    return;
                }
                let guest = self.guest(Return::Caller(answer));
                self.host.visit(shard, guest, *visit, leaf, self.moment);
                self.commit_large();
            }
            Mail::Speak { shard, server, round, answer } => {
                let guest = self.guest(Return::Caller(answer));
                self.host.speak(shard, guest, server, round, self.moment);
            }
            Mail::Answered { shard, server, answer } => {
                if let Err(bad) = self.host.answered(shard, shard.0, server, &answer, self.moment) {
                    tracing::error!(server = %server.name, shard = shard.0, "{bad}");
                }
                self.commit_large();
            }
            Mail::StopRelay { .. } => {
                self.stop_relay();
                self.after_commit.push(mail);
            }
            Mail::Bequeath { shard, heir, answer } => {
                let guest = self.guest(Return::Caller(answer));
                self.host.bequeath(shard, guest, heir);
            }
            Mail::Adopted { shard, adoption } => self.host.adopted(shard, &adoption),
            Mail::Adopt { shard, estate, answer } => {
                if let Some(refusal) = self.shared.why_not_taking(true) {
                    let _ = answer.send(Answer::Refused(refusal));
                    return;
                }
                let guest = self.guest(Return::Caller(answer));
                self.host.adopt(shard, guest, &estate, self.moment);
                self.commit_large();
            }
            Mail::Clear { request, answer } => self.clear(&request, answer),
            Mail::Link(mail) => self.open_link_mail(mail),
            Mail::Release { shard } => {
                self.stand_aside(shard);
                self.after_commit.push(mail);
            }
            // It is known what is asked for, and so that it is committed.
            Mail::Acks(ask) if ask.written.iter().all(|written| written.position.is_some()) => {
                self.acks.push(ask, &self.host);
            }
            Mail::List { request: ListShard { shard, .. }, .. } => {
                self.make_sure([shard]);
                self.after_commit.push(mail);
            }
            Mail::Count { .. } => {
                self.make_sure(self.mine());
                self.after_commit.push(mail);
            }
            Mail::Watch { ref key, .. } => {
                self.make_sure([self.shared.shards.of(key)]);
                self.after_commit.push(mail);
            }
            Mail::Positions { .. }
            | Mail::Acks(_)
            | Mail::Audit { .. }
            | Mail::WaitsFor { .. }
            | Mail::Unfinished { .. } => self.after_commit.push(mail),
            Mail::Stop => {}
        }
    }

    fn welcome(&mut self, stream: std::net::TcpStream, id: u64, mode: Mode) {
        let mut socket = TcpStream::from_std(stream);
        // Without it, answers wait for acknowledgements.
        let _ = socket.set_nodelay(true);
        keep_alive(&socket, self.shared.tcp_keepalive);
        let (token, interest) = (Token(self.connections.next()), Interest::READABLE | Interest::WRITABLE);
        if let Err(error) = self.poll.registry().register(&mut socket, token, interest) {
            tracing::warn!(%error, "a client could not be registered; its connection is closed");
            self.shared.forget(id);
            return;
        }
        let session = Session::in_mode(mode, id, &*self.shared);
        self.connections.insert(Box::new(Connection::new(id, self.shared.heard_ms(id), socket, session)));
    }

    pub(super) fn guest(&mut self, return_to: Return) -> Ticket {
        Address::Guest { index: self.guests.insert(return_to) }.ticket()
    }

    /// A page of counters to be deleted; all of it is committed at this moment, or in this very batch.
    fn clear(&mut self, request: &ListShard, answer: tokio::sync::oneshot::Sender<Result<Cleared, Refusal>>) {
        self.make_sure([request.shard]);
        self.commit();
        self.collect(true);
        if self.host.is_undecided(request.shard) {
            let ask = Mail::Clear { request: request.clone(), answer };
            return self.deferred.push_ask(request.shard, self.moment.elapsed_ms, ask);
        }
        let ListShard { shard, prefix, after, limit } = request;
        let listing = match self.host.list(*shard, prefix, after.as_deref(), *limit) {
            Ok(listing) => listing,
            Err(refusal) => {
                let _ = answer.send(Err(refusal));
                return;
            }
        };
        let cleared = Cleared { next: listing.next, kept: 0 };
        if listing.counters.is_empty() {
            let _ = answer.send(Ok(cleared));
            return;
        }
        let missing = listing.counters.len();
        let clearing = Clearing { cleared, missing, failed: None, answer: Some(answer) };
        let clearing = Rc::new(RefCell::new(clearing));
        for (key, _) in &listing.counters {
            let guest = self.guest(Return::Clearing(Rc::clone(&clearing)));
            self.submit(guest, Command { key, action: Action::Reset { to: None } });
        }
    }

    fn read_clients(&mut self) {
        for index in mem::take(&mut self.readable) {
            let Some(mut connection) = self.connections.lend(index) else { continue };
            connection.is_listed = false;
            self.read_client(index, &mut connection);
            self.connections.give_back(index, connection);
            self.commit_large();
        }
    }

    /// Commits early if the batch has become large.
    pub(super) fn commit_large(&mut self) {
        if self.host.record_bytes() >= RECORD_BYTES_MAX {
            self.commit();
        }
    }

    fn read_client(&mut self, index: usize, connection: &mut Connection) {
        // What could not be taken earlier comes first; then there may be room for more.
        if connection.may_read() && !connection.input.is_empty() {
            self.take_input(index, connection);
        }
        connection.was_held_up = !connection.may_read();
        if connection.was_held_up {
            return;
        }
        let mut buffer = mem::take(&mut self.buffer);
        match connection.receive(&mut buffer) {
            // Commands that came whole are answered; a part of one is worth nothing any more.
            Received::End => self.hang_up(index, connection, State::Closing),
            Received::Broken => self.hang_up(index, connection, State::Gone),
            Received::All(0) => {}
            received @ (Received::Some(bytes) | Received::All(bytes)) => {
                connection.heard_ms.store(self.moment.elapsed_ms, Ordering::Relaxed);
                self.notice_silence();
                self.take_bytes(index, connection, &buffer[..bytes]);
                if connection.has_ended {
                    connection.queue.end_wait();
                }
                if connection.has_ended || matches!(received, Received::Some(_)) {
                    connection.list(index, &mut self.readable);
                }
            }
        }
        self.buffer = buffer;
    }

    fn hang_up(&mut self, index: usize, connection: &mut Connection, state: State) {
        connection.state = state;
        connection.tell(index, &mut self.news);
    }

    /// Bytes that have just arrived. Most often they are whole commands and need not be kept.
    fn take_bytes(&mut self, index: usize, connection: &mut Connection, bytes: &[u8]) {
        if connection.input.is_empty() {
            let taken = self.take_commands(index, connection, bytes);
            connection.input.extend_from_slice(&bytes[taken..]);
        } else {
            connection.input.extend_from_slice(bytes);
            self.take_input(index, connection);
        }
    }

    fn take_input(&mut self, index: usize, connection: &mut Connection) {
        let input = mem::take(&mut connection.input);
        let taken = self.take_commands(index, connection, &input);
        connection.input = input;
        connection.consume(taken);
    }

    /// Does what the bytes say, and returns how many of them are done with.
    fn take_commands(&mut self, index: usize, connection: &mut Connection, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while connection.state == State::Open {
            if !connection.may_read() {
                // The rest when answers have been sent.
                break;
            }
            let Connection { parser, session, out, queue, writes, .. } = connection;
            match parser.parse(&bytes[taken..], session.peer()) {
                Ok(Parsed::Command { arguments, consumed }) => {
                    taken += consumed;
                    self.commands += 1;
                    let mut behind = Vec::new();
                    let replies = if queue.is_empty() { &mut *out } else { &mut behind };
                    let step = session.step(arguments, replies, &*self.shared);
                    let (protocol, mode) = (session.protocol(), session.mode());
                    match step {
                        Step::Replied => self.shared.identify(session),
                        Step::ReplyThenClose => connection.state = State::Closing,
                        Step::Run(request) => {
                            Submit { worker: self, index, queue, writes, protocol, mode }.one(request);
                        }
                        Step::RunAll(requests) => {
                            let submit = Submit { worker: self, index, queue, writes, protocol, mode };
                            submit.transaction(requests);
                        }
                    }
                    if !behind.is_empty() {
                        connection.queue.push_ready(behind);
                    }
                    connection.tell(index, &mut self.news);
                }
                Ok(Parsed::Incomplete { consumed }) => return taken + consumed,
                Err(error) => {
                    let mut reply = Vec::new();
                    Reply::new(&mut reply, Protocol::Resp2).error(&error);
                    connection.queue.push_ready(reply);
                    connection.state = State::Closing;
                    connection.tell(index, &mut self.news);
                }
            }
        }
        taken
    }

    /// Sends a command to the worker that has its shard, and says which shard that is.
    pub(super) fn submit(&mut self, ticket: Ticket, command: Command<'_>) -> ShardId {
        let shard = self.shared.shards.of(command.key);
        if self.shared.passes_on(&command.action) {
            let ticket = named(ticket, CommandName::of(&command.action));
            let (shared, worker) = (Arc::clone(&self.shared), self.index);
            let done = move |answer| shared.post(worker, Mail::FromSite { ticket, answer });
            self.shared.pass_on_command(OwnedCommand::new(command), done);
            return shard;
        }
        if self.shared.is_elsewhere(shard) {
            let ticket = named(ticket, CommandName::of(&command.action));
            let (since_ms, command) = (self.moment.elapsed_ms, OwnedCommand::new(command));
            self.lanes.push(shard, Late { since_ms, ticket, command });
            return shard;
        }
        let owner = self.shared.owner(shard);
        if owner == self.index {
            self.submit_here(shard, ticket, command);
        } else {
            self.outgoing[owner].push((ticket, OwnedCommand::new(command)));
        }
        shard
    }

    /// Has another node passed this command on?
    pub(super) fn is_of_a_group(&mut self, ticket: Ticket) -> bool {
        let Address::Guest { index } = Address::of(ticket) else { return false };
        matches!(self.guests.get_mut(index), Some(Return::Group { .. }))
    }

    /// Lets a shard of this worker do a command.
    pub(super) fn submit_here(&mut self, shard: ShardId, ticket: Ticket, command: Command<'_>) {
        let ticket = named(ticket, CommandName::of(&command.action));
        if let Some(refusal) = self.shared.forbids(&command.action) {
            self.released.replies.push((ticket, Answer::Refused(refusal)));
        } else if self.gathering.is_on()
            || (self.must_ask && counts(&command.action))
            || self.deferred.has_commands(shard)
            || self.host.must_wait(shard, &command)
        {
            let (since_ms, command) = (self.moment.elapsed_ms, OwnedCommand::new(command));
            self.deferred.push(shard, Late { since_ms, ticket, command });
        } else {
            self.host.submit(shard, ticket, command, self.moment);
        }
    }

    /// Starts a job when the commands before it have been sent on, or, where they may wait on their way, answered.
    pub(super) fn start_later(&mut self, job: Job, ticket: Ticket, protocol: Protocol) {
        self.jobs.push((job, ticket, protocol));
    }

    /// A job is done: what the client has asked after it may begin.
    fn end_job(&mut self, ticket: Ticket, written: &[Written]) {
        let Address::Connection { index, .. } = Address::of(ticket) else { return };
        let Some(mut connection) = self.connections.lend(index) else { return };
        connection.writes.learn(written);
        if let Some(rest) = connection.queue.end_job() {
            let Connection { queue, writes, session, .. } = &mut *connection;
            let (protocol, mode) = (rest.protocol, session.mode());
            Submit { worker: self, index, queue, writes, protocol, mode }.go_on(rest);
        }
        self.connections.give_back(index, connection);
    }

    /// Makes the batch durable, and passes on what may be known then.
    fn commit(&mut self) {
        self.tell_standing();
        self.host.set_counting(self.shared.counting(self.must_ask));
        let mut released = mem::take(&mut self.released);
        if let Some(committed) = self.host.commit(self.moment, &mut released) {
            let sums = &self.metrics.sums;
            sums.batches.inc();
            sums.batch_rows.observe(committed.rows as f64);
            if !self.host.has_commits_under_way() {
                sums.commit_seconds.observe(self.now.elapsed().as_secs_f64());
            }
            self.shared.metrics.bytes_logged.inc_by(committed.bytes as u64);
        }
        self.pass_on(&mut released);
        self.released = released;
    }

    /// Hears of commits that were under way, and passes on what may be known then. Returns whether there were any.
    pub(super) fn collect(&mut self, wait: bool) -> bool {
        if !self.host.has_commits_under_way() {
            return false;
        }
        let mut released = mem::take(&mut self.released);
        let present = self.present();
        let any = self.host.collect(wait, self.moment, &mut released);
        for took_ms in released.commits_ms.drain(..) {
            let took = Duration::from_millis(took_ms);
            self.metrics.sums.commit_seconds.observe(took.as_secs_f64());
            self.gathering.begin(took, present, self.now);
        }
        self.pass_on(&mut released);
        self.released = released;
        any
    }

    /// How many commands wait for commits, those under way or the next.
    pub(super) fn present(&self) -> usize {
        self.host.commands_under_way() + self.deferred.len()
    }

    /// Passes on what may be known.
    pub(super) fn pass_on_released(&mut self) {
        let mut released = mem::take(&mut self.released);
        self.pass_on(&mut released);
        self.released = released;
    }

    pub(super) fn pass_on(&mut self, released: &mut Released) {
        // Events first: whoever has seen an answer finds its effect published.
        for event in released.events.drain(..) {
            if let Some(watchers) = self.watches.get_mut(&event.key) {
                watchers.retain(|watcher| watcher.send(event.value).is_ok());
                if watchers.is_empty() {
                    self.watches.remove(&event.key);
                    self.host.unwatch(self.shared.shards.of(&event.key), &event.key);
                }
            }
        }
        for (ticket, answer) in released.replies.drain(..) {
            self.tally.count(name_of(ticket), CommandOutcome::of(&answer));
            self.deliver(ticket, Part::Answer(answer));
        }
    }

    /// What somebody else has done, and answered.
    pub(super) fn answered_elsewhere(&mut self, ticket: Ticket, answer: Answer) {
        self.tally.count(name_of(ticket), CommandOutcome::of(&answer));
        self.deliver(ticket, Part::Answer(answer));
    }

    fn deliver(&mut self, ticket: Ticket, part: Part) {
        match Address::of(ticket) {
            Address::Connection { index, sequence, part: at } => {
                let Some(connection) = self.connections.get_mut(index) else { return };
                connection.queue.deliver(sequence, at, part);
                connection.tell(index, &mut self.news);
            }
            Address::Guest { index } => {
                let Some(guest) = self.guests.remove(index) else { return };
                let Part::Answer(answer) = part else { return };
                match guest {
                    Return::Worker { index, ticket } => self.answers[index].push((ticket, answer)),
                    // Whoever asked may have gone.
                    Return::Caller(caller) => drop(caller.send(answer)),
                    Return::Clearing(clearing) => note_cleared(&clearing, answer),
                    Return::Group { group, at } => group.borrow_mut().note(at, answer),
                }
            }
        }
    }

    /// Commits, answers, and lets other workers know.
    fn finish_batch(&mut self) {
        self.commit();
        if !self.after_commit.is_empty() {
            self.collect(true);
        }
        for letter in mem::take(&mut self.after_commit) {
            self.answer_late(letter);
        }
        self.acks.look(&self.host, self.now);
        self.forget_lost();
        self.send_lanes();
        if let Some(relay) = &self.shared.relay {
            relay.note(self.index, self.host.has_pending(relay.current()));
        }
        for to in 0..self.outgoing.len() {
            if !self.outgoing[to].is_empty() {
                let commands = mem::take(&mut self.outgoing[to]);
                self.shared.post(to, Mail::Commands { from: self.index, commands });
            }
            if !self.answers[to].is_empty() {
                let answers = mem::take(&mut self.answers[to]);
                self.shared.post(to, Mail::Answers(answers));
            }
        }
        for (job, ticket, protocol) in mem::take(&mut self.jobs) {
            if !self.may_start(ticket) {
                self.jobs.push((job, ticket, protocol));
                continue;
            }
            let (shared, worker) = (Arc::clone(&self.shared), self.index);
            let done = move |rendered| shared.post(worker, Mail::Rendered { ticket, rendered });
            self.shared.start_job(job, protocol, done);
        }
        for index in mem::take(&mut self.news) {
            self.send(index);
        }
    }

    /// May a job begin? On a database what was asked before it may still wait: for a commit under way, or for another node.
    fn may_start(&mut self, job: Ticket) -> bool {
        let Address::Connection { index, sequence, part } = Address::of(job) else { return true };
        let connection = self.connections.get_mut(index).filter(|_| self.shared.siblings.is_some());
        connection.is_none_or(|connection| connection.queue.is_answered_before(sequence, part))
    }

    fn send(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.has_news = false;
        let shared = &self.shared;
        connection.queue.write_ready(&mut connection.out, &|site| shared.last_heard(site));
        connection.send();
        if connection.is_over() {
            let id = connection.id;
            // A socket that is closed leaves the poll by itself; this is for other systems.
            let _ = self.poll.registry().deregister(connection.socket());
            self.connections.remove(index);
            self.shared.forget(id);
            return;
        }
        // It may have been held up by what it had not been told.
        let has_more = connection.was_held_up || !connection.input.is_empty();
        if connection.may_read() && has_more {
            connection.list(index, &mut self.readable);
        }
    }

    pub(super) fn mine(&self) -> impl Iterator<Item = ShardId> + use<> {
        let (shared, index) = (Arc::clone(&self.shared), self.index);
        shared.shards.all().filter(move |shard| shared.owner(*shard) == index)
    }

    /// These shards are to be listed, watched or counted after the next commit: those that may be another node's by now ask
    /// their fences with it.
    fn make_sure(&mut self, shards: impl IntoIterator<Item = ShardId>) {
        if self.shared.siblings.is_none() {
            return;
        }
        self.tell_standing();
        for shard in shards {
            if !self.host.may_speak(shard) {
                self.host.ask_fence(shard);
            }
        }
    }

    /// How many counters are in each shard. One that may be another node's by now is left to that one.
    fn count_counters(&mut self) -> Vec<(ShardId, u64)> {
        self.tell_standing();
        let mut counts = Vec::new();
        for shard in self.mine() {
            counts.extend(self.host.live_in(shard).map(|count| (shard, count)));
        }
        counts
    }

    /// From the next batch on the relay takes nothing any more.
    fn stop_relay(&mut self) {
        for shard in self.mine() {
            if let Err(error) = self.host.stop_relay(shard) {
                tracing::error!(shard = shard.0, "it does not stop: {error}");
            }
        }
    }

    /// How it stands with a relay that retires. All of it is durable: nothing is uncommitted at this moment.
    fn tell_leaving(&mut self) -> Vec<Leaving> {
        let leaving = self.mine().map(|shard| Leaving {
            shard,
            retirement: self.host.retirement(shard),
            // If its store is in trouble, the shard may not leave either.
            open: self.host.not_handed_over(shard).unwrap_or_default(),
        });
        leaving.collect()
    }

    fn answer_late(&mut self, mail: Mail) {
        match mail {
            Mail::StopRelay { answer } => drop(answer.send(self.tell_leaving())),
            Mail::Release { shard } => self.release_shard(shard),
            Mail::List { ref request, .. } if self.host.is_undecided(request.shard) => {
                self.deferred.push_ask(request.shard, self.moment.elapsed_ms, mail);
            }
            Mail::List { request: ListShard { shard, prefix, after, limit }, answer } => {
                self.tell_standing();
                let _ = answer.send(self.host.list(shard, &prefix, after.as_deref(), limit));
            }
            Mail::Count { answer } => drop(answer.send(self.count_counters())),
            Mail::Positions { of, answer } => self.tell_positions(of, answer),
            Mail::Audit { answer } => drop(answer.send(self.host.audit())),
            Mail::Acks(ask) => self.acks.push(ask, &self.host),
            Mail::Unfinished { answer } => drop(answer.send(self.unfinished())),
            Mail::WaitsFor { answer } => drop(answer.send(self.host.waits_for())),
            Mail::Watch { key, values } => {
                let shard = self.shared.shards.of(&key);
                self.tell_standing();
                if let Ok(value) = self.host.watch(shard, &key)
                    && values.send(value).is_ok()
                {
                    self.watches.entry(key).or_default().push(values);
                }
            }
            _ => {}
        }
    }

    fn maintain(&mut self) {
        if let Some(every) = self.shared.flush_every
            && self.now.duration_since(self.flushed) >= every
        {
            self.flushed = self.now;
            if let Err(error) = self.host.flush() {
                tracing::error!(%error, "counts could not be flushed");
            }
        }
        if self.now.duration_since(self.maintained) < MAINTAIN_EVERY {
            return;
        }
        self.maintained = self.now;
        let mut released = mem::take(&mut self.released);
        self.host.maintain(self.moment, &mut released);
        self.pass_on(&mut released);
        self.released = released;
        if self.now.duration_since(self.reported_at) >= REPORT_EVERY {
            self.reported_at = self.now;
            self.report();
        }
    }

    fn report(&mut self) {
        if let Some(error) = self.host.checkpoint_failure() {
            tracing::warn!(%error, "the table could not be brought up to date; the log keeps what it lacks");
        }
        let stats = self.host.stats();
        let refusing = self.host.refusing().map(str::to_owned);
        let differing = self.host.differing();
        for (of, at) in differing.difference(&self.differing) {
            tracing::error!(
                "site {at} has taken in changes of site {of} that do not go on from those that are known here: two copies of the \
                 folder of site {of} have run, and what they counted differs here and there until somebody corrects it"
            );
        }
        self.differing.clone_from(&differing);
        self.shared.note(self.index, Note { commands: self.commands, host: stats, refusing, differing });
        let (metrics, before) = (&self.metrics, mem::replace(&mut self.reported, stats));
        metrics.report(&mut self.tally);
        let gauge = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        metrics.counters_in_memory.set(gauge(stats.resident));
        metrics.memory_bytes.set(gauge(stats.resident_bytes));
        metrics.filter_bytes.set(gauge(stats.filter.bytes));
        metrics.filter_probability.set(stats.filter.error_estimate);
        metrics.handoffs.set(&stats.handoff);
        // A shard that was opened again counts from zero.
        let grown = |now: u64, before: u64| now.saturating_sub(before);
        metrics.sums.ids_seen.inc_by(grown(stats.operations.seen, before.operations.seen));
        metrics.sums.repeats_answered.inc_by(grown(stats.operations.repeats, before.operations.repeats));
        let (now, before_) = (stats.operations.false_positives, before.operations.false_positives);
        metrics.sums.filter_false_positives.inc_by(grown(now, before_));
        self.shared.metrics.checkpoint_rounds.inc_by(grown(stats.checkpoints, before.checkpoints));
    }

    /// Everything that was acknowledged is stored; what is left is to say so.
    fn stop(mut self) -> io::Result<()> {
        self.finish_batch();
        self.collect(true);
        self.gathering.end();
        self.take_deferred();
        self.commit();
        self.collect(true);
        let until = Instant::now() + LAST_ANSWERS;
        let unsent = |worker: &Self| {
            let mut connections = worker.connections.iter();
            connections.any(|connection| connection.state != State::Gone && !connection.out.is_empty())
        };
        while unsent(&self) && Instant::now() < until {
            for index in self.connections.indices() {
                self.send(index);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.release_all();
        self.host.flush().map_err(io::Error::other)
    }
}

fn note_cleared(clearing: &RefCell<Clearing>, answer: Answer) {
    let mut clearing = clearing.borrow_mut();
    match answer {
        Answer::Refused(Refusal::BoundedReset) => clearing.cleared.kept += 1,
        Answer::Refused(refusal) => clearing.failed = Some(refusal),
        _ => {}
    }
    clearing.missing -= 1;
    if clearing.missing == 0
        && let Some(answer) = clearing.answer.take()
    {
        let cleared = mem::take(&mut clearing.cleared);
        let _ = answer.send(clearing.failed.take().map_or(Ok(cleared), Err));
    }
}
