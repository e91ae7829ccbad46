//! `quipu sim reconnect`: clients that go offline and come back to another server.

use super::table::{self, Output, Shape};
use crate::failure::Failure;
use clap::ValueEnum;
use quipu_sim::core::Millis;
use quipu_sim::handoff::reconnect::{self, Exchange, Params};

/// Clients go offline without a word and come back to a random server: do their slots pile up?
///
/// Figure 8 of “Scalable eventually consistent counters over unreliable networks” (Almeida and Baquero). With
/// the naive exchange a client talks to its new server alone, and slots stay behind at the old ones. With the
/// smart one clients also send to servers for which they hold tokens, and servers to clients for which they
/// hold slots. For the rows and what is checked see `quipu sim clients --help`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  quipu sim reconnect                                        the smart exchange: about 10 slots
  quipu sim reconnect --exchange naive                       hundreds of slots after ten minutes
  quipu sim reconnect --exchange naive --active-percent 100  nobody disconnects: about 5 slots")]
pub(crate) struct Args {
    /// How messages are exchanged
    #[arg(long, value_enum, default_value = "smart")]
    exchange: ExchangeArg,
    #[command(flatten)]
    shape: Shape,
    /// Clients, from the start to the end; 1 to 10000000
    #[arg(long, default_value_t = Params::default().clients, value_name = "N")]
    clients: u32,
    /// One time online and one offline, in virtual milliseconds
    #[arg(long, default_value_t = Params::default().activity_ms, value_name = "MS")]
    activity_ms: Millis,
    /// How much of that is online; 1 to 100, with 100 nobody disconnects
    #[arg(long, default_value_t = Params::default().active_percent, value_name = "PERCENT")]
    active_percent: u32,
    /// How often everybody sends, in the smart exchange
    #[arg(long, default_value_t = Params::default().handler_ms, value_name = "MS")]
    handler_ms: Millis,
    /// When the run ends
    #[arg(long, default_value_t = Params::default().end_ms, value_name = "MS")]
    end_ms: Millis,
    #[command(flatten)]
    output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
enum ExchangeArg {
    /// With the new server alone
    Naive,
    /// With all servers with which there is something to finish
    Smart,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let params = Params {
        exchange: match args.exchange {
            ExchangeArg::Naive => Exchange::Naive,
            ExchangeArg::Smart => Exchange::Smart,
        },
        tier0: args.shape.tier0,
        servers: args.shape.servers,
        clients: args.clients,
        activity_ms: args.activity_ms,
        active_percent: args.active_percent,
        handler_ms: args.handler_ms,
        end_ms: args.end_ms,
        stats_ms: args.output.stats_ms,
        seed: args.output.seed,
        ..Params::default()
    };
    table::refuse(params.check())?;
    table::run(&args.output, params.end_ms, |sink| reconnect::run(&params, sink))
}
