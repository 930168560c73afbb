//! The kv workloads, the predecessor, and the comparison between it and the latch manager.
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod micro;
pub mod predecessor;

pub mod name;
pub mod workload;

pub mod published;
pub mod suite;

pub mod metric;
pub mod sample;
pub mod stats;
