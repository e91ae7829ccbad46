//! The whole system from hundreds of seeds, and with each rule left out, which must be caught.

use quipu_engine::{Rules, host::Discipline};
use quipu_sim::system::{Plan, Violation, Wrong, run, shrink};

/// Runs the plans of seeds; the first that fails.
fn first_failure(seeds: std::ops::Range<u64>, plan: impl Fn(u64) -> Plan) -> Option<Violation> {
    seeds.into_iter().find_map(|seed| run(&plan(seed)).err())
}

#[test]
fn one_site_is_exact_whatever_fails() {
    if let Some(violation) = first_failure(0..100, |seed| Plan::with_sites(seed, Some(1))) {
        panic!("{}", violation.in_full());
    }
}

#[test]
fn hunt() {
    let Ok(range) = std::env::var("HUNT") else { return };
    let (a, b) = range.split_once("..").unwrap();
    let small = std::env::var("SHRINK").is_ok();
    let started = std::time::Instant::now();
    let mut failures = Vec::new();
    for seed in a.parse::<u64>().unwrap()..b.parse().unwrap() {
        let plan = Plan::of(seed);
        let outcome = std::panic::catch_unwind(|| run(&plan));
        match outcome {
            Err(_) => println!("seed {seed} panicked"),
            Ok(Err(violation)) => {
                println!("{violation}");
                failures.push(violation);
            }
            Ok(Ok(_)) => {}
        }
    }
    println!("{} failures, {:?}", failures.len(), started.elapsed());
    if let Some(first) = failures.into_iter().next().filter(|_| small) {
        let smaller = shrink(first, &mut |_| true);
        println!("{}", smaller.in_full());
        let _ = quipu_sim::system::run_aloud(&smaller.plan);
    }
}

#[test]
fn try_variants() {
    use quipu_engine::Rule::*;
    let Ok(n) = std::env::var("VARIANTS") else { return };
    let n: u64 = n.parse().unwrap();
    for rule in [
        IdsBelongToKeys,
        RowsBeforeEntries,
        ToldPositions,
        LowestKeeps,
        LearnedUntilSettled,
        UnsettledRightsWait,
        UnsettledAreKept,
        AddBack,
        DefinitionsWait,
        BoundedRowsTogether,
    ] {
        let wrong = Wrong { rules: Rules::without(rule), ..Wrong::default() };
        let mut caught = Vec::new();
        let started = std::time::Instant::now();
        let mut done = 0;
        for seed in 0..n {
            done += 1;
            if [81, 219, 220].contains(&seed) {
                continue;
            }
            if let Err(violation) = run(&Plan { wrong, ..Plan::of(seed) }) {
                caught.push(violation.to_string());
                if caught.len() == 4 {
                    break;
                }
            }
        }
        println!("{rule:?}: {} in {done} seeds, {:?}", caught.len(), started.elapsed());
        for c in caught {
            println!("    {}", c.chars().take(170).collect::<String>());
        }
    }
}

/// A rule that is left out.
struct Variant {
    wrong: Wrong,
    /// It shows within so many seeds.
    seeds: u64,
    sites: Option<usize>,
}

fn variants() -> Vec<Variant> {
    let discipline = |discipline| Variant {
        wrong: Wrong { discipline, rules: Rules::default() },
        seeds: 200,
        sites: Some(1),
    };
    vec![
        discipline(Discipline::ReplyFirst),
        discipline(Discipline::ReadsDoNotWait),
        discipline(Discipline::MemoryIsKept),
        discipline(Discipline::CheckpointsUncommitted),
    ]
}

#[test]
fn every_rule_that_is_left_out_is_caught() {
    for Variant { wrong, seeds, sites } in variants() {
        let plan = |seed| Plan { wrong, ..Plan::with_sites(seed, sites) };
        let caught = first_failure(0..seeds, plan);
        let caught = caught.unwrap_or_else(|| panic!("{wrong:?} is not caught within {seeds} seeds"));
        println!("{wrong:?}: {caught}");
    }
}
