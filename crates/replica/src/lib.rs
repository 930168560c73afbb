//! Serves requests to ranges of multi-version keys.
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod admission;
mod applier;
mod batch;
mod clock;
mod engine;
mod error;
mod evaluate;
mod flights;
mod held;
mod horizon;
mod latches;
mod leadership;
mod pipeline;
mod proposal;
mod ranges;
mod replica;
mod response;
mod serve;
mod store;
mod timestamp_cache;
mod version;
mod versions;

pub use applier::Applier;
pub use batch::{Batch, Request, Value};
pub use clock::{Clock, ManualSource, SystemSource, TimeSource};
pub use engine::{Collected, Engine, EngineError, Marks, MemEngine, Records, Snapshot};
#[cfg(feature = "fjall")]
pub use engine::{FjallEngine, FjallError};
pub use error::{Action, Cause, Error};
pub use latches::{Latches, Optimist, Waiting};
pub use leadership::{Leadership, Leading};
pub use proposal::{Proposal, Proposer};
pub use replica::{RangeId, Replica};
pub use response::{Reply, Response};
pub use serve::Serve;
pub use store::{Store, StoreBuilder};
pub use version::{Version, WriteBatch};
pub use versions::Versions;
