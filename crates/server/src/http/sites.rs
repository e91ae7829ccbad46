//! Who belongs to the cluster: a list, and changes by command.
//!
//! A change is in force when all sites that stay have agreed. A request that says the same again tells how far it is, so
//! whoever wants to wait asks again.

use std::str::FromStr;

use axum::{
    extract::{RawQuery, State},
    http::{StatusCode, request::Parts},
    response::{IntoResponse, Response},
};
use quipu_engine::{BadSiteId, SiteId, council::Config};
use serde::{Deserialize, Serialize};

use super::{
    App, Counters,
    decode::{self, parameter},
    problem::Problem,
    request::JsonBody,
    show::Json,
};
use crate::links::{Behind, Draining};

/// Where the sites stand in `/v1/sites/{site}`, between the slashes.
const SITE_PLACE: usize = 3;

/// A cluster as one of its sites sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cluster {
    /// Its name.
    pub cluster: String,
    /// The site that says this.
    pub site: String,
    /// How often who belongs to it has changed; 0: this site has not been taken in yet.
    pub epoch: u64,
    /// Who belongs to it.
    pub sites: Vec<SiteFacts>,
    /// Who did, and its heir.
    pub removed: Vec<(String, String)>,
    /// The change that is under way, and not in force yet.
    pub change: Option<OpenChange>,
    /// How far those are that leave.
    pub draining: Vec<DrainingFacts>,
    /// What the site that says this waits for, while it joins.
    pub waits_for: Vec<String>,
    /// Sites of whose folders two copies have run, and each time a member that has taken in what one of them has written,
    /// where the site that says this has taken in what the other one has.
    pub differing: Vec<(String, String)>,
}

/// How far a site is that leaves: what must come to its end before it can be removed and takes nothing with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DrainingFacts {
    /// Its id.
    pub site: String,
    /// Commands that wait for other sites, and may still count.
    pub commands: u64,
    /// Its operations that are not settled.
    pub operations: u64,
    /// Who lacks some of its changes.
    pub behind: Vec<BehindFacts>,
    /// Tokens and last words of edges and relays that have not arrived where they are meant to.
    pub kept: u64,
}

/// A site that lacks some of another one's changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BehindFacts {
    /// Its id.
    pub site: String,
    /// How many.
    pub changes: u64,
}

impl DrainingFacts {
    pub(crate) fn of(site: SiteId, draining: &Draining) -> Self {
        let behind = |it: &Behind| BehindFacts { site: it.site.to_string(), changes: it.changes };
        Self {
            site: site.to_string(),
            commands: draining.commands,
            operations: draining.operations,
            behind: draining.behind.iter().map(behind).collect(),
            kept: draining.kept,
        }
    }
}

/// One site of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SiteFacts {
    /// Its id.
    pub site: String,
    /// `member`, `joining`, `draining` (it takes no writes any more) or `leaving` (and all have what it has counted).
    pub state: &'static str,
    /// Where it is dialled from here.
    pub address: Option<String>,
    /// `up`, `down` or `self`.
    pub link: &'static str,
    /// How long ago something came from it.
    pub heard_seconds: Option<u64>,
    /// Why there is no link.
    pub trouble: Option<String>,
}

/// A change that is not in force yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpenChange {
    /// For people.
    pub what: String,
    /// Who has proposed it.
    pub by: String,
    /// Who has yet to agree, as far as is known here.
    pub missing: Vec<String>,
}

/// What somebody wishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// Others are to belong to the cluster.
    Change(ChangeWish),
    /// A site is to take no writes, and tell the others all that it has counted: it is about to leave.
    Drain {
        /// Which; the one that is asked, if none is named.
        site: Option<SiteName>,
    },
    /// It stays, after all.
    Stay {
        /// Which; the one that is asked, if none is named.
        site: Option<SiteName>,
    },
    /// The site that is asked takes its open proposal back.
    Withdraw,
}

/// A change that somebody wishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeWish {
    /// A new site.
    Add {
        /// Its number.
        number: u16,
        /// Where the others reach it.
        address: String,
    },
    /// Sites go, all at once: in order, or because they are lost.
    Remove {
        /// Who.
        sites: Vec<SiteName>,
        /// Who takes over; the lowest member that stays, if nobody is named.
        heir: Option<SiteName>,
        /// Was it said that they are lost? Otherwise they first take no more writes, and tell the others everything.
        is_dead: bool,
    },
    /// A restored folder goes on under a new incarnation.
    Restore {
        /// Its id.
        new: SiteId,
        /// Where the others reach it; as before, if nothing is said.
        address: Option<String>,
    },
}

/// How far a change is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// For people.
    pub what: String,
    /// Is it in force?
    pub is_done: bool,
    /// Who has yet to agree, or to receive something.
    pub missing: Vec<String>,
    /// How far those are that are to leave.
    pub draining: Vec<DrainingFacts>,
}

/// Why a change is not made. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SiteTrouble {
    /// It does not go with how things are.
    #[error("{0}")]
    Conflict(String),
}

/// A site as people name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SiteName {
    /// `2`: the incarnation of this number that is listed.
    Listed(u16),
    /// `2.1`: this incarnation.
    Exactly(SiteId),
}

