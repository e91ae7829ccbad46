//! A core for the server that is measured: what others do on the same one would be counted as its work, because what they
//! push out of the core's caches has to be fetched again.

use std::process::Command;

/// Keeps everything else off a core. Dropping it lets this process run anywhere again.
pub(super) struct Cores {
    count: usize,
}

impl Cores {
    /// Those of this machine. `None`: there is only one, or nobody can be told where to run.
    pub(super) fn of_this_machine() -> Option<Self> {
        let count = std::thread::available_parallelism().ok()?.get();
        let cores = Self { count };
        (count > 1 && cores.keep(std::process::id(), &cores.others())).then_some(cores)
    }

    /// This process runs on the first core, and is alone there.
    pub(super) fn give_first(&self, process: u32) {
        self.keep(process, "0");
    }

    /// This one runs on the others.
    pub(super) fn give_others(&self, process: u32) {
        self.keep(process, &self.others());
    }

    fn others(&self) -> String {
        format!("1-{}", self.count - 1)
    }

    /// With all its threads.
    fn keep(&self, process: u32, cores: &str) -> bool {
        let taskset = Command::new("taskset").args(["-a", "-c", "-p", cores, &process.to_string()]).output();
        taskset.is_ok_and(|output| output.status.success())
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        self.keep(std::process::id(), &format!("0-{}", self.count - 1));
    }
}
