//! Sizes and durations as people write them, and back.

use std::time::Duration;

const SIZES: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

/// In milliseconds. Of two names for one unit the first is written.
const DURATIONS: [(&str, u64); 8] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("min", 60_000),
    ("m", 60_000),
    ("s", 1_000),
    ("sec", 1_000),
    ("ms", 1),
    ("msec", 1),
];

/// Reads `512MiB`, `1GiB`, `2GB` or a plain number of bytes.
///
/// ```
/// assert_eq!(quipu_server::config::parse_bytes("1GiB"), Ok(1 << 30));
/// ```
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    const REMEDY: &str = "is not a size; give a whole number with KiB, MiB, GiB or TiB, such as 512MiB";
    let (number, unit) = split(text).ok_or(REMEDY)?;
    let factor = match unit {
        "" => Some(1),
        unit => SIZES.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|(_, factor)| *factor),
    };
    let bytes = number.checked_mul(factor.ok_or(REMEDY)?);
    Ok(bytes.ok_or("is more bytes than there can be; give less")?)
}

/// Writes a size so that [`parse_bytes`] reads it again.
pub fn format_bytes(bytes: u64) -> String {
    format(bytes, &SIZES[..4], "B")
}

/// Reads `10min`, `500ms`, `1h`.
///
/// ```
/// use std::time::Duration;
/// assert_eq!(quipu_server::config::parse_duration("10min"), Ok(Duration::from_secs(600)));
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    const REMEDY: &str = "is not a duration; give a whole number with ms, s, min, h or d, such as 10min";
    let (number, unit) = split(text).ok_or(REMEDY)?;
    let (_, factor) = DURATIONS.iter().find(|(name, _)| *name == unit).ok_or(REMEDY)?;
    let milliseconds = number.checked_mul(*factor).ok_or("is longer than can be measured; give less")?;
    Ok(Duration::from_millis(milliseconds))
}

/// Writes a duration so that [`parse_duration`] reads it again, to the millisecond.
pub fn format_duration(duration: Duration) -> String {
    let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    format(milliseconds, &DURATIONS, "ms")
}

/// The number at the front, and what follows it.
fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, text[end..].trim_start()))
}

/// In the largest unit that needs no fraction.
fn format(number: u64, units: &[(&str, u64)], smallest: &str) -> String {
    match units.iter().find(|(_, factor)| number > 0 && number.is_multiple_of(*factor)) {
        Some((name, factor)) => format!("{}{name}", number / factor),
        None => format!("{number}{smallest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_written() {
        for (text, bytes) in [
            ("0", 0),
            ("1000", 1000),
            ("7B", 7),
            ("1KiB", 1024),
            ("3 mib", 3 << 20),
            ("1GiB", 1 << 30),
            ("2TiB", 2 << 40),
            ("5GB", 5_000_000_000),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn other_sizes_are_refused_with_an_example() {
        for text in ["", "GiB", "1.5GiB", "-1", "1 gigabyte", "1G1", "18446744073709551616"] {
            let refusal = parse_bytes(text).expect_err(text);
            assert!(refusal.contains("such as 512MiB"), "{text}: {refusal}");
        }
        assert!(parse_bytes("99999999999TiB").expect_err("too much").contains("give less"));
    }

    #[test]
    fn durations_are_read_as_written() {
        for (text, milliseconds) in [
            ("0s", 0),
            ("500ms", 500),
            ("2s", 2_000),
            ("10min", 600_000),
            ("10m", 600_000),
            ("24h", 86_400_000),
            ("7d", 604_800_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn other_durations_are_refused_with_an_example() {
        for text in ["", "10", "ten minutes", "1.5h", "-1s", "1w"] {
            let refusal = parse_duration(text).expect_err(text);
            assert!(refusal.contains("such as 10min"), "{text}: {refusal}");
        }
        assert!(parse_duration("18446744073709551615d").expect_err("too long").contains("give less"));
    }

    #[test]
    fn what_is_written_is_read_again() {
        for number in [0, 1, 999, 1024, 1 << 30, (1 << 30) + 1, 600_000, 86_400_000, u64::MAX] {
            assert_eq!(parse_bytes(&format_bytes(number)), Ok(number));
            let duration = Duration::from_millis(number);
            assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }
        assert_eq!(format_bytes(1 << 30), "1GiB");
        assert_eq!(format_duration(Duration::from_secs(600)), "10min");
    }
}
