//! Worlds with what games configure and few try: layouts of yojimbo with several channels, narrow packets and short
//! queues; the options of gaffer and rudp; ends of the library's make; and losses in turn that never end.
//!
//! Everything else of such a world is drawn as that of any other.

mod layout;
mod said;
mod sender;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use super::plan::{Maker, Plan, coin};
use crate::session::AckPolicy;
use crate::sim::Random;
use crate::tests::games::Rules;
use crate::yojimbo::channels::{ChannelLayout, Layout};
use crate::{gaffer, rudp, yojimbo};

use self::said::{said, said_on};

/// Inboxes, and send queues of rudp, which may be so short that each message waits for the one before.
const INBOXES: [usize; 3] = [1, 2_000, 256 * 1024];

impl Plan {
    pub(super) fn draw_odd(random: &mut Random) -> Self {
        let mut plan = Self::draw(random);
        match random.below(8) {
            0 => plan.draw_gaffer(random),
            1 => plan.draw_rudp(random),
            _ => plan.draw_yojimbo(random),
        }
        plan
    }

    fn draw_gaffer(&mut self, random: &mut Random) {
        self.go_without_keys();
        self.lose_in_turn(random);
        let mut params = gaffer::Params {
            message_bytes_max: 16_384,
            datagram_bytes_max: pick(random, [1_100, 1_200, 1_472]),
            inbox_max: pick(random, INBOXES),
            ..gaffer::Params::default()
        };
        if coin(random) {
            params.sender = sender::draw(random);
        }
        self.rules = Rules::Gaffer(Arc::new(params));
        let largest = pick(random, [30, 300, 3_000, 16_000]);
        (self.up, self.down) = (
            said(random, 0..=largest, 1_024),
            said(random, 0..=largest, 1_024),
        );
        (self.up.unreliable, self.down.unreliable) = (coin(random), coin(random));
    }

    fn draw_rudp(&mut self, random: &mut Random) {
        self.go_without_keys();
        self.lose_in_turn(random);
        let tick = Duration::from_millis(pick(random, [1, 10, 50]));
        let minute = Duration::from_secs(60).as_millis() / tick.as_millis();
        let params = rudp::Params {
            tick,
            expired_time: minute as u32,
            send_delay: pick(random, [1, 3, 10]),
            mtu: pick(random, [64, 512, 1_472]),
            message_bytes_max: 8_000,
            send_queue_messages_max: pick(random, [1, 8, 1_024]),
            send_queue_bytes_max: pick(random, [1, 4_096, 1 << 20]),
            inbox_max: pick(random, INBOXES),
            ..rudp::Params::default()
        };
        self.rules = Rules::Rudp(params);
        let (largest, mtu) = (pick(random, [30, 300, 1_400, 8_000]), params.mtu);
        (self.up, self.down) = (
            said(random, 0..=largest, mtu),
            said(random, 0..=largest, mtu),
        );
        let one_by_one = params.send_queue_messages_max == 1
            || params.send_queue_bytes_max == 1
            || params.inbox_max == 1;
        if one_by_one {
            // One in each output, which may be half a second, and none is kept longer than two minutes.
            self.say_less();
        }
        self.acts.retain(|(_, act)| !act.ends());
    }

    /// Nothing protects what they say from flipped bits. And both send what the path cannot carry in one piece, and are
    /// not told.
    fn go_without_keys(&mut self) {
        (self.weather.mtu, self.weather.corrupt) = (0, 0.0);
    }

    fn draw_yojimbo(&mut self, random: &mut Random) {
        self.made_by = match random.below(4) {
            0 => Maker::LibraryClients,
            1 => Maker::LibraryServer,
            2 => Maker::Tidegate,
            _ => pick(random, [Maker::OlderClients, Maker::OlderServer]),
        };
        let is_stock = self.made_by.is_of_library();
        if is_stock {
            // They are tidegates.
            (self.liar, self.deaf) = (false, false);
        }
        let layout = layout::draw(random, is_stock);
        let params = yojimbo_params(random, &layout, is_stock);
        (self.up, self.down) = (
            said_on(random, &layout, is_stock),
            said_on(random, &layout, is_stock),
        );
        if goes_one_by_one(&params, &layout) {
            // A round trip for each, and one more for each that is lost.
            self.say_less();
        }
        self.rules = Rules::Yojimbo(Arc::new(params));
        // A path on which one in so many of a packet's datagrams is lost for ever need not let any packet through, and the
        // library fills its packets whatever the path can carry.
        let fits = |said| layout::fits_a_datagram(&layout, said);
        if !is_stock && fits(&self.up) && fits(&self.down) {
            self.lose_in_turn_one_way(random);
            // A probe for each that is lost.
            self.say_less();
        }
    }

    fn say_less(&mut self) {
        self.up.messages %= 100;
        self.down.messages %= 100;
    }
}

fn yojimbo_params(random: &mut Random, layout: &Layout, is_stock: bool) -> yojimbo::Params {
    let mut params = yojimbo::Params::new(layout.clone(), sender::draw(random));
    if coin(random) {
        params.ack = AckPolicy::Strict;
    }
    params.inbox_max = pick(random, INBOXES);
    if coin(random) {
        // Only to a tidegate are larger datagrams sent without being asked for.
        params = params.with_path_mtu(9_000, !is_stock && coin(random));
    }
    // Whatever the processor: a seed is the same world everywhere.
    params.with_second_cipher(coin(random))
}

fn goes_one_by_one(params: &yojimbo::Params, layout: &Layout) -> bool {
    let is_narrow = |channel: &ChannelLayout| channel.is_reliable() && channel.receive_window <= 8;
    params.sender.outbox_bytes_max <= 1_000 || layout.channels().iter().any(is_narrow)
}

fn pick<T: Copy, const N: usize>(random: &mut Random, from: [T; N]) -> T {
    from[random.below(N as u64) as usize]
}
