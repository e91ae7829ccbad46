//! A site that was removed is told so where it was last found: it may be able to dial nobody itself.

use std::time::{Duration, Instant};

use quipu_engine::SiteId;
use tokio::time::sleep;

use super::{Inside, Session, backoff::BackOff, connect};

/// For so long it is tried. After that it has to dial.
const FAREWELL_MAX: Duration = Duration::from_secs(600);

/// Dials a site that was removed until it knows, or somebody else is found there.
pub(super) async fn tell<N: Inside>(node: N, site: SiteId, address: String) {
    let until = Instant::now() + FAREWELL_MAX;
    let mut backoff = BackOff::default();
    while Instant::now() < until && node.board().stopped().is_none() {
        if let Ok((stream, to)) = connect(&address).await {
            let session = Session::new(node.clone(), stream, to, Some(site.number));
            match session.bid_farewell(site).await {
                Ok(what) => return tracing::info!(address, "{what}"),
                Err(why) => tracing::debug!(%site, address, "it was removed, and could not be told: {why}"),
            }
        }
        sleep(backoff.failed()).await;
    }
}
