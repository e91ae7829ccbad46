//! A state of all sites together, and what can happen in it.

use quipu_engine::{Outcome, Reply};
use xxhash_rust::xxh3::Xxh3;

use crate::{
    locals::{Input, LocalId, Locals, MessageId, Step},
    plan::{Ask, Plan, Trouble},
};

/// The states of all sites, what is under way between them, and what clients may still ask and were told.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) locals: Vec<LocalId>,
    /// In the order of their numbers. What is lost just stays here.
    pub(crate) under_way: Vec<MessageId>,
    /// How often each client may still come.
    asks_left: Vec<u8>,
    trouble_left: Trouble,
    pub(crate) told: Told,
}

/// What clients were told, as far as it decides what the counters must show in the end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Told {
    /// For each operation, the sites that have said that they count it, as bits.
    pub(crate) counted: Vec<u8>,
    /// For each operation, the sites whose count of it some reset had seen, as bits.
    pub(crate) deleted: Vec<u8>,
    /// For each operation, whether the site that keeps it has found it settled, as a bit.
    pub(crate) settled: Vec<u8>,
    /// For each key, what was counted without an id.
    pub(crate) plain: Vec<i64>,
    /// For each key, the sites that have said that they have made it, as bits.
    pub(crate) created: Vec<u8>,
}

/// Something that happens to one of the sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Action {
    pub(crate) at: usize,
    pub(crate) input: Input,
    /// The message that is delivered comes again.
    pub(crate) repeats: bool,
}

impl State {
    /// The sites have just been made and have heard of each other.
    pub(crate) fn new(plan: &Plan, locals: Vec<LocalId>, told: Told) -> Self {
        Self {
            locals,
            under_way: Vec::new(),
            asks_left: plan.clients.iter().map(|client| client.times).collect(),
            trouble_left: plan.trouble,
            told,
        }
    }

    pub(crate) fn hash(&self) -> u128 {
        let mut hash = Xxh3::new();
        let Trouble { timers, restarts, repeats, ages } = self.trouble_left;
        let Told { counted, deleted, settled, plain, created } = &self.told;
        for part in [&self.locals, &self.under_way] {
            hash.update(&(part.len() as u64).to_le_bytes());
            part.iter().for_each(|id| hash.update(&id.to_le_bytes()));
        }
        for part in
            [&self.asks_left, counted, deleted, settled, created, &vec![timers, restarts, repeats, ages]]
        {
            hash.update(part);
        }
        plain.iter().for_each(|amount| hash.update(&amount.to_le_bytes()));
        hash.digest128()
    }

    /// What can happen.
    pub(crate) fn actions(&self, locals: &Locals<'_>) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut may = |at, input| actions.push(Action { at, input, repeats: false });
        let wishes = (0_u8..).zip(&locals.plan.clients).zip(&self.asks_left).filter(|(_, left)| **left > 0);
        for ((client, wish), _) in wishes {
            wish.sites.iter().for_each(|at| may(*at, Input::Asked(client)));
        }
        let Trouble { timers, restarts, repeats, ages } = self.trouble_left;
        let is_unsettled = self.is_unsettled();
        for (at, local) in self.locals.iter().enumerate() {
            let facts = locals.facts(*local);
            if timers > 0 && facts.waits {
                may(at, Input::Timer);
            }
            if restarts > 0 {
                may(at, Input::Restarted);
            }
            if ages > 0 && is_unsettled {
                may(at, Input::Aged);
            }
        }
        for message in &self.under_way {
            let (at, input) = (locals.letter(*message).to, Input::Received(*message));
            actions.push(Action { at, input, repeats: false });
            if repeats > 0 {
                actions.push(Action { at, input, repeats: true });
            }
        }
        actions
    }

    /// Is no operation settled, and each counted? What is settled counts again after the window; that is no mistake, and
    /// not looked at.
    fn is_unsettled(&self) -> bool {
        let Told { counted, settled, .. } = &self.told;
        counted.iter().all(|sites| *sites != 0) && settled.iter().all(|settled| *settled == 0)
    }

