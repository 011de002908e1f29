#![no_main]
include!("../targets/rudp_datagram.rs");
libfuzzer_sys::fuzz_target!(|data: &[u8]| run(data));
