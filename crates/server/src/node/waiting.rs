//! Answers that a connection waits for, in the order of its commands.

use std::{collections::VecDeque, vec};

use quipu_engine::{Reply as Answer, Ticket};
use tokio::sync::oneshot;

use super::answer::{Form, Heard, write_answer};
use crate::{
    metrics::CommandName,
    resp::{Protocol, Queued, Reply},
};

/// Says who waits for an answer: a command of a connection and a part of it, or somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Address {
    Connection { index: usize, sequence: u32, part: usize },
    Guest { index: usize },
}

const GUEST: u64 = 1 << 63;
/// What the command was, for the statistics.
const NAME_AT: u32 = 60;
const NAME_BITS: u32 = 3;
const INDEX_MASK: u64 = (1 << 20) - 1;
const PART_BITS: u32 = 16;
const SEQUENCE_BITS: u32 = 24;
const SEQUENCE_MASK: u32 = (1 << SEQUENCE_BITS) - 1;

impl Address {
    pub(super) fn ticket(self) -> Ticket {
        match self {
            Self::Connection { index, sequence, part } => Ticket(
                (index as u64) << (PART_BITS + SEQUENCE_BITS)
                    | u64::from(sequence & SEQUENCE_MASK) << PART_BITS
                    | part as u64,
            ),
            Self::Guest { index } => Ticket(GUEST | index as u64),
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "the fields were packed from these very types")]
    pub(super) fn of(Ticket(ticket): Ticket) -> Self {
        if ticket & GUEST != 0 {
            return Self::Guest { index: (ticket & ((1 << NAME_AT) - 1)) as usize };
        }
        Self::Connection {
            index: (ticket >> (PART_BITS + SEQUENCE_BITS) & INDEX_MASK) as usize,
            sequence: (ticket >> PART_BITS) as u32 & SEQUENCE_MASK,
            part: (ticket & ((1 << PART_BITS) - 1)) as usize,
        }
    }
}

/// The ticket of a command of this name.
pub(super) fn named(Ticket(ticket): Ticket, name: CommandName) -> Ticket {
    Ticket(ticket & !(((1 << NAME_BITS) - 1) << NAME_AT) | (name as u64) << NAME_AT)
}

/// The name of the command that a ticket stands for.
pub(super) fn name_of(Ticket(ticket): Ticket) -> CommandName {
    let name = (ticket >> NAME_AT) & ((1 << NAME_BITS) - 1);
    usize::try_from(name)
        .ok()
        .and_then(|name| CommandName::ALL.get(name).copied())
        .unwrap_or(CommandName::Get)
}

/// A part of an answer.
#[derive(Debug)]
pub(super) enum Part {
    Missing,
    Answer(Answer),
    Bytes(Vec<u8>),
}

/// What a command, or one command of a transaction, looks like when all its parts are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) form: Form,
    pub(super) parts: usize,
}

#[derive(Debug)]
enum Waiting {
    /// Came to be while earlier commands were waiting.
    Ready(Vec<u8>),
    One {
        form: Form,
        protocol: Protocol,
        part: Part,
    },
    Many {
        shapes: Vec<Shape>,
        is_transaction: bool,
        protocol: Protocol,
        parts: Vec<Part>,
        missing: usize,
    },
}

impl Waiting {
    fn is_complete(&self) -> bool {
        match self {
            Self::Ready(_) => true,
            Self::One { part, .. } => !matches!(part, Part::Missing),
            Self::Many { missing, .. } => *missing == 0,
        }
    }

    fn write(self, out: &mut Vec<u8>, heard: Heard<'_>) {
        match self {
            Self::Ready(bytes) => out.extend_from_slice(&bytes),
            Self::One { form, protocol, part } => write_part(form, &[part], protocol, out, heard),
            Self::Many { shapes, is_transaction, protocol, parts, .. } => {
                if is_transaction {
                    Reply::new(out, protocol).array(shapes.len());
                }
                let mut rest = &parts[..];
                for shape in shapes {
                    let (mine, others) = rest.split_at(shape.parts);
                    write_part(shape.form, mine, protocol, out, heard);
                    rest = others;
                }
            }
        }
    }
}

