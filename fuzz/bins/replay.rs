#![no_main]
include!("../targets/replay.rs");
libfuzzer_sys::fuzz_target!(|data: &[u8]| run(data));
