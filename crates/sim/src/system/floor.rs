//! What sites remember of operations when all of them have settled and their window has passed: nothing.

use super::calls::Act;
use super::world::World;
use crate::core::Millis;
use quipu_engine::{Outcome, Reply};
use quipu_storage::{Scan, ShardId, Slice, Table};
use std::collections::BTreeMap;

/// Operations are dropped in slices of two minutes, when the whole slice has expired.
const SLICE_MS: Millis = 120_000;
/// Longer windows are not waited for.
const WINDOW_MS_MAX: Millis = 10_000;
/// A table is brought up to date at least so often, and what is not needed any more is gone the time after.
const CHECKPOINTS_MS: Millis = 130_000;
/// So many operations are asked for.
const ASKED_MAX: usize = 20;
/// Rows of a shard that stand for no counter: what it says of itself, the time, up to which record it is covered, and a list of
/// settled entries.
const OTHER_ROWS: usize = 4;
/// Rows that stand for no edge and no relay, of a shard to which some have come; and that tell whose closed slots are known.
const DESK_ROWS: usize = 4;
/// So many rows are looked at in one go.
const PAGE_ROWS: usize = 1_000;

/// Lets the window pass, and looks what is left.
pub(super) fn check(world: &mut World) -> Result<(), String> {
    if world.plan.window_ms > WINDOW_MS_MAX {
        return Ok(());
    }
    // Ids of a clock that is ahead are kept for longer, by up to half of the window.
    let wait_ms = 2 * world.plan.window_ms + 2 * SLICE_MS + CHECKPOINTS_MS;
    world.run_until(world.now() + wait_ms)?;
    forgotten(world)?;
    for site in world.members() {
        for shard in (0..world.plan.shards).map(ShardId) {
            rows(world, site, shard)?;
        }
    }
    Ok(())
}

/// Nobody remembers an operation any more.
fn forgotten(world: &mut World) -> Result<(), String> {
    let is_operation = |number: &usize| {
        let call = &world.calls[*number];
        call.id.is_some() && matches!(call.act, Act::Add { .. })
    };
    let old: Vec<usize> = (0..world.calls.len()).filter(is_operation).collect();
    let step = (old.len() / ASKED_MAX).max(1);
    for &number in old.iter().step_by(step) {
        let sites = world.members();
        for (site, answer) in sites.into_iter().zip(world.ask_outcome(number)?) {
            match answer {
                Some(Reply::Outcome(Outcome::Unknown | Outcome::TooOld)) => {}
                other => {
                    let call = &world.calls[number];
                    return Err(format!("site {} still remembers \"{call}\": {other:?}", site + 1));
                }
            }
        }
    }
    Ok(())
}

/// The table has a row for each counter, and hardly another.
fn rows(world: &World, site: usize, shard: ShardId) -> Result<(), String> {
    let counters = world.pool.keys.iter().filter(|key| key.shard == shard).count();
    let table = world.sites[site].memory.table();
    let slices = u32::try_from(world.now() / SLICE_MS).unwrap_or(u32::MAX) + 2;
    for slice in (0..=slices).map(Slice) {
        // By the first letter of their keys.
        let mut kinds: BTreeMap<char, usize> = BTreeMap::new();
        let mut after: Option<Vec<u8>> = None;
        loop {
            let scan = Scan { slice, prefix: b"", after: after.as_deref(), rows_max: PAGE_ROWS };
            let page = table.scan(shard, scan).map_err(|error| error.to_string())?;
            for (key, _) in &page.rows {
                *kinds.entry(key.first().map_or(' ', |first| char::from(*first))).or_default() += 1;
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let allowed = if slice == Slice::KEPT { counters + OTHER_ROWS + desk_rows(world) } else { 0 };
        let found: usize = kinds.values().sum();
        if found > allowed {
            let site = site + 1;
            return Err(format!(
                "site {site} keeps {found} rows in slice {} of shard {}, with {counters} counters: {kinds:?}, {allowed} allowed",
                slice.0, shard.0
            ));
        }
    }
    Ok(())
}

/// What is kept of handoffs: the clocks, what is folded, what is parked, and slots that may stay.
fn desk_rows(world: &World) -> usize {
    // The closed slots of every site that was ever there, and of every relay.
    let desks = world.membership.members.len() + world.membership.removed.len() + world.relays_leaving();
    if world.plan.fleet.is_empty() {
        return 1 + desks;
    }
    if world.has_orphans() {
        // What is kept for a relay whose heir is gone stays.
        return PAGE_ROWS;
    }
    DESK_ROWS + desks + usize::try_from(world.may_be_kept()).unwrap_or(usize::MAX)
}
