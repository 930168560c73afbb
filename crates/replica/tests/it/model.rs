//! Random batches, one after the other, against the naive store: responses, errors, timestamps and
//! versions must be the same.

use proptest::prelude::*;
use spanlatch_replica::{Batch, ManualSource};
use spanset::{Span, Timestamp};

use crate::naive::{Naive, any_requests, any_splits, kind};
use crate::scene::{Running, builder, ts};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_store_does_what_the_naive_one_does(
        splits in any_splits(),
        steps in prop::collection::vec(
            (any_requests(), prop::option::of(-40i64..40), 0u64..20),
            1..40,
        ),
    ) {
        let time = ManualSource::at(1_000);
        let (store, mut applier) = builder(&time).splits(splits).build();
        let mut naive = Naive::default();
        let mut now = 1_000;
        for (requests, offset, passed) in steps {
            now += passed;
            time.set(now);
            let at = offset.map(|offset| ts(now.saturating_add_signed(offset)));
            let mut batch = Batch::from(requests.clone());
            if let Some(at) = at {
                batch = batch.at(at);
            }
            let mut running = Running::new({
                let store = store.clone();
                async move { store.send(batch).await }
            });
            if running.is_waiting() {
                prop_assert_eq!(applier.step(), 1);
            }
            let served = running.end();
            let (expected_at, expected) = naive.serve(&requests, at, ts(now));
            match served {
                Ok(reply) => {
                    prop_assert_eq!(expected.failed, None);
                    prop_assert_eq!(reply.responses, expected.responses);
                    prop_assert_eq!(reply.timestamp, expected_at);
                }
                Err(error) => prop_assert_eq!(Some(kind(&error)), expected.failed),
            }
            prop_assert!(store.is_idle());
        }
        let versions: Vec<_> = store
            .versions(Span::all()).unwrap()
            .map(|version| version.unwrap())
            .map(|(key, version)| (key, version.timestamp, version.value))
            .collect();
        let expected: Vec<_> = naive
            .versions
            .into_iter()
            .flat_map(|(key, versions): (_, std::collections::BTreeMap<Timestamp, _>)| {
                versions
                    .into_iter()
                    .rev()
                    .map(move |(at, value)| (key.clone(), at, value))
            })
            .collect();
        prop_assert_eq!(versions, expected);
    }
}
