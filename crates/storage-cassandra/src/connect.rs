//! A session with the database: who we are, and where our requests go.

use std::{path::PathBuf, sync::Arc, time::Duration};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, pem::PemObject},
};
use scylla::{
    client::{execution_profile::ExecutionProfile, session::Session, session_builder::SessionBuilder},
    policies::load_balancing::DefaultPolicy,
    statement::{Consistency, SerialConsistency},
};

use crate::{
    Address, SetupError,
    error::{not_connected, while_doing},
};

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// A connection that is silent for so long is asked whether it still lives, and given up when it does not answer: a
/// node that is paused, or behind a network that has gone, closes nothing.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(2);
const KEEPALIVE_WITHIN: Duration = Duration::from_secs(2);

/// How to get in.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// User and password, if the database wants them.
    pub user: Option<(String, String)>,
    /// Encrypt, and trust whom the authorities in this file (PEM) vouch for.
    pub tls_authorities: Option<PathBuf>,
}

impl std::fmt::Debug for Access {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access")
            .field("user", &self.user.as_ref().map(|(name, _)| name))
            .field("tls_authorities", &self.tls_authorities)
            .finish()
    }
}

/// Connects, to any datacenter for the time being.
pub(crate) async fn connect(address: &Address, access: &Access) -> Result<Session, SetupError> {
    let mut builder = SessionBuilder::new()
        .known_nodes(address.hosts())
        .keyspaces_to_fetch([address.keyspace()])
        .connection_timeout(CONNECT_WITHIN)
        .keepalive_interval(KEEPALIVE_EVERY)
        .keepalive_timeout(KEEPALIVE_WITHIN);
    if let Some((name, password)) = &access.user {
        builder = builder.user(name, password);
    }
    if access.tls_authorities.is_some() {
        builder = builder.tls_context(Some(Arc::new(tls(access)?)));
    }
    builder.build().await.map_err(|error| not_connected(address.to_string(), &error))
}

fn tls(access: &Access) -> Result<ClientConfig, SetupError> {
    let file = access.tls_authorities.as_deref().unwrap_or_else(|| std::path::Path::new(""));
    let unusable = |why: String| SetupError::Certificates { file: file.display().to_string(), why };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| unusable(error.to_string()))? {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(unusable("it holds no certificate".to_owned()));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// From now on all requests go to this datacenter. A conditional write of another one would know nothing of ours.
pub(crate) fn stay_in(session: &Session, datacenter: &str, request_within: Duration) {
    let policy = DefaultPolicy::builder()
        .prefer_datacenter(datacenter.to_owned())
        .permit_dc_failover(false)
        .token_aware(true)
        .build();
    let profile = ExecutionProfile::builder()
        .consistency(Consistency::LocalQuorum)
        .serial_consistency(Some(SerialConsistency::LocalSerial))
        .request_timeout(Some(request_within))
        .load_balancing_policy(policy)
        .build();
    session.get_default_execution_profile_handle().clone().map_to_another_profile(profile);
}

/// The datacenters that the database has, with how many nodes each.
pub(crate) fn datacenters(session: &Session) -> std::collections::BTreeMap<String, u32> {
    let mut found = std::collections::BTreeMap::new();
    for node in session.get_cluster_state().get_nodes_info() {
        if let Some(name) = &node.datacenter {
            *found.entry(name.clone()).or_default() += 1;
        }
    }
    found
}

/// How the store is set to put commits on a disk, if it tells.
pub(crate) async fn commitlog_sync(session: &Session) -> Option<String> {
    let question = "SELECT value FROM system_views.settings WHERE name = 'commitlog_sync'";
    // ScyllaDB has no such table, and a user may not be allowed to look.
    let answer = session.query_unpaged(question, ()).await.ok()?;
    answer.into_rows_result().ok()?.maybe_first_row::<(String,)>().ok()?.map(|(value,)| value)
}

/// How many copies of the keyspace each datacenter holds; `None` if there is no such keyspace.
pub(crate) async fn replication(
    session: &Session,
    keyspace: &str,
) -> Result<Option<Replication>, SetupError> {
    const DOING: &str = "asking how the keyspace is replicated";
    let question = "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?";
    let answer = session.query_unpaged(question, (keyspace,)).await.map_err(while_doing(DOING))?;
    let rows = answer.into_rows_result().map_err(while_doing(DOING))?;
    let row = rows.maybe_first_row::<(std::collections::BTreeMap<String, String>,)>();
    Ok(row.map_err(while_doing(DOING))?.map(|(options,)| Replication { options }))
}

/// A keyspace's own words on its replication.
#[derive(Debug, Clone)]
pub(crate) struct Replication {
    options: std::collections::BTreeMap<String, String>,
}

impl Replication {
    /// The copies in a datacenter.
    pub(crate) fn copies(&self, datacenter: &str) -> u32 {
        let stated = self.options.get(datacenter).or_else(|| self.options.get("replication_factor"));
        // "3/1" are three copies of which one is transient.
        let full = stated.and_then(|stated| stated.split('/').next());
        full.and_then(|copies| copies.parse().ok()).unwrap_or(0)
    }
}
