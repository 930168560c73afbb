//! What was applied and what was served, and the check that it is one history.

use std::collections::{BTreeMap, BTreeSet};

use spanlatch_replica::{Batch, Latches, Reply, Request, Response, Store, WriteBatch};
use spanset::{Key, Span, Timestamp};

use crate::naive::Naive;

#[derive(Debug, Default)]
pub(crate) struct History {
    /// In the order in which they were applied.
    applied: Vec<WriteBatch>,
    served: Vec<Served>,
}

#[derive(Debug)]
struct Served {
    batch: Batch,
    /// How many had been served when it started.
    started: usize,
    reply: Reply,
}

impl History {
    pub(crate) fn applied(&mut self, writes: WriteBatch) {
        self.applied.push(writes);
    }

    /// How many batches have been served.
    pub(crate) fn len(&self) -> usize {
        self.served.len()
    }

    pub(crate) fn served(&mut self, batch: Batch, started: usize, reply: Reply) {
        self.served.push(Served {
            batch,
            started,
            reply,
        });
    }

    /// Panics unless each batch that was served read and wrote just what it would have, had all come
    /// one after the other in the order of their timestamps, and that order is the one in which they
    /// came where one had ended before the other began.
    pub(crate) fn check<L: Latches>(&self, store: &Store<L>) {
        for served in &self.served {
            self.check_served(served);
        }
        let mut latest = vec![Timestamp::MIN];
        for served in &self.served {
            let at = served.reply.timestamp;
            latest.push(at.max(latest[latest.len() - 1]));
        }
        for served in &self.served {
            if served.batch.timestamp().is_none() {
                assert!(
                    served.reply.timestamp > latest[served.started],
                    "{served:?}"
                );
            }
        }
        let mut naive = Naive::default();
        for writes in &self.applied {
            naive.write(writes.timestamp, writes.writes.iter().map(|(k, v)| (k, v)));
        }
        let mut versions = BTreeMap::<_, BTreeMap<_, _>>::new();
        for version in store.versions(Span::all()).unwrap() {
            let (key, version) = version.unwrap();
            let of_key = versions.entry(key).or_default();
            let displaced = of_key.insert(version.timestamp, version.value);
            assert!(displaced.is_none());
        }
        assert_eq!(versions, naive.versions);
    }

    fn check_served(&self, served: &Served) {
        let at = served.reply.timestamp;
        // Of those applied at the same timestamp, what it reads was written before its own.
        let own = self.applied.iter().position(|writes| is_of(writes, served));
        let mut before = Naive::default();
        for (position, writes) in self.applied.iter().enumerate() {
            let is_before = match own {
                Some(own) => writes.timestamp < at || writes.timestamp == at && position < own,
                None => writes.timestamp <= at,
            };
            if is_before {
                before.write(writes.timestamp, writes.writes.iter().map(|(k, v)| (k, v)));
            }
        }
        let expected = before.evaluate(served.batch.requests(), at);
        assert_eq!(expected.failed, None, "{served:?}");
        assert_eq!(served.reply.responses, expected.responses, "{served:?}");
        assert_eq!(own.is_some(), !expected.writes.is_empty(), "{served:?}");
        if let Some(own) = own {
            let written: BTreeMap<_, _> = self.applied[own].writes.iter().cloned().collect();
            assert_eq!(written, expected.writes, "{served:?}");
        }
    }
}

/// Whether these are the effects of that batch. No two batches write a key at one timestamp.
fn is_of(writes: &WriteBatch, served: &Served) -> bool {
    let written: BTreeSet<&Key> = writes.writes.iter().map(|(key, _)| key).collect();
    writes.timestamp == served.reply.timestamp && written == written_by(served)
}

fn written_by(served: &Served) -> BTreeSet<&Key> {
    let requests = served.batch.requests();
    let mut written = BTreeSet::new();
    for (request, response) in requests.iter().zip(&served.reply.responses) {
        match (request, response) {
            (_, Response::Deleted { keys, .. }) => written.extend(keys),
            (
                Request::Put { key, .. }
                | Request::ConditionalPut { key, .. }
                | Request::Increment { key, .. }
                | Request::Delete { key },
                _,
            ) => {
                written.insert(key);
            }
            _ => {}
        }
    }
    written
}
