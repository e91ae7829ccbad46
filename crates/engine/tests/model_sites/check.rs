//! What must hold: in every state, and after everything has been delivered.

use quipu_engine::{Added, Outcome, Reply};

use crate::{
    locals::{Input, LocalId, Locals, MessageId},
    plan::Plan,
    site::{Facts, site_id},
    state::{Action, Told},
};

/// How often all timers may run out before nothing moves any more.
const ROUNDS_MAX: usize = 64;
/// How much may happen until then.
const ACTIONS_MAX: usize = 2_000;

/// How it ends when everything that is said from now on is delivered.
#[derive(Debug, Clone)]
pub(crate) struct Healed {
    pub(crate) locals: Vec<LocalId>,
    /// What has happened meanwhile,
    pub(crate) actions: Vec<Action>,
    /// and what clients are told that waited.
    pub(crate) replies: Vec<(usize, Vec<(usize, Reply)>)>,
    pub(crate) wrong: Option<String>,
}

/// Delivers everything, in order, until nothing moves; what is under way already is lost.
pub(crate) fn heal(locals: &mut Locals<'_>, from: &[LocalId], posted: &[MessageId]) -> Healed {
    let mut healed = Healed { locals: from.to_vec(), actions: Vec::new(), replies: Vec::new(), wrong: None };
    let mut queue: std::collections::VecDeque<MessageId> = posted.iter().copied().collect();
    for _ in 0..ROUNDS_MAX {
        while healed.actions.len() < ACTIONS_MAX
            && let Some(message) = queue.pop_front()
        {
            let at = locals.letter(message).to;
            queue.extend(healed.advance(locals, at, Input::Received(message)));
        }
        let is_quiet = queue.is_empty() && healed.locals.iter().all(|local| !locals.facts(*local).waits);
        if is_quiet || healed.wrong.is_some() {
            return healed;
        }
        // Time passes at all sites alike, whether or not they wait for it.
        for at in 0..from.len() {
            queue.extend(healed.advance(locals, at, Input::Timer));
        }
    }
    healed.wrong = Some("although everything is delivered the sites do not come to rest".to_owned());
    healed
}

impl Healed {
    fn advance(&mut self, locals: &mut Locals<'_>, at: usize, input: Input) -> Vec<MessageId> {
        self.actions.push(Action { at, input, repeats: false });
        let step = locals.step(self.locals[at], input);
        self.wrong = self.wrong.take().or(step.wrong);
        self.locals[at] = step.to;
        if !step.replies.is_empty() {
            self.replies.push((at, step.replies));
        }
        step.sent
    }

    /// What clients were told in the end.
    pub(crate) fn told(&self, plan: &Plan, before: &Told) -> Result<Told, String> {
        let mut told = before.clone();
        for (at, replies) in &self.replies {
            if let Some(wrong) = told.note_replies(plan, *at, replies) {
                return Err(wrong);
            }
        }
        Ok(told)
    }
}

/// What holds in every state of all sites together: all that was counted anywhere keeps a counter within its bounds.
pub(crate) fn check_bounds(locals: &Locals<'_>, state: &[LocalId]) -> Result<(), String> {
    let facts: Vec<&Facts> = state.iter().map(|local| locals.facts(*local)).collect();
    for key in 0..locals.plan.keys().len() {
        let definition = facts.iter().find_map(|facts| facts.counters[key].as_ref()?.bounded);
        let Some(definition) = definition else { continue };
        let own = facts.iter().enumerate().filter_map(|(at, facts)| {
            let view = facts.counters[key].as_ref().filter(|view| view.bounded.is_some())?;
            let row = view.sites.iter().find(|row| row.site == site_id(at))?;
            Some(i128::from(row.added) - i128::from(row.subtracted))
        });
        let value = i128::from(definition.initial) + own.sum::<i128>();
        if definition.minimum.is_some_and(|minimum| value < i128::from(minimum)) {
            return Err(format!("all sites together have counted {value}: {definition:?}"));
        }
    }
    Ok(())
}

/// What holds in every state: the lowest site that has counted an operation says so, and whoever has taken its own count
/// back names a lower one.
pub(crate) fn check_answers(locals: &Locals<'_>, state: &[LocalId], told: &Told) -> Result<(), String> {
    for (operation, counted) in told.counted.iter().enumerate() {
        for (at, local) in state.iter().enumerate().filter(|(at, _)| counted >> at & 1 == 1) {
            let is_lowest = counted.trailing_zeros() as usize == at;
            let is_lower = |site| (0..at).any(|other| counted >> other & 1 == 1 && site_id(other) == site);
            let outcome = locals.facts(*local).outcomes[operation];
            let is_right = match outcome {
                Outcome::Counted(Added { site, .. }) | Outcome::Provisional(Added { site, .. }) => {
                    if is_lowest {
                        site == site_id(at)
                    } else {
                        site == site_id(at) || is_lower(site)
                    }
                }
                Outcome::Cancelled { counted_at } => is_lower(counted_at),
                Outcome::Unknown | Outcome::TooOld => false,
            };
            if !is_right {
                let (site, sites) = (at + 1, format!("{counted:b}"));
                return Err(format!(
                    "operation {operation}: site {site} says {outcome:?}; counted at {sites}"
                ));
            }
        }
    }
    Ok(())
}

