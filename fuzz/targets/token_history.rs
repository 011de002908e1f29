// Whatever a token history's file holds: nothing is made up, and what was read is written as it was.

use tidegate::token_history::file::{Contents, HEADER_BYTES, Header, RECORD_BYTES, emit_record};
use tidegate_proto::yojimbo::netcode::UsedToken;

pub fn run(data: &[u8]) {
    let Some(contents) = Contents::parse(data) else {
        return;
    };
    let records = (data.len() - HEADER_BYTES) / RECORD_BYTES;
    assert_eq!(contents.used.len() + contents.damaged, records);
    let mut written = Vec::new();
    contents.header.emit(&mut written);
    assert!(data.starts_with(&written));
    for used in &contents.used {
        emit_record(used, &mut written);
    }
    if contents.damaged == 0 {
        assert!(data.starts_with(&written), "nothing was made up");
    }
    let again = Contents::parse(&written).expect("what we write can be read");
    assert_eq!(again.used, contents.used);
}

pub fn seeds() -> Vec<Vec<u8>> {
    let mut file = Vec::new();
    Header { since: 1_790_000_000, started: 1_790_000_000, booted: 1_780_000_000 }.emit(&mut file);
    let mut seeds = vec![file.clone()];
    for number in 0..3 {
        let used = UsedToken { tag: [number; 16], end: 1_790_000_030 };
        emit_record(&used, &mut file);
        seeds.push(file.clone());
    }
    seeds
}
