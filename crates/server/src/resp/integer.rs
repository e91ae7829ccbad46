//! Decimal integers, read as strictly as Redis reads them and written without the formatting machinery.

/// Room for what is written: the digits of `i64::MIN` in pairs, and its sign.
pub(crate) const INTEGER_BYTES_MAX: usize = 21;

/// The pairs of digits from 00 to 99: two digits for one division.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut value = 0u8;
    while value < 100 {
        pairs[value as usize] = [b'0' + value / 10, b'0' + value % 10];
        value += 1;
    }
    pairs
};

/// Reads a decimal integer that fits in 64 bits. No spaces, no plus sign, no leading zeros, no minus zero: whatever
/// is taken here is written back as the same bytes.
#[inline]
pub fn parse(bytes: &[u8]) -> Option<i64> {
    /// Nineteen digits always fit in 64 bits without a sign.
    const DIGITS_MAX: usize = 19;
    let (negative, digits) = match bytes {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= DIGITS_MAX => {}
        _ => return None,
    }
    let mut magnitude = 0u64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        magnitude = magnitude * 10 + u64::from(digit - b'0');
    }
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// Appends `value` in decimal.
#[inline]
pub fn write(out: &mut Vec<u8>, value: i64) {
    let mut text = [0; INTEGER_BYTES_MAX];
    let at = write_before(&mut text, INTEGER_BYTES_MAX, value);
    out.extend_from_slice(&text[at..]);
}

/// Writes `value` so that it ends before `end`, and returns where it begins.
#[inline]
pub(crate) fn write_before<const LEN: usize>(text: &mut [u8; LEN], end: usize, value: i64) -> usize {
    let mut at = end;
    let mut magnitude = value.unsigned_abs();
    loop {
        at -= 2;
        text[at..at + 2].copy_from_slice(&PAIRS[(magnitude % 100) as usize]);
        if magnitude < 100 {
            break;
        }
        magnitude /= 100;
    }
    // The first pair may begin with a zero too many.
    at += usize::from(magnitude < 10);
    if value < 0 {
        at -= 1;
        text[at] = b'-';
    }
    at
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn is_as_strict_as_redis() {
        for refused in [
            "",
            "-",
            "+1",
            "01",
            "-0",
            "-01",
            " 1",
            "1 ",
            "1x",
            "x",
            "9223372036854775808",
            "-9223372036854775809",
        ] {
            assert_eq!(parse(refused.as_bytes()), None, "{refused:?}");
        }
        assert_eq!(parse(b"99999999999999999999999"), None);
        assert_eq!(parse(b"0"), Some(0));
        assert_eq!(parse(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(parse(b"-9223372036854775808"), Some(i64::MIN));
    }

    fn written(value: i64) -> String {
        let mut out = Vec::new();
        write(&mut out, value);
        String::from_utf8(out).expect("digits")
    }

    #[test]
    fn writes_the_edges() {
        for value in [0, 9, 10, 99, 100, 101, 999, 1000, -1, -10, -99, -100, i64::MAX, i64::MIN] {
            assert_eq!(written(value), value.to_string());
        }
    }

    proptest! {
        #[test]
        fn reads_what_it_writes(value: i64, shift in 0u32..64) {
            let value = value >> shift;
            prop_assert_eq!(written(value), value.to_string());
            prop_assert_eq!(parse(written(value).as_bytes()), Some(value));
        }

        #[test]
        fn takes_only_what_it_would_write(text in "[-+]?[0-9]{0,20}") {
            let expected = text.parse::<i64>().ok().filter(|value| value.to_string() == text);
            prop_assert_eq!(parse(text.as_bytes()), expected);
        }
    }
}
