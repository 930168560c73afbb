//! Random batches, one after the other, against the naive store: responses, errors, timestamps and
//! versions must be the same.

use futures::executor::block_on;
use proptest::prelude::*;
use spanlatch_replica::{Batch, ManualSource, Request};
use spanset::{Key, Span, Timestamp};

use crate::naive::{Naive, any_key, any_requests, any_splits, kind};
use crate::scene::{Running, builder, ts};

#[derive(Debug, Clone)]
enum Step {
    /// Serves a batch, at so many nanoseconds from now or without a timestamp of its own.
    Serve(Vec<Request>, Option<i64>),
    Split(Key),
    /// Collects below so many nanoseconds from now.
    Collect(i64),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (any_requests(), prop::option::of(-40i64..40)).prop_map(|(r, at)| Step::Serve(r, at)),
        2 => any_key().prop_map(Step::Split),
        1 => (-60i64..10).prop_map(Step::Collect),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_store_does_what_the_naive_one_does(
        splits in any_splits(),
        release_early in any::<bool>(),
        steps in prop::collection::vec((any_step(), 0u64..20), 1..40),
    ) {
        let time = ManualSource::at(1_000);
        let mut builder = builder(&time).splits(splits);
        if release_early {
            builder = builder.release_reads_early();
        }
        let (store, mut applier) = builder.build();
        let mut naive = Naive::default();
        let mut now = 1_000;
        for (step, passed) in steps {
            now += passed;
            time.set(now);
            let (requests, offset) = match step {
                Step::Serve(requests, offset) => (requests, offset),
                Step::Split(key) => {
                    let is_new = store.replica_of(&key).span().start() != &key;
                    let split = block_on(store.split(key.clone()));
                    prop_assert_eq!(split.is_ok(), is_new);
                    let span = store.replica_of(&key).span();
                    prop_assert_eq!(span.start(), &key);
                    continue;
                }
                Step::Collect(offset) => {
                    let threshold = ts(now.saturating_add_signed(offset));
                    let collected = store.collect_garbage(threshold).unwrap();
                    prop_assert_eq!(collected.versions, naive.collect(threshold));
                    continue;
                }
            };
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
