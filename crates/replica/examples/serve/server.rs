//! The server: what is served under which path.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{self, DefaultBodyLimit, FromRequest, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::map_response;
use axum::response::{self, Html, IntoResponse};
use axum::routing::{get, post};
use axum::{Json, Router};
use parking_lot::Mutex;
use serde_json::json;
use spanlatch_metrics::Registry;
use spanlatch_metrics::health::Health;
use spanlatch_replica::{Applier, Batch, Reply, Request, Response, Store};

use crate::failure::Failure;
use crate::keys::{Query, decode, encode, timestamp};
use crate::latches::Picture;

/// When a batch took place, as the parameter `at` takes it.
const TIMESTAMP: HeaderName = HeaderName::from_static("x-timestamp");

/// What `/` says.
const PATHS: &str = "\
GET    /keys/KEY       what the key holds
PUT    /keys/KEY       writes the body to the key
DELETE /keys/KEY       writes that the key holds nothing
GET    /keys           the rows from ?start= up to ?end=, at most ?limit=
POST   /apply          applies what is proposed, where that is done by hand
GET    /latches        who holds, who waits, and for whom: a page
GET    /latches.json   the same as data
GET    /metrics        OpenMetrics
GET    /healthz        200, or 503 and what is wrong
Keys are percent-encoded bytes. Reads take ?at=, a timestamp as the header x-timestamp tells it.
";

/// What it accepts.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Limits {
    /// The largest value, in bytes
    #[arg(long, default_value_t = 256 << 10)]
    pub(crate) max_value_bytes: usize,
    /// The most rows of a scan
    #[arg(long, default_value_t = 1_000)]
    pub(crate) max_rows: usize,
    /// The most requests in flight
    #[arg(long, default_value_t = 1_024)]
    pub(crate) max_in_flight: usize,
    /// How long a body, and then latches and the proposal, are waited for
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Duration,
}

/// What is served.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) store: Store,
    registry: Registry,
    health: Mutex<Health>,
    limits: Limits,
    /// If it applies by hand, until it ends.
    applier: Mutex<Option<Applier>>,
    ended: AtomicBool,
}

impl Server {
    /// Serves `store`, whose metrics are in `registry`. Given an `applier`, it applies when asked to; else
    /// somebody else runs it.
    pub(crate) fn new(
        store: Store,
        registry: Registry,
        limits: Limits,
        applier: Option<Applier>,
    ) -> Self {
        Self {
            store,
            registry,
            health: Mutex::default(),
            limits,
            applier: Mutex::new(applier),
            ended: AtomicBool::new(false),
        }
    }

