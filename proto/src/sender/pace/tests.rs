//! What follows for messages and bulk from what one path shows: round trips in, rates out.

use crate::sender::in_flight::Sent;

use super::*;

/// An acknowledgement comes every ten milliseconds.
const EVERY: u64 = 10;

/// A session, as its pace sees it.
struct Flow {
    pace: Pace,
    now: Timestamp,
    params: Params,
    copies: Copies,
    /// More bulk waits than its rate lets through.
    has_bulk: bool,
    /// Bytes that are said each time.
    says: usize,
}

impl Flow {
    /// Messages alone, on a path of 50 ms that is known.
    fn of_messages() -> Self {
        let params = Params::default();
        let now = Timestamp::ZERO;
        let mut flow = Self {
            pace: Pace::new(now, &params),
            now,
            params,
            copies: Copies::Few,
            has_bulk: false,
            says: 0,
        };
        flow.hear(1_000, 50);
        flow
    }

    /// Bulk, of which nothing is known to come through.
    fn of_bulk() -> Self {
        let mut flow = Self::of_messages();
        flow.has_bulk = true;
        flow.hear(1_000, 50);
        flow
    }

    /// For so many milliseconds all round trips take so many.
    fn hear(&mut self, millis: u64, rtt: u64) {
        for _ in 0..millis / EVERY {
            self.hear_once(rtt);
        }
    }

    fn hear_once(&mut self, rtt: u64) {
        self.now += Duration::from_millis(EVERY);
        if self.says > 0 {
            self.pace.on_pushed(self.now, self.says, false);
        }
        if self.has_bulk {
            self.pace.on_bulk_held(self.now, HeldBy::Rate);
            self.pace.on_bulk_sent(self.now, 0, 100, &self.params);
        }
        self.pace.update(self.now, &self.params);
        let took = Duration::from_millis(rtt).into();
        let sample = Sample { took, least: took };
        self.pace.on_acked(self.now, self.now - took, 0);
        self.pace
            .on_rtt(self.now, sample, self.copies, &self.params);
    }

    /// A queue of 100 ms fills within a second, and stays for so many milliseconds.
    fn meet_a_queue(&mut self, millis: u64) {
        for rtt in (50..150).step_by(5) {
            self.hear(50, rtt);
        }
        self.hear(millis, 150);
    }

    /// All round trips take so many milliseconds until the mode has changed to this one, which is soon.
    fn hear_until(&mut self, mode: Mode, rtt: u64) {
        let latest = self.now + Duration::from_secs(2);
        while self.pace.mode() != mode {
            self.hear_once(rtt);
            assert!(self.now < latest, "{mode:?} never came");
        }
    }

    fn lose_one(&mut self) {
        let lost = Sent::skipped(self.now, 0);
        self.pace.on_lost(0, &lost, false, &self.params);
    }

    /// Mode, packets a second, and whether copies are harmless.
    fn shows(&self) -> (Mode, f64, bool) {
        let rate = self.pace.packet_rate(&self.params);
        (self.pace.mode(), rate, self.pace.allows_copies())
    }

    fn bulk_rate(&self) -> f64 {
        self.pace.bulk_rate(&self.params).unwrap()
    }
}

const GOOD: (Mode, f64, bool) = (Mode::Good, 90.0, true);
const HELD_BACK: (Mode, f64, bool) = (Mode::Bad, 20.0, false);
const SPARED: (Mode, f64, bool) = (Mode::Bad, 90.0, false);
const COMPETING: (Mode, f64, bool) = (Mode::Bad, 90.0, true);

