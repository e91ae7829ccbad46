//! How the replicas of a trace fall silent and leave.

use super::check::Violation;
use super::fleet::{CLIENT, Fleet, Intent, Message, ROOT, SERVER};
use crate::handoff::Notice;

impl Fleet {
    /// One event in the life of a replica.
    pub(super) fn live(&mut self) -> Result<(), Violation> {
        let id = self.any_id();
        let (tier, intent) = (self.nodes[&id].replica.tier(), self.nodes[&id].intent);
        match (tier, intent) {
            (CLIENT, Intent::Stay) if self.random.chance(0.3) => self.decide_to_leave(id),
            (CLIENT, Intent::Silent) if self.random.chance(0.5) => self.set_intent(id, Intent::Stay),
            (SERVER, Intent::Stay) if self.random.chance(0.05) => self.decide_to_bequeath(id)?,
            (_, Intent::Stay | Intent::Silent) => self.fold_any_slot(id)?,
            _ => self.go_on_leaving(id)?,
        }
        if tier < CLIENT {
            self.pass_notices(id);
        }
        Ok(())
    }

    fn set_intent(&mut self, id: u32, intent: Intent) {
        self.nodes.get_mut(&id).expect("it is there").intent = intent;
    }

    fn decide_to_leave(&mut self, id: u32) {
        let intent = *self.random.pick(&[
            Intent::Silent,
            Intent::LeaveWhenHandedOver,
            Intent::LeaveWhenCached,
            Intent::LeaveWithNotice,
        ]);
        self.set_intent(id, intent);
    }

    /// One server at a time leaves, and one always stays.
    fn decide_to_bequeath(&mut self, id: u32) -> Result<(), Violation> {
        let leaving = self.nodes.values().filter(|node| node.intent == Intent::Bequeath).count();
        if self.tiers[usize::from(SERVER)].len() > leaving + 1 {
            let stop = self.conduct.stop;
            self.change(id, |node| stop(&mut node.replica).expect("servers may stop"))?;
            self.set_intent(id, Intent::Bequeath);
        }
        Ok(())
    }

    pub(super) fn fold_any_slot(&mut self, id: u32) -> Result<(), Violation> {
        let sources: Vec<u32> = self.nodes[&id].replica.handshake().desk().slots().keys().copied().collect();
        if sources.is_empty() {
            return Ok(());
        }
        let source = *self.random.pick(&sources);
        let fold = self.conduct.fold;
        self.summary.folded += u64::from(self.change(id, |node| fold(&mut node.replica, &source))?);
        Ok(())
    }

    pub(super) fn go_on_leaving(&mut self, id: u32) -> Result<(), Violation> {
        let node = &self.nodes[&id];
        match node.intent {
            Intent::Stay | Intent::Silent => {}
            Intent::LeaveWhenHandedOver if !node.replica.must_hand_off() => self.leave(id)?,
            Intent::LeaveWhenCached if (self.conduct.may_leave_early)(&node.replica) => self.leave(id)?,
            Intent::LeaveWhenHandedOver | Intent::LeaveWhenCached => {}
            Intent::LeaveWithNotice => {
                let used: Vec<u32> = node.used.iter().copied().collect();
                let retire = self.conduct.retire;
                let notice = self.change(id, |node| retire(&mut node.replica, &used))?;
                let tier = *self.random.pick(&[ROOT, SERVER]);
                let to = *self.random.pick(&self.tiers[usize::from(tier)]);
                if let Ok(notice) = notice {
                    self.send(id, to, Message::Keep(notice));
                }
            }
            Intent::Bequeath if (self.conduct.may_leave)(&node.replica) => self.leave(id)?,
            Intent::Bequeath => {
                let tier = *self.random.pick(&[ROOT, SERVER]);
                let heir = *self.random.pick(&self.tiers[usize::from(tier)]);
                self.bequeath(id, heir)?;
            }
        }
        Ok(())
    }

    /// To this heir, unless another has been named and has not refused.
    fn bequeath(&mut self, id: u32, heir: u32) -> Result<(), Violation> {
        let bequeath = self.conduct.bequeath;
        let named = self.nodes[&id].replica.handshake().named_heir().copied();
        for heir in std::iter::once(heir).chain(named) {
            if let Ok(estate) = self.change(id, |node| bequeath(&mut node.replica, &heir))? {
                self.send(id, self.heir_of(heir), Message::Estate(Box::new(estate)));
                break;
            }
        }
        Ok(())
    }

    pub(super) fn pass_notices(&mut self, keeper: u32) {
        let Some(node) = self.nodes.get(&keeper) else { return };
        let pending: Vec<(u32, Notice<u32, u64>)> = node
            .replica
            .handshake()
            .notices()
            .flat_map(|(notice, pending)| pending.iter().map(|&server| (server, notice.clone())))
            .collect();
        for (server, notice) in pending {
            self.send(keeper, self.heir_of(server), Message::Pass { keeper, notice });
        }
    }
}
