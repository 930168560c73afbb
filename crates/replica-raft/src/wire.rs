//! What goes over a connection: a greeting each way, then calls one way, and what is said to them the other.

use std::fmt;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use socket2::{SockRef, TcpKeepalive};
use spanlatch_replica::{Batch, Error, Reply, Request};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio_util::codec::{FramedRead, FramedWrite, LengthDelimitedCodec};

use crate::transport::{Answer, Message};
use crate::types::NodeId;

/// The largest frame, in bytes.
pub(crate) const MAX_FRAME: usize = 16 << 20;
/// The largest greeting, in bytes. Nothing larger is read of somebody who has not said who it is.
const MAX_GREETING: usize = 1 << 10;
/// How many calls of a connection are in flight at most. The caller keeps to it, so that what it takes back is read in time; the
/// other reads no more when it has so many.
pub(crate) const IN_FLIGHT: usize = 1024;
/// How many frames wait for the connection to take them.
pub(crate) const QUEUE: usize = 64;
/// How long a party may take to say who it is.
pub(crate) const GREETING_TIME: Duration = Duration::from_secs(2);
/// How many bytes are gathered before they are written.
const GATHERED: usize = 64 << 10;
/// How long a connection may be silent before the system asks whether the other is still there.
const SILENCE: Duration = Duration::from_secs(10);
/// How often it asks then.
const ASKING: Duration = Duration::from_secs(5);
/// How long what was sent may lack the other system's receipt.
#[cfg(target_os = "linux")]
const RECEIPT: Duration = Duration::from_secs(10);

/// Says whose protocol it is.
const MAGIC: [u8; 8] = *b"spanlatc";
/// Says which. It changes with whatever is sent.
const VERSION: u32 = 1;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Party {
    /// A node.
    Node(NodeId),
    /// A client.
    Client,
}

/// What whoever connects says first.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// Who it is.
    pub(crate) from: Party,
    /// Whom it means to reach.
    pub(crate) to: NodeId,
}

/// What the other says to that: who it is, or why it will not talk.
pub(crate) type Welcome = Result<NodeId, String>;

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Call {
    /// By another node.
    Message(Message),
    /// By a client.
    Batch(Batch),
    /// By a client that no longer waits for the batch of this number. Nothing is said to it.
    Forget,
}

/// What is said to a [`Call`] of the same number.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Said {
    /// To a message.
    Answer(Result<Answer, String>),
    /// To a batch.
    Reply(Result<Reply, Error>),
}

/// Why a connection is not used any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum End {
    /// The other has closed it.
    #[error("the connection was closed")]
    Closed,
    /// It broke, or a frame was too large.
    #[error("{0}")]
    Broken(#[from] io::Error),
    /// The other has nothing to do with us.
    #[error("the other does not speak the protocol")]
    Foreign,
    /// The other speaks another version.
    #[error("the other speaks version {0} of the protocol, not version {VERSION}")]
    Version(u32),
    /// A frame says nothing.
    #[error("a frame that cannot be read: {0}")]
    Unreadable(#[from] postcard::Error),
    /// A frame says more than one thing.
    #[error("a frame with {0} bytes too many")]
    TooLong(usize),
    /// It took too long to say who it is.
    #[error("no greeting within {GREETING_TIME:?}")]
    Silent,
    /// It says what it must not.
    #[error("{0}")]
    Misplaced(String),
}

/// A frame that would be too large.
#[derive(Debug, thiserror::Error)]
#[error("a message of {size} bytes is larger than {MAX_FRAME}")]
pub(crate) struct TooLarge {
    pub(crate) size: usize,
}

/// The way in of a connection.
pub(crate) struct Incoming(FramedRead<OwnedReadHalf, LengthDelimitedCodec>);

/// The way out of a connection.
pub(crate) struct Outgoing(FramedWrite<OwnedWriteHalf, LengthDelimitedCodec>);

/// The two ways of a connection.
pub(crate) fn ways(stream: TcpStream) -> io::Result<(Incoming, Outgoing)> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(&stream);
    // Whoever has gone without a word is noticed: on a connection that is silent, and on one where nothing is received any more.
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(SILENCE).with_interval(ASKING))?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(RECEIPT))?;
    let (read, write) = stream.into_split();
    let codec = |max| {
        LengthDelimitedCodec::builder()
            .max_frame_length(max)
            .new_codec()
    };
    let incoming = FramedRead::new(read, codec(MAX_GREETING));
    let mut outgoing = FramedWrite::new(write, codec(MAX_FRAME));
    outgoing.set_backpressure_boundary(GATHERED);
    Ok((Incoming(incoming), Outgoing(outgoing)))
}

