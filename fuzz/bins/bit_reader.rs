#![no_main]
include!("../targets/bit_reader.rs");
libfuzzer_sys::fuzz_target!(|data: &[u8]| run(data));
