//! What the replicas of a trace do, so that a test can put in something wrong.

use crate::handoff::{
    Addressee, Adoption, Estate, Handoff, MergeError, Notice, NoticeDone, RetireError, View,
};

/// The replicas of a trace.
pub type Replica = Handoff<u32, u64>;

/// What they send to each other.
pub type Seen = View<u32, u64>;

/// What a client that wants to leave gets.
pub type Retired = Result<Notice<u32, u64>, RetireError>;

/// What a server that wants to leave gets.
pub type Bequeathed = Result<Estate<u32, u64>, RetireError>;

/// The functions that a trace calls: those of [`Handoff`], unless a test tries wrong ones.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "each is the function of the same name")]
pub struct Conduct {
    pub new: fn(u32, u8) -> Replica,
    pub merge: fn(&mut Replica, &Seen) -> Result<(), MergeError>,
    pub view: fn(&Replica, &Addressee<'_, u32>) -> Seen,
    pub reply_to: fn(&Replica, &Seen) -> Seen,
    pub may_leave_early: fn(&Replica) -> bool,
    pub retire: fn(&mut Replica, &[u32]) -> Retired,
    pub act_on_notice: fn(&mut Replica, &Notice<u32, u64>) -> Vec<NoticeDone<u32>>,
    pub fold: fn(&mut Replica, &u32) -> bool,
    pub stop: fn(&mut Replica) -> Result<(), RetireError>,
    pub bequeath: fn(&mut Replica, &u32) -> Bequeathed,
    pub adopt: fn(&mut Replica, &Estate<u32, u64>) -> Option<Adoption<u32>>,
    pub may_leave: fn(&Replica) -> bool,
}

impl Default for Conduct {
    fn default() -> Self {
        Conduct {
            new: Handoff::new,
            merge: Handoff::merge,
            view: Handoff::view,
            reply_to: Handoff::reply_to,
            may_leave_early: |replica| replica.may_leave_early(|_, _| true),
            retire: |replica, servers| replica.retire(servers.iter().copied()).cloned(),
            act_on_notice: Handoff::act_on_notice,
            fold: Handoff::fold,
            stop: Handoff::stop,
            bequeath: Handoff::bequeath,
            adopt: Handoff::adopt,
            may_leave: Handoff::may_leave,
        }
    }
}
