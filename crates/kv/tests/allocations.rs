//! What `exec` allocates beside the closure and the commit, counted.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use allocation_counter::measure;
use spanlatch_kv::{Attempt, Db, Error};
use spanlatch_replica::{Applier, Store};

fn run<T>(applier: &mut Applier, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            return output;
        }
        applier.step();
    }
}

async fn reads(txn: Attempt) -> Result<usize, Error> {
    Ok(txn.get("a").await?.map_or(0, |value| value.len()))
}

async fn writes(txn: Attempt) -> Result<usize, Error> {
    let length = txn.get("a").await?.map_or(0, |value| value.len());
    txn.put("a", "1")?;
    Ok(length)
}

/// How many allocations a transaction makes once all that is kept for reuse is there.
fn counted<T>(mut transaction: impl FnMut() -> T) -> u64 {
    for _ in 0..1_000 {
        transaction();
    }
    // The smallest of some: a tree grows a node now and then.
    let counts = (0..200).map(|_| measure(|| drop(transaction())).count_total);
    counts.min().unwrap_or_default()
}

#[test]
fn exec_allocates_nothing_beside_the_closure_and_the_commit() {
    let (store, mut applier) = Store::new();
    let db = Db::new(store);
    run(&mut applier, db.put("a", "1")).unwrap();
    macro_rules! compare {
        ($closure:ident) => {
            let bare = counted(|| {
                let mut txn = db.begin();
                let done = run(&mut applier, $closure(txn.attempt()));
                run(&mut applier, txn.commit()).unwrap();
                done.unwrap()
            });
            let exec = counted(|| {
                let mut txn = db.begin();
                run(&mut applier, txn.exec(async |txn| $closure(txn).await)).unwrap()
            });
            assert!(bare > 0, "the counter counts");
            assert_eq!(exec, bare, stringify!($closure));
        };
    }
    compare!(reads);
    compare!(writes);
}
