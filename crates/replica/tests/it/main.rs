//! The pipeline from outside: stories told step by step, and random batches against a naive store.

mod cancel;
mod history;
mod interleaved;
mod leadership;
mod model;
mod naive;
mod pipeline;
mod ranges;
mod scene;
mod scripts;
#[cfg(feature = "serde")]
mod serde;
mod stress;
mod ways_out;
mod work;
