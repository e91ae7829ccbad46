//! `quipu restore`: a folder that is a copy becomes a new incarnation of its site.

use crate::failure::Failure;
use quipu_server::{Restored, restore};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  quipu restore --data /var/lib/quipu      the folder was put back from a copy
  quipu site restore 2.1 --server URL      at a member: let it take the place of site 2
  quipu serve --data /var/lib/quipu ...    as before
  quipu import FILE --server URL           if it says that the copy has counted something: count that, once";

/// Give a data folder that was put back from a copy a new incarnation, so that nothing is counted twice
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The folder. No server may run on it
    #[arg(long, env = "QUIPU_DATA", value_name = "DIR", default_value = "./quipu-data")]
    data: PathBuf,
    /// The incarnation, if the cluster has had the next one already
    #[arg(long, value_name = "N")]
    incarnation: Option<u16>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let Restored { old, new, changes, uncounted, is_alone } =
        restore(&args.data, args.incarnation).map_err(Failure::failed)?;
    println!("{} is the folder of site {new} now; it was that of site {old}.", args.data.display());
    println!("The copy has {changes} changes of site {old}: they stay counted.");
    if let Some((file, keys)) = uncounted {
        println!(
            "What the copy has acknowledged since it was started, under {keys} keys, nobody else knows of. It is not counted any"
        );
        println!(
            "more; it is in {file}. `quipu import {file}` at a member counts it, once.",
            file = file.display()
        );
    }
    if is_alone {
        println!("In doubt: whatever site {old} acknowledged after the copy was made is lost with its disk.");
        println!("There are no other sites; start it with `quipu serve`.");
    } else {
        println!(
            "In doubt: what site {old} acknowledged after the copy was made. What its peers have of it comes back when"
        );
        println!("it joins; what only its disk knew is lost.");
        println!("Next: `quipu site restore {new}` at a member, and `quipu serve` on this folder.");
    }
    Ok(())
}