impl FromStr for SiteName {
    type Err = BadSiteId;

    fn from_str(text: &str) -> Result<Self, BadSiteId> {
        let id: SiteId = text.parse()?;
        Ok(if text.contains('.') { Self::Exactly(id) } else { Self::Listed(id.number) })
    }
}

impl SiteName {
    /// The id that is meant.
    pub fn in_list(self, config: &Config) -> SiteId {
        match self {
            Self::Exactly(id) => id,
            Self::Listed(number) => {
                let mut ids = config.sites.keys().chain(config.removed.keys().rev());
                let listed = ids.find(|id| id.number == number).copied();
                listed.unwrap_or(SiteId { number, incarnation: 0 })
            }
        }
    }
}

/// What is sent to change something.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Body {
    Add { site: u16, address: String },
    Restore { site: String, address: Option<String> },
    Drain(Which),
    Stay(Which),
    Withdraw,
}

/// Which site; the one that is asked, if none is named.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    site: Option<String>,
}

impl Which {
    fn name(&self) -> Result<Option<SiteName>, Problem> {
        self.site.as_deref().map(str::parse).transpose().map_err(bad_site)
    }
}

/// What is answered.
#[derive(Serialize)]
struct ProgressBody {
    status: &'static str,
    change: String,
    missing: Vec<String>,
    draining: Vec<DrainingFacts>,
}

pub(super) async fn list<C: Counters>(State(app): State<App<C>>) -> Result<Response, Problem> {
    app.counters.cluster().map(|cluster| Json(cluster).into_response()).map_err(conflict)
}

pub(super) async fn change<C: Counters>(
    State(app): State<App<C>>,
    JsonBody(body): JsonBody,
) -> Result<Response, Problem> {
    let remedy = "give {\"add\": {\"site\": 4, \"address\": \"host:port\"}}, {\"restore\": {\"site\": \"2.1\"}}, {\"drain\": {\"site\": \"3\"}}, \
                  {\"stay\": {\"site\": \"3\"}} or \"withdraw\"";
    let body = serde_json::from_slice(&body).map_err(|error| {
        Problem::bad_request(format!("the body is no change of sites: {error}; {remedy}"))
    })?;
    let wish = match body {
        Body::Drain(which) => Wish::Drain { site: which.name()? },
        Body::Stay(which) => Wish::Stay { site: which.name()? },
        Body::Withdraw => Wish::Withdraw,
        Body::Add { site: 0, .. } => return Err(Problem::bad_request("sites are numbered from 1")),
        Body::Add { site, address } => {
            Wish::Change(ChangeWish::Add { number: site, address: checked(address)? })
        }
        Body::Restore { site, address } => {
            let SiteName::Exactly(new) = site.parse().map_err(bad_site)? else {
                return Err(Problem::bad_request(format!(
                    "`{site}` has no incarnation; give the id that `quipu restore` told"
                )));
            };
            Wish::Change(ChangeWish::Restore { new, address: address.map(checked).transpose()? })
        }
    };
    grant(&app, wish).await
}

pub(super) async fn remove<C: Counters>(
    State(app): State<App<C>>,
    RawQuery(query): RawQuery,
    parts: Parts,
) -> Result<Response, Problem> {
    let text = parts.uri.path().split('/').nth(SITE_PLACE).map(decode::segment).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let sites = text.split(',').map(str::parse).collect::<Result<_, _>>().map_err(bad_site)?;
    let query = query.unwrap_or_default();
    let value = |name| -> Result<Option<String>, Problem> {
        let value = parameter(&query, name).map_err(Problem::bad_request)?;
        Ok(value.map(|value| String::from_utf8_lossy(&value).into_owned()))
    };
    let heir = value("heir")?.map(|heir| heir.parse()).transpose().map_err(bad_site)?;
    let is_dead = match value("dead")?.as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => {
            let detail = format!("the parameter `dead` is `{other}`; give `true` or `false`");
            return Err(Problem::bad_request(detail));
        }
    };
    grant(&app, Wish::Change(ChangeWish::Remove { sites, heir, is_dead })).await
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn bad_site(error: BadSiteId) -> Problem {
    Problem::bad_request(error.to_string())
}

/// The same rules as for the addresses of a configuration.
fn checked(address: String) -> Result<String, Problem> {
    match crate::config::is_peer_address(&address) {
        true => Ok(address),
        false => Err(Problem::bad_request(format!(
            "{address:?} is no address; give HOST:PORT such as 10.0.0.4:7381"
        ))),
    }
}

async fn grant<C: Counters>(app: &App<C>, wish: Wish) -> Result<Response, Problem> {
    let Progress { what, is_done, missing, draining } =
        app.counters.grant(wish).await.map_err(|trouble| conflict(trouble.to_string()))?;
    let (code, status) = if is_done { (StatusCode::OK, "done") } else { (StatusCode::ACCEPTED, "waiting") };
    Ok((code, Json(ProgressBody { status, change: what, missing, draining })).into_response())
}

fn conflict(detail: String) -> Problem {
    Problem::new(StatusCode::CONFLICT, "sites", "The sites cannot be changed so", detail)
}
