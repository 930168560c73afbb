//! Who holds and who waits in a store, range by range, as data.

use serde_json::{Value, json};
use spanlatch::{Inspected, State};
use spanlatch_replica::{Replica, Store};

/// How many requests of a range are told, and how many latches of a request.
const TOLD: usize = 500;
const LATCHES_TOLD: usize = 8;

/// Each range with those that have latches there, in sequence order: so each comes after whom it waits for.
pub(crate) fn ranges(store: &Store) -> Value {
    let ranges = store.replicas();
    ranges.iter().map(|replica| range(replica)).collect()
}

fn range(replica: &Replica) -> Value {
    let inspection = replica.latches().inspect();
    let all = &inspection.requests;
    let waits = |request: &&Inspected| matches!(request.state, State::Waiting { .. });
    let waiting = all.iter().filter(waits).count();
    json!({
        "range": replica.id().to_string(),
        "span": replica.span().to_string(),
        "holding": all.len() - waiting,
        "waiting": waiting,
        "requests": all.iter().take(TOLD).map(request).collect::<Value>(),
    })
}

fn request(inspected: &Inspected) -> Value {
    let latches = inspected.latches.iter().take(LATCHES_TOLD);
    let (elapsed, waits) = match &inspected.state {
        State::Waiting {
            elapsed,
            wants,
            on,
            conflict,
            head,
            ..
        } => {
            let (wants, conflict) = (wants.to_string(), conflict.to_string());
            let waits = json!({ "on": on, "head": head, "wants": wants, "conflict": conflict });
            (*elapsed, waits)
        }
        State::Holding { elapsed, .. } => (*elapsed, Value::Null),
        _ => (None, Value::Null),
    };
    json!({
        "request": inspected.request,
        "label": inspected.label,
        "poisoned": inspected.poisoned,
        "latches": latches.map(ToString::to_string).collect::<Value>(),
        "more_latches": inspected.latches.len().saturating_sub(LATCHES_TOLD),
        "seconds": elapsed.map(|elapsed| elapsed.as_secs_f64()),
        "waits": waits,
    })
}
