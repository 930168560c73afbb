//! Intervals: which there are, how they are ordered, and when they overlap.

use interval_btree::{EmptyInterval, End, Interval};
use proptest::prelude::*;

/// Half steps, so that there is a key between any two.
fn keys() -> impl Strategy<Value = u8> {
    0_u8..8
}

fn intervals() -> impl Strategy<Value = Interval<u8>> {
    let end = prop_oneof![
        keys().prop_map(End::Before),
        keys().prop_map(End::At),
        Just(End::Unbounded)
    ];
    (keys(), end).prop_filter_map("not empty", |(start, end)| Interval::new(start, end).ok())
}

/// Whether an interval over `keys` contains a position: `2 * k` is the key `k`, and `2 * k + 1`
/// something between `k` and the next key.
fn has(interval: &Interval<u8>, position: u8) -> bool {
    let below_end = match interval.end() {
        End::Before(end) => position < 2 * end,
        End::At(end) => position <= 2 * end,
        End::Unbounded => true,
    };
    2 * interval.start() <= position && below_end
}

proptest! {
    #[test]
    fn two_intervals_overlap_iff_some_key_lies_in_both(a in intervals(), b in intervals()) {
        let common = (0..=20).any(|position| has(&a, position) && has(&b, position));
        prop_assert_eq!(a.overlaps(&b), common);
        prop_assert_eq!(b.overlaps(&a), common);
    }

    #[test]
    fn an_interval_contains_a_key_iff_it_overlaps_the_point(a in intervals(), key in keys()) {
        prop_assert_eq!(a.contains(&key), has(&a, 2 * key));
        prop_assert_eq!(a.contains(&key), a.overlaps(&Interval::point(key)));
    }

    #[test]
    fn intervals_are_ordered_by_start_and_then_by_how_far_they_reach(a in intervals(), b in intervals()) {
        let reach = |interval: &Interval<u8>| (0..=20).filter(|&p| has(interval, p)).count();
        let expected = a.start().cmp(b.start()).then(reach(&a).cmp(&reach(&b)));
        prop_assert_eq!(a.cmp(&b), expected);
        prop_assert_eq!(a == b, expected.is_eq());
    }

    #[test]
    fn ends_are_ordered_by_how_far_they_reach(a in intervals(), b in intervals()) {
        let reach = |end: End<&u8>| match end {
            End::Before(end) => 2 * u16::from(*end),
            End::At(end) => 2 * u16::from(*end) + 1,
            End::Unbounded => u16::MAX,
        };
        prop_assert_eq!(a.end().cmp(&b.end()), reach(a.end()).cmp(&reach(b.end())));
    }

    #[test]
    fn an_interval_is_made_again_from_its_parts(a in intervals()) {
        prop_assert_eq!(Interval::new(*a.start(), a.end().cloned()), Ok(a));
    }
}

#[test]
fn an_empty_interval_is_an_error_that_hands_the_keys_back() {
    let error = Interval::range("b", "a").unwrap_err();
    assert_eq!(
        error,
        EmptyInterval {
            start: "b",
            end: End::Before("a")
        }
    );
    assert_eq!(
        error.to_string(),
        r#"no key lies between the start "b" and the end Before("a")"#
    );
    assert!(Interval::range("a", "a").is_err());
    assert!(Interval::new("b", End::At("a")).is_err());
}

#[test]
fn a_range_through_its_own_start_is_the_point() {
    assert_eq!(Interval::new(7, End::At(7)), Ok(Interval::point(7)));
    assert!(Interval::point(7).is_point());
}

#[test]
fn intervals_are_shown_as_in_mathematics() -> Result<(), EmptyInterval<u8>> {
    assert_eq!(format!("{:?}", Interval::point(1)), "[1]");
    assert_eq!(format!("{:?}", Interval::range(1, 2)?), "[1, 2)");
    assert_eq!(format!("{:?}", Interval::new(1, End::At(2))?), "[1, 2]");
    assert_eq!(format!("{:?}", Interval::starting_at(1)), "[1, ..)");
    Ok(())
}
