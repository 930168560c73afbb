//! What the latch manager promises, one module a kind of promise.

mod cancel;
mod model;
mod notation;
mod order;
mod slow;
mod stress;
mod wake;
mod work;
