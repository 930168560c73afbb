//! The ranges that a batch touches, and what of it falls to each.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;
use spanset::{End, Key, Scope, Span, SpanSet, Timestamp};

use crate::batch::{Kind, Touched};
use crate::{Batch, Latches, Replica, Request};

/// The ranges that a batch touches, in ascending order of their keys.
pub(crate) type Ranges<L> = SmallVec<[Routed<L>; 1]>;

/// A range that a batch was routed to.
pub(crate) struct Routed<L> {
    pub(crate) replica: Arc<Replica<L>>,
    /// How often the range had been split when the batch was.
    pub(crate) splits: u64,
}

impl<L> Routed<L> {
    /// Whether the range still has all keys that are declared on it. To be asked under its latches, which
    /// hold off splits.
    pub(crate) fn still_has(&self, declared: &SpanSet) -> bool {
        if self.replica.splits() == self.splits {
            return true;
        }
        let bounds = self.replica.span();
        let mut global = declared.iter().filter(|d| d.scope() == Scope::Global);
        global.all(|declaration| bounds.contains(declaration.span()))
    }
}

/// Declares, range by range, what the requests of `batch` will touch at `at`.
///
/// A batch that both reads and writes declares its reads without a timestamp, so that pushing its
/// timestamp under the latches moves both. Each range's descriptor is read too.
///
/// O(requests * log ranges + declarations).
pub(crate) fn declare<L: Latches>(
    ranges: &Ranges<L>,
    batch: &Batch,
    at: Timestamp,
) -> SmallVec<[SpanSet; 1]> {
    let kind = batch.kind();
    let mut declared: SmallVec<[SpanSet; 1]> = SmallVec::with_capacity(ranges.len());
    for _ in ranges {
        let mut spans = SpanSet::new();
        if ranges.len() == 1 {
            spans.reserve(batch.requests().len() + 1);
        }
        spans.read_local(descriptor());
        declared.push(spans);
    }
    for request in batch.requests() {
        split(ranges, request.touched(), |range, span| {
            declare_request(&mut declared[range], request, kind, span, at);
        });
    }
    declared
}

/// Where a range's descriptor is, among its local keys: whoever has keys of the range reads it, who splits
/// the range writes it. Each range has its own latches, so they can share the key.
pub(crate) fn descriptor() -> Span {
    Span::point(Key::from_static(b"descriptor"))
}

fn declare_request(spans: &mut SpanSet, request: &Request, kind: Kind, span: Span, at: Timestamp) {
    if request.is_write() {
        spans.write_at(span, at);
    } else if kind == Kind::Reads {
        spans.read_at(span, at);
    } else {
        spans.read(span);
    }
}

/// Calls `each` with the position of each range that has some of the keys touched, and those keys.
pub(crate) fn split<L: Latches>(
    ranges: &Ranges<L>,
    touched: Touched<'_>,
    mut each: impl FnMut(usize, Span),
) {
    if ranges.len() == 1 {
        return each(0, touched.to_span());
    }
    let start_of = |range: usize| ranges[range].replica.start();
    let positions = locate(ranges.len(), start_of, touched);
    match touched {
        Touched::Key(key) => each(positions.start, Span::point(key.clone())),
        Touched::Span(span) => {
            for range in positions {
                // Up to the next range of the batch: if there are others in between, `span` has no keys there.
                let start = start_of(range).clone();
                let piece = match ranges.get(range + 1) {
                    Some(next) => Span::range(start, next.replica.start().clone()).ok(),
                    None => Some(Span::starting_at(start)),
                };
                if let Some(piece) = piece.and_then(|piece| span.intersection(&piece)) {
                    each(range, piece);
                }
            }
        }
    }
}

/// Which of `count` ranges in ascending order, whose first keys are `start_of` them, have keys touched.
/// O(log count).
///
/// Gaps between the ranges do not matter as long as no key touched is in one: the last range that
/// starts at or below a key that is in some range has it, and between the first and the last range
/// touched none is passed over. The ranges of a store have no gaps, and the ranges of a batch, those of
/// them that it touches, have none that it touches.
pub(crate) fn locate<'a>(
    count: usize,
    start_of: impl Fn(usize) -> &'a Key,
    touched: Touched<'_>,
) -> Range<usize> {
    let (first, end) = match touched {
        Touched::Key(key) => (key, End::At(key)),
        Touched::Span(span) => (span.start(), span.end()),
    };
    // The ranges that start at or below the first key, of which the last has it; and those that
    // start below the end.
    let first = partition_point(count, |range| start_of(range) <= first).saturating_sub(1);
    match touched {
        Touched::Key(_) => first..first + 1,
        Touched::Span(_) => {
            first..partition_point(count, |range| End::Before(start_of(range)) < end)
        }
    }
}

/// As [`slice::partition_point`], of the numbers below `count`.
fn partition_point(count: usize, is_below: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if is_below(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
