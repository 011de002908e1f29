#![no_main]
include!("../targets/framing.rs");
libfuzzer_sys::fuzz_target!(|data: &[u8]| run(data));
