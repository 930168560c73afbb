//! Limited scans protect what they read and nothing more: told by which writes beneath them are pushed.
//!
//! A scan that protects too much is correct, and costs; no history shows it.

use std::sync::Arc;

use futures::executor::block_on;
use spanlatch_replica::{Applier, Batch, MemEngine, Reply, Request, Response, Store};
use spanset::{Key, Span};

use crate::Choices;

const ROWS: u8 = 8;

/// Scans a few rows at a timestamp, and then writes to each key at an earlier one.
pub(super) fn check(choices: &mut Choices<'_>) {
    let (store, mut applier) = Store::builder().engine(Arc::new(MemEngine::new())).build();
    let rows = (0..ROWS).map(|row| Request::put(key(row), "old"));
    serve(&store, &mut applier, rows.collect::<Batch>());
    let early = store.clock().now();
    let limit = 1 + choices.below(ROWS.into());
    let scan = match choices.one_in(2) {
        true => Request::scan(Span::all()),
        false => Request::reverse_scan(Span::all()),
    };
    let scanned = serve(&store, &mut applier, scan.clone().limited(limit).into());
    let Response::Rows { rows, .. } = &scanned.responses[0] else {
        panic!("a scan was answered {scanned:?}");
    };
    assert_eq!(rows.len(), limit);
    for row in 0..ROWS {
        let write = Batch::new().with(Request::put(key(row), "new")).at(early);
        let written = serve(&store, &mut applier, write);
        if rows.iter().any(|(read, _)| *read == key(row)) {
            assert!(written.timestamp > scanned.timestamp, "{row} was read");
        } else {
            assert_eq!(
                written.timestamp, early,
                "{row} was not read by {scan:?} up to {limit}"
            );
        }
    }
}

fn key(row: u8) -> Key {
    Key::from(vec![row])
}

/// Serves a batch on this thread.
fn serve(store: &Store, applier: &mut Applier, batch: Batch) -> Reply {
    let serving = store.send(batch);
    let applying = std::future::poll_fn(|context| {
        applier.step();
        context.waker().wake_by_ref();
        std::task::Poll::<()>::Pending
    });
    match block_on(futures::future::select(Box::pin(serving), applying)) {
        futures::future::Either::Left((served, _)) => served.expect("nothing fails"),
        futures::future::Either::Right(((), _)) => unreachable!("it never ends"),
    }
}
