//! `quipu sim`: everything that runs in virtual time.

use crate::failure::Failure;
use clap::Subcommand;

mod clients;
mod reconnect;
mod retire;
mod sessions;
mod table;
mod trace;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Ever more clients arrive and count: what does a server have to remember?
    Clients(clients::Args),
    /// Clients arrive and count in sessions: do only the active ones cost anything?
    Sessions(sessions::Args),
    /// Clients go offline without a word and come back to another server: do their slots pile up?
    Reconnect(reconnect::Args),
    /// Clients arrive and retire, some of them cut off from their servers: what stays behind?
    Retire(retire::Args),
    /// Random traces of handoff counters, old states replayed, every condition checked at every step
    Trace(trace::Args),
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Clients(args) => clients::run(&args),
        Command::Sessions(args) => sessions::run(&args),
        Command::Reconnect(args) => reconnect::run(&args),
        Command::Retire(args) => retire::run(&args),
        Command::Trace(args) => trace::run(&args),
    }
}
