//! What the figures have shown: tables, plots, and the paper's values beside ours.

use super::args::Args;
use super::trial::Sample;
use crate::bench::endpoint::Endpoint;
use crate::failure::Failure;
use quipu_sim::report::{Cell, Comparison, Table, Verdict};
use std::path::Path;

/// One figure of the paper, measured.
pub(super) struct Figure {
    /// Names its files.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// Which figure of the paper.
    pub(super) figure: &'static str,
    /// What was done, and what the paper leaves open.
    pub(super) setting: String,
    pub(super) table: Table,
    pub(super) svg: String,
    pub(super) compare: Vec<Comparison>,
    /// What must not be, in whole sentences.
    pub(super) wrong: Vec<String>,
}

pub(super) fn comparison(what: &str, paper: &str, ours: String, verdict: Verdict) -> Comparison {
    Comparison { what: what.to_owned(), paper: paper.to_owned(), ours, verdict }
}

/// The row that all figures have: errors with ids are zero, or they were not tried.
pub(super) fn exact_with_ids(errors: &[Option<f64>]) -> Comparison {
    let what = "error with ids";
    let tried: Vec<f64> = errors.iter().copied().flatten().collect();
    if tried.is_empty() {
        return comparison(what, "0 %", "not tried (--ids off)".to_owned(), Verdict::Ours);
    }
    let worst = tried.iter().copied().fold(0.0, |worst: f64, error| worst.max(error.abs()));
    comparison(what, "0 %", format!("{worst:.3} %"), Verdict::agrees_if(worst == 0.0))
}

/// What is wrong with the counters at the end of a trial, after every operation has been acknowledged.
pub(super) fn wrong(figure: &str, condition: &str, end: &Sample) -> Vec<String> {
    let Sample { issued, without, with_ids, .. } = *end;
    let mut wrong = Vec::new();
    if let Some(counted) = with_ids.filter(|counted| *counted != i128::from(issued)) {
        wrong.push(format!("{figure}, {condition}: with ids {counted} were counted of {issued} adds"));
    }
    if without < i128::from(issued) {
        let lost = i128::from(issued) - without;
        wrong.push(format!(
            "{figure}, {condition}: without ids {lost} of {issued} acknowledged adds are lost"
        ));
    }
    wrong
}

pub(super) fn counted(value: i128) -> Cell {
    u64::try_from(value).map_or(Cell::Number(value as f64), Cell::Count)
}

pub(super) fn write(folder: &Path, figure: &Figure) -> Result<(), Failure> {
    file(&folder.join(format!("{}.tsv", figure.name)), &figure.table.to_tsv())?;
    file(&folder.join(format!("{}.svg", figure.name)), &figure.svg)
}

fn file(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))
}

/// `summary.md`: every figure, with the paper's values beside ours.
pub(super) fn summary(args: &Args, target: &Endpoint, figures: &[Figure]) -> Result<(), Failure> {
    let mut text = format!(
        "# Retries against {}\n\nAfter “Idempotent Distributed Counters Using a Forgetful Bloom Filter”, section VI. \
         {} clients, seed {}.\n",
        target.name, args.clients, args.seed
    );
    for figure in figures {
        text += &format!("\n## {} ({})\n\n{}\n\n", figure.title, figure.figure, figure.setting);
        text += &format!("![{}]({}.svg) ([data]({}.tsv))\n\n", figure.title, figure.name, figure.name);
        text += "| | paper | here | |\n|---|---|---|---|\n";
        for Comparison { what, paper, ours, verdict } in &figure.compare {
            text += &format!("| {what} | {paper} | {ours} | {} |\n", word(*verdict));
        }
    }
    file(&args.out.join("summary.md"), &text)
}

/// The same for a terminal.
pub(super) fn text(args: &Args, figures: &[Figure]) -> String {
    let mut text = String::new();
    for figure in figures {
        text += &format!("{} ({})\n", figure.title, figure.figure);
        for Comparison { what, paper, ours, verdict } in &figure.compare {
            let paper = if paper.is_empty() { String::new() } else { format!(", paper: {paper}") };
            let differs = if *verdict == Verdict::Differs { "   differs" } else { "" };
            text += &format!("  {what}: {ours}{paper}{differs}\n");
        }
    }
    text + &format!("written to {}\n", args.out.join("summary.md").display())
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Agrees => "agrees",
        Verdict::Differs => "differs",
        Verdict::Ours => "",
    }
}
