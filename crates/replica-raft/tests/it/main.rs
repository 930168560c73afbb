//! Tests of groups of nodes, in one process, on a network that can be cut.

mod away;
mod group;
mod serving;
