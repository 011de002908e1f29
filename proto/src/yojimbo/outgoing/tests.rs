//! What a fast connection to another tidegate is sent, and what its packets say behind their last field.

use std::collections::VecDeque;
use std::time::Duration;

use super::super::postscript::{LONG_ACK, Postscript};
use super::*;
use crate::stats::Stats;
use crate::time::Timestamp;

/// A fast connection to another tidegate that never runs out of what to say.
struct Fast {
    outgoing: Outgoing,
    now: Now,
    params: Params,
    round_trip: Duration,
    under_way: VecDeque<(Timestamp, u64)>,
}

impl Fast {
    /// One that is 100 ms away, and has much under way.
    fn new() -> Self {
        let fast = Self::over(Duration::from_millis(100), 0);
        let under_way = fast.under_way.len();
        assert!(under_way > 1000, "only {under_way} under way");
        fast
    }

    /// After three seconds, of which the peer was honest.
    fn over(round_trip: Duration, wide_window: u16) -> Self {
        let mut params = Params::default();
        let mut sender = (*params.sender).clone();
        sender.extensions.mtu_asks_first = true;
        sender.extensions.mtu_payload_max = 1400;
        sender.extensions.wide_window = wide_window;
        sender.bulk.max = 100_000_000.0;
        params.sender = sender.into();
        let now = Now {
            mono: Timestamp::from_millis(1000),
            unix_secs: 0,
        };
        let mut fast = Self {
            outgoing: Outgoing::new(now, &params, 1),
            now,
            params,
            round_trip,
            under_way: VecDeque::new(),
        };
        for _ in 0..3000 {
            fast.step();
        }
        assert!(fast.outgoing.sender.is_peer_tidegate());
        fast
    }

    fn fill(&mut self) {
        let layout = &self.params.layout;
        while self.outgoing.push(self.now, layout, 0, &[7; 1000]).is_ok() {}
    }

    /// A millisecond: what may leaves, what is old enough is acknowledged.
    fn step(&mut self) {
        self.fill();
        let (now, layout) = (self.now, &self.params.layout);
        while self.outgoing.poll(now, || (0, 0)) {
            self.outgoing.write(layout, None, &mut Vec::new());
            self.outgoing.on_written(now);
            self.under_way.push_back((now.mono, self.outgoing.next - 1));
        }
        self.now.mono = now.mono + Duration::from_millis(1);
        while let Some((at, number)) = self.under_way.front().copied()
            && self.now.mono.since(at) >= self.round_trip
        {
            self.under_way.pop_front();
            self.acknowledge(number, 1, &[]).expect("it is true");
        }
    }

    /// Bytes that are queued or not acknowledged, when the queue takes no more.
    fn queued(&mut self) -> usize {
        self.fill();
        let mut stats = Stats::default();
        self.outgoing.sender.fill_stats(&mut stats);
        stats.outbox_bytes as usize
    }

    fn acknowledge(&mut self, ack: u64, ack_bits: u32, runs: &[u8]) -> Result<(), FalseAck> {
        let header = Header {
            sequence: 0,
            ack: ack as u16,
            ack_bits,
        };
        let payload = [&[NO_ENTRIES, LONG_ACK], runs].concat();
        let acks = Acks {
            header,
            postscript: Postscript::parse(&payload, false),
            in_order: true,
            record: None,
        };
        self.outgoing.on_acks(self.now, acks)
    }
}

#[test]
fn the_queue_is_as_long_as_the_path() {
    let most = Params::default().sender.outbox_bytes_max;
    for (round_trip, expected) in [(1, most / 2), (100, 4 * most)] {
        let mut fast = Fast::over(Duration::from_millis(round_trip), 16_384);
        let queued = fast.queued();
        let beyond = queued.checked_sub(expected);
        let what = format!("over {round_trip} ms {queued} bytes wait, not {expected}");
        assert!(beyond.is_some_and(|beyond| beyond < 1000), "{what}");
    }
}

#[test]
fn who_acknowledges_at_length_what_it_never_saw_is_found_out() {
    let newest = Fast::new().outgoing.next - 1;
    let claim = |ack, runs: &[u8]| Fast::new().acknowledge(ack, 0, runs);
    assert_eq!(claim(newest, &[]), Ok(()));
    assert_eq!(claim(newest, &[0, 200, 1]), Ok(()));
    // All from 400 back: some of those were skipped.
    assert_eq!(claim(newest, &[0, 255, 0, 113, 255, 0, 255]), Err(FalseAck));
    assert_eq!(claim(newest + 100, &[40]), Err(FalseAck), "never sent");
    assert_eq!(claim(newest + 100, &[0, 100]), Ok(()), "nothing is claimed");
}

