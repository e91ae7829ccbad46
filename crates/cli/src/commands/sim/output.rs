//! How tables are printed: tab-separated, or as one JSON object.

use crate::failure::Failure;
use quipu_sim::report::{Cell, Table};
use quipu_sim::{Refused, RunError};
use serde_json::{Map, Value, json};
use std::io::{ErrorKind, Write};

/// Flags that every experiment has.
#[derive(clap::Args)]
pub(crate) struct Output {
    /// The same seed gives the same output
    #[arg(long, default_value_t = 1, value_name = "S")]
    pub(crate) seed: u64,
    /// One JSON object instead of tab-separated lines
    #[arg(long)]
    json: bool,
}

impl Output {
    /// Prints the table of the experiment of this name.
    pub(crate) fn print(&self, experiment: &str, table: &Table) -> Result<(), Failure> {
        if self.json {
            let value = json!({ "experiment": experiment, "seed": self.seed, "rows": rows(table) });
            return print(&format!("{value}\n"));
        }
        print(&table.to_tsv())
    }
}

/// Writes to standard output. That nobody reads it to the end (`| head`) is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::failed(error)),
        _ => Ok(()),
    }
}

/// An object for each row, with the names of the columns.
pub(crate) fn rows(table: &Table) -> Vec<Value> {
    let object = |row: &Vec<Cell>| {
        let fields = table.columns().iter().cloned().zip(row.iter().map(number));
        Value::Object(fields.collect::<Map<_, _>>())
    };
    table.rows().iter().map(object).collect()
}

fn number(cell: &Cell) -> Value {
    match *cell {
        Cell::Count(count) => json!(count),
        Cell::Number(number) | Cell::Rate(number) => json!(number),
        Cell::Missing => Value::Null,
    }
}

impl From<Refused> for Failure {
    fn from(Refused { flag, problem }: Refused) -> Self {
        Failure::Usage { flag, problem }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Refused(refused) => refused.into(),
            RunError::Stopped => Failure::Interrupted,
            RunError::Failed(what) => Failure::Failed(what),
        }
    }
}
