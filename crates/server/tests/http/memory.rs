//! Counters in memory, as simple as they can be: what the front end is tested against.
//!
//! Some keys and ids stand for conditions that are hard to bring about: see [`refusal`].

use quipu_engine::{
    Action, Add, Added, Beyond, BoundedView, Command, Inspection, KEY_BYTES_MAX, Limits, Move, OperationId,
    Outcome, Refusal, Reply, ShardAudit, SiteAudit, SiteId, SiteView,
};
use quipu_server::http::{Audit, Counters, ListRequest, Listing};
use std::{
    collections::{BTreeMap, HashMap},
    future::Future,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::sync::{Semaphore, watch};

type Key = Vec<u8>;

/// Another site, which does nothing by itself: see [`refusal`] and [`State::inspect`].
pub(crate) const SECOND: SiteId = SiteId { number: 2, incarnation: 0 };

#[derive(PartialEq, Eq, Hash)]
struct Name {
    key: Key,
    producer: Vec<u8>,
    id: Vec<u8>,
}

impl Name {
    fn of(key: &[u8], operation: OperationId<'_>) -> Self {
        Self { key: key.to_vec(), producer: operation.producer.to_vec(), id: operation.id.to_vec() }
    }
}

#[derive(Clone, Default)]
struct Counter {
    value: i64,
    limits: Option<Limits>,
    added: u64,
    subtracted: u64,
}

#[derive(Default)]
struct State {
    counters: BTreeMap<Key, Counter>,
    /// The amount and the answer of each.
    operations: HashMap<Name, (i64, Added)>,
    watches: HashMap<Key, watch::Sender<Option<i64>>>,
    version: u64,
    unready: Option<String>,
    /// For how long the last command would have waited for other sites.
    wait_ms: u64,
}

#[derive(Clone)]
pub(crate) struct Memory {
    state: Arc<Mutex<State>>,
    /// Commands on keys that begin with `gate:` wait here.
    pub(crate) gate: Arc<Semaphore>,
}

impl Default for Memory {
    fn default() -> Self {
        Self { state: Arc::default(), gate: Arc::new(Semaphore::new(0)) }
    }
}

impl Memory {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics here")
    }

    pub(crate) fn wait_ms(&self) -> u64 {
        self.state().wait_ms
    }

    pub(crate) fn set_unready(&self, why: Option<&str>) {
        self.state().unready = why.map(str::to_owned);
    }
}

impl Counters for Memory {
    fn call(&self, command: Command<'_>) -> impl Future<Output = Reply> + Send {
        let gate = command.key.starts_with(b"gate:").then(|| self.gate.clone());
        let reply = self.state().run(command);
        async move {
            if let Some(gate) = gate {
                gate.acquire().await.expect("never closed").forget();
            }
            reply
        }
    }

    fn list(&self, request: ListRequest) -> impl Future<Output = Result<Listing, Refusal>> + Send {
        let failing = request.prefix.starts_with(b"fail:");
        let listing = self.state().list(&request);
        async move { if failing { Err(Refusal::NotStored("the disk is gone".to_owned())) } else { Ok(listing) } }
    }

    fn size(&self) -> impl Future<Output = u64> + Send {
        let size = self.state().counters.len() as u64;
        async move { size }
    }

    fn watch(&self, key: &[u8]) -> watch::Receiver<Option<i64>> {
        let mut state = self.state();
        let now = state.counters.get(key).map(|counter| counter.value);
        state.watches.entry(key.to_vec()).or_insert_with(|| watch::Sender::new(now)).subscribe()
    }

    fn audit(&self) -> impl Future<Output = Result<Audit, Refusal>> + Send {
        let audit = self.state().audit();
        async move { Ok(audit) }
    }

    fn last_heard(&self, site: SiteId) -> Option<Duration> {
        (site == SECOND).then_some(Duration::from_millis(1_500))
    }

    fn ready(&self) -> Result<(), String> {
        self.state().unready.clone().map_or(Ok(()), Err)
    }
}

/// Conditions by name.
fn refusal(command: &Command<'_>) -> Option<Refusal> {
    if !(1..=KEY_BYTES_MAX).contains(&command.key.len()) {
        return Some(Refusal::BadKey { bytes: command.key.len() });
    }
    if let Action::Add { operation: Some(OperationId { id, .. }), .. } = command.action {
        match id {
            b"id-too-old" => return Some(Refusal::TooOld { age_ms: 700_000, window_ms: 600_000 }),
            b"id-from-the-future" => {
                return Some(Refusal::FromTheFuture { ahead_ms: 90_000, ahead_ms_max: 60_000 });
            }
            _ => {}
        }
    }
    match command.key {
        b"sites:creating" if matches!(command.action, Action::Create { .. }) => {
            Some(Refusal::Creating { missing: vec![SECOND] })
        }
        b"sites:reserved" => Some(Refusal::Reserved { by: SECOND }),
        b"sites:unsettled" => Some(Refusal::Unsettled { max: 1_000, waiting_for: vec![SECOND] }),
        b"sites:joining" => Some(Refusal::Joining),
        b"sites:used-before" => Some(Refusal::UsedBefore),
        b"fail:not-stored" => Some(Refusal::NotStored("the disk is full".to_owned())),
        b"fail:removed" => Some(Refusal::Removed("site 2 was removed".to_owned())),
        b"fail:old-copy" => Some(Refusal::OldCopy("site 2 is an old copy".to_owned())),
        b"fail:leaving" => Some(Refusal::SiteLeaves),
        b"fail:in-doubt" => Some(Refusal::InDoubt("the disk did not answer".to_owned())),
        _ => None,
    }
}

