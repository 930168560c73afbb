//! What a node tells people and monitoring.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use parking_lot::Mutex;
use serde_json::json;
use spanlatch::Manager;
use spanlatch_metrics::health::Health;
use spanlatch_metrics::{RegisterError, Registry, ReplicaMetrics};
use spanlatch_replica_raft::{Config, Node, Status};

use crate::latches::ranges;
use crate::metrics::Replication;

/// What `/` says.
const PATHS: &str = "\
GET /status    how the node is: its role, its log, and who leads
GET /metrics   OpenMetrics
GET /healthz   200, or 503 and what is wrong
GET /latches   who holds, who waits, and for whom; on the leader
";

/// How long a leader may go without hearing from most of the nodes before it is called unhealthy.
const SILENCE: Duration = Config::<Manager>::ELECTION_TIMEOUT.saturating_mul(2);

/// What is told.
#[derive(Debug)]
pub(crate) struct Http {
    node: Node,
    registry: Registry,
    replication: Replication,
    health: Mutex<Health>,
}

impl Http {
    /// Tells of `node`, whose stores report to `metrics`.
    pub(crate) fn new(node: Node, metrics: &ReplicaMetrics) -> Result<Self, RegisterError> {
        let mut registry = Registry::new();
        metrics.register(&mut registry, "")?;
        let replication = Replication::register(&mut registry, &node.status())?;
        Ok(Self {
            node,
            registry,
            replication,
            health: Mutex::default(),
        })
    }
}

/// All that is told.
pub(crate) fn router(http: Http) -> Router {
    Router::new()
        .route("/", get(PATHS))
        .route("/status", get(status))
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/latches", get(latches))
        .with_state(Arc::new(http))
}

async fn status(State(http): State<Arc<Http>>) -> impl IntoResponse {
    Json(http.node.status())
}

async fn metrics(State(http): State<Arc<Http>>) -> impl IntoResponse {
    http.replication.observe(&http.node.status());
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], http.registry.to_string())
}

async fn healthz(State(http): State<Arc<Http>>) -> impl IntoResponse {
    let mut alerts = complaints(&http.node.status());
    let of_metrics = http.health.lock().check(&http.registry);
    alerts.extend(of_metrics.iter().map(ToString::to_string));
    let code = match alerts.is_empty() {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    (code, Json(json!({ "alerts": alerts })))
}

async fn latches(State(http): State<Arc<Http>>) -> impl IntoResponse {
    match http.node.store() {
        Some(store) => (StatusCode::OK, Json(json!({ "ranges": ranges(&store) }))),
        None => {
            let Status { leader, peers, .. } = http.node.status();
            let listens = leader.and_then(|leader| peers.get(&leader).cloned());
            let told = json!({ "leader": leader, "listens": listens });
            (StatusCode::MISDIRECTED_REQUEST, Json(told))
        }
    }
}

/// What is wrong with a node's part in its group.
fn complaints(status: &Status) -> Vec<String> {
    let mut complaints = Vec::new();
    if let Some(failure) = &status.failure {
        complaints.push(format!("storage has failed: {failure}"));
    } else if status.leader.is_none() {
        complaints.push("no leader is known".to_owned());
    }
    if let Some(followed) = status.followed.filter(|&followed| followed > SILENCE) {
        complaints.push(format!("most nodes have not answered for {followed:?}"));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use spanlatch_replica_raft::Role;

    use super::*;

    fn healthy() -> Status {
        Status {
            id: 1,
            role: Role::Leader,
            serves: true,
            term: 1,
            leader: Some(1),
            last: None,
            applied: None,
            purged: None,
            followed: Some(SILENCE),
            matching: BTreeMap::new(),
            peers: BTreeMap::new(),
            failure: None,
        }
    }

    #[test]
    fn a_node_is_healthy_while_it_knows_who_leads_and_a_leader_while_it_is_followed() {
        assert_eq!(complaints(&healthy()), Vec::<String>::new());
        let complaint = |change: fn(&mut Status)| {
            let mut status = healthy();
            change(&mut status);
            complaints(&status).join("; ")
        };
        assert_eq!(complaint(|s| s.leader = None), "no leader is known");
        assert_eq!(
            complaint(|s| s.followed = Some(SILENCE * 2)),
            "most nodes have not answered for 4s"
        );
        assert_eq!(
            complaint(|s| (s.leader, s.failure) = (None, Some("disk".to_owned()))),
            "storage has failed: disk"
        );
    }
}
