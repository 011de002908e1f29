//! One fast connection over paths that take datagrams of different lengths, and what else two tidegates
//! do that found each other out.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::games::{Game, Rules};
use super::scenario::{Scenario, dead};
use crate::session::AckPolicy;
use crate::sim::{Conditions, Traffic, Way};
use crate::yojimbo::Params;
use crate::yojimbo::channels::{ChannelLayout, Delivery, Layout, MessageType};
use crate::yojimbo::netcode::wire::Kind;
use crate::yojimbo::reliable::Limits;
use crate::{gaffer, sender};

/// The number of [`Kind::GcmPayload`] in the first byte of a packet.
const GCM: u8 = Kind::GcmPayload as u8;

/// Packets of one way: how many of them are payloads, and how many of those under the second cipher.
#[derive(Clone, Default)]
struct Ciphers(Rc<RefCell<(u64, u64)>>);

impl Ciphers {
    /// Of those that leave from now on.
    fn watch(scenario: &mut Scenario, way: Way) -> Self {
        let ciphers = Self::default();
        let seen = ciphers.0.clone();
        scenario.set_watch(Box::new(move |_, going, datagram: &[u8]| {
            let kind = datagram[0] & 0x0f;
            if going == way && (kind == Kind::Payload as u8 || kind == GCM) {
                let (payloads, gcm) = &mut *seen.borrow_mut();
                *payloads += 1;
                *gcm += u64::from(kind == GCM);
            }
        }));
        ciphers
    }
}

/// Datagrams of one way, by length: how many carried something, roughly.
#[derive(Clone, Default)]
struct Lengths(Rc<RefCell<Vec<usize>>>);

impl Lengths {
    /// Of those that leave from now on.
    fn watch(scenario: &mut Scenario, way: Way) -> Self {
        let lengths = Self::default();
        let seen = lengths.0.clone();
        scenario.set_watch(Box::new(move |_, going, datagram: &[u8]| {
            if going == way {
                seen.borrow_mut().push(datagram.len());
            }
        }));
        lengths
    }

    fn largest(&self) -> usize {
        self.0.borrow().iter().copied().max().unwrap_or(0)
    }

    /// Datagrams longer than this.
    fn above(&self, length: usize) -> usize {
        let lengths = self.0.borrow();
        lengths.iter().filter(|&&one| one > length).count()
    }

    /// Datagrams up to this length and not much shorter.
    fn near(&self, length: usize) -> usize {
        self.above(length - length / 8) - self.above(length)
    }

    fn forget(&self) {
        self.0.borrow_mut().clear();
    }
}

fn ours(asks_first: bool) -> Rules {
    Rules::Yojimbo(Arc::new(Params::default().with_path_mtu(9_000, asks_first)))
}

/// Rules of ours on a processor that makes AES-GCM the faster cipher, whatever it is here; or on one that does not.
fn ours_with_cipher(asks_first: bool, has_instructions: bool) -> Rules {
    let params = Params::default().with_path_mtu(9_000, asks_first);
    Rules::Yojimbo(Arc::new(params.with_second_cipher(has_instructions)))
}

fn stock() -> Rules {
    Rules::Yojimbo(Arc::new(Params::default()))
}

/// More than leaves at once, in messages of which any datagram holds several.
fn bulk(messages: u64) -> Traffic {
    Traffic {
        messages,
        sizes: 50..=150,
        burst: 400,
        every: Duration::from_millis(1),
        ..Traffic::default()
    }
}

fn path(mtu: usize) -> Conditions {
    Conditions {
        delay: Duration::from_millis(5),
        mtu,
        ..Conditions::default()
    }
}

fn game(server: Rules, client: Rules) -> Game {
    Game::new(server, 61).dialled_by(client)
}

const ALL: Duration = Duration::from_secs(60);

