#![no_main]
include!("../targets/yojimbo_joining.rs");
libfuzzer_sys::fuzz_target!(init: tidegate_fuzz::plant(&seeds()), |data: &[u8]| run(data));
