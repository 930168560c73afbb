//! What is written is read again, and nothing that could not have been written.

use postcard::{from_bytes, to_stdvec};
use proptest::prelude::*;
use serde::{Serialize, de::DeserializeOwned};
use spanset::{Key, Scope, Span, Timestamp};

use crate::universe::{a_declaration, a_span};

fn round<T: Serialize + DeserializeOwned>(value: &T) -> T {
    from_bytes(&to_stdvec(value).unwrap()).unwrap()
}

/// What a span is written as, made by hand: its start, and the end that it is said to have.
#[derive(Serialize)]
struct Written(Key, Bound);

#[derive(Serialize)]
enum Bound {
    #[expect(dead_code, reason = "only the positions of the others matter")]
    Point,
    Before(Key),
}

fn read(start: &Key, end: &Key) -> Result<Span, postcard::Error> {
    from_bytes(&to_stdvec(&Written(start.clone(), Bound::Before(end.clone()))).unwrap())
}

proptest! {
    #[test]
    fn a_span_that_is_read_is_the_one_that_was_written((span, _) in a_span()) {
        prop_assert_eq!(round(&span), span);
    }

    #[test]
    fn a_declaration_that_is_read_is_the_one_that_was_written((declaration, _) in a_declaration()) {
        prop_assert_eq!(round(&declaration), declaration);
    }

    #[test]
    fn bytes_are_read_as_a_span_in_its_one_form_or_not_at_all(
        start in prop::collection::vec(0..2_u8, 0..3),
        end in prop::collection::vec(0..2_u8, 0..3),
    ) {
        let (start, end) = (Key::from(start), Key::from(end));
        prop_assert_eq!(read(&start, &end).ok(), Span::range(start, end).ok());
    }

    #[test]
    fn a_timestamp_that_is_read_is_the_one_that_was_written(wall: u64, logical: u32) {
        let timestamp = Timestamp::new(wall, logical);
        prop_assert_eq!(round(&timestamp), timestamp);
        prop_assert_eq!(round(&Some(timestamp)), Some(timestamp));
    }
}

#[test]
fn an_empty_and_an_inverted_span_are_errors() {
    let [a, b] = ["a", "b"].map(Key::from);
    assert!(read(&a, &b).is_ok());
    assert!(read(&a, &a).is_err());
    assert!(read(&b, &a).is_err());
}

#[test]
fn scopes_are_read_as_written() {
    for scope in [Scope::Global, Scope::Local] {
        assert_eq!(round(&scope), scope);
    }
}
