#![no_main]
include!("../targets/token_history.rs");
libfuzzer_sys::fuzz_target!(|data: &[u8]| run(data));
