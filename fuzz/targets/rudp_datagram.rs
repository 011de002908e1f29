// Any bytes as a rudp datagram: whole or refused, and what was read is written back the same.

use tidegate_proto::rudp::wire;

pub fn run(data: &[u8]) {
    let Ok(records) = wire::parse(data) else {
        return;
    };
    let mut written = Vec::new();
    let mut count = 0;
    for record in records {
        count += 1;
        wire::emit(record, &mut written);
    }
    assert!(count <= data.len() && written.len() <= data.len());
    let again = wire::parse(&written).expect("own bytes are well-formed");
    assert!(again.eq(records));
}

pub fn seeds() -> Vec<Vec<u8>> {
    vec![
        vec![],
        vec![0],
        vec![2, 0, 1, 3, 0, 2],
        vec![4, 0, 7, 0x80, 5, 0, 8, 0xaa, 1],
        [&[0x80, 128, 0, 1][..], &[7; 124]].concat(),
    ]
}
