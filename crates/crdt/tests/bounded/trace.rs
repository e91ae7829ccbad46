//! Random traces over the worst network, and everything that must hold at each of their steps.

use super::candidate::Candidate;
use super::figure::Oracle;
use proptest::prelude::*;
use quipu_crdt::bounded::{Definition, Right};
use quipu_crdt::testing::{Adversary, Partition};
use std::collections::BTreeSet;

pub(crate) const CROSSED: &str = "the bound was crossed";
pub(crate) const CROSSED_IN_A_VIEW: &str = "the bound was crossed in the view of one replica";
pub(crate) const NOT_CONSERVED: &str = "rights held and rights under way are not the distance to the bound";
pub(crate) const WRONG_VALUE: &str = "when all was delivered, the value was not what had been counted";
pub(crate) const DECIDES_OTHERWISE: &str = "an operation was not decided as the figure decides it";
pub(crate) const OTHER_VIEW: &str = "the value or the rights that a replica sees are not the figure's";

/// How much to add, to subtract or to pass on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Amount {
    Exactly(u64),
    /// As much as the replica believes it may.
    All,
}

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Add {
        at: u8,
        amount: Amount,
    },
    Subtract {
        at: u8,
        amount: Amount,
    },
    Pass {
        at: u8,
        to: u8,
        right: Right,
        amount: Amount,
    },
    Send {
        from: u8,
        to: u8,
    },
    Deliver {
        messages: u8,
    },
    /// Bit i says on which side replica i is.
    Split {
        sides: u8,
    },
    Heal,
}

#[derive(Debug, Clone)]
pub(crate) struct Trace {
    pub(crate) definition: Definition<u8>,
    pub(crate) replicas: u8,
    pub(crate) seed: u64,
    pub(crate) steps: Vec<Step>,
}

fn definitions(replicas: u8) -> impl Strategy<Value = Definition<u8>> {
    // Often no rights at all in the beginning: then what is used was made on the way.
    let distance = || prop_oneof![0u8..2, 0u8..10];
    let bounds = (-5i64..5, distance(), distance(), 0u8..3, 0..replicas);
    let shares = proptest::option::of(proptest::collection::btree_map(0..replicas, 1u64..4, 1..4));
    (bounds, shares).prop_map(|((initial, below, above, kind, creator), shares)| {
        let (minimum, maximum) = (initial - i64::from(below), initial + i64::from(above));
        let definition = match kind {
            0 => Definition::at_least(minimum, initial, creator),
            1 => Definition::at_most(maximum, initial, creator),
            _ => Definition::between(minimum, maximum, initial, creator),
        };
        let definition = definition.expect("the initial value is within");
        match shares {
            Some(shares) => definition.spread(shares).expect("somebody has a share"),
            None => definition,
        }
    })
}

fn steps(replicas: u8) -> impl Strategy<Value = Step> {
    let node = move || 0..replicas;
    let amount = || {
        prop_oneof![
            1 => Just(Amount::Exactly(0)),
            6 => (1u64..4).prop_map(Amount::Exactly),
            1 => (1u64..10).prop_map(Amount::Exactly),
            4 => Just(Amount::All),
        ]
    };
    let right = || prop_oneof![Just(Right::ToSubtract), Just(Right::ToAdd)];
    prop_oneof![
        2 => (node(), amount()).prop_map(|(at, amount)| Step::Add { at, amount }),
        2 => (node(), amount()).prop_map(|(at, amount)| Step::Subtract { at, amount }),
        3 => (node(), node(), right(), amount())
            .prop_map(|(at, to, right, amount)| Step::Pass { at, to, right, amount }),
        5 => (node(), node()).prop_map(|(from, to)| Step::Send { from, to }),
        4 => (1u8..4).prop_map(|messages| Step::Deliver { messages }),
        1 => any::<u8>().prop_map(|sides| Step::Split { sides }),
        1 => Just(Step::Heal),
    ]
}

pub(crate) fn traces() -> impl Strategy<Value = Trace> {
    (3u8..6).prop_flat_map(|replicas| {
        let steps = proptest::collection::vec(steps(replicas), 0..120);
        (definitions(replicas), any::<u64>(), steps).prop_map(move |(definition, seed, steps)| Trace {
            definition,
            replicas,
            seed,
            steps,
        })
    })
}

/// One replica and the figure's, which get the same operations and the same messages.
#[derive(Debug, Clone)]
struct Pair<C> {
    replica: C,
    oracle: Oracle,
}

struct Run<'a, C> {
    trace: &'a Trace,
    pairs: Vec<Pair<C>>,
    network: Adversary<Pair<C>>,
    /// The specification: the initial value and all that was accepted.
    value: i128,
    broken: BTreeSet<&'static str>,
}

/// What breaks in this trace; nothing, of a right one.
pub(crate) fn broken<C: Candidate>(trace: &Trace) -> BTreeSet<&'static str> {
    let (broken, _) = run::<C>(trace);
    broken
}

/// What breaks, and the replicas after all messages were delivered.
pub(crate) fn run<C: Candidate>(trace: &Trace) -> (BTreeSet<&'static str>, Vec<C>) {
    let mut run = Run::new(trace);
    for step in &trace.steps {
        run.step(step);
        run.check();
    }
    run.flush();
    (run.broken, run.pairs.into_iter().map(|pair| pair.replica).collect())
}

/// Every state that a replica was in after a step, the first ones included.
pub(crate) fn history<C: Candidate>(trace: &Trace) -> Vec<C> {
    let mut run = Run::new(trace);
    let replicas =
        |run: &Run<'_, C>| -> Vec<C> { run.pairs.iter().map(|pair| pair.replica.clone()).collect() };
    let mut states = replicas(&run);
    for step in &trace.steps {
        run.step(step);
        states.extend(replicas(&run));
    }
    states
}

