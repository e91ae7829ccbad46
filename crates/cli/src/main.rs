//! The `quipu` command: one binary for everything.

use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

mod bench;
mod commands;
mod failure;
mod interrupt;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Counts in many places at once, and does not miscount.
#[derive(Parser)]
#[command(name = "quipu", version, propagate_version = true, arg_required_else_help = true)]
struct Quipu {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a server that counts for Redis and HTTP clients
    Serve(commands::serve::Args),
    /// Several sites in this terminal, with a live view, and keys to cut and heal the links between them
    Cluster(commands::cluster::Args),
    // Without a doc comment: all it says stands on its `Args`.
    Bench(Box<bench::Args>),
    /// Add to a counter and print its value
    Add(commands::client::add::Args),
    /// Print the values of counters
    Get(commands::client::get::Args),
    /// Create a counter that never crosses a minimum or a maximum
    Create(commands::client::create::Args),
    // Without a doc comment: all it says stands on its `Args`.
    Move(commands::client::movement::Args),
    /// List counters in the order of their keys
    List(commands::client::list::Args),
    /// Print a counter's value whenever it changes
    Watch(commands::client::watch::Args),
    /// Print everything that is known about a counter
    Info(commands::client::info::Args),
    /// Ask all sites for their books, and say whether these balance
    Audit(commands::client::audit::Args),
    // Without a doc comment: all it says stands on its commands.
    #[command(subcommand)]
    Site(commands::client::site::Command),
    // Without a doc comment: all it says stands on its commands.
    #[command(subcommand)]
    Node(commands::client::node::Command),
    // Without a doc comment: all it says stands on its commands.
    #[command(subcommand)]
    Edge(commands::edge::Command),
    // Without a doc comment: all it says stands on its `Args`.
    Retire(commands::client::retire::Args),
    // Without a doc comment: all it says stands on its `Args`.
    Repair(commands::repair::Args),
    // Without a doc comment: all it says stands on its `Args`.
    Restore(commands::restore::Args),
    // Without a doc comment: all it says stands on its `Args`.
    Import(commands::client::import::Args),
    // Without a doc comment: all it says stands on its commands.
    #[command(subcommand)]
    Storage(commands::storage::Command),
    /// Two sites, an edge, a partition, a retry, a handoff and a retirement, step by step in this terminal
    Demo(commands::demo::Args),
    /// Simulations in virtual time, each determined by its seed
    #[command(subcommand)]
    Sim(commands::sim::Command),
    /// Print a script that completes commands and flags in a shell
    Completions(commands::completions::Args),
}

fn main() -> ExitCode {
    let outcome = match Quipu::parse().command {
        Command::Serve(args) => commands::serve::run(&args),
        Command::Cluster(args) => commands::cluster::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Add(args) => commands::client::add::run(&args),
        Command::Get(args) => commands::client::get::run(&args),
        Command::Create(args) => commands::client::create::run(&args),
        Command::Move(args) => commands::client::movement::run(&args),
        Command::List(args) => commands::client::list::run(&args),
        Command::Watch(args) => commands::client::watch::run(&args),
        Command::Info(args) => commands::client::info::run(&args),
        Command::Audit(args) => commands::client::audit::run(&args),
        Command::Site(command) => commands::client::site::run(&command),
        Command::Node(command) => commands::client::node::run(&command),
        Command::Edge(command) => commands::edge::run(&command),
        Command::Retire(args) => commands::client::retire::run(&args),
        Command::Repair(args) => commands::repair::run(&args),
        Command::Restore(args) => commands::restore::run(&args),
        Command::Import(args) => commands::client::import::run(&args),
        Command::Storage(command) => commands::storage::run(&command),
        Command::Demo(args) => commands::demo::run(&args),
        Command::Sim(command) => commands::sim::run(command),
        Command::Completions(args) => commands::completions::run(&args, Quipu::command()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
