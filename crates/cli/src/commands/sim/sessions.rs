//! `quipu sim sessions`: clients that are active now and then.

use super::clients::Arrivals;
use super::table;
use crate::failure::Failure;
use quipu_sim::core::Millis;
use quipu_sim::handoff::sessions::{self, Params};

/// Clients arrive and count in sessions, each always with its server: do only the active ones cost anything?
///
/// Figure 7 of “Scalable eventually consistent counters over unreliable networks” (Almeida and Baquero). For
/// the rows and what is checked see `quipu sim clients --help`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  quipu sim sessions                        sessions of 10 s, every 100 s
  quipu sim sessions --active-percent 1     sessions of 1 s
  quipu sim sessions --clients 10000        a tenth of the clients: seconds")]
pub(crate) struct Args {
    #[command(flatten)]
    arrivals: Arrivals,
    /// One session and the pause after it, in virtual milliseconds
    #[arg(long, default_value_t = Params::default().activity_ms, value_name = "MS")]
    activity_ms: Millis,
    /// How much of that is session; 1 to 100
    #[arg(long, default_value_t = Params::default().active_percent, value_name = "PERCENT")]
    active_percent: u32,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let params = Params {
        clients: args.arrivals.params(),
        activity_ms: args.activity_ms,
        active_percent: args.active_percent,
    };
    table::refuse(params.check())?;
    table::run(&args.arrivals.output, params.clients.end(), |sink| sessions::run(&params, sink))
}
