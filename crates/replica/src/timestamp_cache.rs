//! What has been read of a range's keys, and when, in bounded memory.

use std::mem;

use interval_btree::{Bytewise, Interval, IntervalMap};
use parking_lot::Mutex;
use spanset::{CompactKey, End, Span, Timestamp};

/// Remembers up to which timestamp each key has been read, so that later writes go above.
///
/// Two generations of records: new ones go to the current generation; when that holds half the
/// capacity, the previous one is forgotten and the current one takes its place. What is forgotten
/// raises the low-water mark, below which every key counts as read. So no answer is ever too low,
/// and a record lives at least until half the capacity of newer ones has come.
///
/// # Invariants
///
/// - *bounded*: a generation holds at most half the capacity, and at least one record.
/// - *newest*: no record is above its generation's `newest`.
/// - *unforgotten*: a record that is gone is at or below the low-water mark, or a newer one of
///   the same span is there.
#[derive(Debug)]
pub(crate) struct TimestampCache {
    /// Tree operations, and nothing else, happen under it.
    state: Mutex<State>,
}

#[derive(Debug, Clone)]
struct State {
    low_water: Timestamp,
    current: Generation,
    previous: Generation,
    /// How many records a generation may hold.
    half: usize,
}

#[derive(Debug, Clone, Default)]
struct Generation {
    records: IntervalMap<CompactKey, ReadAt, 32, Bytewise>,
    newest: Timestamp,
}

/// When a span was read. All are equal in order, so that a span has one record.
#[derive(Debug, Clone, Copy)]
struct ReadAt(Timestamp);

impl PartialEq for ReadAt {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ReadAt {}

impl PartialOrd for ReadAt {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ReadAt {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl TimestampCache {
    /// An empty cache of at most `capacity` records (at least two), in which every key counts as
    /// read at `low_water`.
    pub(crate) fn new(capacity: usize, low_water: Timestamp) -> Self {
        Self {
            state: Mutex::new(State {
                low_water,
                current: Generation::default(),
                previous: Generation::default(),
                half: (capacity / 2).max(1),
            }),
        }
    }

    /// Another cache that knows the same. O(1), as the records are shared until one of the two changes.
    pub(crate) fn fork(&self) -> Self {
        let state = self.state.lock().clone();
        Self {
            state: Mutex::new(state),
        }
    }

    /// The lowest timestamp at or above `at` that is above every recorded read of `spans`.
    ///
    /// O(1) if nothing at all was read at or above `at`, which is the rule when timestamps come from
    /// a clock; else O(log n + records that overlap) for each span.
    pub(crate) fn push<'a>(
        &self,
        spans: impl IntoIterator<Item = &'a Span>,
        at: Timestamp,
    ) -> Timestamp {
        let state = self.state.lock();
        let mut at = at;
        if state.low_water >= at {
            at = after(state.low_water);
        }
        if state.current.newest < at && state.previous.newest < at {
            return at;
        }
        for span in spans {
            let interval = interval(span);
            for generation in [&state.current, &state.previous] {
                at = generation.push(&interval, at);
            }
        }
        at
    }

    /// Records that `spans` were read at `at`. O(log n) for each.
    pub(crate) fn record(&self, spans: impl IntoIterator<Item = Span>, at: Timestamp) {
        // Dropped after the mutex is unlocked.
        let mut forgotten = Vec::new();
        let mut state = self.state.lock();
        for span in spans {
            if at <= state.low_water {
                break;
            }
            if state.current.records.len() >= state.half {
                forgotten.push(state.turn());
            }
            state.current.record(interval(&span), at);
        }
        drop(state);
        drop(forgotten);
    }

    /// The timestamp at which every key counts as read.
    #[cfg(test)]
    fn low_water(&self) -> Timestamp {
        self.state.lock().low_water
    }

    /// Checks the invariants that can be seen from outside of time.
    #[cfg(test)]
    fn verify(&self) {
        let state = self.state.lock();
        for generation in [&state.current, &state.previous] {
            assert!(generation.records.len() <= state.half, "bounded");
            for (_, read) in generation.records.iter() {
                assert!(read.0 <= generation.newest, "newest");
            }
        }
    }
}

impl State {
    /// Begins a new generation and returns the one that is forgotten.
    fn turn(&mut self) -> Generation {
        self.low_water = self.low_water.max(self.previous.newest);
        let current = mem::take(&mut self.current);
        mem::replace(&mut self.previous, current)
    }
}

impl Generation {
    fn push(&self, interval: &Interval<CompactKey>, at: Timestamp) -> Timestamp {
        if self.newest < at {
            return at;
        }
        self.records
            .overlapping(interval)
            .map(|(_, read)| read.0)
            .filter(|read| *read >= at)
            .max()
            .map_or(at, after)
    }

