//! Which seeds to run, for everything that runs many of them.

use indicatif::{ProgressBar, ProgressStyle};
use std::ops::Range;

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
pub(super) fn bar(endless: bool, seeds: &Range<u64>) -> ProgressBar {
    let bar = if endless { ProgressBar::no_length() } else { ProgressBar::new(seeds.end - seeds.start) };
    let template = if endless {
        "{spinner} {human_pos} seeds, {per_sec}, {elapsed}, {msg}"
    } else {
        "{bar:40} {human_pos}/{human_len} seeds, {per_sec}, {eta} left, {msg}"
    };
    bar.with_style(ProgressStyle::with_template(template).expect("the template is valid"))
}
