//! `include/tidegate.h` is what cbindgen makes of the source, now, and has all that its number promised before.
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
    keeps_its_promise(&declarations(&made));
}

/// A program that was built with an older header of this number still finds what that said. `tests/abi.txt` has it.
fn keeps_its_promise(now: &[String]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/abi.txt");
    let promised = std::fs::read_to_string(&path).unwrap_or_default();
    let number = |line: &str| line.starts_with("#define TIDEGATE_ABI ");
    let of_now = now.iter().find(|line| number(line)).expect("a number");
    if promised.lines().any(|line| line == of_now) {
        for line in promised.lines() {
            // Who reads them says how long its own are.
            let grows = line.strip_suffix(" } tidegate_stats;");
            let is_there =
                |now: &String| now == line || grows.is_some_and(|all| now.starts_with(all));
            assert!(
                now.iter().any(is_there),
                "a game that was built with this would not notice that it has changed: {line}\n\
                 Leave it and add to it, or raise TIDEGATE_ABI in capi/src/lib.rs and in the bindings"
            );
        }
    }
    let all = now.join("\n") + "\n";
    if std::env::var_os("TIDEGATE_WRITE_HEADER").is_some() {
        std::fs::write(&path, &all).expect("the promise is written");
    }
    let promised = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        promised == all,
        "capi/tests/abi.txt lacks what is new: run \
         TIDEGATE_WRITE_HEADER=1 cargo test -p tidegate-capi --test header"
    );
}

/// What a header declares, a line each, without comments and what only a C++ compiler reads.
fn declarations(header: &str) -> Vec<String> {
    let mut declared = Vec::new();
    let mut open = String::new();
    let code = header
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default().trim());
    let code = code.filter(|line| !line.is_empty() && *line != "extern \"C\" {" && *line != "}");
    for line in code {
        if line.starts_with("#define TIDEGATE_") && line != "#define TIDEGATE_H" {
            declared.push(line.to_owned());
        } else if !line.starts_with('#') {
            open += line;
            let is_whole =
                line.ends_with(';') && open.matches('{').count() == open.matches('}').count();
            if is_whole {
                declared.push(std::mem::take(&mut open));
            } else {
                open.push(' ');
            }
        }
    }
    declared
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
