//! One run from its start to its end: clients work while things go wrong; then everything heals, clients finish, shards come
//! to rest, and the accounts are compared.

use super::line::Stage;
use super::plan::Plan;
use super::world::{Counts, World};
use crate::core::{Millis, Watching};
use crate::system::calls::{Act, Call, Kind};
use crate::{Ended, Replayable};
use quipu_engine::{Outcome, Reply};
use quipu_storage::{Registry as _, Scan, ShardId, Slice, Table as _};
use std::collections::{BTreeMap, BTreeSet};

/// After everything has healed, clients must be done within this time.
const CLOSE_MS_MAX: Millis = 120_000;
/// And after that shards must be at rest within this time.
const SETTLE_MS_MAX: Millis = 60_000;
/// How often that is looked at.
const SETTLE_STEP_MS: Millis = 250;
/// Questions are answered within this time.
const PROBE_MS_MAX: Millis = 20_000;
/// Operations are dropped in slices of two minutes, when the whole slice has expired.
const SLICE_MS: Millis = 120_000;
/// Longer windows are not waited for.
const WINDOW_MS_MAX: Millis = 120_000;
/// A table is brought up to date at least so often, and what is not needed any more is gone the time after.
const CHECKPOINTS_MS: Millis = 130_000;
/// So many operations are asked for.
const ASKED_MAX: usize = 20;
/// Rows of a shard that stand for no counter: what it says of itself, the time, and up to which record it is covered.
const OTHER_ROWS: usize = 3;
/// The producer of questions that no client asks.
const PROBE: u32 = u32::MAX;

/// What a run was like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Virtual time from the start to the end of the checks.
    pub virtual_ms: Millis,
    /// Calls that clients made.
    pub calls: u64,
    /// Attempts at them.
    pub attempts: u64,
    /// Adds that were acknowledged, repeats among them.
    pub acknowledged: u64,
    /// Calls that one node passed on to another.
    pub passed_on: u64,
    /// How often a shard was taken.
    pub taken: u64,
    /// How often one was given back for another node.
    pub released: u64,
    /// How often a shard was not taken because its owner was at work again, or somebody else was faster.
    pub too_late: u64,
    /// How often a node came to a halt.
    pub halts: u64,
    /// Answers that nobody knows whether something was counted.
    pub in_doubt: u64,
    /// Calls that were passed on and not answered in time.
    pub given_up: u64,
    /// Answers that a shard is another node's by now, from one that thought it had it.
    pub fenced: u64,
    /// Reads that were answered without a commit, because their node could be trusted.
    pub reads_alone: u64,
    /// Commits without an answer that arrived, and were stored.
    pub stored_late: u64,
    /// Commits without an answer that arrived, and were not stored: they were issued again before, or the shard was another
    /// node's.
    pub refused_late: u64,
    /// Troubles.
    pub troubles: u64,
    /// How long it took until all shards were at rest.
    pub settled_after_ms: Millis,
}

/// A condition that did not hold.
pub type Violation = crate::Violation<Plan>;

impl Replayable for Plan {
    fn seed(&self) -> u64 {
        self.seed
    }

    fn command(&self) -> String {
        self.command()
    }
}

/// Runs a plan.
pub fn run(plan: &Plan) -> Result<Summary, Violation> {
    run_watched(plan, Watching::default()).map_err(Ended::violation)
}

/// Runs a plan while somebody watches.
pub fn run_watched(plan: &Plan, watching: Watching) -> Result<Summary, Ended<Plan>> {
    run_world(World::new(plan.clone(), watching))
}

fn run_world(world: World) -> Result<Summary, Ended<Plan>> {
    let stage = Stage::new(world);
    let outcome = run_to_end(&stage);
    let world = stage.lock();
    outcome.map_err(|what| {
        if world.budget.is_stopped {
            return Ended::Stopped;
        }
        Ended::Violated(Violation {
            time_ms: world.now(),
            what,
            events: world.last_events(),
            plan: Box::new(world.plan.clone()),
        })
    })
}

/// Lets time pass. The error is what does not hold.
fn pass(stage: &Stage, until: Millis) -> Result<(), String> {
    stage.run_until(until);
    stage.lock().failure.clone().map_or(Ok(()), Err)
}

fn pass_for(stage: &Stage, ms: Millis) -> Result<(), String> {
    let until = stage.lock().now() + ms;
    pass(stage, until)
}

