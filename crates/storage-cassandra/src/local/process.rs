//! One node as a process, which ends with ours.

use std::{
    fs,
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

/// Runs a node, and ends it when its input does: also when our process was killed and could not do so itself. A line of
/// input before that says that the folder is still needed.
const KEEPER: &str = r#"
trap '' INT TERM
folder=$1; shift
"$@" >>"$folder/out" 2>&1 </dev/null &
echo "$!"
keep=
read -r keep
kill -9 "$!" 2>/dev/null
wait "$!" 2>/dev/null
[ -n "$keep" ] || rm -rf "$folder"
"#;

/// A node that runs.
#[derive(Debug)]
pub(super) struct Process {
    keeper: Child,
    pid: Pid,
    folder: PathBuf,
}

impl Process {
    pub(super) fn start(folder: &Path, arguments: &[String]) -> io::Result<Self> {
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "sh"])
            .arg(folder)
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        if let Some(out) = keeper.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        let pid = line.trim().parse().ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other(format!("sh said {line:?} and not a process id")))?;
        Ok(Self { keeper, pid, folder: folder.to_owned() })
    }

    pub(super) fn id(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        kill_process(self.pid, signal).map_err(io::Error::from)
    }

    /// Kills it. Its folder stays.
    pub(super) fn kill(mut self) -> io::Result<()> {
        if let Some(mut input) = self.keeper.stdin.take() {
            input.write_all(b"keep\n")?;
        }
        self.keeper.wait().map(drop)
    }

    /// What it has said.
    pub(super) fn said(&self) -> String {
        let said = fs::read(self.folder.join("out")).unwrap_or_default();
        String::from_utf8_lossy(&said).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        // If it cannot be waited for it has ended.
        let _ = self.keeper.wait();
    }
}
