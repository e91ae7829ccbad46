//! The flags of `quipu bench retries`.

use crate::bench::endpoint::Endpoint;
use crate::failure::Failure;
use clap::ValueEnum;
use clap::builder::RangedU64ValueParser;
use std::path::PathBuf;
use std::time::Duration;

/// For connecting, and for answers that nothing delays.
const PATIENCE: Duration = Duration::from_secs(10);

const LOSS_MAX: f64 = 0.9;
const POINTS_MAX: usize = 50;
const DELAY_MS_MAX: u64 = 10_000;
const TIMEOUT_MS_MAX: u64 = 60_000;
const BATCH_MAX: u64 = 1_000;
const CLIENTS_MAX: u64 = 100;
const RATE_MAX: f64 = 100_000.0;
const SECONDS_MAX: f64 = 3_600.0;
const OPERATIONS_MAX: u64 = 1_000_000;

/// Loses and delays acknowledgements, with clients that try again: is every add counted once?
///
/// Figures 14, 15 and 17 of “Idempotent Distributed Counters Using a Forgetful Bloom Filter” (Subramanyam, Gupta,
/// Leslie and Wang) on a real server. A proxy between clients and server passes every request on; of the
/// acknowledgements it loses some, by cutting the connection, and delays others. Clients try each operation until it
/// is acknowledged: on one counter with a plain INCRBY, on another with IDMP producer id.
///
/// Writes a table (.tsv) and a plot (.svg) for each figure, and summary.md. The exit code is 1 if a counter with ids
/// is not exact, or if one without has lost an add.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  quipu bench retries --out retries                  our server on its usual port
  quipu bench retries --out redis --target 127.0.0.1:6379 --ids off
                                                     what retries do to the counters of Redis
  quipu bench retries --out bad --loss 0.3,0.5 --delay-ms 200 --timeout-ms 100
                                                     a very bad network")]
pub(crate) struct Args {
    /// The server
    #[arg(long, default_value = "127.0.0.1:7379", value_name = "HOST:PORT")]
    target: String,
    /// Log in with this password
    #[arg(long, value_name = "PASSWORD")]
    password: Option<String>,
    /// The folder to write to; made if it is not there
    #[arg(long, value_name = "DIR")]
    pub(super) out: PathBuf,
    /// Shares of acknowledgements that are lost, for the error against the loss; 0 to 0.9
    #[arg(long, value_delimiter = ',', value_name = "SHARE,...", allow_negative_numbers = true,
          default_values_t = [0.0, 0.02, 0.05, 0.1, 0.2])]
    pub(super) loss: Vec<f64>,
    /// Mean delays of acknowledgements, for figure 17; 0 to 10000
    #[arg(long, value_delimiter = ',', value_name = "MS,...", default_values_t = [0, 40, 80],
          value_parser = clap::value_parser!(u64).range(0..=DELAY_MS_MAX))]
    pub(super) delay_ms: Vec<u64>,
    /// Without an acknowledgement for so long, clients of figure 17 try again; a tenth of the paper's
    #[arg(long, default_value_t = 200, value_name = "MS",
          value_parser = clap::value_parser!(u64).range(1..=TIMEOUT_MS_MAX))]
    pub(super) timeout_ms: u64,
    /// Sizes of batches, for figure 15; the largest also for the error against the loss
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_values_t = [1, 50],
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=BATCH_MAX))]
    pub(super) batch: Vec<usize>,
    /// Clients at a time; 1 to 100
    #[arg(long, default_value_t = 16, value_name = "N",
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=CLIENTS_MAX))]
    pub(super) clients: usize,
    /// Operations per second of all clients together, in figures 14 and 17
    #[arg(long, default_value_t = 500.0, value_name = "N", allow_negative_numbers = true)]
    pub(super) rate: f64,
    /// How long each trial of figure 14 and each round of figure 15 lasts
    #[arg(long, default_value_t = 3.0, value_name = "S", allow_negative_numbers = true)]
    pub(super) seconds: f64,
    /// Rounds of figure 15, without and with ids in turn
    #[arg(long, default_value_t = 3, value_name = "N",
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=100))]
    pub(super) rounds: usize,
    /// Operations in each trial of figure 17
    #[arg(long, default_value_t = 500, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=OPERATIONS_MAX))]
    pub(super) operations: u64,
    /// Whether to try operation ids
    #[arg(long, value_enum, default_value = "on", value_name = "WHETHER")]
    ids: IdsArg,
    /// The same seed draws the same losses and delays; in which order operations meet them is up to the machine
    #[arg(long, default_value_t = 1, value_name = "S")]
    pub(super) seed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum IdsArg {
    /// Only without ids, for servers that do not know them
    Off,
    /// Without and with ids
    On,
}

impl Args {
    pub(super) fn with_ids(&self) -> bool {
        self.ids == IdsArg::On
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    pub(super) fn batch_max(&self) -> usize {
        self.batch.iter().copied().max().unwrap_or(1)
    }

    /// Refuses what cannot be before anything is sent.
    pub(super) fn check(&self) -> Result<Endpoint, Failure> {
        let refuse = |flag, problem| Err(Failure::Usage { flag, problem });
        if let Some(loss) = self.loss.iter().find(|loss| !(0.0..=LOSS_MAX).contains(*loss)) {
            return refuse("--loss", format!("{loss} is not in 0..={LOSS_MAX}; 0.05 is five of a hundred"));
        }
        for (flag, points) in
            [("--loss", self.loss.len()), ("--delay-ms", self.delay_ms.len()), ("--batch", self.batch.len())]
        {
            if points > POINTS_MAX {
                return refuse(flag, format!("{points} values; give at most {POINTS_MAX}"));
            }
        }
        for (flag, value, most) in [("--rate", self.rate, RATE_MAX), ("--seconds", self.seconds, SECONDS_MAX)]
        {
            if !(value > 0.0 && value <= most) {
                return refuse(flag, format!("{value} is not above 0 and at most {most}"));
            }
        }
        if let Err(error) = quipu_sim::report::prepare(&self.out) {
            let problem =
                format!("cannot write to {}: {error}; name a folder that can be written", self.out.display());
            return refuse("--out", problem);
        }
        Endpoint::resolve("--target", &self.target, self.password.as_deref(), PATIENCE)
    }
}
