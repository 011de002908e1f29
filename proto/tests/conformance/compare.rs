//! What this crate did beside what a file says: which is whose, and bytes as the files write them.

use std::fmt::Debug;

/// `ours` is what this crate did, `theirs` what the file says; `what` is which part of the case.
#[track_caller]
pub(crate) fn assert_same<O: Debug + PartialEq<T>, T: Debug>(ours: O, theirs: T, what: &str) {
    assert!(
        ours == theirs,
        "{what}\n    ours   {ours:?}\n    theirs {theirs:?}"
    );
}

/// [`assert_same`] for bytes: hex, from a little before the first difference.
#[track_caller]
pub(crate) fn assert_bytes(ours: &[u8], theirs: &[u8], what: &str) {
    if let Some(text) = difference(ours, theirs) {
        panic!("{what}: {text}");
    }
}

/// [`assert_bytes`] for each of a list, which must be as long.
#[track_caller]
pub(crate) fn assert_each(ours: &[Vec<u8>], theirs: &[Vec<u8>], what: &str) {
    for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        assert_bytes(ours, theirs, &format!("{what} [{index}]"));
    }
    assert_same(ours.len(), theirs.len(), &format!("{what}: how many"));
}

/// Bytes as the files write them.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn difference(ours: &[u8], theirs: &[u8]) -> Option<String> {
    if ours == theirs {
        return None;
    }
    let same = ours.iter().zip(theirs).take_while(|(o, t)| o == t).count();
    let line = |bytes: &[u8]| {
        let shown = &bytes[same.saturating_sub(BEFORE)..bytes.len().min(same + FROM)];
        format!("{} ({} bytes)", hex(shown), bytes.len())
    };
    Some(format!(
        "differs from byte {same} on; from byte {} that is\n    ours   {}\n    theirs {}",
        same.saturating_sub(BEFORE),
        line(ours),
        line(theirs)
    ))
}

/// Bytes shown before the first difference, to find the place in a file, and from there on.
const BEFORE: usize = 8;
const FROM: usize = 24;

#[test]
fn a_difference_is_shown_in_hex_from_a_little_before_it() {
    let ours = [vec![0xab; 100], vec![1, 2, 3]].concat();
    let theirs = [vec![0xab; 100], vec![1, 0xff]].concat();
    assert_eq!(
        difference(&ours, &theirs).as_deref(),
        Some(
            "differs from byte 101 on; from byte 93 that is\
             \n    ours   ababababababab010203 (103 bytes)\
             \n    theirs ababababababab01ff (102 bytes)"
        )
    );
    assert_eq!(difference(&theirs, &theirs), None);
}
