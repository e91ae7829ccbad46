//! What a node knows of the other sites.

use std::time::Duration;

use quipu_engine::SiteId;

use super::Shared;

impl Shared {
    /// This site.
    pub(super) fn site(&self) -> SiteId {
        self.board.identity().site
    }

    /// All sites of the cluster, this one among them.
    pub(super) fn members(&self) -> Vec<SiteId> {
        self.board.membership().members.into_iter().collect()
    }

    /// How long ago something came from another site; `None`: nothing since the start, or it was restored or
    /// removed since.
    pub(super) fn last_heard(&self, site: SiteId) -> Option<Duration> {
        let peer = self.board.peer(site.number).filter(|_| self.members().contains(&site))?;
        self.board.silent_ms(&peer).map(Duration::from_millis)
    }
}
