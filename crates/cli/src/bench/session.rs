//! All rounds of a run, one contestant after the other, and what is to be said of them.

use super::bars;
use super::compare;
use super::error::BenchError;
use super::load::{Contestant, Load};
use super::output;
use super::round::{self, Measured};
use super::verify::{Verified, verify};
use crate::commands::sim::output::print;
use crate::commands::sim::progress;
use crate::failure::Failure;
use crate::interrupt;
use indicatif::ProgressBar;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

pub(super) struct Plan {
    /// One, or two to compare.
    pub(super) contestants: Vec<Contestant>,
    pub(super) load: Load,
    pub(super) rounds: usize,
    pub(super) verify: bool,
    pub(super) allow_errors: bool,
    pub(super) json: Option<PathBuf>,
    pub(super) plot: Option<PathBuf>,
}

/// What a run has shown: for each contestant its rounds, in their order.
pub(super) struct Results {
    pub(super) rounds: Vec<Vec<Measured>>,
    pub(super) ratios: Option<compare::Ratios>,
    pub(super) verified: Vec<Verified>,
}

pub(super) fn run(plan: &Plan) -> Result<(), Failure> {
    for contestant in &plan.contestants {
        contestant.endpoint.open().map_err(Failure::failed)?; // Better now than after the other's first round.
    }
    print(&output::head(plan))?;
    let bar = progress::bar("");
    let mut results =
        Results { rounds: vec![Vec::new(); plan.contestants.len()], ratios: None, verified: Vec::new() };
    let ended = all_rounds(plan, &bar, &mut results.rounds);
    bar.finish_and_clear();
    if let [first, second] = results.rounds.as_slice() {
        results.ratios = compare::ratios(first, second);
    }
    if ended.is_ok() && plan.verify {
        results.verified = verify_all(plan, &results.rounds).map_err(Failure::failed)?;
    }
    print(&output::tail(plan, &results))?;
    write(plan, &results)?;
    ended?;
    judge(plan, &results)
}

/// Runs the rounds and prints a line for each. Which contestant begins changes from round to round, so that what
/// drifts on the machine touches both alike.
fn all_rounds(plan: &Plan, bar: &ProgressBar, rounds: &mut [Vec<Measured>]) -> Result<(), Failure> {
    let interrupted = interrupt::flag();
    let contestants = plan.contestants.len();
    let turns = (plan.rounds * contestants) as f64;
    for round in 0..plan.rounds {
        for turn in 0..contestants {
            let index = if round % 2 == 0 { turn } else { contestants - 1 - turn };
            let contestant = &plan.contestants[index];
            let done = (round * contestants + turn) as f64;
            bar.set_prefix(contestant.label.clone());
            let mut watch = |part: f64| {
                progress::show(bar, (done + part) / turns);
                !interrupted.load(Ordering::Relaxed)
            };
            let measured =
                round::run(contestant, &plan.load, round + 1, &mut watch).map_err(Failure::failed)?;
            bar.suspend(|| print(&output::round_line(plan, index, round + 1, &measured)))?;
            let (stopped, failed) = (measured.stopped, measured.answered.errors > 0 && !plan.allow_errors);
            rounds[index].push(measured);
            if stopped {
                return Err(Failure::Interrupted);
            }
            if failed {
                return Ok(()); // More of the same would not help; the errors are reported with the rest.
            }
        }
    }
    Ok(())
}

/// Each contestant, with what all its rounds have acknowledged.
fn verify_all(plan: &Plan, rounds: &[Vec<Measured>]) -> Result<Vec<Verified>, BenchError> {
    let one = |(contestant, rounds): (&Contestant, &Vec<Measured>)| {
        let acknowledged = rounds.iter().map(|measured| measured.answered.adds).sum();
        verify(contestant, plan.load.keys, acknowledged)
    };
    plan.contestants.iter().zip(rounds).map(one).collect()
}

fn write(plan: &Plan, results: &Results) -> Result<(), Failure> {
    let file = |path: &Path, text: &str| {
        std::fs::write(path, text)
            .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))
    };
    if let Some(path) = &plan.json {
        file(path, &format!("{:#}\n", output::json(plan, results)))?;
    }
    if let Some(path) = &plan.plot {
        file(path, &bars::svg(&output::charts(plan, results)).map_err(Failure::failed)?)?;
    }
    Ok(())
}

fn judge(plan: &Plan, results: &Results) -> Result<(), Failure> {
    for (contestant, rounds) in plan.contestants.iter().zip(&results.rounds) {
        let errors: u64 = rounds.iter().map(|measured| measured.answered.errors).sum();
        let first = rounds.iter().find_map(|measured| measured.first_error.as_deref());
        if let (Some(first), false) = (first, plan.allow_errors) {
            return Err(Failure::failed(format!(
                "{} answered {errors} commands with an error, first: {first}{}",
                contestant.endpoint.name,
                remedy(first, contestant.with_ids)
            )));
        }
    }
    match results.verified.iter().find(|verified| !verified.holds()) {
        Some(Verified { label, acknowledged, counted }) => Err(Failure::failed(format!(
            "{label} has miscounted: it acknowledged {acknowledged} adds, and its counters add up to {counted}"
        ))),
        None => Ok(()),
    }
}

fn remedy(error: &str, with_ids: bool) -> &'static str {
    let about_arguments = error.contains("number of arguments") || error.contains("syntax error");
    match error {
        _ if error.starts_with("NOAUTH") => "; give --password",
        _ if with_ids && about_arguments => "; it does not know IDMP, so leave --ids out",
        _ => "; --allow-errors goes on all the same",
    }
}
