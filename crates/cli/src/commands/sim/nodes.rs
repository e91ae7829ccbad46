//! `quipu sim nodes`: one site of several nodes in virtual time, from seeds.

use super::coverage;
use super::output::print;
use super::seeds::{Done, Numbers, Seeds, ended, failed, troubles, watching};
use crate::failure::Failure;
use quipu_sim::core::Millis;
use quipu_sim::nodes::{Changes, Edition, Plan, Summary, run_watched};
use serde_json::json;
use std::time::Instant;

/// One site of several nodes: the real engine over one store that they share, with everything that can go wrong, from one
/// seed
///
/// Each seed is a plan of its own: how many nodes and clients, how fast their clocks go, what they count; which nodes are
/// paused, at once or in the middle of something that they ask of the store, for far less or far longer than it takes to be
/// believed dead; which die, are cut off from the store, drain, leave and join; and how many commits, checkpoints and signs
/// of life are slow, late or not answered, done or not. Clients ask any node, which passes on what is another one's;
/// nobody waits for an answer longer than the seed's deadline.
/// Checked at every answer: reads that miss what was acknowledged before, at whatever node; bounds; operations that are
/// counted twice, or denied; and calls that were passed on, of which it is said that nothing was done, and that are counted. In the end everything heals: each shard is at one node, all know at which, shares are even, and
/// counters say exactly what was acknowledged.
///
/// A violation prints the seed, its plan, the last happenings and the command that replays it, and exits with 1.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  quipu sim nodes --seed 7                           one seed
  quipu sim nodes --seeds 0..1000                    a thousand seeds
  quipu sim nodes --seed 7 --troubles 0,3 --fair     only two of its troubles, over a store that answers
  quipu sim nodes --seed 7 --aloud                   everything that happens
  quipu sim nodes --endless                          until something fails, or Ctrl-C
  quipu sim nodes --speed                            how much virtual time one second is worth")]
pub(crate) struct Args {
    #[command(flatten)]
    seeds: Seeds,
    /// Which draws make the plan of a seed: 1, as seeds were before; 2, with a deadline for every answer; 3, with adds that
    /// name limits or are counted in part, and outcomes that are asked for
    #[arg(long, value_name = "N", default_value_t = Edition::LATEST)]
    edition: Edition,
    /// Nodes at the start, instead of as many as the seed says
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,
    /// Clients, instead of as many as the seed says
    #[arg(long, value_name = "N")]
    clients: Option<usize>,
    /// For how long clients work, instead of as long as the seed says
    #[arg(long, value_name = "MS")]
    active_ms: Option<Millis>,
    /// Counters of each kind, instead of as many as the seed says
    #[arg(long, value_name = "N")]
    keys: Option<usize>,
    /// Only these of the seed's troubles, by number; "none" for none
    #[arg(long, value_name = "LIST", value_parser = troubles)]
    troubles: Option<Numbers>,
    /// The store answers everything, and quickly, unless a trouble says otherwise
    #[arg(long)]
    fair: bool,
    /// Print everything that happens
    #[arg(long)]
    aloud: bool,
    /// How much virtual time of three nodes and fifty clients, each adding ten times a second, one second is worth
    #[arg(long, conflicts_with_all = ["seeds", "count", "endless", "aloud"])]
    speed: bool,
    #[command(flatten)]
    coverage: coverage::Flag,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.speed {
        return speed(args);
    }
    let changes = Changes {
        edition: args.edition,
        nodes: args.nodes,
        clients: args.clients,
        active_ms: args.active_ms,
        keys: args.keys,
        troubles: args.troubles.clone().map(|numbers| numbers.0),
        fair: args.fair,
    };
    let (mut totals, mut tally) = (Totals::default(), coverage::Tally::default());
    let run = |plan: &Plan| {
        let outcome = run_watched(plan, watching(args.aloud));
        tally.add_run();
        totals.add(&outcome?);
        Ok(totals.sum.virtual_ms)
    };
    let done = args.seeds.run(|seed| changes.plan(seed), run, |violation| failed(&violation, args.json))?;
    print(&totals.show(args, &done))?;
    tally.show(&args.coverage, args.json)?;
    done.end()
}

