#![no_main]
include!("../targets/netcode_server.rs");
libfuzzer_sys::fuzz_target!(|data: &[u8]| run(data));
