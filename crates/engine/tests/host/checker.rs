//! Clients that add, retry what was not answered, and read; and what must hold of all that they are told.
//!
//! Amounts are positive. So of every counter the value is at least what was acknowledged, at most what was issued, and
//! nobody is shown less than anybody was shown before.

use std::collections::BTreeMap;

use quipu_engine::{Action, Add, OperationId, Refusal, Released, Reply, Ticket};

use crate::world::World;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Not acknowledged. It may have been counted.
    Open,
    /// Acknowledged, and lost if the process dies before it has flushed.
    Unflushed,
    Acknowledged,
}

#[derive(Debug, Clone, Copy)]
struct Issued {
    amount: i64,
    standing: Standing,
}

#[derive(Debug, Clone, Copy)]
struct Asked {
    key: usize,
    /// The number of what was issued; `None`: a read.
    issued: Option<usize>,
}

/// One counter as its clients see it.
#[derive(Debug, Default)]
struct Counter {
    issued: BTreeMap<usize, Issued>,
    shown: i64,
    shown_flushed: i64,
}

impl Counter {
    fn sum(&self, which: impl Fn(Standing) -> bool) -> i64 {
        self.issued.values().filter(|issued| which(issued.standing)).map(|issued| issued.amount).sum()
    }

    /// The least that the value can be.
    fn acknowledged(&self) -> i64 {
        self.sum(|standing| standing != Standing::Open)
    }

    fn show(&mut self, value: i64) -> Result<(), String> {
        let (least, most) = (self.acknowledged().max(self.shown), self.sum(|_| true));
        if !(least..=most).contains(&value) {
            return Err(format!("{value} is shown, and it lies between {least} and {most}"));
        }
        self.shown = value;
        Ok(())
    }
}

/// What clients know.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    counters: Vec<Counter>,
    waiting: BTreeMap<Ticket, Asked>,
    next: usize,
    /// Commits are not flushed by themselves.
    pub(crate) flushes_later: bool,
}

pub(crate) fn key(at: usize) -> Vec<u8> {
    format!("counter:{at}").into_bytes()
}

/// Whether the operations of this number have an id. Those without are not retried.
fn has_id(issued: usize) -> bool {
    !issued.is_multiple_of(4)
}

impl Checker {
    pub(crate) fn new(keys: usize, flushes_later: bool) -> Self {
        Self { counters: (0..keys).map(|_| Counter::default()).collect(), flushes_later, ..Self::default() }
    }

    pub(crate) fn read(&mut self, world: &mut World, at: usize) {
        let ticket = world.send(&key(at), Action::Get);
        self.waiting.insert(ticket, Asked { key: at, issued: None });
    }

    pub(crate) fn add(&mut self, world: &mut World, at: usize, amount: i64) {
        self.next += 1;
        self.counters[at].issued.insert(self.next, Issued { amount, standing: Standing::Open });
        self.send(world, at, self.next, amount);
    }

    fn send(&mut self, world: &mut World, at: usize, number: usize, amount: i64) {
        let id = number.to_be_bytes();
        let operation = has_id(number).then_some(OperationId { producer: b"p", id: &id });
        let ticket = world.send(&key(at), Action::Add { add: Add::of(amount), operation });
        self.waiting.insert(ticket, Asked { key: at, issued: Some(number) });
    }

    /// Sends again what has an id and no acknowledgement, and is not under way.
    pub(crate) fn retry(&mut self, world: &mut World) {
        let under_way: Vec<_> = self.waiting.values().filter_map(|asked| asked.issued).collect();
        for at in 0..self.counters.len() {
            let open = self.counters[at].issued.iter().filter(|(number, issued)| {
                issued.standing == Standing::Open && has_id(**number) && !under_way.contains(number)
            });
            for (number, amount) in open.map(|(number, issued)| (*number, issued.amount)).collect::<Vec<_>>()
            {
                self.send(world, at, number, amount);
            }
        }
    }

