#![no_main]
include!("../targets/gaffer_session.rs");
libfuzzer_sys::fuzz_target!(|data: &[u8]| run(data));
