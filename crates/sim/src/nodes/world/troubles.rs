//! Troubles begin and end.

use super::{Event, World};
use crate::nodes::trouble::{Planned, Trouble};
use quipu_storage::Registry as _;

impl World {
    pub(super) fn begin(&mut self, number: usize) {
        let Planned { trouble, .. } = self.plan.troubles[number];
        let is_there = trouble.node().is_none_or(|node| self.places[node].is_up);
        if self.healed || is_there == matches!(trouble, Trouble::Join { .. }) {
            return;
        }
        self.say(format!("trouble {number}: {trouble:?}"));
        let now = self.now();
        match trouble {
            Trouble::Pause { node, within: None, for_ms } => {
                self.counts.halts += 1;
                let until = &mut self.places[node].paused_until;
                *until = (now + for_ms).max(*until);
            }
            Trouble::Pause { node, within: Some(call), for_ms } => {
                self.places[node].armed = Some((call, for_ms));
            }
            Trouble::Crash { node, away_ms } => {
                self.stop(node);
                self.queue.push(away_ms, Event::Start { place: node });
            }
            Trouble::Cut { node, for_ms } => self.places[node].cut_until = now + for_ms,
            Trouble::Slow { node, within: None, for_ms } => self.places[node].slow_until = now + for_ms,
            Trouble::Slow { node, within: Some(call), for_ms } => {
                self.places[node].stalled.push((call, for_ms));
            }
            Trouble::Storm { share, for_ms } => {
                self.storm = Some(share);
                self.queue.push(for_ms, Event::End { trouble: number });
            }
            Trouble::Drain { node, for_ms } => {
                self.ask_to_drain(node, true);
                self.queue.push(for_ms, Event::End { trouble: number });
            }
            Trouble::Leave { node } => {
                self.places[node].leaves = true;
                self.ask_to_drain(node, true);
            }
            Trouble::Join { node } => self.start_node(node),
        }
    }

    pub(super) fn end(&mut self, number: usize) {
        match self.plan.troubles[number].trouble {
            Trouble::Storm { .. } => self.storm = None,
            Trouble::Drain { node, .. } if !self.places[node].leaves => self.ask_to_drain(node, false),
            _ => {}
        }
    }

    fn ask_to_drain(&mut self, at: usize, drains: bool) {
        let registry = self.memory.registry(self.places[at].id);
        // The memory itself never fails.
        let _ = registry.ask_to_drain(self.places[at].id, drains);
    }

    /// Clients begin nothing new, and nothing goes wrong any more.
    pub(in crate::nodes) fn close(&mut self) {
        if !self.healed {
            self.closing = true;
            self.heal();
        }
    }

    fn heal(&mut self) {
        self.say("everything heals".to_owned());
        self.healed = true;
        self.storm = None;
        let now = self.now();
        for at in 0..self.places.len() {
            let place = &mut self.places[at];
            (place.paused_until, place.cut_until, place.slow_until) = (now, 0, 0);
            place.armed = None;
            place.stalled.clear();
            if !place.leaves {
                self.ask_to_drain(at, false);
            }
            self.schedule(at, 1);
        }
    }
}