fn run_to_end(stage: &Stage) -> Result<Summary, String> {
    stage.lock().start();
    let active_ms = stage.lock().plan.active_ms;
    pass(stage, active_ms)?;
    stage.lock().close();
    close(stage)?;
    let settled_after_ms = settle(stage)?;
    account(stage)?;
    floor(stage)?;
    let world = stage.lock();
    let Counts { calls, acknowledged, taken, released, too_late, passed_on, halts, in_doubt, .. } =
        world.counts;
    let Counts { given_up, fenced, reads_alone, stored_late, refused_late, .. } = world.counts;
    let attempts = world.attempts.iter().filter(|attempt| attempt.client.is_some()).count() as u64;
    Ok(Summary {
        virtual_ms: world.now(),
        calls,
        attempts,
        acknowledged,
        passed_on,
        taken,
        released,
        too_late,
        halts,
        in_doubt,
        given_up,
        fenced,
        reads_alone,
        stored_late,
        refused_late,
        troubles: world.plan.troubles.len() as u64,
        settled_after_ms,
    })
}

/// Clients finish what they have begun.
fn close(stage: &Stage) -> Result<(), String> {
    let since = stage.lock().now();
    while !stage.lock().is_quiet() {
        if stage.lock().now() - since > CLOSE_MS_MAX {
            return Err(format!("calls are not answered {CLOSE_MS_MAX} ms after everything has healed"));
        }
        pass_for(stage, SETTLE_STEP_MS)?;
    }
    // Requests that nobody waits for any more still arrive, at the nodes and at the store.
    let plan = stage.lock().plan.clone();
    pass_for(stage, plan.work.late_ms_max + plan.weather.late_ms_max + 1_000)
}

/// Shards come to rest. Returns how long that took.
fn settle(stage: &Stage) -> Result<Millis, String> {
    let since = stage.lock().now();
    loop {
        let took = stage.lock().now() - since;
        let disorder = disorder(&stage.lock());
        match disorder {
            None => return Ok(took),
            Some(what) if took >= SETTLE_MS_MAX => {
                return Err(format!("{took} ms after everything has healed {what}"));
            }
            Some(_) => pass_for(stage, SETTLE_STEP_MS)?,
        }
    }
}

/// What is not as it must be when nothing goes wrong any more: each shard is at one node, the nodes have the same number of
/// shards, or one less, or one has all if they are together; one speaks for the site; and all know who has what.
fn disorder(world: &World) -> Option<String> {
    let up: Vec<usize> = (0..world.places.len()).filter(|&at| world.places[at].is_up).collect();
    let mut owners: BTreeMap<ShardId, usize> = BTreeMap::new();
    for &at in &up {
        for &shard in &world.places[at].has {
            if let Some(other) = owners.insert(shard, at) {
                return Some(format!("nodes {} and {} both have shard {}", other + 1, at + 1, shard.0));
            }
        }
    }
    let missing = (0..world.plan.shards).map(ShardId).find(|shard| !owners.contains_key(shard));
    if let Some(shard) = missing {
        return Some(format!("nobody has shard {}", shard.0));
    }
    let shares = up.iter().map(|&at| world.places[at].has.len());
    let (least, most) = (shares.clone().min().unwrap_or(0), shares.max().unwrap_or(0));
    let speakers: Vec<usize> = up.iter().copied().filter(|&at| world.places[at].sits).collect();
    let [speaker] = speakers[..] else {
        return Some(format!("{} nodes speak for the site", speakers.len()));
    };
    if let Some(&at) = up.iter().find(|&&at| world.places[at].speaker != Some(speaker)) {
        return Some(format!("node {} does not know that node {} speaks for the site", at + 1, speaker + 1));
    }
    if world.plan.together && world.places[speaker].has.len() != most {
        return Some(format!("node {} speaks for the site, and others have shards", speaker + 1));
    }
    let uneven = if world.plan.together { owners.len() - most } else { (most - least).saturating_sub(1) };
    if uneven > 0 {
        return Some(format!("one node has {most} shards, and another one {least}"));
    }
    for &at in &up {
        if world.places[at].routes != owners {
            let routes = &world.places[at].routes;
            return Some(format!("node {} believes {routes:?}, and it is {owners:?}", at + 1));
        }
    }
    let there: BTreeSet<_> = up.iter().map(|&at| world.places[at].id).collect();
    let registered: BTreeSet<_> =
        world.memory.registry(quipu_storage::NodeId(0)).nodes().ok()?.into_iter().map(|it| it.node).collect();
    (registered != there)
        .then(|| format!("{} nodes are registered, and {} are there", registered.len(), there.len()))
}

