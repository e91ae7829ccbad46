//! `Handoff<_, u64>` under the paper's rules against the authors' crate `handoff_counter`, state by state.
//!
//! The whole comparison, ten million steps in each setting:
//! `QUIPU_STEPS=10000000 cargo test --release -p quipu-crdt --test handoff_reference -- --nocapture`
#![allow(clippy::disallowed_methods, reason = "a test may read how long it shall run")]

use handoff_counter::Counter;
use quipu_crdt::handoff::{Handoff, Rules, View};
use quipu_crdt::testing::Random;

type Ours = Handoff<u32, u64>;
type Theirs = Counter<u32>;

/// Messages that may be delivered again.
const HISTORY_MESSAGES: usize = 512;

fn steps() -> u64 {
    std::env::var("QUIPU_STEPS").map_or(100_000, |steps| steps.parse().expect("QUIPU_STEPS is a number"))
}

struct Pair {
    ours: Ours,
    theirs: Theirs,
}

#[derive(Clone)]
struct Message {
    to: usize,
    ours: View<u32, u64>,
    theirs: Theirs,
}

/// Source and target, then the two clocks and the value, as the crate has them.
type Token = ((u32, u32), (u64, u64, u64));

/// What is the same in both, as one value.
#[derive(Debug, PartialEq)]
struct State {
    own: u64,
    others: Vec<(u32, u64)>,
    slots: Vec<(u32, (u64, u64))>,
    tokens: Vec<Token>,
    source_clock: u64,
    target_clock: u64,
    /// Left out where replicas of the same higher tier meet: there the crate over-counts.
    reported: Option<(u64, u64)>,
}

fn state_of_ours(replica: &Ours, reported: bool) -> State {
    let handshake = replica.handshake();
    let mut tokens: Vec<_> = handshake
        .tokens()
        .iter()
        .chain(handshake.cached())
        .map(|token| {
            let clocks = (token.slot.source_clock, token.slot.target_clock);
            ((token.source, token.target), (clocks.0, clocks.1, token.value))
        })
        .collect();
    tokens.sort_unstable();
    State {
        own: *replica.own(),
        others: replica.others().map(|(&id, &value)| (id, value)).collect(),
        slots: handshake
            .desk()
            .slots()
            .iter()
            .map(|(&id, slot)| (id, (slot.source_clock, slot.target_clock)))
            .collect(),
        tokens,
        source_clock: handshake.source_clock(),
        target_clock: handshake.desk().target_clock(),
        reported: reported.then(|| (*replica.fetch(), *replica.below())),
    }
}

/// Some of its fields show only through `Debug`.
fn state_of_theirs(counter: &Theirs, text: &mut String, reported: bool) -> State {
    use std::fmt::Write;
    text.clear();
    write!(text, "{counter:?}").expect("writing to memory does not fail");
    let field = |name: &str| -> u64 {
        let start = text.find(name).expect("the field is there") + name.len();
        let digits = text[start..].bytes().take_while(u8::is_ascii_digit).count();
        text[start..start + digits].parse().expect("a number")
    };
    let id = counter.id();
    let sorted = |mut list: Vec<(u32, u64)>| {
        list.sort_unstable();
        list
    };
    let mut slots: Vec<_> = counter.slots().iter().map(|(&id, &slot)| (id, slot)).collect();
    slots.sort_unstable();
    let mut tokens: Vec<_> = counter.tokens().iter().map(|(&name, &token)| (name, token)).collect();
    tokens.sort_unstable();
    State {
        own: counter.vals()[&id],
        others: sorted(counter.vals().iter().filter(|&(&k, _)| k != id).map(|(&k, &v)| (k, v)).collect()),
        slots,
        tokens,
        source_clock: field(" sck: "),
        target_clock: field(" dck: "),
        reported: reported.then(|| (counter.value(), field(" below: "))),
    }
}

/// Which replicas exchange views.
#[derive(Clone, Copy, PartialEq)]
enum Links {
    /// Neighbouring tiers, and roots among each other.
    Vertical,
    /// Servers among each other too, and clients with roots.
    All,
}

