//! One run from its start to its end: clients work while things go wrong; then everything heals, clients finish, sites
//! come to agree, and the accounts are compared.

use super::books;
use super::calls::{Act, Kind};
use super::floor;
use super::plan::{Plan, Topology};
use super::trouble::{Planned, Trouble};
use super::world::World;
use crate::core::{Millis, Watching};
use crate::{Ended, Replayable};
use quipu_engine::{BoundedView, Reply};

/// The counters with bounds are looked at so often.
const LOOK_MS: Millis = 500;
/// After everything has healed, clients must be done within this time.
const CLOSE_MS_MAX: Millis = 120_000;
/// And after that all sites must agree within this time.
const SETTLE_MS_MAX: Millis = 120_000;
/// A removal that waits for so long for what is kept for a relay whose heir is lost is taken back, and nobody waits for longer
/// for what is kept for a relay that has left everything to such an heir.
const STAY_AFTER_MS: Millis = 30_000;
/// Edges and relays have handed over everything and left within this time.
const DISPERSE_MS_MAX: Millis = 300_000;
/// How often that is looked at.
const SETTLE_STEP_MS: Millis = 250;

/// What a run was like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Virtual time from the start to the end of the checks.
    pub virtual_ms: Millis,
    /// Calls that clients made, probes not among them.
    pub calls: u64,
    /// Attempts at them.
    pub attempts: u64,
    /// Adds that were acknowledged, repeats among them.
    pub acknowledged: u64,
    /// Messages between sites.
    pub messages: u64,
    /// Troubles.
    pub troubles: u64,
    /// Counters at the end.
    pub counters: u64,
    /// Edges that came and went.
    pub edges: u64,
    /// Adds that edges and relays counted.
    pub handed_over: u64,
    /// Messages of edges and relays, and answers to them.
    pub exchanges: u64,
    /// How long it took until all sites agreed.
    pub settled_after_ms: Millis,
    /// Two copies of a site were heard, and nobody can say what is right: the ends were not compared.
    pub is_undecided: bool,
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

fn run_world(mut world: World) -> Result<Summary, Ended<Plan>> {
    let mut summary = Summary::default();
    match run_to_end(&mut world, &mut summary) {
        Ok(()) => Ok(summary),
        Err(_) if world.budget.is_stopped => Err(Ended::Stopped),
        Err(what) => Err(Ended::Violated(Violation {
            time_ms: world.now(),
            what,
            events: world.last_events(),
            plan: Box::new(world.plan),
        })),
    }
}

fn run_to_end(world: &mut World, summary: &mut Summary) -> Result<(), String> {
    world.start()?;
    let active_ms = world.plan.active_ms;
    let mut at = 0;
    while at < active_ms && !world.is_undecided {
        at = active_ms.min(at + LOOK_MS);
        world.run_until(at)?;
        look(world)?;
    }
    world.close();
    world.heal()?;
    world.part_copies()?;
    if !world.is_undecided {
        close(world)?;
        disperse(world)?;
        summary.settled_after_ms = settle(world)?;
        floor::check(world)?;
    }
    summary.is_undecided = world.is_undecided;
    summary.virtual_ms = world.now();
    summary.attempts = world.attempts.iter().filter(|attempt| attempt.client.is_some()).count() as u64;
    summary.calls = world.client_calls;
    summary.messages = world.between.sent();
    summary.acknowledged = world.acknowledged;
    summary.troubles = world.plan.troubles.len() as u64;
    summary.counters = world.pool.keys.len() as u64;
    summary.edges = world.fleet.edges;
    summary.handed_over = world.fleet.counted;
    summary.exchanges = world.fleet.messages();
    Ok(())
}

/// The counters with bounds at one moment: what all sites together have counted is within them.
fn look(world: &mut World) -> Result<(), String> {
    let keys: Vec<usize> = of_kind(world, Kind::Bounded);
    let sites = world.members();
    let all_are_up = sites.iter().all(|&site| world.sites[site].is_up());
    // What a site that has left has counted stands in the rows of nobody who could be asked.
    if keys.is_empty() || !all_are_up || !world.dead.is_empty() {
        return Ok(());
    }
    let questions: Vec<_> =
        keys.iter().flat_map(|&key| sites.iter().map(move |&site| (site, key, Act::Inspect))).collect();
    let answers = world.ask(&questions)?;
    for (&key, answers) in keys.iter().zip(answers.chunks(sites.len())) {
        let mut sum = None;
        for (&site, answer) in sites.iter().zip(answers) {
            let Some(Reply::Inspected(found)) = answer else {
                sum = None;
                break;
            };
            let Some(found) = found else { continue };
            let Some(bounds) = found.bounded else { continue };
            let own = world.sites[site].id;
            let rows = found.sites.iter().filter(|row| row.site == own);
            let counted: i128 = rows.map(|row| i128::from(row.added) - i128::from(row.subtracted)).sum();
            *sum.get_or_insert(i128::from(bounds.initial)) += counted;
        }
        let limits = world.pool.keys[key].limits;
        let below = |sum: i128| limits.minimum.is_some_and(|minimum| sum < i128::from(minimum));
        let above = |sum: i128| limits.maximum.is_some_and(|maximum| sum > i128::from(maximum));
        if let Some(sum) = sum.filter(|&sum| below(sum) || above(sum)) {
            let name = String::from_utf8_lossy(&world.pool.keys[key].name);
            return Err(format!("all sites together have counted {sum} for {name}: {limits:?}"));
        }
    }
    Ok(())
}

fn of_kind(world: &World, kind: Kind) -> Vec<usize> {
    let keys = world.pool.keys.iter().enumerate();
    keys.filter(|(_, key)| key.kind == kind).map(|(number, _)| number).collect()
}

