//! `SCAN cursor [MATCH pattern] [COUNT n] [TYPE type]`, `KEYS pattern`, `DBSIZE`.

use super::{Access, Arity, Gate, Group, Handler, KeyPositions, Spec, add::amount};
use crate::resp::{
    Arguments, Request, RequestError, SCAN_COUNT_DEFAULT, SCAN_COUNT_MAX, request::check_pattern,
};

const fn listing(name: &'static str, arity: Arity, summary: &'static str, handler: Handler) -> Spec {
    let (gate, access, keys, group) = (Gate::Authenticated, Access::Read, KeyPositions::None, Group::Keys);
    Spec { name, arity, gate, access, keys, group, summary, handler }
}

pub(super) static SCAN: Spec =
    listing("scan", Arity::AtLeast(2), "Lists the keys of counters, some at a time.", Handler::Keyed(scan));
pub(super) static KEYS: Spec = listing(
    "keys",
    Arity::Exactly(2),
    "Lists the keys that are like a pattern.",
    Handler::Keyed(|arguments| {
        Ok(Request::Keys { pattern: check_pattern(arguments.get(1).unwrap_or_default())? })
    }),
);
pub(super) static DBSIZE: Spec = listing(
    "dbsize",
    Arity::Exactly(1),
    "Says how many counters there are.",
    Handler::Keyed(|_| Ok(Request::Count)),
);

fn scan(arguments: Arguments<'_>) -> Result<Request<'_>, RequestError> {
    let cursor = cursor(arguments.get(1).unwrap_or_default()).ok_or(RequestError::InvalidCursor)?;
    let (mut pattern, mut count, mut type_name) = (None, SCAN_COUNT_DEFAULT, None);
    let mut rest = arguments.skip(2);
    // As in Redis, an option that is given twice counts as it was given last.
    while let Some(option) = rest.get(0) {
        let value = rest.get(1).ok_or(RequestError::Syntax)?;
        if option.eq_ignore_ascii_case(b"MATCH") {
            pattern = Some(check_pattern(value)?);
        } else if option.eq_ignore_ascii_case(b"COUNT") {
            count = match amount(value)? {
                ..1 => return Err(RequestError::Syntax),
                count => u32::try_from(count).unwrap_or(SCAN_COUNT_MAX).min(SCAN_COUNT_MAX),
            };
        } else if option.eq_ignore_ascii_case(b"TYPE") {
            type_name = Some(value);
        } else {
            return Err(RequestError::Syntax);
        }
        rest = rest.skip(2);
    }
    Ok(Request::Scan { cursor, pattern, count, type_name })
}

/// As the C library reads an unsigned number: nothing is 0, and a minus sign counts down from the top.
fn cursor(argument: &[u8]) -> Option<u64> {
    let (negative, digits) = match argument {
        [] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let magnitude = digits.iter().try_fold(0u64, |value, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })?;
    Some(if negative { magnitude.wrapping_neg() } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Redis 7.0.15 takes them.
    #[test]
    fn cursors() {
        for (sent, expected) in [
            ("0", Some(0)),
            ("", Some(0)),
            ("00", Some(0)),
            ("+1", Some(1)),
            ("-1", Some(u64::MAX)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            (" 1", None),
            ("1 ", None),
            ("1x", None),
            ("-", None),
        ] {
            assert_eq!(cursor(sent.as_bytes()), expected, "{sent:?}");
        }
    }
}
