//! Talks HTTP to the server, well and badly.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use spanlatch_metrics::{Registry, ReplicaMetrics};
use spanlatch_replica::Store;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::Apply;
use crate::server::{self, Limits, Server};

const LIMITS: Limits = Limits {
    max_value_bytes: 1_000,
    max_rows: 10,
    max_in_flight: 100,
    timeout: Duration::from_secs(60),
};

/// A server that listens.
struct Running {
    server: Arc<Server>,
    metrics: ReplicaMetrics,
    address: SocketAddr,
    /// Serves until it is dropped.
    _runtime: Runtime,
}

/// What it answered.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Running {
    fn start(apply: Apply, limits: Limits) -> Self {
        let metrics = ReplicaMetrics::default();
        let mut registry = Registry::new();
        metrics.register(&mut registry, "").unwrap();
        let (store, applier) = Store::builder()
            .splits(["m".into()])
            .metrics(metrics.clone())
            .max_value_bytes(limits.max_value_bytes)
            .max_in_flight(limits.max_in_flight)
            .build();
        let by_hand = match apply {
            Apply::ByHand => Some(applier),
            Apply::AtOnce => {
                thread::spawn(move || applier.run());
                None
            }
        };
        let server = Arc::new(Server::new(store, registry, limits, by_hand));
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let router = server::router(server.clone());
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self {
            server,
            metrics,
            address,
            _runtime: runtime,
        }
    }

    fn ask(&self, method: &str, path: &str, body: &[u8]) -> Answer {
        ask(self.address, method, path, body)
    }

    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, b"")
    }

    /// Asks from another thread, as the answer may take a while.
    fn ask_later(&self, method: &'static str, path: &'static str) -> thread::JoinHandle<Answer> {
        let address = self.address;
        thread::spawn(move || ask(address, method, path, b"later"))
    }

    /// Looks at the latches of a range until as many hold and wait.
    fn until(&self, range: usize, holding: u64, waiting: u64) -> Value {
        loop {
            let mut latches = self.get("/latches.json").json();
            let seen = latches["ranges"][range].take();
            if seen["holding"] == holding && seen["waiting"] == waiting {
                return seen;
            }
            thread::yield_now();
        }
    }
}

fn ask(address: SocketAddr, method: &str, path: &str, body: &[u8]) -> Answer {
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    say(address, &[head.as_bytes(), body].concat()).expect("an answer")
}

/// Sends bytes, whatever they are, and reads what comes until the server hangs up. `None` if it hung up without
/// an answer.
fn say(address: SocketAddr, bytes: &[u8]) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).unwrap();
    // The server may hang up before it has heard all.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    Answer::parse(&answer)
}

impl Answer {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let (first, rest) = head.split_once("\r\n").unwrap_or((head, ""));
        let header = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_lowercase(), value.to_owned())
        };
        Some(Self {
            status: first.split(' ').nth(1).unwrap().parse().unwrap(),
            headers: rest.lines().map(header).collect(),
            body: bytes[end + 4..].to_vec(),
        })
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn error(&self) -> String {
        self.json()["error"].as_str().unwrap().to_owned()
    }
}

