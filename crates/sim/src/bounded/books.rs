//! What was really counted, whatever any site knows of it, and what must hold of it at every instant.

use super::Configuration;

/// The limit of all counters.
pub(super) const MINIMUM: i64 = 0;

/// The true values of all counters.
#[derive(Debug)]
pub(super) struct Books {
    configuration: Configuration,
    values: Vec<i64>,
}

impl Books {
    pub(super) fn new(configuration: Configuration, counters: usize) -> Self {
        Books { configuration, values: vec![0; counters] }
    }

    /// The same, as if another configuration had counted.
    #[cfg(test)]
    pub(super) fn taken_for(self, configuration: Configuration) -> Self {
        Books { configuration, ..self }
    }

    /// A site has counted, and reports this value.
    pub(super) fn count(&mut self, counter: usize, applied: i64, reported: i64) -> Result<(), String> {
        self.values[counter] += applied;
        let value = self.values[counter];
        if self.configuration == Configuration::Weak {
            return Ok(());
        }
        if value < MINIMUM {
            return Err(format!("counter {counter} is at {value}, below its limit {MINIMUM}"));
        }
        if reported < MINIMUM {
            return Err(format!(
                "a site reports {reported} for counter {counter}, below its limit {MINIMUM}"
            ));
        }
        Ok(())
    }

    /// What every site must report when it has heard everything.
    pub(super) fn value(&self, counter: usize) -> i64 {
        self.values[counter]
    }

    /// Units that were spent and were not there.
    pub(super) fn excess(&self) -> u64 {
        self.values.iter().map(|value| MINIMUM.saturating_sub(*value).max(0).unsigned_abs()).sum()
    }

    /// Units that are left.
    pub(super) fn left(&self) -> u64 {
        self.values.iter().map(|value| value.saturating_sub(MINIMUM).max(0).unsigned_abs()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_crosses_the_limit_is_found_out_unless_nothing_was_promised() {
        for configuration in [Configuration::Strong, Configuration::Ours, Configuration::Unbatched] {
            let mut books = Books::new(configuration, 2);
            books.count(1, 2, 2).expect("above the limit");
            books.count(1, -2, 0).expect("at the limit");
            assert!(books.count(1, -1, 0).is_err(), "{configuration:?} crosses it");
            assert!(books.count(0, 1, -1).is_err(), "{configuration:?} reports what cannot be");
        }
        let mut books = Books::new(Configuration::Weak, 2);
        books.count(0, -3, -3).expect("nothing was promised");
        books.count(1, 5, 5).expect("nothing was promised");
        assert_eq!((books.excess(), books.left()), (3, 5));
    }
}
