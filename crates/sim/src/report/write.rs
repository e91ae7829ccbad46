//! Running experiments side by side and writing what they give.

use super::{Experiment, PlotError, Scale, Table, index_html, svg};
use crate::run::RunError;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Experiments that run at a time.
const WORKERS: usize = 2;

/// Told how much of which experiment is done, from 0 to 1; says whether to go on.
pub type RunWatch<'a> = dyn Fn(usize, f64) -> bool + Sync + 'a;

/// An experiment and its result.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Which.
    pub experiment: &'static Experiment,
    /// What it gave.
    pub table: Table,
}

/// Why there is no report. Files of experiments that were finished before are there.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// An experiment has no result.
    #[error("{name}: {error}")]
    Run {
        /// Which.
        name: &'static str,
        /// Why.
        error: RunError,
    },
    /// A plot could not be drawn.
    #[error("{name}: {error}")]
    Plot {
        /// Of which experiment.
        name: &'static str,
        /// Why.
        error: PlotError,
    },
    /// A file could not be written.
    #[error("cannot write {}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

/// Makes the folder if need be, and writes a file into it and removes it again, so that a folder which cannot
/// be written is known before anything runs.
pub fn prepare(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let probe = folder.join(format!(".quipu-{}", std::process::id()));
    std::fs::write(&probe, [])?;
    std::fs::remove_file(&probe)
}

/// Runs the experiments, two at a time, and writes for each `name.tsv` and `name.svg`, and in the end
/// `index.html`. Same seed, same bytes.
pub fn write(
    folder: &Path,
    experiments: &[&'static Experiment],
    scale: Scale,
    seed: u64,
    watch: &RunWatch<'_>,
) -> Result<Vec<Outcome>, ReportError> {
    let next = AtomicUsize::new(0);
    let slots: Vec<Mutex<Option<Result<Table, ReportError>>>> =
        experiments.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(experiment) = experiments.get(index) else { break };
                    let result = one(folder, experiment, scale, seed, &mut |done| watch(index, done));
                    *slots[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
                }
            });
        }
    });
    let results = slots.into_iter().map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner));
    let outcomes = experiments
        .iter()
        .zip(results)
        .map(|(experiment, result)| {
            Ok(Outcome { experiment, table: result.expect("every experiment was taken")? })
        })
        .collect::<Result<Vec<_>, ReportError>>()?;
    file(&folder.join("index.html"), &index_html(&outcomes, scale, seed)?)?;
    Ok(outcomes)
}

fn one(
    folder: &Path,
    experiment: &'static Experiment,
    scale: Scale,
    seed: u64,
    watch: &mut dyn FnMut(f64) -> bool,
) -> Result<Table, ReportError> {
    let name = experiment.name;
    let table = (experiment.run)(scale, seed, watch).map_err(|error| ReportError::Run { name, error })?;
    let plot = svg(experiment, &table).map_err(|error| ReportError::Plot { name, error })?;
    file(&folder.join(format!("{name}.tsv")), &table.to_tsv())?;
    file(&folder.join(format!("{name}.svg")), &plot)?;
    watch(1.0);
    Ok(table)
}

fn file(path: &Path, text: &str) -> Result<(), ReportError> {
    std::fs::write(path, text).map_err(|error| ReportError::File { path: path.to_owned(), error })
}
