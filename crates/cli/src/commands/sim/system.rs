//! `quipu sim system`: the whole system in virtual time, from seeds.

use super::coverage;
use super::output::print;
use super::seeds::{Done, Numbers, Seeds, ended, failed, troubles, watching};
use crate::failure::Failure;
use crate::interrupt;
use indicatif::ProgressBar;
use quipu_sim::core::Millis;
use quipu_sim::system::{Changes, Edition, Feature, Plan, Summary, Violation, run_watched, shrink};
use serde_json::json;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// The whole system: the real engine at several sites, with everything that can go wrong, from one seed
///
/// Each seed is a plan of its own: how many sites and clients, what they count, how messages are delayed, lost, repeated
/// and reordered, which links are cut, which sites die, whose disks fail and whose clocks jump; which sites join while the
/// others run, leave, are lost with their disks, are put back from an older copy, have a copy running
/// beside them, and which acknowledge before they flush.
/// In most seeds there are edges and relays, too, which count, hand over, go to other servers in between, crash, lose their
/// disks, vanish and retire.
/// Checked at every answer: bounds, reads that go backwards, answers that contradict each other. In the end everything
/// heals, edges retire, and all sites must say exactly what was acknowledged, less what only a disk knew that is lost; and
/// they keep nothing of edges that have retired.
///
/// A violation prints the seed, its plan, the last happenings and the command that replays it, and exits with 1.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  quipu sim system --seed 7                          one seed
  quipu sim system --seeds 0..1000                   a thousand seeds
  quipu sim system --seed 7 --shrink                 a smaller plan that fails too
  quipu sim system --seed 7 --aloud                  everything that happens
  quipu sim system --endless                         until something fails, or Ctrl-C
  quipu sim system --speed                           how much virtual time one second is worth")]
pub(crate) struct Args {
    #[command(flatten)]
    seeds: Seeds,
    /// Which draws make the plan of a seed: 1, as seeds were at first; 2 to 4, with the kinds of work and trouble that came
    /// later (3: copies of a site that run beside it, adds with limits, calls that are refused; 4: messages held back in one
    /// direction, edges that are absent while a site is removed in order, outcomes asked for around restarts)
    #[arg(long, value_name = "N", default_value_t = Edition::LATEST)]
    edition: Edition,
    /// Sites, instead of as many as the seed says
    #[arg(long, value_name = "N")]
    sites: Option<usize>,
    /// Clients, instead of as many as the seed says
    #[arg(long, value_name = "N")]
    clients: Option<usize>,
    /// For how long clients work, instead of as long as the seed says
    #[arg(long, value_name = "MS")]
    active_ms: Option<Millis>,
    /// Counters of each kind, instead of as many as the seed says
    #[arg(long, value_name = "N")]
    keys: Option<usize>,
    /// Edges at a time, instead of as many as the seed says
    #[arg(long, value_name = "N")]
    edges: Option<usize>,
    /// Only these of the seed's troubles, by number; "none" for none
    #[arg(long, value_name = "LIST", value_parser = troubles)]
    troubles: Option<Numbers>,
    /// Switch off: plain, ids, bounded, resets, loss, duplication, reordering, client-loss, late, stale, hasty, moves, limits,
    /// mistakes, bytes, eviction, skews, shards, interval, edges (and relays), relays, edge-faults, folding
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    without: Vec<Feature>,
    /// When a seed fails, look for a smaller plan that fails too
    #[arg(long)]
    shrink: bool,
    /// Print everything that happens
    #[arg(long)]
    aloud: bool,
    /// How much virtual time of three sites and a hundred clients, each adding ten times a second, one second is worth
    #[arg(long, conflicts_with_all = ["seeds", "count", "endless", "shrink", "aloud"])]
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
        sites: args.sites,
        clients: args.clients,
        active_ms: args.active_ms,
        keys: args.keys,
        edges: args.edges,
        troubles: args.troubles.clone().map(|numbers| numbers.0),
        without: args.without.clone(),
    };
    let (mut totals, mut tally) = (Totals::default(), coverage::Tally::default());
    let run = |plan: &Plan| {
        let outcome = run_watched(plan, watching(args.aloud));
        tally.add_run();
        totals.add(&outcome?);
        Ok(totals.sum.virtual_ms)
    };
    let done = args.seeds.run(|seed| changes.plan(seed), run, |violation| report(args, violation))?;
    print(&totals.show(args, &done))?;
    tally.show(&args.coverage, args.json)?;
    done.end()
}

