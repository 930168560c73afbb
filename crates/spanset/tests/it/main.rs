//! The guarantees of the crate: tables of cases, models over a tiny universe of keys, and allocations counted.

mod conflict;
mod declared;
mod engine;
#[cfg(feature = "serde")]
mod serde;
mod set;
mod span;
mod universe;
mod work;