/// Clients finish what they have begun.
fn close(world: &mut World) -> Result<(), String> {
    let since = world.now();
    while !world.is_quiet() {
        if world.now() - since > CLOSE_MS_MAX {
            return Err(format!("calls are not answered {CLOSE_MS_MAX} ms after everything has healed"));
        }
        world.run_until(world.now() + SETTLE_STEP_MS)?;
    }
    // Requests that nobody waits for any more still arrive.
    let late_ms = world.plan.work.late_ms_max + 1_000;
    world.run_until(world.now() + late_ms)
}

/// Edges and relays hand over what they have, and leave.
fn disperse(world: &mut World) -> Result<(), String> {
    if world.plan.fleet.is_empty() {
        return Ok(());
    }
    world.disperse();
    let since = world.now();
    while let Some(what) = world.not_handed_over() {
        let took = world.now() - since;
        if took > DISPERSE_MS_MAX {
            return Err(format!("{took} ms after everything has healed {what}"));
        }
        world.run_until(world.now() + SETTLE_STEP_MS)?;
    }
    // Letters that nobody waits for any more still arrive, and after that old slots are folded.
    let late_ms = world.plan.fleet.faults.reordering_ms_max + 1_000;
    let fold_ms =
        if world.folds_soon() { world.plan.fleet.ttl_s * 1_000 + clocks_go_back_ms(world) } else { 0 };
    world.run_until(world.now() + late_ms + fold_ms)
}

/// By how much wall clocks were set back, at most.
fn clocks_go_back_ms(world: &World) -> Millis {
    let jump = |planned: &Planned| match planned.trouble {
        Trouble::Clock { by_ms, .. } => by_ms.unsigned_abs(),
        _ => 0,
    };
    world.plan.troubles.iter().map(jump).sum()
}

/// Sites come to agree. Returns how long that took.
fn settle(world: &mut World) -> Result<Millis, String> {
    let since = world.now();
    loop {
        let took = world.now() - since;
        let all_are_up = world.members().iter().all(|&site| world.sites[site].is_up());
        if world.is_changing() || !all_are_up {
            if took >= STAY_AFTER_MS {
                world.let_stay();
            }
            if took >= SETTLE_MS_MAX {
                let who = world.not_drained();
                return Err(format!(
                    "{took} ms after everything has healed the cluster is still changing{who}"
                ));
            }
            world.run_until(world.now() + SETTLE_STEP_MS)?;
            continue;
        }
        let values = values(world)?;
        let unsettled = differing(world, &values).or_else(|| books::unsettled(world));
        let Bounded { bounded, parked, waits } = bounded(world, &values)?;
        match unsettled.or(waits).or_else(|| world.kept_too_long(took < STAY_AFTER_MS)) {
            None => {
                books::balance(world)?;
                world.count_losses();
                world.finish(&values, &bounded, &parked)?;
                return Ok(took);
            }
            Some(what) if took >= SETTLE_MS_MAX => {
                return Err(format!("{took} ms after everything has healed {what}"));
            }
            Some(_) => world.run_until(world.now() + SETTLE_STEP_MS)?,
        }
    }
}

/// What each site says of each counter.
fn values(world: &mut World) -> Result<Vec<Vec<Option<i64>>>, String> {
    let sites = world.members();
    let keys = 0..world.pool.keys.len();
    let questions: Vec<_> =
        keys.flat_map(|key| sites.iter().map(move |&site| (site, key, Act::Get))).collect();
    let answers = world.ask(&questions)?;
    let value = |answer: &Option<Reply>| match answer {
        Some(Reply::Value(value)) => *value,
        _ => None,
    };
    Ok(answers.chunks(sites.len()).map(|answers| answers.iter().map(value).collect()).collect())
}

/// The counters with bounds, in the end.
struct Bounded {
    /// Which counters have some.
    bounded: Vec<bool>,
    /// By counter, what waits for rights.
    parked: Vec<i128>,
    /// What waits although there are rights for it.
    waits: Option<String>,
}

fn bounded(world: &mut World, values: &[Vec<Option<i64>>]) -> Result<Bounded, String> {
    let keys = of_kind(world, Kind::Bounded);
    let first = world.members()[0];
    let questions: Vec<_> = keys.iter().map(|&key| (first, key, Act::Inspect)).collect();
    let answers = world.ask(&questions)?;
    let all = world.pool.keys.len();
    let mut found = Bounded { bounded: vec![false; all], parked: vec![0; all], waits: None };
    for (key, answer) in keys.into_iter().zip(answers) {
        let Some(Reply::Inspected(Some(inspection))) = answer else { continue };
        let Some(BoundedView { minimum, maximum, parked, .. }) = inspection.bounded else { continue };
        found.bounded[key] = true;
        found.parked[key] = parked.value();
        let value = values[key][0];
        let adds = parked.added > 0 && maximum.is_none_or(|maximum| value < Some(maximum));
        let subtracts = parked.subtracted > 0 && minimum.is_none_or(|minimum| value > Some(minimum));
        // Sites ask only those for rights that they are linked to.
        if (adds || subtracts) && world.plan.topology == Topology::Full {
            let name = String::from_utf8_lossy(&world.pool.keys[key].name);
            found.waits = Some(format!("{parked:?} waits under {name} for rights that there are: {value:?}"));
        }
    }
    Ok(found)
}

fn differing(world: &World, values: &[Vec<Option<i64>>]) -> Option<String> {
    let (key, values) =
        values.iter().enumerate().find(|(_, values)| values.windows(2).any(|two| two[0] != two[1]))?;
    let name = String::from_utf8_lossy(&world.pool.keys[key].name);
    Some(format!("sites differ about {name}: {values:?}"))
}
