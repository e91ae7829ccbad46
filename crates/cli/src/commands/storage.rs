//! `quipu storage`: a database in place of a data folder.

use crate::failure::Failure;
use quipu_storage_cassandra::{Access, Address, Cassandra, Options, Schema};
use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  quipu storage init cassandra://10.0.0.7,10.0.0.8/quipu                     three copies of everything
  quipu storage init cassandra://127.0.0.1/quipu --replication 1             to try it out, on a single node
  quipu storage init cassandra://10.0.0.7/quipu --datacenter dc1 --storage-user quipu
  quipu serve --storage cassandra://10.0.0.7,10.0.0.8/quipu                  then";

/// A database in place of a data folder (Apache Cassandra or ScyllaDB)
#[derive(clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    Init(Init),
}

/// Make the keyspace and its tables; what is there already stays as it is
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Init {
    /// cassandra://HOST,HOST:PORT/KEYSPACE
    #[arg(value_name = "URL", env = "QUIPU_STORAGE")]
    storage: Address,
    /// How many copies there are of everything. With fewer than three a single lost node stops the site, or loses counts
    #[arg(long, value_name = "N", default_value_t = 3)]
    replication: u32,
    /// The datacenter that holds them all, if there are several: a site lives in one
    #[arg(long, value_name = "NAME")]
    datacenter: Option<String>,
    /// The cluster of sites that it belongs to
    #[arg(long, env = "QUIPU_CLUSTER", value_name = "NAME", default_value = "quipu")]
    cluster: String,
    /// Into how many partitions the rows of a shard are spread, 1 to 64: enough that each stays below 100 MB
    #[arg(long, value_name = "N", default_value_t = 4)]
    buckets: u16,
    #[command(flatten)]
    door: Door,
}

/// How to get into a database.
#[derive(clap::Args)]
pub(crate) struct Door {
    /// The user of the database
    #[arg(long, env = "QUIPU_STORAGE_USER", value_name = "NAME", requires = "storage_password")]
    storage_user: Option<String>,
    /// And the password. Better in the environment: other users of the machine see flags
    #[arg(long, env = "QUIPU_STORAGE_PASSWORD", value_name = "PASSWORD", hide_env_values = true)]
    storage_password: Option<String>,
    /// Encrypt what goes to the database, and trust those whom the authorities in this file (PEM) vouch for
    #[arg(long, env = "QUIPU_STORAGE_TLS", value_name = "FILE")]
    storage_tls: Option<PathBuf>,
}

impl Door {
    pub(crate) fn access(&self) -> Access {
        Access {
            user: self.storage_user.clone().zip(self.storage_password.clone()),
            tls_authorities: self.storage_tls.clone(),
        }
    }

    /// The same for another process, as its environment.
    pub(crate) fn variables(&self) -> Vec<(String, OsString)> {
        let text = |name: &str, value: &Option<String>| Some((name.to_owned(), value.clone()?.into()));
        let tls = self.storage_tls.clone().map(|file| ("QUIPU_STORAGE_TLS".to_owned(), file.into()));
        let user = text("QUIPU_STORAGE_USER", &self.storage_user);
        let password = text("QUIPU_STORAGE_PASSWORD", &self.storage_password);
        user.zip(password).into_iter().flat_map(|(user, password)| [user, password]).chain(tls).collect()
    }
}

pub(crate) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Init(init) => init.run(),
    }
}

impl Init {
    fn run(&self) -> Result<(), Failure> {
        let access = self.door.access();
        let schema = Schema {
            replication: self.replication,
            datacenter: self.datacenter.clone(),
            cluster: self.cluster.clone(),
            buckets: self.buckets,
        };
        Cassandra::init(&self.storage, &access, &schema).map_err(Failure::failed)?;
        // As a node will find it.
        let (_, warnings) =
            Cassandra::open(&self.storage, &access, Options::default()).map_err(Failure::failed)?;
        for warning in warnings {
            eprintln!("warning: {warning}");
        }
        println!("{} is ready. Next: quipu serve --storage {}", self.storage, self.storage);
        Ok(())
    }
}
