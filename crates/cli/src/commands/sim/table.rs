//! What the four experiments with handoff counters share: their common flags, and their table.

use crate::failure::Failure;
use crate::interrupt;
use indicatif::{ProgressBar, ProgressStyle};
use quipu_sim::core::Millis;
use quipu_sim::handoff::{Error, Row, Summary};
use std::io::{ErrorKind, Write};
use std::time::Instant;

// Not doc comments here and below: clap would show them instead of those of the commands.

// How many permanent nodes and servers there are.
#[derive(clap::Args)]
pub(super) struct Shape {
    /// Nodes of tier 0, which keep the counts; 1 to 100
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(super) tier0: u32,
    /// Servers, of tier 1, which collect them; 1 to 10000
    #[arg(long, default_value_t = 100, value_name = "N")]
    pub(super) servers: u32,
}

// What is written.
#[derive(clap::Args)]
pub(super) struct Output {
    /// A line every so many virtual milliseconds
    #[arg(long, default_value_t = 1_000, value_name = "MS")]
    pub(super) stats_ms: Millis,
    /// The same seed gives the same output, byte for byte
    #[arg(long, default_value_t = 1, value_name = "S")]
    pub(super) seed: u64,
    /// A JSON object on each line, the last with a summary, instead of a table
    #[arg(long)]
    json: bool,
}

/// Runs an experiment that gives rows and ends at `end_ms`, and writes them as they come.
pub(super) fn run(
    output: &Output,
    end_ms: Millis,
    experiment: impl FnOnce(&mut dyn FnMut(&Row) -> bool) -> Result<Summary, Error>,
) -> Result<(), Failure> {
    let bar = progress(end_ms);
    interrupt::end_between_lines(&bar)?;
    let started = Instant::now();
    let mut written = Ok(());
    if !output.json {
        written = write_line(&bar, "# time\tclients\tactive\tids\tslots");
    }
    let outcome = experiment(&mut |row| {
        bar.set_position(row.time_ms);
        if written.is_ok() {
            written = write_line(&bar, &if output.json { json_of(row) } else { line_of(row) });
        }
        written.is_ok()
    });
    bar.finish_and_clear();
    let summary = outcome.map_err(failure_of)?;
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()), // The reader has seen enough.
        Err(error) => return Err(Failure::failed(format!("cannot write the table: {error}"))),
        Ok(()) => {}
    }
    if output.json {
        let line = summary_json(&summary).to_string();
        return write_line(&bar, &line).map_err(Failure::failed);
    }
    eprint!("{}", summary_text(&summary, started));
    Ok(())
}

/// A bar on a terminal, and nothing elsewhere.
fn progress(end_ms: Millis) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {human_pos}/{human_len} virtual ms, {eta} left");
    ProgressBar::new(end_ms).with_style(style.expect("the template is valid"))
}

/// Writes a whole line or, if the process ends, nothing of it.
fn write_line(bar: &ProgressBar, line: &str) -> std::io::Result<()> {
    bar.suspend(|| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}")?;
        out.flush()
    })
}

fn line_of(row: &Row) -> String {
    let Row { time_ms, clients, active, ids, slots } = row;
    format!("{time_ms}\t{clients}\t{active}\t{ids:.2}\t{slots:.2}")
}

fn json_of(row: &Row) -> String {
    let Row { time_ms, clients, active, ids, slots } = *row;
    serde_json::json!({ "time": time_ms, "clients": clients, "active": active, "ids": ids, "slots": slots })
        .to_string()
}

fn summary_json(summary: &Summary) -> serde_json::Value {
    serde_json::json!({ "summary": {
        "violations": 0,
        "issued": summary.issued,
        "handed_off": summary.handed_off,
        "at_clients": summary.at_clients,
        "vanished": summary.vanished,
        "abandoned": summary.abandoned,
        "folded": summary.folded,
        "folded_bytes": summary.folded_bytes,
        "bytes_per_abandoned": bytes_per_abandoned(summary),
        "messages": summary.messages,
        "reports_checked": summary.reports_checked,
        "conservation_checked": summary.audits,
        "settled_after_ms": summary.settled_after_ms,
    } })
}

fn bytes_per_abandoned(summary: &Summary) -> Option<f64> {
    (summary.folded > 0).then(|| summary.folded_bytes as f64 / summary.folded as f64)
}

fn summary_text(summary: &Summary, started: Instant) -> String {
    let Summary { issued, handed_off, at_clients, vanished, abandoned, messages, audits, .. } = *summary;
    let seconds = started.elapsed().as_secs_f64();
    let mut text = format!("{messages} messages in {seconds:.1} s\n");
    text += &format!(
        "checked: reports at every merge ({}), conservation at every row ({audits})\n",
        summary.reports_checked
    );
    text += &format!(
        "at the end every node of tier 0 reports the {handed_off} of {issued} increments that were handed off"
    );
    if at_clients > 0 {
        text += &format!("; {at_clients} are with clients");
    }
    if abandoned > 0 {
        text += &format!("; {vanished} went with the {abandoned} clients that vanished");
    }
    text.push('\n');
    if let Some(bytes) = bytes_per_abandoned(summary) {
        let folded = summary.folded;
        text += &format!("{folded} abandoned slots are folded, {bytes:.2} bytes for each abandoned client\n");
    }
    text
}

fn failure_of(error: Error) -> Failure {
    match error {
        Error::Refused(refused) => refused.into(),
        Error::Violation { .. } => {
            let arguments: Vec<String> = std::env::args().skip(1).collect();
            Failure::failed(format!("{error}\nreplay it with: quipu {}", arguments.join(" ")))
        }
    }
}

/// Refuses bad parameters, by the name of their flags, before anything runs.
pub(super) fn refuse(checked: Result<(), quipu_sim::Refused>) -> Result<(), Failure> {
    checked.map_err(|bad| failure_of(bad.into()))
}
