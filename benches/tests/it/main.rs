//! The program from outside.

mod cli;
#[cfg(target_os = "linux")]
mod nodes;
