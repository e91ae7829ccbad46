//! Client libraries as programs use them: redis-py in both versions of the protocol, and ioredis. Each is installed,
//! in the version that is pinned here, into a folder of the build; where that is not possible the suite says so.

#[path = "../harness/mod.rs"]
mod harness;

use std::{
    path::PathBuf,
    process::{Command, ExitCode},
};

use harness::{
    Site, Suite,
    libraries::{self, node, python},
    suite::PROGRAMS,
};

/// Runs a script against a server, which is started again where the script asks for it.
fn run(command: Command, script: &str, more: &[&str]) {
    let site = Site::new("--workers 2");
    let mut server = Some(site.start());
    let address = server.as_ref().expect("it was started").resp;
    libraries::run(command, script, address.port(), more, |line| {
        if line == "RESTART" {
            server.take().expect("it runs").stop();
            server = Some(site.start_at(address));
        }
        line == "RESTART"
    });
}

fn redis_py(python: PathBuf, protocol: &str) {
    run(Command::new(python), "redis_py.py", &[protocol]);
}

fn ioredis((node, folder): (PathBuf, PathBuf)) {
    let mut command = Command::new(node);
    command.env("QUIPU_NODE_MODULES", folder);
    run(command, "ioredis.js", &[]);
}

fn main() -> ExitCode {
    Suite::from_arguments(PROGRAMS)
        .test_with("redis_py_in_resp2", python, |python| redis_py(python, "2"))
        .test_with("redis_py_in_resp3", python, |python| redis_py(python, "3"))
        .test_with("ioredis", node, ioredis)
        .run()
}
