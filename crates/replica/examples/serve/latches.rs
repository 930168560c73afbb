//! The latches of all ranges as data: what the page shows.

use std::collections::BTreeMap;

use serde::Serialize;
use spanlatch::{Inspected, Inspection, State};
use spanlatch_replica::{Replica, Store};

/// How many requests of a range are told, and how many latches of a request.
const TOLD: usize = 500;
const LATCHES_TOLD: usize = 8;

/// Who holds and who waits in a store, at about one moment.
#[derive(Debug, Serialize)]
pub(crate) struct Picture {
    /// Whether what is proposed is applied by hand.
    by_hand: bool,
    ranges: Vec<Range>,
}

/// The latches of one range, at one moment.
#[derive(Debug, Serialize)]
struct Range {
    range: String,
    span: String,
    holding: usize,
    waiting: usize,
    /// In sequence order, so that each comes after whom it waits for. At most [`TOLD`]: heads first, then those
    /// who wait, then those who are in nobody's way.
    requests: Vec<Request>,
}

#[derive(Debug, Serialize)]
struct Request {
    request: u64,
    label: Option<String>,
    poisoned: bool,
    latches: Vec<String>,
    /// How many latches it has besides.
    more_latches: usize,
    /// How many requests are in the chains that it heads.
    behind: usize,
    /// For how long it has held or waited, as far as that is known.
    seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<Waits>,
}

/// For whom a request waits, and why.
#[derive(Debug, Serialize)]
struct Waits {
    on: u64,
    head: u64,
    wants: String,
    conflict: String,
}

impl Picture {
    /// Looks at each range of `store`.
    pub(crate) fn of(store: &Store, by_hand: bool) -> Self {
        let ranges = store.replicas().iter().map(|r| Range::of(r)).collect();
        Self { by_hand, ranges }
    }
}

impl Range {
    fn of(replica: &Replica) -> Self {
        let Inspection { mut requests } = replica.latches().inspect();
        let mut behind: BTreeMap<u64, usize> = BTreeMap::new();
        for request in &requests {
            if let State::Waiting { head, .. } = request.state {
                *behind.entry(head).or_default() += 1;
            }
        }
        let waiting = behind.values().sum();
        let holding = requests.len() - waiting;
        if requests.len() > TOLD {
            requests.sort_by_key(|request| match request.state {
                State::Holding { .. } if behind.contains_key(&request.request) => 0,
                State::Waiting { .. } => 1,
                _ => 2,
            });
            requests.truncate(TOLD);
            requests.sort_by_key(|request| request.request);
        }
        let behind = |request: &Inspected| behind.get(&request.request).copied().unwrap_or(0);
        Self {
            range: replica.id().to_string(),
            span: replica.span().to_string(),
            holding,
            waiting,
            requests: requests.iter().map(|r| Request::of(r, behind(r))).collect(),
        }
    }
}

impl Request {
    fn of(inspected: &Inspected, behind: usize) -> Self {
        let (elapsed, waits) = match &inspected.state {
            State::Waiting {
                elapsed,
                wants,
                on,
                conflict,
                head,
                ..
            } => (
                *elapsed,
                Some(Waits {
                    on: *on,
                    head: *head,
                    wants: wants.to_string(),
                    conflict: conflict.to_string(),
                }),
            ),
            State::Holding { elapsed, .. } => (*elapsed, None),
            _ => (None, None),
        };
        let latches = inspected.latches.iter();
        Self {
            request: inspected.request,
            label: inspected.label.clone(),
            poisoned: inspected.poisoned,
            latches: latches
                .take(LATCHES_TOLD)
                .map(ToString::to_string)
                .collect(),
            more_latches: inspected.latches.len().saturating_sub(LATCHES_TOLD),
            behind,
            seconds: elapsed.map(|elapsed| elapsed.as_secs_f64()),
            waits,
        }
    }
}
