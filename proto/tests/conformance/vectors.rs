//! Reading vector files: where they are, their conventions (hex bytes, 64-bit numbers as text), and
//! a run over all cases of a file that tells of every one that failed.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The directory in use: `TIDEGATE_VECTORS`, or the one in this repository.
pub(crate) fn directory() -> PathBuf {
    from_workspace(std::env::var_os("TIDEGATE_VECTORS").unwrap_or_else(|| "tests/vectors".into()))
}

/// A path as it was meant where cargo was called: a test runs in its package, one level down.
fn from_workspace(path: impl AsRef<Path>) -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().expect("a workspace").join(path)
}

/// One vector file, whole.
pub(crate) fn load(name: &str) -> Value {
    assert!(is_read(name), "{name} is missing in FILES");
    let path = directory().join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let value: Value =
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let is_ours = value["schema"] == SCHEMA;
    assert!(is_ours, "{}: unknown schema", path.display());
    value
}

/// What every vector file says that it is.
const SCHEMA: &str = "tidegate-vectors/1";

/// Runs `check` with each element of the array `key` of a file. A failed case does not keep the
/// others from being run: the panic at the end names them all.
pub(crate) fn each_case(file: &str, key: &str, check: impl Fn(&Value)) {
    let whole = load(file);
    let cases = items(&whole, key).iter().enumerate();
    all_hold(cases.map(|(index, case)| {
        let name = match case["name"].as_str() {
            Some(name) => format!("{file}: {key}: {name}"),
            None => format!("{file}: {key}[{index}]"),
        };
        (name, outcome(|| check(case)))
    }));
}

/// [`each_case`] over whole files: every captured session of the directory, by its file's name.
pub(crate) fn each_capture(check: impl Fn(&Value)) {
    let mut names: Vec<_> = std::fs::read_dir(directory())
        .expect("the vectors")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| is_capture(name))
        .collect();
    names.sort();
    assert!(!names.is_empty(), "no captures");
    all_hold(names.into_iter().map(|name| {
        let outcome = outcome(|| check(&load(&name)));
        (name, outcome)
    }));
}

/// The files that tests read, beside captured sessions, which may have any name that begins as theirs do.
const FILES: [&str; 25] = [
    "bitpack_negative.json",
    "bitpack_primitives.json",
    "gaffer_acks.json",
    "gaffer_flow_control.json",
    "gaffer_headers.json",
    "gaffer_messages.json",
    "gaffer_negative.json",
    "netcode_challenge_tokens.json",
    "netcode_client_steps.json",
    "netcode_connect_tokens.json",
    "netcode_negative.json",
    "netcode_packets.json",
    "netcode_replay.json",
    "netcode_server_steps.json",
    "reliable_acks.json",
    "reliable_fragments.json",
    "reliable_headers.json",
    "reliable_negative.json",
    "rudp_exchanges.json",
    "rudp_records.json",
    "rudp_sessions.json",
    "yojimbo_negative.json",
    "yojimbo_packets.json",
    "yojimbo_receive_scripts.json",
    "yojimbo_send_scripts.json",
];

fn is_capture(name: &str) -> bool {
    name.starts_with("session_") && name.ends_with(".json")
}

fn is_read(name: &str) -> bool {
    FILES.contains(&name) || is_capture(name)
}

/// Whoever adds vectors under another name to a directory would see them pass, whatever they say. What is none may lie there.
#[test]
fn no_file_of_the_directory_is_left_unread() {
    let entries = std::fs::read_dir(directory()).expect("the vectors");
    let unread: Vec<_> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".json") && !is_read(name) && is_of_schema(name))
        .collect();
    assert!(
        unread.is_empty(),
        "no test reads {unread:?}: names are those of tests/vectors/README.md, or session_*.json"
    );
}

fn is_of_schema(name: &str) -> bool {
    let text = std::fs::read_to_string(directory().join(name)).unwrap_or_default();
    serde_json::from_str(&text).is_ok_and(|value: Value| value["schema"] == SCHEMA)
}

/// Whether the reference took it. A word that is neither would stand for one of them.
pub(crate) fn is_accepted(case: &Value) -> bool {
    match case["verdict"].as_str() {
        Some("accept") => true,
        Some("reject") => false,
        other => panic!("unknown verdict {other:?}"),
    }
}

/// Nothing, or what the check panicked with.
fn outcome(check: impl FnOnce()) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(check)).map_err(said)
}

fn said(panic: Box<dyn Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast_ref::<&str>().unwrap_or(&"?").to_string(),
    }
}

/// Panics once, with the name of each case that failed and what was wrong with it.
fn all_hold(outcomes: impl Iterator<Item = (String, Result<(), String>)>) {
    let outcomes: Vec<_> = outcomes.collect();
    let failed: Vec<_> = outcomes
        .iter()
        .filter_map(|(name, outcome)| Some(format!("{name}: {}", outcome.as_ref().err()?)))
        .collect();
    assert!(
        failed.is_empty(),
        "{} of {} failed\n{}",
        failed.len(),
        outcomes.len(),
        failed.join("\n")
    );
}

/// The elements of an array that must be there and not be empty: a test over nothing proves nothing.
pub(crate) fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    let items = value[key]
        .as_array()
        .unwrap_or_else(|| panic!("no array {key:?}"));
    assert!(!items.is_empty(), "{key:?} is empty");
    items
}

/// Bytes written as lowercase hex.
pub(crate) fn bytes(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap_or_else(|| panic!("not hex: {value}"));
    assert!(text.len().is_multiple_of(2), "odd number of hex digits");
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex digits"))
        .collect()
}

/// An integer: a number, or, for 64 bits, decimal text.
pub(crate) fn int(value: &Value) -> u64 {
    if let Value::String(text) = value {
        return text.parse().unwrap_or_else(|e| panic!("{text:?}: {e}"));
    }
    value
        .as_u64()
        .unwrap_or_else(|| panic!("not an unsigned integer: {value}"))
}

#[test]
#[should_panic(expected = "unknown verdict Some(\"rejected\")")]
fn a_verdict_is_one_of_two_words() {
    is_accepted(&serde_json::json!({ "verdict": "rejected" }));
}

#[test]
#[should_panic(expected = "2 of 3 failed\nfirst: one thing\nthird: another")]
fn every_case_that_failed_is_named() {
    let case = |name: &str, wrong: Option<&str>| {
        let outcome = wrong.map_or(Ok(()), |what| outcome(|| panic!("{what}")));
        (name.to_owned(), outcome)
    };
    let cases = [
        case("first", Some("one thing")),
        case("second", None),
        case("third", Some("another")),
    ];
    all_hold(cases.into_iter());
}
