//! All experiments in one go, as data, plots and a page that compares them with the papers.

mod table;

pub use table::{Cell, Table};
