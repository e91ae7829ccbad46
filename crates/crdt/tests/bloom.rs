//! Sizes that cannot be, the stored form, and resizing.

use proptest::collection::vec;
use proptest::prelude::*;
use quipu_crdt::bloom::model::{self, Load};
use quipu_crdt::bloom::{
    Adaptive, BITS_MAX, Bloom, ElementHash, FILTERS_MAX, Forgetful, HASHES_MAX, Limits, LimitsError,
    PAST_MAX, Settings, SettingsError, SizeError, Step,
};
use quipu_crdt::codec::{self, DecodeError};
use quipu_crdt::testing::Random;

fn hash(element: u64) -> ElementHash {
    ElementHash::of(&element.to_le_bytes())
}

const SETTINGS: Settings = Settings { bits: 1_000, hashes: 5, past: 2, period_ms: 10, window_ms: 30 };

#[test]
fn sizes_that_cannot_be_are_refused() {
    assert_eq!(Bloom::new(0, 5), Err(SizeError::Bits { bits: 0 }));
    assert_eq!(Bloom::new(BITS_MAX + 1, 5), Err(SizeError::Bits { bits: BITS_MAX + 1 }));
    assert_eq!(Bloom::new(u64::MAX, 5), Err(SizeError::Bits { bits: u64::MAX }));
    assert_eq!(Bloom::new(100, 0), Err(SizeError::Hashes { hashes: 0 }));
    assert_eq!(Bloom::new(100, HASHES_MAX + 1), Err(SizeError::Hashes { hashes: HASHES_MAX + 1 }));
    assert!(Bloom::new(1, 1).is_ok() && Bloom::new(BITS_MAX, HASHES_MAX).is_ok());
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let refused = |settings| Forgetful::new(settings, 0).expect_err("refused");
    assert_eq!(refused(Settings { bits: 0, ..SETTINGS }), SizeError::Bits { bits: 0 }.into());
    assert_eq!(refused(Settings { hashes: 0, ..SETTINGS }), SizeError::Hashes { hashes: 0 }.into());
    assert_eq!(refused(Settings { past: 0, ..SETTINGS }), SettingsError::Past { past: 0 });
    assert_eq!(
        refused(Settings { past: PAST_MAX + 1, ..SETTINGS }),
        SettingsError::Past { past: PAST_MAX + 1 }
    );
    assert_eq!(refused(Settings { period_ms: 0, ..SETTINGS }), SettingsError::PeriodZero);
    assert_eq!(
        refused(Settings { window_ms: 9, ..SETTINGS }),
        SettingsError::WindowShort { window_ms: 9, period_ms: 10 }
    );
    assert_eq!(
        refused(Settings { window_ms: 31, ..SETTINGS }),
        SettingsError::WindowNotCovered { past: 2, period_ms: 10, window_ms: 31 }
    );
    let longest = Settings { period_ms: u64::MAX, window_ms: u64::MAX, ..SETTINGS };
    assert!(Forgetful::new(longest, u64::MAX).is_ok());
}

#[test]
fn a_shape_that_cannot_be_changes_nothing() {
    let filter = Forgetful::new(SETTINGS, 0).expect("valid settings");
    for (past, period_ms, doublings) in
        [(0, 10, 0), (29, 10, 0), (2, 0, 0), (2, 9, 0), (2, 31, 0), (2, 10, 15)]
    {
        let mut changed = filter.clone();
        assert!(changed.reshape(past, period_ms, doublings).is_err());
        assert_eq!(changed, filter);
    }
    let mut grown = filter.clone();
    assert!(grown.reshape(2, 10, u32::MAX).is_err());
    grown.reshape(2, 10, 14).expect("1,000 bits doubled 14 times are fewer than 2²⁴");
    grown.tick(10);
    assert_eq!(grown.filters().next().map(Bloom::bits), Some(1_000 << 14));
}

