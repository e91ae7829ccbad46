//! `quipu bench edges`: what edges cost a server, and what they do by themselves.
//!
//! Four measurements, each with a real server of its own where it needs one: a [`crowd`] of edges that come, count, hand
//! over and go; the [`bytes`] of a handoff; what an [`idle`] edge costs; and [`counting`] at the edge, without any server.
//! [`report`] says what they have shown.

mod args;
mod bytes;
mod counting;
mod crowd;
mod edge;
mod idle;
mod report;
mod server;

pub(crate) use args::Args;

use std::path::Path;

use self::args::Part;
use crate::bench::sites::write;
use crate::commands::sim::output::print;
use crate::failure::Failure;
use crate::interrupt::{self, go_on};

/// What was measured; nothing where it was not asked for.
#[derive(Default)]
struct Results {
    crowd: Option<crowd::Crowd>,
    bytes: Option<Vec<bytes::Handoff>>,
    idle: Option<idle::Idle>,
    counting: Option<Vec<counting::Way>>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    // Before anything is started: whoever stops it then still gets an orderly end.
    let _ = interrupt::flag();
    let folder = args.check()?;
    let results = measure(args, folder.path())?;
    print(&report::text(args, &results))?;
    write(args.json.as_deref(), || Ok(format!("{:#}\n", report::json(args, &results))))?;
    write(args.plot.as_deref(), || report::svg(&results).map_err(Failure::failed))
}

fn measure(args: &Args, folder: &Path) -> Result<Results, Failure> {
    let mut results = Results::default();
    for part in args.parts() {
        go_on()?;
        let folder = folder.join(format!("{part:?}"));
        std::fs::create_dir(&folder).map_err(Failure::failed)?;
        match part {
            Part::Handoffs => results.crowd = Some(crowd::measure(args, &folder)?),
            Part::Bytes => results.bytes = Some(bytes::measure(args, &folder)?),
            Part::Idle => results.idle = Some(idle::measure(args, &folder)?),
            Part::Counting => results.counting = Some(counting::measure(args, &folder)?),
        }
    }
    Ok(results)
}

/// A count that is not what was counted is a failure of everything else that was measured.
fn must_be(expected: u64, counted: u64) -> Result<(), Failure> {
    match counted == expected {
        true => Ok(()),
        false => {
            Err(Failure::failed(format!("{expected} were handed over, and the server has counted {counted}")))
        }
    }
}
