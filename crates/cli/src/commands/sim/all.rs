//! `quipu sim all`: every experiment, its plot, and the page that compares.

use super::output::{print, rows};
use super::progress;
use crate::failure::Failure;
use crate::interrupt;
use indicatif::MultiProgress;
use quipu_sim::RunError;
use quipu_sim::report::{Comparison, Outcome, ReportError, Scale, Verdict, experiments, prepare, write};
use serde_json::json;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// All experiments: data, plots, and a page that lays the papers' figures beside ours
///
/// Runs two experiments at a time and writes for each its data (.tsv) and a plot (.svg), and one index.html
/// that shows them all. It needs nothing else: open it from the folder.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  quipu sim all --out report                         as in the papers
  quipu sim all --out report --quick                 smaller runs, in a minute or two")]
pub(crate) struct Args {
    /// The folder to write to; made if it is not there
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Smaller runs, in a minute or two
    #[arg(long)]
    quick: bool,
    /// The same seed gives the same files
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// One JSON object with all numbers instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    prepare(&args.out).map_err(|error| Failure::Usage {
        flag: "--out",
        problem: format!(
            "cannot write to {}: {error}; name a folder that can be written",
            args.out.display()
        ),
    })?;
    let experiments = experiments();
    let interrupted = interrupt::flag();
    let all_bars = MultiProgress::new();
    let bars: Vec<_> =
        experiments.iter().map(|experiment| all_bars.add(progress::bar(experiment.name))).collect();
    let scale = if args.quick { Scale::Quick } else { Scale::Full };
    let outcome = write(&args.out, &experiments, scale, args.seed, &|index, done| {
        progress::show(&bars[index], done);
        !interrupted.load(Ordering::Relaxed)
    });
    bars.iter().for_each(indicatif::ProgressBar::finish_and_clear);
    let outcomes = outcome.map_err(|error| match error {
        ReportError::Run { error: RunError::Stopped, .. } => Failure::Interrupted,
        error => Failure::failed(error),
    })?;
    print(&if args.json { to_json(args, &outcomes) } else { to_text(args, &outcomes) })
}

fn to_json(args: &Args, outcomes: &[Outcome]) -> String {
    let experiment = |Outcome { experiment, table }: &Outcome| {
        let comparisons: Vec<_> = (experiment.compare)(table).iter().map(comparison).collect();
        json!({
            "experiment": experiment.name, "figure": experiment.figure, "command": experiment.command,
            "comparisons": comparisons, "rows": rows(table),
        })
    };
    let all: Vec<_> = outcomes.iter().map(experiment).collect();
    format!("{}\n", json!({ "seed": args.seed, "quick": args.quick, "experiments": all }))
}

fn comparison(row: &Comparison) -> serde_json::Value {
    json!({ "what": row.what, "paper": row.paper, "ours": row.ours, "verdict": word(row.verdict) })
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Agrees => "agrees",
        Verdict::Differs => "differs",
        Verdict::Ours => "not in the paper",
    }
}

fn to_text(args: &Args, outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for Outcome { experiment, table } in outcomes {
        text += &format!("{} ({})\n", experiment.title, experiment.figure);
        for row in (experiment.compare)(table) {
            let paper = if row.paper.is_empty() { String::new() } else { format!(", paper: {}", row.paper) };
            let differs = if row.verdict == Verdict::Differs { "   differs" } else { "" };
            text += &format!("  {}: {}{paper}{differs}\n", row.what, row.ours);
        }
    }
    text + &format!("written to {}\n", args.out.join("index.html").display())
}
