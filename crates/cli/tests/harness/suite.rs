//! A runner for tests that need programs of others, or what a machine may not permit. Rust's own knows no way for a
//! test to say that it could not run, and would count it as passed; this one reports it as ignored and says at the end
//! what is missing. Where a variable such as `QUIPU_REQUIRE_CLIENTS` is 1 such a test fails.
//!
//! A target that uses it has `harness = false` in `Cargo.toml`: a function with `#[test]` would not run there.

use std::{env, process::ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};

/// What the tests of a target may lack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs {
    /// Where this variable is 1, a test that cannot run fails.
    pub(crate) required_by: &'static str,
    /// What to do about it.
    pub(crate) remedy: &'static str,
}

/// Programs of others.
pub(crate) const PROGRAMS: Needs = Needs {
    required_by: "QUIPU_REQUIRE_CLIENTS",
    remedy: "Install what is missing, or as root let the tests do it: QUIPU_INSTALL=1 cargo test.",
};

pub(crate) struct Suite {
    arguments: Arguments,
    needs: Needs,
    trials: Vec<Trial>,
    /// What is said of each test that cannot run.
    skipped: Vec<String>,
}

impl Suite {
    /// Takes the arguments of the program, which are those of Rust's own runner.
    pub(crate) fn from_arguments(needs: Needs) -> Self {
        Self { arguments: Arguments::from_args(), needs, trials: Vec::new(), skipped: Vec::new() }
    }

    /// A test that needs nothing.
    pub(crate) fn test(self, name: &str, test: impl FnOnce() + Send + 'static) -> Self {
        self.test_with(name, || Ok(()), |()| test())
    }

    /// A test that runs if what it needs is there.
    pub(crate) fn test_with<T: Send + 'static>(
        mut self,
        name: &str,
        needs: impl FnOnce() -> Result<T, String>,
        test: impl FnOnce(T) + Send + 'static,
    ) -> Self {
        if !self.is_wanted(name) {
            return self;
        }
        let required = env::var(self.needs.required_by).is_ok_and(|value| value == "1");
        let trial = match needs() {
            Ok(needs) => Trial::test(name, move || {
                test(needs);
                Ok(())
            }),
            Err(why) => {
                self.skipped.push(format!("{name}: {why}"));
                let failed = Failed::from(format!("it could not run: {why}"));
                Trial::test(name, move || Err(failed)).with_ignored_flag(!required)
            }
        };
        self.trials.push(trial);
        self
    }

    /// Nothing is installed for a test that was not asked for.
    fn is_wanted(&self, name: &str) -> bool {
        let Arguments { filter, skip, exact, .. } = &self.arguments;
        let matches = |filter: &String| if *exact { name == filter } else { name.contains(filter.as_str()) };
        filter.as_ref().is_none_or(matches) && !skip.iter().any(matches)
    }

    pub(crate) fn run(self) -> ExitCode {
        let conclusion = libtest_mimic::run(&self.arguments, self.trials);
        for skipped in &self.skipped {
            eprintln!("SKIPPED, and not passed: {skipped}");
        }
        if !self.skipped.is_empty() {
            let Needs { required_by, remedy } = self.needs;
            eprintln!("{remedy} With {required_by}=1 a test that cannot run fails.\n");
        }
        conclusion.exit_code()
    }
}
