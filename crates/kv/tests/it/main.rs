//! Transactions from outside: what an attempt sees, what commits, and what is tried again.

mod afar;
mod exec;
mod reads;
mod scene;
mod stories;
mod ways_out;
