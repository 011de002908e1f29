//! `include/tidegate.h` is what cbindgen makes of the source, now.
//!
//! After a change: `TIDEGATE_WRITE_HEADER=1 cargo test -p tidegate-capi --test header`, and look at
//! the difference as the owner of a game that was built against the old one.

use std::path::Path;

#[test]
fn the_header_is_up_to_date() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).expect("cbindgen.toml");
    let builder = cbindgen::Builder::new()
        .with_config(config)
        .with_src(here.join("src/lib.rs"));
    let mut made = Vec::new();
    builder.generate().expect("a header").write(&mut made);
    let made = String::from_utf8(made).expect("text");
    // What Rust wants to be told about safety, a C programmer knows of every function.
    let made = without_safety(&made);
    let path = here.join("include/tidegate.h");
    if std::env::var_os("TIDEGATE_WRITE_HEADER").is_some() {
        std::fs::write(&path, &made).expect("the header is written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == made,
        "capi/include/tidegate.h is not what the source says: run \
         TIDEGATE_WRITE_HEADER=1 cargo test -p tidegate-capi --test header"
    );
}

/// The header without the sections "# Safety".
fn without_safety(header: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut is_safety = false;
    for line in header.lines() {
        let is_comment = line.trim_start().starts_with("//");
        if line.trim_end() == "// # Safety" || line.trim_end() == "/// # Safety" {
            is_safety = true;
            // The empty comment line before it.
            if kept
                .last()
                .is_some_and(|last| last.trim_end() == "//" || last.trim_end() == "///")
            {
                kept.pop();
            }
        }
        if !is_comment {
            is_safety = false;
        }
        if !is_safety {
            kept.push(line.trim_end());
        }
    }
    kept.join("\n") + "\n"
}