fn write_part(form: Form, parts: &[Part], protocol: Protocol, out: &mut Vec<u8>, heard: Heard<'_>) {
    if let [Part::Bytes(bytes)] = parts {
        return out.extend_from_slice(bytes);
    }
    let answers = parts.iter().filter_map(|part| match part {
        Part::Answer(answer) => Some(answer),
        Part::Missing | Part::Bytes(_) => None,
    });
    write_answer(form, answers, protocol, out, heard);
}

/// The answers that one connection waits for.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    /// The number of the first.
    first: u32,
    /// A job over all shards is under way: what was asked after it has to wait, or would be seen by it.
    has_job: bool,
    /// This command may wait for other sites: what was asked after it has to wait too, or would be done before it.
    held_by: Option<u32>,
    /// Dropped, it ends a `WAIT`.
    patience: Option<oneshot::Sender<()>>,
    /// The rest of the transaction that the job is in.
    rest: Option<Rest>,
}

/// What is still to be done of a transaction.
#[derive(Debug)]
pub(super) struct Rest {
    pub(super) requests: vec::IntoIter<Queued>,
    pub(super) sequence: u32,
    /// The part where the next answer goes.
    pub(super) part: usize,
    pub(super) protocol: Protocol,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn has_job(&self) -> bool {
        self.has_job
    }

    /// May nothing else of the client be done now?
    pub(super) fn is_held_up(&self) -> bool {
        self.has_job || self.held_by.is_some()
    }

    /// Commands wait until this one is answered.
    pub(super) fn hold_for(&mut self, sequence: u32) {
        self.held_by = Some(sequence);
    }

    /// A `WAIT` begins. It ends when the other end of this learns that nobody waits for it any more.
    pub(super) fn begin_wait(&mut self) -> oneshot::Receiver<()> {
        let (patience, gone) = oneshot::channel();
        self.patience = Some(patience);
        gone
    }

    /// The client has gone: it waits for nothing.
    pub(super) fn end_wait(&mut self) {
        self.patience = None;
    }

    /// From now on commands wait.
    pub(super) fn begin_job(&mut self) {
        self.has_job = true;
    }

    /// The rest of a transaction waits for the job in it.
    pub(super) fn keep(&mut self, rest: Rest) {
        self.rest = Some(rest);
    }

    /// The job is done. Returns what it has held up.
    pub(super) fn end_job(&mut self) -> Option<Rest> {
        self.has_job = false;
        self.patience = None;
        self.rest.take()
    }

    fn push(&mut self, waiting: Waiting) -> u32 {
        let sequence = self.first.wrapping_add(u32::try_from(self.waiting.len()).unwrap_or(u32::MAX));
        self.waiting.push_back(waiting);
        sequence & SEQUENCE_MASK
    }

    /// Waits for one answer. Returns the command's number.
    pub(super) fn expect_one(&mut self, form: Form, protocol: Protocol) -> u32 {
        self.push(Waiting::One { form, protocol, part: Part::Missing })
    }

    /// Waits for several.
    pub(super) fn expect_many(
        &mut self,
        shapes: Vec<Shape>,
        is_transaction: bool,
        protocol: Protocol,
    ) -> u32 {
        let missing = shapes.iter().map(|shape| shape.parts).sum();
        let parts = std::iter::repeat_with(|| Part::Missing).take(missing).collect();
        self.push(Waiting::Many { shapes, is_transaction, protocol, parts, missing })
    }

    /// An answer that is there, behind those that are not.
    pub(super) fn push_ready(&mut self, bytes: Vec<u8>) {
        self.push(Waiting::Ready(bytes));
    }

    /// Is all answered that was asked before this part of a command?
    pub(super) fn is_answered_before(&self, sequence: u32, at: usize) -> bool {
        let index = (sequence.wrapping_sub(self.first) & SEQUENCE_MASK) as usize;
        let parts_before = match self.waiting.get(index) {
            Some(Waiting::Many { parts, .. }) => &parts[..at.min(parts.len())],
            _ => &[],
        };
        self.waiting.iter().take(index).all(Waiting::is_complete)
            && !parts_before.iter().any(|part| matches!(part, Part::Missing))
    }

    /// An answer has come.
    pub(super) fn deliver(&mut self, sequence: u32, at: usize, answer: Part) {
        let index = sequence.wrapping_sub(self.first) & SEQUENCE_MASK;
        match self.waiting.get_mut(index as usize) {
            Some(Waiting::One { part, .. }) => *part = answer,
            Some(Waiting::Many { parts, missing, .. }) => {
                if let Some(part @ Part::Missing) = parts.get_mut(at) {
                    *part = answer;
                    *missing -= 1;
                }
            }
            Some(Waiting::Ready(_)) | None => {}
        }
        if self.held_by == Some(sequence) {
            self.held_by = None;
        }
    }

