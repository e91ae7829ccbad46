//! Goes through all states that a plan allows, the nearest first.

use std::fmt::Write;

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};

use crate::{
    check::{Healed, check_answers, check_bounds, check_end, heal},
    locals::{Input, LocalId, Locals},
    plan::Plan,
    state::{Action, State, Told},
};

/// What was found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) states: usize,
    /// Of single sites.
    pub(crate) locals: usize,
    /// The shortest way to something that must not be.
    pub(crate) wrong: Option<String>,
}

/// How a state was first reached.
#[derive(Debug, Clone, Copy)]
struct Way {
    from: u32,
    action: Option<Action>,
}

struct Search<'a> {
    locals: Locals<'a>,
    known: HashSet<u128, FixedState>,
    ways: Vec<Way>,
    healed: HashMap<Vec<LocalId>, Healed, FixedState>,
    next: Vec<(u32, State)>,
}

/// Goes through all states, or until something is wrong. Panics if there are more than `states_max`: then the plan is too
/// large to be looked through.
pub(crate) fn search(plan: &Plan, states_max: usize) -> Found {
    let mut search = Search {
        locals: Locals::new(plan),
        known: HashSet::default(),
        ways: Vec::new(),
        healed: HashMap::default(),
        next: Vec::new(),
    };
    let wrong = search.begin().and_then(|state| search.run(state, states_max)).err();
    Found { states: search.ways.len(), locals: search.locals.len(), wrong }
}

impl Search<'_> {
    /// The sites meet, and what is to happen before happens.
    fn begin(&mut self) -> Result<State, String> {
        let plan = self.locals.plan;
        let begun: Vec<_> = (0..plan.sites).map(|at| self.locals.begin(at)).collect();
        let posted: Vec<_> = begun.iter().flat_map(|step| step.sent.clone()).collect();
        let locals: Vec<_> = begun.iter().map(|step| step.to).collect();
        let mut healed = heal(&mut self.locals, &locals, &posted);
        let mut told = Told::new(plan);
        for (number, (at, _)) in plan.before.iter().enumerate() {
            let client = u8::try_from(plan.clients.len() + number).expect("a few wishes");
            let step = self.locals.step(healed.locals[*at], Input::Asked(client));
            if let Some(wrong) = step.wrong.or_else(|| told.note_replies(plan, *at, &step.replies)) {
                return Err(wrong);
            }
            healed.locals[*at] = step.to;
            healed = heal(&mut self.locals, &healed.locals, &step.sent);
            told = healed.told(plan, &told)?;
        }
        match healed.wrong {
            Some(wrong) => Err(wrong),
            None => Ok(State::new(plan, healed.locals, told)),
        }
    }

    fn run(&mut self, state: State, states_max: usize) -> Result<(), String> {
        self.reach(Way { from: 0, action: None }, state)?;
        while !self.next.is_empty() {
            for (from, state) in std::mem::take(&mut self.next) {
                for action in state.actions(&self.locals) {
                    let way = Way { from, action: Some(action) };
                    let (next, wrong) = state.after(&mut self.locals, action);
                    if let Some(wrong) = wrong {
                        return Err(self.tell(way, &wrong));
                    }
                    if let Some(next) = next {
                        self.reach(way, next)?;
                    }
                }
                let (name, states) = (self.locals.plan.name, self.ways.len());
                assert!(states <= states_max, "{name}: more than {states_max} states");
            }
        }
        Ok(())
    }

    /// A state is reached. If it is a new one, it is looked at, and the search goes on from it later.
    fn reach(&mut self, way: Way, state: State) -> Result<(), String> {
        if !self.known.insert(state.hash()) {
            return Ok(());
        }
        let number = u32::try_from(self.ways.len()).expect("fewer than there is memory for");
        self.ways.push(way);
        if let Err(wrong) = self.check(&state) {
            let mut text = self.tell(way, &wrong);
            text.push_str(" then, if all that is said is delivered:\n");
            let healed = heal(&mut self.locals, &state.locals, &[]);
            healed.actions.into_iter().for_each(|action| self.tell_action(action, &mut text));
            return Err(text);
        }
        self.next.push((number, state));
        Ok(())
    }

    fn check(&mut self, state: &State) -> Result<(), String> {
        check_bounds(&self.locals, &state.locals)?;
        check_answers(&self.locals, &state.locals, &state.told)?;
        if !self.healed.contains_key(&state.locals) {
            let healed = heal(&mut self.locals, &state.locals, &[]);
            // How it came to that takes much memory, and can be found out again.
            self.healed.insert(state.locals.clone(), Healed { actions: Vec::new(), ..healed });
        }
        check_end(&self.locals, &self.healed[&state.locals], &state.told)
    }

    /// The way to something wrong, for people.
    fn tell(&self, last: Way, wrong: &str) -> String {
        let mut actions = Vec::new();
        let mut way = last;
        while let Some(action) = way.action {
            actions.push(action);
            way = self.ways[way.from as usize];
        }
        let mut text = format!("{}: {wrong}\n", self.locals.plan.name);
        actions.into_iter().rev().for_each(|action| self.tell_action(action, &mut text));
        text
    }

    fn tell_action(&self, action: Action, text: &mut String) {
        let Action { at, input, repeats } = action;
        let what = match input {
            Input::Asked(client) => {
                format!("is asked: {:?}", self.locals.plan.clients[usize::from(client)].ask)
            }
            Input::Received(message) => {
                let letter = self.locals.letter(message);
                let again = if repeats { " (and comes again)" } else { "" };
                let said = format!("{:?}", letter.message)
                    .replace("SiteId { number: ", "{")
                    .replace(", incarnation: 0", "");
                format!("hears from site {}{again}: {said}", letter.from + 1)
            }
            Input::Timer => "has waited for its timer".to_owned(),
            Input::Restarted => "loses its memory".to_owned(),
            Input::Aged => "has waited for the window to pass".to_owned(),
        };
        writeln!(text, "  site {}: {what}", at + 1).expect("writing to memory does not fail");
    }
}
