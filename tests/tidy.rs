//! Layout rules that neither the compiler nor clippy can see. Each failure says what to do.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file under `directory` whose name ends in `suffix`.
fn files(directory: &str, suffix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root().join(directory)];
    while let Some(directory) = open.pop() {
        let entries =
            fs::read_dir(&directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
        for entry in entries {
            let path = entry.expect("a directory entry").path();
            if path.is_dir() {
                open.push(path);
            } else if path.to_string_lossy().ends_with(suffix) {
                found.push(path);
            }
        }
    }
    assert!(
        !found.is_empty(),
        "nothing ends in {suffix} under {directory}"
    );
    found.sort();
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn stem(path: &Path) -> String {
    path.file_stem()
        .expect("a file name")
        .to_string_lossy()
        .into_owned()
}

/// `tests.rs`, or something below `tests/`.
fn is_test(file: &Path) -> bool {
    let file = file.strip_prefix(root()).expect("a file of ours");
    file.ends_with("tests.rs") || file.iter().any(|part| part == "tests")
}

#[test]
fn protocols_do_not_know_each_other() {
    let protocols = ["gaffer", "rudp", "yojimbo"];
    for protocol in protocols {
        for file in files(&format!("proto/src/{protocol}"), ".rs") {
            let text = read(&file);
            for other in protocols.iter().filter(|other| **other != protocol) {
                assert!(
                    !text.contains(&format!("crate::{other}")),
                    "{} uses {other}: move what both need up, beside sequence.rs",
                    file.display()
                );
            }
        }
    }
}

#[test]
fn the_endpoint_and_the_sender_know_no_protocol() {
    let mut shared = files("proto/src/sender", ".rs");
    shared.extend(files("proto/src/endpoint", ".rs"));
    shared.push(root().join("proto/src/inbox.rs"));
    for file in shared {
        for protocol in ["crate::gaffer", "crate::rudp", "crate::yojimbo"] {
            assert!(
                !read(&file).contains(protocol),
                "{} uses {protocol}: it sees traits only",
                file.display()
            );
        }
    }
}

#[test]
fn every_fuzz_target_has_a_bin_and_runs_in_the_smoke_test() {
    let manifest = read(&root().join("fuzz/Cargo.toml"));
    let smoke = read(&root().join("proto/tests/fuzz_smoke.rs"))
        + &read(&root().join("tests/fuzz_smoke.rs"));
    let figures = read(&root().join("docs/RELIABILITY.md"));
    for target in files("fuzz/targets", ".rs") {
        let name = stem(&target);
        assert!(
            root().join(format!("fuzz/bins/{name}.rs")).exists(),
            "fuzz/bins/{name}.rs is missing"
        );
        assert!(
            manifest.contains(&format!("name = \"{name}\"")),
            "fuzz/Cargo.toml has no bin {name}"
        );
        assert!(smoke.contains(&name), "{name} is in no fuzz_smoke.rs");
        assert!(
            figures.contains(&format!("\n| `{name}` | ")),
            "docs/RELIABILITY.md has no row for {name}: `just fuzz-deep` prints it"
        );
    }
}

#[test]
fn every_wire_format_has_its_page_and_its_fuzz_target() {
    let targets: String = files("fuzz/targets", ".rs")
        .iter()
        .map(|file| read(file))
        .collect();
    for wire in files("proto/src", "wire.rs") {
        let layer = stem(wire.parent().expect("a layer"));
        let page = match layer.as_str() {
            "channels" => "yojimbo".to_owned(),
            other => other.to_owned(),
        };
        assert!(
            root().join(format!("docs/wire/{page}.md")).exists(),
            "docs/wire/{page}.md is missing"
        );
        assert!(
            targets.contains(&layer),
            "no fuzz target uses {layer}: write one in fuzz/targets/"
        );
    }
}

#[test]
fn every_parser_stands_beside_its_fuzz_targets() {
    let page = read(&root().join("fuzz/README.md"));
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| `") && line.contains(".rs`"))
        .map(|line| line.split('`').skip(1).step_by(2).collect())
        .collect();
    for row in &rows {
        assert!(root().join(row[0]).exists(), "{} is gone", row[0]);
        assert!(row.len() > 1, "{} has no target", row[0]);
        for target in &row[1..] {
            let file = root().join(format!("fuzz/targets/{target}.rs"));
            assert!(file.exists(), "{} names {target}, which is gone", row[0]);
        }
    }
    for target in files("fuzz/targets", ".rs") {
        let name = stem(&target);
        let is_named = rows.iter().any(|row| row[1..].contains(&name.as_str()));
        assert!(is_named, "fuzz/README.md does not say what {name} reads");
    }
    let mut parsers = files("proto/src", ".rs");
    for directory in ["src/framing", "src/capture", "src/token_history"] {
        parsers.extend(files(directory, ".rs"));
    }
    for parser in parsers {
        let text = read(&parser);
        let path = parser.strip_prefix(root()).expect("a file of ours");
        let path = path.to_string_lossy();
        let parses = text.contains("fn parse") || text.contains("fn decode");
        if parses && !is_test(&parser) {
            let is_named = rows.iter().any(|row| row[0] == path);
            assert!(is_named, "fuzz/README.md does not say what fuzzes {path}");
        }
    }
}

#[test]
fn clocks_are_read_in_one_place() {
    for file in files("src", ".rs") {
        let text = read(&file);
        let reads = text.contains("Instant::now()") || text.contains("SystemTime::now()");
        assert!(
            !reads || file.ends_with("clock.rs") || text.contains("#[cfg(test)]") || is_test(&file),
            "{} reads a clock: take it from clock.rs",
            file.display()
        );
    }
}

/// `unsafe` where the outside world is pointers, and nowhere else: batches of datagrams, and the C
/// interface.
#[test]
fn unsafe_code_stays_in_its_places() {
    let places = ["src/udp/mmsg.rs", "capi/src"];
    let mut all = files("src", ".rs");
    all.extend(
        ["proto/src", "client/src", "capi/src"]
            .map(|d| files(d, ".rs"))
            .concat(),
    );
    for file in all {
        let is_place = places
            .iter()
            .any(|place| file.starts_with(root().join(place)));
        let is_unsafe = read(&file).contains("unsafe {");
        assert!(
            is_place || !is_unsafe,
            "{} has an unsafe block: those live in {places:?}",
            file.display()
        );
    }
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut pages = files("docs", ".md");
    pages.extend(["README.md", "SECURITY.md", "CHANGELOG.md"].map(|page| root().join(page)));
    for page in pages {
        for link in read(&page).split("](").skip(1) {
            let target = link.split([')', '#']).next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let path = page.parent().expect("a directory").join(target);
            assert!(
                path.exists(),
                "{} links to {target}, which is not there",
                page.display()
            );
        }
    }
}

/// An editor shows an item's comment without the line above it.
#[test]
fn comments_of_items_stand_alone() {
    for directory in ["proto", "src", "client", "capi", "benches", "fuzz", "tests"] {
        for file in files(directory, ".rs") {
            let text = read(&file);
            let mut goes_on = false;
            for line in text.lines().map(str::trim_start) {
                let said = line.strip_prefix("/// ").filter(|_| !goes_on);
                let points_up = |said: &str| {
                    let words = ["The same", "Likewise", "Their "];
                    words.iter().any(|words| said.starts_with(words))
                };
                assert!(
                    !said.is_some_and(points_up),
                    "{}: {line:?} points at the line above: say what this is",
                    file.display()
                );
                goes_on = line.starts_with("///");
            }
        }
    }
}

/// Every test that docs/EVIDENCE.md names is there, every row of it names one, and its guide leads to every row.
#[test]
fn the_evidence_exists() {
    let mut code = String::new();
    for directory in ["proto/src", "proto/tests", "src", "tests", "client"] {
        for file in files(directory, ".rs") {
            code.push_str(&read(&file));
        }
    }
    let page = read(&root().join("docs/EVIDENCE.md"));
    let (guide, _) = page.split_once("\n## ").expect("sections");
    let led_to: Vec<_> = guide.split([' ', '|']).collect();
    let mut rows = 0;
    let is_row = |line: &&str| line.starts_with("| ") && !line.starts_with("| |");
    for row in page.lines().filter(is_row) {
        let names: Vec<_> = row.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test in {row}");
        let id = row.split(' ').nth(1).unwrap();
        assert!(
            led_to.contains(&id) || guide.contains(row),
            "the guide at the top does not lead to {row}"
        );
        rows += 1;
        for name in names {
            let is_there = match name.split_once(' ') {
                Some(("chaos", scenario)) => code.contains(&format!("(\"{scenario}\", ")),
                Some(("fuzz", target)) => root().join(format!("fuzz/targets/{target}.rs")).exists(),
                _ => code.contains(&format!("fn {name}(")),
            };
            assert!(is_there, "there is no {name}, which stands in {row}");
        }
    }
    assert!(rows > 100, "{rows} rows");
}

/// A path in backticks is a path of this repository.
#[test]
fn files_that_pages_name_are_there() {
    let mut pages = files("docs", ".md");
    pages.extend(["README.md", "fuzz/README.md"].map(|page| root().join(page)));
    let mut named = 0;
    for page in pages {
        let text = read(&page);
        // What is fenced is shell or a picture.
        let prose = text.split("```").step_by(2).collect::<String>();
        for name in prose.split('`').skip(1).step_by(2) {
            let Some((top, _)) = name.split_once('/') else {
                continue;
            };
            // X stands for any protocol, and what is built comes and goes.
            let is_path =
                !name.contains(['*', ' ', '\n']) && !name.contains("/X") && top != "target";
            if is_path && !top.is_empty() && root().join(top).is_dir() {
                named += 1;
                assert!(
                    root().join(name).exists(),
                    "{} names {name}, which is gone",
                    page.display()
                );
            }
        }
    }
    assert!(named > 100, "{named} paths");
}

/// Where code says "docs/page.md, section 3" or "docs/page.md, "Title"", that page has such a section,
/// paragraph or row.
#[test]
fn sections_that_code_cites_are_there() {
    let mut cited = 0;
    for directory in ["proto", "src", "client", "capi", "benches", "fuzz"] {
        for file in files(directory, ".rs") {
            // Citations go on in the next line of a comment.
            let lines = read(&file);
            let lines = lines
                .lines()
                .map(|line| line.trim_start_matches([' ', '/', '!']));
            let text = lines.collect::<Vec<_>>().join(" ");
            for citation in text.split("docs/").skip(1) {
                let Some((page, rest)) = citation.split_once(".md, ") else {
                    continue;
                };
                let path = root().join(format!("docs/{page}.md"));
                if page.contains(' ') || !path.exists() {
                    continue;
                }
                let text = read(&path);
                let sections = match (rest.strip_prefix('"'), rest.strip_prefix("section")) {
                    (Some(title), _) => {
                        let title = title.split('"').next().unwrap_or_default();
                        vec![vec![
                            format!("\n## {title}\n"),
                            format!("\n**{title}.**"),
                            format!("\n| {title} |"),
                        ]]
                    }
                    (None, Some(numbers)) => {
                        let words = numbers.trim_start_matches('s').split_whitespace();
                        let number = |word: &str| {
                            let digits = word.trim_end_matches(|c: char| !c.is_ascii_digit());
                            let mut parts = digits.split('.');
                            let is_number = parts.all(|part| part.parse::<u8>().is_ok());
                            is_number.then(|| digits.to_owned())
                        };
                        let listed = words.filter(|word| *word != "and").map_while(number);
                        let heading = |number: &str| match number.contains('.') {
                            true => format!("\n### {number} "),
                            false => format!("\n## {number}. "),
                        };
                        listed.map(|n| vec![heading(&n)]).collect::<Vec<_>>()
                    }
                    (None, None) => continue,
                };
                cited += 1;
                assert!(!sections.is_empty(), "{}: {rest:.40}", file.display());
                for begins in sections {
                    assert!(
                        begins.iter().any(|begins| text.contains(begins)),
                        "{} cites docs/{page}.md, which has no {begins:?}",
                        file.display()
                    );
                }
            }
        }
    }
    assert!(cited > 40, "{cited} citations");
}
