//! What a forgetful filter remembers and what it forgets, against a plain list of elements and times; and
//! that the same check catches filters which do it wrongly.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use quipu_crdt::bloom::{ElementHash, FILTERS_MAX, Forgetful, PAST_MAX, Settings};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Debug, Clone)]
enum Action {
    Insert(u32),
    Tick,
    /// Tells a time that lies back.
    TickBack(u64),
    ScaleUp,
}

#[derive(Debug, Clone)]
struct Event {
    wait_ms: u64,
    action: Action,
}

#[derive(Debug, Clone)]
struct Schedule {
    past: usize,
    period_ms: u64,
    events: Vec<Event>,
}

impl Schedule {
    fn interval_ms(&self) -> u64 {
        (self.past as u64 + 1) * self.period_ms
    }
}

fn schedules(with_scale_up: bool) -> impl Strategy<Value = Schedule> {
    let scale_up = if with_scale_up { 1 } else { 0 };
    let past = prop_oneof![4 => 1..=5usize, 1 => 6..=PAST_MAX];
    (past, 1..=20u64).prop_flat_map(move |(past, period_ms)| {
        let wait_ms = prop_oneof![
            4 => 0..=period_ms,
            2 => 0..=period_ms * 3,
            1 => 0..=period_ms * (past as u64 + 4),
            1 => Just(period_ms),
        ];
        let action = prop_oneof![
            8 => (0..40u32).prop_map(Action::Insert),
            3 => Just(Action::Tick),
            1 => (0..100u64).prop_map(Action::TickBack),
            scale_up => Just(Action::ScaleUp),
        ];
        let event = (wait_ms, action).prop_map(|(wait_ms, action)| Event { wait_ms, action });
        vec(event, 1..40).prop_map(move |events| Schedule { past, period_ms, events })
    })
}

/// What the check needs of a filter.
trait Remembers {
    fn new(past: usize, period_ms: u64) -> Self;
    fn insert(&mut self, element: u32, now_ms: u64) -> bool;
    fn tick(&mut self, now_ms: u64);
    fn contains(&self, element: u32) -> bool;
    /// To 2·(N + 2) filters at the same period.
    fn scale_up(&mut self);
}

fn hash(element: u32) -> ElementHash {
    ElementHash::of(&element.to_le_bytes())
}

impl Remembers for Forgetful {
    fn new(past: usize, period_ms: u64) -> Self {
        let window_ms = (past as u64 + 1) * period_ms;
        let settings = Settings { bits: 1 << 14, hashes: 8, past, period_ms, window_ms };
        Forgetful::new(settings, 0).expect("valid settings")
    }

    fn insert(&mut self, element: u32, now_ms: u64) -> bool {
        Forgetful::insert(self, hash(element), now_ms)
    }

    fn tick(&mut self, now_ms: u64) {
        Forgetful::tick(self, now_ms);
    }

    fn contains(&self, element: u32) -> bool {
        let found = Forgetful::contains(self, hash(element));
        assert!(!found || self.contains_simple(hash(element)), "optimised finds no more than simple");
        assert_eq!(found, as_the_text_says(self, hash(element)));
        found
    }

    fn scale_up(&mut self) {
        let Settings { past, period_ms, .. } = *self.settings();
        self.reshape((2 * past + 2).min(PAST_MAX), period_ms, 0).expect("within the limits");
    }
}

/// The membership check in the order of the paper's text.
fn as_the_text_says(filter: &Forgetful, element: ElementHash) -> bool {
    let has: Vec<bool> = filter.filters().map(|bloom| bloom.contains(element)).collect();
    has[0] || has[1..].windows(2).any(|pair| pair[0] && pair[1]) || has[has.len() - 1]
}

/// Everything younger than (N + 1)·t is found, nothing older than (N + 2)·t is; N only grows.
fn check<F: Remembers>(schedule: &Schedule) -> Result<(), String> {
    let mut filter = F::new(schedule.past, schedule.period_ms);
    let mut inserted: BTreeMap<u32, u64> = BTreeMap::new();
    let mut now_ms = 0;
    let mut forget_ms = Some(schedule.interval_ms() + schedule.period_ms);
    for event in &schedule.events {
        now_ms += event.wait_ms;
        match event.action {
            Action::Insert(element) => {
                if filter.insert(element, now_ms) {
                    let before = inserted.insert(element, now_ms);
                    if before.is_some_and(|before_ms| now_ms - before_ms <= schedule.interval_ms()) {
                        return Err(format!("{element} counted again at {now_ms}"));
                    }
                }
            }
            Action::Tick => filter.tick(now_ms),
            Action::TickBack(by_ms) => filter.tick(now_ms.saturating_sub(by_ms)),
            Action::ScaleUp => {
                filter.scale_up();
                forget_ms = None;
            }
        }
        all_young_found(&filter, &inserted, now_ms, schedule.interval_ms())?;
        if let (Action::Tick, Some(forget_ms)) = (&event.action, forget_ms) {
            let old = inserted.iter().filter(|(_, at_ms)| now_ms - **at_ms >= forget_ms);
            for (element, at_ms) in old {
                if filter.contains(*element) {
                    return Err(format!("{element} of {at_ms} still found at {now_ms}"));
                }
            }
        }
    }
    Ok(())
}

