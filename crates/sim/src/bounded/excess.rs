//! Figure 6: how many units are spent that there are not, as more clients spend them.

use super::setup::{CLIENTS_MAX, Rights, SECONDS_MAX, Setup, TO_BE_SPENT, Workload};
use super::world::{SECOND_US, World};
use super::{Configuration, Costs, column};
use crate::report::{Cell, Table};
use crate::run::{Refused, RunError, Watch, all_within, go_on, within};

/// A run is over when nothing was counted for so many virtual seconds.
const QUIET_SECONDS: u64 = 5;
/// The largest value to begin with.
const INITIAL_MAX: i64 = 1_000_000_000;

/// What to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Params {
    /// Clients of all sites: a run of each configuration for each number. The paper's axis is not in our copy.
    pub clients: Vec<usize>,
    /// The value that is spent.
    pub initial: i64,
    /// What servers cost.
    pub costs: Costs,
    /// Same seed, same result.
    pub seed: u64,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            clients: vec![5, 10, 20, 50, 100, 200, 500],
            initial: TO_BE_SPENT,
            costs: Costs::default(),
            seed: 1,
        }
    }
}

/// What became of the counter of one configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// Units that were spent and were not there.
    pub excess: u64,
    /// Units that were there and that nobody got.
    pub left: u64,
    /// When the last subtraction was counted, in virtual milliseconds since the clients began.
    pub last_ms: u64,
}

/// So many clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Of all sites.
    pub clients: usize,
    /// In each configuration.
    pub spent: [Spent; Configuration::ALL.len()],
}

/// Can this be measured?
pub fn check(params: &Params) -> Result<(), Refused> {
    all_within("--clients", &params.clients, &(1..=CLIENTS_MAX))?;
    within("--initial", &params.initial, &(1..=INITIAL_MAX))?;
    params.costs.check()
}

/// Runs each configuration with each number of clients.
pub fn run(params: &Params, watch: &mut Watch<'_>) -> Result<Vec<Row>, RunError> {
    check(params)?;
    let mut rows = Vec::new();
    let runs = (params.clients.len() * Configuration::ALL.len()) as f64;
    for &clients in &params.clients {
        let mut spent = [Spent::default(); Configuration::ALL.len()];
        for (index, configuration) in Configuration::ALL.into_iter().enumerate() {
            let done = (rows.len() * Configuration::ALL.len() + index) as f64;
            spent[index] = spend(params, configuration, clients, &mut |part| watch((done + part) / runs))?;
        }
        rows.push(Row { clients, spent });
    }
    Ok(rows)
}

fn spend(
    params: &Params,
    configuration: Configuration,
    clients: usize,
    watch: &mut Watch<'_>,
) -> Result<Spent, RunError> {
    let setup = Setup {
        configuration,
        counters: 1,
        clients,
        initial: params.initial,
        rights: Rights::WithTheCreator,
        workload: Workload::Subtractions,
        costs: params.costs,
        seed: params.seed,
    };
    let mut world = World::new(setup).map_err(RunError::Failed)?;
    let mut last_us = 0;
    for second in 1..=SECONDS_MAX {
        let sink = &mut |sample: &super::client::Sample| {
            if sample.counted {
                last_us = sample.at_us;
            }
        };
        world.run_until(second * SECOND_US, sink).map_err(RunError::Failed)?;
        if second * SECOND_US >= last_us + QUIET_SECONDS * SECOND_US {
            break;
        }
        let left = world.books().left() as f64 / params.initial as f64;
        go_on(watch, 1.0 - left)?;
    }
    let spent =
        Spent { excess: world.books().excess(), left: world.books().left(), last_ms: last_us / 1_000 };
    world.close().map_err(RunError::Failed)?;
    Ok(spent)
}

/// The rows as a table.
pub fn table(rows: &[Row]) -> Table {
    let of = |configuration| ["excess", "left", "last_ms"].map(|what| column(configuration, what));
    let columns = std::iter::once("clients".to_owned()).chain(Configuration::ALL.into_iter().flat_map(of));
    let mut table = Table::new(columns);
    for row in rows {
        let mut cells = vec![row.clients as u64];
        cells.extend(row.spent.iter().flat_map(|spent| [spent.excess, spent.left, spent.last_ms]));
        table.push(cells.into_iter().map(Cell::Count).collect());
    }
    table
}