#[test]
fn a_value_is_read_as_it_was_written() {
    let running = Running::start(Apply::AtOnce, LIMITS);
    let value: Vec<u8> = (0..=255).collect();
    let written = running.ask("PUT", "/keys/a%2F%00%FF", &value);
    assert_eq!(written.status, 204, "{written:?}");
    let read = running.get("/keys/a/%00%ff");
    assert_eq!((read.status, &read.body), (200, &value));
    assert_eq!(read.headers["content-type"], "application/octet-stream");
    let deleted = running.ask("DELETE", "/keys/a%2f%00%ff", b"");
    assert_eq!(deleted.status, 204);
    let missing = running.get("/keys/a%2F%00%FF");
    assert_eq!(missing.status, 404);
    assert_eq!(missing.error(), r#"nothing is at b"a/\0\xff""#);
    let at = &written.headers["x-timestamp"];
    let earlier = running.get(&format!("/keys/a%2F%00%FF?at={at}"));
    assert_eq!((earlier.status, &earlier.body), (200, &value));
}

#[test]
fn the_empty_key_is_a_key() {
    let running = Running::start(Apply::AtOnce, LIMITS);
    assert_eq!(running.ask("PUT", "/keys/", b"lowest").status, 204);
    assert_eq!(running.get("/keys/").body, b"lowest");
}

#[test]
fn a_scan_crosses_ranges_and_says_where_to_go_on() {
    let running = Running::start(Apply::AtOnce, LIMITS);
    for key in ["a", "l%20", "m", "z"] {
        running.ask("PUT", &format!("/keys/{key}"), b"1 2");
    }
    let all = running.get("/keys?start=b&end=zz").json();
    let keys = |answer: &Value| {
        let rows = answer["rows"].as_array().unwrap().iter();
        Vec::from_iter(rows.map(|row| row["key"].as_str().unwrap().to_owned()))
    };
    assert_eq!(keys(&all), ["l%20", "m", "z"]);
    assert_eq!(all["rows"][0]["value"], "1%202");
    assert_eq!(all["resume"], Value::Null);
    let first = running.get("/keys?limit=2").json();
    assert_eq!(keys(&first), ["a", "l%20"]);
    let start = first["resume"].as_str().unwrap();
    let rest = running.get(&format!("/keys?start={start}")).json();
    assert_eq!(keys(&rest), ["m", "z"]);
}

#[test]
fn a_scan_returns_no_more_rows_than_the_server_allows() {
    let running = Running::start(Apply::AtOnce, LIMITS);
    for key in 10..=20 {
        running.ask("PUT", &format!("/keys/{key}"), b"");
    }
    let scanned = running.get("/keys").json();
    assert_eq!(scanned["rows"].as_array().unwrap().len(), 10);
    assert_eq!(scanned["resume"], "19%00");
}

#[test]
fn bad_input_is_refused_and_named() {
    let running = Running::start(Apply::AtOnce, LIMITS);
    for (method, path, status, named) in [
        ("GET", "/keys/%zz", 400, "\"%zz\""),
        ("PUT", "/keys/a%4", 400, "\"a%4\""),
        ("GET", "/keys?limit=0", 400, "\"0\""),
        ("GET", "/keys?limit=11", 400, "\"11\""),
        ("GET", "/keys?limit=-1", 400, "\"-1\""),
        (
            "GET",
            "/keys?limit=99999999999999999999",
            400,
            "\"99999999999999999999\"",
        ),
        ("GET", "/keys?start=b&end=a", 400, "\"b\""),
        ("GET", "/keys?start=a&start=b", 400, "\"start\""),
        ("GET", "/keys?stop=a", 400, "\"stop\""),
        ("GET", "/keys/a?limit=1", 400, "\"limit\""),
        ("PUT", "/keys/a?at=5", 400, "\"at\""),
        ("GET", "/keys/a?at=noon", 400, "\"noon\""),
        ("GET", "/keys/a?at=1,-1", 400, "\"1,-1\""),
        (
            "GET",
            "/keys/a?at=18446744073709551615",
            400,
            "18446744073.709551615,0",
        ),
        ("GET", "/nowhere", 404, "\"/nowhere\""),
        ("POST", "/keys/a", 405, "POST"),
        ("DELETE", "/keys", 405, "DELETE"),
        ("POST", "/apply", 409, "--apply by-hand"),
    ] {
        let answer = running.ask(method, path, b"");
        let error = answer.error();
        assert_eq!(answer.status, status, "{method} {path}: {error}");
        assert!(error.contains(named), "{method} {path}: {error}");
        assert!(!error.contains('\n'), "{method} {path}: {error}");
    }
    assert!(running.server.store.is_idle());
    assert_eq!(running.get("/keys").json()["rows"], Value::Array(vec![]));
}

#[test]
fn a_value_may_be_as_large_as_allowed_and_no_larger() {
    let running = Running::start(Apply::AtOnce, LIMITS);
    let largest = vec![b'x'; LIMITS.max_value_bytes];
    assert_eq!(running.ask("PUT", "/keys/a", &largest).status, 204);
    let larger = vec![b'x'; LIMITS.max_value_bytes + 1];
    let refused = running.ask("PUT", "/keys/b", &larger);
    assert_eq!(refused.status, 413);
    assert_eq!(
        refused.error(),
        r#"the value for b"b" has more than 1000 bytes"#
    );
    // Without saying so in advance.
    let mut chunked = b"PUT /keys/b HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\
        transfer-encoding: chunked\r\n\r\n3e9\r\n"
        .to_vec();
    chunked.extend_from_slice(&larger);
    chunked.extend_from_slice(b"\r\n0\r\n\r\n");
    assert_eq!(say(running.address, &chunked).unwrap().status, 413);
    assert_eq!(running.get("/keys/b").status, 404);
}

#[test]
fn what_is_no_http_is_refused_and_harms_nobody() {
    let running = Running::start(Apply::AtOnce, LIMITS);
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(1 << 20));
    let headers = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(1_000));
    for bytes in [
        &b"\r\n\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/7.3\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"\0\0\0\0\0\0\0\0\r\n\r\n",
        b"PUT /keys/a HTTP/1.1\r\ncontent-length: -5\r\n\r\n",
        b"PUT /keys/a HTTP/1.1\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
        b"PUT /keys/a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET /keys/\xff\xfe HTTP/1.1\r\nconnection: close\r\n\r\n",
        long.as_bytes(),
        headers.as_bytes(),
    ] {
        let mut stream = TcpStream::connect(running.address).unwrap();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        if let Some(answer) = Answer::parse(&heard) {
            let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]);
            assert!((400..500).contains(&answer.status), "{shown}: {answer:?}");
        }
        assert_eq!(running.get("/").status, 200);
    }
    assert_eq!(running.get("/keys/a").status, 404);
}

