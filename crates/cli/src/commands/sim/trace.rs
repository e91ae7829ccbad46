//! `quipu sim trace`: a long random trace of handoff replicas.

use crate::failure::Failure;
use indicatif::{ProgressBar, ProgressStyle};
use quipu_crdt::testing::trace::{Shape, Summary, Violation};
use std::time::{Duration, Instant};

/// Random traces of handoff counters, old states replayed, every condition checked at every step
///
/// Checked after every step: no replica reports more than was issued, none reports less than before, and what
/// was issued is what replicas hold plus the enabled tokens. Every 5,000 steps the network calms down; then
/// every replica must report exactly what was issued, and no slot and no token may be left.
///
/// A violation prints the seed, the step and the command that replays it, and exits with 1.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  quipu sim trace                                    a million steps
  quipu sim trace --steps 100000000 --seed 7         a long run
  quipu sim trace --lives                            replicas come, go silent and leave in every way
  quipu sim trace --clients 2 --servers 2 --roots 1  small shapes meet corner cases sooner
  quipu sim trace --json                             for machines")]
pub(crate) struct Args {
    /// How many steps to take
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    steps: u64,
    /// The same seed gives the same trace
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// Replicas of tier 2, which hand over to servers
    #[arg(long, default_value_t = 12, value_name = "N")]
    clients: u32,
    /// Replicas of tier 1, which hand over to roots
    #[arg(long, default_value_t = 6, value_name = "N")]
    servers: u32,
    /// Replicas of tier 0, which keep the counts
    #[arg(long, default_value_t = 3, value_name = "N")]
    roots: u32,
    /// Clients and servers also arrive, fall silent, are folded away, and leave in every way there is
    #[arg(long)]
    lives: bool,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// The most replicas of each tier: every pair of them meets whenever the network calms down.
const REPLICAS_MAX: u32 = 1_000;

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    for (flag, count) in [("--clients", args.clients), ("--servers", args.servers), ("--roots", args.roots)] {
        if !(1..=REPLICAS_MAX).contains(&count) {
            let problem = format!("{count} is not in 1..={REPLICAS_MAX}");
            return Err(Failure::Usage { flag, problem });
        }
    }
    let shape = Shape { clients: args.clients, servers: args.servers, roots: args.roots, lives: args.lives };
    let started = Instant::now();
    let bar = progress(args.steps);
    let outcome = quipu_sim::trace::run(shape, args.seed, args.steps, |taken| {
        bar.set_position(taken);
        true
    });
    bar.finish_and_clear();
    match outcome {
        Ok(summary) => {
            print_summary(args, &summary, started.elapsed());
            Ok(())
        }
        Err(violation) => Err(report(args, &violation)),
    }
}

fn report(args: &Args, violation: &Violation) -> Failure {
    let command = replay(args);
    if args.json {
        let Violation { seed, step, what } = violation;
        println!(
            "{}",
            serde_json::json!({ "command": command, "seed": seed, "step": step, "violation": what })
        );
    }
    Failure::failed(format!("{violation}\nreplay it with: {command}"))
}

/// A bar on a terminal, and nothing elsewhere.
fn progress(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {human_pos}/{human_len} steps, {per_sec}, {eta} left");
    ProgressBar::new(steps).with_style(style.expect("the template is valid"))
}

fn replay(args: &Args) -> String {
    let Args { steps, seed, clients, servers, roots, lives, .. } = args;
    let lives = if *lives { " --lives" } else { "" };
    format!(
        "quipu sim trace --steps {steps} --seed {seed} --clients {clients} --servers {servers} --roots {roots}{lives}"
    )
}

fn print_summary(args: &Args, summary: &Summary, elapsed: Duration) {
    let Summary { steps, issued, merged, replayed, tokens, accounted, left, folded, slots_max } = *summary;
    let steps_per_second = steps as f64 / elapsed.as_secs_f64();
    if args.json {
        let value = serde_json::json!({
            "command": replay(args), "steps": steps, "seed": args.seed, "violations": 0, "issued": issued,
            "merged": merged, "replayed": replayed, "tokens": tokens, "accounted": accounted, "left": left,
            "folded": folded, "slots_max": slots_max, "seconds": elapsed.as_secs_f64(),
            "steps_per_second": steps_per_second.round(),
        });
        println!("{value}");
        return;
    }
    println!("{steps} steps with seed {}: no condition was violated", args.seed);
    println!("  issued     {issued:>12}   increments, all accounted for at every replica");
    println!("  merged     {merged:>12}   messages, of which {replayed} picked from old ones");
    println!("  tokens     {tokens:>12}   made and taken exactly once");
    println!("  accounted  {accounted:>12}   times everything, with no slot and no token left");
    if args.lives {
        println!("  left       {left:>12}   replicas for good, {folded} slots folded");
    }
    println!("  {:.1} s, {steps_per_second:.0} steps per second", elapsed.as_secs_f64());
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn a_violation_tells_the_seed_the_step_and_the_command_that_replays_it() {
        let given = ["trace", "--steps", "900", "--seed", "7", "--clients", "4", "--lives"];
        let args = Command::parse_from(given).args;
        let violation = Violation { seed: 7, step: 815, what: "a token was lost".to_owned() };
        let Failure::Failed(text) = report(&args, &violation) else { panic!("exit code 1") };
        let command = "quipu sim trace --steps 900 --seed 7 --clients 4 --servers 6 --roots 3 --lives";
        assert_eq!(text, format!("seed 7, step 815: a token was lost\nreplay it with: {command}"));
    }
}
