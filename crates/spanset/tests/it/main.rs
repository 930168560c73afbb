//! The guarantees of the crate: tables of cases, and models over a tiny universe of keys.

mod conflict;
mod declared;
mod engine;
mod set;
mod span;
mod universe;
