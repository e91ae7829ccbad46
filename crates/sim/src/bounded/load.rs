//! Figures 4 and 7: how many operations get through as more clients come, and how long they take then.

use super::setup::{CLIENTS_MAX, COUNTERS_MAX, NEVER_SPENT, Rights, SECONDS_MAX, Setup, Workload};
use super::world::{SECOND_US, World};
use super::{Configuration, Costs, column, to_ms};
use crate::report::{Cell, Table};
use crate::run::{Refused, RunError, Watch, all_within, go_on, within};

/// What to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Params {
    /// Counters; each operation takes one of them at random. One in figure 4, a hundred in figure 7.
    pub counters: usize,
    /// Clients of all sites: a run of each configuration for each number. The paper does not say how many.
    pub clients: Vec<usize>,
    /// How long each run lasts, in virtual seconds.
    pub seconds: u64,
    /// What servers cost.
    pub costs: Costs,
    /// Same seed, same result.
    pub seed: u64,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            counters: 1,
            clients: vec![3, 30, 100, 300, 1_000, 3_000, 10_000],
            seconds: 120,
            costs: Costs::default(),
            seed: 1,
        }
    }
}

/// One configuration with so many clients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Which.
    pub configuration: Configuration,
    /// Clients of all sites.
    pub clients: usize,
    /// Operations per second at all sites, those that were refused among them.
    pub per_s: f64,
    /// How long they took, on average; none if none was over in time.
    pub mean_ms: Option<f64>,
    /// Of a hundred, one took longer.
    pub p99_ms: Option<f64>,
    /// Conditional writes that came too late, per second.
    pub conflicts_per_s: f64,
}

/// Can this be measured?
pub fn check(params: &Params) -> Result<(), Refused> {
    within("--counters", &params.counters, &(1..=COUNTERS_MAX))?;
    all_within("--clients", &params.clients, &(1..=CLIENTS_MAX))?;
    within("--seconds", &params.seconds, &(1..=SECONDS_MAX))?;
    params.costs.check()
}

/// Runs each configuration with each number of clients.
pub fn run(params: &Params, watch: &mut Watch<'_>) -> Result<Vec<Row>, RunError> {
    check(params)?;
    let mut rows = Vec::new();
    let runs = (Configuration::ALL.len() * params.clients.len()) as f64;
    for configuration in Configuration::ALL {
        for &clients in &params.clients {
            let done = rows.len() as f64;
            let row = measure(params, configuration, clients, &mut |part| watch((done + part) / runs))?;
            rows.push(row);
        }
    }
    Ok(rows)
}

fn measure(
    params: &Params,
    configuration: Configuration,
    clients: usize,
    watch: &mut Watch<'_>,
) -> Result<Row, RunError> {
    let setup = Setup {
        configuration,
        counters: params.counters,
        clients,
        initial: NEVER_SPENT,
        rights: Rights::Shared,
        workload: Workload::Mixed,
        costs: params.costs,
        seed: params.seed,
    };
    let mut world = World::new(setup).map_err(RunError::Failed)?;
    let mut latencies_us: Vec<u64> = Vec::new();
    for second in 1..=params.seconds {
        let sink = &mut |sample: &super::client::Sample| latencies_us.push(sample.latency_us);
        world.run_until(second * SECOND_US, sink).map_err(RunError::Failed)?;
        go_on(watch, second as f64 / params.seconds as f64)?;
    }
    let conflicts = world.conflicts();
    world.close().map_err(RunError::Failed)?;
    let operations = latencies_us.len();
    let sum: u64 = latencies_us.iter().sum();
    latencies_us.sort_unstable();
    let mean_ms = (operations > 0).then(|| to_ms(sum) / operations as f64);
    let p99_ms = latencies_us.get((operations * 99).div_ceil(100).saturating_sub(1)).copied().map(to_ms);
    let per_s = |count: f64| count / params.seconds as f64;
    Ok(Row {
        configuration,
        clients,
        per_s: per_s(operations as f64),
        mean_ms,
        p99_ms,
        conflicts_per_s: per_s(conflicts as f64),
    })
}

/// The rows as a table. Each row is one configuration's, and has a latency in the column of that one alone, so that
/// the columns are curves over the throughput.
pub fn table(rows: &[Row]) -> Table {
    let latencies = Configuration::ALL.map(|configuration| column(configuration, "ms"));
    let columns = ["clients", "per_s"].map(str::to_owned).into_iter().chain(latencies);
    let mut table = Table::new(columns.chain(["p99_ms", "conflicts_per_s"].map(str::to_owned)));
    let number = |number: Option<f64>| number.map_or(Cell::Missing, Cell::Number);
    for row in rows {
        let mut cells = vec![Cell::Count(row.clients as u64), Cell::Number(row.per_s)];
        let own = |other| if other == row.configuration { number(row.mean_ms) } else { Cell::Missing };
        cells.extend(Configuration::ALL.map(own));
        cells.extend([number(row.p99_ms), Cell::Number(row.conflicts_per_s)]);
        table.push(cells);
    }
    table
}