#[test]
fn what_is_in_one_of_the_filters_is_found_by_the_simple_test() {
    let mut filter = Forgetful::new(SETTINGS, 0).expect("valid settings");
    assert!(!filter.contains_simple(hash(1)));
    filter.insert(hash(1), 0);
    assert!(filter.contains_simple(hash(1)) && !filter.contains_simple(hash(2)));
}

#[test]
fn it_remembers_since_its_oldest_filter_was_made() {
    let mut filter = Forgetful::new(SETTINGS, 5).expect("valid settings");
    assert_eq!(filter.remembers_since_ms(), 5);
    filter.tick(100);
    assert_eq!(filter.filters().len(), 4);
    assert_eq!(filter.remembers_since_ms(), 65, "made at 95, 85, 75 and 65");
}

#[test]
fn the_stored_form_is_fixed() {
    let mut bloom = Bloom::new(20, 3).expect("a valid size");
    bloom.insert(ElementHash::of(b""));
    let bytes = [codec::FORMAT, 0x83, 20, 3, 0x43, 0x88, 0x02, 0x00];
    assert_eq!(codec::encode(&bloom), bytes, "positions 7, 3 and 9");
    assert_eq!(codec::decode::<Bloom>(&bytes).expect("as written"), bloom);
    assert_eq!(bloom.ones(), 3);
    bloom.clear();
    assert_eq!(bloom, Bloom::new(20, 3).expect("a valid size"));
}

#[test]
fn the_largest_filter_can_be_decoded() {
    let bytes = u64::try_from(FILTERS_MAX).expect("small") * (BITS_MAX / 8 + 64);
    assert!(bytes < u64::try_from(codec::INPUT_BYTES_MAX).expect("small"));
}