impl Incoming {
    /// The next frame: the number of a call, and what is asked or said. May be dropped and called again.
    pub(crate) async fn next<T: DeserializeOwned>(&mut self) -> Result<(u64, T), End> {
        let frame = self.0.next().await.ok_or(End::Closed)??;
        whole(&frame)
    }

    /// The other's greeting.
    pub(crate) async fn greeting<T: DeserializeOwned>(&mut self) -> Result<T, End> {
        let frame = tokio::time::timeout(GREETING_TIME, self.0.next()).await;
        let frame = frame.map_err(|_| End::Silent)?.ok_or(End::Closed)??;
        let (magic, rest) = frame.split_first_chunk().ok_or(End::Foreign)?;
        let (version, rest) = rest.split_first_chunk().ok_or(End::Foreign)?;
        if *magic != MAGIC {
            return Err(End::Foreign);
        }
        match u32::from_be_bytes(*version) {
            VERSION => {}
            other => return Err(End::Version(other)),
        }
        self.0.decoder_mut().set_max_frame_length(MAX_FRAME);
        whole(rest)
    }
}

fn whole<T: DeserializeOwned>(frame: &[u8]) -> Result<T, End> {
    match postcard::take_from_bytes(frame)? {
        (read, []) => Ok(read),
        (_, rest) => Err(End::TooLong(rest.len())),
    }
}

impl Outgoing {
    /// Greets the other.
    pub(crate) async fn greet<T: Serialize>(&mut self, greeting: &T) -> Result<(), End> {
        let mut frame = MAGIC.to_vec();
        frame.extend(VERSION.to_be_bytes());
        frame.extend(postcard::to_stdvec(greeting)?);
        Ok(self.0.send(Bytes::from(frame)).await?)
    }

    /// Writes the frames that come out of `queue`, until no more can come or the connection breaks.
    pub(crate) async fn write(mut self, mut queue: mpsc::Receiver<Bytes>) -> Result<(), End> {
        while let Some(frame) = queue.recv().await {
            self.0.feed(frame).await?;
            while let Ok(frame) = queue.try_recv() {
                self.0.feed(frame).await?;
            }
            SinkExt::<Bytes>::flush(&mut self.0).await?;
        }
        Ok(())
    }
}

/// The frame of a call, or of what is said to it.
pub(crate) fn frame<T: Serialize>(number: u64, content: &T) -> Result<Bytes, TooLarge> {
    let frame = postcard::to_stdvec(&(number, content)).expect("a vector takes all bytes");
    match frame.len() {
        size if size > MAX_FRAME => Err(TooLarge { size }),
        _ => Ok(frame.into()),
    }
}

/// Whether a batch can change a key.
pub(crate) fn writes(batch: &Batch) -> bool {
    batch.requests().iter().any(Request::is_write)
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(id) => write!(f, "node {id}"),
            Self::Client => f.write_str("a client"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use spanset::{Span, Timestamp};

    use super::*;

    fn batch() -> Batch {
        let scan = Request::scan(Span::range("a", "b").expect("ascending"));
        Batch::from(scan.limited(5))
            .with(Request::conditional_put("k", Some("x".into()), "y"))
            .at(Timestamp::new(5, 6))
    }

    #[test]
    fn a_frame_is_read_as_it_was_made() {
        let made = frame(u64::MAX, &Call::Batch(batch())).unwrap();
        let (number, call) = whole::<(u64, Call)>(&made).unwrap();
        assert_eq!(number, u64::MAX);
        let Call::Batch(read) = call else {
            panic!("{call:?}");
        };
        assert_eq!(read, batch());
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = whole::<(u64, Call)>(&bytes);
            let _ = whole::<(u64, Said)>(&bytes);
            let _ = whole::<Hello>(&bytes);
            let _ = whole::<Welcome>(&bytes);
        }

        #[test]
        fn no_damaged_frame_does_harm(at: prop::sample::Index, bits in 1..=u8::MAX, length: prop::sample::Index) {
            let mut frame = frame(7, &Call::Batch(batch())).unwrap().to_vec();
            let at = at.index(frame.len());
            frame[at] ^= bits;
            let _ = whole::<(u64, Call)>(&frame);
            frame.truncate(length.index(frame.len()));
            let _ = whole::<(u64, Call)>(&frame);
        }
    }
}
