//! A way to a node: one connection, on which many calls are under way at once.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::{Mutex as AsyncMutex, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tracing::debug;

use crate::types::NodeId;
use crate::wire::{
    Call, End, GREETING_TIME, Hello, IN_FLIGHT, Incoming, Party, QUEUE, Said, TooLarge, Welcome,
    frame, ways,
};

/// How long after a failure to connect the next attempt is made at the earliest.
const PAUSE: Duration = Duration::from_millis(100);

/// A way to a node. It is connected when somebody first calls, and again when somebody calls after the connection broke.
pub(crate) struct Link {
    from: Party,
    to: NodeId,
    address: String,
    pause: Duration,
    /// Held while it is being connected; who calls meanwhile waits for that.
    state: AsyncMutex<State>,
}

#[derive(Default)]
struct State {
    connection: Option<Arc<Connection>>,
    /// When connecting failed last, and why.
    failed: Option<(Instant, String)>,
}

/// Why nothing was sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotSent {
    /// There is no connection.
    #[error("{0}")]
    Unreachable(String),
    /// It is too large.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

impl Link {
    pub(crate) fn new(from: Party, to: NodeId, address: String) -> Self {
        Self {
            from,
            to,
            address,
            pause: PAUSE,
            state: AsyncMutex::default(),
        }
    }

    /// The same way with another pause after a failure.
    #[cfg(test)]
    pub(crate) fn pausing(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }

    /// Where it leads.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Sends `call`. If this fails, or is dropped before it ends, nothing was sent.
    pub(crate) async fn send(&self, call: &Call) -> Result<Sent, NotSent> {
        let connection = self.connection().await.map_err(NotSent::Unreachable)?;
        connection.send(call).await
    }

    async fn connection(&self) -> Result<Arc<Connection>, String> {
        let mut state = self.state.lock().await;
        if let Some(connection) = &state.connection
            && connection.waiting.lock().ended.is_none()
        {
            return Ok(connection.clone());
        }
        state.connection = None;
        if let Some((at, reason)) = &state.failed
            && at.elapsed() < self.pause
        {
            return Err(reason.clone());
        }
        let connected = timeout(2 * GREETING_TIME, self.connect()).await;
        match connected.unwrap_or(Err(End::Silent)) {
            Ok(connection) => {
                state.failed = None;
                Ok(state.connection.insert(Arc::new(connection)).clone())
            }
            Err(end) => {
                let reason = format!("{}: {end}", self.address);
                state.failed = Some((Instant::now(), reason.clone()));
                Err(reason)
            }
        }
    }

    async fn connect(&self) -> Result<Connection, End> {
        let (mut incoming, mut outgoing) = ways(TcpStream::connect(&self.address).await?)?;
        let hello = Hello {
            from: self.from,
            to: self.to,
        };
        outgoing.greet(&hello).await?;
        match incoming.greeting::<Welcome>().await? {
            Ok(id) if id == self.to => {}
            Ok(id) => return Err(End::Misplaced(format!("it is node {id}, not {}", self.to))),
            Err(refusal) => return Err(End::Misplaced(refusal)),
        }
        let (frames, queue) = mpsc::channel(QUEUE);
        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let room = Arc::new(Semaphore::new(IN_FLIGHT));
        let mut task = JoinSet::new();
        let address = self.address.clone();
        let (told, closed) = (waiting.clone(), room.clone());
        task.spawn(async move {
            let ended = tokio::select! {
                end = hear(incoming, &told) => end,
                end = outgoing.write(queue) => end,
            };
            let end = ended.err().unwrap_or(End::Closed);
            debug!(%address, %end, "disconnected");
            told.lock().end(format!("{address}: {end}"));
            closed.close();
        });
        Ok(Connection {
            frames,
            waiting,
            room,
            next: AtomicU64::new(0),
            _task: task,
        })
    }
}

/// Gives what is said to those who wait for it.
async fn hear(mut incoming: Incoming, waiting: &Mutex<Waiting>) -> Result<(), End> {
    loop {
        let (number, said) = incoming.next().await?;
        let call = waiting.lock().calls.remove(&number);
        if let Some(call) = call {
            // Whoever does not wait any more need not be told.
            let _ = call.send(said);
        }
    }
}

/// A connection. When it is dropped, it is closed.
struct Connection {
    frames: mpsc::Sender<Bytes>,
    waiting: Arc<Mutex<Waiting>>,
    room: Arc<Semaphore>,
    /// The number of the next call.
    next: AtomicU64,
    _task: JoinSet<()>,
}

/// Those who wait for something to be said. Maps are looked up under its mutex, and nothing is sent.
#[derive(Default)]
struct Waiting {
    calls: HashMap<u64, oneshot::Sender<Said>>,
    /// Why nothing will be said any more.
    ended: Option<String>,
}

impl Waiting {
    fn end(&mut self, reason: String) {
        self.calls.clear();
        self.ended = Some(reason);
    }
}

impl Connection {
    async fn send(self: Arc<Self>, call: &Call) -> Result<Sent, NotSent> {
        let permit = self.room.clone().acquire_owned().await;
        let Ok(permit) = permit else {
            return Err(NotSent::Unreachable(self.reason()));
        };
        // Relaxed: numbers only have to differ.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let frame = frame(number, call)?;
        let (told, said) = oneshot::channel();
        self.waiting.lock().calls.insert(number, told);
        let mut sent = Sent {
            number,
            said,
            connection: self.clone(),
            takes_back: false,
            _permit: permit,
        };
        // Registered before this: so who is told of the end is either among those who wait, or sees the queue closed.
        if self.frames.send(frame).await.is_err() {
            return Err(NotSent::Unreachable(self.reason()));
        }
        sent.takes_back = matches!(call, Call::Batch(_));
        Ok(sent)
    }

    fn reason(&self) -> String {
        let ended = self.waiting.lock().ended.clone();
        ended.unwrap_or_else(|| End::Closed.to_string())
    }
}

/// A call that was sent. Resolves with what is said to it; or with the reason why nothing will be, and then nobody knows whether
/// it was received. Dropping it takes it back, if that is still possible.
pub(crate) struct Sent {
    number: u64,
    said: oneshot::Receiver<Said>,
    connection: Arc<Connection>,
    /// Whether the other is told when nobody waits any more.
    takes_back: bool,
    _permit: OwnedSemaphorePermit,
}

impl Future for Sent {
    type Output = Result<Said, String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let said = Pin::new(&mut self.said).poll(context);
        said.map_err(|_| self.connection.reason())
    }
}

impl Drop for Sent {
    /// Takes the mutex of those who wait.
    fn drop(&mut self) {
        let waits = self.connection.waiting.lock().calls.remove(&self.number);
        if waits.is_some()
            && self.takes_back
            && let Ok(frame) = frame(self.number, &Call::Forget)
        {
            // If there is no room for it, the call goes on.
            let _ = self.connection.frames.try_send(frame);
        }
    }
}