#[test]
fn a_bloom_filter_that_breaks_its_rules_is_refused() {
    let refused = |body: &[u8]| {
        let bytes = [&[codec::FORMAT], body].concat();
        assert!(matches!(codec::decode::<Bloom>(&bytes), Err(DecodeError::Invalid(_))), "{body:x?}");
    };
    refused(&[0x83, 20, 3, 0x43, 0x88, 0x02, 0x10]); // Bit 20 of 20.
    refused(&[0x83, 20, 3, 0x42, 0x88, 0x02]); // Too few bytes.
    refused(&[0x83, 20, 3, 0x44, 0x88, 0x02, 0, 0]); // Too many.
    refused(&[0x83, 0, 3, 0x40]); // No bits.
    refused(&[0x83, 20, 0, 0x43, 0, 0, 0]); // No hash functions.
    refused(&[0x83, 20, 0x18, 33, 0x43, 0, 0, 0]); // Too many.
    refused(&[0x83, 0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 3, 0x40]); // 2⁶⁴ − 1 bits.
    refused(&[0x83, 0x1a, 1, 0, 0, 0, 3, 0x5a, 0, 0x20, 0, 0]); // 2²⁴ bits that are not there.
    refused(&[0x83, 20, 3, 0x5b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
}

/// A filter with something in every part.
fn used(past: usize, doublings: u32, elements: &[u64]) -> Forgetful {
    let settings = Settings { bits: 100, past, period_ms: 30, ..SETTINGS };
    let mut filter = Forgetful::new(settings, 1_000).expect("valid settings");
    for (index, element) in elements.iter().enumerate() {
        if index == elements.len() / 2 {
            filter.reshape(past, 15, doublings).expect("within the limits");
        }
        filter.record(hash(*element), 1_000 + 7 * index as u64);
    }
    filter
}

proptest! {
    #[test]
    fn bloom_filters_survive_the_codec(bits in 1..300u64, hashes in 1..=HASHES_MAX, elements in vec(any::<u64>(), 0..20)) {
        let mut bloom = Bloom::new(bits, hashes).expect("a valid size");
        elements.iter().for_each(|element| bloom.insert(hash(*element)));
        prop_assert_eq!(codec::decode::<Bloom>(&codec::encode(&bloom)).expect("as written"), bloom);
    }

    #[test]
    fn forgetful_filters_survive_the_codec(past in 1..5usize, doublings in 0..3u32, elements in vec(any::<u64>(), 0..40)) {
        let filter = used(past, doublings, &elements);
        prop_assert_eq!(codec::decode::<Forgetful>(&codec::encode(&filter)).expect("as written"), filter);
    }

    #[test]
    fn element_hashes_survive_the_codec(bits: u128) {
        let element = ElementHash::from(bits);
        prop_assert_eq!(codec::decode::<ElementHash>(&codec::encode(&element)).expect("as written"), element);
    }

    /// What is decoded of damaged bytes is a filter that works and can be stored again.
    #[test]
    fn damaged_bytes_do_no_harm(past in 1..5usize, seed: u64) {
        let mut bytes = codec::encode(&used(past, 1, &(0..30).collect::<Vec<_>>()));
        for end in 0..bytes.len() {
            prop_assert!(codec::decode::<Forgetful>(&bytes[..end]).is_err());
        }
        let mut random = Random::new(seed);
        for _ in 0..20 {
            let byte = random.below(bytes.len().min(200));
            let before = bytes[byte];
            bytes[byte] = random.bits().to_le_bytes()[0];
            if let Ok(mut filter) = codec::decode::<Forgetful>(&bytes) {
                let now_ms = filter.latest_ms().saturating_add(random.bits() % 100);
                filter.insert(hash(seed), now_ms);
                prop_assert!(filter.contains(hash(seed)));
                prop_assert!(filter.estimate().is_finite());
                prop_assert!(codec::decode::<Forgetful>(&codec::encode(&filter)).is_ok());
            } else {
                bytes[byte] = before;
            }
        }
    }
}

#[test]
fn a_forgetful_filter_that_breaks_its_rules_is_refused() {
    let bloom = |bits, hashes| codec::encode(&Bloom::new(bits, hashes).expect("a valid size"))[1..].to_vec();
    let part = |created: u8, bloom: &[u8]| [&[0x83, created, 0], bloom].concat();
    // 20 bits, 3 hash functions, 1 past filter, period 5, window 10; then doublings and latest time.
    let decoded = |doublings: u8, latest: u8, parts: &[Vec<u8>]| {
        let length = 0x80 + u8::try_from(parts.len()).expect("short");
        let head = [codec::FORMAT, 0x84, 0x85, 20, 3, 1, 5, 10, doublings, latest, length];
        codec::decode::<Forgetful>(&[&head[..], &parts.concat()].concat())
    };
    let right = [part(9, &bloom(40, 3)), part(5, &bloom(20, 3)), part(0, &bloom(20, 3))];
    assert!(decoded(1, 9, &right).is_ok());
    assert!(decoded(20, 9, &right).is_err(), "larger than filters may be");
    assert!(decoded(1, 8, &right).is_err(), "made in the future");
    assert!(decoded(1, 9, &right[..2]).is_err(), "no past");
    let [newest, middle, oldest] = right;
    assert!(decoded(1, 9, &[middle.clone(), newest.clone(), oldest.clone()]).is_err(), "out of order");
    assert!(decoded(1, 9, &[part(9, &bloom(60, 3)), middle.clone(), oldest.clone()]).is_err(), "no doubling");
    assert!(decoded(1, 9, &[part(9, &bloom(10, 3)), middle.clone(), oldest.clone()]).is_err(), "too small");
    assert!(decoded(1, 9, &[part(9, &bloom(20, 4)), middle, oldest]).is_err(), "other hash functions");
}

#[test]
fn too_many_filters_are_refused_before_they_are_read() {
    let settings = Settings { bits: 8, hashes: 1, past: PAST_MAX, period_ms: 1, window_ms: 1 };
    let mut filter = Forgetful::new(settings, 0).expect("valid settings");
    filter.tick(100);
    let bytes = codec::encode(&filter);
    assert!(codec::decode::<Forgetful>(&bytes).is_ok());
    assert_eq!(filter.filters().len(), FILTERS_MAX);
    let array = bytes.windows(2).position(|pair| pair == [0x98, 30]).expect("an array of 30");
    let last = bytes[bytes.len() - 8..].to_vec();
    for claimed in [vec![0x98, 31], vec![0x9b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], vec![0x9f]] {
        let hostile = [&bytes[..array], &claimed, &bytes[array + 2..], &last.repeat(1_000)].concat();
        let refused = codec::decode::<Forgetful>(&hostile).expect_err("refused").to_string();
        assert!(refused.contains("too many filters"), "{refused}");
    }
}

const LIMITS: Limits = Limits {
    target: 0.01,
    past_min: 1,
    past_max: 22,
    period_ms_min: 2_000,
    period_ms_max: 20_000,
    period_ms_step: 1_000,
    bits_max: 0,
};

#[test]
fn limits_that_make_no_sense_are_refused() {
    let refused = |limits| Adaptive::new(limits).expect_err("refused");
    for target in [0.0, 1.0, -1.0] {
        assert_eq!(refused(Limits { target, ..LIMITS }), LimitsError::Target { target });
    }
    assert!(Adaptive::new(Limits { target: f64::NAN, ..LIMITS }).is_err());
    assert_eq!(refused(Limits { past_min: 0, ..LIMITS }), LimitsError::Past { min: 0, max: 22 });
    assert_eq!(refused(Limits { past_min: 23, ..LIMITS }), LimitsError::Past { min: 23, max: 22 });
    assert_eq!(refused(Limits { past_max: 29, ..LIMITS }), LimitsError::Past { min: 1, max: 29 });
    assert!(Adaptive::new(Limits { period_ms_min: 0, ..LIMITS }).is_err());
    assert!(Adaptive::new(Limits { period_ms_min: 20_001, ..LIMITS }).is_err());
    assert!(Adaptive::new(Limits { period_ms_step: 0, ..LIMITS }).is_err());
    assert_eq!(
        refused(Limits { bits_max: BITS_MAX + 1, ..LIMITS }),
        LimitsError::Bits { bits: BITS_MAX + 1 }
    );
}

/// A filter under a policy, reviewed every second.
struct Run {
    filter: Forgetful,
    policy: Adaptive,
    second: u64,
    next: u64,
}

impl Run {
    fn new(limits: Limits) -> Self {
        let settings = Settings { bits: 6_250, hashes: 5, past: 1, period_ms: 11_000, window_ms: 20_000 };
        Run {
            filter: Forgetful::new(settings, 0).expect("valid settings"),
            policy: Adaptive::new(limits).expect("valid limits"),
            second: 0,
            next: 0,
        }
    }

    /// A second with so many operations, then a review.
    fn second(&mut self, operations: u64) -> Step {
        for _ in 0..operations {
            self.filter.record(hash(self.next), self.second * 1_000);
            self.next += 1;
        }
        self.second += 1;
        self.filter.tick(self.second * 1_000);
        self.policy.review(&mut self.filter)
    }

    fn shape(&self) -> (usize, u64) {
        (self.filter.settings().past + 2, self.filter.settings().period_ms)
    }
}

#[test]
fn scales_up_by_doubling_and_down_by_one() {
    let mut run = Run::new(LIMITS);
    assert_eq!(run.second(700), Step::Up);
    assert_eq!(run.shape(), (6, 10_000), "from 3 to 6 filters, 1 s less");
    assert_eq!(run.second(0), Step::Stay, "the filters are not there yet");
    let steps: Vec<Step> = (0..80).map(|_| run.second(0)).collect();
    let first_down = steps.iter().position(|step| *step == Step::Down).expect("the load is gone");
    assert!(!steps[first_down..].contains(&Step::Up));
    assert_eq!(run.shape(), (3, 20_000), "as few and as long as allowed");
    assert_eq!(run.second(0), Step::Stay);
}

/// Steps up as long as the load asks for it, at every step doubling until the limit.
#[test]
fn a_load_too_high_exhausts_the_limits() {
    let mut run = Run::new(LIMITS);
    let mut shapes = vec![run.shape()];
    let mut exhausted = false;
    for _ in 0..600 {
        exhausted |= run.second(1_000) == Step::Exhausted;
        if shapes.last() != Some(&run.shape()) {
            shapes.push(run.shape());
        }
    }
    assert_eq!(shapes[..5], [(3, 11_000), (6, 10_000), (12, 9_000), (24, 8_000), (24, 7_000)]);
    assert_eq!(shapes.last(), Some(&(24, 2_000)));
    assert!(exhausted);
    assert!(run.filter.estimate() > LIMITS.target);
}

/// With few filters the window is what ends the shortening of the period.
#[test]
fn the_period_is_never_too_short_for_the_window() {
    let mut run = Run::new(Limits { past_max: 2, ..LIMITS });
    for _ in 0..100 {
        run.second(1_000);
    }
    assert_eq!(run.shape(), (4, 6_667), "3 periods of 6,667 ms for a window of 20 s");
}

#[test]
fn filters_to_come_are_just_large_enough_for_half_the_target() {
    for operations in (100..4_000).step_by(100) {
        let limits = Limits { bits_max: BITS_MAX, target: 1e-3, ..LIMITS };
        let mut run = Run::new(limits);
        let Settings { bits, hashes, past, .. } = *run.filter.settings();
        run.second(operations);
        let errs = |doublings: &u32| {
            let load = Load { bits: bits << doublings, elements: operations };
            model::corrected(&vec![load; past + 2], hashes)
        };
        let enough = (0..).find(|doublings| errs(doublings) <= limits.target / 2.0);
        assert_eq!(Some(run.filter.doublings()), enough, "for {operations} operations");
    }
}

#[test]
fn filters_do_not_grow_beyond_the_limit() {
    let mut run = Run::new(Limits { bits_max: 4 * 6_250, target: 1e-3, ..LIMITS });
    run.second(20_000);
    assert_eq!(run.filter.doublings(), 2);
}

/// The same load, with larger filters allowed.
#[test]
fn larger_filters_meet_the_target() {
    let mut run = Run::new(Limits { bits_max: BITS_MAX, target: 1e-3, ..LIMITS });
    for _ in 0..120 {
        run.second(1_000);
    }
    assert!(run.filter.estimate() <= 1e-3, "{}", run.filter.estimate());
    let errors = (0..20_000).filter(|number| run.filter.contains(hash(u64::MAX - number))).count();
    assert!(errors <= 40, "{errors} errors among 20,000");
    assert!(run.filter.doublings() > 0);
    for _ in 0..120 {
        run.second(1);
    }
    assert_eq!(run.filter.doublings(), 0, "and smaller again when it is quiet");
    assert_eq!(run.filter.filters().map(Bloom::bits).max(), Some(6_250));
}

proptest! {
    /// Whatever the load: what is younger than the window is found, and the limits hold.
    #[test]
    fn resizing_never_forgets_the_window(
        loads in vec(prop_oneof![Just(0u64), 0..50u64, 300..900u64], 1..80),
        bits_max in prop_oneof![Just(0u64), Just(BITS_MAX)],
    ) {
        let mut run = Run::new(Limits { bits_max, ..LIMITS });
        let mut firsts = Vec::new();
        for load in loads {
            firsts.push((run.next, run.second));
            run.second(load);
            let Settings { past, period_ms, window_ms, .. } = *run.filter.settings();
            prop_assert!(run.filter.settings().interval_ms() >= window_ms);
            prop_assert!((1..=22).contains(&past) && (2_000..=20_000).contains(&period_ms));
            prop_assert!(run.filter.filters().len() <= 24);
            let oldest = firsts.partition_point(|(_, second)| (run.second - second) * 1_000 > window_ms);
            for element in firsts.get(oldest).map_or(0, |(first, _)| *first)..run.next {
                prop_assert!(run.filter.contains(hash(element)));
            }
        }
    }
}