#[test]
fn a_body_that_does_not_come_is_not_waited_for_long() {
    let limits = Limits {
        timeout: Duration::from_millis(20),
        ..LIMITS
    };
    let running = Running::start(Apply::AtOnce, limits);
    let half = b"PUT /keys/a HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhalf";
    let answer = say(running.address, half).unwrap();
    assert_eq!(answer.status, 408);
    assert_eq!(
        answer.error(),
        r#"the value for b"a" did not come within 20ms"#
    );
    assert_eq!(running.get("/keys/a").status, 404);
}

#[test]
fn many_clients_are_served_at_once() {
    let running = Running::start(
        Apply::AtOnce,
        Limits {
            max_rows: 500,
            ..LIMITS
        },
    );
    thread::scope(|scope| {
        for client in 0..8 {
            let running = &running;
            scope.spawn(move || {
                for n in 10..40 {
                    let path = format!("/keys/{client}{n}");
                    assert_eq!(running.ask("PUT", &path, path.as_bytes()).status, 204);
                    assert_eq!(running.get(&path).body, path.as_bytes());
                    assert_eq!(running.get("/keys").status, 200);
                    assert_eq!(running.ask("PUT", "/keys/all", path.as_bytes()).status, 204);
                }
            });
        }
    });
    let rows = running.get("/keys").json()["rows"].take();
    assert_eq!(rows.as_array().unwrap().len(), 8 * 30 + 1);
}