impl<'a, C: Candidate> Run<'a, C> {
    fn new(trace: &'a Trace) -> Self {
        let pair = |id: u8| Pair {
            replica: C::create(id, &trace.definition),
            oracle: Oracle::create(trace.replicas.into(), id.into(), &trace.definition),
        };
        Run {
            trace,
            pairs: (0..trace.replicas).map(pair).collect(),
            network: Adversary::new(trace.seed).drop(0.3).duplicate(0.4).replay(0.2, 50),
            value: trace.definition.initial().into(),
            broken: BTreeSet::new(),
        }
    }

    fn note(&mut self, what: &'static str, holds: bool) {
        if !holds {
            self.broken.insert(what);
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Add { at, amount } => {
                let amount = self.amount(at, Right::ToAdd, amount);
                let pair = &mut self.pairs[usize::from(at)];
                let decided = (pair.replica.add(amount), pair.oracle.add(amount));
                self.value += if decided.0 { i128::from(amount) } else { 0 };
                self.note(DECIDES_OTHERWISE, decided.0 == decided.1);
            }
            Step::Subtract { at, amount } => {
                let amount = self.amount(at, Right::ToSubtract, amount);
                let pair = &mut self.pairs[usize::from(at)];
                let decided = (pair.replica.subtract(amount), pair.oracle.subtract(amount));
                self.value -= if decided.0 { i128::from(amount) } else { 0 };
                self.note(DECIDES_OTHERWISE, decided.0 == decided.1);
            }
            Step::Pass { at, to, right, amount } => {
                if at == to || !self.trace.definition.limits(right) {
                    return;
                }
                let amount = self.amount(at, right, amount);
                let pair = &mut self.pairs[usize::from(at)];
                let replica = pair.replica.pass(right, amount, to);
                let oracle = pair.oracle.pass(right, amount, to.into());
                self.note(DECIDES_OTHERWISE, replica == oracle);
            }
            Step::Send { from, to } => {
                let message = self.message(from.into());
                self.network.send(from.into(), to.into(), message);
            }
            Step::Deliver { messages } => self.deliver(messages),
            Step::Split { sides } => self.network.split(two_sides(self.pairs.len(), sides)),
            Step::Heal => self.network.split(Partition::none()),
        }
    }

    fn amount(&self, at: u8, right: Right, amount: Amount) -> u64 {
        match (amount, self.pairs[usize::from(at)].replica.rights(right, at)) {
            (Amount::Exactly(amount), _) => amount,
            (Amount::All, Some(rights)) => u64::try_from(rights).unwrap_or(0),
            (Amount::All, None) => 1,
        }
    }

    fn message(&mut self, from: usize) -> Pair<C> {
        let pair = &mut self.pairs[from];
        Pair { replica: pair.replica.message(), oracle: pair.oracle.clone() }
    }

    fn receive(&mut self, to: usize, message: &Pair<C>) {
        self.pairs[to].replica.receive(&message.replica);
        self.pairs[to].oracle.merge(&message.oracle);
    }

    fn deliver(&mut self, messages: u8) {
        for _ in 0..messages {
            let Some((_, to, message)) = self.network.deliver() else { return };
            self.receive(to, &message);
            self.check();
        }
    }

    fn check(&mut self) {
        let definition = &self.trace.definition;
        let replicas: Vec<&C> = self.pairs.iter().map(|pair| &pair.replica).collect();
        let within = |value| {
            let distances = Right::BOTH.map(|right| definition.rights_in_all(right, value));
            distances.into_iter().flatten().all(|distance| distance >= 0)
        };
        let views_within = replicas.iter().all(|replica| within(replica.value()));
        let conserved = Right::BOTH.iter().all(|&right| {
            let held: Option<i128> =
                (0..).zip(&replicas).map(|(id, replica)| replica.rights(right, id)).sum();
            held.map(|held| held + C::under_way(&replicas, right))
                == definition.rights_in_all(right, self.value)
        });
        self.note(CROSSED, within(self.value));
        self.note(CROSSED_IN_A_VIEW, views_within);
        self.note(NOT_CONSERVED, conserved);
        let same_view = self.pairs.iter().all(|pair| self.same_view(pair));
        self.note(OTHER_VIEW, same_view);
    }

    /// Every number that a replica can give, of itself and of others.
    fn same_view(&self, pair: &Pair<C>) -> bool {
        let same_rights =
            |id: u8, right| pair.replica.rights(right, id) == pair.oracle.rights(right, id.into());
        let mut holders = 0..self.trace.replicas;
        pair.replica.value() == pair.oracle.value()
            && holders.all(|id| Right::BOTH.iter().all(|&right| same_rights(id, right)))
    }

    /// Everybody hears everybody, twice: the second time also what was received in the first.
    fn flush(&mut self) {
        for _ in 0..2 {
            for from in 0..self.pairs.len() {
                for to in (0..self.pairs.len()).filter(|to| *to != from) {
                    let message = self.message(from);
                    self.receive(to, &message);
                    self.check();
                }
            }
        }
        let agreed = self.pairs.iter().all(|pair| pair.replica.value() == self.value);
        self.note(WRONG_VALUE, agreed);
    }
}

fn two_sides(nodes: usize, sides: u8) -> Partition {
    let (one, other): (Vec<usize>, Vec<usize>) = (0..nodes).partition(|node| sides >> node & 1 == 0);
    Partition::of(nodes, &[&one, &other])
}
