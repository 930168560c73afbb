//! A picture of who holds, who waits, and for whom.

mod show;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use spanset::{Access, Declaration};

use crate::latch::{Latch, Owner, RequestId, SCOPES};
use crate::line::{Noted, STEPS};
use crate::look::{Found, Look};
use crate::manager::Shared;

/// All latches of a manager at one moment, by request: what [`Manager::inspect`](crate::Manager::inspect)
/// returns.
///
/// Its text ([`Display`](std::fmt::Display)) lists each blocking chain under its head;
/// [`graphviz`](Self::graphviz) draws it.
///
/// ```
/// use spanlatch::{Manager, State};
/// use spanset::{Span, SpanSet};
///
/// let manager = Manager::new();
/// let mut spans = SpanSet::new();
/// spans.write(Span::point("apple"));
/// let backup = manager.request(&spans).label("backup").acquire()?;
/// let waiting = manager.sequence(&spans)?;
/// let picture = manager.inspect();
/// assert!(matches!(&picture.requests[1].state, State::Waiting { head: 0, .. }));
/// assert_eq!(
///     picture.to_string(),
///     r#"2 requests with 2 latches: 1 holds, 1 waits
/// 0 "backup" holds write ["apple"]; 1 waits behind it
///     1 waits for 0: write ["apple"] conflicts with write ["apple"]
/// "#,
/// );
/// # drop((backup, waiting));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Inspection {
    /// In sequence order.
    pub requests: Vec<Inspected>,
}

/// One request in an [`Inspection`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Inspected {
    /// Its number in sequence order.
    pub request: u64,
    /// What whoever made it calls it. `None`, as are the times, if it was released while the picture was made.
    pub label: Option<String>,
    /// Its latches, in the order in which they were declared.
    pub latches: Vec<Declaration>,
    /// Whether it, or somebody whom it waits for, has said to be stuck.
    pub poisoned: bool,
    /// Whether it holds or waits.
    pub state: State,
}

/// Whether a request holds its latches or waits for them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum State {
    /// No earlier latch conflicts.
    #[non_exhaustive]
    Holding {
        /// For how long, to the monitor's tick.
        elapsed: Option<Duration>,
    },
    /// An earlier latch conflicts.
    #[non_exhaustive]
    Waiting {
        /// Since it parked, if it has.
        elapsed: Option<Duration>,
        /// Which of its latches has to wait.
        wants: Box<Declaration>,
        /// An earlier request that has to let go first, and perhaps others besides; of those on one interval,
        /// the nearest.
        on: u64,
        /// Which of that one's latches conflicts.
        conflict: Box<Declaration>,
        /// The head of the blocking chain: following `on` as far as it goes, the request that holds.
        head: u64,
    },
}

/// The trees of a scope, in their order.
const ACCESSES: [Access; 2] = [Access::Write, Access::Read];

pub(crate) fn inspect(shared: &Shared) -> Inspection {
    let now = shared.now();
    // Who is sequenced from here on is left out, or there might be no end. What is left in is consistent:
    // nobody in it waits for anybody who is not.
    let end = shared.line.lock().next_sequence();
    let noted = shared.in_stays(|line| line.note(end));
    let owned = owned(&noted, end);
    let ids = Vec::from_iter(owned.values().map(|own| own.id));
    let details = ids
        .chunks(STEPS)
        .flat_map(|ids| shared.line.lock().details(ids));
    let elapsed = |since: Instant| now.saturating_duration_since(since);

    let mut heads: BTreeMap<u64, u64> = BTreeMap::new();
    let mut requests = Vec::with_capacity(owned.len());
    for ((&sequence, own), details) in owned.iter().zip(details) {
        let details = details.as_ref();
        let validated = details.is_some_and(|d| d.validated);
        let state = match conflict(&noted, sequence, own).filter(|_| !validated) {
            None => State::Holding {
                elapsed: details.and_then(|d| d.held_since).map(elapsed),
            },
            Some((wants, other)) => State::Waiting {
                elapsed: details.and_then(|d| d.waits_since).map(elapsed),
                wants: Box::new(wants.declaration()),
                on: other.seat.sequence,
                conflict: Box::new(
                    owned[&other.seat.sequence].latches[&other.seat.index()].declaration(),
                ),
                // Whoever is waited for is earlier, and has its head already.
                head: *heads
                    .get(&other.seat.sequence)
                    .unwrap_or(&other.seat.sequence),
            },
        };
        if let State::Waiting { head, .. } = state {
            heads.insert(sequence, head);
        }
        requests.push(Inspected {
            request: sequence,
            label: details
                .and_then(|d| d.label.as_ref())
                .map(|label| label.to_string()),
            latches: own.latches.values().map(Latch::declaration).collect(),
            poisoned: details.is_some_and(|d| d.poisoned),
            state,
        });
    }
    Inspection { requests }
}

/// What a request has in a snapshot.
struct Own {
    id: RequestId,
    /// By their place in its declarations.
    latches: BTreeMap<usize, Latch>,
}

/// The latches in a snapshot of requests sequenced before `end`, by request.
fn owned(noted: &Noted, end: u64) -> BTreeMap<u64, Own> {
    let mut owned = BTreeMap::new();
    for (trees, scope) in noted.iter().zip(SCOPES) {
        for (tree, access) in trees.iter().zip(ACCESSES) {
            for (interval, owner) in tree.iter().filter(|(_, owner)| owner.seat.sequence < end) {
                let own = owned.entry(owner.seat.sequence).or_insert_with(|| Own {
                    id: owner.seat.request(),
                    latches: BTreeMap::new(),
                });
                let latch = Latch {
                    interval: interval.clone(),
                    access,
                    scope,
                    timestamp: owner.timestamp,
                };
                own.latches.insert(owner.seat.index(), latch);
            }
        }
    }
    owned
}

/// The first of a request's latches that has to wait, and an earlier latch that it conflicts with: the nearest
/// of those on one interval.
fn conflict<'a>(noted: &Noted, sequence: u64, own: &'a Own) -> Option<(&'a Latch, Owner)> {
    own.latches.values().find_map(|latch| {
        let trees = noted[latch.scope as usize].iter().zip(ACCESSES);
        trees.into_iter().find_map(|(tree, access)| {
            let (mut look, mut steps) = (Look::default(), usize::MAX);
            match look.search(tree, access, latch, sequence, &mut steps) {
                Found::Conflict(other) => Some((latch, other)),
                Found::Nothing | Found::OutOfSteps => None,
            }
        })
    })
}
