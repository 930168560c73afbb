//! The page of latches in a real browser: a request that waits appears with whom it waits for and goes when it is served.
//!
//! It starts the example server as a program and a browser through its driver, by the W3C protocol WebDriver
//! (<https://www.w3.org/TR/webdriver2>), of which it needs four commands: JSON over HTTP.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long anything may take until it is on the page. The page looks twice a second; the rest is for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks, so that the browser has the processor.
const PAUSE: Duration = Duration::from_millis(50);

/// What a browser needs in order to start as root, without a screen, and to ask for nothing but the page.
const BROWSER: [&str; 8] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

/// A key that would be markup, if the page took it for that.
const KEY: &str = "<img src=x>";
const PATH: &str = "/keys/%3Cimg%20src%3Dx%3E";

/// What the page shows, gathered by the page itself.
const LOOK: &str = r#"
    const requests = [...document.querySelectorAll("li[data-request]")].map((item) => ({
        range: item.closest("section").dataset.range,
        request: item.dataset.request,
        state: item.dataset.state,
        on: item.dataset.on ?? null,
        head: item.dataset.head ?? null,
        under: item.parentElement.closest("li")?.dataset.request ?? null,
        text: item.querySelector(".row").innerText,
    }));
    return {
        requests,
        totals: document.querySelector("[id=totals]").innerText,
        live: document.querySelector("[id=live]").className,
        idle: document.querySelectorAll("section.idle").length,
        images: document.images.length,
    };
"#;

/// What was seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Covered {
    /// How often it showed what it should.
    pub shown: u64,
    /// How often the page was looked at.
    pub looks: u64,
}

/// Drives the page through a story.
///
/// # Errors
///
/// What is missing on this machine, or what the page did not show.
pub fn run() -> Result<Covered, String> {
    let mut driver = Driver::start()?;
    let server = Server::start()?;
    let address = server.address;
    driver.open(&format!("http://{address}/latches"))?;

    driver.until("two idle ranges", |page| page["idle"] == 2)?;
    let first = ask_later(address, "PUT", PATH);
    driver.until("the first write, holding", |page| {
        shows(page, 0, "holding", Value::Null, Value::Null)
    })?;
    let second = ask_later(address, "PUT", PATH);
    driver.until("the second write, behind the first", |page| {
        shows(page, 1, "waiting", json!("0"), json!("0")) && says(page, 1, "waits for #0")
    })?;
    let third = ask_later(address, "GET", PATH);
    let page = driver.until("a read behind the second write, and its head", |page| {
        shows(page, 2, "waiting", json!("1"), json!("0"))
            && says(page, 2, "waits for #1")
            && says(page, 2, "head #0")
            && says(page, 0, "2 wait behind it")
    })?;
    if !says(&page, 2, KEY) || page["images"] != 0 {
        return Err(format!("a key is not shown as it is: {page:#}"));
    }

    driver.click("#apply")?;
    driver.until("the second write, holding", |page| {
        page["requests"].as_array().map(Vec::len) == Some(2)
            && shows(page, 1, "holding", Value::Null, Value::Null)
            && shows(page, 2, "waiting", json!("1"), json!("1"))
    })?;
    expect(first, 204)?;
    driver.click("#apply")?;
    driver.until("two idle ranges", |page| page["idle"] == 2)?;
    expect(second, 204)?;
    expect(third, 200)?;

    server.end()?;
    driver.until("that the server does not answer", |page| {
        page["live"] == "lost"
    })?;
    Ok(driver.covered)
}

/// Whether a request of the first range is shown as it should be, under the one that it waits for.
fn shows(page: &Value, request: u64, state: &str, on: Value, head: Value) -> bool {
    find(page, request).is_some_and(|shown| {
        shown["state"] == state
            && shown["on"] == on
            && shown["head"] == head
            && shown["under"] == on
    })
}

fn says(page: &Value, request: u64, text: &str) -> bool {
    let shown = find(page, request).and_then(|shown| shown["text"].as_str());
    shown.is_some_and(|shown| shown.contains(text))
}

fn find(page: &Value, request: u64) -> Option<&Value> {
    let number = request.to_string();
    let mut requests = page["requests"].as_array()?.iter();
    requests.find(|shown| shown["range"] == "r0" && shown["request"] == number.as_str())
}

