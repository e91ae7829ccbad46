//! The books of this site: what was counted here and why, and what is known of the other sites.

use std::collections::BTreeMap;

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use quipu_engine::{ShardAudit, SiteAudit, SiteId, Suspicion, Suspicious};
use serde::Serialize;

use super::{
    App, Counters,
    decode::Numbers,
    problem::Problem,
    request::Values,
    show::{Json, KeyText, Number},
};

/// The books of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    /// Whose they are.
    pub site: SiteId,
    /// All sites of the cluster, this one among them.
    pub members: Vec<SiteId>,
    /// The books of each shard, in their order.
    pub shards: Vec<ShardAudit>,
}

pub(super) async fn audit<C: Counters>(
    State(app): State<App<C>>,
    Values(numbers): Values,
) -> Result<Response, Problem> {
    let audit = app.counters.audit().await.map_err(|refusal| Problem::refused(&refusal, numbers))?;
    Ok(Json(AuditBody::of(&audit, numbers)).into_response())
}

#[derive(Debug, Serialize)]
struct AuditBody {
    site: String,
    members: Vec<String>,
    /// How many shards there are.
    shard_count: usize,
    total: TotalBody,
    /// Those in which something was counted anywhere.
    shards: Vec<ShardBody>,
}

#[derive(Debug, Serialize)]
struct TotalBody {
    issued: AmountsBody,
    set: AmountsBody,
    cancelled: AmountsBody,
    sites: Vec<TotalSiteBody>,
}

#[derive(Debug, Serialize)]
struct TotalSiteBody {
    site: String,
    counted: AmountsBody,
    open: Number,
}

#[derive(Debug, Serialize)]
struct ShardBody {
    shard: u16,
    issued: AmountsBody,
    set: AmountsBody,
    cancelled: AmountsBody,
    sites: Vec<SiteBody>,
    /// Counters on which an operation was not counted exactly once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    suspicious: Vec<SuspiciousBody>,
    /// How many there are besides those.
    #[serde(skip_serializing_if = "Option::is_none")]
    suspicious_further: Option<u64>,
}

#[derive(Debug, Serialize)]
struct SuspiciousBody {
    #[serde(flatten)]
    key: KeyText,
    what: &'static str,
    /// Those that have counted it; one that has counted it twice is named twice.
    sites: Vec<String>,
}

impl SuspiciousBody {
    fn of(suspicious: &Suspicious) -> Self {
        let (what, sites): (_, &[SiteId]) = match &suspicious.what {
            Suspicion::Twice(sites) => ("counted_twice", sites),
            Suspicion::Lost(site) => ("lost", std::slice::from_ref(site)),
        };
        let sites = sites.iter().map(SiteId::to_string).collect();
        Self { key: KeyText::of(&suspicious.key), what, sites }
    }
}

#[derive(Debug, Serialize)]
struct SiteBody {
    site: String,
    counted: AmountsBody,
    position: Number,
    settled: Number,
    open: Number,
}

#[derive(Debug, Serialize)]
struct AmountsBody {
    added: Number,
    subtracted: Number,
}

/// Sums, modulo 2^64.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Amounts {
    added: u64,
    subtracted: u64,
}

impl Amounts {
    fn plus(self, added: u64, subtracted: u64) -> Self {
        Self { added: self.added.wrapping_add(added), subtracted: self.subtracted.wrapping_add(subtracted) }
    }

    fn show(self, numbers: Numbers) -> AmountsBody {
        AmountsBody { added: numbers.show(self.added), subtracted: numbers.show(self.subtracted) }
    }
}

/// What a shard says of this site.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Own {
    issued: Amounts,
    set: Amounts,
    cancelled: Amounts,
}

impl Own {
    fn plus(self, shard: &ShardAudit) -> Self {
        let ShardAudit { issued, set, cancelled, .. } = shard;
        Self {
            issued: self.issued.plus(issued.added, issued.subtracted),
            set: self.set.plus(set.added, set.subtracted),
            cancelled: self.cancelled.plus(cancelled.added, cancelled.subtracted),
        }
    }
}

/// What all shards say of a site.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    counted: Amounts,
    open: u64,
}

impl AuditBody {
    fn of(audit: &Audit, numbers: Numbers) -> Self {
        let mut own = Own::default();
        let mut known: BTreeMap<SiteId, Known> = BTreeMap::new();
        for shard in &audit.shards {
            own = own.plus(shard);
            for site in &shard.sites {
                let known = known.entry(site.site).or_default();
                known.counted = known.counted.plus(site.counted.added, site.counted.subtracted);
                known.open += site.open;
            }
        }
        let sites = known.into_iter().map(|(site, known)| TotalSiteBody {
            site: site.to_string(),
            counted: known.counted.show(numbers),
            open: numbers.show(known.open),
        });
        Self {
            site: audit.site.to_string(),
            members: audit.members.iter().map(SiteId::to_string).collect(),
            shard_count: audit.shards.len(),
            total: TotalBody {
                issued: own.issued.show(numbers),
                set: own.set.show(numbers),
                cancelled: own.cancelled.show(numbers),
                sites: sites.collect(),
            },
            shards: audit
                .shards
                .iter()
                .filter(|shard| shard.sites.iter().any(has_begun))
                .map(|shard| ShardBody::of(shard, numbers))
                .collect(),
        }
    }
}

fn has_begun(site: &SiteAudit) -> bool {
    site.position > 0 || site.open > 0 || site.counted.added > 0 || site.counted.subtracted > 0
}

impl ShardBody {
    fn of(shard: &ShardAudit, numbers: Numbers) -> Self {
        let own = Own::default().plus(shard);
        let sites = shard.sites.iter().map(|site| SiteBody {
            site: site.site.to_string(),
            counted: Amounts::default().plus(site.counted.added, site.counted.subtracted).show(numbers),
            position: numbers.show(site.position),
            settled: numbers.show(site.settled),
            open: numbers.show(site.open),
        });
        Self {
            shard: shard.shard,
            issued: own.issued.show(numbers),
            set: own.set.show(numbers),
            cancelled: own.cancelled.show(numbers),
            sites: sites.collect(),
            suspicious: shard.suspicious.iter().flatten().map(SuspiciousBody::of).collect(),
            suspicious_further: shard.suspicious_further,
        }
    }
}
