//! A way over TCP from one party to a node, each direction of which can be cut and slowed.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;

/// Listens, and passes on what comes to somebody else.
pub(super) struct Link {
    pub(super) address: SocketAddr,
    state: watch::Sender<State>,
}

/// What gets through. What does not waits, as what TCP sends again.
#[derive(Clone, Copy, Default)]
struct State {
    is_cut_there: bool,
    is_cut_back: bool,
    delay: Duration,
    /// How often all connections were broken.
    broken: u64,
}

impl Link {
    /// To who listens at `target`. Needs a runtime, whose end it lives to.
    pub(super) async fn to(target: String) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (state, watched) = watch::channel(State::default());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(pass(stream, target.clone(), watched.clone()));
            }
        });
        Ok(Self { address, state })
    }

    /// Nothing gets there any more.
    pub(super) fn cut_there(&self) {
        self.state.send_modify(|state| state.is_cut_there = true);
    }

    /// Nothing gets back any more.
    pub(super) fn cut_back(&self) {
        self.state.send_modify(|state| state.is_cut_back = true);
    }

    /// All takes so much longer.
    pub(super) fn slow(&self, delay: Duration) {
        self.state.send_modify(|state| state.delay = delay);
    }

    /// Ends all connections.
    pub(super) fn break_all(&self) {
        self.state.send_modify(|state| state.broken += 1);
    }

    /// Everything gets through, what was held back first.
    pub(super) fn heal(&self) {
        self.state.send_modify(|state| {
            *state = State {
                broken: state.broken,
                ..State::default()
            };
        });
    }
}

/// Passes on both ways of a connection until one ends.
async fn pass(stream: TcpStream, target: String, state: watch::Receiver<State>) {
    let Ok(other) = TcpStream::connect(target).await else {
        return;
    };
    // Nothing but speed is lost if it is refused.
    let _ = (stream.set_nodelay(true), other.set_nodelay(true));
    let (near_in, near_out) = stream.into_split();
    let (far_in, far_out) = other.into_split();
    let mut is_broken = state.clone();
    let broken = is_broken.borrow().broken;
    tokio::select! {
        () = pump(near_in, far_out, state.clone(), |state| state.is_cut_there) => {}
        () = pump(far_in, near_out, state, |state| state.is_cut_back) => {}
        _ = is_broken.wait_for(|state| state.broken != broken) => {}
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut state: watch::Receiver<State>,
    is_cut: fn(&State) -> bool,
) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let Ok(len @ 1..) = from.read(&mut buffer).await else {
            return;
        };
        let delay = state.borrow().delay;
        if !delay.is_zero() {
            sleep(delay).await;
        }
        if state.wait_for(|state| !is_cut(state)).await.is_err()
            || to.write_all(&buffer[..len]).await.is_err()
        {
            return;
        }
    }
}
