//! A picture of who holds, who waits, and for whom.

mod show;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use spanset::{Access, Declaration};

use crate::latch::{Latch, Owner, RequestId, SCOPES};
use crate::line::{Noted, STEPS};
use crate::look::Look;
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
    /// Its latches: by scope, writes before reads, in the order of their spans.
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
        /// The nearest request that has to let go first.
        on: u64,
        /// Which of that one's latches conflicts.
        conflict: Box<Declaration>,
        /// The head of the blocking chain: following `on` as far as it goes, the request that holds.
        head: u64,
    },
}

pub(crate) fn inspect(shared: &Shared) -> Inspection {
    let now = shared.now();
    let noted = shared.in_stays(|line| line.note());
    let mut owned: BTreeMap<u64, (RequestId, Vec<Latch>)> = BTreeMap::new();
    for (latch, owner) in latches(&noted) {
        let request = owner.request();
        let (_, latches) = (owned.entry(request.sequence)).or_insert((request, Vec::new()));
        latches.push(latch);
    }
    let ids = Vec::from_iter(owned.values().map(|(id, _)| *id));
    let details = ids
        .chunks(STEPS)
        .flat_map(|ids| shared.line.lock().details(ids));
    let elapsed = |since: Instant| now.saturating_duration_since(since);

    let mut heads: BTreeMap<u64, u64> = BTreeMap::new();
    let mut requests = Vec::with_capacity(owned.len());
    for ((sequence, (_, latches)), details) in owned.into_iter().zip(details) {
        let details = details.as_ref();
        let state = match conflict(&noted, sequence, &latches) {
            None => State::Holding {
                elapsed: details.and_then(|d| d.held_since).map(elapsed),
            },
            Some((wants, on, conflict)) => State::Waiting {
                elapsed: details.and_then(|d| d.waits_since).map(elapsed),
                wants: Box::new(wants),
                on,
                conflict: Box::new(conflict),
                // Whoever is waited for is earlier, and has its head already.
                head: heads.get(&on).copied().unwrap_or(on),
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
            latches: latches.iter().map(Latch::declaration).collect(),
            poisoned: details.is_some_and(|d| d.poisoned),
            state,
        });
    }
    Inspection { requests }
}

/// All latches of a snapshot.
fn latches(noted: &Noted) -> impl Iterator<Item = (Latch, Owner)> {
    let trees = noted
        .iter()
        .zip(SCOPES)
        .flat_map(|([writes, reads], scope)| {
            [(writes, scope, Access::Write), (reads, scope, Access::Read)]
        });
    trees.flat_map(|(tree, scope, access)| {
        tree.iter().map(move |(interval, owner)| {
            let latch = Latch {
                interval: interval.clone(),
                access,
                scope,
                timestamp: owner.timestamp,
            };
            (latch, *owner)
        })
    })
}

/// An earlier latch that conflicts with one of a request's, the nearest of those on one interval: which of
/// the request's latches that is, whose the other is, and what that is.
fn conflict(
    noted: &Noted,
    sequence: u64,
    own: &[Latch],
) -> Option<(Declaration, u64, Declaration)> {
    own.iter().find_map(|latch| {
        let trees = noted[latch.scope as usize]
            .iter()
            .zip([Access::Write, Access::Read]);
        let trees =
            trees.filter(|&(_, access)| Access::Write == latch.access || Access::Write == access);
        trees.into_iter().find_map(|(tree, access)| {
            let mut look = Look::default();
            look.search(tree, access, latch, sequence, &mut { usize::MAX });
            let (interval, owner) = look.last()?;
            let other = Latch {
                interval: interval.clone(),
                access,
                scope: latch.scope,
                timestamp: owner.timestamp,
            };
            Some((latch.declaration(), owner.sequence, other.declaration()))
        })
    })
}
