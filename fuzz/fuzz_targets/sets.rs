//! Spans, span sets and compact keys against a model of single keys, with the fuzzer's choices.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spanlatch_proofs::{Choices, sets};

fuzz_target!(|bytes: &[u8]| {
    sets::run(&mut Choices::from_bytes(bytes), u64::MAX);
});
