//! What a client and a store say to each other is read as it was written.

use std::fmt::Debug;

use proptest::prelude::*;
use serde::{Serialize, de::DeserializeOwned};
use spanlatch::OnPoison;
use spanlatch_replica::{Batch, Reply, Request, Response, WriteBatch};
use spanset::{Span, Timestamp};

use crate::naive::{any_requests, any_span};

fn assert_is_read<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let written = postcard::to_stdvec(value).unwrap();
    assert_eq!(&postcard::from_bytes::<T>(&written).unwrap(), value);
}

proptest! {
    #[test]
    fn a_batch_that_is_read_is_the_one_that_was_written(
        requests in any_requests(),
        span in any_span(),
        at: Option<(u64, u32)>,
        waits: bool,
    ) {
        let mut batch = Batch::from(requests);
        batch.push(Request::scan(span.clone()).limited(3));
        batch.push(Request::confirm(span, Timestamp::MAX));
        if let Some((wall, logical)) = at {
            batch = batch.at(Timestamp::new(wall, logical));
        }
        if waits {
            batch = batch.on_poison(OnPoison::Wait);
        }
        assert_is_read(&batch);
    }
}

#[test]
fn every_response_is_read_as_it_was_written() {
    let resume = || Some(Span::starting_at("c"));
    assert_is_read(&Reply {
        timestamp: Timestamp::new(5, 6),
        responses: vec![
            Response::Value(None),
            Response::Value(Some("x".into())),
            Response::Written,
            Response::Unchanged,
            Response::Incremented(-1),
            Response::Deleted {
                keys: vec!["a".into(), "".into()],
                resume: resume(),
            },
            Response::Rows {
                rows: vec![("a".into(), "x".into())],
                resume: resume(),
            },
            Response::Rows {
                rows: vec![],
                resume: None,
            },
        ],
    });
}

#[test]
fn what_is_applied_is_read_as_it_was_written() {
    assert_is_read(&WriteBatch {
        timestamp: Timestamp::MAX,
        writes: vec![("a".into(), Some("x".into())), ("b".into(), None)],
    });
}
