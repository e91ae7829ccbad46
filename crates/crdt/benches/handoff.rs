//! The same random trace through `Handoff` and through the authors' crate `handoff_counter` 0.8.5, in turns;
//! and the memory of clients that have handed everything over.
//!
//! `cargo bench -p quipu-crdt --bench handoff`
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "measures with a clock")]

use handoff_counter::Counter;
use quipu_crdt::handoff::{Handoff, Rules, View};
use quipu_crdt::testing::Random;
use std::hint::black_box;
use std::time::{Duration, Instant};

const STEPS: usize = 1_000_000;
const TURNS: usize = 11;
const HISTORY_MESSAGES: usize = 256;
const IDLE_CLIENTS: u64 = 1_000_000;

/// 3 roots, 6 servers, 12 clients.
const TIERS: [u8; 21] = [0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2];

/// A trace is fixed before anything is measured: nothing else is in the loop.
#[derive(Clone, Copy)]
enum Step {
    Add { node: usize },
    Send { from: usize, to: usize, place: usize },
    Deliver { place: usize },
}

fn trace(seed: u64) -> Vec<Step> {
    let mut random = Random::new(seed);
    let mut sent: Vec<usize> = Vec::new();
    let mut steps = Vec::with_capacity(STEPS);
    while steps.len() < STEPS {
        let (node, to) = (random.below(TIERS.len()), random.below(TIERS.len()));
        match random.below(10) {
            0..2 => steps.push(Step::Add { node }),
            2..6 if TIERS[node].abs_diff(TIERS[to]) == 1 || TIERS[node] + TIERS[to] == 0 && node != to => {
                let place =
                    if sent.len() < HISTORY_MESSAGES { sent.len() } else { random.below(HISTORY_MESSAGES) };
                if place == sent.len() {
                    sent.push(place);
                }
                steps.push(Step::Send { from: node, to, place });
                steps.push(Step::Deliver { place });
            }
            6..10 if !sent.is_empty() => steps.push(Step::Deliver { place: *random.pick(&sent) }),
            _ => {}
        }
    }
    steps
}

fn run_ours(steps: &[Step], rules: Rules) -> Duration {
    let mut nodes: Vec<Handoff<u32, u64>> =
        (0..).zip(TIERS).map(|(id, tier)| Handoff::with_rules(id, tier, rules)).collect();
    let mut history: Vec<(usize, View<u32, u64>)> = Vec::new();
    let start = Instant::now();
    for step in steps {
        match *step {
            Step::Add { node } => nodes[node].add(&1).expect("small numbers"),
            Step::Send { from, to, place } => {
                let view = nodes[from].view_for(nodes[to].id(), TIERS[to]);
                put(&mut history, place, (to, view));
            }
            Step::Deliver { place } => {
                let (to, view) = &history[place];
                nodes[*to].merge(view).expect("no twins");
            }
        }
    }
    let elapsed = start.elapsed();
    black_box(&nodes);
    elapsed
}

fn run_theirs(steps: &[Step]) -> Duration {
    let mut nodes: Vec<Counter<u32>> =
        (0..).zip(TIERS).map(|(id, tier)| Counter::new(id, usize::from(tier))).collect();
    let mut history: Vec<(usize, Counter<u32>)> = Vec::new();
    let start = Instant::now();
    for step in steps {
        match *step {
            Step::Add { node } => nodes[node].incr(),
            Step::Send { from, to, place } => {
                let view = nodes[from].view(nodes[to].id(), usize::from(TIERS[to]));
                put(&mut history, place, (to, view));
            }
            Step::Deliver { place } => {
                let (to, view) = &history[place];
                nodes[*to].merge(view);
            }
        }
    }
    let elapsed = start.elapsed();
    black_box(&nodes);
    elapsed
}

fn put<T>(history: &mut Vec<T>, place: usize, message: T) {
    match history.get_mut(place) {
        Some(old) => *old = message,
        None => history.push(message),
    }
}

/// Prints how many times as long theirs takes, in neighbouring turns, which the mood of the machine hits alike.
fn compare(name: &str, rules: Rules) {
    let mut ratios = Vec::new();
    let mut ours_best = Duration::MAX;
    for seed in 0..TURNS as u64 {
        let steps = trace(seed);
        let (ours, theirs) = (run_ours(&steps, rules), run_theirs(&steps));
        ratios.push(theirs.as_secs_f64() / ours.as_secs_f64());
        ours_best = ours_best.min(ours);
    }
    ratios.sort_by(f64::total_cmp);
    let (least, median, most) = (ratios[0], ratios[TURNS / 2], ratios[TURNS - 1]);
    let rate = STEPS as f64 / ours_best.as_secs_f64() / 1e6;
    println!(
        "{name}: {median:.1} times as fast as handoff_counter ({least:.1} to {most:.1}); at best {rate:.1} M steps/s"
    );
}

/// Resident bytes of this process, where the system tells.
fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

/// Clients that have counted and handed over, and are kept.
fn idle_clients() {
    let mut server = Handoff::<u32, u64>::new(0, 1);
    let mut clients = Vec::with_capacity(usize::try_from(IDLE_CLIENTS).expect("it fits"));
    let before = resident_bytes();
    for id in 1..=u32::try_from(IDLE_CLIENTS).expect("it fits") {
        let mut client = Handoff::new(id, 2);
        client.add(&1).expect("a small number");
        while client.must_hand_off() {
            server.merge(&client.view_for(&0, 1)).expect("no twins");
            client.merge(&server.view_for(&id, 2)).expect("no twins");
        }
        clients.push(client);
    }
    let (Some(before), Some(after)) = (before, resident_bytes()) else {
        println!("idle clients: this system does not tell how much memory a process uses");
        return;
    };
    println!("idle clients: {} bytes each, of {IDLE_CLIENTS}", (after - before) / IDLE_CLIENTS);
    assert!(server.is_idle());
    black_box(clients);
}

fn main() {
    println!("{TURNS} traces of {STEPS} steps, 12 clients, 6 servers, 3 roots; median (range)");
    compare("the paper's rules", Rules::Paper);
    compare("our rules", Rules::Quipu);
    idle_clients();
}
