//! `quipu edge`: a replica in a file, for scripts, cron jobs and devices that are not always online.

mod count;
mod hand_over;
mod state;
mod status;
mod value;

use crate::failure::Failure;
use clap::Subcommand;

const EXAMPLES: &str = "\
Examples:
  export QUIPU_STATE=/var/lib/backup/counts.quipu QUIPU_SERVERS=http://a:7380,http://b:7380

  quipu edge add backups                  one more, whether a server can be reached or not
  quipu edge add backup-bytes 1048576     any amount
  quipu edge subtract free-slots 2
  quipu edge value backups                what all have counted, as far as a server knows
  quipu edge status                       what waits here to be handed over
  quipu edge flush --deadline 10s || echo 'not all is handed over yet'
  quipu edge retire                       hands over everything and removes the file

Each count is in the file before the command ends, and is handed over once, by this command or a later one, to any of the
servers. Use a file for one purpose on one machine, and do not copy it: two copies hand over the same counts twice, and a
server notices only some of that. docs/edges.md says more.";

/// Count in a file, and hand over to servers when they can be reached
#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// Add to a counter
    Add(count::Args),
    /// Subtract from a counter
    Subtract(count::Args),
    /// Print the value of a counter
    Value(value::Args),
    /// Hand over everything, or say what is still open
    Flush(hand_over::Args),
    /// Hand over everything, say goodbye to servers, and remove the file
    Retire(hand_over::RetireArgs),
    /// Print what waits to be handed over, without asking anybody
    Status(status::Args),
}

pub(crate) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Add(args) => count::run(args, 1),
        Command::Subtract(args) => count::run(args, -1),
        Command::Value(args) => value::run(args),
        Command::Flush(args) => hand_over::flush(args),
        Command::Retire(args) => hand_over::retire(args),
        Command::Status(args) => status::run(args),
    }
}
