//! Every answer is compared with that of a plain map.

use quipu_crdt::testing::Random;
use quipu_engine::{Action, Add, Beyond, Limits, OperationId, Reply, Settings, Spread, Ticket};
use quipu_storage::Flush;

use crate::{
    model::Model,
    world::{Setup, World},
};

const KEYS: usize = 14;
const STEPS: usize = 220;

/// The names of operations.
static IDS: [[u8; 2]; 40] = {
    let mut ids = [[0, b'#']; 40];
    let mut at: u8 = 0;
    while at < 40 {
        ids[at as usize][0] = b'0' + at;
        at += 1;
    }
    ids
};

fn key(random: &mut Random) -> Vec<u8> {
    format!("key:{}", random.below(KEYS)).into_bytes()
}

fn small(random: &mut Random) -> i64 {
    random.below(21) as i64 - 10
}

fn limit(random: &mut Random) -> Option<i64> {
    random.chance(0.3).then(|| small(random) * 3)
}

fn command(random: &mut Random) -> Action<'static> {
    let operation = OperationId { producer: b"p", id: &random.pick(&IDS)[..] };
    match random.below(20) {
        0..10 => {
            let beyond = *random.pick(&[Beyond::Refuse, Beyond::Skip, Beyond::Saturate]);
            let add = Add {
                amount: small(random),
                lower: limit(random),
                upper: limit(random),
                beyond,
                remote_ms: 0,
            };
            // An operation that is sent again has its amount again, nearly always.
            let amount = if random.chance(0.9) { i64::from(operation.id[0] % 5) } else { add.amount };
            match random.chance(0.5) {
                true => Action::Add { add: Add { amount, ..add }, operation: Some(operation) },
                false => Action::Add { add, operation: None },
            }
        }
        10..13 => Action::Get,
        13..15 => Action::Reset { to: None },
        15 => Action::Reset { to: Some(small(random)) },
        16 => Action::Create {
            limits: Limits { minimum: Some(-5), maximum: limit(random).map(i64::abs), initial: 0 },
            spread: Spread::Creator,
            wait_ms: 0,
        },
        _ => Action::Outcome(operation),
    }
}

fn run(seed: u64, threaded: bool) {
    let mut random = Random::new(seed);
    let memory_bytes = *random.pick(&[0, 150, 400, 1 << 20]);
    let settings = Settings { memory_bytes, seed, ..Settings::default() };
    let flush = *random.pick(&[Flush::Now, Flush::Later]);
    let mut world = World::new(Setup { settings, flush, threaded, ..Setup::default() });
    let mut model = Model::default();
    for step in 0..STEPS {
        let mut expected: Vec<(Ticket, Reply)> = Vec::new();
        for _ in 0..random.below(6) {
            let (key, action) = (key(&mut random), command(&mut random));
            expected.push((world.send(&key, action), model.run(&key, action)));
        }
        let mut replies = world.commit().replies;
        replies.sort_by_key(|(ticket, _)| *ticket);
        assert_eq!(replies, expected, "seed {seed}, step {step}");
        assert_eq!(world.host.live(), model.values.len() as u64, "seed {seed}, step {step}");
        match random.below(10) {
            0..5 => drop(world.maintain()),
            5 => {
                let all: Vec<_> = model.values.iter().map(|(key, value)| (key.clone(), *value)).collect();
                assert_eq!(world.list(b"key:", 1 + random.below(5)), all, "seed {seed}, step {step}");
            }
            // In all less than the window.
            6 => world.clock_ms += random.below(20_000) as u64,
            7 if random.chance(0.3) => {
                world.host.flush().expect("nothing fails here");
                if random.chance(0.5) {
                    world.memory.crash();
                }
                world.restart();
            }
            _ => {}
        }
        world.seen.check().unwrap_or_else(|wrong| panic!("seed {seed}, step {step}: {wrong}"));
    }
    assert_eq!(world.host.stats().shards_unavailable, 0);
}

#[test]
fn answers_are_those_of_a_map() {
    (0..120).for_each(|seed| run(seed, false));
}

#[test]
fn answers_are_those_of_a_map_while_a_thread_writes_the_table() {
    (1_000..1_060).for_each(|seed| run(seed, true));
}