    /// Writes what is complete, up to the first that is not.
    pub(super) fn write_ready(&mut self, out: &mut Vec<u8>, heard: Heard<'_>) {
        while self.waiting.front().is_some_and(Waiting::is_complete) {
            if let Some(waiting) = self.waiting.pop_front() {
                self.first = self.first.wrapping_add(1);
                waiting.write(out, heard);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_their_ticket() {
        for address in [
            Address::Connection { index: 0, sequence: 0, part: 0 },
            Address::Connection { index: 999_999, sequence: SEQUENCE_MASK, part: 65_535 },
            Address::Guest { index: 123_456 },
        ] {
            assert_eq!(Address::of(address.ticket()), address);
            for name in CommandName::ALL {
                let ticket = named(named(address.ticket(), CommandName::Outcome), name);
                assert_eq!((Address::of(ticket), name_of(ticket)), (address, name));
            }
        }
    }

    #[test]
    fn a_job_knows_what_was_asked_before_it() {
        let mut queue = Queue { first: u32::MAX, ..Queue::default() };
        let one = Shape { form: Form::Get, parts: 1 };
        let first = queue.expect_one(Form::Get, Protocol::Resp2);
        let second = queue.expect_many(vec![one, one, one], true, Protocol::Resp2);
        assert!(queue.is_answered_before(first, 0));
        assert!(!queue.is_answered_before(second, 0));
        queue.deliver(first, 0, Part::Bytes(Vec::new()));
        assert!(queue.is_answered_before(second, 0));
        queue.write_ready(&mut Vec::new(), &|_| None);
        assert!(queue.is_answered_before(second, 0) && !queue.is_answered_before(second, 1));
        queue.deliver(second, 0, Part::Bytes(Vec::new()));
        assert!(queue.is_answered_before(second, 1) && !queue.is_answered_before(second, 2));
    }

    #[test]
    fn answers_leave_in_the_order_of_the_commands() {
        let mut queue = Queue { first: u32::MAX - 1, ..Queue::default() };
        let mut out = Vec::new();
        let first = queue.expect_one(Form::Get, Protocol::Resp2);
        queue.push_ready(b"+PONG\r\n".to_vec());
        let third = queue.expect_many(vec![Shape { form: Form::GetAll, parts: 2 }], false, Protocol::Resp2);
        queue.deliver(third, 1, Part::Answer(Answer::Value(Some(2))));
        queue.write_ready(&mut out, &|_| None);
        assert_eq!(out, b"");
        queue.deliver(first, 0, Part::Answer(Answer::Value(Some(7))));
        queue.write_ready(&mut out, &|_| None);
        assert_eq!(out, b"$1\r\n7\r\n+PONG\r\n");
        queue.deliver(third, 0, Part::Answer(Answer::Value(None)));
        queue.write_ready(&mut out, &|_| None);
        assert_eq!(out, b"$1\r\n7\r\n+PONG\r\n*2\r\n$-1\r\n$1\r\n2\r\n");
        assert!(queue.is_empty());
    }

    #[test]
    fn what_may_wait_holds_up_the_rest_until_its_answer_has_come() {
        let mut queue = Queue::default();
        let first = queue.expect_one(Form::Get, Protocol::Resp2);
        let second = queue.expect_one(Form::Add, Protocol::Resp2);
        queue.hold_for(second);
        queue.deliver(first, 0, Part::Answer(Answer::Value(Some(7))));
        assert!(queue.is_held_up(), "that was the answer to another one");
        let mut out = Vec::new();
        queue.write_ready(&mut out, &|_| None);
        assert_eq!(out, b"$1\r\n7\r\n");
        queue.deliver(second, 0, Part::Answer(Answer::Value(None)));
        assert!(!queue.is_held_up());
    }

    #[test]
    fn a_wait_learns_that_its_client_has_gone() {
        let mut queue = Queue::default();
        let mut gone = queue.begin_wait();
        assert_eq!(gone.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        queue.end_wait();
        assert_eq!(gone.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    }
}
