//! What a transaction of the client costs: with the target of its error inspection prepared on every call (old), and
//! without (new).
//!
//! Everything runs on one thread: the transaction and the applier are polled in turn. So what is counted is the same
//! in each run.

pub mod operation;
mod published;
pub mod sample;
pub mod summary;

pub use operation::{Cell, Operation};
pub use sample::{Counted, Counter, Sample, measure};
pub use summary::tables;
