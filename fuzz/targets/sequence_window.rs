// The window of packets received: any walk, and what it acknowledges is what was received, no more.

use std::collections::BTreeSet;

use tidegate_proto::yojimbo::reliable::Received;

pub fn run(data: &[u8]) {
    let mut window = Received::default();
    // The numbers since the newest one was last the newest: those that a bit may stand for.
    let mut received = BTreeSet::new();
    for step in data.chunks_exact(3) {
        let sequence = u16::from_le_bytes([step[1], step[2]]);
        let (before, _) = window.ack();
        let stale = window.is_stale(sequence);
        assert!(!(stale && window.contains(sequence)));
        if step[0] & 1 == 1 {
            window.accept(sequence);
            assert_eq!(window.contains(sequence), !stale);
            if !stale {
                received.insert(sequence);
            }
        } else {
            window.see(sequence);
        }
        let (newest, bits) = window.ack();
        if newest != before {
            // Numbers that were skipped were not received, whatever they meant a lap ago.
            let skipped = newest.wrapping_sub(before);
            let lies = |number: &u16| newest.wrapping_sub(*number) < skipped && *number != sequence;
            received.retain(|number| !lies(number));
            if step[0] & 1 == 0 {
                received.remove(&newest);
            }
        }
        for behind in 0..32 {
            let number = newest.wrapping_sub(behind);
            assert_eq!(bits >> behind & 1 == 1, received.contains(&number));
        }
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    vec![vec![1, 0, 0, 1, 1, 0, 0, 2, 0, 1, 255, 255, 1, 0, 128, 1, 3, 0]]
}
