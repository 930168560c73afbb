//! The predecessor on the work on which the original's predecessor was measured.

use criterion::{Criterion, criterion_group, criterion_main};
use spanlatch_benches::predecessor::{Guard, Pending, Predecessor};
use spanset::SpanSet;

#[path = "shared/work.rs"]
mod work;

impl work::Measured for Predecessor {
    type Guard = Guard;
    type Pending = Pending;
    type Error = spanlatch_replica::Error;

    fn new() -> Self {
        Predecessor::new()
    }

    fn sequence(&self, spans: &SpanSet) -> Pending {
        Predecessor::sequence(self, spans)
    }
}

fn bench(c: &mut Criterion) {
    work::all::<Predecessor>(c, "predecessor/");
}

criterion_group!(benches, bench);
criterion_main!(benches);