    fn record(&mut self, interval: Interval<CompactKey>, at: Timestamp) {
        // Only a record below the newest can meet a higher one of its span.
        if at < self.newest
            && let Some(read) = self.records.get(&interval, &ReadAt(at))
            && read.0 >= at
        {
            return;
        }
        self.newest = self.newest.max(at);
        self.records.insert(interval, ReadAt(at));
    }
}

/// The next timestamp. The highest one, in the year 2554, has none and stays.
pub(crate) fn after(timestamp: Timestamp) -> Timestamp {
    timestamp.next().unwrap_or(Timestamp::MAX)
}

fn interval(span: &Span) -> Interval<CompactKey> {
    let start = span.start().into();
    match span.end() {
        End::At(_) => Interval::point(start),
        End::Before(end) => {
            Interval::range(start, end.into()).expect("the end of a span is above its start")
        }
        End::Unbounded => Interval::starting_at(start),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use spanset::Key;

    use super::*;

    fn ts(wall: u64) -> Timestamp {
        Timestamp::new(wall, 0)
    }

    fn key(i: u8) -> Key {
        Key::copy_from_slice(&[i])
    }

    fn span(a: u8, b: u8) -> Span {
        Span::range(key(a), key(b)).unwrap()
    }

    #[test]
    fn a_write_is_pushed_above_the_newest_read_that_overlaps() {
        let cache = TimestampCache::new(100, ts(1));
        cache.record([span(2, 5), Span::point(key(7))], ts(10));
        cache.record([span(3, 4)], ts(20));
        assert_eq!(cache.push([&Span::point(key(2))], ts(5)), after(ts(10)));
        assert_eq!(cache.push([&Span::point(key(3))], ts(5)), after(ts(20)));
        assert_eq!(cache.push([&Span::point(key(7))], ts(10)), after(ts(10)));
        assert_eq!(cache.push([&Span::point(key(7))], ts(11)), ts(11));
        assert_eq!(cache.push([&Span::point(key(5))], ts(5)), ts(5));
        assert_eq!(cache.push([&Span::point(key(5))], ts(1)), after(ts(1)));
        assert_eq!(cache.push([&Span::all()], ts(2)), after(ts(20)));
    }

    #[test]
    fn a_later_record_at_a_lower_timestamp_takes_nothing_back() {
        let cache = TimestampCache::new(100, ts(0));
        cache.record([span(2, 5)], ts(20));
        cache.record([span(2, 5)], ts(10));
        assert_eq!(cache.push([&Span::point(key(2))], ts(5)), after(ts(20)));
    }

    #[test]
    fn forgetting_raises_the_low_water_mark() {
        let cache = TimestampCache::new(4, ts(0));
        for i in 0..4 {
            cache.record([Span::point(key(i))], ts(10 + u64::from(i)));
            cache.verify();
        }
        assert_eq!(cache.low_water(), ts(0));
        cache.record([Span::point(key(4))], ts(14));
        cache.verify();
        assert_eq!(cache.low_water(), ts(11), "keys 0 and 1 are forgotten");
        assert_eq!(cache.push([&Span::point(key(0))], ts(5)), after(ts(11)));
        assert_eq!(cache.push([&Span::point(key(99))], ts(5)), after(ts(11)));
        assert_eq!(cache.push([&Span::point(key(2))], ts(5)), after(ts(12)));
    }

    #[test]
    fn reading_one_key_again_and_again_forgets_nothing() {
        let cache = TimestampCache::new(4, ts(0));
        for wall in 0..100 {
            cache.record([Span::point(key(1))], ts(wall));
        }
        assert_eq!(cache.low_water(), ts(0));
    }

    fn any_span() -> impl Strategy<Value = Span> {
        prop_oneof![
            (0u8..12).prop_map(|k| Span::point(key(k))),
            (0u8..12, 1u8..5).prop_map(|(k, n)| span(k, k + n)),
            (0u8..12).prop_map(|k| Span::starting_at(key(k))),
        ]
    }

    proptest! {
        #[test]
        fn no_answer_is_too_low_and_without_forgetting_none_is_too_high(
            capacity in prop_oneof![2usize..8, Just(1000)],
            operations in prop::collection::vec((any_span(), 0u64..30, any::<bool>()), 1..80),
        ) {
            let cache = TimestampCache::new(capacity, ts(3));
            let mut reads = Vec::new();
            for (span, wall, is_read) in operations {
                let at = ts(wall);
                if is_read {
                    cache.record([span.clone()], at);
                    reads.push((span, at));
                    cache.verify();
                } else {
                    let exact = reads
                        .iter()
                        .filter(|(read, _)| read.overlaps(&span))
                        .map(|(_, read)| after(*read))
                        .fold(at.max(after(ts(3))), Timestamp::max);
                    let pushed = cache.push([&span], at);
                    prop_assert!(pushed >= exact);
                    let bound = exact.max(after(cache.low_water()));
                    prop_assert!(pushed <= bound);
                }
            }
        }
    }
}
