//! The binary behind `cargo xtask bench`.

fn main() {}
