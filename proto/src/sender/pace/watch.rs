//! What bulk sees of its path, by what is acknowledged and what gets lost: whether that is full, and what it carries.

use std::time::Duration;

use crate::sender::ack_timer::LARGE_PACKET_BYTES;
use crate::sender::in_flight::{DATAGRAM_BYTES, Sent};
use crate::sender::params::Params;
use crate::time::Timestamp;

use super::delivered::Delivered;
use super::losses::{Losses, Witness};
use super::queueing::Queue;
use super::short_queue::ShortQueue;

/// Looks at the path while bulk is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch {
    /// Bytes of the last packet of bulk: a message beyond a datagram makes a large one.
    packet: f64,
    /// Acknowledgements in a row that were late, as behind a queue.
    late: u8,
    losses: Losses,
    short_queue: ShortQueue,
    delivered: Delivered,
}

/// How bulk goes while the path is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Going {
    /// Bytes a second.
    pub(super) rate: f64,
    pub(super) in_slow_start: bool,
    /// The path's end was met before.
    pub(super) knows_end: bool,
}

/// What is seen of a path, rates in bytes a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    /// The present delay is more than chance mostly is.
    pub(super) is_late: bool,
    /// It has been for so long that it is a queue.
    pub(super) is_queue: bool,
    /// More gets lost than usual, one by one: others share the path, and lose as much.
    pub(super) is_shared: bool,
    /// It carries no more.
    pub(super) is_end: bool,
    /// It may carry no more.
    pub(super) is_met: bool,
    /// What it carried at best, lately.
    pub(super) carried: f64,
    /// What it carried, if it carries no more.
    pub(super) end: f64,
    /// What came through last.
    pub(super) passed: f64,
}

impl Watch {
    pub(super) fn on_sent(&mut self, bytes: usize) {
        self.packet = bytes as f64;
    }

    /// Bulk makes a pause, or ends one.
    pub(super) fn pause(&mut self) {
        // The queue that may have been there is gone by the next one.
        self.late = 0;
        self.delivered.pause();
    }

    pub(super) fn on_acked(&mut self, now: Timestamp, bytes: usize, rtt_s: f64, paced: f64) {
        self.losses.on_acked();
        self.delivered.on_acked(now, bytes, rtt_s, paced);
    }

    /// `follows`, when the packet before it was lost as well.
    pub(super) fn on_lost(&mut self, sent: &Sent, follows: bool) {
        self.losses.on_lost(sent.at, follows, sent.split);
    }

    /// What is acknowledged now is not what the path carries.
    pub(super) fn on_held_up(&mut self) {
        self.delivered.on_held_up();
    }

    /// What is found lost until then was sent at a rate that is known to be too high.
    pub(super) fn rest_until(&mut self, at: Timestamp) {
        self.losses.rest_until(at);
    }

    /// What was late was not behind a queue.
    pub(super) fn forget_late(&mut self) {
        self.late = 0;
    }

    /// That was of another path.
    pub(super) fn forget_short_queue(&mut self) {
        self.short_queue = ShortQueue::default();
    }

    /// What the last acknowledgement says of the path.
    pub(super) fn look(
        &mut self,
        now: Timestamp,
        step: Duration,
        queue: Queue,
        going: Going,
        params: &Params,
    ) -> Path {
        let best = self.delivered.best();
        let is_late = self.note_delay(queue, going.knows_end, params);
        let is_queue = self.late >= self.samples_of_a_queue();
        // What the path loses anyway was carried to where it got lost.
        let share = f64::from(1.0 - self.losses.usual());
        let carried = best / share;
        let fills = self.short_queue.fills(now, step, going.rate, queue);
        let is_full = self.short_queue.is_filling(now, going.rate, queue);
        let witness = witness(going.rate, step, queue, is_full);
        let overflows = self.losses.have_risen(now, step, witness);
        if overflows {
            self.short_queue.on_overflow(now + 4 * step, carried);
        }
        Path {
            is_late,
            is_queue,
            is_shared: overflows && self.losses.are_single(),
            is_end: best > 0.0 && (overflows || fills || going.in_slow_start && is_queue),
            is_met: is_queue || overflows || is_full,
            carried,
            // A path that is merely full delivers evenly; others delivered most a moment ago.
            end: if going.in_slow_start || overflows {
                carried
            } else {
                self.delivered.usual() / share
            },
            passed: self.passed(),
        }
    }

    /// Whether the present delay is more than chance mostly is.
    fn note_delay(&mut self, queue: Queue, knows_end: bool, params: &Params) -> bool {
        let most = params.path.queue_max.as_secs_f64();
        let noise = if self.is_large() { 0.0 } else { queue.noise };
        let least = if self.is_large() || knows_end {
            most / 3.0
        } else {
            // Where nothing is known of the path, its jitter is not known either.
            most / 2.0
        };
        let is_late = queue.delay > (2.0 * queue.jitter).max(noise).max(least) + queue.spared;
        self.late = match is_late {
            true => self.late.saturating_add(queue.is_new.into()),
            false => 0,
        };
        is_late
    }

