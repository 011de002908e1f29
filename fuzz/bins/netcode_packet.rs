#![no_main]
include!("../targets/netcode_packet.rs");
libfuzzer_sys::fuzz_target!(|data: &[u8]| run(data));