#[test]
fn datagrams_grow_to_what_the_path_takes() {
    for (mtu, longest) in [
        (0, 8_226),
        (9_000, 8_226),
        (1_500, 1_452),
        (1_450, 1_412),
        (1_400, 1_372),
        (1_280, 1_186),
    ] {
        let (up, silent) = (bulk(60_000), Traffic::silent());
        let mut game = game(ours(false), ours(true));
        let mut scenario = Scenario::new(&mut game, 1, path(mtu), &up, &silent);
        let lengths = Lengths::watch(&mut scenario, Way::Up);
        scenario.deliver_all_within(ALL);
        let (full, probes) = (lengths.near(longest), lengths.above(longest));
        assert!(full > 500, "MTU {mtu}: {full} of about {longest} bytes");
        let refused = if mtu == 0 || mtu == 9_000 {
            0..1
        } else {
            3..10
        };
        assert!(refused.contains(&probes), "MTU {mtu}: {probes} probes");
        assert_eq!(scenario.network().0.too_long, probes as u64);
    }
}

/// Where datagrams can get no longer than the standard's longest, their acknowledgement shows no tidegate: neither end
/// may count on the other's wider limits, which it has only for one that it heard.
#[test]
fn what_any_peer_takes_shows_no_tidegate() {
    for (packet_bytes_max, mtu) in [(1_024, 9_000), (8_192, 1_340)] {
        let limits = Limits {
            packet_bytes_max,
            fragment_above: 300,
            ..Limits::default()
        };
        let channel = ChannelLayout {
            block_fragment_size: 512,
            ..ChannelLayout::new(Delivery::ReliableOrdered)
        };
        let layout = Layout::new(vec![channel], vec![MessageType::Block], limits);
        let layout = layout.expect("it is legal");
        let params = Params::new(layout, sender::Params::default());
        let ours = |asks_first| {
            let params = params.clone().with_path_mtu(mtu, asks_first);
            Rules::Yojimbo(Arc::new(params))
        };
        let blocks = Traffic {
            messages: 100,
            sizes: 9_000..=12_000,
            burst: 20,
            ..Traffic::default()
        };
        let weather = Conditions {
            loss: 0.1,
            ..path(0)
        };
        let mut game = game(ours(false), ours(true));
        let mut scenario = Scenario::new(&mut game, 1, weather, &blocks, &Traffic::silent());
        scenario.deliver_all_within(3 * ALL);
    }
}

/// A server sends none to a peer that sent it none, and a client of ours sends one when it hears much.
#[test]
fn a_server_learns_from_its_client_that_larger_datagrams_are_taken() {
    let (down, silent) = (bulk(200_000), Traffic::silent());
    let mut of_ours = game(ours(false), ours(true));
    let mut scenario = Scenario::new(&mut of_ours, 1, path(1_500), &silent, &down);
    let lengths = Lengths::watch(&mut scenario, Way::Down);
    scenario.deliver_all_within(ALL);
    assert!(lengths.near(1_452) > 1_000, "{}", lengths.near(1_452));

    let mut of_others = game(ours(false), stock());
    let mut scenario = Scenario::new(&mut of_others, 1, path(1_500), &silent, &down);
    let lengths = Lengths::watch(&mut scenario, Way::Down);
    scenario.deliver_all_within(ALL);
    assert_eq!(lengths.above(1_225), 0, "what netcode allows");
}

/// Datagrams that only the peer refuses are as good as lost: it is asked, and left alone.
#[test]
fn a_server_of_the_standard_is_asked_and_left_alone() {
    let (up, silent) = (bulk(60_000), Traffic::silent());
    let mut game = game(stock(), ours(true));
    let mut scenario = Scenario::new(&mut game, 1, path(0), &up, &silent);
    let lengths = Lengths::watch(&mut scenario, Way::Up);
    scenario.deliver_all_within(ALL);
    let asked = lengths.above(1_225);
    assert!((3..=9).contains(&asked), "{asked} probes");
}

