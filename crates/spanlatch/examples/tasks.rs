//! Tasks on one thread: a pending request is a future, on any executor, and dropping it cancels.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use futures::executor::block_on;
use futures::future::join;
use spanlatch::Manager;
use spanset::{Span, SpanSet};

fn main() -> Result<(), Box<dyn Error>> {
    let manager = Manager::new();
    let mut shelf = SpanSet::new();
    shelf.write(Span::range("a", "m")?);
    let mut book = SpanSet::new();
    book.read(Span::point("dune"));

    let sorting = manager.sequence(&shelf)?;
    let reading = manager.sequence(&book)?;
    let impatient = manager.sequence(&book)?;
    drop(impatient);

    block_on(async {
        let sort = async {
            let guard = sorting.await?;
            println!("sorted, with {:?}", manager.counts());
            drop(guard);
            Ok::<_, spanlatch::WaitError>(())
        };
        let read = async {
            let _guard = reading.await?;
            println!("read, with {:?}", manager.counts());
            Ok::<_, spanlatch::WaitError>(())
        };
        let (read, sorted) = join(read, sort).await;
        sorted.and(read)
    })?;
    Ok(())
}
