//! The flags and their help. Their values stay text here: what is right is said once, for every source.

use super::Args;
use clap::{ArgMatches, Command, FromArgMatches};
use quipu_server::config::{Settings, settings};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  quipu serve                                    on this machine, data in ./quipu-data
  redis-cli -p 7379 incr hits                    count with any Redis client
  curl http://127.0.0.1:7380/v1/counters/hits    or over HTTP

  quipu serve --data /var/lib/quipu --memory 4GiB --resp 0.0.0.0:7379 --requirepass SECRET
  quipu serve --site 1 --peers 2@10.0.0.2:7381,3@10.0.0.3:7381 --link 10.0.0.1:7381 --requirepass SECRET
                                                 one of three sites
  quipu serve --tier 1 --parents 10.0.0.1:7381,10.0.0.2:7381                             a relay for edges near by
  quipu serve --storage cassandra://10.0.0.7,10.0.0.8/quipu                              a site on a database
  quipu serve --config quipu.toml --print-config what would run, and where each value comes from

A value is taken from the flag, else from the environment, else from the file, else it is the default. In the file a
setting has the name of its flag: idmp-window = \"1h\".";

/// Run a server that counts for Redis and HTTP clients
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
struct Flags {
    /// The folder that holds everything; made if it is not there [default: ./quipu-data]
    #[arg(long, env = "QUIPU_DATA", value_name = "DIR")]
    data: Option<String>,
    /// A database that holds everything instead of a folder: cassandra://HOST,HOST:PORT/KEYSPACE, of Apache
    /// Cassandra or ScyllaDB. `quipu storage init` prepares it. Several nodes that are started on it share the site
    #[arg(long, env = "QUIPU_STORAGE", value_name = "URL")]
    storage: Option<String>,
    /// The user of the database
    #[arg(long, env = "QUIPU_STORAGE_USER", value_name = "NAME")]
    storage_user: Option<String>,
    /// And the password. Better in the environment or the file: other users of the machine see flags
    #[arg(long, env = "QUIPU_STORAGE_PASSWORD", value_name = "PASSWORD", hide_env_values = true)]
    storage_password: Option<String>,
    /// Encrypt what goes to the database, and trust those whom the authorities in this file (PEM) vouch for
    #[arg(long, env = "QUIPU_STORAGE_TLS", value_name = "FILE")]
    storage_tls: Option<String>,
    /// How long a command waits when the database does not answer, before it is told so [default: 5s]
    #[arg(long, env = "QUIPU_STORAGE_DEADLINE", value_name = "TIME")]
    storage_deadline: Option<String>,
    /// Where Redis clients connect; port 0 picks a free one, `off` disables it [default: 127.0.0.1:7379]
    #[arg(long, env = "QUIPU_RESP", value_name = "ADDR")]
    resp: Option<String>,
    /// Where clients of a Redis Cluster connect, which go to the node that has a key by themselves; port 0 picks a free one,
    /// `off` disables it [default: off]
    #[arg(long, env = "QUIPU_RESP_CLUSTER", value_name = "ADDR")]
    resp_cluster: Option<String>,
    /// Where HTTP clients connect; port 0 picks a free one, `off` disables it [default: 127.0.0.1:7380]
    #[arg(long, env = "QUIPU_HTTP", value_name = "ADDR")]
    http: Option<String>,
    /// The number of this site in its cluster, from 1, another one at each; fixed once its data folder is made
    /// [default: 1]
    #[arg(long, env = "QUIPU_SITE", value_name = "N")]
    site: Option<String>,
    /// Where other sites connect; port 0 picks a free one, `off` leaves it to this site to connect. Opened if there are
    /// peers or this is given. It has no password: keep it to a network of your own [default: 127.0.0.1:7381]
    #[arg(long, env = "QUIPU_LINK", value_name = "ADDR")]
    link: Option<String>,
    /// The name or address under which other nodes of this site, and clients of a Redis Cluster, reach this node, if that is
    /// not where it listens
    #[arg(long, env = "QUIPU_ADVERTISE", value_name = "HOST")]
    advertise: Option<String>,
    /// How long another node of this site may be silent before its shards are taken, the same at all of them [default: 5s]
    #[arg(long, env = "QUIPU_TAKEOVER_AFTER", value_name = "TIME")]
    takeover_after: Option<String>,
    /// The other sites of the cluster, NUMBER@HOST:PORT apart by commas: 2@10.0.0.2:7381,3@10.0.0.3:7381. Who belongs to
    /// it is fixed by the first start; later it is where they are found
    #[arg(long, env = "QUIPU_PEERS", value_name = "LIST")]
    peers: Option<String>,
    /// Members of a cluster that runs, NUMBER@HOST:PORT apart by commas: with an empty data folder this site joins it, once
    /// `quipu site add` was run at one of them
    #[arg(long, env = "QUIPU_JOIN", value_name = "LIST")]
    join: Option<String>,
    /// 0 is a site; 1 is a relay, which takes what edges hand over, counts, and hands it all over to its parents; fixed once a
    /// data folder is made [default: 0]
    #[arg(long, env = "QUIPU_TIER", value_name = "N")]
    tier: Option<String>,
    /// The links of the sites that a relay hands over to, HOST:PORT apart by commas: 10.0.0.1:7381,10.0.0.2:7381. It uses one
    /// of them, and the next one when that one cannot be reached
    #[arg(long, env = "QUIPU_PARENTS", value_name = "LIST")]
    parents: Option<String>,
    /// The name of the cluster, the same at all sites; fixed once a data folder is made [default: quipu]
    #[arg(long, env = "QUIPU_CLUSTER", value_name = "NAME")]
    cluster: Option<String>,
    /// When a count is acknowledged: `always` once it is on disk, or `interval:<ms>`, flushed that often; a crash of
    /// the machine then loses what was acknowledged within the interval [default: always]
    #[arg(long, env = "QUIPU_DURABILITY", value_name = "WHEN")]
    durability: Option<String>,
    /// How much memory counters may take; the others stay on disk [default: 1GiB]
    #[arg(long, env = "QUIPU_MEMORY", value_name = "SIZE")]
    memory: Option<String>,
    /// Threads that run shards [default: the number of cores minus one]
    #[arg(long, env = "QUIPU_WORKERS", value_name = "N")]
    workers: Option<String>,
    /// How many shards a new data folder has, a power of two; fixed once it is made [default: 64]
    #[arg(long, env = "QUIPU_SHARDS", value_name = "N")]
    shards: Option<String>,
    /// For how long a retry of an operation with an id is recognised [default: 10min]
    #[arg(long, env = "QUIPU_IDMP_WINDOW", value_name = "TIME")]
    idmp_window: Option<String>,
    /// `exact` stores the ids of the window; `filter` only a filter, which is smaller and sometimes wrong
    /// [default: exact]
    #[arg(long, env = "QUIPU_IDMP_MODE", value_name = "MODE")]
    idmp_mode: Option<String>,
    /// How often the filter may take a new operation for a repeated one [default: 0.000001]
    #[arg(long, env = "QUIPU_IDMP_FPP", value_name = "P")]
    idmp_fpp: Option<String>,
    /// After this time only a bit is kept of the slot of an edge that has not come back; it can still hand over
    /// [default: 30d]
    #[arg(long, env = "QUIPU_EDGE_TTL", value_name = "TIME")]
    edge_ttl: Option<String>,
    /// How many Redis clients may be connected; fewer if the system allows fewer open files [default: 10000]
    #[arg(long, env = "QUIPU_MAX_CLIENTS", value_name = "N")]
    max_clients: Option<String>,
    /// After so many seconds of silence a client is asked whether it is still there; 0 is never [default: 300]
    #[arg(long, env = "QUIPU_TCP_KEEPALIVE", value_name = "SECONDS")]
    tcp_keepalive: Option<String>,
    /// The password of the user `default`. Better in the environment or the file: other users of the machine see flags
    #[arg(long, env = "QUIPU_REQUIREPASS", value_name = "PASSWORD", hide_env_values = true)]
    requirepass: Option<String>,
    /// A file of users: lines `user NAME PASSWORD`, or of a Redis ACL file such as `user alice on >secret ~* +@all`
    #[arg(long, env = "QUIPU_ACL_FILE", value_name = "FILE")]
    acl_file: Option<String>,
    /// Listen on a public address without a password
    #[arg(long, env = "QUIPU_INSECURE", value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    insecure: Option<String>,
    /// What is logged to the standard error: error, warn, info, debug or trace [default: info]
    #[arg(long, env = "QUIPU_LOG_LEVEL", value_name = "LEVEL")]
    log_level: Option<String>,
    /// As `text` or as `json`, an object in each line [default: text]
    #[arg(long, env = "QUIPU_LOG_FORMAT", value_name = "FORMAT")]
    log_format: Option<String>,
    /// A file with settings, in TOML
    #[arg(long, env = "QUIPU_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the settings that would be used and where each comes from, as a file for --config, and end
    #[arg(long)]
    print_config: bool,
}