    /// Refuses those who come and those who wait for latches; what has been proposed is applied.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.store.shut_down();
        if let Some(applier) = self.applier.lock().take() {
            applier.run();
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    async fn send(&self, batch: impl Into<Batch>) -> Result<Reply, Failure> {
        let too_late = tokio::time::sleep(self.limits.timeout);
        Ok(self.store.send_until(too_late, batch).await?)
    }
}

/// All that is served.
pub(crate) fn router(server: Arc<Server>) -> Router {
    let keys = get(read).put(write).delete(delete);
    Router::new()
        .route("/", get(PATHS))
        .route("/keys", get(scan))
        .route("/keys/", keys.clone())
        .route("/keys/{*key}", keys)
        .route("/apply", post(apply))
        .route("/latches", get(page))
        .route("/latches.json", get(latches))
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(DefaultBodyLimit::max(server.limits.max_value_bytes))
        .layer(map_response(nothing_from_elsewhere))
        .with_state(server)
}

type Served<T> = Result<T, Failure>;

/// What a key holds.
async fn read(State(server): State<Arc<Server>>, uri: Uri) -> Served<impl IntoResponse> {
    let query = Query::parse(uri.query(), &["at"]).map_err(Failure::bad_request)?;
    let mut batch = Batch::new().with(Request::get(key(&uri)?));
    if let Some(at) = query.at().map_err(Failure::bad_request)? {
        batch = batch.at(at);
    }
    let reply = server.send(batch).await?;
    match reply.responses.into_iter().next() {
        Some(Response::Value(Some(value))) => Ok((
            [
                (TIMESTAMP, timestamp(reply.timestamp)),
                (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
            ],
            value,
        )),
        _ => Err(Failure::refused(
            StatusCode::NOT_FOUND,
            format!("nothing is at {:?}", key(&uri)?),
        )),
    }
}

/// Writes the body to a key.
async fn write(
    State(server): State<Arc<Server>>,
    request: extract::Request,
) -> Served<impl IntoResponse> {
    let uri = request.uri().clone();
    Query::parse(uri.query(), &[]).map_err(Failure::bad_request)?;
    let key = key(&uri)?;
    let (limit, timeout) = (server.limits.max_value_bytes, server.limits.timeout);
    let body = tokio::time::timeout(timeout, Bytes::from_request(request, &())).await;
    let value = match body {
        Ok(Ok(value)) => value,
        Ok(Err(error)) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            return Err(Failure::refused(
                error.status(),
                format!("the value for {key:?} has more than {limit} bytes"),
            ));
        }
        Ok(Err(error)) => return Err(Failure::refused(error.status(), error.body_text())),
        Err(_) => {
            return Err(Failure::refused(
                StatusCode::REQUEST_TIMEOUT,
                format!("the value for {key:?} did not come within {timeout:?}"),
            )
            .retried());
        }
    };
    server.written(Request::put(key, value)).await
}

/// Writes that a key holds nothing.
async fn delete(State(server): State<Arc<Server>>, uri: Uri) -> Served<impl IntoResponse> {
    Query::parse(uri.query(), &[]).map_err(Failure::bad_request)?;
    server.written(Request::delete(key(&uri)?)).await
}

impl Server {
    async fn written(&self, request: Request) -> Served<impl IntoResponse + use<>> {
        let reply = self.send(request).await?;
        Ok((
            StatusCode::NO_CONTENT,
            [(TIMESTAMP, timestamp(reply.timestamp))],
        ))
    }
}

/// The rows of a span.
async fn scan(State(server): State<Arc<Server>>, uri: Uri) -> Served<impl IntoResponse> {
    let query = Query::parse(uri.query(), &["start", "end", "limit", "at"]);
    let query = query.map_err(Failure::bad_request)?;
    let span = query.span().map_err(Failure::bad_request)?;
    let limit = query.limit(server.limits.max_rows);
    let limit = limit.map_err(Failure::bad_request)?;
    let mut batch = Batch::new().with(Request::scan(span).limited(limit));
    if let Some(at) = query.at().map_err(Failure::bad_request)? {
        batch = batch.at(at);
    }
    let reply = server.send(batch).await?;
    let Some(Response::Rows { rows, resume }) = reply.responses.into_iter().next() else {
        return Err(Failure::refused(
            StatusCode::INTERNAL_SERVER_ERROR,
            "a scan was answered with something else than rows",
        ));
    };
    let rows = rows
        .iter()
        .map(|(key, value)| json!({ "key": encode(key), "value": encode(value) }));
    Ok(Json(json!({
        "timestamp": timestamp(reply.timestamp),
        "rows": Vec::from_iter(rows),
        // Where the next scan is to start; there may be nothing.
        "resume": resume.map(|span| encode(span.start())),
    })))
}

/// Applies what is proposed, if nobody else does.
async fn apply(State(server): State<Arc<Server>>) -> Served<impl IntoResponse> {
    match &mut *server.applier.lock() {
        Some(applier) => Ok(Json(json!({ "applied": applier.step() }))),
        None => Err(Failure::refused(
            StatusCode::CONFLICT,
            "nothing is applied by hand here; start the server with --apply by-hand",
        )),
    }
}

async fn page() -> impl IntoResponse {
    Html(include_str!("latches.html"))
}

async fn latches(State(server): State<Arc<Server>>) -> impl IntoResponse {
    let by_hand = server.applier.lock().is_some();
    Json(Picture::of(&server.store, by_hand))
}

async fn metrics(State(server): State<Arc<Server>>) -> impl IntoResponse {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], server.registry.to_string())
}

async fn healthz(State(server): State<Arc<Server>>) -> impl IntoResponse {
    let alerts = server.health.lock().check(&server.registry);
    let alerts = Vec::from_iter(alerts.iter().map(ToString::to_string));
    let status = match alerts.is_empty() {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, Json(json!({ "alerts": alerts })))
}

async fn unknown_path(uri: Uri) -> Failure {
    let path = uri.path();
    Failure::refused(
        StatusCode::NOT_FOUND,
        format!("there is no {path:?}; / says what there is"),
    )
}

async fn unknown_method(method: Method, uri: Uri) -> Failure {
    let path = uri.path();
    Failure::refused(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{path:?} cannot be asked to {method}; / says what it can"),
    )
}

/// Pages use nothing but what this server sends, values are never taken for pages, and nothing is kept.
async fn nothing_from_elsewhere(mut response: response::Response) -> response::Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; connect-src 'self'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The key in a path.
fn key(uri: &Uri) -> Served<spanset::Key> {
    let path = uri.path();
    decode(path.strip_prefix("/keys/").unwrap_or(path)).map_err(Failure::bad_request)
}
