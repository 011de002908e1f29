//! Reading vector files: where they are, and their conventions (hex bytes, 64-bit numbers as text).

use std::path::PathBuf;

use serde_json::Value;

/// The directory in use: `TIDEGATE_VECTORS`, or the one in this repository.
pub(crate) fn directory() -> PathBuf {
    match std::env::var_os("TIDEGATE_VECTORS") {
        Some(directory) => directory.into(),
        None => concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors").into(),
    }
}

/// One vector file, whole.
pub(crate) fn load(name: &str) -> Value {
    let path = directory().join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let value: Value =
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_eq!(
        value["schema"],
        "tidegate-vectors/1",
        "{}: unknown schema",
        path.display()
    );
    value
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
