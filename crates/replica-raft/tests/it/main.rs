//! Tests of groups of nodes, in one process, on a network that can be cut.

mod away;
#[cfg(feature = "node")]
mod binary;
mod group;
mod serving;
