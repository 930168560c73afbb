//! Hands out numbers, a block at a time, that nobody else gets: also to somebody who fails after taking some.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::collections::BTreeSet;
use std::ops::Range;
use std::thread;

use futures::executor::block_on;
use spanlatch_kv::{Db, Error};
use spanlatch_replica::Store;

/// Takes `count` numbers that nobody has taken.
async fn take(db: &Db, count: u64) -> Result<Range<u64>, Error> {
    db.txn(async |txn| {
        let next = match txn.get("next id").await? {
            Some(bytes) => u64::from_be_bytes(bytes[..].try_into().expect("we wrote eight bytes")),
            None => 1,
        };
        txn.put("next id", Vec::from((next + count).to_be_bytes()))?;
        Ok(next..next + count)
    })
    .await
}

fn main() -> Result<(), Error> {
    let (store, applier) = Store::new();
    let applier = thread::spawn(move || applier.run());
    let db = Db::new(store);

    let taken: Vec<Range<u64>> = thread::scope(|scope| {
        let threads = [1, 10, 100].map(|count| {
            let db = &db;
            scope.spawn(move || (0..20).map(|_| block_on(take(db, count))).collect())
        });
        let joined = threads.map(|thread| thread.join().expect("no thread panics"));
        joined
            .into_iter()
            .flat_map(|blocks: Vec<_>| blocks)
            .collect::<Result<_, Error>>()
    })?;

    let numbers: BTreeSet<u64> = taken.iter().cloned().flatten().collect();
    println!("{} blocks, {} numbers", taken.len(), numbers.len());
    assert_eq!(
        numbers.len() as u64,
        taken.iter().map(|block| block.end - block.start).sum()
    );
    assert_eq!(numbers.last(), Some(&2_220));

    drop(db);
    applier.join().expect("the applier ends with its store");
    Ok(())
}
