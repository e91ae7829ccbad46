//! All states that a single site was seen in, and what it does in each.
//!
//! What a site does depends on its own state and on what happens to it, so it is worked out once by the real engine, and
//! known from then on. A state is the way to it: a site is not copied, but led there again.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use quipu_engine::{Message, Outcome, Reply, SiteId};

use crate::{
    plan::Plan,
    site::{Came, Facts, Happening, Site, site_id},
};

/// So many sites are kept as they are, in case that they are led on.
const KEPT_MAX: usize = 1_000;

pub(crate) type LocalId = u32;
pub(crate) type MessageId = u32;
type Map<K, V> = HashMap<K, V, FixedState>;

/// Something that happens to a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Input {
    /// The wish of the client of this number; those of the beginning come after the others.
    Asked(u8),
    Received(MessageId),
    Timer,
    Restarted,
    Aged,
}

/// A message, from one site to another, counted from zero.
#[derive(Debug)]
pub(crate) struct Letter {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) message: Message,
}

/// What a site does.
#[derive(Debug, Clone, Default)]
pub(crate) struct Step {
    pub(crate) to: LocalId,
    pub(crate) sent: Vec<MessageId>,
    pub(crate) replies: Vec<(usize, Reply)>,
    pub(crate) wrong: Option<String>,
}

struct Local {
    at: usize,
    /// The way to it.
    from: Option<(LocalId, Input)>,
    facts: Facts,
}

pub(crate) struct Locals<'a> {
    pub(crate) plan: &'a Plan,
    locals: Vec<Local>,
    known: Map<(usize, u128), LocalId>,
    steps: Map<(LocalId, Input), Step>,
    letters: Vec<Letter>,
    letters_known: Map<(usize, usize, Vec<u8>), MessageId>,
    kept: Map<LocalId, Site>,
}

fn index(of: usize) -> u32 {
    u32::try_from(of).expect("fewer than there is memory for")
}

fn number(site: SiteId) -> usize {
    usize::from(site.number) - 1
}

impl<'a> Locals<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        Self {
            plan,
            locals: Vec::new(),
            known: Map::default(),
            steps: Map::default(),
            letters: Vec::new(),
            letters_known: Map::default(),
            kept: Map::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.locals.len()
    }

    pub(crate) fn facts(&self, local: LocalId) -> &Facts {
        &self.locals[local as usize].facts
    }

    pub(crate) fn letter(&self, message: MessageId) -> &Letter {
        &self.letters[message as usize]
    }

    /// A site that has just been made, and what it says.
    pub(crate) fn begin(&mut self, at: usize) -> Step {
        let (site, came) = Site::new(self.plan, at);
        self.arrive(at, None, site, came)
    }

    /// What a site does in a state when something happens.
    pub(crate) fn step(&mut self, local: LocalId, input: Input) -> Step {
        if let Some(step) = self.steps.get(&(local, input)) {
            return step.clone();
        }
        let mut site = self.kept.remove(&local).unwrap_or_else(|| self.lead_to(local));
        let came = site.happens(self.plan, self.happening(input));
        let step = self.arrive(self.locals[local as usize].at, Some((local, input)), site, came);
        self.steps.insert((local, input), step.clone());
        step
    }

    fn happening(&self, input: Input) -> Happening {
        match input {
            Input::Asked(client) => {
                let client = usize::from(client);
                let clients = self.plan.clients.iter().map(|client| client.ask);
                let all = clients.chain(self.plan.before.iter().map(|(_, ask)| *ask));
                Happening::Asked(client, all.clone().nth(client).expect("an input names a client"))
            }
            Input::Received(message) => {
                let letter = self.letter(message);
                Happening::Received { from: site_id(letter.from), message: Box::new(letter.message.clone()) }
            }
            Input::Timer => Happening::Timer,
            Input::Restarted => Happening::Restarted,
            Input::Aged => Happening::Aged,
        }
    }

    fn lead_to(&self, local: LocalId) -> Site {
        let mut inputs = Vec::new();
        let mut here = local;
        while let Some((before, input)) = self.locals[here as usize].from {
            inputs.push(input);
            here = before;
        }
        let (mut site, _) = Site::new(self.plan, self.locals[local as usize].at);
        for input in inputs.into_iter().rev() {
            site.happens(self.plan, self.happening(input));
        }
        site
    }

    fn arrive(&mut self, at: usize, from: Option<(LocalId, Input)>, mut site: Site, came: Came) -> Step {
        let facts = site.facts(self.plan);
        let wrong = came.refused.or_else(|| complaint(&facts, &came.replies));
        let fingerprint = site.fingerprint(self.plan.trouble.restarts > 0);
        let new = index(self.locals.len());
        let to = *self.known.entry((at, fingerprint)).or_insert(new);
        if to == new {
            self.locals.push(Local { at, from, facts });
        }
        if self.kept.len() < KEPT_MAX {
            self.kept.insert(to, site);
        }
        let messages = came.messages.into_iter();
        let sent = messages.map(|(to, message)| self.post(at, number(to), &message)).collect();
        Step { to, sent, replies: came.replies, wrong }
    }

    fn post(&mut self, from: usize, to: usize, message: &Message) -> MessageId {
        let bytes = message.encode();
        let new = index(self.letters.len());
        let id = *self.letters_known.entry((from, to, bytes.clone())).or_insert(new);
        if id == new {
            let message = Message::decode(&bytes).expect("what is sent can be read");
            self.letters.push(Letter { from, to, message });
        }
        id
    }
}

/// What must not be seen at any site, ever.
fn complaint(facts: &Facts, replies: &[(usize, Reply)]) -> Option<String> {
    use quipu_engine::Refusal::{Creating, Exists, OutOfBounds, Reserved, Unsettled, UsedBefore};
    for view in facts.counters.iter().flatten() {
        let minimum = view.bounded.and_then(|bounded| bounded.minimum);
        if minimum.is_some_and(|minimum| view.value < minimum) {
            return Some(format!("a site shows {}, below the minimum {minimum:?}", view.value));
        }
    }
    if let Some(outcome) = facts.outcomes.iter().find(|outcome| matches!(outcome, Outcome::TooOld)) {
        return Some(format!("no id tells its age, and a site says {outcome:?}"));
    }
    replies.iter().find_map(|(_, reply)| match reply {
        Reply::Refused(
            OutOfBounds { .. } | Reserved { .. } | Creating { .. } | Exists | UsedBefore | Unsettled { .. },
        ) => None,
        Reply::Refused(refusal) => Some(format!("a client is told: {refusal}")),
        _ => None,
    })
}
