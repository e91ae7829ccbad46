//! `quipu sim`: everything that runs in virtual time.

use crate::failure::Failure;
use clap::Subcommand;

mod trace;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Random traces of handoff counters, old states replayed, every condition checked at every step
    Trace(trace::Args),
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Trace(args) => trace::run(&args),
    }
}
