//! Borrowed identities (“Borrowing an Identity for a Distributed Counter”, Enes, Baquero, Almeida and Leitão) against
//! handoff, on the same clients that come and go: what do permanent nodes have to keep, what is sent, and what does each
//! need from the network?
//!
//! A few permanent nodes send to each other once in a while. Clients arrive, choose one of them, count one at each of their
//! turns and send; they are answered. When they have stayed long enough they count no more and leave as soon as they may;
//! some vanish without a word instead. In the middle of the run the first node is cut off for a while: its clients hear
//! nothing and go on with another.
//!
//! Who arrives when, where it goes and what becomes of it is the same for all designs and losses. Checked while it runs: no
//! node or client reports more than was counted or less than before. After the end, when all clients are gone, every node
//! must report exactly what was counted, without what clients had with them that vanished.

mod books;
mod design;
mod fleet;
mod handing;
mod lending;
mod params;
mod tables;
#[cfg(test)]
mod tests;

pub use params::Params;
pub use tables::{by_loss, over_time};

use crate::core::Millis;
use crate::run::{RunError, Watch, go_on};
use books::times;
use design::{Design, Kept};
use fleet::Fleet;
use handing::Handing;
use lending::{Lending, Messages};

/// How often progress is told.
const PROGRESS_MS: Millis = 1_000;
/// When the last client should have left, everything must be accounted for within this time.
const SETTLE_MS_MAX: Millis = 120_000;

/// The permanent nodes at one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct State {
    /// When, in virtual milliseconds.
    pub time_ms: Millis,
    /// Clients that are there.
    pub clients: u64,
    /// What a node keeps for itself, the other nodes and clients, on average.
    pub entries: f64,
    /// Slots of which only a bit is left, on average.
    pub folded: f64,
    /// The size of its replica as it is stored, on average.
    pub bytes: f64,
}

/// How long something took, over all clients, in virtual milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// For one half it took no longer.
    pub median_ms: Millis,
    /// For 99 of 100 it took no longer.
    pub p99_ms: Millis,
    /// The longest.
    pub max_ms: Millis,
}

/// What one design gave on one network.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// While clients arrive; the last one is from after the end, when all clients are gone.
    pub states: Vec<State>,
    /// Clients that arrived.
    pub clients: u64,
    /// Of these, the ones that vanished.
    pub vanished: u64,
    /// How often a client went on with another node.
    pub moves: u64,
    /// What was counted.
    pub issued: u64,
    /// Of this, what clients had with them that vanished.
    pub lost: u64,
    /// Messages between clients and nodes.
    pub client_messages: u64,
    /// Their bytes.
    pub client_bytes: u64,
    /// Messages between nodes, for as long as clients arrive.
    pub node_messages: u64,
    /// Their bytes.
    pub node_bytes: u64,
    /// From the arrival of a client until it can count.
    pub ready: Times,
    /// From its last count until it knows that permanent nodes have all that it counted.
    pub held: Times,
    /// From its last count until it may leave.
    pub leave: Times,
}

/// The designs side by side.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// How many messages were lost, in percent.
    pub loss_percent: u32,
    /// Handoff.
    pub handoff: Measured,
    /// A borrowed identity, with whole states as messages as in the paper.
    pub borrow: Measured,
    /// The same, with messages between clients and nodes that carry only what is about the client.
    pub parts: Measured,
}

/// Runs all designs, for each loss.
pub fn run(params: &Params, watch: &mut Watch<'_>) -> Result<Vec<Compared>, RunError> {
    params.check()?;
    let runs = 3.0 * params.loss_percent.len() as f64;
    let mut finished = 0.0;
    let mut measured = |run: &mut dyn FnMut(&mut Watch<'_>) -> Result<Measured, RunError>| {
        let measured = run(&mut |done| watch((finished + done) / runs));
        finished += 1.0;
        measured
    };
    let mut compared = Vec::new();
    for &loss_percent in &params.loss_percent {
        let (handing, whole, parts) = designs(params);
        compared.push(Compared {
            loss_percent,
            handoff: measured(&mut |watch| measure(handing, params, loss_percent, watch))?,
            borrow: measured(&mut |watch| measure(whole, params, loss_percent, watch))?,
            parts: measured(&mut |watch| measure(parts, params, loss_percent, watch))?,
        });
    }
    Ok(compared)
}

fn designs(params: &Params) -> (Handing, Lending, Lending) {
    (Handing::new(params.fold_after_ms), Lending::new(Messages::Whole), Lending::new(Messages::OwnPart))
}

fn measure<D: Design>(
    design: D,
    params: &Params,
    loss_percent: u32,
    watch: &mut Watch<'_>,
) -> Result<Measured, RunError> {
    let violation = |time_ms, what| RunError::Failed(format!("seed {}, {time_ms} ms: {what}", params.seed));
    let fleet = Fleet::new(design, params, f64::from(loss_percent) / 100.0);
    let mut fleet = fleet.map_err(|what| violation(0, what))?;
    let mut states = Vec::new();
    let mut next_row_ms = params.stats_ms;
    while fleet.now() < params.end_ms {
        go_on(watch, fleet.now() as f64 / params.end_ms as f64)?;
        let until = (fleet.now() + PROGRESS_MS).min(next_row_ms).min(params.end_ms);
        fleet.run_until(until).map_err(|what| violation(fleet.now(), what))?;
        if until == next_row_ms {
            next_row_ms += params.stats_ms;
            states.push(state_of(&fleet));
        }
    }
    let (node_messages, node_bytes) = (fleet.tally.server_messages, fleet.tally.server_bytes);
    let due_ms = params.all_is_over_ms();
    while fleet.now() < due_ms || fleet.unfinished().is_some() {
        go_on(watch, 1.0)?;
        if let Some(left) = fleet.unfinished()
            && fleet.now() >= due_ms + SETTLE_MS_MAX
        {
            let what = format!("{SETTLE_MS_MAX} ms after all should be over {left}");
            return Err(violation(fleet.now(), what));
        }
        fleet.run_until(fleet.now() + PROGRESS_MS).map_err(|what| violation(fleet.now(), what))?;
    }
    states.push(state_of(&fleet));
    let lost = fleet.lost();
    let tally = fleet.tally;
    Ok(Measured {
        states,
        clients: tally.arrived,
        vanished: tally.vanished,
        moves: tally.moves,
        issued: tally.issued,
        lost,
        client_messages: tally.client_messages,
        client_bytes: tally.client_bytes,
        node_messages,
        node_bytes,
        ready: times(tally.ready_ms),
        held: times(tally.held_ms),
        leave: times(tally.leave_ms),
    })
}

fn state_of<D: Design>(fleet: &Fleet<'_, D>) -> State {
    let mut sum = Kept::default();
    let mut nodes = 0.0;
    for Kept { entries, folded, bytes } in fleet.kept() {
        nodes += 1.0;
        sum.entries += entries;
        sum.folded += folded;
        sum.bytes += bytes;
    }
    State {
        time_ms: fleet.now(),
        clients: fleet.clients(),
        entries: sum.entries as f64 / nodes,
        folded: sum.folded as f64 / nodes,
        bytes: sum.bytes as f64 / nodes,
    }
}
