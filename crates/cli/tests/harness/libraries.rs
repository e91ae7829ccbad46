//! Client libraries, installed in the versions that are pinned in `tests/clients`, and scripts that use them.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use super::{server::signal, tools};

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients");
/// A script that takes longer hangs.
const SCRIPT_WITHIN: Duration = Duration::from_secs(180);

/// A folder of the build with what `pins` names in it; `install` fills it once for each change of that file.
fn installed(
    name: &str,
    pins: &str,
    install: impl FnOnce(&Path, &Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let (pins, stamp) = (Path::new(SCRIPTS).join(pins), folder.join("installed"));
    let wanted = fs::read_to_string(&pins).map_err(|error| error.to_string())?;
    if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(folder);
    }
    let made = fs::create_dir_all(&folder).map_err(|error| error.to_string());
    made.and_then(|()| install(&folder, &pins))?;
    fs::write(stamp, wanted).map_err(|error| error.to_string())?;
    Ok(folder)
}

/// The Python that has redis-py.
pub(crate) fn python() -> Result<PathBuf, String> {
    let python = tools::find("python3")?;
    let folder = installed("redis-py", "requirements.txt", |folder, pins| {
        tools::output(Command::new(python).args(["-m", "venv"]).arg(folder))?;
        let pip = folder.join("bin").join("pip");
        tools::output(Command::new(pip).args(["install", "--disable-pip-version-check", "-r"]).arg(pins))
            .map(drop)
    })?;
    Ok(folder.join("bin").join("python"))
}

/// Node, and the folder that has ioredis.
pub(crate) fn node() -> Result<(PathBuf, PathBuf), String> {
    let (node, npm) = (tools::find("node")?, tools::find("npm")?);
    let folder = installed("ioredis", "package.json", |folder, pins| {
        fs::copy(pins, folder.join("package.json")).map_err(|error| error.to_string())?;
        let install = ["install", "--no-audit", "--no-fund", "--no-package-lock"];
        tools::output(Command::new(npm).args(install).current_dir(folder)).map(drop)
    })?;
    Ok((node, folder))
}

/// Runs a script against a port. Where `hear` has done what a line asks for, and says so, the script goes on. Its last line
/// must be OK. Returns all that it has said.
pub(crate) fn run(
    mut command: Command,
    script: &str,
    port: u16,
    more: &[&str],
    mut hear: impl FnMut(&str) -> bool,
) -> Vec<String> {
    command.arg(Path::new(SCRIPTS).join(script)).arg(port.to_string()).args(more);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let pid = child.id();
    let mut input = child.stdin.take().expect("it is piped");
    let output = BufReader::new(child.stdout.take().expect("it is piped"));
    let (done, ended) = mpsc::channel::<()>();
    let watchdog = thread::spawn(move || {
        if ended.recv_timeout(SCRIPT_WITHIN) == Err(mpsc::RecvTimeoutError::Timeout) {
            signal(pid, "KILL");
        }
    });
    let mut said = Vec::new();
    for line in output.lines().map_while(Result::ok) {
        if hear(&line) {
            writeln!(input, "go").expect("it listens");
        }
        said.push(line);
    }
    let output = child.wait_with_output().expect("it ends");
    drop(done);
    watchdog.join().expect("no failure");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.last().is_some_and(|line| line == "OK"), "{said:?}\n{errors}");
    said
}
