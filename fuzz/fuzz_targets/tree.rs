//! The interval tree against a sorted vector, with the fuzzer's choices.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spanlatch_proofs::{Choices, tree};

fuzz_target!(|bytes: &[u8]| {
    tree::run(&mut Choices::from_bytes(bytes), u64::MAX);
});
