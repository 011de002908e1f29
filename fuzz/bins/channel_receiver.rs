#![no_main]
include!("../targets/channel_receiver.rs");
libfuzzer_sys::fuzz_target!(|data: &[u8]| run(data));
