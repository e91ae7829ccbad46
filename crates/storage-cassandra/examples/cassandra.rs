//! Runs a Cassandra until it is interrupted: `scripts/cassandra [--nodes 3] [--authentication]`.

use std::{env, io, process::ExitCode};

use quipu_storage_cassandra::local::{Nodes, Program, Setup};

fn main() -> ExitCode {
    match setup(env::args().skip(1)).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn setup(mut arguments: impl Iterator<Item = String>) -> Result<Setup, String> {
    const USAGE: &str = "usage: scripts/cassandra [--nodes 1|3] [--authentication]";
    let mut setup = Setup::default();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--nodes" => {
                let nodes = arguments.next().and_then(|nodes| nodes.parse().ok());
                setup.nodes = nodes.filter(|nodes| (1..=9).contains(nodes)).ok_or(USAGE)?;
            }
            "--authentication" => setup.authentication = true,
            _ => return Err(USAGE.to_owned()),
        }
    }
    Ok(setup)
}

/// Says when it is ready, and goes on until the input ends or somebody interrupts.
fn run(setup: Setup) -> Result<(), String> {
    let program = Program::find()?;
    let nodes = Nodes::start(&program, setup)?;
    println!("ready {}", nodes.address("quipu"));
    io::copy(&mut io::stdin(), &mut io::sink()).map(drop).map_err(|error| error.to_string())
}