/// Sums over seeds.
#[derive(Default)]
struct Totals {
    seeds: u64,
    sum: Summary,
    settled_ms_max: Millis,
}

impl Totals {
    fn add(&mut self, one: &Summary) {
        let sum = &mut self.sum;
        self.seeds += 1;
        sum.virtual_ms += one.virtual_ms;
        sum.calls += one.calls;
        sum.attempts += one.attempts;
        sum.acknowledged += one.acknowledged;
        sum.passed_on += one.passed_on;
        sum.taken += one.taken;
        sum.released += one.released;
        sum.too_late += one.too_late;
        sum.halts += one.halts;
        sum.in_doubt += one.in_doubt;
        sum.fenced += one.fenced;
        sum.reads_alone += one.reads_alone;
        sum.stored_late += one.stored_late;
        sum.refused_late += one.refused_late;
        sum.troubles += one.troubles;
        self.settled_ms_max = self.settled_ms_max.max(one.settled_after_ms);
    }

    fn show(&self, args: &Args, done: &Done) -> String {
        let Self { seeds, sum, settled_ms_max } = self;
        let Summary { virtual_ms, calls, attempts, acknowledged, passed_on, taken, released, .. } = sum;
        let Summary { too_late, halts, in_doubt, fenced, reads_alone, stored_late, refused_late, .. } = sum;
        let (troubles, seconds) = (sum.troubles, done.elapsed.as_secs_f64());
        if args.json {
            let value = json!({
                "seeds": seeds, "violations": done.failed.len(), "virtual_ms": virtual_ms, "calls": calls, "attempts": attempts,
                "acknowledged": acknowledged, "passed_on": passed_on, "taken": taken, "released": released,
                "too_late": too_late, "halts": halts, "in_doubt": in_doubt, "fenced": fenced,
                "reads_alone": reads_alone, "stored_late": stored_late, "refused_late": refused_late,
                "troubles": troubles, "settled_after_ms_max": settled_ms_max, "seconds": seconds,
            });
            return format!("{value}\n");
        }
        format!(
            "{seeds} seeds: {}\n\
             \x20 virtual    {:>12}   seconds\n\
             \x20 calls      {calls:>12}   of clients, in {attempts} attempts, {passed_on} of them passed on\n\
             \x20 adds       {acknowledged:>12}   acknowledged, all counted once\n\
             \x20 in doubt   {in_doubt:>12}   answers, and {fenced} from nodes that had lost the shard\n\
             \x20 reads      {reads_alone:>12}   of memory alone, none of them old\n\
             \x20 unheard    {:>12}   commits that arrived without an answer, {stored_late} of them stored\n\
             \x20 shards     {taken:>12}   times taken, {released} given back; {too_late} times too late\n\
             \x20 troubles   {troubles:>12}   with {halts} halts, after which shards were at rest within {settled_ms_max} ms\n\
             \x20 {seconds:.1} s\n",
            done.said(),
            virtual_ms / 1_000,
            stored_late + refused_late
        )
    }
}

fn speed(args: &Args) -> Result<(), Failure> {
    let mut plan = Plan::of_speed(args.seeds.seed);
    plan.clients = args.clients.unwrap_or(plan.clients);
    plan.active_ms = args.active_ms.unwrap_or(plan.active_ms);
    plan.check()?;
    let started = Instant::now();
    let summary = run_watched(&plan, watching(false))
        .map_err(|end| ended(end, |violation| failed(&violation, args.json)))?;
    let seconds = started.elapsed().as_secs_f64();
    let worth = summary.virtual_ms as f64 / 1_000.0 / seconds;
    if args.json {
        let value = json!({
            "seed": plan.seed, "nodes": plan.nodes, "clients": plan.clients, "virtual_ms": summary.virtual_ms,
            "acknowledged": summary.acknowledged, "seconds": seconds, "virtual_seconds_per_second": worth,
        });
        return print(&format!("{value}\n"));
    }
    print(&format!(
        "{} nodes, {} clients: {} s virtual, {} adds in {seconds:.2} s, all checks on\n\
         one second is worth {worth:.0} virtual seconds\n",
        plan.nodes,
        plan.clients,
        summary.virtual_ms / 1_000,
        summary.acknowledged
    ))
}
