//! Text into values. What is wrong with a text is said as the end of a sentence that begins with it.

use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use super::{IDMP_FPP_MAX, IDMP_FPP_MIN, SHARDS_MAX, TCP_KEEPALIVE_SECONDS_MAX};

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
