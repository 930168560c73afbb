//! The microbenchmarks: their work, what was published of it, and how it is measured.

pub mod benchmark;
pub mod latches;
pub mod parks;
pub mod rivals;
pub mod rng;
pub mod sets;
pub mod spent;
pub mod tree;

pub mod goal;
pub mod published;
pub mod rows;

pub mod measure;
pub mod summary;