/// Bulk goes under the second cipher, both ways, over a path that loses the question now and then.
#[test]
fn two_ends_that_have_the_instructions_change_the_cipher() {
    for way in [Way::Up, Way::Down] {
        let (bulk, silent) = (bulk(200_000), Traffic::silent());
        let (up, down) = match way {
            Way::Up => (&bulk, &silent),
            Way::Down => (&silent, &bulk),
        };
        let lossy = Conditions {
            loss: 0.03,
            ..path(1_500)
        };
        let mut game = game(ours_with_cipher(false, true), ours_with_cipher(true, true));
        let mut scenario = Scenario::new(&mut game, 1, lossy, up, down);
        let ciphers = Ciphers::watch(&mut scenario, way);
        scenario.deliver_all_within(ALL);
        let (payloads, gcm) = *ciphers.0.borrow();
        assert!(
            gcm > 1_000 && 4 * gcm > 3 * payloads,
            "{way:?}: {gcm} of {payloads}"
        );
        let (up, down) = scenario.network();
        assert!(up.lost > 20 && down.lost > 20, "{up:?} {down:?}");
    }
}

/// An end without the instructions reads none of it, is asked three times, and gets everything as before.
#[test]
fn an_end_without_the_instructions_keeps_the_cipher() {
    for (server, client) in [(true, false), (false, true)] {
        let (up, silent) = (bulk(100_000), Traffic::silent());
        let mut game = game(
            ours_with_cipher(false, server),
            ours_with_cipher(true, client),
        );
        let mut scenario = Scenario::new(&mut game, 1, path(1_500), &up, &silent);
        let ciphers = Ciphers::watch(&mut scenario, Way::Up);
        scenario.deliver_all_within(ALL);
        let (payloads, gcm) = *ciphers.0.borrow();
        assert!(payloads > 1_000, "{payloads}");
        assert_eq!(
            gcm,
            if client { 3 } else { 0 },
            "the client has it: {client}"
        );
    }
}

#[test]
fn who_says_little_asks_nothing() {
    let game_of_30_hz = Traffic {
        messages: 300,
        sizes: 0..=3_000,
        every: Duration::from_millis(33),
        ..Traffic::default()
    };
    let mut game = game(ours(false), ours(true));
    let mut scenario = Scenario::new(&mut game, 1, path(0), &game_of_30_hz, &game_of_30_hz);
    let lengths = Lengths::watch(&mut scenario, Way::Up);
    scenario.deliver_all_within(ALL);
    assert_eq!(lengths.above(1_225), 0);
}

/// Everything under way is too long from one moment to the next, and nobody says so.
#[test]
fn a_path_that_shrinks_loses_nothing() {
    let (up, silent) = (bulk(800_000), Traffic::silent());
    let mut game = game(ours(false), ours(true));
    let mut scenario = Scenario::new(&mut game, 1, path(0), &up, &silent);
    let lengths = Lengths::watch(&mut scenario, Way::Up);
    scenario.run_for(Duration::from_secs(1));
    assert!(lengths.above(7_000) > 100, "{}", lengths.above(7_000));
    scenario.set_weather(path(1_400), path(1_400));
    scenario.run_for(Duration::from_secs(1));
    assert!(scenario.network().0.too_long > 4, "it was too long");
    lengths.forget();
    scenario.deliver_all_within(ALL);
    let most = lengths.largest();
    assert!((1_300..=1_372).contains(&most), "{most} bytes");
}

/// Messages that any path takes, said so fast that they go together, over a path that begins to take less than every
/// path should, or always did. yojimbo's own first packet is longer than some of these.
#[test]
fn a_path_that_takes_no_full_datagrams_ends_no_session() {
    let pairs = Traffic {
        messages: 600,
        sizes: 20..=440,
        burst: 4,
        every: Duration::from_millis(33),
        ..Traffic::default()
    };
    let spikes = Traffic {
        messages: 240,
        sizes: 20..=300,
        burst: 60,
        every: Duration::from_secs(2),
        ..Traffic::default()
    };
    let up_alone = Traffic::silent();
    let modern = gaffer::Params {
        sender: sender::Params::default(),
        ..gaffer::Params::default()
    };
    for (rules, least) in [
        (stock(), 1_150),
        (Rules::Gaffer(Arc::default()), 576),
        (Rules::Gaffer(Arc::new(modern)), 576),
    ] {
        for (up, down) in [(&pairs, &pairs), (&spikes, &spikes), (&spikes, &up_alone)] {
            for (mtu, wide_for) in [(576, 1), (1_000, 1), (least, 0)] {
                let mut game = Game::new(rules.clone(), 61);
                let narrow = Conditions {
                    loss: 0.02,
                    ..path(mtu)
                };
                let first = if wide_for > 0 { path(0) } else { narrow };
                let mut scenario = Scenario::new(&mut game, 1, first, up, down);
                scenario.run_for(Duration::from_secs(wide_for));
                scenario.set_weather(narrow, narrow);
                scenario.deliver_all_within(2 * ALL);
                assert!(scenario.network().0.too_long > 0, "MTU {mtu}");
            }
        }
    }
}

