//! One commit of one shard: the same conditional write again and again, until it is decided.
//!
//! A write whose answer is lost may be stored already, or be stored later. Reading cannot tell "not stored" from "not
//! stored yet"; issuing it again can: its condition holds at most once, and whoever finds the position taken under its
//! own name knows by what.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::Instant,
};

use quipu_storage::{Position, ShardId, StorageError};
use uuid::Uuid;

#[cfg(feature = "testing")]
use crate::{Fault, error::unanswered};
use crate::{
    away,
    bell::Bell,
    body::{self, Body, INLINE_BYTES_MAX},
    error::while_doing,
    fence::{Verdict, shard_number, stored},
    store::Link,
};

const POISONED: &str = "a thread that waited for a commit panicked";

/// A record on its way to its position.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) shard: ShardId,
    pub(crate) owner: Uuid,
    pub(crate) position: Position,
    pub(crate) record: Vec<u8>,
}

/// What became of it, for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Stored, once.
    Committed,
    /// The shard has another owner, and the record is not stored and never will be.
    Fenced,
    /// The shard has another owner, which alone knows.
    Lost,
}

/// How it is going.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    pub(crate) decision: Option<Decision>,
    /// Why it is not decided yet.
    pub(crate) trouble: Option<StorageError>,
    /// How many attempts have come to an end.
    attempts: u64,
    /// Nobody wants to know any more.
    abandoned: bool,
}

/// A commit under way, as its caller sees it.
#[derive(Debug, Clone)]
pub(crate) struct Pending {
    pub(crate) position: Position,
    shared: Arc<(Mutex<Progress>, Condvar)>,
    bell: Arc<Bell>,
}

impl Pending {
    /// The bell is rung when it is decided.
    pub(crate) fn new(position: Position, bell: Arc<Bell>) -> Self {
        Self { position, shared: Arc::default(), bell }
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.shared.0.lock().expect(POISONED)
    }

    fn change(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.lock());
        self.shared.1.notify_all();
    }

    fn decide(&self, decision: Decision) {
        self.change(|progress| progress.decision = Some(decision));
        self.bell.ring();
    }

    /// How it is going now.
    pub(crate) fn progress(&self) -> Progress {
        self.lock().clone()
    }

    /// Makes no further attempts.
    pub(crate) fn abandon(&self) {
        self.change(|progress| progress.abandoned = true);
    }

    /// Waits until it is decided, or until then.
    pub(crate) fn wait(&self, until: Instant) -> Progress {
        self.wait_for(until, |progress| progress.decision.is_some())
    }

    /// Waits until it is decided or another attempt has failed, or until then.
    pub(crate) fn wait_for_attempt(&self, until: Instant) -> Progress {
        let before = self.lock().attempts;
        self.wait_for(until, |progress| progress.decision.is_some() || progress.attempts > before)
    }

    fn wait_for(&self, until: Instant, is_enough: impl Fn(&Progress) -> bool) -> Progress {
        let mut progress = self.lock();
        while !is_enough(&progress) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            progress = self.shared.1.wait_timeout(progress, left).expect(POISONED).0;
        }
        progress.clone()
    }
}

/// Issues the entry until it is decided.
pub(crate) async fn issue(link: Arc<Link>, entry: Entry, pending: Pending) {
    let entry = Arc::new(entry);
    let mut backoff = link.backoff();
    let mut body = None;
    while !pending.lock().abandoned {
        match attempt(&link, &entry, &mut body).await {
            Ok(Some(decision)) => return pending.decide(decision),
            Ok(None) => {}
            Err(error) => pending.change(|progress| progress.trouble = Some(error)),
        }
        pending.change(|progress| progress.attempts += 1);
        backoff.wait().await;
    }
}

/// One attempt. `None`: the answer makes no sense yet.
async fn attempt(
    link: &Arc<Link>,
    entry: &Arc<Entry>,
    body: &mut Option<Body>,
) -> Result<Option<Decision>, StorageError> {
    let Entry { shard, position, record, .. } = &**entry;
    if record.len() > INLINE_BYTES_MAX && body.is_none() {
        // Before the record that names them: whoever finds it must find them.
        *body = Some(body::store(link, *shard, *position, record).await?);
    }
    Ok(judge(entry, send(link, entry, *body).await?))
}

/// What the answer to an attempt says about the record, whatever became of the attempts before it.
fn judge(entry: &Entry, verdict: Verdict) -> Option<Decision> {
    let Position(position) = entry.position;
    match verdict {
        Verdict::Applied => Some(Decision::Committed),
        // The fence is ours and the position is taken: by this record, since nobody else writes under our name.
        Verdict::Refused { owner: Some(owner), next: Some(next) }
            if owner == entry.owner && next == position + 1 =>
        {
            Some(Decision::Committed)
        }
        Verdict::Refused { owner: Some(owner), next: Some(next) }
            if owner == entry.owner && next == position =>
        {
            None
        }
        // The shard was taken before the position was: no attempt has stored it, and none can any more.
        Verdict::Refused { next: Some(next), .. } if next == position => Some(Decision::Fenced),
        // Taken after: by the new owner's record, or by ours.
        Verdict::Refused { .. } => Some(Decision::Lost),
    }
}

#[cfg(not(feature = "testing"))]
async fn send(link: &Arc<Link>, entry: &Arc<Entry>, body: Option<Body>) -> Result<Verdict, StorageError> {
    write(link, entry, body).await
}

/// Sends it, unless a test wants something else.
#[cfg(feature = "testing")]
async fn send(link: &Arc<Link>, entry: &Arc<Entry>, body: Option<Body>) -> Result<Verdict, StorageError> {
    let lost = || unanswered(format!("committing to shard {}", entry.shard.0), "a test has lost the answer");
    match link.faults.of(entry.shard) {
        None => write(link, entry, body).await,
        Some(Fault::NotSent) => Err(lost()),
        Some(Fault::AnswerLost) => write(link, entry, body).await.and(Err(lost())),
        Some(Fault::Late) => {
            let mut healing = link.faults.healing();
            let (link, entry) = (Arc::clone(link), Arc::clone(entry));
            tokio::spawn(async move {
                if healing.changed().await.is_ok() {
                    // Nobody waits for this one any more.
                    let _ = write(&link, &entry, body).await;
                }
            });
            Err(lost())
        }
    }
}

async fn write(link: &Arc<Link>, entry: &Entry, body: Option<Body>) -> Result<Verdict, StorageError> {
    let written = write_once(link, entry, body).await;
    away::note(link, &written);
    written
}

async fn write_once(link: &Link, entry: &Entry, body: Option<Body>) -> Result<Verdict, StorageError> {
    let Entry { shard, owner, position, record } = entry;
    let doing = format!("committing record {} of shard {}", position.0, shard.0);
    let (shard, next, position) = (shard_number(*shard), stored(position.next().0), stored(position.0));
    let log = &link.statements.log;
    let answer = match body {
        None => {
            let values = (record, next, shard, position, owner, position);
            link.session.execute_unpaged(&log.commit, values).await
        }
        Some(Body { name, bytes }) => {
            let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
            let values = (name, bytes, next, shard, position, owner, position);
            link.session.execute_unpaged(&log.commit_body, values).await
        }
    };
    Verdict::of(answer.map_err(while_doing(&doing))?, &doing)
}
