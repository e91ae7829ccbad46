//! `quipu serve`: settings from flags, environment, file and defaults, and a node that runs with them.

use crate::failure::Failure;
use quipu_server::Server;
use quipu_server::config::{Config, Origin, Settings, settings};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

mod file;
mod flags;
mod log;
mod print;

/// How long a node waits that could not start because its database does not answer; twice as long each time.
const START_AGAIN_AFTER_MIN: Duration = Duration::from_secs(1);
const START_AGAIN_AFTER_MAX: Duration = Duration::from_secs(8);

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
    serve(&config)
}

/// Runs a node until it is told to stop.
fn serve(config: &Config) -> Result<(), Failure> {
    let (stop, stopped) = mpsc::channel();
    // Before anything is opened: whoever stops it then still gets an orderly end.
    ctrlc::set_handler(move || _ = stop.send(()))
        .map_err(|error| Failure::failed(format!("cannot wait for signals: {error}")))?;
    let Some(server) = start(config, &stopped)? else { return Ok(()) };
    // Nobody may read it, or the reader may have gone: it serves all the same.
    let _ = writeln!(std::io::stdout(), "{}", ready(&server));
    tracing::info!("{}", ready(&server));
    // The sender lives as long as the handler, which is for ever.
    let _ = stopped.recv();
    tracing::info!("stopping");
    server.stop().map_err(Failure::failed)?;
    tracing::info!("stopped; everything acknowledged is stored");
    Ok(())
}

/// Starts a node, as soon as its database answers. `None`: it was told to stop before that.
fn start(config: &Config, stopped: &mpsc::Receiver<()>) -> Result<Option<Server>, Failure> {
    let mut wait = START_AGAIN_AFTER_MIN;
    loop {
        let error = match Server::start(config) {
            Ok(server) => return Ok(Some(server)),
            Err(error) if error.may_pass() => error,
            Err(error) => return Err(Failure::failed(error)),
        };
        tracing::warn!("{error}. Nothing is served yet; trying again in {} s", wait.as_secs());
        if stopped.recv_timeout(wait).is_ok() {
            tracing::info!("stopped before anything was served");
            return Ok(None);
        }
        wait = (wait * 2).min(START_AGAIN_AFTER_MAX);
    }
}

/// One line for people and scripts that wait for it.
fn ready(server: &Server) -> String {
    let address = |address: Option<SocketAddr>| address.map_or_else(|| "off".to_owned(), |it| it.to_string());
    let link = server.link_address().map_or_else(String::new, |link| format!(" link={link}"));
    let cluster = server.resp_cluster_address();
    let cluster = cluster.map_or_else(String::new, |cluster| format!(" resp-cluster={cluster}"));
    let (resp, http) = (address(server.resp_address()), address(server.http_address()));
    format!("ready resp={resp} http={http}{link}{cluster}")
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
