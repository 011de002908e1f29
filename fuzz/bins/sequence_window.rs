#![no_main]
include!("../targets/sequence_window.rs");
libfuzzer_sys::fuzz_target!(|data: &[u8]| run(data));
