//! `quipu bench retries`: what retries do to counters, without and with operation ids, on a real server.
//!
//! [`proxy`] is the bad network, [`client`] tries until it is acknowledged, and [`trial`] runs many of them. The
//! figures of the paper are in [`accuracy`] (14), [`cost`] (15) and [`network`] (17); [`report`] writes them.

mod accuracy;
mod args;
mod client;
mod cost;
mod network;
mod proxy;
mod report;
mod trial;

pub(crate) use args::Args;

use super::args::name_of_run;
use super::commands::encode;
use super::endpoint::Endpoint;
use super::error::BenchError;
use super::replies::Reply;
use crate::commands::sim::output::print;
use crate::commands::sim::progress;
use crate::failure::Failure;
use crate::interrupt;
use indicatif::ProgressBar;
use quipu_crdt::testing::Random;
use report::Figure;
use std::cell::Cell;
use std::sync::atomic::Ordering;
use trial::{Conditions, Counters, Outcome};

/// What the figures have in common.
struct Bench<'a> {
    args: &'a Args,
    target: Endpoint,
    /// Is different in every run.
    run: String,
    bar: ProgressBar,
    /// Trials and rounds that are done, of all that there are.
    done: Cell<usize>,
    steps: usize,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let target = args.check()?;
    let run = name_of_run(args.seed);
    let steps = accuracy::steps(args) + cost::steps(args) + network::steps(args);
    let bench = Bench { args, target, run, bar: progress::bar(""), done: Cell::new(0), steps };
    if args.with_ids() {
        bench.try_an_id().map_err(Failure::failed)?;
    }
    let figures = all_figures(&bench);
    bench.bar.finish_and_clear();
    let figures = figures?;
    report::summary(args, &bench.target, &figures)?;
    print(&report::text(args, &figures))?;
    let wrong: Vec<&str> = figures.iter().flat_map(|figure| &figure.wrong).map(String::as_str).collect();
    if wrong.is_empty() { Ok(()) } else { Err(Failure::failed(wrong.join("\n"))) }
}

/// Each is written as soon as it is measured.
fn all_figures(bench: &Bench<'_>) -> Result<Vec<Figure>, Failure> {
    let mut figures = Vec::new();
    for figure in [accuracy::over_time, accuracy::over_loss, cost::measure, network::measure] {
        let Some(figure) = figure(bench)? else { continue };
        report::write(&bench.args.out, &figure)?;
        figures.push(figure);
    }
    Ok(figures)
}

impl Bench<'_> {
    /// A server that does not know ids is better told apart now than in the middle.
    fn try_an_id(&self) -> Result<(), BenchError> {
        let mut conversation = self.target.open()?;
        let key = format!("bench:{}:probe", self.run);
        conversation.send(&encode(&["INCRBY", &key, "1", "IDMP", &self.run, "1"]))?;
        match conversation.receive(1)? {
            Reply::Integer(_) => Ok(()),
            other => Err(BenchError::Answer {
                address: self.target.name.clone(),
                text: other.text(),
                remedy: "; if it does not know IDMP, run the part without ids: --ids off",
            }),
        }
    }

    /// Runs one trial on counters of its own. `name` is different for each.
    fn trial(&self, name: &str, conditions: &Conditions) -> Result<Outcome, Failure> {
        self.bar.set_prefix(name.to_owned());
        let counters = Counters::new(&self.target, &format!("{}-{name}", self.run), self.args.with_ids());
        // One of its own, or all trials would meet the same luck.
        let seed = Random::stream(self.args.seed, name).bits();
        let outcome = trial::run(&self.target, conditions, &counters, seed, &|| self.go_on())?;
        self.step();
        Ok(outcome)
    }

    fn go_on(&self) -> bool {
        !interrupt::flag().load(Ordering::Relaxed)
    }

    fn step(&self) {
        self.done.set(self.done.get() + 1);
        progress::show(&self.bar, self.done.get() as f64 / self.steps as f64);
    }
}
