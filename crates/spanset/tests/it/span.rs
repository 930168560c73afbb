//! Spans: what they cover, and that what covers the same is the same.

use proptest::prelude::*;
use spanset::{End, Key, Span};

use crate::universe::{a_span, atoms, cuts, end_at, is_single};

fn range(start: &'static str, end: &'static str) -> Span {
    Span::range(start, end).expect("ascending in every test")
}

#[track_caller]
fn assert_overlap(a: Span, b: Span, overlap: bool) {
    assert_eq!(a.overlaps(&b), overlap, "{a} and {b}");
    assert_eq!(b.overlaps(&a), overlap, "{b} and {a}");
    assert_eq!(a.intersection(&b).is_some(), overlap, "{a} and {b}");
}

#[test]
fn ranges_that_only_touch_do_not_overlap() {
    assert_overlap(range("a", "b"), range("b", "c"), false);
}

#[test]
fn a_range_does_not_overlap_the_point_at_its_end() {
    assert_overlap(range("a", "b"), Span::point("b"), false);
}

#[test]
fn a_range_overlaps_the_point_at_its_start() {
    assert_overlap(range("a", "b"), Span::point("a"), true);
    assert_overlap(Span::point("b"), range("b", "c"), true);
}

#[test]
fn a_point_overlaps_itself_and_no_other_point() {
    assert_overlap(Span::point("a"), Span::point("a"), true);
    assert_overlap(Span::point("a"), Span::point("b"), false);
    assert_overlap(Span::point("a"), Span::point("a\0"), false);
}

#[test]
fn a_span_without_end_overlaps_all_that_reaches_its_start() {
    assert_overlap(Span::starting_at("b"), range("a", "b"), false);
    assert_overlap(Span::starting_at("b"), range("a", "b\0"), true);
    assert_overlap(
        Span::starting_at("b"),
        Span::point([0xff; 40].to_vec()),
        true,
    );
    assert_overlap(Span::starting_at("b"), Span::starting_at("c"), true);
    assert_overlap(Span::all(), Span::point(""), true);
}

#[test]
fn long_common_prefixes_do_not_confuse() {
    let key = |last: u8| Key::from([vec![b'k'; 1000], vec![last]].concat());
    let low = Span::range(key(1), key(2)).expect("ascending");
    let high = Span::range(key(2), key(3)).expect("ascending");
    assert_overlap(low.clone(), high, false);
    assert_overlap(low, Span::point(key(1)), true);
}

#[test]
fn an_inverted_or_empty_range_is_an_error_that_gives_the_keys_back() {
    for (start, end) in [("b", "a"), ("a", "a"), ("", ""), ("a\0", "a")] {
        let error = Span::range(start, end).expect_err("not ascending");
        assert_eq!(
            (&error.start[..], &error.end[..]),
            (start.as_bytes(), end.as_bytes())
        );
    }
    let error = Span::range("b\n", "a").expect_err("inverted");
    assert_eq!(
        error.to_string(),
        r#"empty span: start "b\n" is not below end "a""#
    );
}

#[test]
fn a_range_that_holds_one_key_is_a_point() {
    for key in ["", "a", "a\0", "\0"] {
        let span = Span::range(key, [key, "\0"].concat()).expect("ascending");
        assert!(span.is_point(), "{span}");
        assert_eq!(span, Span::point(key));
        assert_eq!(span.end(), End::At(&Key::from(key)));
    }
    assert!(!range("a", "a\0\0").is_point());
    assert!(!range("a", "b\0").is_point());
    assert!(!range("a", "a\x01").is_point());
}

#[test]
fn the_end_at_a_key_is_the_end_before_the_next_key() {
    let (a, a0, a00, b) = (
        Key::from("a"),
        Key::from("a\0"),
        Key::from("a\0\0"),
        Key::from("b"),
    );
    assert_eq!(End::At(&a), End::Before(&a0));
    let ascending = [
        End::Before(&a),
        End::At(&a),
        End::At(&a0),
        End::At(&a00),
        End::Before(&b),
        End::At(&b),
        End::Unbounded,
    ];
    for (i, a) in ascending.iter().enumerate() {
        for (j, b) in ascending.iter().enumerate() {
            assert_eq!(a.cmp(b), i.cmp(&j), "{a:?} and {b:?}");
        }
    }
}

#[test]
fn the_text_of_a_span_escapes_its_bytes() {
    assert_eq!(Span::point("a").to_string(), r#"["a"]"#);
    assert_eq!(range("a", "b").to_string(), r#"["a", "b")"#);
    assert_eq!(Span::all().to_string(), r#"["", ..)"#);
    assert_eq!(
        format!("{:?}", Span::point("\0\u{ff}\"")),
        r#"["\x00\xc3\xbf\""]"#
    );
}

#[test]
fn a_span_keeps_the_bytes_it_was_made_of() {
    let mut buffer = b"key".to_vec();
    let span = Span::point(Key::copy_from_slice(&buffer));
    buffer[0] = b'K';
    assert!(span.contains_key(b"key"));
    assert!(!span.contains_key(&buffer));
}

proptest! {
    #[test]
    fn spans_are_equal_iff_they_cover_the_same((a, a_atoms) in a_span(), (b, b_atoms) in a_span()) {
        prop_assert_eq!(a == b, a_atoms == b_atoms);
        prop_assert_eq!(a.cmp(&b).is_eq(), a == b);
        prop_assert_eq!(a.is_point(), (0..22).any(|i| is_single(&cuts(), i) && a_atoms == 1 << i));
    }

    #[test]
    fn spans_are_ordered_by_start_then_end((a, a_atoms) in a_span(), (b, b_atoms) in a_span()) {
        let key = |atoms: u32| (atoms.trailing_zeros(), 32 - atoms.leading_zeros());
        prop_assert_eq!(a.cmp(&b), key(a_atoms).cmp(&key(b_atoms)));
    }

    #[test]
    fn geometry_agrees_with_the_sets_of_keys((a, a_atoms) in a_span(), (b, b_atoms) in a_span()) {
        prop_assert_eq!(a.overlaps(&b), a_atoms & b_atoms != 0);
        prop_assert_eq!(a.contains(&b), a_atoms & b_atoms == b_atoms);
        match a.intersection(&b) {
            None => prop_assert_eq!(a_atoms & b_atoms, 0),
            Some(both) => for (i, key) in cuts().iter().enumerate() {
                prop_assert_eq!(both.contains_key(key), a_atoms & b_atoms & 1 << i != 0);
                prop_assert_eq!(&both, &b.intersection(&a).expect("symmetric"));
            }
        }
        for (i, key) in cuts().iter().enumerate() {
            prop_assert_eq!(a.contains_key(key), a_atoms & 1 << i != 0);
        }
    }

    #[test]
    fn ends_are_ordered_by_what_lies_below(a in 0..=22_usize, b in 0..=22_usize, as_key: (bool, bool)) {
        let cuts = cuts();
        let (end_a, end_b) = (end_at(&cuts, a, as_key.0), end_at(&cuts, b, as_key.1));
        prop_assert_eq!(end_a.cmp(&end_b), atoms(0, a).cmp(&atoms(0, b)));
    }
}