fn compare(shape: [u32; 3], links: Links, seed: u64, steps: u64) {
    let mut random = Random::new(seed);
    let mut nodes: Vec<Pair> = Vec::new();
    for (tier, count) in (0u8..).zip(shape) {
        for _ in 0..count {
            let id = u32::try_from(nodes.len()).expect("few");
            let ours = Handoff::with_rules(id, tier, Rules::Paper);
            nodes.push(Pair { ours, theirs: Counter::new(id, tier.into()) });
        }
    }
    let mut history: Vec<Message> = Vec::new();
    let mut text = String::new();
    for step in 0..steps {
        let node = random.below(nodes.len());
        let changed = match random.below(10) {
            0..2 => {
                nodes[node].ours.add(&1).expect("small numbers");
                nodes[node].theirs.incr();
                node
            }
            2..5 => {
                let to = random.below(nodes.len());
                if let Some(message) = message(&nodes, node, to, links, &mut random) {
                    if history.len() < HISTORY_MESSAGES {
                        history.push(message);
                    } else {
                        let forgotten = random.below(HISTORY_MESSAGES);
                        history[forgotten] = message;
                    }
                }
                continue;
            }
            _ if history.is_empty() => continue,
            _ => {
                let Message { to, ours, theirs } = random.pick(&history).clone();
                nodes[to].ours.merge(&ours).expect("no twins here");
                nodes[to].theirs.merge(&theirs);
                to
            }
        };
        let reported = links == Links::Vertical;
        let Pair { ours, theirs } = &nodes[changed];
        let (ours, theirs) = (state_of_ours(ours, reported), state_of_theirs(theirs, &mut text, reported));
        assert_eq!(ours, theirs, "seed {seed}, step {step}, shape {shape:?}");
    }
}

/// The same message in both forms: a view, a cleaning view, or the whole state as a same-tier view.
fn message(nodes: &[Pair], from: usize, to: usize, links: Links, random: &mut Random) -> Option<Message> {
    let (sender, receiver) = (&nodes[from], &nodes[to]);
    let (id, tier) = (*receiver.ours.id(), receiver.ours.tier());
    let (lower, higher) = (tier.min(sender.ours.tier()), tier.max(sender.ours.tier()));
    let linked = match links {
        Links::Vertical => higher - lower == 1 || higher == 0,
        Links::All => lower < 2,
    };
    if from == to || !linked {
        return None;
    }
    let theirs = sender.theirs.view(id, tier.into());
    Some(if sender.ours.tier() > tier && random.chance(0.1) {
        Message { to, ours: sender.ours.cleaning_view(&id, tier), theirs: theirs.cleaning_view() }
    } else {
        Message { to, ours: sender.ours.view_for(&id, tier), theirs }
    })
}

const SHAPES: [[u32; 3]; 4] = [[3, 6, 12], [1, 2, 2], [2, 1, 8], [4, 10, 3]];

#[test]
fn every_state_agrees_between_tiers() {
    for (seed, shape) in (1..).zip(SHAPES) {
        compare(shape, Links::Vertical, seed, steps());
    }
}

#[test]
fn every_state_but_the_reported_value_agrees_when_servers_meet_too() {
    for (seed, shape) in (1..).zip(SHAPES) {
        compare(shape, Links::All, seed, steps());
    }
}

/// A relay's old message reaches another relay after what it speaks of has been handed over and been heard
/// of from below. Only 5 were counted.
#[test]
fn the_crate_over_counts_between_servers_and_we_do_not() {
    let (site, relay, other) = (0, 1, 2);

    let (mut a, mut r, mut s) = (Theirs::new(site, 0), Theirs::new(relay, 1), Theirs::new(other, 1));
    (0..5).for_each(|_| r.incr());
    let delayed = r.view(other, 1);
    for _ in 0..2 {
        a.merge(&r.view(site, 0));
        r.merge(&a.view(relay, 1));
    }
    s.merge(&a.view(other, 1));
    s.merge(&delayed);
    assert_eq!((a.value(), s.value()), (5, 10), "the crate reports twice what was counted");

    let (mut a, mut r, mut s) = (Ours::new(site, 0), Ours::new(relay, 1), Ours::new(other, 1));
    r.add(&5).expect("a small number");
    let delayed = r.view_for(&other, 1);
    for _ in 0..2 {
        a.merge(&r.view_for(&site, 0)).expect("no twin");
        r.merge(&a.view_for(&relay, 1)).expect("no twin");
    }
    s.merge(&a.view_for(&other, 1)).expect("no twin");
    s.merge(&delayed).expect("no twin");
    assert_eq!((*a.fetch(), *s.fetch()), (5, 5));
}
