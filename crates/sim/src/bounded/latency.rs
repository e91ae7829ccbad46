//! Table I: how long operations take where there is little to do, and how long when rights must come from elsewhere.

use super::setup::{CLIENTS_MAX, NEVER_SPENT, Rights, SECONDS_MAX, Setup, TO_BE_SPENT, Workload};
use super::world::{SECOND_US, World};
use super::{Configuration, Costs, SITES, column, to_ms};
use crate::report::{Cell, Table};
use crate::run::{Refused, RunError, Watch, go_on, within};

/// What to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Params {
    /// Clients of all sites. The paper says “low load”; we take one for each of its machines for clients.
    pub clients: usize,
    /// How long each run lasts, in virtual seconds.
    pub seconds: u64,
    /// What servers cost.
    pub costs: Costs,
    /// Same seed, same result.
    pub seed: u64,
}

impl Default for Params {
    fn default() -> Self {
        Params { clients: 9, seconds: 120, costs: Costs::default(), seed: 1 }
    }
}

/// How long some operations took.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Latency {
    /// How many they were.
    pub operations: usize,
    /// Half of them took no longer; none if there were none.
    pub median_ms: Option<f64>,
    /// The slowest.
    pub max_ms: Option<f64>,
}

impl Latency {
    fn of(mut latencies_us: Vec<u64>) -> Self {
        latencies_us.sort_unstable();
        let at = |index: usize| latencies_us.get(index).copied().map(to_ms);
        let last = latencies_us.len().wrapping_sub(1);
        Latency { operations: latencies_us.len(), median_ms: at(last / 2), max_ms: at(last) }
    }
}

/// What clients of one site see.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// An index of [`SITES`].
    pub site: usize,
    /// In each configuration, where the limit is far away and every site has rights.
    pub far: [Latency; Configuration::ALL.len()],
    /// In ours, where a counter is spent that begins at 6000: operations that were decided at the site.
    pub decided_here: Latency,
    /// The others: they waited until rights had come from another site, or none were left.
    pub transferred: Latency,
}

/// Can this be measured?
pub fn check(params: &Params) -> Result<(), Refused> {
    within("--clients", &params.clients, &(SITES.len()..=CLIENTS_MAX))?;
    within("--seconds", &params.seconds, &(1..=SECONDS_MAX))?;
    params.costs.check()
}

/// Runs each configuration with a counter that is never spent, then ours with one that is.
pub fn run(params: &Params, watch: &mut Watch<'_>) -> Result<Vec<Row>, RunError> {
    check(params)?;
    let runs = Configuration::ALL.len() + 1;
    let mut far = Vec::new();
    for (done, configuration) in Configuration::ALL.into_iter().enumerate() {
        let done = |part: f64| (done as f64 + part) / runs as f64;
        let setup = setup(params, configuration, NEVER_SPENT, Rights::Shared);
        far.push(measure(setup, params.seconds, &mut |part| watch(done(part)))?);
    }
    let done = |part: f64| (Configuration::ALL.len() as f64 + part) / runs as f64;
    let near = setup(params, Configuration::Ours, TO_BE_SPENT, Rights::WithTheCreator);
    let near = measure(near, params.seconds, &mut |part| watch(done(part)))?;
    let row = |site: usize| {
        let all = |run: &Measured| [run[site][0].clone(), run[site][1].clone()].concat();
        Row {
            site,
            far: std::array::from_fn(|configuration| Latency::of(all(&far[configuration]))),
            decided_here: Latency::of(near[site][0].clone()),
            transferred: Latency::of(near[site][1].clone()),
        }
    };
    Ok((0..SITES.len()).map(row).collect())
}

/// For each site the latencies of operations that did not wait for rights, and of those that did.
type Measured = [[Vec<u64>; 2]; SITES.len()];

fn setup(params: &Params, configuration: Configuration, initial: i64, rights: Rights) -> Setup {
    Setup {
        configuration,
        counters: 1,
        clients: params.clients,
        initial,
        rights,
        workload: Workload::Mixed,
        costs: params.costs,
        seed: params.seed,
    }
}

fn measure(setup: Setup, seconds: u64, watch: &mut Watch<'_>) -> Result<Measured, RunError> {
    let mut world = World::new(setup).map_err(RunError::Failed)?;
    let mut measured = Measured::default();
    for second in 1..=seconds {
        let sink = &mut |sample: &super::client::Sample| {
            measured[sample.site][usize::from(sample.waited)].push(sample.latency_us);
        };
        world.run_until(second * SECOND_US, sink).map_err(RunError::Failed)?;
        go_on(watch, second as f64 / seconds as f64)?;
    }
    world.close().map_err(RunError::Failed)?;
    Ok(measured)
}

/// The rows as a table; sites are numbered from 1 in the order of [`SITES`].
pub fn table(rows: &[Row]) -> Table {
    let mut columns = vec!["site".to_owned()];
    for configuration in Configuration::ALL {
        columns.extend(["ms", "ms_max"].map(|what| column(configuration, what)));
    }
    columns.extend(
        ["near", "near_ms", "near_ms_max", "transfers", "transfer_ms", "transfer_ms_max"].map(str::to_owned),
    );
    let mut table = Table::new(columns);
    let number = |number: Option<f64>| number.map_or(Cell::Missing, Cell::Number);
    for row in rows {
        let mut cells = vec![Cell::Count(row.site as u64 + 1)];
        for latency in row.far {
            cells.extend([number(latency.median_ms), number(latency.max_ms)]);
        }
        for latency in [row.decided_here, row.transferred] {
            cells.extend([
                Cell::Count(latency.operations as u64),
                number(latency.median_ms),
                number(latency.max_ms),
            ]);
        }
        table.push(cells);
    }
    table
}
