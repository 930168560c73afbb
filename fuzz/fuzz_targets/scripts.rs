//! Scripts of requests against a model that knows who must wait, with the fuzzer's choices.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spanlatch_proofs::{Choices, script};

fuzz_target!(|bytes: &[u8]| {
    script::run(&mut Choices::from_bytes(bytes), u64::MAX);
});