/// Each of these messages fills a datagram by itself, so it is of no use to send less together.
#[test]
fn messages_that_fill_a_datagram_pass_a_path_that_takes_none() {
    let large = Traffic {
        messages: 100,
        sizes: 1_030..=1_140,
        every: Duration::from_millis(50),
        ..Traffic::default()
    };
    let mixed = Traffic {
        messages: 400,
        sizes: 20..=1_140,
        burst: 4,
        every: Duration::from_millis(33),
        ..Traffic::default()
    };
    for traffic in [&large, &mixed] {
        for (mtu, wide_for) in [(1_110, 0), (1_150, 0), (1_180, 0), (1_110, 1)] {
            let mut game = Game::new(stock(), 61);
            let narrow = Conditions {
                loss: 0.02,
                ..path(mtu)
            };
            let first = if wide_for > 0 { path(0) } else { narrow };
            let mut scenario = Scenario::new(&mut game, 1, first, traffic, traffic);
            scenario.run_for(Duration::from_secs(wide_for));
            scenario.set_weather(narrow, narrow);
            scenario.deliver_all_within(ALL);
            assert!(scenario.network().0.too_long > 0, "MTU {mtu}");
        }
    }
}

/// Something drops long packets for some seconds, and nothing passes for some more. Probes leave all the while, several
/// datagrams each; what they cost is not paid for with a silence once the path is well.
#[test]
fn the_probes_of_an_outage_are_followed_by_no_silence() {
    let says = Traffic {
        messages: 100_000,
        sizes: 32..=5_000,
        every: Duration::from_millis(50),
        ..Traffic::default()
    };
    let path = |mtu| Conditions {
        delay: Duration::from_millis(1),
        ..path(mtu)
    };
    for seed in 0..8 {
        let mut game = Game::new(stock(), seed);
        let mut scenario = Scenario::echoed(&mut game, path(0), &says);
        scenario.run_for(Duration::from_secs(5));
        for (weather, secs) in [(path(1_000), 8), (path(0), 3), (dead(), 4), (path(0), 8)] {
            scenario.set_weather(weather, weather);
            scenario.run_for(Duration::from_secs(secs));
        }
        let (said, heard) = scenario.outcome(0).up;
        assert!(heard + 20 > said, "seed {seed}: {heard} of {said}");
    }
}

/// Large datagrams are lost like others, and that is no reason to send small ones.
#[test]
fn losses_do_not_make_datagrams_small() {
    let (up, silent) = (bulk(60_000), Traffic::silent());
    let lossy = Conditions {
        loss: 0.05,
        ..path(1_500)
    };
    let mut game = game(ours(false), ours(true));
    let mut scenario = Scenario::new(&mut game, 1, lossy, &up, &silent);
    let lengths = Lengths::watch(&mut scenario, Way::Up);
    scenario.deliver_all_within(ALL);
    assert!(scenario.network().0.lost > 100);
    let (large, small) = (lengths.near(1_452), lengths.near(1_186));
    assert!(large > 10 * small, "{large} large ones, {small} small ones");
}

