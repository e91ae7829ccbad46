//! `quipu sim clients`: ever more clients.

use super::table::{self, Output, Shape};
use crate::failure::Failure;
use quipu_sim::core::Millis;
use quipu_sim::handoff::clients::{self, Params};

/// Ever more clients arrive and count: what does a server have to remember?
///
/// Figure 6 of “Scalable eventually consistent counters over unreliable networks” (Almeida and Baquero). A row
/// has the virtual time in milliseconds, clients, active clients, and two averages over the servers: the
/// entries that a naive version vector would have (ids), and the slots that a handoff counter has.
///
/// Everything is checked while it runs: no replica reports more than was counted or less than before (at every
/// merge), and nothing is lost or counted twice (at every row). A violation exits with 1.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  quipu sim clients                              the paper's run with 100 servers: minutes
  quipu sim clients --servers 1000               ten times the servers, a tenth of the slots
  quipu sim clients --clients 10000 > fig6.tsv   a tenth of it: seconds
  quipu sim clients --clients 1000000 --arrival-ms 0 --end-ms 60000
                                                 a million clients at once for a minute")]
pub(crate) struct Args {
    #[command(flatten)]
    arrivals: Arrivals,
}

// Not a doc comment: clap would show it instead of that of the command.
// What this experiment has in common with that of sessions.
#[derive(clap::Args)]
pub(super) struct Arrivals {
    #[command(flatten)]
    shape: Shape,
    /// Clients at the end; 1 to 10000000
    #[arg(long, default_value_t = Params::default().clients, value_name = "N")]
    clients: u32,
    /// One client arrives every so many virtual milliseconds; with 0 all are there from the start
    #[arg(long, default_value_t = Params::default().arrival_ms, value_name = "MS")]
    arrival_ms: Millis,
    /// When the run ends [default: when the last client arrives]
    #[arg(long, value_name = "MS")]
    end_ms: Option<Millis>,
    #[command(flatten)]
    pub(super) output: Output,
}

impl Arrivals {
    pub(super) fn params(&self) -> Params {
        Params {
            tier0: self.shape.tier0,
            servers: self.shape.servers,
            clients: self.clients,
            arrival_ms: self.arrival_ms,
            end_ms: self.end_ms,
            stats_ms: self.output.stats_ms,
            seed: self.output.seed,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let params = args.arrivals.params();
    table::refuse(params.check())?;
    table::run(&args.arrivals.output, params.end(), |sink| clients::run(&params, sink))
}
