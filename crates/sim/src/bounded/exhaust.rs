//! Figure 5: how long operations take while a counter is spent to the end.

use super::setup::{CLIENTS_MAX, Rights, SECONDS_MAX, Setup, TO_BE_SPENT, Workload};
use super::world::{SECOND_US, World};
use super::{Configuration, Costs, column, to_ms};
use crate::report::{Cell, Table};
use crate::run::{Refused, RunError, Watch, go_on, within};

/// The largest value to begin with.
const INITIAL_MAX: i64 = 1_000_000_000;

/// What to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Params {
    /// Clients of all sites.
    pub clients: usize,
    /// The value that is spent.
    pub initial: i64,
    /// How long each run lasts, in virtual seconds. Five clients have spent 6000 after about two minutes.
    pub seconds: u64,
    /// The time between two rows, in virtual milliseconds.
    pub stats_ms: u64,
    /// What servers cost.
    pub costs: Costs,
    /// Same seed, same result.
    pub seed: u64,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            clients: 5,
            initial: TO_BE_SPENT,
            seconds: 150,
            stats_ms: 500,
            costs: Costs::default(),
            seed: 1,
        }
    }
}

/// What happened to the operations of one configuration that were over in a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Part {
    /// Subtractions that were counted.
    pub counted: u64,
    /// Subtractions that were refused.
    pub refused: u64,
    /// Of both, the ones that waited for rights of other sites.
    pub waited: u64,
    /// The slowest, in microseconds.
    pub max_us: u64,
}

/// The operations that were over in the time before `time_ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// When it ends, in virtual milliseconds since the clients began.
    pub time_ms: u64,
    /// In each configuration.
    pub parts: [Part; Configuration::ALL.len()],
}

/// Can this be measured?
pub fn check(params: &Params) -> Result<(), Refused> {
    within("--clients", &params.clients, &(1..=CLIENTS_MAX))?;
    within("--initial", &params.initial, &(1..=INITIAL_MAX))?;
    within("--seconds", &params.seconds, &(1..=SECONDS_MAX))?;
    within("--stats-ms", &params.stats_ms, &(1..=params.seconds * 1_000))?;
    params.costs.check()
}

/// Runs each configuration.
pub fn run(params: &Params, watch: &mut Watch<'_>) -> Result<Vec<Row>, RunError> {
    check(params)?;
    let length = usize::try_from((params.seconds * 1_000).div_ceil(params.stats_ms)).expect("a day at most");
    let mut rows: Vec<Row> = (1..=length as u64)
        .map(|row| Row { time_ms: row * params.stats_ms, parts: Default::default() })
        .collect();
    for (index, configuration) in Configuration::ALL.into_iter().enumerate() {
        let mut world = World::new(setup(params, configuration)).map_err(RunError::Failed)?;
        for second in 1..=params.seconds {
            let sink = &mut |sample: &super::client::Sample| {
                let row = usize::try_from(sample.at_us / (params.stats_ms * 1_000)).unwrap_or(usize::MAX);
                let Some(part) = rows.get_mut(row).map(|row| &mut row.parts[index]) else { return };
                part.counted += u64::from(sample.counted);
                part.refused += u64::from(!sample.counted);
                part.waited += u64::from(sample.waited);
                part.max_us = part.max_us.max(sample.latency_us);
            };
            world.run_until(second * SECOND_US, sink).map_err(RunError::Failed)?;
            let done = index as f64 + second as f64 / params.seconds as f64;
            go_on(watch, done / Configuration::ALL.len() as f64)?;
        }
        world.close().map_err(RunError::Failed)?;
    }
    Ok(rows)
}

fn setup(params: &Params, configuration: Configuration) -> Setup {
    Setup {
        configuration,
        counters: 1,
        clients: params.clients,
        initial: params.initial,
        rights: Rights::WithTheCreator,
        workload: Workload::Subtractions,
        costs: params.costs,
        seed: params.seed,
    }
}

/// The rows as a table. A time in which no operation was over has no latency.
pub fn table(rows: &[Row]) -> Table {
    let of = |configuration| ["ms_max", "counted", "refused"].map(|what| column(configuration, what));
    let columns = std::iter::once("time_s".to_owned()).chain(Configuration::ALL.into_iter().flat_map(of));
    let mut table = Table::new(columns.chain(std::iter::once("ours_waited".to_owned())));
    for row in rows {
        let mut cells = vec![Cell::Number(row.time_ms as f64 / 1_000.0)];
        for Part { counted, refused, max_us, .. } in row.parts {
            let slowest = if counted + refused > 0 { Cell::Number(to_ms(max_us)) } else { Cell::Missing };
            cells.extend([slowest, Cell::Count(counted), Cell::Count(refused)]);
        }
        let ours = Configuration::ALL.iter().position(|one| *one == Configuration::Ours);
        cells.push(ours.map_or(Cell::Missing, |ours| Cell::Count(row.parts[ours].waited)));
        table.push(cells);
    }
    table
}