    /// Notes which operations are settled, as their keepers say; it matters only for that.
    fn note_settled(&mut self, locals: &Locals<'_>) {
        let Told { counted, settled, .. } = &mut self.told;
        for (operation, (sites, settled)) in counted.iter().zip(settled).enumerate() {
            let keeper = self.locals.get(sites.trailing_zeros() as usize);
            let outcome = keeper.map(|local| locals.facts(*local).outcomes[operation]);
            *settled |= u8::from(matches!(outcome, Some(Outcome::Counted(_))));
        }
    }

    /// The state after that; `None`: nothing has changed but that a message is not there any more, so that less can
    /// happen than before.
    pub(crate) fn after(&self, locals: &mut Locals<'_>, action: Action) -> (Option<Self>, Option<String>) {
        let Action { at, input, repeats } = action;
        let step = locals.step(self.locals[at], input);
        if matches!(input, Input::Received(_)) && step.to == self.locals[at] && step.sent.is_empty() {
            return (None, step.wrong);
        }
        let mut next = self.clone();
        match input {
            Input::Asked(client) => {
                next.asks_left[usize::from(client)] -= 1;
                let ask = locals.plan.clients[usize::from(client)].ask;
                next.told.note_reset(locals, self.locals[at], ask);
            }
            Input::Received(_) if repeats => next.trouble_left.repeats -= 1,
            Input::Received(message) => next.under_way.retain(|other| *other != message),
            Input::Timer => next.trouble_left.timers -= 1,
            Input::Restarted => next.trouble_left.restarts -= 1,
            Input::Aged => next.trouble_left.ages -= 1,
        }
        next.locals[at] = step.to;
        let is_cut = |to| locals.plan.cut.iter().any(|pair| pair.contains(&at) && pair.contains(&to));
        next.under_way.extend(step.sent.iter().filter(|message| !is_cut(locals.letter(**message).to)));
        next.under_way.sort_unstable();
        next.under_way.dedup();
        let Step { replies, wrong, .. } = step;
        let wrong = wrong.or_else(|| next.told.note_replies(locals.plan, at, &replies));
        if locals.plan.trouble.ages > 0 {
            next.note_settled(locals);
        }
        (Some(next), wrong)
    }
}

impl Told {
    pub(crate) fn new(plan: &Plan) -> Self {
        let (operations, keys) = (plan.operations.len(), plan.keys().len());
        Self {
            counted: vec![0; operations],
            deleted: vec![0; operations],
            settled: vec![0; operations],
            plain: vec![0; keys],
            created: vec![0; keys],
        }
    }

    /// A reset sets aside the counts that its site has seen.
    fn note_reset(&mut self, locals: &Locals<'_>, local: LocalId, ask: Ask) {
        let Ask::Delete { key } = ask else { return };
        let plan = locals.plan;
        for (number, operation) in plan.operations.iter().enumerate().filter(|(_, it)| it.key == key) {
            let counter = plan.keys().iter().position(|other| *other == key);
            let view = counter.and_then(|at| locals.facts(local).counters[at].as_ref());
            for row in view.iter().flat_map(|view| &view.sites) {
                // Amounts are powers of 16, and a site adds each of them a few times at most.
                let is_seen = row.added / operation.amount.unsigned_abs() % 16 > 0;
                if is_seen {
                    self.deleted[number] |= 1 << (row.site.number - 1);
                }
            }
        }
    }

    pub(crate) fn note_replies(
        &mut self,
        plan: &Plan,
        at: usize,
        replies: &[(usize, Reply)],
    ) -> Option<String> {
        let keys = plan.keys();
        let number_of = |key: &[u8]| keys.iter().position(|other| *other == key).expect("a key of the plan");
        for (client, reply) in replies {
            let before = plan.before.iter().map(|(_, ask)| *ask);
            let mut asks = plan.clients.iter().map(|client| client.ask).chain(before);
            let Some(ask) = asks.nth(*client) else { continue };
            match (ask, reply) {
                (Ask::Once(operation), Reply::Added(added)) => {
                    let amount = plan.operations[operation].amount;
                    if added.applied != amount {
                        return Some(format!("{amount} was asked for, and counted: {added:?}"));
                    }
                    if !added.repeated {
                        self.counted[operation] |= 1 << at;
                    }
                }
                (Ask::Plain { key, .. }, Reply::Added(added)) => self.plain[number_of(key)] += added.applied,
                (Ask::Create { key, .. }, Reply::Created) => self.created[number_of(key)] |= 1 << at,
                _ => {}
            }
        }
        None
    }
}
