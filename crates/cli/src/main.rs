//! The `quipu` command: one binary for everything.

use clap::{Parser, Subcommand};
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
    // Without a doc comment: all it says stands on its `Args`.
    Bench(Box<bench::Args>),
    /// Two sites, an edge, a partition, a retry, a handoff and a retirement, step by step in this terminal
    Demo(commands::demo::Args),
    /// Simulations in virtual time, each determined by its seed
    #[command(subcommand)]
    Sim(commands::sim::Command),
}

fn main() -> ExitCode {
    let outcome = match Quipu::parse().command {
        Command::Serve(args) => commands::serve::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Demo(args) => commands::demo::run(&args),
        Command::Sim(command) => commands::sim::run(command),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
