//! What the programs in bins/ share.

use std::path::PathBuf;
use std::{env, fs};

/// Writes the seeds of a target into the directory `TIDEGATE_FUZZ_SEEDS`, if there is such a wish,
/// before libFuzzer reads it.
pub fn plant(seeds: &[Vec<u8>]) {
    let Some(directory) = env::var_os("TIDEGATE_FUZZ_SEEDS").map(PathBuf::from) else {
        return;
    };
    for (number, seed) in seeds.iter().enumerate() {
        let file = directory.join(format!("seed-{number}"));
        fs::write(&file, seed).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    }
}
