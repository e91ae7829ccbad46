//! How often filters err: the probability that an element which was never inserted is found.
//!
//! Hash functions are taken for uniform. The paper's equation 3 also takes neighbouring filters for
//! independent, which they are not: every element is put into two of them, so they share a whole period. After
//! a burst in one period two neighbours are even equal, and equation 3 then squares the probability where
//! nothing is gained by asking twice. [`corrected`] takes the sharing into account; [`equation_3`] is kept
//! to compare.

use super::{BITS_MAX, HASHES_MAX};

/// What the model needs to know of one filter of a forgetful filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// m: its size.
    pub bits: u64,
    /// Elements inserted in the first of its two periods, while it was the future filter. In its second,
    /// while it was the present filter, it got the same elements as the next newer filter in its first.
    pub elements: u64,
}

/// The share of bits that this many elements set: 1 − e^(−k·l/m).
pub fn fill(elements: u64, bits: u64, hashes: u8) -> f64 {
    filled(elements as f64 * f64::from(hashes) / bits as f64)
}

/// The probability that at least one falls where `expected` fall on average.
fn filled(expected: f64) -> f64 {
    -(-expected).exp_m1()
}

/// The probability p that one filter errs: (1 − e^(−k·l/m))^k.
///
/// (Of the paper's equation 1 this is the right half; the left half is misprinted.)
pub fn single(elements: u64, bits: u64, hashes: u8) -> f64 {
    fill(elements, bits, hashes).powi(i32::from(hashes))
}

/// A size of filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// m: bits.
    pub bits: u64,
    /// k: hash functions.
    pub hashes: u8,
}

/// The smallest filter that errs on at most a share of `target` with this many elements in it; `None` if no
/// filter is large enough.
///
/// For a forgetful filter take twice the elements of one period, because its filters span two, and half the
/// target: the oldest filter, which is asked alone, makes most of the errors.
pub fn size_for(elements: u64, target: f64) -> Option<Size> {
    // Half of the bits set is the best use of them; then every hash function halves the probability.
    let hashes = (1..=HASHES_MAX).find(|&hashes| 0.5f64.powi(i32::from(hashes)) <= target)?;
    let enough = |bits| single(elements, bits, hashes) <= target;
    let (mut low, mut high) = (1, BITS_MAX);
    while low < high {
        let middle = u64::midpoint(low, high);
        if enough(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    enough(low).then_some(Size { bits: low, hashes })
}

/// The probability that a forgetful filter errs by the paper's equation 3. Its filters newest first.
pub fn equation_3(loads: &[Load], hashes: u8) -> f64 {
    let Some(oldest) = loads.len().checked_sub(1) else { return 0.0 };
    let alone = |index| alone(loads, index, hashes);
    let pairs = (1..oldest).map(|newer| alone(newer) * alone(newer + 1));
    any([alone(0), alone(oldest)].into_iter().chain(pairs))
}

/// The probability that a forgetful filter errs, with what neighbours share. Its filters newest first.
///
/// The oldest filter is asked alone, so its pair with the next newer one finds nothing more and is not
/// counted. (Equation 3 counts it.)
pub fn corrected(loads: &[Load], hashes: u8) -> f64 {
    let Some(oldest) = loads.len().checked_sub(1) else { return 0.0 };
    let pairs = (1..oldest.saturating_sub(1)).map(|newer| pair(loads, newer, hashes));
    any([alone(loads, 0, hashes), alone(loads, oldest, hashes)].into_iter().chain(pairs))
}

/// The probability that this filter errs when it is asked alone.
fn alone(loads: &[Load], index: usize, hashes: u8) -> f64 {
    let elements = loads[index].elements.saturating_add(second_period(loads, index));
    single(elements, loads[index].bits, hashes)
}

/// The probability that filter `newer` and the next older one both err on the same element.
///
/// For one hash function, with two filters of the same size: the shared elements set the bit in both (c), or
/// else each filter's own elements set it (a, b): c + (1 − c)·a·b; and so for all k of them.
///
/// Where one filter has 2ʲ times the bits of the other, its bits are parts of the other's. A shared element
/// in the small part sets the bit in both (c). If there is none, the finer filter needs one of its own there
/// (a); the coarser one of its own (b) or a shared one in the rest of the coarse part (r):
/// c + (1 − c)·a·(b + (1 − b)·r). With equal sizes r is 0.
fn pair(loads: &[Load], newer: usize, hashes: u8) -> f64 {
    let shared = loads[newer].elements as f64 * f64::from(hashes);
    let own_newer = Load { bits: loads[newer].bits, elements: second_period(loads, newer) };
    let own_older = loads[newer + 1];
    let (fine, coarse) =
        if own_newer.bits >= own_older.bits { (own_newer, own_older) } else { (own_older, own_newer) };
    let small_part = 1.0 / fine.bits as f64;
    let rest = 1.0 / coarse.bits as f64 - small_part;

    let c = filled(shared * small_part);
    let a = fill(fine.elements, fine.bits, hashes);
    let b = fill(coarse.elements, coarse.bits, hashes);
    let r = filled(shared * rest);
    (c + (1.0 - c) * a * (b + (1.0 - b) * r)).powi(i32::from(hashes))
}

/// How many elements a filter got while it was the present one.
fn second_period(loads: &[Load], index: usize) -> u64 {
    index.checked_sub(1).map_or(0, |newer| loads[newer].elements)
}

/// The probability that any of these happens, if they are independent.
fn any(probabilities: impl Iterator<Item = f64>) -> f64 {
    // Not 1 − Π(1 − p), which rounds small probabilities away.
    probabilities.fold(0.0, |any, next| any + (1.0 - any) * next)
}