/// It was sent again for nothing, and is not a third time.
#[test]
fn what_was_taken_for_lost_is_there_after_all() {
    let mut fast = Fast::new();
    let (_, oldest) = fast.under_way[0];
    let (_, newest) = fast.under_way[200];
    let skipped = |number: &u64| fast.outgoing.skipped.contains(*number);
    let runs: Vec<u8> = (oldest..=newest - 32)
        .rev()
        .flat_map(|number| if skipped(&number) { [0, 1] } else { [1, 0] })
        .collect();
    let lost = |fast: &Fast| {
        let mut stats = Stats::default();
        fast.outgoing.sender.fill_stats(&mut stats);
        stats.packets_lost
    };
    let before = lost(&fast);
    fast.acknowledge(newest, u32::MAX >> 1, &[])
        .expect("it is true");
    let missed = lost(&fast) - before;
    assert!(missed > 100, "only {missed} seemed lost");
    fast.acknowledge(newest, 0, &runs).expect("it is true");
    assert!(
        lost(&fast) - before < 5,
        "{} still do",
        lost(&fast) - before
    );
}

/// Older tidegates read no acknowledgement behind another mark than theirs.
#[test]
fn a_peer_that_reads_long_fragments_is_told_that_we_do() {
    let now = Now {
        mono: Timestamp::from_millis(1000),
        unix_secs: 0,
    };
    let ours = Params::default().with_path_mtu(1_500, true);
    let older = ours.clone().without_long_fragments();
    for (params, answer) in [(ours, LONG_ACK_OF_READER), (older, LONG_ACK)] {
        let mut outgoing = Outgoing::new(now, &params, 1);
        let kind = |outgoing: &Outgoing| {
            let (mut record, mut out) = (Record::new(0), Vec::new());
            outgoing.write_postscript(Some(&mut record), (1, 40), 100, &mut out);
            out[1]
        };
        assert_eq!(kind(&outgoing), LONG_ACK, "it has not said so");
        let acks = Acks {
            header: Header {
                sequence: 0,
                ack: u16::MAX,
                ack_bits: 0,
            },
            postscript: Postscript::parse(&[NO_ENTRIES, PROBE_OF_READER], true),
            in_order: true,
            record: None,
        };
        assert_eq!(outgoing.on_acks(now, acks), Ok(()));
        assert_eq!(kind(&outgoing), answer);
    }
}

/// Under the number of the first each time. Those in between were found lost once the answer came.
#[test]
fn what_was_repeated_for_want_of_an_answer_is_not_lost() {
    let mut now = Now {
        mono: Timestamp::from_millis(1000),
        unix_secs: 0,
    };
    let params = Params::default();
    let mut outgoing = Outgoing::new(now, &params, 1);
    let pushed = outgoing.push(now, &params.layout, 0, &[7; 7000]);
    assert_eq!(pushed, Ok(()));
    for _ in 0..500 {
        while outgoing.next < 4 && outgoing.poll(now, || (0, 0)) {
            outgoing.write(&params.layout, None, &mut Vec::new());
            outgoing.on_written(now);
        }
        now.mono += Duration::from_millis(10);
    }
    let repeats = (0..4).map(|number| outgoing.sender.went_as_another(number));
    assert_eq!(repeats.collect::<Vec<_>>(), [false, true, true, true]);
    let acks = Acks {
        header: Header {
            sequence: 0,
            ack: 0,
            ack_bits: 1,
        },
        postscript: None,
        in_order: true,
        record: None,
    };
    assert_eq!(outgoing.on_acks(now, acks), Ok(()));
    let mut stats = Stats::default();
    outgoing.sender.fill_stats(&mut stats);
    assert_eq!((stats.messages_acked, stats.packets_lost), (1, 0));
}

/// A queue that holds so many of its fragments takes the others the next time, and none is forgotten in any order.
#[test]
fn what_a_short_queue_drops_leaves_first_the_next_time() {
    for count in 2..=8 {
        let leave = |times: u8, at_most: usize| {
            let order = Order::after(times);
            (0..at_most).map(move |left| order.at(left, count))
        };
        for times in 0..=6 {
            let mut all: Vec<_> = leave(times, count).collect();
            all.sort_unstable();
            assert!(all.iter().copied().eq(0..count), "{times}: {all:?}");
        }
        let holds = count.div_ceil(2);
        let mut arrived: Vec<_> = leave(0, holds).chain(leave(1, holds)).collect();
        arrived.sort_unstable();
        arrived.dedup();
        assert_eq!(arrived.len(), count);
    }
}