/// What holds when everything has been delivered.
pub(crate) fn check_end(locals: &Locals<'_>, healed: &Healed, before: &Told) -> Result<(), String> {
    let plan = locals.plan;
    if let Some(wrong) = &healed.wrong {
        return Err(wrong.clone());
    }
    let told = healed.told(plan, before)?;
    let facts: Vec<&Facts> = healed.locals.iter().map(|local| locals.facts(*local)).collect();
    check_books(&facts)?;
    for (key, name) in plan.keys().iter().enumerate() {
        let views: Vec<_> = facts.iter().map(|facts| facts.counters[key].as_ref()).collect();
        let definition = views[0].and_then(|view| view.bounded);
        if views.iter().any(|view| view.and_then(|view| view.bounded) != definition) {
            return Err(format!("sites differ about what {} is: {views:?}", name.escape_ascii()));
        }
        let creator = definition.map_or(0, |definition| 1 << (definition.creator.number - 1));
        if told.created[key] & !creator != 0 {
            return Err(format!("a client was told that {} is made: {definition:?}", name.escape_ascii()));
        }
        let operations = plan.operations.iter().enumerate().filter(|(_, operation)| operation.key == *name);
        let once = operations.map(|(number, operation)| told.counts(number) * operation.amount);
        let initial = definition.map_or(0, |definition| definition.initial);
        let expected = initial + told.plain[key] + once.sum::<i64>();
        let values: Vec<i64> = views.iter().map(|view| view.map_or(0, |view| view.value)).collect();
        if values.iter().any(|value| *value != expected) {
            return Err(format!("{} must be {expected}, and is {values:?}", name.escape_ascii()));
        }
        if let Some(minimum) = definition.and_then(|definition| definition.minimum) {
            check_rights(&views, i128::from(expected - minimum))?;
        }
    }
    (0..plan.operations.len()).try_for_each(|number| check_outcomes(&facts, &told, number))
}

impl Told {
    /// How often an operation counts in the end. The lowest site that has counted it keeps it, and a reset that has seen
    /// that count takes it away, whatever resets have seen of the counts that are taken back.
    fn counts(&self, operation: usize) -> i64 {
        let keeper = self.counted[operation] & self.counted[operation].wrapping_neg();
        i64::from(keeper & !self.deleted[operation] != 0)
    }
}

/// Every site says of every operation that it was counted, and where.
fn check_outcomes(facts: &[&Facts], told: &Told, operation: usize) -> Result<(), String> {
    let keeper = match told.counted[operation] {
        0 => None,
        sites => Some(site_id(sites.trailing_zeros() as usize)),
    };
    for (at, facts) in facts.iter().enumerate() {
        let found = match facts.outcomes[operation] {
            Outcome::Counted(Added { site, .. }) => Some(site),
            Outcome::Unknown => None,
            other => return Err(format!("operation {operation} at site {}: {other:?}", at + 1)),
        };
        if found != keeper {
            let at = at + 1;
            return Err(format!("operation {operation} counts at {keeper:?}, and site {at} says {found:?}"));
        }
    }
    Ok(())
}

/// Every site knows of each what that has counted, and nothing is open.
fn check_books(facts: &[&Facts]) -> Result<(), String> {
    for (at, here) in facts.iter().enumerate() {
        for known in &here.audit.sites {
            let at_home = &facts[usize::from(known.site.number) - 1].audit;
            let own = at_home.sites.iter().find(|it| it.site == known.site).expect("a site knows itself");
            if known.counted != own.counted {
                let (site, counted, own) = (known.site, known.counted, own.counted);
                return Err(format!("site {} has {counted:?} of site {site}, which has {own:?}", at + 1));
            }
            if known.open > 0 {
                return Err(format!(
                    "{} entries of site {} are open at site {}",
                    known.open,
                    known.site,
                    at + 1
                ));
            }
        }
    }
    Ok(())
}

/// All rights that there are, are somebody's.
fn check_rights(views: &[Option<&quipu_engine::Inspection>], in_all: i128) -> Result<(), String> {
    for view in views.iter().flatten() {
        let rights = view.sites.iter().filter_map(|row| row.rights_to_subtract).sum::<u128>();
        if u128::try_from(in_all) != Ok(rights) {
            return Err(format!("there are rights to subtract {in_all}, and the sites have {rights}"));
        }
    }
    Ok(())
}
