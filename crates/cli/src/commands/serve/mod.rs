//! `quipu serve`: settings from flags, environment, file and defaults, and a node that runs with them.

use crate::failure::Failure;
use quipu_server::config::{Config, Origin, Settings, settings};
use std::path::PathBuf;

mod file;
mod flags;
mod log;
mod print;

/// What was said on the command line and in the environment.
pub(crate) struct Args {
    settings: Settings,
    file: Option<PathBuf>,
    print_config: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let mut settings = args.settings.clone();
    if let Some(path) = &args.file {
        file::read(path, &mut settings)?;
    }
    let config = Config::new(&settings)
        .map_err(|error| Failure::Usage { flag: error.flag, problem: error.problem })?;
    if args.print_config {
        print!("{}", print::toml(&config, &settings));
        return Ok(());
    }
    log::start(&config)?;
    Err(Failure::failed("this build has no node to run; it can only --print-config"))
}

impl Args {
    /// Remembers a value with the place that it comes from.
    fn take(&mut self, known: &settings::Known, matches: &clap::ArgMatches) {
        let id = known.name.replace('-', "_");
        let Some(text) = matches.get_one::<String>(&id) else { return };
        let origin = match matches.value_source(&id) {
            Some(clap::parser::ValueSource::EnvVariable) => Origin::Environment,
            _ => Origin::Flag,
        };
        self.settings.give(known, text, origin);
    }
}
