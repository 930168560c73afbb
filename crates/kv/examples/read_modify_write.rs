//! Threads add words to one list, each by reading it and writing it back: none is lost.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::thread;

use futures::executor::block_on;
use spanlatch_kv::{Db, Error, Options, Reason, TxnMetrics};
use spanlatch_replica::Store;

fn main() -> Result<(), Error> {
    let (store, applier) = Store::new();
    let applier = thread::spawn(move || applier.run());
    let metrics = TxnMetrics::default();
    let db = Db::with_options(store, Options::default().metrics(metrics.clone()));

    thread::scope(|scope| {
        let write = |word: &'static str| {
            for _ in 0..50 {
                block_on(db.txn(async |txn| {
                    let mut list = Vec::from(txn.get("list").await?.unwrap_or_default());
                    list.extend_from_slice(word.as_bytes());
                    txn.put("list", list)
                }))?;
            }
            Ok::<_, Error>(())
        };
        let threads = ["a", "b", "c", "d"].map(|word| scope.spawn(move || write(word)));
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("no thread panics"))
    })?;

    let list = block_on(db.get("list"))?.unwrap_or_default();
    for word in b"abcd" {
        let count = list.iter().filter(|other| *other == word).count();
        println!("{} is there {count} times", char::from(*word));
        assert_eq!(count, 50);
    }
    println!(
        "{} transactions took {} attempts; {} found the list changed",
        metrics.commits.value(),
        metrics.attempts.value(),
        metrics.retries(Reason::Changed).value(),
    );

    drop(db);
    applier.join().expect("the applier ends with its store");
    Ok(())
}
