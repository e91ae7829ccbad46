//! `quipu bench sites`: what it costs that other sites know what is counted here.
//!
//! A [`group`] of real servers is started for each of three measurements: [`bytes`] on the wire, the time until a count is
//! in [`sight`] at another site (over a [`mod@line`] with a delay), and the [`work`] of a server with peers and without.
//! [`report`] says what they have shown.

mod args;
mod bytes;
mod cores;
mod group;
mod line;
mod report;
mod sight;
mod work;

pub(crate) use args::Args;

use crate::commands::sim::output::print;
use crate::commands::sim::progress;
use crate::failure::Failure;
use crate::interrupt;
use indicatif::ProgressBar;
use std::path::Path;

/// What was measured.
struct Results {
    traffic: bytes::Traffic,
    sights: Vec<sight::Sight>,
    works: work::Works,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    // Before anything is started: whoever stops it then still gets an orderly end.
    let _ = interrupt::flag();
    let folder = args.check()?;
    let bar = progress::bar("");
    let results = measure(args, folder.path(), &bar);
    bar.finish_and_clear();
    let results = results?;
    print(&report::text(args, &results))?;
    write(args.json.as_deref(), || Ok(format!("{:#}\n", report::json(args, &results))))?;
    write(args.plot.as_deref(), || report::svg(&results).map_err(Failure::failed))
}

fn measure(args: &Args, folder: &Path, bar: &ProgressBar) -> Result<Results, Failure> {
    let steps = (1 + 2 * args.rounds)
        + args.delay_ms.len() * args.rounds
        + args.keys.len() * args.pipeline.len() * (1 + args.rounds);
    let mut done = 0;
    let mut step = || {
        done += 1;
        progress::show(bar, f64::from(done) / steps as f64);
    };
    bar.set_prefix("bytes");
    let traffic = bytes::measure(args, folder, &mut step)?;
    bar.set_prefix("time");
    let sights = sight::measure(args, folder, &mut step)?;
    bar.set_prefix("work");
    let works = work::measure(args, folder, &mut step)?;
    Ok(Results { traffic, sights, works })
}

/// Writes a file, if one is wanted.
pub(super) fn write(
    path: Option<&Path>,
    text: impl FnOnce() -> Result<String, Failure>,
) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    std::fs::write(path, text()?)
        .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))
}
