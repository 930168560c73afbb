//! Serializable transactions over a store of latching replicas.
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod attempt;
mod buffer;
mod db;
mod error;
mod metrics;
mod options;
mod state;
mod timer;
mod txn;

pub use attempt::Attempt;
pub use db::Db;
pub use error::{AttemptId, Error, GaveUp, Reason, TxnError};
pub use metrics::TxnMetrics;
pub use options::Options;
pub use timer::{SystemTimer, Timer};
pub use txn::Txn;
