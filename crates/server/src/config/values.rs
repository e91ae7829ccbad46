//! Text into values. What is wrong with a text is said as the end of a sentence that begins with it.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use super::{
    CLUSTER_BYTES_MAX, IDMP_FPP_MAX, IDMP_FPP_MIN, PARENTS_MAX, PeerAddress, SHARDS_MAX, SITES_MAX,
    TCP_KEEPALIVE_SECONDS_MAX,
};

pub(super) fn folder(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("is no folder; give a path such as ./quipu-data".to_owned());
    }
    Ok(PathBuf::from(text))
}

pub(super) fn address(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "off" {
        return Ok(None);
    }
    let local = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    let local = local.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let address = local.or_else(|| text.parse().ok());
    address.map(Some).ok_or_else(|| {
        "is no address; give ADDRESS:PORT such as 127.0.0.1:7380 (port 0 picks a free one), or off".to_owned()
    })
}

/// A name or an address, without a port.
pub(super) fn host(text: &str) -> Result<String, String> {
    let is_address = text.parse::<IpAddr>().is_ok_and(|address| !address.is_unspecified());
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    let could_be_name = !text.is_empty() && text.len() <= 253 && text.chars().all(is_name);
    if is_address || (could_be_name && text.parse::<IpAddr>().is_err()) {
        return Ok(text.to_owned());
    }
    Err("is no name or address of a machine; give one without a port, under which other nodes and clients reach this \
         node, such as 10.0.0.7 or quipu-1.example.com"
        .to_owned())
}

pub(super) fn site(text: &str) -> Result<u16, String> {
    text.parse().ok().filter(|number| *number != 0).ok_or_else(|| {
        format!(
            "is no number of a site; give a whole number from 1 to {}, another one at each site",
            u16::MAX
        )
    })
}

pub(super) fn cluster(text: &str) -> Result<String, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if text.is_empty() || text.len() > CLUSTER_BYTES_MAX || !text.chars().all(is_name) {
        return Err(format!(
            "is no name of a cluster; give 1 to {CLUSTER_BYTES_MAX} letters, digits, hyphens, underscores and dots"
        ));
    }
    Ok(text.to_owned())
}

/// `2@host:port,3@host:port`; may be empty.
pub(super) fn peers(text: &str) -> Result<Vec<PeerAddress>, String> {
    let mut peers: Vec<PeerAddress> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|_| !text.trim().is_empty()) {
        let peer = peer(part)?;
        if let Some(other) = peers.iter().find(|other| other.number == peer.number) {
            return Err(format!(
                "has site {} twice, at {} and at {}; leave one out",
                peer.number, other.address, peer.address
            ));
        }
        peers.push(peer);
    }
    if peers.len() >= SITES_MAX {
        return Err(format!(
            "names {} sites; a cluster has at most {SITES_MAX}, this one among them",
            peers.len()
        ));
    }
    Ok(peers)
}

/// `host:port,host:port`.
pub(super) fn parents(text: &str) -> Result<Vec<String>, String> {
    let mut parents: Vec<String> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|_| !text.trim().is_empty()) {
        if !is_peer_address(part) {
            return Err(format!(
                "has {part:?}, which is no address; give HOST:PORT such as 10.0.0.1:7381, apart by commas"
            ));
        }
        if parents.iter().any(|other| other == part) {
            return Err(format!("has {part} twice; leave one out"));
        }
        parents.push(part.to_owned());
    }
    match parents.len() {
        0..=PARENTS_MAX => Ok(parents),
        many => Err(format!("names {many} parents; a relay has at most {PARENTS_MAX}")),
    }
}

fn peer(text: &str) -> Result<PeerAddress, String> {
    const REMEDY: &str = "give NUMBER@HOST:PORT such as 2@10.0.0.2:7381, apart by commas";
    let (number, address) =
        text.split_once('@').ok_or_else(|| format!("has {text:?}, which is no peer; {REMEDY}"))?;
    let number = site(number).map_err(|problem| format!("has {text:?}: {number:?} {problem}"))?;
    if !is_peer_address(address) {
        return Err(format!("has {text:?}: {address:?} is no address; {REMEDY}"));
    }
    Ok(PeerAddress { number, address: address.to_owned() })
}

/// Can a site be dialled there? `host:port`, where the host may be a name.
pub(crate) fn is_peer_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-_.[]:%".contains(c);
    port.parse().is_ok_and(|port: u16| port != 0)
        && !host.is_empty()
        && host.chars().all(is_host)
        && (!host.contains(':') || host.starts_with('['))
}

pub(super) fn shards(text: &str) -> Result<u16, String> {
    match whole(text, 1, SHARDS_MAX) {
        Ok(number) if !number.is_power_of_two() => Err(format!(
            "is no power of two; give {} or {}",
            number.next_power_of_two() / 2,
            number.next_power_of_two()
        )),
        other => other,
    }
}

pub(super) fn probability(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "is no number; give a probability such as 0.000001")?;
    if !(IDMP_FPP_MIN..=IDMP_FPP_MAX).contains(&number) {
        return Err(format!("is not within {IDMP_FPP_MIN} and {IDMP_FPP_MAX}"));
    }
    Ok(number)
}

/// Whole seconds, as Redis has them in the setting of this name; 0 is never.
pub(super) fn seconds_or_never(text: &str) -> Result<Option<Duration>, String> {
    let seconds = whole(text, 0, TCP_KEEPALIVE_SECONDS_MAX)?;
    Ok((seconds > 0).then(|| Duration::from_secs(seconds)))
}

pub(super) fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" | "yes" => Ok(true),
        "false" | "0" | "no" | "" => Ok(false),
        _ => Err("is neither true nor false".to_owned()),
    }
}

pub(super) fn whole<T: FromStr + PartialOrd + Copy + fmt::Display>(
    text: &str,
    min: T,
    max: T,
) -> Result<T, String> {
    let number = text.parse().map_err(|_| format!("is no whole number from {min} to {max}"))?;
    within(number, min, max, |it| it.to_string())
}

pub(super) fn within<T: PartialOrd + Copy>(
    value: T,
    min: T,
    max: T,
    show: impl Fn(T) -> String,
) -> Result<T, String> {
    if value < min {
        return Err(format!("is less than {}, the least that is allowed", show(min)));
    }
    if value > max {
        return Err(format!("is more than {}, the most that is allowed", show(max)));
    }
    Ok(value)
}
