// Any bytes as a gaffer packet: header and records are whole or refused, and come out the same.

use tidegate_proto::gaffer::wire::{self, Header};

pub fn run(data: &[u8]) {
    let Some((header, payload)) = Header::parse(data) else {
        assert!(data.len() < wire::HEADER_BYTES);
        return;
    };
    let mut written = Vec::new();
    header.emit(&mut written);
    match wire::parse(payload) {
        Ok(records) => {
            for record in records {
                wire::emit(record, &mut written);
            }
        }
        Err(wire::Malformed) => written.extend_from_slice(payload),
    }
    assert_eq!(written, data);
}

pub fn seeds() -> Vec<Vec<u8>> {
    let header = [0x11, 0x22, 0x33, 0x44, 0, 0, 0, 1, 0, 0, 0, 2, 0xff, 0xff, 0xff, 0xff];
    let fragment = [&[3, 0, 1, 1, 1, 0, 2][..], b"hi"].concat();
    let records = [&[0, 1, 0, 5, 0, 2][..], b"hi", &[2, 0, 1, 7, 4]].concat();
    [vec![], vec![0], fragment, records]
        .map(|payload| [&header[..], &payload].concat())
        .to_vec()
}
