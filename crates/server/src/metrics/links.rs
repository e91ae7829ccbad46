//! What is measured about links, for each peer.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};

use super::Fraction;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PeerLabels {
    peer: u16,
}

/// The numbers of all peers.
#[derive(Debug, Clone, Default)]
pub(super) struct Links {
    up: Family<PeerLabels, Gauge>,
    bytes_sent: Family<PeerLabels, Counter>,
    bytes_received: Family<PeerLabels, Counter>,
    messages_sent: Family<PeerLabels, Counter>,
    messages_received: Family<PeerLabels, Counter>,
    refusals: Family<PeerLabels, Counter>,
    silent_seconds: Family<PeerLabels, Fraction>,
}

/// The numbers of one peer.
#[derive(Debug, Clone)]
pub struct PeerMetrics {
    /// 1 while there is a link.
    pub up: Gauge,
    /// Sent over links.
    pub bytes_sent: Counter,
    /// Received over links.
    pub bytes_received: Counter,
    /// Messages of shards.
    pub messages_sent: Counter,
    /// Messages of shards.
    pub messages_received: Counter,
    /// Links that one side has refused.
    pub refusals: Counter,
    /// How long nothing has come; not a number if nothing ever has.
    pub silent_seconds: Fraction,
}

impl Links {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("link_up", "Is there a link to this site", self.up.clone());
        registry.register_with_unit("link_sent", "Sent over links", Unit::Bytes, self.bytes_sent.clone());
        registry.register_with_unit(
            "link_received",
            "Received over links",
            Unit::Bytes,
            self.bytes_received.clone(),
        );
        registry.register("link_messages_sent", "Messages sent to shards", self.messages_sent.clone());
        registry.register(
            "link_messages_received",
            "Messages received for shards",
            self.messages_received.clone(),
        );
        registry.register("link_refusals", "Links that one side has refused", self.refusals.clone());
        registry.register_with_unit(
            "link_last_heard",
            "How long ago something came from this site",
            Unit::Seconds,
            self.silent_seconds.clone(),
        );
    }

    pub(super) fn peer(&self, peer: u16) -> PeerMetrics {
        let labels = PeerLabels { peer };
        PeerMetrics {
            up: self.up.get_or_create_owned(&labels),
            bytes_sent: self.bytes_sent.get_or_create_owned(&labels),
            bytes_received: self.bytes_received.get_or_create_owned(&labels),
            messages_sent: self.messages_sent.get_or_create_owned(&labels),
            messages_received: self.messages_received.get_or_create_owned(&labels),
            refusals: self.refusals.get_or_create_owned(&labels),
            silent_seconds: self.silent_seconds.get_or_create_owned(&labels),
        }
    }
}