fn report(args: &Args, violation: Violation) -> Failure {
    let violation = if args.shrink {
        let bar = ProgressBar::no_length();
        let smaller = shrink(violation, &mut |tries| {
            bar.set_position(tries as u64);
            !interrupt::flag().load(Ordering::Relaxed)
        });
        bar.finish_and_clear();
        smaller
    } else {
        violation
    };
    failed(&violation, args.json)
}

/// Sums over seeds.
#[derive(Default)]
struct Totals {
    seeds: u64,
    sum: Summary,
    settled_ms_max: Millis,
}

impl Totals {
    fn add(&mut self, summary: &Summary) {
        self.seeds += 1;
        self.sum.virtual_ms += summary.virtual_ms;
        self.sum.calls += summary.calls;
        self.sum.attempts += summary.attempts;
        self.sum.acknowledged += summary.acknowledged;
        self.sum.messages += summary.messages;
        self.sum.troubles += summary.troubles;
        self.sum.counters += summary.counters;
        self.sum.edges += summary.edges;
        self.sum.handed_over += summary.handed_over;
        self.sum.exchanges += summary.exchanges;
        self.settled_ms_max = self.settled_ms_max.max(summary.settled_after_ms);
    }

    fn show(&self, args: &Args, done: &Done) -> String {
        let Self { seeds, sum, settled_ms_max } = self;
        let Summary { virtual_ms, calls, attempts, acknowledged, messages, troubles, counters, .. } = sum;
        let Summary { edges, handed_over, exchanges, .. } = sum;
        let seconds = done.elapsed.as_secs_f64();
        if args.json {
            let value = json!({
                "seeds": seeds, "violations": done.failed.len(), "virtual_ms": virtual_ms, "calls": calls, "attempts": attempts,
                "acknowledged": acknowledged, "messages": messages, "troubles": troubles, "counters": counters,
                "edges": edges, "handed_over": handed_over, "exchanges": exchanges,
                "settled_after_ms_max": settled_ms_max, "seconds": seconds,
            });
            return format!("{value}\n");
        }
        format!(
            "{seeds} seeds: {}\n\
             \x20 virtual    {:>12}   seconds\n\
             \x20 calls      {calls:>12}   of clients, in {attempts} attempts\n\
             \x20 adds       {acknowledged:>12}   acknowledged, all counted once on {counters} counters\n\
             \x20 messages   {messages:>12}   between sites\n\
             \x20 edges      {edges:>12}   came and went\n\
             \x20 handed     {handed_over:>12}   adds of edges and relays over to sites, in {exchanges} messages\n\
             \x20 troubles   {troubles:>12}   after which sites agreed within {settled_ms_max} ms\n\
             \x20 {seconds:.1} s\n",
            done.said(),
            virtual_ms / 1_000
        )
    }
}

fn speed(args: &Args) -> Result<(), Failure> {
    let mut plan = Plan::of_speed(args.seeds.seed);
    plan.clients = args.clients.unwrap_or(plan.clients);
    plan.active_ms = args.active_ms.unwrap_or(plan.active_ms);
    plan.check()?;
    let started = Instant::now();
    let summary =
        run_watched(&plan, watching(false)).map_err(|end| ended(end, |violation| report(args, violation)))?;
    let seconds = started.elapsed().as_secs_f64();
    let worth = summary.virtual_ms as f64 / 1_000.0 / seconds;
    if args.json {
        let value = json!({
            "seed": plan.seed, "sites": plan.sites, "clients": plan.clients, "virtual_ms": summary.virtual_ms,
            "acknowledged": summary.acknowledged, "messages": summary.messages, "seconds": seconds,
            "virtual_seconds_per_second": worth,
        });
        return print(&format!("{value}\n"));
    }
    print(&format!(
        "{} sites, {} clients: {} s virtual, {} adds and {} messages in {seconds:.2} s, all checks on\n\
         one second is worth {worth:.0} virtual seconds\n",
        plan.sites,
        plan.clients,
        summary.virtual_ms / 1_000,
        summary.acknowledged,
        summary.messages
    ))
}
