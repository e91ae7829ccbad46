//! `quipu sim borrow`: a borrowed identity against handoff.

use super::output::Output;
use super::progress::watched;
use crate::failure::Failure;
use quipu_sim::borrow::{Params, by_loss, over_time, run as measure};
use quipu_sim::core::Millis;

/// A borrowed identity against handoff, on the same clients that come and go
///
/// The counter of “Borrowing an Identity for a Distributed Counter” (Enes, Baquero, Almeida and Leitão) against that of
/// “Scalable eventually consistent counters over unreliable networks” (Almeida and Baquero). Clients arrive, count, and
/// leave as soon as they may; some vanish without a word. In the middle of the run the first permanent node is cut off,
/// and its clients go on with another.
///
/// A line for each loss, with columns for handoff, borrow (whole states, as in the paper) and parts (borrow, where messages
/// of clients carry only what is about them):
/// messages and bytes of clients and bytes between nodes, for each client that arrived; moves to another node; virtual
/// milliseconds until a client could count (ready), until permanent nodes had all that it counted (held) and until it
/// might leave; what a node keeps when all clients are gone (left), and what each client that vanished took with it (lost).
///
/// Checked while it runs: nobody reports more than was counted or less than before, and in the end every node reports
/// exactly what was counted and not lost. A violation exits with 1.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  quipu sim borrow                                    three losses: a minute
  quipu sim borrow --over-time --loss 10              what a permanent node keeps, second by second
  quipu sim borrow --vanish-percent 0 --outage-ms 0   nobody vanishes and nothing is cut off")]
pub(crate) struct Args {
    /// Permanent nodes; 1 to 100
    #[arg(long, default_value_t = Params::default().nodes, value_name = "N")]
    nodes: u32,
    /// A client arrives every so many virtual milliseconds
    #[arg(long, default_value_t = Params::default().arrival_ms, value_name = "MS")]
    arrival_ms: Millis,
    /// How long a client counts on average, from half of it to one and a half
    #[arg(long, default_value_t = Params::default().stay_ms, value_name = "MS")]
    stay_ms: Millis,
    /// A client counts one and sends every so many virtual milliseconds
    #[arg(long, default_value_t = Params::default().send_ms, value_name = "MS")]
    send_ms: Millis,
    /// A permanent node sends to the others every so many virtual milliseconds
    #[arg(long, default_value_t = Params::default().gossip_ms, value_name = "MS")]
    gossip_ms: Millis,
    /// How many clients vanish; 0 to 100
    #[arg(long, default_value_t = Params::default().vanish_percent, value_name = "PERCENT")]
    vanish_percent: u32,
    /// A client that has not heard of its node for so long goes on with another
    #[arg(long, default_value_t = Params::default().patience_ms, value_name = "MS")]
    patience_ms: Millis,
    /// How long the first node is cut off, from the middle of the run; 0 is never
    #[arg(long, default_value_t = Params::default().outage_ms, value_name = "MS")]
    outage_ms: Millis,
    /// With handoff, the slot of a client that has been silent for so long is folded into a bit
    #[arg(long, default_value_t = Params::default().fold_after_ms, value_name = "MS")]
    fold_after_ms: Millis,
    /// How many messages are lost, in percent: runs for each number; 0 to 90
    #[arg(long, value_delimiter = ',', default_values_t = Params::default().loss_percent, value_name = "PERCENT,...")]
    loss: Vec<u32>,
    /// When the last client arrives
    #[arg(long, default_value_t = Params::default().end_ms, value_name = "MS")]
    end_ms: Millis,
    /// What a permanent node keeps, over time, instead of totals
    #[arg(long)]
    over_time: bool,
    /// With --over-time, a line every so many virtual milliseconds
    #[arg(long, default_value_t = Params::default().stats_ms, value_name = "MS")]
    stats_ms: Millis,
    #[command(flatten)]
    output: Output,
}

impl Args {
    fn params(&self) -> Params {
        Params {
            nodes: self.nodes,
            arrival_ms: self.arrival_ms,
            stay_ms: self.stay_ms,
            send_ms: self.send_ms,
            gossip_ms: self.gossip_ms,
            vanish_percent: self.vanish_percent,
            patience_ms: self.patience_ms,
            outage_ms: self.outage_ms,
            fold_after_ms: self.fold_after_ms,
            loss_percent: self.loss.clone(),
            end_ms: self.end_ms,
            stats_ms: self.stats_ms,
            seed: self.output.seed,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let params = args.params();
    let compared = watched(|watch| measure(&params, watch))?;
    args.output.print("borrow", &if args.over_time { over_time(&compared) } else { by_loss(&compared) })
}
