//! What an experiment gives: numbers in rows and named columns.

use std::fmt::{self, Display, Formatter};

/// One number of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell {
    /// A whole number.
    Count(u64),
    /// A number of ordinary size; three decimals are shown.
    Number(f64),
    /// A probability or something else that may be very small; four digits are shown.
    Rate(f64),
    /// Was not measured.
    Missing,
}

impl Cell {
    /// The number, if there is one. Nothing divided by nothing is none.
    pub fn value(self) -> Option<f64> {
        match self {
            Cell::Count(count) => Some(count as f64),
            Cell::Number(number) | Cell::Rate(number) => Some(number).filter(|number| number.is_finite()),
            Cell::Missing => None,
        }
    }
}

impl Display for Cell {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Count(count) => write!(f, "{count}"),
            Cell::Number(number) if number.is_finite() => write!(f, "{number:.3}"),
            Cell::Rate(rate) if rate.is_finite() => write!(f, "{rate:.3e}"),
            Cell::Number(_) | Cell::Rate(_) | Cell::Missing => f.write_str("-"),
        }
    }
}

/// Numbers in rows and named columns.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Table { columns: columns.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row. It has as many cells as there are columns.
    pub fn push(&mut self, row: Vec<Cell>) {
        assert_eq!(row.len(), self.columns.len(), "a cell for each column");
        self.rows.push(row);
    }

    /// The names of its columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Its rows.
    pub fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }

    /// The column of this name from top to bottom; nothing if there is none.
    pub fn column(&self, name: &str) -> impl Iterator<Item = Cell> {
        let index = self.columns.iter().position(|column| column == name);
        self.rows.iter().filter_map(move |row| index.and_then(|index| row.get(index)).copied())
    }

    /// The number in `wanted` on the first row that has (about) this number in `key`.
    pub fn at(&self, key: &str, number: f64, wanted: &str) -> Option<f64> {
        let near =
            |cell: Cell| cell.value().is_some_and(|value| (value - number).abs() <= number.abs() * 0.01);
        let row = self.column(key).position(near)?;
        self.column(wanted).nth(row)?.value()
    }

    /// The last number of a column.
    pub fn last(&self, name: &str) -> Option<f64> {
        self.column(name).filter_map(Cell::value).last()
    }

    /// The largest number of a column.
    pub fn max(&self, name: &str) -> Option<f64> {
        self.column(name).filter_map(Cell::value).reduce(f64::max)
    }

    /// Tab-separated, after one header line that starts with `#`.
    pub fn to_tsv(&self) -> String {
        let mut text = format!("# {}\n", self.columns.join("\t"));
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(Cell::to_string).collect();
            text += &cells.join("\t");
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_written_with_a_header_and_read_by_name() {
        let mut table = Table::new(["time", "rate"]);
        table.push(vec![Cell::Count(1), Cell::Rate(0.000_123_4)]);
        table.push(vec![Cell::Number(2.5), Cell::Missing]);
        table.push(vec![Cell::Number(f64::NAN), Cell::Rate(f64::INFINITY)]);
        assert_eq!(table.to_tsv(), "# time\trate\n1\t1.234e-4\n2.500\t-\n-\t-\n");
        assert_eq!(table.at("time", 1.0, "rate"), Some(0.000_123_4));
        assert_eq!(table.at("time", 2.5, "rate"), None);
        assert_eq!((table.last("time"), table.last("rate")), (Some(2.5), Some(0.000_123_4)));
        assert_eq!(table.max("no such column"), None);
    }
}
