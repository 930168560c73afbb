//! The kv workloads, the predecessor, and the comparison between it and the latch manager.
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod predecessor;

pub mod name;
pub mod published;
pub mod suite;
pub mod workload;

pub mod check;
pub mod client;
pub mod cluster;
pub mod instrument;
pub mod run;
pub mod session;
pub mod storage;

pub mod metric;
pub mod report;
pub mod results;
pub mod sample;
pub mod stats;
pub mod table;

pub mod micro;

pub mod cli;
pub mod compare;
pub mod kv_txn;
pub mod list;

/// The code in the workspace's README is compiled like any other.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct WorkspaceReadme;
