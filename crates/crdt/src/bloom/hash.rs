//! Elements as filters see them: 128 bits, from which the positions in every filter follow.

use xxhash_rust::xxh3::xxh3_128;

/// How far a position's bits are turned before the next is made of them.
const TURN_BITS: u32 = 23;

/// An odd number without pattern: the fractional part of the square root of 3, in 64 bits.
const SPREAD: u64 = 0xbb67_ae85_84ca_a73b;

/// An element's hash, computed once and used for all filters of whatever size.
///
/// ```
/// use quipu_crdt::bloom::ElementHash;
/// let operation = ElementHash::of(b"key producer 17");
/// assert_eq!(operation, ElementHash::of(b"key producer 17"));
/// assert_ne!(operation, ElementHash::of(b"key producer 18"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, minicbor::Encode, minicbor::Decode)]
pub struct ElementHash {
    /// Where the positions begin.
    #[n(0)]
    start: u64,
    /// What tells them apart from those of another element with the same start.
    #[n(1)]
    step: u64,
}

impl ElementHash {
    /// XXH3 in 128 bits of these bytes.
    pub fn of(element: &[u8]) -> Self {
        ElementHash::from(xxh3_128(element))
    }

    /// The element's bits in a filter of `bits` bits and `hashes` hash functions. Part of the stored format.
    ///
    /// With the low half of the hash as g₀ and the high half as h, gᵢ₊₁ = (rotate(gᵢ, 23) ⊕ h) · [`SPREAD`],
    /// and position i is ⌊gᵢ · bits / 2⁶⁴⌋. Plain double hashing (gᵢ = g₀ + i·h) would put an element whose
    /// two halves are both near another's at all of its positions, and for small filters that happens more
    /// often than one asks for.
    ///
    /// Scaling instead of a remainder makes sizes nest: in a filter of twice the size, every position of the
    /// smaller one is split into two neighbours. The [model](super::model) of filters that grow rests on it.
    pub(super) fn positions(self, bits: u64, hashes: u8) -> impl Iterator<Item = u64> {
        let mut state = self.start;
        (0..hashes).map(move |_| {
            let position = scale(state, bits);
            state = (state.rotate_left(TURN_BITS) ^ self.step).wrapping_mul(SPREAD);
            position
        })
    }
}

/// ⌊fraction · end / 2⁶⁴⌋
fn scale(fraction: u64, end: u64) -> u64 {
    let scaled = (u128::from(fraction) * u128::from(end)) >> 64;
    u64::try_from(scaled).expect("less than end")
}

/// A hash made elsewhere. All its bits must be equally random: a number that counts up is not a hash.
impl From<u128> for ElementHash {
    fn from(hash: u128) -> Self {
        let half = |bits: u128| u64::try_from(bits & u128::from(u64::MAX)).expect("64 bits");
        ElementHash { start: half(hash), step: half(hash >> 64) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_fixed() {
        assert_eq!(xxh3_128(b""), 0x99aa_06d3_0147_98d8_6001_c324_468d_497f, "XXH3's own test vector");
        let positions = |bits| ElementHash::of(b"").positions(bits, 6).collect::<Vec<_>>();
        assert_eq!(positions(1_000), [375, 190, 479, 116, 195, 969]);
        assert_eq!(positions(1 << 24), [6_291_907, 3_189_798, 8_041_819, 1_958_000, 3_278_985, 16_264_324]);
    }

    #[test]
    fn positions_in_twice_the_size_are_halves_of_those_before() {
        for number in 0u32..1_000 {
            let element = ElementHash::of(&number.to_le_bytes());
            let small = element.positions(6_250, 32);
            let large = element.positions(12_500, 32);
            assert!(small.zip(large).all(|(small, large)| small < 6_250 && large / 2 == small));
        }
    }
}
