//! The hash slots of Redis Cluster: CRC-16 of the key, or of the part of it in braces, modulo 16,384.

/// How many slots there are.
pub const SLOTS: u16 = 16_384;

/// Bytes that are looked up side by side. A step of the plain algorithm waits for the step before it; this one waits
/// once for eight bytes.
const STRIDE: usize = 8;

/// `TABLES[zeros][byte]` is the checksum of `byte` followed by so many zero bytes.
const TABLES: [[u16; 256]; STRIDE] = {
    let mut tables = [[0u16; 256]; STRIDE];
    let mut byte = 0u16;
    while byte < 256 {
        let mut crc = byte << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { crc << 1 ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        tables[0][byte as usize] = crc;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < STRIDE {
        let mut byte = 0;
        while byte < 256 {
            let crc = tables[zeros - 1][byte];
            tables[zeros][byte] = crc << 8 ^ tables[0][(crc >> 8) as usize];
            byte += 1;
        }
        zeros += 1;
    }
    tables
};

/// CRC-16 with polynomial 0x1021 and no start value (known as XMODEM).
#[inline]
pub fn crc16(bytes: &[u8]) -> u16 {
    let (strides, rest) = bytes.as_chunks::<STRIDE>();
    let mut crc = 0u16;
    for stride in strides {
        let [high, low] = crc.to_be_bytes();
        crc = TABLES[7][usize::from(stride[0] ^ high)]
            ^ TABLES[6][usize::from(stride[1] ^ low)]
            ^ TABLES[5][usize::from(stride[2])]
            ^ TABLES[4][usize::from(stride[3])]
            ^ TABLES[3][usize::from(stride[4])]
            ^ TABLES[2][usize::from(stride[5])]
            ^ TABLES[1][usize::from(stride[6])]
            ^ TABLES[0][usize::from(stride[7])];
    }
    for byte in rest {
        let [high, _] = crc.to_be_bytes();
        crc = crc << 8 ^ TABLES[0][usize::from(high ^ byte)];
    }
    crc
}

/// The part of a key that decides its slot: what stands between the first `{` and the next `}`, unless that is
/// nothing; otherwise all of it. Keys with the same tag share a slot.
#[inline]
pub fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    let inside = &key[open + 1..];
    match inside.iter().position(|byte| *byte == b'}') {
        None | Some(0) => key,
        Some(close) => &inside[..close],
    }
}

/// The slot of a key, below [`SLOTS`].
#[inline]
pub fn of(key: &[u8]) -> u16 {
    crc16(tag(key)) % SLOTS
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, bit by bit.
    fn plain_crc16(bytes: &[u8]) -> u16 {
        bytes.iter().fold(0u16, |crc, byte| {
            (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
            })
        })
    }

    /// As `CLUSTER KEYSLOT` gives them.
    #[test]
    fn known_values() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(crc16(b""), 0);
        assert_eq!(of(b"foo"), 12_182);
        assert_eq!(of(b"bar"), 5_061);
        assert_eq!(of(b"hello"), 866);
        assert_eq!(of(b"somekey"), 11_058);
        assert_eq!(of(b"foo{hash_tag}"), 2_515);
        assert_eq!(of(b"bar{hash_tag}"), 2_515);
    }

    #[test]
    fn tags() {
        for (key, expected) in [
            ("{user}.a", "user"),
            ("a{user}b{x}", "user"),
            ("a{}b{x}", "a{}b{x}"),
            ("a{b", "a{b"),
            ("a}b{c}", "c"),
            ("a{{b}}", "{b"),
            ("", ""),
        ] {
            assert_eq!(tag(key.as_bytes()), expected.as_bytes(), "{key}");
        }
    }

    proptest! {
        #[test]
        fn is_the_definition(bytes: Vec<u8>) {
            prop_assert_eq!(crc16(&bytes), plain_crc16(&bytes));
        }
    }
}
