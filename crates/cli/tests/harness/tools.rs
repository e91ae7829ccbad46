//! Programs of others, where they are installed or can be.

use std::net::{SocketAddr, TcpListener};
use std::{
    env,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use super::Client;

/// How long a Redis may take until it answers.
const REDIS_READY_WITHIN: Duration = Duration::from_secs(30);

/// Where a program is.
pub(crate) fn find(program: &str) -> Result<PathBuf, String> {
    let paths = env::var_os("PATH").unwrap_or_default();
    let mut candidates = env::split_paths(&paths).map(|folder| folder.join(program));
    candidates.find(|path| path.is_file()).ok_or_else(|| format!("{program} is not installed"))
}

/// Where a program of Debian's `redis-server` or `redis-tools` is; both are installed where that is wanted.
pub(crate) fn redis(program: &str) -> Result<PathBuf, String> {
    static INSTALLED: OnceLock<Result<(), String>> = OnceLock::new();
    find(program).or_else(|missing| {
        let installed = INSTALLED.get_or_init(install_redis);
        installed.clone().map_err(|why| format!("{missing}, and {why}"))?;
        find(program)
    })
}

fn install_redis() -> Result<(), String> {
    if env::var_os("CI").is_none() && env::var_os("QUIPU_INSTALL").is_none() {
        return Err("neither CI nor QUIPU_INSTALL is set, so nothing is installed".to_owned());
    }
    let id = output(Command::new("id").arg("-u"))?;
    if id.trim() != "0" {
        return Err("only root can install it: apt-get install redis-server redis-tools".to_owned());
    }
    let packages = ["install", "-y", "--no-install-recommends", "redis-server", "redis-tools"];
    // The tests start their own; the package shall start none.
    let install = || output(Command::new("apt-get").args(packages).env("RUNLEVEL", "1"));
    install().or_else(|_| output(Command::new("apt-get").arg("update")).and_then(|_| install())).map(drop)
}

/// Runs a program to its end. The error is all that it said.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{name}: {error}"))?;
    let (out, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        Ok(out.into_owned())
    } else {
        Err(format!("{name}: {}\n{out}{said}", output.status))
    }
}

/// A port for a program that cannot choose one. What is free now is hardly taken a moment later.
pub(crate) fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    free.expect("a free port").port()
}

/// A Redis of our own, which keeps nothing. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Redis {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Redis {
    pub(crate) fn start(program: &Path, flags: &[&str]) -> Self {
        // Redis cannot choose a port.
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let child = Command::new(program)
            .args(["--port", &address.port().to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
            .args(flags)
            .current_dir(env::temp_dir())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server starts");
        let mut redis = Self { child, address };
        let until = Instant::now() + REDIS_READY_WITHIN;
        while Client::connect(address).and_then(|mut client| client.ask("PING")).is_err() {
            let ended = redis.child.try_wait().expect("it can be asked");
            assert!(ended.is_none() && Instant::now() < until, "redis-server does not answer: {ended:?}");
            thread::sleep(Duration::from_millis(20));
        }
        redis
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
