//! A shop's stock: many clients reserve pieces at once, and none is sold twice.
//!
//! `cargo run -p spanlatch-replica --example stock`

use std::error::Error;
use std::io::{self, Write};
use std::thread;

use futures::executor::block_on;
use futures::future::join_all;
use spanlatch_replica::{Batch, Error as StoreError, Request, Response, Store, Value};
use spanset::{Key, Span};

/// How many pieces an article has.
fn stock(article: &str) -> Key {
    format!("stock/{article}").into()
}

/// Who has reserved a piece.
fn reservation(article: &str, piece: u64) -> Key {
    format!("taken/{article}/{piece:04}").into()
}

/// Reserves the first free piece of an article, if there is one: the one whose key is still empty.
async fn reserve(store: &Store, article: &str, client: &str) -> Result<Option<u64>, StoreError> {
    let pieces = match &store.send(Request::get(stock(article))).await?.responses[..] {
        [Response::Value(Some(pieces))] => pieces.len() as u64,
        _ => 0,
    };
    for piece in 0..pieces {
        let take = Request::conditional_put(reservation(article, piece), None, client.to_owned());
        // Both keys, in two ranges, or neither.
        let count = Request::increment(format!("count/{client}"), 1);
        match store.send(Batch::new().with(take).with(count)).await {
            Ok(_) => return Ok(Some(piece)),
            Err(StoreError::ConditionFailed { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn main() -> Result<(), Box<dyn Error>> {
    let (store, applier) = Store::builder()
        .splits(["stock/".into(), "taken/".into()])
        .build();
    let applier = thread::spawn(move || applier.run());
    let mut out = io::stdout();

    block_on(async {
        // One byte a piece.
        let pieces = Value::from_static(b"........");
        store.send(Request::put(stock("lamp"), pieces)).await?;

        let clients: Vec<String> = (0..12).map(|i| format!("client-{i:02}")).collect();
        let reserved = join_all(clients.iter().map(|client| reserve(&store, "lamp", client))).await;
        for (client, piece) in clients.iter().zip(reserved) {
            match piece? {
                Some(piece) => writeln!(out, "{client} has lamp {piece}")?,
                None => writeln!(out, "{client} comes too late")?,
            }
        }

        // A page at a time.
        let mut rest = Some(Span::range("taken/", "taken0")?);
        let mut sold = 0;
        while let Some(span) = rest {
            let reply = store.send(Request::scan(span).limited(5)).await?;
            let Some(Response::Rows { rows, resume }) = reply.responses.into_iter().next() else {
                break;
            };
            sold += rows.len();
            rest = resume;
        }
        writeln!(out, "{sold} lamps are sold")?;
        assert_eq!(sold, 8);
        Ok::<(), Box<dyn Error>>(())
    })?;

    drop(store);
    applier.join().map_err(|_| "the applier panicked")?;
    Ok(())
}
