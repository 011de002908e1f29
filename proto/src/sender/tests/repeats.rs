//! Packets of several datagrams that go again under their numbers, and what their answers say of the path.

use super::*;

/// Of a round trip of 50 ms.
struct Path {
    peer: Peer,
    millis: u64,
}

impl Path {
    fn new() -> Self {
        let params = Params {
            keep_alive: false,
            ..Params::default()
        };
        let mut peer = Peer::new(Timestamp::ZERO, Arc::new(params), &LANES);
        peer.sender.framing.again_within = 24;
        Self { peer, millis: 0 }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.millis)
    }

    /// The number of the packet that leaves with a message of so many bytes.
    fn say(&mut self, bytes: usize) -> u64 {
        self.peer
            .sender
            .push(self.now(), 0, &vec![7; bytes])
            .unwrap();
        self.leaving().expect("a packet leaves at once").number
    }

    fn leaving(&mut self) -> Option<Packet> {
        let now = self.now();
        self.peer.sender.handle_timeout(now);
        self.peer.poll_transmit(now)
    }

    fn hear(&mut self, acked: u64) {
        let now = self.now();
        self.peer.sender.hear(now, IN_ORDER, |hearing| {
            assert!(hearing.acked(acked));
        });
    }

    /// A packet gets lost, and is found by the answers to the four behind it. What leaves then at once.
    fn lose(&mut self, bytes: usize) -> (u64, Option<Packet>) {
        let lost = self.say(bytes);
        let behind = [(); 4].map(|()| {
            self.millis += 1;
            self.say(100)
        });
        self.millis += 50;
        for number in behind {
            self.hear(number);
        }
        (lost, self.leaving())
    }
}

/// An acknowledgement that comes right behind a packet that went again answers the packet as it went before: of two answers,
/// the first got lost. A path that reorders looks the same, and there losses are found late.
#[test]
fn an_answer_right_behind_a_repeat_is_no_sign_of_reordering() {
    let mut path = Path::new();
    for _ in 0..20 {
        let number = path.say(100);
        path.millis += 50;
        path.hear(number);
        path.millis += 10;
    }
    let (large, again) = path.lose(3_000);
    let again = again.expect("what is lost goes again");
    assert!(path.peer.sender.went_as_another(again.number));
    path.millis += 1;
    path.hear(large);
    assert!(path.peer.sender.is_drained());

    path.millis += 1_000;
    let (_, again) = path.lose(200);
    let again = again.expect("the next loss is found as soon");
    assert_eq!(again.messages[0].2, [7; 200]);
}

/// Before anything is known of the round trip, the answer to a packet may come right behind its repeat. It is no proof of a
/// short path: what takes longer than that looked like a queue, and a game was paced for half a minute.
#[test]
fn a_first_answer_right_behind_a_repeat_is_no_round_trip() {
    let mut path = Path::new();
    let large = path.say(3_000);
    let again = loop {
        path.millis += 1;
        if let Some(again) = path.leaving() {
            break again;
        }
    };
    assert!(path.peer.sender.went_as_another(again.number));
    path.millis += 3;
    path.hear(large);
    assert!(path.peer.sender.is_drained());
    let least = path.peer.sender.rtt.min();
    assert_eq!(least, Duration::from_millis(path.millis));
}
