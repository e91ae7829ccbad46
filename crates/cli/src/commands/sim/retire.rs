//! `quipu sim retire`: clients that come and go for good.

use super::table::{self, Output, Shape};
use crate::failure::Failure;
use clap::ValueEnum;
use quipu_sim::core::Millis;
use quipu_sim::handoff::Cleanup;
use quipu_sim::handoff::retire::{self, Params};

/// Clients arrive and retire, some of them cut off from their servers: what stays behind?
///
/// Figure 9 of “Scalable eventually consistent counters over unreliable networks” (Almeida and Baquero). A
/// client retires when it has nothing left to hand off. One that is cut off vanishes at once and leaves its
/// slot behind, unless something is done about it. For the rows and what is checked see
/// `quipu sim clients --help`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  quipu sim retire                           one in ten is cut off, and slots stay behind
  quipu sim retire --partition-percent 1     one in a hundred
  quipu sim retire --cleanup on              they leave by another server, with a notice to their own
  quipu sim retire --cleanup fold            abandoned slots are folded into bits after a minute")]
pub(crate) struct Args {
    #[command(flatten)]
    shape: Shape,
    /// Clients at the start, and how many are kept; 1 to 10000000
    #[arg(long, default_value_t = Params::default().clients, value_name = "N")]
    clients: u32,
    /// One client arrives and one begins to retire every so many virtual milliseconds
    #[arg(long, default_value_t = Params::default().arrival_ms, value_name = "MS")]
    arrival_ms: Millis,
    /// How many of the retiring clients are cut off; 0 to 100
    #[arg(long, default_value_t = Params::default().partition_percent, value_name = "PERCENT")]
    partition_percent: u32,
    /// What is done about them and their slots
    #[arg(long, value_enum, default_value = "off")]
    cleanup: CleanupArg,
    /// How often everybody sends
    #[arg(long, default_value_t = Params::default().handler_ms, value_name = "MS")]
    handler_ms: Millis,
    /// When the run ends
    #[arg(long, default_value_t = Params::default().end_ms, value_name = "MS")]
    end_ms: Millis,
    #[command(flatten)]
    output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
enum CleanupArg {
    /// They vanish, and their slots stay for ever
    Off,
    /// They have lost only their own server: they hand over to another and leave with a notice
    On,
    /// They vanish, and their slots are folded after a minute of silence
    Fold,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let params = Params {
        tier0: args.shape.tier0,
        servers: args.shape.servers,
        clients: args.clients,
        arrival_ms: args.arrival_ms,
        partition_percent: args.partition_percent,
        cleanup: match args.cleanup {
            CleanupArg::Off => Cleanup::Off,
            CleanupArg::On => Cleanup::On,
            CleanupArg::Fold => Cleanup::Fold,
        },
        handler_ms: args.handler_ms,
        end_ms: args.end_ms,
        stats_ms: args.output.stats_ms,
        seed: args.output.seed,
        ..Params::default()
    };
    table::refuse(params.check())?;
    table::run(&args.output, params.end_ms, |sink| retire::run(&params, sink))
}
