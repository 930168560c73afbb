//! Reads that evaluate first and ask afterwards.

use std::fmt;

use spanset::{Access, SpanSet};

use crate::guard::Place;
use crate::latch::Latch;
use crate::look::{Found, LatchTree, Look};
use crate::pending::Pending;

/// A request for reads that is in line and has not waited: what
/// [`Manager::sequence_optimistic`](crate::Manager::sequence_optimistic) returns.
///
/// Pin a snapshot of the data, evaluate on it, then ask with
/// [`check_no_conflicts`](Self::check_no_conflicts) whether that was right. Before that answer, what was
/// evaluated is worth nothing: there is no way from here to a guard that leaves the question out.
///
/// ```
/// use spanlatch::Manager;
/// use spanset::{Span, SpanSet};
///
/// let manager = Manager::new();
/// let mut write = SpanSet::new();
/// write.write(Span::point("pear"));
/// let writing = manager.acquire(&write)?;
///
/// let mut scan = SpanSet::new();
/// scan.read(Span::range("apple", "zucchini")?); // with a limit
/// let scanning = manager.sequence_optimistic(&scan)?;
/// let mut touched = SpanSet::new();
/// touched.read(Span::range("apple", "fig")?); // the limit was reached here
/// let valid = scanning.check_no_conflicts(&touched);
/// assert!(valid.is_ok(), "nobody writes between apple and fig");
/// # drop(writing);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping it gives up its place in line"]
#[derive(Debug)]
pub struct Optimistic {
    pending: Pending,
    /// The writes in line when the request was sequenced, by scope; `None` if none of them conflicts.
    writes: Option<[LatchTree; 2]>,
    /// What was declared, in debug builds.
    declared: Option<SpanSet>,
}

impl Optimistic {
    pub(crate) fn new(
        pending: Pending,
        writes: Option<[LatchTree; 2]>,
        declared: Option<SpanSet>,
    ) -> Self {
        Optimistic {
            pending,
            writes,
            declared,
        }
    }

    /// The request's number in sequence order, as [`Pending::sequence_number`]. Takes the manager's mutex.
    pub fn sequence_number(&self) -> Option<u64> {
        self.pending.sequence_number()
    }

    /// Whether nothing that was in line when this request was sequenced conflicts with `read`, the spans
    /// actually read, which lie within those declared. A latch that has been released since counts: its
    /// effects may or may not be in the snapshot that was read.
    ///
    /// O(log n + latches that overlap) for each span, outside the mutex.
    ///
    /// # Errors
    ///
    /// The request as one that has still to wait, after which it must evaluate again.
    ///
    /// # Panics
    ///
    /// In debug builds, if something in `read` was not declared: others did not have to wait for it.
    pub fn check_no_conflicts(self, read: &SpanSet) -> Result<Validated, Pending> {
        let Optimistic {
            pending,
            writes,
            declared,
        } = self;
        if let Some(declared) = declared {
            for declaration in read {
                let (access, span) = (declaration.access(), declaration.span());
                let allowed = match declaration.timestamp() {
                    None => declared.check_allowed(access, declaration.scope(), span),
                    Some(at) => declared.check_allowed_at(access, span, at),
                };
                if let Err(undeclared) = allowed {
                    panic!("{undeclared}");
                }
            }
        }
        let conflict = writes.as_ref().is_some_and(|writes| {
            read.iter().any(|declaration| {
                let latch = Latch::from(declaration);
                let writes = &writes[latch.scope as usize];
                // All that were in line are earlier.
                let (mut look, mut steps) = (Look::default(), usize::MAX);
                let found = look.search(writes, Access::Write, &latch, u64::MAX, &mut steps);
                found != Found::Nothing
            })
        });
        if conflict {
            return Err(pending);
        }
        let place = pending.into_place();
        if writes.is_some() {
            place.shared().line.lock().validated(place.slot);
        }
        Ok(Validated { place })
    }

    /// Gives up being optimistic: a request that waits as any other.
    pub fn into_pending(self) -> Pending {
        self.pending
    }
}

/// A request for reads that has evaluated and was right to: the spans that it read were free of earlier
/// conflicting latches all the time. It keeps its place, so that later writes wait, until it is dropped.
///
/// It is not a [`Guard`](crate::Guard): spans that were declared and not read may be held by others.
#[must_use = "dropping it releases its latches at once"]
pub struct Validated {
    place: Place,
}

impl fmt::Debug for Validated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Validated")
            .field(&self.place.sequence_number())
            .finish()
    }
}
