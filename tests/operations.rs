//! `docs/RUNBOOK.md` has a word on every reason there is, and on none that does not exist.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the answer")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tidegate::udp::UdpError;
use tidegate_proto::{CloseReason, Reject};

const RUNBOOK: &str = include_str!("../docs/RUNBOOK.md");

/// The reasons in the table of a section, in order.
fn reasons(section: &str) -> Vec<&'static str> {
    let (_, after) = RUNBOOK
        .split_once(&format!("## {section}\n"))
        .unwrap_or_else(|| panic!("docs/RUNBOOK.md has no section {section:?}"));
    let section = after.split("\n## ").next().unwrap_or(after);
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").collect();
        assert_eq!(cells.len(), 3, "reason, meaning, what to do: {row}");
        assert!(cells.iter().all(|cell| cell.trim().len() > 3), "{row}");
        cells[0].trim().trim_matches('`')
    })
    .collect()
}

#[test]
fn every_reject_has_its_line() {
    let labels = Reject::ALL.map(Reject::label);
    assert_eq!(reasons("Why a datagram was rejected"), labels);
}

#[test]
fn every_send_error_has_its_line() {
    let labels = UdpError::ALL.map(UdpError::label);
    assert_eq!(reasons("Why a datagram was not sent"), labels);
}

#[test]
fn every_close_reason_has_its_line() {
    let labels = CloseReason::ALL.map(CloseReason::label);
    assert_eq!(reasons("Why a session ended"), labels);
}

#[test]
fn every_warning_has_its_line() {
    let mut events = BTreeSet::new();
    for file in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let text = fs::read_to_string(&file).unwrap();
        for level in ["warn", "error"] {
            for call in text.split(&format!("tracing::{level}!(")).skip(1) {
                let call = call.split(");").next().unwrap();
                let (_, after) = call
                    .split_once("event = \"")
                    .unwrap_or_else(|| panic!("{}: no event: {call}", file.display()));
                events.insert(after.split('"').next().unwrap().to_owned());
            }
        }
    }
    // The writer says it itself: it goes past the filter.
    events.insert("log_lines_dropped".to_owned());
    let told = reasons("What the log warns of");
    assert!(told.iter().eq(&events), "{told:?} is not {events:?}");
}

/// What the daemon is made of: `tests.rs` and whatever is below `tests/` belongs to no user's log.
fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let paths = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.ends_with("tests.rs") && !path.ends_with("tests"));
    let (directories, mut files): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
    files.extend(directories.iter().flat_map(|below| sources(below)));
    files
}

/// Links inside the page lead somewhere.
#[test]
fn links_inside_the_page_have_their_heading() {
    let headings: Vec<String> = RUNBOOK
        .lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' '))
        .map(|heading| {
            let kept = heading
                .chars()
                .filter(|c| c.is_alphanumeric() || *c == ' ' || *c == '-');
            kept.collect::<String>().to_lowercase().replace(' ', "-")
        })
        .collect();
    for link in RUNBOOK.split("](#").skip(1) {
        let anchor = link.split(')').next().unwrap_or(link);
        assert!(headings.iter().any(|h| h == anchor), "#{anchor}");
    }
}
