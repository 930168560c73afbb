//! The guarantees of the crate: tables of cases, models over a tiny universe of keys, and allocations counted.

mod conflict;
mod declared;
mod engine;
mod set;
mod span;
mod universe;
mod work;