    /// The process has died: what it was asked and has not answered, it never will.
    pub(crate) fn died(&mut self) {
        self.waiting.clear();
        for counter in &mut self.counters {
            counter.shown = if self.flushes_later { counter.shown_flushed } else { counter.shown };
            for issued in counter.issued.values_mut().filter(|one| one.standing == Standing::Unflushed) {
                issued.standing = Standing::Open;
            }
        }
    }

    /// All that was acknowledged is on the device.
    pub(crate) fn flushed(&mut self) {
        for counter in &mut self.counters {
            counter.shown_flushed = counter.shown;
            for issued in counter.issued.values_mut().filter(|one| one.standing == Standing::Unflushed) {
                issued.standing = Standing::Acknowledged;
            }
        }
    }

    /// Clients hear what was released.
    pub(crate) fn hear(&mut self, released: Released, watched: usize) -> Result<(), String> {
        let is_told = !released.events.is_empty();
        for (ticket, reply) in released.replies {
            let Some(Asked { key, issued }) = self.waiting.remove(&ticket) else {
                return Err(format!("{reply:?} to nobody"));
            };
            let is_count = matches!(&reply, Reply::Added(added) if !added.repeated);
            if key == watched && is_count && !is_told {
                return Err(format!("counter {key} has changed, and nobody is told"));
            }
            self.hear_reply(key, issued, &reply).map_err(|wrong| format!("counter {key}: {wrong}"))?;
        }
        for event in released.events {
            let value = event.value.ok_or("a counter that was never deleted is gone")?;
            self.counters[watched].show(value).map_err(|wrong| format!("an event: {wrong}"))?;
        }
        Ok(())
    }

    fn hear_reply(&mut self, key: usize, number: Option<usize>, reply: &Reply) -> Result<(), String> {
        let counter = &mut self.counters[key];
        match (number, reply) {
            (None, Reply::Value(value)) => counter.show(value.unwrap_or(0)),
            (Some(number), Reply::Added(added)) => {
                let issued = counter.issued.get_mut(&number).ok_or("an answer to nothing")?;
                if added.applied != issued.amount {
                    return Err(format!("{} was counted instead of {}", added.applied, issued.amount));
                }
                let flushed = if self.flushes_later { Standing::Unflushed } else { Standing::Acknowledged };
                issued.standing = flushed;
                // A repeat is told the value of then.
                if added.repeated { Ok(()) } else { counter.show(added.value) }
            }
            (None, Reply::Refused(Refusal::NotStored(_) | Refusal::InDoubt(_) | Refusal::NotHere)) => Ok(()),
            (Some(number), Reply::Refused(Refusal::NotStored(_) | Refusal::NotHere)) => {
                if !has_id(number) {
                    // It says that it was not counted, and that must be true.
                    counter.issued.remove(&number);
                }
                Ok(())
            }
            (Some(_), Reply::Refused(Refusal::InDoubt(_))) => Ok(()),
            _ => Err(format!("{reply:?} is no answer to this")),
        }
    }

    /// When all is well again and every retry was answered, the value is what was issued.
    pub(crate) fn check_end(&mut self, world: &mut World) -> Result<(), String> {
        for (at, counter) in self.counters.iter_mut().enumerate() {
            if counter.issued.iter().any(|(n, issued)| has_id(*n) && issued.standing == Standing::Open) {
                return Err(format!("counter {at}: a retry was not acknowledged"));
            }
            let value = world.value(&key(at)).unwrap_or(0);
            counter.show(value).map_err(|wrong| format!("counter {at}, in the end: {wrong}"))?;
            // What has no id is not sent again, so it may stay in doubt.
            let in_doubt = counter.issued.values().any(|issued| issued.standing == Standing::Open);
            let sum = counter.sum(|_| true);
            if !in_doubt && value != sum {
                return Err(format!("counter {at} ends with {value} instead of {sum}"));
            }
        }
        let listed = world.list(b"counter:", 3);
        if listed.len() as u64 != world.host.live() {
            return Err(format!("{} counters are listed, {} exist", listed.len(), world.host.live()));
        }
        for (name, value) in listed {
            if world.value(&name) != Some(value) {
                return Err(format!("{} is listed with {value}", name.escape_ascii()));
            }
        }
        Ok(())
    }
}