    /// Large packets are acknowledged at once, and a queue that has room for few of them may not be seen
    /// twice.
    fn is_large(&self) -> bool {
        self.packet > LARGE_PACKET_BYTES as f64
    }

    /// Late acknowledgements in a row that are a queue: of packets of several datagrams fewer, as a queue has
    /// room for fewer of them.
    pub(super) fn samples_of_a_queue(&self) -> u8 {
        let packets = f64::from(QUEUE_SAMPLES) * DATAGRAM / self.packet.max(1.0);
        (packets as u8).clamp(1, QUEUE_SAMPLES)
    }

    /// Seconds that one packet takes at this rate.
    pub(super) fn packet_time(&self, rate: f64) -> f64 {
        self.packet / rate.max(1.0)
    }

    /// What came through last, to where the path loses what it loses anyway.
    pub(super) fn passed(&self) -> f64 {
        self.delivered.last() / f64::from(1.0 - self.losses.usual())
    }

    /// What came through lately.
    pub(super) fn delivered(&self) -> &Delivered {
        &self.delivered
    }

    /// How much less of the carried rate is kept than after a single rise of losses.
    pub(super) fn distrust(&self) -> f64 {
        self.losses.distrust()
    }

    /// The path loses such a share whatever is sent.
    pub(super) fn usual_loss(&self) -> f64 {
        self.losses.usual().into()
    }

    /// More than this is clearly more than what is lost here whatever is sent.
    pub(super) fn most_usual_loss(&self) -> f64 {
        self.losses.most_usual().into()
    }

    /// What is lost are packets of several datagrams: their share is not that of datagrams.
    pub(super) fn loses_split(&self) -> bool {
        self.losses.is_split()
    }

    /// The path loses such a share of datagrams whatever is sent.
    pub(super) fn believe_loss(&mut self, share: f64) {
        self.losses.believe(share as f32);
    }

    /// It may not.
    pub(super) fn doubt_loss(&mut self) {
        self.losses.doubt();
    }

    /// Heavy loss is the path's own.
    pub(super) fn is_loss_own(&self) -> bool {
        self.losses.is_own()
    }

    /// What came through last, to where the path loses heavily.
    pub(super) fn passed_own(&self) -> f64 {
        match self.losses.is_own() {
            true => self.passed(),
            false => self.delivered.last(),
        }
    }
}

/// What is lost now may be many's doing where the queue is never empty. And who has few datagrams under way
/// is one of many, for all that is known: a TCP would go no faster with such losses.
fn witness(rate: f64, step: Duration, queue: Queue, is_full: bool) -> Witness {
    let under_way = rate * step.as_secs_f64();
    if is_full {
        Witness::Overflow
    } else if queue.fill > FILL_OF_CROWD || under_way < SHARE_OF_CROWD {
        Witness::Crowd
    } else {
        Witness::Path
    }
}

/// Late acknowledgements in a row that are a queue: at a low rate the time over which round trips are compared
/// has one or two of them, of which the smallest says little. HyStart++ takes as many (RFC 9406, section 4.3: N_RTT_SAMPLE).
const QUEUE_SAMPLES: u8 = 8;

/// A queue that is mostly this full has others in it. One that only we fill, and keep short, is a twentieth to an
/// eighth full.
const FILL_OF_CROWD: f64 = 0.25;

/// Bytes under way, of one of many: three times what a TCP has where a tenth is lost (RFC 5348, section 3.1).
pub(super) const SHARE_OF_CROWD: f64 = 12.0 * DATAGRAM;

/// Bytes of a full datagram, roughly.
pub(super) const DATAGRAM: f64 = DATAGRAM_BYTES as f64;

#[cfg(test)]
mod tests {
    use super::*;

    /// Seven late acknowledgements are no queue yet. One more, a minute after bulk paused, is the first of another one.
    #[test]
    fn what_was_late_before_a_pause_is_no_queue_behind_it() {
        let (mut watch, params) = (Watch::default(), Params::default());
        let going = Going {
            rate: 64_000.0,
            in_slow_start: true,
            knows_end: false,
        };
        let step = Duration::from_millis(50);
        let is_queue = |watch: &mut Watch, millis| {
            let now = Timestamp::from_millis(millis);
            watch
                .look(now, step, Queue::quiet(0.015), going, &params)
                .is_queue
        };
        for late in 1..8 {
            assert!(!is_queue(&mut watch, 5 * late), "{late}");
        }
        watch.pause();
        assert!(!is_queue(&mut watch, 60_000));
        for late in 2..8 {
            assert!(!is_queue(&mut watch, 60_000 + 5 * late), "{late}");
        }
        assert!(is_queue(&mut watch, 60_040));
    }
}
