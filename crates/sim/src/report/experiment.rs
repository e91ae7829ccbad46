//! What the report needs to know of an experiment.

use super::Table;
use crate::run::{RunError, Watch};

/// How much to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// As in the paper.
    Full,
    /// Smaller runs, in seconds.
    Quick,
}

/// An experiment of a paper.
#[derive(Debug)]
pub struct Experiment {
    /// Names its files.
    pub name: &'static str,
    /// What is asked.
    pub title: &'static str,
    /// Which paper.
    pub paper: &'static str,
    /// Which figure of it.
    pub figure: &'static str,
    /// What is done, and what the paper leaves open.
    pub setting: &'static str,
    /// The command that gives the same data, with the same seed.
    pub command: &'static str,
    /// Runs it on one thread.
    pub run: fn(Scale, u64, &mut Watch<'_>) -> Result<Table, RunError>,
    /// The horizontal axis of all panels.
    pub x: Axis,
    /// What is drawn, from top to bottom.
    pub panels: &'static [Panel],
    /// The paper's values, to be drawn as lines.
    pub references: fn(&Table) -> Vec<Reference>,
    /// The paper's values beside ours.
    pub compare: fn(&Table) -> Vec<Comparison>,
    /// Where we differ from the paper and why, in whole sentences.
    pub remarks: &'static str,
}

/// What is drawn of a table.
#[derive(Debug, Clone, Copy)]
pub struct Figure<'a> {
    /// What is asked.
    pub title: &'a str,
    /// The horizontal axis of all panels.
    pub x: &'a Axis,
    /// From top to bottom.
    pub panels: &'a [Panel],
    /// The paper's values, drawn as lines.
    pub references: &'a [Reference],
}

/// How an axis is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// Evenly.
    Linear,
    /// By powers of ten. What is not above zero is not drawn.
    Log,
}

/// The horizontal axis.
#[derive(Debug, Clone, Copy)]
pub struct Axis {
    /// The column that it shows.
    pub column: &'static str,
    /// What stands beside it, with the unit.
    pub label: &'static str,
    /// How it is divided.
    pub spread: Spread,
}

/// One diagram.
#[derive(Debug, Clone, Copy)]
pub struct Panel {
    /// What stands beside the vertical axis, with the unit.
    pub label: &'static str,
    /// How the vertical axis is divided.
    pub spread: Spread,
    /// What is drawn.
    pub series: &'static [Series],
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A line.
    Line,
    /// A dashed line.
    Dashes,
    /// Dots, for what is measured.
    Dots,
}

/// One column as a curve.
#[derive(Debug, Clone, Copy)]
pub struct Series {
    /// The column.
    pub column: &'static str,
    /// Its name in the legend.
    pub label: &'static str,
    /// How it is drawn.
    pub mark: Mark,
    /// Which colour of the palette; what belongs together has the same.
    pub colour: usize,
}

/// Where a reference line is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Place {
    /// Across, at this height.
    Across(f64),
    /// From top to bottom, here.
    Down(f64),
}

/// A value of the paper, drawn as a line.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    /// In which panel.
    pub panel: usize,
    /// Where.
    pub place: Place,
    /// Its name in the legend.
    pub label: String,
}

/// What a comparison comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// As the paper says.
    Agrees,
    /// Not as the paper says.
    Differs,
    /// The paper says nothing.
    Ours,
}

impl Verdict {
    /// Agrees or differs.
    pub fn agrees_if(agrees: bool) -> Self {
        if agrees { Verdict::Agrees } else { Verdict::Differs }
    }
}

/// A value of the paper beside ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// Which value.
    pub what: String,
    /// The paper's.
    pub paper: String,
    /// Ours.
    pub ours: String,
    /// What it comes to.
    pub verdict: Verdict,
}