impl State {
    fn run(&mut self, command: Command<'_>) -> Reply {
        self.wait_ms = match command.action {
            Action::Add { add, .. } => add.remote_ms,
            Action::Create { wait_ms, .. } | Action::Move(Move { wait_ms, .. }) => wait_ms,
            _ => 0,
        };
        if let Some(refusal) = refusal(&command) {
            return Reply::Refused(refusal);
        }
        let reply = match command.action {
            Action::Get => Ok(Reply::Value(self.counters.get(command.key).map(|counter| counter.value))),
            Action::Add { add, operation } => self.add(command.key, add, operation),
            Action::Reset { to } => self.reset(command.key, to),
            Action::Create { limits, .. } => self.create(command.key, limits),
            // The first site passes on what it is asked for, and has seven rights.
            Action::Move(Move { amount, from: SiteId::FIRST, .. }) => Ok(Reply::Moved(amount.min(7))),
            Action::Move(Move { from, .. }) => Err(Refusal::CannotMove(format!(
                "site {from} holds 0 of the 7 rights to subtract; site 1 holds them"
            ))),
            Action::Inspect => Ok(Reply::Inspected(self.inspect(command.key))),
            Action::Outcome(operation) => Ok(Reply::Outcome(self.outcome(command.key, operation))),
        };
        self.publish(command.key);
        reply.unwrap_or_else(Reply::Refused)
    }

    fn publish(&mut self, key: &[u8]) {
        let now = self.counters.get(key).map(|counter| counter.value);
        if let Some(sender) = self.watches.get(key) {
            sender.send_if_modified(|value| std::mem::replace(value, now) != now);
        }
    }

    fn add(&mut self, key: &[u8], add: Add, operation: Option<OperationId<'_>>) -> Result<Reply, Refusal> {
        let name = operation.map(|operation| Name::of(key, operation));
        if let Some((first, added)) = name.as_ref().and_then(|name| self.operations.get(name)) {
            let now = add.amount;
            return match *first == now {
                true => Ok(Reply::Added(Added { repeated: true, ..*added })),
                false => Err(Refusal::OtherAmount { first: *first, now }),
            };
        }
        let counter = self.counters.get(key).cloned().unwrap_or_default();
        let applied = fitting(&counter, add).map_err(|refusal| say_where(key, refusal))?;
        let value = counter.value.checked_add(applied).ok_or(Refusal::Overflow)?;
        let part = if applied < 0 { counter.subtracted } else { counter.added };
        let part = part.checked_add(applied.unsigned_abs()).ok_or(Refusal::Overflow)?;
        self.version += 1;
        let entry = self.counters.entry(key.to_vec()).or_default();
        entry.value = value;
        *(if applied < 0 { &mut entry.subtracted } else { &mut entry.added }) = part;
        let added = Added { value, applied, repeated: false, site: SiteId::FIRST };
        if let Some(name) = name {
            self.operations.insert(name, (add.amount, added));
        }
        Ok(Reply::Added(added))
    }

    fn reset(&mut self, key: &[u8], to: Option<i64>) -> Result<Reply, Refusal> {
        if self.counters.get(key).is_some_and(|counter| counter.limits.is_some()) {
            return Err(Refusal::BoundedReset);
        }
        let aside = self.counters.remove(key).map(|counter| counter.value);
        if let Some(value) = to {
            self.counters.insert(key.to_vec(), Counter { value, ..Counter::default() });
        }
        Ok(Reply::Reset { aside })
    }

    fn create(&mut self, key: &[u8], limits: Limits) -> Result<Reply, Refusal> {
        let below = limits.minimum.is_some_and(|minimum| limits.initial < minimum);
        let above = limits.maximum.is_some_and(|maximum| limits.initial > maximum);
        if below || above || (limits.minimum.is_none() && limits.maximum.is_none()) {
            return Err(Refusal::BadDefinition(
                "a minimum or a maximum is needed, and the value within".to_owned(),
            ));
        }
        if self.counters.contains_key(key) {
            return Err(Refusal::Exists);
        }
        let counter = Counter { value: limits.initial, limits: Some(limits), ..Counter::default() };
        self.counters.insert(key.to_vec(), counter);
        Ok(Reply::Created)
    }

