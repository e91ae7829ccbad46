//! `quipu repair`: what can be done about a folder, or the file of an edge, of which something is gone.

use crate::failure::Failure;
use quipu_edge::Damage;
use quipu_storage::embedded::{Embedded, Findings, Remedy};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  quipu repair --data /var/lib/quipu          what is wrong, and what a repair would lose; changes nothing
  quipu repair --data /var/lib/quipu --yes    repairs it; the damaged files stay beside the new ones
  quipu restore --data /var/lib/quipu         then: what was repaired is like a copy
  quipu repair --state counts.quipu           the same for the file of an edge

If there is a copy of the folder that is newer than the damage, put that back and `quipu restore` it instead: it has more.
Exit code 0 if nothing is wrong, or it was repaired; 1 if something is wrong and was not repaired.";

/// Say what is missing or damaged in a data folder, what a repair would lose, and repair it
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The folder. No server may run on it
    #[arg(long, env = "QUIPU_DATA", value_name = "DIR", default_value = "./quipu-data")]
    data: PathBuf,
    /// The file of an edge, in place of a folder
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Repair it, and lose what cannot be read
    #[arg(long)]
    yes: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.state {
        Some(state) => repair_state(state, args.yes),
        None => repair_folder(&args.data, args.yes),
    }
}

fn repair_folder(folder: &Path, yes: bool) -> Result<(), Failure> {
    let findings = Embedded::examine(folder).map_err(Failure::failed)?;
    let place = folder.display();
    if findings.remedy == Remedy::Whole {
        println!("{place} is whole.");
        return Ok(());
    }
    tell(&format!("{place} is not whole"), &findings.wrong);
    if findings.remedy == Remedy::None {
        return Err(Failure::failed(
            "it cannot be repaired, and nothing was changed. Put back a copy and run `quipu restore` on it, or begin with an \
             empty folder: at a cluster of several sites, as a new one (`quipu site add`)",
        ));
    }
    tell_lost(&findings);
    if !yes {
        return Err(Failure::failed("nothing was changed; --yes repairs it"));
    }
    let done = Embedded::repair(folder).map_err(Failure::failed)?;
    if done.remedy == Remedy::Log {
        println!("Repaired. The damaged files are in {}/log, with names that end in \".damaged-\".", place);
        println!("Next: `quipu restore --data {place}`, because it is like a copy now.");
    } else {
        println!("Repaired. Start it with `quipu serve`.");
    }
    Ok(())
}

fn tell_lost(findings: &Findings) {
    match findings.lost.is_empty() {
        true => println!("A repair loses nothing that is known."),
        false => {
            tell("A repair loses", &findings.lost);
            println!("What other sites have of it comes back when the folder was restored.");
        }
    }
}

fn tell(what: &str, items: &[String]) {
    println!("{what}:");
    items.iter().for_each(|item| println!("  - {item}"));
}

fn repair_state(state: &Path, yes: bool) -> Result<(), Failure> {
    let damage = quipu_edge::examine(state).map_err(Failure::failed)?;
    let Some(Damage { why, frames_kept, bytes_lost }) = damage else {
        println!("{} is whole.", state.display());
        return Ok(());
    };
    println!("{why}.");
    if frames_kept == 0 {
        return Err(Failure::failed(
            "nothing in it can be read, and nothing was changed. What was counted in it and not handed over is lost; to begin \
             with a new edge, move the file away",
        ));
    }
    println!("{frames_kept} groups of changes before the damage can be read.");
    println!(
        "A repair loses what comes after them: {bytes_lost} bytes, counts that were acknowledged among them."
    );
    println!("What it keeps may have been handed over since: that is not known.");
    if !yes {
        return Err(Failure::failed("nothing was changed; --yes keeps what can be read"));
    }
    quipu_edge::repair(state).map_err(Failure::failed)?;
    println!(
        "Repaired. The damaged file is {}.damaged. `quipu edge status` shows what waits.",
        state.display()
    );
    println!(
        "Nothing is handed over from it before you say so: `quipu edge flush --original`, or not at all."
    );
    Ok(())
}