#[test]
fn the_latches_show_who_waits_for_whom() {
    let running = Running::start(Apply::ByHand, LIMITS);
    let first = running.ask_later("PUT", "/keys/x");
    running.until(1, 1, 0);
    let second = running.ask_later("PUT", "/keys/x");
    running.until(1, 1, 1);
    let third = running.ask_later("GET", "/keys/x");
    let seen = running.until(1, 1, 2);
    let requests = seen["requests"].as_array().unwrap();
    let waits = |at: usize| {
        let waits = &requests[at]["waits"];
        (waits["on"].as_u64(), waits["head"].as_u64())
    };
    assert_eq!(
        (waits(0), waits(1), waits(2)),
        ((None, None), (Some(0), Some(0)), (Some(1), Some(0)))
    );
    assert_eq!(requests[0]["behind"], 2);
    assert_eq!(seen["span"], r#"["m", ..)"#);

    assert_eq!(running.ask("POST", "/apply", b"").json()["applied"], 1);
    assert_eq!(first.join().unwrap().status, 204);
    running.until(1, 1, 1);
    assert_eq!(running.ask("POST", "/apply", b"").json()["applied"], 1);
    assert_eq!(second.join().unwrap().status, 204);
    assert_eq!(third.join().unwrap().body, b"later");
    running.until(1, 0, 0);
}

#[test]
fn who_waits_too_long_is_told_what_came_of_it() {
    let limits = Limits {
        timeout: Duration::from_millis(50),
        ..LIMITS
    };
    let running = Running::start(Apply::ByHand, limits);
    let proposed = running.ask("PUT", "/keys/a", b"1");
    assert_eq!(proposed.status, 504, "{proposed:?}");
    assert_eq!(proposed.json()["action"], "find out");
    let waited = running.get("/keys/a");
    assert_eq!(waited.status, 503, "{waited:?}");
    assert_eq!(waited.json()["action"], "retry");
    assert_eq!(waited.headers["retry-after"], "1");
    // The proposal did not go away with its client.
    running.ask("POST", "/apply", b"");
    assert_eq!(running.get("/keys/a").body, b"1");
}

#[test]
fn more_than_the_server_admits_are_told_to_retry() {
    let limits = Limits {
        max_in_flight: 1,
        ..LIMITS
    };
    let running = Running::start(Apply::ByHand, limits);
    let first = running.ask_later("PUT", "/keys/a");
    running.until(0, 1, 0);
    let refused = running.get("/keys/b");
    assert_eq!(
        (refused.status, refused.headers["retry-after"].as_str()),
        (429, "1")
    );
    running.ask("POST", "/apply", b"");
    assert_eq!(first.join().unwrap().status, 204);
}

#[test]
fn when_it_ends_those_who_wait_are_refused_and_what_is_proposed_is_applied() {
    let running = Running::start(Apply::ByHand, LIMITS);
    let proposed = running.ask_later("PUT", "/keys/a");
    running.until(0, 1, 0);
    let waiting = running.ask_later("GET", "/keys/a");
    running.until(0, 1, 1);
    running.server.end();
    assert_eq!(proposed.join().unwrap().status, 204);
    let refused = waiting.join().unwrap();
    assert_eq!(refused.status, 503);
    assert_eq!(refused.error(), "the store is shutting down");
    assert!(running.server.has_ended());
}

#[test]
fn metrics_are_open_metrics() {
    let running = Running::start(Apply::AtOnce, LIMITS);
    running.ask("PUT", "/keys/a", b"1");
    let metrics = running.get("/metrics");
    assert_eq!(
        metrics.headers["content-type"],
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    let text = String::from_utf8(metrics.body).unwrap();
    assert!(
        text.contains("\nrequests_total{outcome=\"success\"} 1\n"),
        "{text}"
    );
    assert!(text.ends_with("# EOF\n"), "{text}");
}

#[test]
fn health_is_bad_while_a_request_is_slow() {
    let running = Running::start(Apply::AtOnce, LIMITS);
    assert_eq!(running.get("/healthz").status, 200);
    let share = running.metrics.slow_latch.share();
    share.inc();
    let sick = running.get("/healthz");
    assert_eq!(sick.status, 503);
    assert_eq!(
        sick.json()["alerts"][0],
        "requests.slow.latch is 1, above 0"
    );
    drop(share);
    assert_eq!(running.get("/healthz").status, 200);
}

#[test]
fn nothing_is_taken_for_a_page_but_the_page() {
    let running = Running::start(Apply::AtOnce, LIMITS);
    running.ask("PUT", "/keys/a", b"<script>alert(1)</script>");
    let value = running.get("/keys/a");
    assert_eq!(value.headers["x-content-type-options"], "nosniff");
    let page = running.get("/latches");
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    assert!(page.headers["content-security-policy"].starts_with("default-src 'none'"));
    let text = String::from_utf8(page.body).unwrap();
    assert!(!text.contains("http://") && !text.contains("https://"));
}
