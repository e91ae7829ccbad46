//! All experiments in one go, as data, plots and a page that compares them with the papers.
//!
//! An [`Experiment`] says how it is run, what is drawn and what is compared; [`experiments`] lists them all.
//! [`write()`] runs some of them side by side and writes the files. To add one, add it to the list.

mod borrow;
mod bounded;
mod example1;
mod experiment;
mod filters;
mod handoff;
mod page;
mod plot;
mod table;
mod write;

pub use experiment::{
    Axis, Comparison, Experiment, Figure, Mark, Panel, Place, Reference, Scale, Series, Spread, Verdict,
};
pub use page::index_html;
pub use plot::{PlotError, draw_figure, svg};
pub use table::{Cell, Table};
pub use write::{Outcome, ReportError, RunWatch, prepare, write};

/// All experiments, in the order of the page.
pub fn experiments() -> Vec<&'static Experiment> {
    handoff::EXPERIMENTS
        .iter()
        .chain(&example1::EXPERIMENTS)
        .chain(&borrow::EXPERIMENTS)
        .chain(&filters::EXPERIMENTS)
        .chain(&bounded::EXPERIMENTS)
        .collect()
}