    fn inspect(&self, key: &[u8]) -> Option<Box<Inspection>> {
        let counter = self.counters.get(key)?;
        let distance = |from: i64, to: i64| u128::try_from(i128::from(to) - i128::from(from)).unwrap_or(0);
        let bounds = counter.limits;
        let view = |limits: Limits| BoundedView {
            minimum: limits.minimum,
            maximum: limits.maximum,
            initial: limits.initial,
            creator: SiteId::FIRST,
            parked: Default::default(),
        };
        let own = SiteView {
            provisional: Default::default(),
            site: SiteId::FIRST,
            added: counter.added,
            subtracted: counter.subtracted,
            rights_to_add: bounds.and_then(|it| it.maximum).map(|maximum| distance(counter.value, maximum)),
            rights_to_subtract: bounds
                .and_then(|it| it.minimum)
                .map(|minimum| distance(minimum, counter.value)),
        };
        let mut sites = vec![own];
        if key.starts_with(b"sites:") {
            sites.push(elsewhere());
        }
        Some(Box::new(Inspection {
            value: counter.value,
            bounded: bounds.map(view),
            sites,
            version: self.version,
        }))
    }

    fn outcome(&self, key: &[u8], operation: OperationId<'_>) -> Outcome {
        let second = Added { value: 7, applied: 2, repeated: false, site: SECOND };
        match operation.id {
            b"id-too-old" => return Outcome::TooOld,
            b"id-provisional" => return Outcome::Provisional(second),
            b"id-cancelled" => return Outcome::Cancelled { counted_at: SECOND },
            _ => {}
        }
        self.operations
            .get(&Name::of(key, operation))
            .map_or(Outcome::Unknown, |(_, added)| Outcome::Counted(*added))
    }

    /// All in one shard, beside an empty one; the second site has counted a little, and one of its ids is open.
    fn audit(&self) -> Audit {
        let empty = |shard| ShardAudit {
            shard,
            issued: Default::default(),
            set: Default::default(),
            cancelled: Default::default(),
            suspicious: None,
            suspicious_further: None,
            sites: [SiteId::FIRST, SECOND]
                .map(|site| SiteAudit { site, counted: Default::default(), position: 0, settled: 0, open: 0 })
                .into(),
        };
        let mut shard = empty(0);
        for counter in self.counters.values() {
            shard.issued.added = shard.issued.added.wrapping_add(counter.added);
            shard.issued.subtracted = shard.issued.subtracted.wrapping_add(counter.subtracted);
        }
        (shard.sites[0].counted, shard.sites[0].position) = (shard.issued, self.version);
        (shard.sites[1].counted.added, shard.sites[1].position, shard.sites[1].open) = (2, 1, 1);
        Audit { site: SiteId::FIRST, members: vec![SiteId::FIRST, SECOND], shards: vec![shard, empty(1)] }
    }

    fn list(&self, request: &ListRequest) -> Listing {
        let behind = |key: &[u8]| request.after.as_ref().is_none_or(|after| key > after.as_slice());
        let mut found = self
            .counters
            .iter()
            .filter(|(key, _)| key.starts_with(&request.prefix) && behind(key))
            .map(|(key, counter)| (key.clone(), counter.value));
        let counters: Vec<_> = found.by_ref().take(request.limit).collect();
        let next = found.next().and(counters.last()).map(|(key, _)| key.clone());
        Listing { counters, next }
    }
}

/// What the second site has to do with a counter.
fn elsewhere() -> SiteView {
    let mut view = SiteView {
        site: SECOND,
        added: 9,
        subtracted: 2,
        rights_to_add: None,
        rights_to_subtract: Some(7),
        provisional: Default::default(),
    };
    view.provisional.added = 4;
    view
}

/// The second site has rights of counters that begin with `sites:`.
fn say_where(key: &[u8], refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::OutOfBounds { amount, limit, value, available, .. } if key.starts_with(b"sites:") => {
            Refusal::OutOfBounds {
                amount,
                limit,
                value,
                available,
                elsewhere: vec![(SECOND, 30)],
                in_all: Some(available + 30),
            }
        }
        other => other,
    }
}

/// How much of an amount stays within the limits of the command and of the counter.
fn fitting(counter: &Counter, add: Add) -> Result<i64, Refusal> {
    let (minimum, maximum) = counter.limits.map_or((None, None), |limits| (limits.minimum, limits.maximum));
    let limit = match add.amount < 0 {
        true => add.lower.max(minimum),
        false => [add.upper, maximum].into_iter().flatten().min(),
    };
    let Some(limit) = limit else { return Ok(add.amount) };
    let target = i128::from(counter.value) + i128::from(add.amount);
    let crosses = if add.amount < 0 { target < limit.into() } else { target > limit.into() };
    if !crosses {
        return Ok(add.amount);
    }
    let room = (i128::from(limit) - i128::from(counter.value)) * i128::from(add.amount.signum());
    let available = u64::try_from(room.max(0)).unwrap_or(u64::MAX);
    match add.beyond {
        Beyond::Refuse => Err(Refusal::OutOfBounds {
            amount: add.amount,
            limit,
            value: counter.value,
            available,
            elsewhere: Vec::new(),
            in_all: None,
        }),
        Beyond::Skip => Ok(0),
        Beyond::Saturate => Ok(i64::try_from(available).unwrap_or(i64::MAX) * add.amount.signum()),
    }
}
