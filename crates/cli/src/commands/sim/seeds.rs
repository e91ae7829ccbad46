//! Which seeds to run, for everything that runs many of them.

use crate::failure::Failure;
use crate::interrupt;
use indicatif::{ProgressBar, ProgressStyle};
use quipu_sim::core::{Millis, Watching};
use quipu_sim::{Ended, Replayable, Violation};
use serde_json::json;
use std::ops::Range;
use std::time::{Duration, Instant};

/// One seed, some, or one after the other.
#[derive(clap::Args)]
pub(super) struct Seeds {
    /// The seed to run, or the first of them
    #[arg(long, default_value_t = 1, value_name = "S")]
    pub(super) seed: u64,
    /// The seeds from A up to, not including, B
    #[arg(long, value_name = "A..B", value_parser = range, conflicts_with_all = ["seed", "count", "endless"])]
    seeds: Option<Range<u64>>,
    /// So many seeds, from --seed on
    #[arg(long, value_name = "N", conflicts_with = "endless")]
    count: Option<u64>,
    /// One seed after the other until something fails, or Ctrl-C
    #[arg(long)]
    pub(super) endless: bool,
    /// Go on after a seed that fails, and name all that do in the end
    #[arg(long)]
    keep_going: bool,
}

impl Seeds {
    /// All of them.
    pub(super) fn all(&self) -> Range<u64> {
        match &self.seeds {
            Some(seeds) => seeds.clone(),
            None if self.endless => self.seed..u64::MAX,
            None => self.seed..self.seed.saturating_add(self.count.unwrap_or(1)),
        }
    }
}

/// What became of all seeds.
pub(super) struct Done {
    pub(super) elapsed: Duration,
    /// Seeds that have failed.
    pub(super) failed: Vec<u64>,
    is_cut_short: bool,
}

impl Done {
    /// What is said of those that have come to their end.
    pub(super) fn said(&self) -> String {
        match self.failed.len() {
            0 => "no condition was violated".to_owned(),
            failed => format!("done, and {failed} more fail"),
        }
    }

    /// To be said after the rest was.
    pub(super) fn end(&self) -> Result<(), Failure> {
        if !self.failed.is_empty() {
            let seeds: Vec<String> = self.failed.iter().map(u64::to_string).collect();
            return Err(Failure::failed(format!("{} seeds fail: {}", seeds.len(), seeds.join(", "))));
        }
        if self.is_cut_short { Err(Failure::Interrupted) } else { Ok(()) }
    }
}

impl Seeds {
    /// Runs all of them until one fails, if that is not to be gone over, or Ctrl-C. `run` tells how much virtual time there was so far.
    pub(super) fn run<P: Replayable, R>(
        &self,
        plan: impl Fn(u64) -> Result<P, R>,
        mut run: impl FnMut(&P) -> Result<Millis, Ended<P>>,
        report: impl FnOnce(Violation<P>) -> Failure,
    ) -> Result<Done, Failure>
    where
        Failure: From<R>,
    {
        let seeds = self.all();
        // What cannot be is refused before anything runs.
        plan(seeds.start)?;
        let bar = bar(self.endless, &seeds);
        let started = Instant::now();
        let mut failed = Vec::new();
        for seed in seeds {
            if !interrupt::is_wanted() {
                break;
            }
            match run(&plan(seed)?) {
                Ok(virtual_ms) => bar.set_message(format!("{} s virtual", virtual_ms / 1_000)),
                Err(Ended::Stopped) => break,
                Err(Ended::Violated(violation)) if self.keep_going => {
                    failed.push(seed);
                    bar.suspend(|| eprintln!("{violation}"));
                }
                Err(Ended::Violated(violation)) => {
                    bar.finish_and_clear();
                    return Err(report(violation));
                }
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        // An endless run has no other end.
        let is_cut_short = !interrupt::is_wanted() && !self.endless;
        Ok(Done { elapsed: started.elapsed(), failed, is_cut_short })
    }
}

/// Ctrl-C ends a run in the middle, too.
pub(super) fn watching(aloud: bool) -> Watching {
    Watching { aloud, go_on: interrupt::is_wanted }
}

/// What is said of a run without a summary.
pub(super) fn ended<P: Replayable>(end: Ended<P>, report: impl FnOnce(Violation<P>) -> Failure) -> Failure {
    match end {
        Ended::Violated(violation) => report(violation),
        Ended::Stopped => Failure::Interrupted,
    }
}

/// What is said of a seed that fails.
pub(super) fn failed<P: Replayable>(violation: &Violation<P>, as_json: bool) -> Failure {
    if as_json {
        let Violation { plan, time_ms, what, events } = violation;
        let value = json!({
            "command": plan.command(), "seed": plan.seed(), "time_ms": time_ms, "violation": what,
            "plan": plan.to_string(), "events": events,
        });
        println!("{value}");
    }
    Failure::failed(violation.in_full())
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("{text} is not of the form A..B, with A less than B");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let (Ok(from), Ok(to)) = (from.parse(), to.parse()) else { return Err(wrong()) };
    if from < to { Ok(from..to) } else { Err(wrong()) }
}

/// Numbers of troubles. (A type of its own: clap takes a plain vector for a flag that is given several times.)
#[derive(Debug, Clone)]
pub(super) struct Numbers(pub(super) Vec<usize>);

/// Numbers with commas between them, or "none".
pub(super) fn troubles(text: &str) -> Result<Numbers, String> {
    if text == "none" {
        return Ok(Numbers(Vec::new()));
    }
    let numbers: Result<_, _> = text.split(',').map(str::parse).collect();
    numbers.map(Numbers).map_err(|_| format!("{text} is not \"none\", nor numbers with commas between them"))
}

/// How many seeds are done, on a terminal.
fn bar(endless: bool, seeds: &Range<u64>) -> ProgressBar {
    let bar = if endless { ProgressBar::no_length() } else { ProgressBar::new(seeds.end - seeds.start) };
    let template = if endless {
        "{spinner} {human_pos} seeds, {per_sec}, {elapsed}, {msg}"
    } else {
        "{bar:40} {human_pos}/{human_len} seeds, {per_sec}, {eta} left, {msg}"
    };
    bar.with_style(ProgressStyle::with_template(template).expect("the template is valid"))
}
