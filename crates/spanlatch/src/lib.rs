//! Key-range latches for storage engines: first in first out, timestamp-aware, blocking and async.
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod counts;
mod error;
mod guard;
mod latch;
mod line;
mod look;
mod manager;
mod monitor;
mod pending;
mod queue;
mod request;
mod slots;
mod spare;
mod sync;
mod wake;

pub use counts::Counts;
pub use error::{ShuttingDown, WaitError};
pub use guard::Guard;
pub use manager::{Builder, Manager};
pub use monitor::Monitor;
pub use pending::Pending;