/// A queue that stays although we hold back is somebody else's. Who filled it is expected back for a minute.
#[test]
fn nobody_holds_back_twice_for_the_same_flow() {
    let mut flow = Flow::of_messages();
    assert_eq!(flow.shows(), GOOD);
    flow.meet_a_queue(500);
    assert_eq!(flow.shows(), HELD_BACK);
    flow.hear(2_500, 150);
    assert_eq!(flow.shows(), COMPETING);
    flow.hear(1_000, 50);
    assert_eq!(flow.shows(), GOOD, "it is gone");
    flow.hear(500, 150);
    assert_eq!(flow.shows(), COMPETING, "and comes back");
    flow.hear(61_000, 50);
    flow.meet_a_queue(500);
    assert_eq!(flow.shows(), HELD_BACK, "whose that is, nobody knows");
}

/// Copies fill a queue as well as anybody: while it is longer than theirs, some of it may be ours.
#[test]
fn what_others_do_not_explain_is_held_back() {
    let mut flow = Flow::of_messages();
    flow.meet_a_queue(3_000);
    assert_eq!(flow.shows(), COMPETING);
    assert!(!flow.pace.shows_queue(), "it is explained");
    flow.hear(1_000, 250);
    assert_eq!(flow.shows(), SPARED);
    flow.hear(2_000, 250);
    assert_eq!(flow.shows(), COMPETING, "it stays without copies");
}

/// While there is something else to cut, messages keep their rate; for a moment.
#[test]
fn copies_are_cut_before_messages() {
    let mut flow = Flow::of_messages();
    flow.copies = Copies::Many;
    flow.meet_a_queue(0);
    assert_eq!(flow.shows(), SPARED);
    flow.hear(1_500, 150);
    assert_eq!(flow.shows(), HELD_BACK);
}

/// Beside somebody else, a loss halves the rate of bulk, once; between losses it grows.
#[test]
fn each_loss_beside_others_is_heard_once() {
    let mut flow = Flow::of_bulk();
    flow.meet_a_queue(8_000);
    assert_eq!(flow.shows(), COMPETING);
    let before = flow.bulk_rate();
    flow.hear(200, 150);
    let grown = flow.bulk_rate();
    assert!(before < grown && grown < before + 20_000.0, "{grown}");
    flow.lose_one();
    flow.hear_once(150);
    assert_eq!(flow.bulk_rate(), 0.5 * grown);
    flow.lose_one();
    flow.hear_once(150);
    assert_eq!(flow.bulk_rate(), 0.5 * grown, "within a round trip");
    flow.hear(400, 150);
    assert!(flow.bulk_rate() > 0.5 * grown, "{}", flow.bulk_rate());
}

/// What leaves at once and comes through without a delay shows what the path carries. One late acknowledgement is enough
/// to show nothing, although a moment has more of them.
#[test]
fn a_volley_that_meets_a_queue_says_nothing() {
    for (rtt, carried) in [(50, 600_000.0), (69, 600_000.0), (71, 65_536.0)] {
        let mut flow = Flow::of_messages();
        flow.pace.on_bulk_held(flow.now, HeldBy::Rate);
        let sent_at = flow.now;
        flow.pace.on_bulk_sent(sent_at, 0, 12_000, &flow.params);
        flow.now += Duration::from_millis(rtt - EVERY);
        flow.pace.on_acked(flow.now, sent_at, 12_000);
        flow.hear_once(rtt);
        assert_eq!(flow.bulk_rate(), carried, "{rtt} ms");
    }
}

/// The path takes 80 ms longer from one moment to the next. What is said evenly has its rate again once that is believed,
/// and bulk looks for the path's end.
#[test]
fn another_route_ends_no_search() {
    let mut flow = Flow::of_messages();
    flow.says = 400;
    flow.hear(2_000, 50);
    flow.has_bulk = true;
    flow.hear(200, 50);
    flow.hear_until(Mode::Bad, 130);
    assert!(flow.bulk_rate() < 50_000.0, "{}", flow.bulk_rate());
    flow.hear_until(Mode::Good, 130);
    flow.hear(20, 130);
    assert_eq!(flow.bulk_rate(), 60_000.0, "half as much again as is said");
    flow.hear(200, 130);
    assert_eq!(flow.bulk_rate(), 120_000.0, "no end was met: twice as much");
}
