//! How a node reaches the store and the rest of the world, and how time passes for it.
//!
//! The engine's calls block, and a request to the store can take long. While it does, the world goes on: the request runs
//! the events of everybody else until it is answered, and then returns into the engine, which has noticed nothing. So a node
//! can come to a halt between any two things that it asks of the store, with whatever it has half done. (Halts lie within
//! each other: who has come to a halt first goes on after those who have since.)

use super::trouble::Call;
use super::world::{Event, World};
use crate::core::Millis;
use quipu_engine::Moment;
use quipu_storage::{Registered, ShardId, StorageError, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reached {
    /// It is done, and answered.
    Done,
    /// It is done, and not answered.
    Unheard,
    /// It is not answered, and done after a while.
    Late { after_ms: Millis },
    /// It is not done, and not answered.
    Lost,
}

/// Nobody hears this: the process that asked is dead.
const DEAD: StorageError = StorageError::Injected("the process is dead");

/// The world, which nodes reach while it runs them.
#[derive(Clone)]
pub(super) struct Stage(Arc<Mutex<World>>);

impl Stage {
    pub(super) fn new(world: World) -> Self {
        let stage = Self(Arc::new(Mutex::new(world)));
        stage.lock().stage = Arc::downgrade(&stage.0);
        stage
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, World> {
        // A panic has been reported by itself.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets everything happen up to a time, or until something does not hold.
    pub(super) fn run_until(&self, until: Millis) {
        loop {
            let mut world = self.lock();
            let Some(event) = world.next_event(until) else { return };
            let actor = world.happen(event);
            drop(world);
            if let Some(mut actor) = actor {
                actor.act();
                self.lock().put_back(actor);
            }
        }
    }
}

/// One process's way to the world.
#[derive(Clone)]
pub(super) struct Line {
    world: Weak<Mutex<World>>,
    pub(super) place: usize,
    pub(super) run: u32,
}

impl Line {
    pub(super) fn new(world: Weak<Mutex<World>>, place: usize, run: u32) -> Self {
        Self { world, place, run }
    }

    /// Does something with the world, if this process is alive.
    pub(super) fn with<R>(&self, does: impl FnOnce(&mut World) -> R) -> Option<R> {
        let stage = Stage(self.world.upgrade()?);
        let mut world = stage.lock();
        world.is_alive(self.place, self.run).then(|| does(&mut world))
    }

    pub(super) fn is_alive(&self) -> bool {
        self.with(|_| ()).is_some()
    }

    /// The time of this node's own clock.
    pub(super) fn clock_ms(&self) -> u64 {
        self.with(|world| world.clock_ms(self.place)).unwrap_or(0)
    }

    pub(super) fn moment(&self) -> Moment {
        self.with(|world| world.moment(self.place)).unwrap_or_default()
    }

    /// Comes to a halt, if this node is to halt here, is paused, or is slow. The error is that it has died meanwhile.
    pub(super) fn halt(&self, call: Call) -> Result<(), StorageError> {
        let stage = Stage(self.world.upgrade().ok_or(DEAD)?);
        let (place, run) = (self.place, self.run);
        let Some(wait_ms) = self.with(|world| world.halt(place, call)) else { return Err(DEAD) };
        if wait_ms == 0 {
            return Ok(());
        }
        let mut until = stage.lock().rest(wait_ms);
        loop {
            stage.run_until(until);
            let mut world = stage.lock();
            if !world.is_alive(place, run) {
                world.rested();
                return Err(DEAD);
            }
            // It may have been paused in between.
            match world.paused_until(place) {
                Some(later) => until = later,
                None => {
                    world.rested();
                    return Ok(());
                }
            }
        }
    }

    /// Asks the store for something. The error is that this process has died meanwhile.
    pub(super) fn reach(&self, call: Call) -> Result<Reached, StorageError> {
        self.halt(call)?;
        self.with(|world| world.reach(self.place)).ok_or(DEAD)
    }

    /// A commit is under way.
    pub(super) fn sent(&self, shard: ShardId, number: u64) {
        self.with(|world| world.send_off(self.place, shard, number));
    }

    /// A commit was found to be stored, by issuing it again.
    pub(super) fn settled(&self, shard: ShardId) {
        self.with(|world| world.found_stored(self.place, shard));
    }

    /// A commit is issued again, without an answer.
    pub(super) fn reissue(&self, shard: ShardId) {
        self.with(|world| world.reissue(self.place, shard));
    }

    /// What was issued again and not answered arrives after a while.
    pub(super) fn land(&self, after_ms: Millis) {
        self.with(|world| world.queue.push(after_ms, Event::Land));
    }

    pub(super) fn put_late(&self, shard: ShardId, writes: &[Write], after_ms: Millis) {
        let writes = Arc::new(writes.to_vec());
        self.with(|world| world.queue.push(after_ms, Event::LatePut { shard, writes }));
    }

    pub(super) fn beat_late(&self, registered: &Registered, after_ms: Millis) {
        let registered = Box::new(registered.clone());
        self.with(|world| world.queue.push(after_ms, Event::LateBeat { registered }));
    }
}
