// A window of entries by sequence: any walk, and nothing is ever found under another's number.

use tidegate_proto::sequence::SequenceBuffer;

pub fn run(data: &[u8]) {
    let mut window = SequenceBuffer::new(64);
    for pair in data.chunks_exact(2) {
        let sequence = u16::from_le_bytes([pair[0], pair[1]]);
        let stale = window.is_stale(sequence);
        assert_eq!(window.insert(sequence, sequence), !stale);
        assert_eq!(window.get(sequence).copied(), (!stale).then_some(sequence));
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    vec![vec![0, 0, 1, 0, 2, 0, 255, 255, 0, 128]]
}
