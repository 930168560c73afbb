//! Replicates a store.
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod command;
mod config;
mod confirm;
mod flight;
mod leader;
mod log;
mod machine;
mod network;
mod node;
mod proposer;
mod snapshot;
mod status;
mod storage;
mod transport;
mod types;

pub use config::Config;
pub use node::{Node, StartError};
pub use status::{Role, Status};
pub use transport::{Answer, CallError, Message, Transport};
pub use types::NodeId;
