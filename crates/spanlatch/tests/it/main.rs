//! What the latch manager promises, one module a kind of promise.

mod cancel;
mod inspection;
mod model;
mod notation;
mod order;
mod poison;
mod slow;
mod stress;
mod wake;
mod ways;
mod work;
