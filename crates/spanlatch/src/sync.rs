//! What requests synchronize with: the real thing, or a model checker's in its place.
//!
//! With `--cfg shuttle` or `--cfg loom`, which only the proofs are built with, every lock, park and unpark is a point
//! at which the checker chooses who goes on. `Arc` is not here: no decision depends on a reference count.

#[cfg(any(loom, shuttle))]
mod modelled;
#[cfg(not(any(loom, shuttle)))]
mod real;

#[cfg(any(loom, shuttle))]
pub(crate) use modelled::*;
#[cfg(not(any(loom, shuttle)))]
pub(crate) use real::*;
