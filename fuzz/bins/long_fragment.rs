#![no_main]
include!("../targets/long_fragment.rs");
libfuzzer_sys::fuzz_target!(init: tidegate_fuzz::plant(&seeds()), |data: &[u8]| run(data));
