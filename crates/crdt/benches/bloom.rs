//! What a forgetful filter costs: a check with an insert, beside one probe and one insert of `fastbloom` with
//! the same number of bits and hash functions. Elements come as hashes on both sides.

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use fastbloom::BloomFilter;
use quipu_crdt::bloom::{Bloom, ElementHash, Forgetful, Settings};
use quipu_crdt::testing::Random;
use std::hint::black_box;

/// So many that a processor does not learn by heart which of them are found.
const ELEMENTS: usize = 100_000;
const PERIOD_MS: u64 = 1_000;

/// Made for two periods of a hundred thousand elements: one error in a hundred, and one in a million.
const SIZES: [(u64, u8); 2] = [(1_920_000, 7), (5_760_000, 20)];

fn elements(seed: u64) -> Vec<ElementHash> {
    let mut random = Random::new(seed);
    (0..ELEMENTS).map(|_| ElementHash::of(&random.bits().to_le_bytes())).collect()
}

fn numbers(seed: u64) -> Vec<u64> {
    let mut random = Random::new(seed);
    (0..ELEMENTS).map(|_| random.bits()).collect()
}

/// In the steady state, at the beginning of a period.
fn forgetful(bits: u64, hashes: u8, past: usize) -> Forgetful {
    let settings = Settings { bits, hashes, past, period_ms: PERIOD_MS, window_ms: PERIOD_MS };
    let mut filter = Forgetful::new(settings, 0).expect("valid settings");
    for period in 0..past as u64 + 3 {
        elements(period).into_iter().for_each(|element| filter.record(element, period * PERIOD_MS));
    }
    filter.tick((past as u64 + 3) * PERIOD_MS);
    filter
}

/// With the elements of two periods, like a forgetful filter's oldest.
fn fastbloom(bits: u64, hashes: u8) -> BloomFilter {
    let bits = usize::try_from(bits).expect("small");
    let mut filter = BloomFilter::with_num_bits(bits).seed(&7).hashes(u32::from(hashes));
    for number in (0..2).flat_map(numbers) {
        filter.insert_hash(number);
    }
    filter
}

fn bloom(bits: u64, hashes: u8) -> Bloom {
    let mut filter = Bloom::new(bits, hashes).expect("a valid size");
    (0..2).flat_map(elements).for_each(|element| filter.insert(element));
    filter
}

fn compare(criterion: &mut Criterion) {
    let new = elements(u64::MAX);
    let new_numbers = numbers(u64::MAX);
    for (bits, hashes) in SIZES {
        let mut group = criterion.benchmark_group(format!("{ELEMENTS} elements, m {bits}, k {hashes}"));
        let filter = fastbloom(bits, hashes);
        group.bench_function("fastbloom contains", |bencher| {
            bencher.iter(|| new_numbers.iter().filter(|number| filter.contains_hash(**number)).count());
        });
        group.bench_function("fastbloom insert", |bencher| {
            let insert = |filter: &mut BloomFilter| {
                new_numbers.iter().filter(|number| filter.insert_hash(**number)).count()
            };
            bencher.iter_batched_ref(|| filter.clone(), insert, BatchSize::LargeInput);
        });
        let filter = bloom(bits, hashes);
        group.bench_function("Bloom contains", |bencher| {
            bencher.iter(|| new.iter().filter(|element| filter.contains(**element)).count());
        });
        group.bench_function("Bloom insert", |bencher| {
            let insert = |filter: &mut Bloom| new.iter().for_each(|element| filter.insert(*element));
            bencher.iter_batched_ref(|| filter.clone(), insert, BatchSize::LargeInput);
        });
        for past in [1, 6] {
            let filter = forgetful(bits, hashes, past);
            group.bench_function(BenchmarkId::new("Forgetful contains", past), |bencher| {
                bencher.iter(|| new.iter().filter(|element| filter.contains(**element)).count());
            });
            group.bench_function(BenchmarkId::new("Forgetful check and insert", past), |bencher| {
                let insert = |filter: &mut Forgetful| {
                    let now_ms = black_box(filter.latest_ms());
                    new.iter().filter(|element| filter.insert(**element, now_ms)).count()
                };
                bencher.iter_batched_ref(|| filter.clone(), insert, BatchSize::LargeInput);
            });
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(std::time::Duration::from_millis(500))
        .measurement_time(std::time::Duration::from_secs(2));
    targets = compare
}
criterion_main!(benches);
