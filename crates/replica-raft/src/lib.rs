//! Replicates a store.
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod client;
mod command;
mod config;
mod confirm;
#[cfg(test)]
mod fake;
mod flight;
mod leader;
mod link;
mod log;
mod machine;
mod network;
mod node;
mod proposer;
mod server;
mod snapshot;
mod status;
mod storage;
mod tcp;
mod transport;
mod types;
mod wire;

pub use client::{Client, ClientOptions};
pub use config::Config;
pub use node::{Node, StartError};
pub use server::{BindError, Server};
pub use status::{Role, Status};
pub use tcp::Tcp;
pub use transport::{Answer, CallError, Message, Transport};
pub use types::NodeId;
