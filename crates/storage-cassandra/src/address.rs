//! Where the store is: `cassandra://host1[:port],host2/keyspace`.

use std::{fmt, str::FromStr};

const SCHEME: &str = "cassandra://";
/// Where Cassandra and ScyllaDB listen unless told otherwise.
const PORT_DEFAULT: u16 = 9042;
/// Cassandra's own limit.
const KEYSPACE_BYTES_MAX: usize = 48;

/// Some nodes of a database, by which the others are found, and the keyspace.
///
/// ```
/// use quipu_storage_cassandra::Address;
///
/// let address: Address = "cassandra://a.example,10.0.0.2:9043,[::1]/counters".parse()?;
/// assert_eq!(address.hosts(), ["a.example:9042", "10.0.0.2:9043", "[::1]:9042"]);
/// assert_eq!(address.keyspace(), "counters");
/// # Ok::<(), quipu_storage_cassandra::BadAddress>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    hosts: Vec<String>,
    keyspace: String,
}

/// Not the address of a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not the address of a store: {why}. It looks like cassandra://host1,host2:9042/keyspace")]
pub struct BadAddress {
    /// What was given.
    text: String,
    /// What is wrong with it.
    why: &'static str,
}

impl Address {
    /// The nodes to begin with, each with its port.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// The keyspace.
    pub fn keyspace(&self) -> &str {
        &self.keyspace
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.hosts.join(","), self.keyspace)
    }
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let bad = |why| BadAddress { text: text.to_owned(), why };
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| bad("it does not begin with cassandra://"))?;
        let (hosts, keyspace) = rest.split_once('/').ok_or_else(|| bad("it names no keyspace"))?;
        let hosts = hosts.split(',').map(host).collect::<Result<_, _>>().map_err(bad)?;
        if !is_keyspace(keyspace) {
            return Err(bad(
                "a keyspace is a lower-case letter and then letters, digits and _, at most 48 in all",
            ));
        }
        Ok(Self { hosts, keyspace: keyspace.to_owned() })
    }
}

/// Names that mean the same with quotation marks and without, so that none are needed.
fn is_keyspace(name: &str) -> bool {
    name.len() <= KEYSPACE_BYTES_MAX
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// A host with its port.
fn host(text: &str) -> Result<String, &'static str> {
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (text, None),
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    if bare.is_empty() || bare.contains(['[', ']', '@', '/', '?', ' ']) {
        return Err("a host is missing or has characters that no host has");
    }
    if bare.contains(':') && bare.len() == name.len() {
        return Err("an IPv6 address stands in brackets");
    }
    let port = port.map_or(Ok(PORT_DEFAULT), str::parse).map_err(|_| "a port is a number up to 65535")?;
    Ok(format!("{name}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_again() {
        let address: Address = "cassandra://one,[2001:db8::1]:7/k_1".parse().unwrap();
        assert_eq!(address.to_string(), "cassandra://one:9042,[2001:db8::1]:7/k_1");
        assert_eq!(address.to_string().parse::<Address>().unwrap(), address);
    }

    #[test]
    fn others_are_refused() {
        for text in [
            "",
            "cassandra:/a/b",
            "scylla://a/b",
            "cassandra://a",
            "cassandra://a/",
            "cassandra:///k",
            "cassandra://a,/k",
            "cassandra://a:port/k",
            "cassandra://a:70000/k",
            "cassandra://2001:db8::1/k",
            "cassandra://user@a/k",
            "cassandra://a/K",
            "cassandra://a/1k",
            "cassandra://a/k;DROP",
            "cassandra://a/k?x=1",
        ] {
            let refused = text.parse::<Address>();
            assert!(refused.is_err(), "{text}: {refused:?}");
        }
        let long = format!("cassandra://a/{}", "k".repeat(49));
        assert!(long.parse::<Address>().is_err());
    }
}
