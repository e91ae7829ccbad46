//! What was measured, as tables.

use super::{Compared, Measured, State};
use crate::report::{Cell, Table};

/// The designs, as they begin the names of columns.
const DESIGNS: [&str; 3] = ["handoff", "borrow", "parts"];

impl Compared {
    /// In the order of the columns.
    fn designs(&self) -> [&Measured; 3] {
        [&self.handoff, &self.borrow, &self.parts]
    }
}

/// One column of each design.
type Pick = (&'static str, fn(&Measured) -> Cell);

const TOTALS: [Pick; 15] = [
    ("messages", |run| per_client(run, run.client_messages)),
    ("bytes", |run| per_client(run, run.client_bytes)),
    ("node_bytes", |run| per_client(run, run.node_bytes)),
    ("moves", |run| Cell::Count(run.moves)),
    ("ready_ms", |run| Cell::Count(run.ready.median_ms)),
    ("ready_ms_p99", |run| Cell::Count(run.ready.p99_ms)),
    ("held_ms", |run| Cell::Count(run.held.median_ms)),
    ("held_ms_max", |run| Cell::Count(run.held.max_ms)),
    ("leave_ms", |run| Cell::Count(run.leave.median_ms)),
    ("leave_ms_p99", |run| Cell::Count(run.leave.p99_ms)),
    ("leave_ms_max", |run| Cell::Count(run.leave.max_ms)),
    ("left_entries", |run| last(run, |state| state.entries)),
    ("left_folded", |run| last(run, |state| state.folded)),
    ("left_bytes", |run| last(run, |state| state.bytes)),
    ("lost", |run| Cell::Number(run.lost as f64 / run.vanished as f64)),
];

fn per_client(run: &Measured, number: u64) -> Cell {
    Cell::Number(number as f64 / run.clients as f64)
}

fn last(run: &Measured, pick: fn(&State) -> f64) -> Cell {
    run.states.last().map_or(Cell::Missing, |state| Cell::Number(pick(state)))
}

/// A line for each loss: what each design sent for a client, how long its clients waited, what is left per node when all
/// clients are gone, and what each client that vanished took with it.
pub fn by_loss(all: &[Compared]) -> Table {
    let columns =
        DESIGNS.iter().flat_map(|design| TOTALS.iter().map(move |(name, _)| format!("{design}_{name}")));
    let fixed = ["loss_percent", "clients", "vanished"].map(str::to_owned);
    let mut table = Table::new(fixed.into_iter().chain(columns));
    for compared in all {
        let Measured { clients, vanished, .. } = compared.handoff;
        let mut row =
            vec![Cell::Count(compared.loss_percent.into()), Cell::Count(clients), Cell::Count(vanished)];
        for run in compared.designs() {
            row.extend(TOTALS.iter().map(|(_, pick)| pick(run)));
        }
        table.push(row);
    }
    table
}

/// A line for each loss and time: what a permanent node keeps, on average. The last of each loss is from after the end, when
/// all clients are gone.
pub fn over_time(all: &[Compared]) -> Table {
    let of_each =
        DESIGNS.iter().flat_map(|design| ["entries", "bytes"].map(|what| format!("{design}_{what}")));
    let fixed = ["loss_percent", "time_s", "clients"].map(str::to_owned);
    let mut table = Table::new(fixed.into_iter().chain(of_each));
    for compared in all {
        for (line, State { time_ms, clients, .. }) in compared.handoff.states.iter().enumerate() {
            let mut row = vec![
                Cell::Count(compared.loss_percent.into()),
                Cell::Number(*time_ms as f64 / 1_000.0),
                Cell::Count(*clients),
            ];
            for run in compared.designs() {
                let state = run.states.get(line);
                row.push(state.map_or(Cell::Missing, |state| Cell::Number(state.entries)));
                row.push(state.map_or(Cell::Missing, |state| Cell::Number(state.bytes)));
            }
            table.push(row);
        }
    }
    table
}
