//! A client: one operation after the other, each begun so long after the answer to the one before.

use super::Configuration;
use super::books::MINIMUM;
use super::setup::{ADD_PERCENT, Setup, Workload};
use quipu_crdt::testing::Random;

/// What is asked of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    /// The value.
    Read,
    /// The value, and by which change it came to be.
    ReadVersion,
    /// Count.
    Add { amount: i64 },
    /// Count if the counter has not changed since this change.
    AddIf { amount: i64, version: u64 },
    /// Make a bounded counter with this value.
    Create { initial: i64 },
}

/// What a server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Value {
        value: i64,
        version: u64,
    },
    /// It was counted; `waited`: after rights of other sites had come.
    Counted {
        waited: bool,
    },
    /// It was not: there are no units left, or none that could be had in time.
    Refused {
        waited: bool,
    },
    /// Somebody else has written.
    Conflict,
    Created,
}

/// What a client does after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// It asks again.
    Ask(Request),
    /// The operation is over.
    Over { counted: bool, waited: bool },
}

/// One operation of a client is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    /// When the answer came.
    pub(super) at_us: u64,
    /// The client's site.
    pub(super) site: usize,
    pub(super) latency_us: u64,
    pub(super) counted: bool,
    /// It waited for rights of other sites.
    pub(super) waited: bool,
}

#[derive(Debug)]
pub(super) struct Client {
    pub(super) site: usize,
    /// The counter of the operation under way.
    pub(super) counter: usize,
    pub(super) begun_us: u64,
    amount: i64,
    random: Random,
}

impl Client {
    pub(super) fn new(number: usize, site: usize, seed: u64) -> Self {
        let random = Random::stream(seed, &format!("client {number}"));
        Client { site, counter: 0, begun_us: 0, amount: 0, random }
    }

    /// A time below this.
    pub(super) fn draw_us(&mut self, below_us: u64) -> u64 {
        self.random.bits() % below_us
    }

    /// Begins an operation.
    pub(super) fn begin(&mut self, setup: &Setup, now_us: u64) -> Request {
        self.begun_us = now_us;
        self.counter = self.random.below(setup.counters);
        let adds = setup.workload == Workload::Mixed && self.random.below(100) < ADD_PERCENT;
        self.amount = if adds { 1 } else { -1 };
        match setup.configuration {
            Configuration::Weak if adds => Request::Add { amount: self.amount },
            Configuration::Weak => Request::Read,
            Configuration::Strong => Request::ReadVersion,
            Configuration::Ours | Configuration::Unbatched => Request::Add { amount: self.amount },
        }
    }

    /// Goes on after an answer.
    pub(super) fn hear(&self, configuration: Configuration, answer: Answer) -> Next {
        let amount = self.amount;
        match answer {
            Answer::Value { value, .. } if amount < 0 && value <= MINIMUM => {
                Next::Over { counted: false, waited: false }
            }
            Answer::Value { version, .. } if configuration == Configuration::Strong => {
                Next::Ask(Request::AddIf { amount, version })
            }
            Answer::Value { .. } => Next::Ask(Request::Add { amount }),
            Answer::Conflict => Next::Ask(Request::ReadVersion),
            Answer::Counted { waited } => Next::Over { counted: true, waited },
            Answer::Refused { waited } => Next::Over { counted: false, waited },
            Answer::Created => Next::Over { counted: false, waited: false },
        }
    }
}
