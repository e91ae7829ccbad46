//! `quipu sim`: everything that runs in virtual time.

use crate::failure::Failure;
use clap::Subcommand;

mod all;
mod borrow;
mod bounded;
mod clients;
mod coverage;
mod example1;
mod filters;
mod nodes;
pub(crate) mod output;
pub(crate) mod progress;
mod reconnect;
mod retire;
mod seeds;
mod sessions;
mod system;
mod table;
mod trace;

#[derive(Subcommand)]
pub(crate) enum Command {
    // Without doc comments: each command's own, with all it says, stands on its `Args`.
    Clients(clients::Args),
    Sessions(sessions::Args),
    Reconnect(reconnect::Args),
    Retire(retire::Args),
    Example1(example1::Args),
    Borrow(borrow::Args),
    Trace(trace::Args),
    System(system::Args),
    Nodes(nodes::Args),
    /// How often a forgetful Bloom filter errs when any filter is asked, and when pairs of neighbours are
    FbfMembership(filters::membership::Args),
    /// How often a forgetful Bloom filter errs: by the paper's equation, by the corrected one, and measured
    FbfModel(filters::model::Args),
    /// How often a forgetful Bloom filter errs with shorter and longer refresh periods
    FbfRefresh(filters::refresh::Args),
    /// How often forgetful Bloom filters of more and of fewer filters err
    FbfFilters(filters::number::Args),
    /// Does resizing hold the errors of a forgetful Bloom filter below a target while the load rises and falls?
    FbfAdapt(filters::adapt::Args),
    /// A forgetful Bloom filter against a single one of the same memory that is cleared when it is full
    FbfVsRbf(filters::recyclable::Args),
    /// What a counter is worth when acknowledgements are lost and clients try again
    Retries(filters::retries::Args),
    // As above.
    BoundedLatency(bounded::latency::Args),
    BoundedLoad(bounded::load::Args),
    BoundedExhaust(bounded::exhaust::Args),
    BoundedExcess(bounded::excess::Args),
    /// All experiments: data, plots, and a page that lays the papers' figures beside ours
    All(all::Args),
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Clients(args) => clients::run(&args),
        Command::Sessions(args) => sessions::run(&args),
        Command::Reconnect(args) => reconnect::run(&args),
        Command::Retire(args) => retire::run(&args),
        Command::Example1(args) => example1::run(&args),
        Command::Borrow(args) => borrow::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::System(args) => system::run(&args),
        Command::Nodes(args) => nodes::run(&args),
        Command::FbfMembership(args) => filters::membership::run(&args),
        Command::FbfModel(args) => filters::model::run(&args),
        Command::FbfRefresh(args) => filters::refresh::run(&args),
        Command::FbfFilters(args) => filters::number::run(&args),
        Command::FbfAdapt(args) => filters::adapt::run(&args),
        Command::FbfVsRbf(args) => filters::recyclable::run(&args),
        Command::Retries(args) => filters::retries::run(&args),
        Command::BoundedLatency(args) => bounded::latency::run(&args),
        Command::BoundedLoad(args) => bounded::load::run(&args),
        Command::BoundedExhaust(args) => bounded::exhaust::run(&args),
        Command::BoundedExcess(args) => bounded::excess::run(&args),
        Command::All(args) => all::run(&args),
    }
}
