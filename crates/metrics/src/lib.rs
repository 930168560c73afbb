//! The metrics that a latching replica exports, each defined once, as OpenMetrics, with a health check.
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod catalogue;
mod counter;
mod def;
mod gauge;
pub mod health;
mod histogram;
mod latch;
mod outcome;
mod registry;
mod replica;
mod replication;

pub use counter::Counter;
pub use def::{Def, Kind, Unit};
pub use gauge::{Gauge, GaugeShare};
pub use histogram::Histogram;
pub use latch::LatchMetrics;
pub use outcome::{Outcome, Outcomes};
pub use registry::{Metric, RegisterError, Registry};
pub use replica::ReplicaMetrics;
pub use replication::ReplicationMetrics;
