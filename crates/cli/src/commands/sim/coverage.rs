//! `--coverage`: which rules, refusals and rare branches of the engine the seeds have reached. Only in a build with the
//! feature `testing`; in others the engine does not count, and there is no such flag.

use super::output::print;
use crate::failure::Failure;

/// The flag.
#[derive(clap::Args)]
pub(super) struct Flag {
    /// Say how often each rule was consulted and each refusal and rare branch was reached, and which never was
    #[cfg(feature = "testing")]
    #[arg(long)]
    coverage: bool,
}

/// What all seeds have reached.
#[derive(Default)]
pub(super) struct Tally {
    #[cfg(feature = "testing")]
    coverage: quipu_sim::coverage::Coverage,
}

#[cfg(feature = "testing")]
impl Tally {
    /// A seed has come to its end.
    pub(super) fn add_run(&mut self) {
        self.coverage.add_run();
    }

    /// Says it, if it was asked for.
    pub(super) fn show(&self, flag: &Flag, as_json: bool) -> Result<(), Failure> {
        if !flag.coverage {
            return Ok(());
        }
        if !as_json {
            return print(&self.coverage.to_string());
        }
        let all = self.coverage.all.iter().map(
            |it| serde_json::json!({ "kind": it.kind, "name": it.name, "times": it.times, "seeds": it.runs }),
        );
        print(&format!("{}\n", serde_json::json!({ "coverage": all.collect::<Vec<_>>() })))
    }
}

#[cfg(not(feature = "testing"))]
#[expect(clippy::unused_self, reason = "with the feature it has something to say")]
impl Tally {
    pub(super) fn add_run(&mut self) {}

    pub(super) fn show(&self, _: &Flag, _: bool) -> Result<(), Failure> {
        print("")
    }
}
