//! Every state that a few sites can get into, within bounds, by the real engine: retries that reach any site at any time,
//! messages that are lost, repeated, delayed and overtaken, sites that lose their memory, resets, and counters with bounds.
mod check;
mod locals;
mod plan;
mod search;
mod site;
mod state;

use plan::{Ask, Client, Operation, Plan, Trouble};
use quipu_engine::{Rule, Rules, Settings};
use search::search;

const ONE: Operation = Operation { key: b"k", id: b"one", amount: 1 };

fn two() -> Plan {
    Plan {
        name: "two sites",
        sites: 2,
        operations: &[ONE],
        clients: &[Client { ask: Ask::Once(0), times: 2, sites: &[0, 1] }],
        before: &[],
        trouble: Trouble { timers: 1, restarts: 0, repeats: 0, ages: 0 },
        settings: Settings::default(),
    }
}

#[test]
fn first() {
    for timers in 0..3 {
        for restarts in 0..2 {
            let mut plan = two();
            plan.trouble.timers = timers;
            plan.trouble.restarts = restarts;
            let t = std::time::Instant::now();
            let f = search(&plan, 3_000_000);
            println!(
                "t{timers} r{restarts}: {} {} {} {:?}",
                f.states,
                f.locals,
                f.wrong.unwrap_or_default(),
                t.elapsed()
            );
        }
    }
    let mut plan = two();
    plan.sites = 3;
    plan.clients = &[Client { ask: Ask::Once(0), times: 2, sites: &[0, 1, 2] }];
    plan.trouble.timers = 0;
    let t = std::time::Instant::now();
    let f = search(&plan, 3_000_000);
    println!("3 sites: {} {} {} {:?}", f.states, f.locals, f.wrong.unwrap_or_default(), t.elapsed());
    let _ = Rules::without(Rule::LowestKeeps);
}