fn all_young_found(
    filter: &impl Remembers,
    inserted: &BTreeMap<u32, u64>,
    now_ms: u64,
    interval_ms: u64,
) -> Result<(), String> {
    for (element, at_ms) in inserted {
        if now_ms - at_ms <= interval_ms && !filter.contains(*element) {
            return Err(format!("{element} of {at_ms} not found at {now_ms}"));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn remembers_and_forgets_in_time(schedule in schedules(false)) {
        prop_assert_eq!(check::<Forgetful>(&schedule), Ok(()));
    }

    #[test]
    fn forgets_nothing_by_scaling_up(schedule in schedules(true)) {
        prop_assert_eq!(check::<Forgetful>(&schedule), Ok(()));
    }

    /// Whatever the number of filters, the period and the sizes become, and however soon after each other.
    #[test]
    fn the_window_holds_through_all_reshaping(
        events in vec((0..60u64, 0..200u32, prop::option::of((1..=28usize, 1..=60u64, 0..=2u32))), 1..60),
    ) {
        let settings = Settings { bits: 1 << 12, hashes: 8, past: 3, period_ms: 20, window_ms: 60 };
        let mut filter = Forgetful::new(settings, 0).expect("valid settings");
        let mut inserted = BTreeMap::new();
        let mut now_ms = 0;
        for (wait_ms, element, reshape) in events {
            now_ms += wait_ms;
            if let Some((past, period_ms, doublings)) = reshape {
                let before = filter.clone();
                if filter.reshape(past, period_ms, doublings).is_err() {
                    prop_assert_eq!(&filter, &before);
                }
            }
            filter.record(hash(element), now_ms);
            inserted.insert(element, now_ms);
            prop_assert_eq!(all_young_found(&filter, &inserted, now_ms, 60), Ok(()));
            prop_assert!((3..=FILTERS_MAX).contains(&filter.filters().len()));
            prop_assert!(filter.remembers_since_ms() <= now_ms.saturating_sub(60));
        }
    }

    /// Crowded filters err often: the optimised check must still find no more than the simple one, and
    /// exactly what the paper's text says.
    #[test]
    fn optimised_finds_a_part_of_simple(past in 1..=6usize, seed: u32) {
        let settings = Settings { bits: 100, hashes: 2, past, period_ms: 1, window_ms: 1 };
        let mut filter = Forgetful::new(settings, 0).expect("valid settings");
        for number in 0..150u32 {
            filter.record(hash(seed.wrapping_add(number)), u64::from(number / 15));
        }
        for number in 200..400u32 {
            let element = hash(seed.wrapping_add(number));
            prop_assert_eq!(filter.contains(element), as_the_text_says(&filter, element));
            prop_assert!(!filter.contains(element) || filter.contains_simple(element));
        }
    }
}

/// A forgetful filter of exact sets instead of Bloom filters, right or wrong in one way.
#[derive(Debug)]
struct Sets<const VARIANT: u8> {
    past: usize,
    period_ms: u64,
    refreshed_ms: u64,
    parts: VecDeque<BTreeSet<u32>>,
}

const RIGHT: u8 = 0;
const ALGORITHM_2_AS_PRINTED: u8 = 1;
const INSERTS_INTO_FUTURE_ONLY: u8 = 2;
const DROPS_THE_NEWEST_PAST: u8 = 3;
const ASKS_PAIRS_ONLY: u8 = 4;
const ONE_REFRESH_PER_TICK: u8 = 5;
const INSERTS_WITHOUT_TICKING: u8 = 6;
const SCALES_UP_WITH_EMPTY_FILTERS: u8 = 7;
const DROPS_ONE_TOO_MANY: u8 = 8;

impl<const VARIANT: u8> Sets<VARIANT> {
    fn refresh(&mut self) {
        self.refreshed_ms += self.period_ms;
        self.parts.push_front(BTreeSet::new());
        let wanted = if VARIANT == DROPS_ONE_TOO_MANY { self.past + 1 } else { self.past + 2 };
        while self.parts.len() > wanted {
            match VARIANT {
                DROPS_THE_NEWEST_PAST => drop(self.parts.remove(2)),
                _ => drop(self.parts.pop_back()),
            }
        }
    }
}

impl<const VARIANT: u8> Remembers for Sets<VARIANT> {
    fn new(past: usize, period_ms: u64) -> Self {
        Sets { past, period_ms, refreshed_ms: 0, parts: VecDeque::from(vec![BTreeSet::new(); past + 2]) }
    }

    fn insert(&mut self, element: u32, now_ms: u64) -> bool {
        if VARIANT != INSERTS_WITHOUT_TICKING {
            self.tick(now_ms);
        }
        let new = !self.contains(element);
        if new {
            self.parts[0].insert(element);
            if VARIANT != INSERTS_INTO_FUTURE_ONLY {
                self.parts[1].insert(element);
            }
        }
        new
    }

    fn tick(&mut self, now_ms: u64) {
        while self.refreshed_ms + self.period_ms <= now_ms {
            self.refresh();
            if VARIANT == ONE_REFRESH_PER_TICK {
                self.refreshed_ms = now_ms;
            }
        }
    }

    fn contains(&self, element: u32) -> bool {
        let has: Vec<bool> = self.parts.iter().map(|part| part.contains(&element)).collect();
        let oldest = has.len() - 1;
        let in_pair = has[1..].windows(2).any(|pair| pair[0] && pair[1]);
        match VARIANT {
            ASKS_PAIRS_ONLY => has[0] || in_pair,
            ALGORITHM_2_AS_PRINTED if oldest > 2 => has[0] || in_pair,
            _ => has[0] || in_pair || has[oldest],
        }
    }

    fn scale_up(&mut self) {
        self.past = (2 * self.past + 2).min(PAST_MAX);
        if VARIANT == SCALES_UP_WITH_EMPTY_FILTERS {
            self.parts.resize(self.past + 2, BTreeSet::new());
        }
    }
}

/// Does some schedule show this filter to be wrong?
fn is_caught<F: Remembers>() -> bool {
    let config = Config { cases: 400, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    runner.run(&schedules(true), |schedule| check::<F>(&schedule).map_err(TestCaseError::fail)).is_err()
}

#[test]
fn every_wrong_filter_is_caught() {
    assert!(!is_caught::<Sets<RIGHT>>(), "the right one passes");
    assert!(!is_caught::<Forgetful>(), "and so does ours");
    assert!(is_caught::<Sets<ALGORITHM_2_AS_PRINTED>>());
    assert!(is_caught::<Sets<INSERTS_INTO_FUTURE_ONLY>>());
    assert!(is_caught::<Sets<DROPS_THE_NEWEST_PAST>>());
    assert!(is_caught::<Sets<ASKS_PAIRS_ONLY>>());
    assert!(is_caught::<Sets<ONE_REFRESH_PER_TICK>>());
    assert!(is_caught::<Sets<INSERTS_WITHOUT_TICKING>>());
    assert!(is_caught::<Sets<SCALES_UP_WITH_EMPTY_FILTERS>>());
    assert!(is_caught::<Sets<DROPS_ONE_TOO_MANY>>());
}

/// An error is dismissed as a retry and is not inserted. Who counts it after all must record it.
#[test]
fn an_element_found_by_error_is_remembered_only_if_recorded() {
    let settings = Settings { bits: 40, hashes: 1, past: 1, period_ms: 10, window_ms: 20 };
    let mut filter = Forgetful::new(settings, 0).expect("valid settings");
    (0..20).for_each(|element| filter.record(hash(element), 0));
    filter.tick(25);
    let error = (20..).find(|&element| filter.contains(hash(element))).expect("a crowded filter errs");
    let mut recorded = filter.clone();
    assert!(!filter.insert(hash(error), 25));
    recorded.record(hash(error), 25);
    filter.tick(30);
    recorded.tick(30);
    assert!(!filter.contains(hash(error)), "what made it look known is gone");
    assert!(recorded.contains(hash(error)));
}

/// When the period is shortened a refresh may be overdue. It must not be dated to the very time at which an
/// element has gone into the filters before it.
#[test]
fn an_overdue_refresh_comes_after_what_was_inserted() {
    let settings = Settings { bits: 1 << 12, hashes: 8, past: 3, period_ms: 20, window_ms: 60 };
    let mut filter = Forgetful::new(settings, 0).expect("valid settings");
    filter.tick(15);
    filter.record(hash(1), 15);
    filter.reshape(19, 3, 0).expect("within the limits");
    for now_ms in 15..=75 {
        filter.tick(now_ms);
        assert!(filter.contains(hash(1)), "forgotten at {now_ms}");
    }
}

#[test]
fn time_may_jump_to_its_end() {
    let settings = Settings { bits: 64, hashes: 2, past: 2, period_ms: 1, window_ms: 3 };
    let mut filter = Forgetful::new(settings, 0).expect("valid settings");
    assert!(filter.insert(hash(1), 0));
    filter.tick(u64::MAX - 1);
    assert!(!filter.contains(hash(1)));
    assert!(filter.insert(hash(1), u64::MAX));
    assert_eq!(filter.refresh_due_ms(), None);
    filter.tick(u64::MAX);
    filter.tick(0);
    assert!(filter.contains(hash(1)));
    assert_eq!(filter.latest_ms(), u64::MAX);
}