/// Blocks without end. Between two that read long fragments each datagram is full; where either end does not, as older
/// tidegates do not, the other sends fragments of the wire's own size, and everything arrives as well.
#[test]
fn blocks_fill_datagrams_where_both_ends_read_long_fragments() {
    let blocks = Traffic {
        messages: 400,
        sizes: 50_000..=60_000,
        burst: 20,
        every: Duration::from_millis(1),
        ..Traffic::default()
    };
    let silent = Traffic::silent();
    let lossy = |mtu| Conditions {
        loss: 0.02,
        ..path(mtu)
    };
    let ends = |(server, client): (bool, bool)| {
        let end = |asks_first, is_new| match is_new {
            true => ours(asks_first),
            false => ours(asks_first).older(),
        };
        game(end(false, server), end(true, client))
    };
    for new in [(true, true), (false, true), (true, false)] {
        for (mtu, longest) in [(1_500, 1_452), (9_000, 8_226)] {
            for way in [Way::Up, Way::Down] {
                let (up, down) = match way {
                    Way::Up => (&blocks, &silent),
                    Way::Down => (&silent, &blocks),
                };
                let mut game = ends(new);
                let mut scenario = Scenario::new(&mut game, 1, lossy(mtu), up, down);
                let lengths = Lengths::watch(&mut scenario, way);
                scenario.deliver_all_within(ALL);
                let full = lengths.near(longest);
                let what = format!("new {new:?}, MTU {mtu}, {way:?}: {full} of {longest} bytes");
                if new == (true, true) {
                    let all = 400 * 55_000 / longest;
                    assert!(4 * full > 3 * all, "{what}, and at most {all}");
                } else {
                    assert!(full < 10, "{what}: probes");
                }
            }
        }
    }
}

/// Blocks that are cut for datagrams that the path then takes no longer go on in several each.
#[test]
fn blocks_that_were_cut_for_a_longer_path_arrive() {
    let blocks = Traffic {
        messages: 4_000,
        sizes: 0..=100_000,
        burst: 400,
        every: Duration::from_millis(1),
        ..Traffic::default()
    };
    let mut game = game(ours(false), ours(true));
    let mut scenario = Scenario::new(&mut game, 1, path(0), &blocks, &Traffic::silent());
    let lengths = Lengths::watch(&mut scenario, Way::Up);
    scenario.run_for(Duration::from_millis(300));
    assert!(lengths.above(7_000) > 100, "{}", lengths.above(7_000));
    lengths.forget();
    scenario.set_weather(path(1_400), path(1_400));
    scenario.deliver_all_within(ALL);
    let too_long = scenario.network().0.too_long;
    assert!(too_long > 4, "{too_long} were too long");
    let parts = lengths.above(900) - lengths.above(1_186);
    assert!(parts > 32, "{parts} parts of such packets");
}

/// Messages and blocks in one queue, 250 of each. Whoever sends blocks one at a time takes two round trips
/// for each of them, fifty seconds.
#[test]
fn blocks_and_messages_go_together_and_arrive_in_order() {
    let nap = Some(Duration::from_millis(300));
    for (ack, reader_sleeps) in [(AckPolicy::Queued, nap), (AckPolicy::Strict, None)] {
        let both = Traffic {
            messages: 500,
            sizes: 0..=14_000,
            burst: 100,
            every: Duration::from_millis(1),
            reader_sleeps,
            ..Traffic::default()
        };
        let rough = Conditions {
            delay: Duration::from_millis(50),
            jitter: Duration::from_millis(3),
            loss: 0.03,
            duplicate: 0.03,
            reorder: (0.03, Duration::from_millis(30)),
            mtu: 1_500,
            ..Conditions::default()
        };
        let end = |asks_first| {
            let params = Params::default().with_path_mtu(1_500, asks_first);
            Rules::Yojimbo(Arc::new(Params { ack, ..params }))
        };
        let mut game = Game::new(end(false), 61).dialled_by(end(true));
        let mut scenario = Scenario::new(&mut game, 1, rough, &both, &both);
        scenario.deliver_all_within(Duration::from_secs(15));
        let (up, down) = scenario.network();
        assert!(up.lost > 50 && down.lost > 50, "{up:?} {down:?}");
        assert!(up.reordered > 50, "{up:?}");
    }
}