/// The example server, which ends with its standard input.
struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
    fn start() -> Result<Self, String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let arguments = "run --quiet --locked -p spanlatch-replica --example serve -- \
            --listen 127.0.0.1:0 --splits m --apply by-hand --timeout 10m";
        let mut process = Command::new(cargo)
            .args(arguments.split_whitespace())
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start the server: {error}"))?;
        let said = said(&mut process.stdout, "listening on http://");
        let Some(address) = said.and_then(|address| address.parse().ok()) else {
            return Err("the server does not say where it listens".to_owned());
        };
        Ok(Self { process, address })
    }

    /// Closes its standard input and waits for it.
    fn end(mut self) -> Result<(), String> {
        drop(self.process.stdin.take());
        match self.process.wait() {
            Ok(status) if status.success() => Ok(()),
            ended => Err(format!("the server did not end well: {ended:?}")),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// A browser that is driven, and the program that drives it.
struct Driver {
    process: Child,
    address: SocketAddr,
    session: String,
    covered: Covered,
}

impl Driver {
    fn start() -> Result<Self, String> {
        let mut process = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| {
                format!(
                    "cannot start chromedriver ({error}); on Debian: apt-get install chromium chromium-driver"
                )
            })?;
        let said = said(&mut process.stdout, "started successfully on port ");
        let port = said.and_then(|port| port.trim_end_matches('.').parse().ok());
        let mut driver = Self {
            process,
            address: SocketAddr::from(([127, 0, 0, 1], port.unwrap_or(0))),
            session: String::new(),
            covered: Covered::default(),
        };
        if port.is_none() {
            return Err("chromedriver does not say where it listens".to_owned());
        }
        let options = json!({ "goog:chromeOptions": { "args": BROWSER } });
        let body = json!({ "capabilities": { "alwaysMatch": options } });
        let session = driver.command("POST", "", &body).map_err(|error| {
            format!(
                "{error}\nis there a browser? on Debian: apt-get install chromium chromium-driver"
            )
        })?;
        match session["sessionId"].as_str() {
            Some(id) => driver.session = format!("/{id}"),
            None => return Err(format!("the driver has started no browser: {session}")),
        }
        Ok(driver)
    }

    fn open(&self, url: &str) -> Result<(), String> {
        self.command("POST", "/url", &json!({ "url": url }))
            .map(drop)
    }

    fn click(&self, selector: &str) -> Result<(), String> {
        let by = json!({ "using": "css selector", "value": selector });
        let found = self.command("POST", "/element", &by)?;
        let element = found.as_object().and_then(|found| found.values().next());
        let element = element.and_then(Value::as_str).unwrap_or("");
        self.command("POST", &format!("/element/{element}/click"), &json!({}))
            .map(drop)
    }

    /// Looks at the page until it shows what it should.
    fn until(&mut self, what: &str, shown: impl Fn(&Value) -> bool) -> Result<Value, String> {
        let start = Instant::now();
        loop {
            let script = json!({ "script": LOOK, "args": [] });
            let page = self.command("POST", "/execute/sync", &script)?;
            self.covered.looks += 1;
            if shown(&page) {
                self.covered.shown += 1;
                return Ok(page);
            }
            if start.elapsed() > PATIENCE {
                return Err(format!("the page does not show {what}, but {page:#}"));
            }
            thread::sleep(PAUSE);
        }
    }

    fn command(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let path = format!("/session{}{path}", self.session);
        let (status, answer) = ask(self.address, method, &path, &body.to_string())?;
        let mut answer: Value = serde_json::from_slice(&answer)
            .map_err(|error| format!("the driver answered no JSON to {path}: {error}"))?;
        let value = answer["value"].take();
        match status {
            200 => Ok(value),
            _ => Err(format!("the driver refused {method} {path}: {value:#}")),
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Which ends the browser.
        if !self.session.is_empty() {
            let _ = self.command("DELETE", "", &json!({}));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The rest of the first line that has `after`. What the program says later is read and forgotten, so that it does not
/// block.
fn said(output: &mut Option<ChildStdout>, after: &str) -> Option<String> {
    let mut lines = BufReader::new(output.take()?).lines();
    let said = lines.by_ref().map_while(Result::ok).find_map(|line| {
        let (_, rest) = line.split_once(after)?;
        Some(rest.to_owned())
    });
    thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    said
}

type Asked = thread::JoinHandle<Result<(u16, Vec<u8>), String>>;

fn ask_later(address: SocketAddr, method: &'static str, path: &'static str) -> Asked {
    thread::spawn(move || ask(address, method, path, "later"))
}

fn expect(asked: Asked, status: u16) -> Result<(), String> {
    match asked.join().map_err(|_| "a client panicked")?? {
        (got, _) if got == status => Ok(()),
        (got, body) => Err(format!("{got}: {}", String::from_utf8_lossy(&body))),
    }
}

/// Asks by HTTP, and returns status and body of the answer.
fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: &str,
) -> Result<(u16, Vec<u8>), String> {
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    let answered = TcpStream::connect(address).and_then(|mut stream| {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(request.as_bytes())?;
        answer(&mut BufReader::new(stream))
    });
    answered.map_err(|error| format!("{method} http://{address}{path}: {error}"))
}

/// Reads an answer. The driver leaves the connection open, so the body is as long as the head says.
fn answer(stream: &mut impl BufRead) -> io::Result<(u16, Vec<u8>)> {
    let (mut status, mut length) = (None, 0);
    for line in stream.by_ref().lines() {
        let line = line?;
        if status.is_none() {
            status = line
                .split(' ')
                .nth(1)
                .and_then(|status| status.parse().ok());
        } else if let Some((name, value)) = line.split_once(':') {
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
        } else {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    let status = status.ok_or_else(|| io::Error::other("that is no answer"))?;
    Ok((status, body))
}
