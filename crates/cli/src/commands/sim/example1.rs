//! `quipu sim example1`: what each node keeps in a large deployment.

use super::output::Output;
use super::progress::watched;
use crate::failure::Failure;
use quipu_sim::core::Millis;
use quipu_sim::handoff::example1::{Params, run as measure, table};

/// 250,000 edges count at once: what do sites, relays and edges have to keep?
///
/// Example 1 of “Scalable eventually consistent counters over unreliable networks” (Almeida and Baquero): 5 data centers
/// with two sites each, 50 relays for each data center, 1,000 edges for each relay. A line for each virtual second, with
/// averages over all nodes of a kind: entries of their version vectors, slots and tokens, and the bytes of a replica as it
/// is stored; in the last column the entries that a naive version vector would have. The last line is from after the end,
/// when everything has been handed over.
///
/// Checked while it runs: no replica reports more than was counted or less than before, nothing is lost or counted twice,
/// and in the end every site reports exactly what was counted. A violation exits with 1.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  quipu sim example1                            as in the paper: half a minute, 430 MB
  quipu sim example1 --edges-per-relay 10       a hundredth of it")]
pub(crate) struct Args {
    /// Data centers
    #[arg(long, default_value_t = Params::default().datacenters, value_name = "N")]
    datacenters: u32,
    /// Sites of each data center, of tier 0; at most 100 in all
    #[arg(long, default_value_t = Params::default().sites, value_name = "N")]
    sites: u32,
    /// Relays of each data center, of tier 1; at most 10000 in all
    #[arg(long, default_value_t = Params::default().relays, value_name = "N")]
    relays: u32,
    /// Edges of each relay, of tier 2; at most 10000000 in all
    #[arg(long, default_value_t = Params::default().edges_per_relay, value_name = "N")]
    edges_per_relay: u32,
    /// How long the edges count, in virtual milliseconds
    #[arg(long, default_value_t = Params::default().end_ms, value_name = "MS")]
    end_ms: Millis,
    /// A line every so many virtual milliseconds
    #[arg(long, default_value_t = Params::default().stats_ms, value_name = "MS")]
    stats_ms: Millis,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let Args { datacenters, sites, relays, edges_per_relay, end_ms, stats_ms, .. } = *args;
    let seed = args.output.seed;
    let params = Params { datacenters, sites, relays, edges_per_relay, end_ms, stats_ms, seed };
    let outcome = watched(|watch| measure(&params, watch))?;
    args.output.print("example1", &table(&outcome.rows))
}
