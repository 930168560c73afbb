//! Key-range latches for storage engines: first in first out, timestamp-aware, blocking and async.
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod counts;
mod error;
mod guard;
mod inspection;
mod label;
mod latch;
mod line;
mod look;
mod manager;
mod monitor;
mod optimistic;
mod pending;
mod poison;
mod queue;
mod request;
mod request_builder;
mod slots;
mod spare;
mod sync;
mod wake;

pub use counts::Counts;
pub use error::{OptimisticError, ShuttingDown, TryAcquireError, WaitError};
pub use guard::Guard;
pub use inspection::{Inspected, Inspection, State};
pub use manager::{Builder, Manager};
pub use monitor::Monitor;
pub use optimistic::{Optimistic, Validated};
pub use pending::{Pending, WaitFor};
pub use poison::OnPoison;
pub use request_builder::RequestBuilder;