impl clap::Args for Args {
    fn augment_args(command: Command) -> Command {
        Flags::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Flags::augment_args_for_update(command)
    }
}

impl FromArgMatches for Args {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Args {
            settings: Settings::default(),
            file: matches.get_one("config").cloned(),
            print_config: matches.get_flag("print_config"),
        };
        for known in settings::ALL {
            args.take(known, matches);
        }
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_flag_and_a_variable_for_every_setting_and_for_nothing_else() {
        let command = <Args as clap::Args>::augment_args(Command::new("serve"));
        let flags: Vec<(String, Option<String>)> = command
            .get_arguments()
            .map(|arg| {
                let variable = arg.get_env().map(|name| name.to_string_lossy().into_owned());
                (format!("--{}", arg.get_long().expect("a long flag")), variable)
            })
            .collect();
        let settings = settings::ALL.iter().map(|it| (it.flag.to_owned(), Some(it.variable.to_owned())));
        let others =
            [("--config".to_owned(), Some("QUIPU_CONFIG".to_owned())), ("--print-config".to_owned(), None)];
        assert_eq!(flags, settings.chain(others).collect::<Vec<_>>());
    }

    #[test]
    fn the_help_tells_the_defaults() {
        let mut command = <Args as clap::Args>::augment_args(Command::new("serve").term_width(1_000));
        let help = command.render_long_help().to_string();
        for known in settings::ALL {
            let shown = |default: &&str| *default != "false";
            if let Some(default) = known.default.filter(shown) {
                assert!(help.contains(&format!("[default: {default}]")), "{}", known.flag);
            }
        }
    }
}
