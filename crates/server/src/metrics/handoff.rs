//! What is measured about handoffs, for each worker.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::{
    metrics::{family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};
use quipu_engine::handoff::HandoffStats;

use super::WorkerLabels;

/// The numbers of all workers.
#[derive(Debug, Clone, Default)]
pub(super) struct Handoffs {
    slots: Family<WorkerLabels, Gauge>,
    oldest_slot: Family<WorkerLabels, Gauge>,
    folded: Family<WorkerLabels, Gauge>,
    folded_bytes: Family<WorkerLabels, Gauge>,
    tokens: Family<WorkerLabels, Gauge>,
    last_words: Family<WorkerLabels, Gauge>,
}

/// The numbers of one worker.
#[derive(Debug, Clone)]
pub struct HandoffMetrics {
    slots: Gauge,
    oldest_slot: Gauge,
    folded: Gauge,
    folded_bytes: Gauge,
    tokens: Gauge,
    last_words: Gauge,
}

impl Handoffs {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("edge_slots", "Slots of edges that are open", self.slots.clone());
        registry.register_with_unit(
            "edge_slot_oldest",
            "How long the oldest slot has been open",
            Unit::Seconds,
            self.oldest_slot.clone(),
        );
        registry.register("edge_slots_folded", "Slots of which only a bit is kept", self.folded.clone());
        registry.register_with_unit(
            "edge_slots_folded",
            "Memory of folded slots",
            Unit::Bytes,
            self.folded_bytes.clone(),
        );
        registry.register(
            "edge_tokens_for_others",
            "Tokens that are kept for other servers",
            self.tokens.clone(),
        );
        registry.register(
            "edge_last_words",
            "Last words of edges that have not reached all servers that they concern",
            self.last_words.clone(),
        );
    }

    pub(super) fn worker(&self, labels: &WorkerLabels) -> HandoffMetrics {
        HandoffMetrics {
            slots: self.slots.get_or_create_owned(labels),
            oldest_slot: self.oldest_slot.get_or_create_owned(labels),
            folded: self.folded.get_or_create_owned(labels),
            folded_bytes: self.folded_bytes.get_or_create_owned(labels),
            tokens: self.tokens.get_or_create_owned(labels),
            last_words: self.last_words.get_or_create_owned(labels),
        }
    }
}

impl HandoffMetrics {
    /// Says how it is.
    pub fn set(&self, stats: &HandoffStats) {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let age_s = stats.oldest_slot_s.map_or(0, |since_s| now_s.saturating_sub(since_s));
        for (gauge, number) in [
            (&self.slots, stats.slots),
            (&self.oldest_slot, age_s),
            (&self.folded, stats.folded),
            (&self.folded_bytes, stats.folded_bytes),
            (&self.tokens, stats.cached),
            (&self.last_words, stats.notices),
        ] {
            gauge.set(i64::try_from(number).unwrap_or(i64::MAX));
        }
    }
}
