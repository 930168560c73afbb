//! The kv workloads, the predecessor, and the comparison between it and the latch manager.
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod stats;