/// Asks for counters where their shards are.
fn ask(stage: &Stage, calls: Vec<Call>) -> Result<Vec<Reply>, String> {
    let mut world = stage.lock();
    let mut asked = Vec::with_capacity(calls.len());
    for call in calls {
        let shard = world.pool.keys[call.key].shard;
        let at = world.places.iter().position(|place| place.has.contains(&shard));
        let at = at.ok_or_else(|| format!("nobody has shard {}", shard.0))?;
        asked.push(world.probe(at, call));
    }
    drop(world);
    let since = stage.lock().now();
    while asked.iter().any(|attempt| !stage.lock().probed.contains_key(attempt)) {
        if stage.lock().now() - since > PROBE_MS_MAX {
            return Err(format!("a question is not answered within {PROBE_MS_MAX} ms"));
        }
        pass_for(stage, 10)?;
    }
    let mut world = stage.lock();
    Ok(asked.iter().filter_map(|attempt| world.probed.remove(attempt)).collect())
}

/// The counters say what was acknowledged.
fn account(stage: &Stage) -> Result<(), String> {
    let (keys, since_ms) = {
        let world = stage.lock();
        (world.pool.keys.clone(), world.now())
    };
    let call = |key: usize, act| Call { key, act, id: None, producer: PROBE, since_ms };
    let replies = ask(stage, (0..keys.len()).map(|key| call(key, Act::Get)).collect())?;
    let values: Vec<Option<i64>> = replies
        .into_iter()
        .map(|reply| match reply {
            Reply::Value(value) => Ok(value),
            other => Err(format!("a counter cannot be read when everything has healed: {other:?}")),
        })
        .collect::<Result<_, _>>()?;
    let replies = ask(stage, (0..keys.len()).map(|key| call(key, Act::Inspect)).collect())?;
    let is_bounded =
        |reply: &Reply| matches!(reply, Reply::Inspected(Some(inspection)) if inspection.bounded.is_some());
    let bounded: Vec<bool> = replies.iter().map(is_bounded).collect();
    stage.lock().finish(&values, &bounded)?;
    // A counter that was never created has no bounds, whoever has counted on it.
    debug_assert!(keys.iter().zip(&bounded).all(|(key, bounded)| key.kind == Kind::Bounded || !bounded));
    Ok(())
}

/// Lets the window pass: nobody remembers an operation any more, and the table has a row for each counter and hardly
/// another.
fn floor(stage: &Stage) -> Result<(), String> {
    let window_ms = stage.lock().plan.window_ms;
    if window_ms > WINDOW_MS_MAX {
        return Ok(());
    }
    pass_for(stage, 2 * window_ms + 2 * SLICE_MS + CHECKPOINTS_MS)?;
    if let Some(what) = disorder(&stage.lock()) {
        return Err(format!("shards were at rest, and then {what}"));
    }
    let old: Vec<Call> = {
        let world = stage.lock();
        let is_operation = |call: &&Call| call.id.is_some() && matches!(call.act, Act::Add { .. });
        let operations: Vec<&Call> = world.calls.iter().filter(is_operation).collect();
        let step = (operations.len() / ASKED_MAX).max(1);
        operations.into_iter().step_by(step).map(|call| Call { act: Act::Outcome, ..call.clone() }).collect()
    };
    for reply in ask(stage, old)? {
        if !matches!(reply, Reply::Outcome(Outcome::Unknown | Outcome::TooOld)) {
            return Err(format!("an operation is remembered when its window has passed: {reply:?}"));
        }
    }
    let world = stage.lock();
    (0..world.plan.shards).map(ShardId).try_for_each(|shard| rows(&world, shard))
}

fn rows(world: &World, shard: ShardId) -> Result<(), String> {
    let counters = world.pool.keys.iter().filter(|key| key.shard == shard).count();
    let table = world.memory.table();
    let slices = u32::try_from(world.now() / SLICE_MS).unwrap_or(u32::MAX) + 2;
    for slice in (0..=slices).map(Slice) {
        let scan = Scan { slice, prefix: b"", after: None, rows_max: usize::MAX };
        let found = table.scan(shard, scan).map_err(|error| error.to_string())?.rows.len();
        let allowed = if slice == Slice::KEPT { counters + OTHER_ROWS } else { 0 };
        if found > allowed {
            return Err(format!(
                "shard {} keeps {found} rows in slice {}, {allowed} are needed",
                shard.0, slice.0
            ));
        }
    }
    Ok(())
}
