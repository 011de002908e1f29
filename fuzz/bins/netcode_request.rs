#![no_main]
include!("../targets/netcode_request.rs");
libfuzzer_sys::fuzz_target!(|data: &[u8]| run(data));
