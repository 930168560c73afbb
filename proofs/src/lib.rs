//! Proofs of the tree, of span sets and of the latch manager, from choices that can be replayed.
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod choices;
#[cfg(not(any(loom, shuttle)))]
pub mod cluster;
#[cfg(not(any(loom, shuttle)))]
pub mod crash;
mod declared;
#[cfg(not(any(loom, shuttle)))]
mod failing_engine;
pub mod history;
#[cfg(not(any(loom, shuttle)))]
pub mod linearizability;
#[cfg(not(any(loom, shuttle)))]
pub mod live;
#[cfg(loom)]
pub mod loom;
#[cfg(not(any(loom, shuttle)))]
pub mod page;
#[cfg(not(any(loom, shuttle)))]
pub mod processes;
pub mod script;
#[cfg(not(any(loom, shuttle)))]
pub mod serializability;
pub mod sets;
#[cfg(shuttle)]
pub mod shuttle;
pub mod tree;

pub use choices::Choices;
pub use declared::{Declared, conflict, spans};
