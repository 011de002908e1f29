//! One connection with more to say than its path carries.

use std::sync::Arc;
use std::time::Duration;

use super::games::{Game, Rules};
use super::scenario::Scenario;
use crate::sim::{Conditions, Done, Traffic};
use crate::{sender, yojimbo};

/// A path of so many ms each way and bits a second, with a queue of so many bytes and the MTU of an Ethernet.
fn path(millis: u64, rate: u64, queue: usize) -> Conditions {
    Conditions {
        delay: Duration::from_millis(millis),
        rate,
        queue,
        mtu: 1_500,
        ..Conditions::default()
    }
}

/// A path with a queue of 50 ms.
fn radio(millis: u64, rate: u64) -> Conditions {
    path(millis, rate, rate as usize / 160)
}

/// 50 ms there and back, 100 Mbit/s, and a queue as long.
fn fast() -> Conditions {
    path(25, 100_000_000, 625_000)
}

/// The rules of a tidegate and a third-party client.
fn stock() -> yojimbo::Params {
    yojimbo::Params::default()
}

/// The rules of two tidegates on such a path.
fn ours() -> yojimbo::Params {
    stock().with_path_mtu(1_500, true)
}

/// So many clients that say this and are told nothing.
fn upload(
    params: impl Into<Arc<yojimbo::Params>>,
    seed: u64,
    clients: usize,
    link: Conditions,
    up: &Traffic,
) -> Scenario {
    let mut game = Game::new(Rules::Yojimbo(params.into()), seed);
    Scenario::new(&mut game, clients, link, up, &Traffic::silent())
}

/// What happened on the way up in a span of time.
struct Watched {
    secs: u64,
    before: Done,
    after: Done,
    /// Messages of each client that arrived.
    heard: Vec<u64>,
}

fn watch(scenario: &mut Scenario, secs: u64) -> Watched {
    let count = |scenario: &Scenario| -> (Done, Vec<u64>) {
        let clients = 0..scenario.clients();
        let heard = clients.map(|client| scenario.outcome(client).up.1);
        (scenario.network().0, heard.collect())
    };
    let (before, heard_before) = count(scenario);
    scenario.run_for(Duration::from_secs(secs));
    let (after, heard) = count(scenario);
    let heard = heard.iter().zip(heard_before);
    Watched {
        secs,
        before,
        after,
        heard: heard.map(|(after, before)| after - before).collect(),
    }
}

impl Watched {
    /// Share of the datagrams that this was counted of.
    fn share(&self, counted: fn(&Done) -> u64) -> f64 {
        let since = |count: fn(&Done) -> u64| (count(&self.after) - count(&self.before)) as f64;
        since(counted) / since(|done| done.offered)
    }

    /// Share of the path's rate that messages of one size took.
    fn carried(&self, size: usize, link: Conditions) -> f64 {
        let bits = self.heard.iter().sum::<u64>() as f64 * size as f64 * 8.0;
        bits / self.secs as f64 / link.rate as f64
    }

    /// 1 where all clients are equal (Jain).
    fn fairness(&self) -> f64 {
        let heard = self.heard.iter().map(|&heard| heard as f64);
        let (sum, squares) = (heard.clone().sum::<f64>(), heard.map(|it| it * it));
        sum * sum / (self.heard.len() as f64 * squares.sum::<f64>())
    }
}

/// Messages of one size over a path that carries less, with third-party clients: the share of it that was carried, and the
/// share of datagrams that ran the queue over.
fn carried(size: usize, link: Conditions) -> (f64, f64) {
    carried_between(stock(), size, link)
}

/// What [`carried`] measures, between two with these rules.
fn carried_between(params: yojimbo::Params, size: usize, link: Conditions) -> (f64, f64) {
    let (watched, carried) = measured(params, size, link, 41);
    (carried, watched.share(|done| done.overflowed))
}

/// Messages of one size over any path: what happened in seconds 6 to 16, and the share of its rate that was carried then.
fn measured(params: yojimbo::Params, size: usize, link: Conditions, seed: u64) -> (Watched, f64) {
    let mut scenario = upload(params, seed, 1, link, &without_end(size));
    scenario.run_for(Duration::from_secs(6));
    let watched = watch(&mut scenario, 10);
    let carried = watched.carried(size, link);
    (watched, carried)
}

/// Messages of one size, as fast as they are taken.
fn without_end(size: usize) -> Traffic {
    Traffic {
        messages: u64::MAX,
        sizes: size..=size,
        burst: 32,
        every: Duration::from_millis(1),
        ..Traffic::default()
    }
}

/// Messages of 7000 bytes are seven datagrams each, and broken by the loss of one of them: a sender that
/// runs the queue over sends little but repairs, and must find its way back from them.
#[test]
fn a_queue_too_short_to_be_felt_is_not_run_over_for_ever() {
    // Shares of the path after headers and the losses that repairs cost.
    for (size, loss, least) in [
        (1000, 0.0, 0.8),
        (1000, 0.01, 0.8),
        (7000, 0.0, 0.65),
        (7000, 0.01, 0.55),
    ] {
        // 20 Mbit/s with a queue of 6 ms.
        let (carried, overflowed) = carried(
            size,
            Conditions {
                loss,
                ..path(25, 20_000_000, 16 * 1024)
            },
        );
        let what = format!(
            "{size} bytes, {loss} lost: {carried:.2} of the path, {overflowed:.3} run over"
        );
        assert!(carried > least && overflowed < 0.05, "{what}");
    }
}

/// A packet of seven datagrams takes 1 Mbit/s 60 ms, and three of them fill a queue of 200 ms. Who goes
/// on at a rate at which every packet breaks hears nothing, and must not take that for leave to go on.
#[test]
fn a_slow_path_carries_large_packets() {
    for (size, least) in [(1000, 0.8), (4000, 0.8), (7000, 0.4)] {
        let (carried, overflowed) = carried(size, path(25, 1_000_000, 25_000));
        let what = format!("{size} bytes: {carried:.2} of the path, {overflowed:.3} run over");
        assert!(carried > least && overflowed < 0.2, "{what}");
    }
}

/// What is lost twice takes three round trips, and what follows it waits at the peer. The standard's
/// window of 1024 messages is over before that; between two tidegates it is 8192.
#[test]
fn two_of_ours_have_more_messages_under_way() {
    let link = Conditions {
        loss: 0.01,
        ..fast()
    };
    let (stock, _) = carried(1_000, link);
    let (carried, _) = carried_between(ours(), 1_000, link);
    let what = format!("{carried:.2} of the path, {stock:.2} before");
    assert!(carried > 0.8 && carried > stock + 0.1, "{what}");
}

/// 100 Mbit/s over 200 ms have 2.5 MB under way, and 5 MB until what was lost has come again: a queue of
/// 2 MiB was dry for half of the time. Two tidegates queue, and keep behind a gap, what the path needs.
#[test]
fn two_of_ours_fill_a_long_path() {
    for (size, loss, least) in [
        (1_000, 0.001, 0.7),
        (1_407, 0.0, 0.8),
        (1_407, 0.01, 0.7),
        (7_000, 0.001, 0.7),
        (60_000, 0.01, 0.7),
    ] {
        let (after, carried) = carried_far(ours(), size, loss);
        let what = format!("{size} bytes, {loss} lost: {carried:.2} of the path");
        assert!(carried > least, "{what}");
        let lost = after.lost as f64 / after.offered as f64;
        assert!(
            (0.8..=1.2).contains(&(lost / loss)) || loss == 0.0,
            "{lost}"
        );
    }
}

/// A block's fragments fill datagrams, and each is lost and goes again by itself: where many datagrams get lost, frames
/// that no datagram holds get no slower for it.
#[test]
fn long_fragments_carry_no_less_where_datagrams_get_lost() {
    for (size, loss) in [
        (4_000, 0.05),
        (7_000, 0.05),
        (60_000, 0.05),
        (4_000, 0.1),
        (7_000, 0.1),
    ] {
        let link = Conditions { loss, ..fast() };
        // What one path loses by chance is more than what the two differ by.
        let mean = |params: &yojimbo::Params| {
            let carried = (41..45).map(|seed| measured(params.clone(), size, link, seed).1);
            carried.sum::<f64>() / 4.0
        };
        let carried = mean(&ours());
        let before = mean(&ours().without_long_fragments());
        let what =
            format!("{size} bytes, {loss} lost: {before:.3} of the path before, now {carried:.3}");
        assert!(carried > before - 0.005, "{what}");
    }
}

/// More may be under way than is remembered, and what is forgotten before its answer comes is sent again, at
/// whatever rate there was: nothing tells any more that it is too much.
#[test]
fn a_queue_that_holds_more_than_is_remembered_runs_nothing_over() {
    for mib in [8, 16] {
        let mut params = ours();
        let mut sender = sender::Params::clone(&params.sender);
        sender.outbox_bytes_max = mib << 20;
        params.sender = Arc::new(sender);
        let (after, carried) = carried_far(params, 7_000, 0.0);
        let overflowed = after.overflowed as f64 / after.offered as f64;
        let what = format!("{mib} MiB: {carried:.2} of the path, {overflowed:.3} run over");
        assert!(carried > 0.7 && overflowed < 0.2, "{what}");
    }
}

/// On a fast path so many packets leave while a lost one may still be late that they are three quarters of what
/// is remembered. They arrived, and no answer to them is waited for.
#[test]
fn a_fast_path_does_not_come_to_a_stop() {
    // Both lose some ten datagrams, and the older has seven times as many.
    let ours = yojimbo::Params::default().with_path_mtu(9_000, true);
    for (loss, params) in [
        (0.000_1, ours.clone().without_long_fragments()),
        (0.000_7, ours),
    ] {
        let params = Arc::new(params);
        let link = Conditions {
            delay: Duration::from_micros(50),
            loss,
            mtu: 9_000,
            ..path(0, 10_000_000_000, 4_000_000)
        };
        let up = Traffic {
            messages: 12_000,
            burst: 64,
            ..without_end(32_768)
        };
        for seed in 0..4 {
            let mut scenario = upload(params.clone(), seed, 1, link, &up);
            scenario.deliver_all_within(Duration::from_secs(20));
            let done = scenario.network().0;
            assert!(done.lost > 10, "seed {seed}: {done:?}");
        }
    }
}

/// Messages of one size over 100 Mbit/s and 200 ms: what was counted at the end, and the share of the path
/// that was carried after six seconds.
fn carried_far(params: yojimbo::Params, size: usize, loss: f64) -> (Done, f64) {
    let link = Conditions {
        loss,
        ..path(100, 100_000_000, 1_250_000)
    };
    let (watched, carried) = measured(params, size, link, 41);
    (watched.after, carried)
}

/// The start of a connection runs over a short queue, and with a little more to say than that there is nothing
/// fresh behind what was lost: at a packet each eleven milliseconds, as messages go, a megabyte took ten seconds.
#[test]
fn what_is_lost_at_the_end_goes_again_as_fast() {
    let up = Traffic {
        messages: 5_000,
        burst: 5_000,
        ..without_end(1_000)
    };
    for seed in 1..9 {
        let mut scenario = upload(ours(), seed, 1, path(50, 100_000_000, 64_000), &up);
        scenario.deliver_all_within(Duration::from_secs(60));
        let overflowed = scenario.network().0.overflowed;
        assert!(overflowed > 50, "seed {seed}: {overflowed} run over");
        let last = scenario.latencies_up(0).pop().expect("all arrived");
        assert!(last < Duration::from_millis(600), "seed {seed}: {last:?}");
    }
}

/// Between two tidegates blocks are under way together; with others each waits for the one before it.
#[test]
fn blocks_of_two_of_ours_fill_a_path() {
    let link = Conditions {
        loss: 0.01,
        ..fast()
    };
    for (size, least) in [(20_000, 0.8), (60_000, 0.8), (262_144, 0.6)] {
        let (stock, _) = carried(size, link);
        let (carried, overflowed) = carried_between(ours(), size, link);
        let what = format!("{size} bytes: {carried:.2} of the path, {stock:.2} with others");
        assert!(carried > least && stock < 0.4, "{what}");
        assert!(overflowed < 0.02, "{overflowed:.3} run over");
    }
}

/// What a wireless link delays now and then is no queue, and who takes it for one at the start, when the
/// rate is still low, takes seconds for a megabyte.
#[test]
fn jitter_at_the_start_is_no_queue() {
    // The second is as bad as wireless links get, and a few still take their time over it.
    for (jitter, most) in [(5, [0.9, 1.5]), (15, [1.5, 6.0])] {
        let seconds = first_megabytes(Duration::from_millis(jitter));
        let what = format!("{jitter} ms of jitter: {seconds:?}");
        assert!(seconds[11] < most[0] && seconds[15] < most[1], "{what}");
    }
}

/// Packets of bulk follow each other closely and cannot overtake: where jitter delays one, it delays those behind it,
/// and more the more there are. That is no queue, and going slower does not shorten it.
#[test]
fn jitter_takes_little_from_what_a_path_carries() {
    for millis in [10, 15] {
        let jitter = Duration::from_millis(millis);
        let link = Conditions {
            jitter,
            ..path(30, 100_000_000, 625_000)
        };
        let shares = (0..8).map(|seed| {
            let mut scenario = upload(ours(), seed, 1, link, &without_end(1_000));
            scenario.run_for(Duration::from_secs(6));
            let watched = watch(&mut scenario, 10);
            let stats = scenario.client_stats(0);
            let varied = stats.rtt.saturating_sub(stats.rtt_min);
            assert!(varied > jitter / 4, "{varied:?}");
            watched.carried(1_000, link)
        });
        let mut shares: Vec<_> = shares.collect();
        shares.sort_by(f64::total_cmp);
        assert!(shares[2] > 0.85, "{millis} ms of jitter: {shares:.2?}");
    }
}

/// The start overruns a slow line, and much is lost until the queue is gone. There was nobody else: a queue that begins
/// a few seconds later is ours, and not one to be filled as a TCP connection would.
#[test]
fn losses_of_the_start_are_nobody_to_compete_with() {
    let link = Conditions {
        jitter: Duration::from_millis(15),
        // A second.
        ..path(25, 200_000, 25_000)
    };
    for seed in 0..24 {
        let mut scenario = upload(stock(), seed, 1, link, &without_end(1_000));
        scenario.run_for(Duration::from_secs(10));
        let mut round_trip = || {
            scenario.run_for(Duration::from_millis(500));
            scenario.client_stats(0).rtt
        };
        let mean = (0..20).map(|_| round_trip()).sum::<Duration>() / 20;
        assert!(mean < Duration::from_millis(450), "seed {seed}: {mean:?}");
    }
}

/// How long the first megabyte of a connection takes over 50 ms and 100 Mbit/s, in seconds, sixteen times,
/// ascending.
fn first_megabytes(jitter: Duration) -> Vec<f64> {
    let link = Conditions {
        delay: Duration::from_millis(25),
        jitter,
        rate: 100_000_000,
        ..Conditions::default()
    };
    let up = Traffic {
        messages: 1_000,
        burst: 64,
        ..without_end(1_000)
    };
    let seconds = (0..16).map(|seed| {
        let mut scenario = upload(stock(), seed, 1, link, &up);
        scenario.deliver_all_within(Duration::from_secs(30));
        let stats = scenario.client_stats(0);
        let varied = stats.rtt.saturating_sub(stats.rtt_min);
        assert!(varied > Duration::from_millis(1), "{varied:?}");
        let latencies = scenario.latencies_up(0);
        latencies.last().expect("it was heard").as_secs_f64()
    });
    let mut seconds: Vec<_> = seconds.collect();
    seconds.sort_by(f64::total_cmp);
    seconds
}

/// An outage takes its time from a connection, in either direction, and what it needs to notice that it is
/// over. It is no sign of the path's end: who takes it for one has half of the path left.
#[test]
fn outages_take_little_more_than_their_time() {
    let link = Conditions {
        bursts: Some((Duration::from_millis(60), Duration::from_millis(1_140))),
        ..fast()
    };
    let shares = (42..47).map(|seed| {
        let (watched, carried) = measured(ours(), 1_000, link, seed);
        let lost = watched.share(|done| done.lost);
        assert!(lost > 0.01, "seed {seed}: {lost:.3} lost in outages");
        carried
    });
    let shares: Vec<f64> = shares.collect();
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    assert!(mean > 0.7, "of the path: {shares:.2?}");
}

/// What the peer acknowledged in an outage of the way back is told again at length once that is over, and nothing
/// is sent again for it: in each of them some hundred packets were.
#[test]
fn an_outage_on_the_way_back_costs_nothing() {
    let back = Conditions {
        bursts: Some((Duration::from_millis(60), Duration::from_millis(1_140))),
        ..fast()
    };
    let (mut all_resent, mut all_acked) = (0, 0);
    for seed in 41..46 {
        let mut scenario = upload(ours(), seed, 1, fast(), &without_end(1_000));
        scenario.run_for(Duration::from_secs(4));
        let before = scenario.client_stats(0);
        scenario.set_weather(fast(), back);
        scenario.run_for(Duration::from_secs(10));
        let told = scenario.network().1;
        assert!(told.lost * 100 > told.offered, "seed {seed}: {told:?}");
        let stats = scenario.client_stats(0).since(&before);
        let (resent, acked) = (stats.messages_resent, stats.messages_acked);
        (all_resent, all_acked) = (all_resent + resent, all_acked + acked);
    }
    // What is sent into a silence that lasts, to hear whether it is over, is.
    let what = format!("{all_resent} sent again of {all_acked}");
    assert!(
        all_acked > 500_000 && all_resent * 200 < all_acked,
        "{what}"
    );
}

/// A path may lose every second packet of the peer, as one does that spreads packets over two links of which one is dead.
/// Each acknowledgement that arrives then comes behind a gap. As none of those said how long the path takes, bulk stayed at
/// its first rate for ever, a twentieth of this path.
#[test]
fn every_second_acknowledgement_says_enough() {
    for (which, loss, size) in [(1, 0.0, 1_000), (2, 0.0, 7_000), (1, 0.01, 1_000)] {
        let link = Conditions {
            loss,
            ..radio(25, 20_000_000)
        };
        let back = Conditions {
            nth: (2, which),
            ..radio(25, 20_000_000)
        };
        let mut scenario = upload(stock(), 57, 1, link, &without_end(size));
        scenario.set_weather(link, back);
        scenario.run_for(Duration::from_secs(6));
        let carried = watch(&mut scenario, 10).carried(size, link);
        let told = scenario.network().1;
        assert!(told.lost * 2 + 2 > told.offered, "{told:?}");
        let what = format!("{size} bytes, {loss} lost: {carried:.2} of the path");
        assert!(carried > 0.6, "{what}");
    }
}

/// Nor does a way back that holds everything up for a while, as radio does, and then lets it go within milliseconds. So
/// much at once was taken for what the path carries, and three times its rate was sent.
#[test]
fn a_way_back_that_stands_still_floods_nothing() {
    let (mut resent, mut acked) = (0, 0);
    for seed in 41..45 {
        let mut scenario = upload(ours(), seed, 1, fast(), &without_end(1_000));
        scenario.run_for(Duration::from_secs(4));
        let before = scenario.client_stats(0);
        for _ in 0..6 {
            stand_still(&mut scenario, 160, 2);
            scenario.set_weather(fast(), fast());
            scenario.run_for(Duration::from_millis(1_100));
        }
        let stats = scenario.client_stats(0).since(&before);
        (resent, acked) = (resent + stats.messages_resent, acked + stats.messages_acked);
    }
    let what = format!("{resent} sent again of {acked}");
    assert!(acked > 250_000 && resent * 100 < acked, "{what}");
}

/// What the peer says in so many milliseconds arrives behind them, within so many.
fn stand_still(scenario: &mut Scenario, millis: u64, within: u64) {
    let [all, within] = [millis, within].map(|millis| millis * 1_000);
    let heard = |scenario: &Scenario| scenario.client_stats(0).packets_received;
    let mut before = None;
    for at in (0..all).step_by(500) {
        // What was under way has arrived.
        if at > fast().delay.as_micros() as u64 {
            before.get_or_insert_with(|| heard(scenario));
        }
        let held = all - at + at * within / all;
        let back = Conditions {
            delay: fast().delay + Duration::from_micros(held),
            ..fast()
        };
        scenario.set_weather(fast(), back);
        scenario.run_for(Duration::from_micros(500));
    }
    assert_eq!(before, Some(heard(scenario)));
}

/// Losses that come together, some milliseconds of them now and then, vary more from one round trip to the
/// next than others of the same share. That is chance, and not the path's end.
#[test]
fn losses_come_together() {
    let ms = Duration::from_millis;
    for (bad, good, least) in [(2, 98, 0.7), (2, 48, 0.6)] {
        let link = Conditions {
            bursts: Some((ms(bad), ms(good))),
            ..fast()
        };
        let shares = (41..46).map(|seed| {
            let (watched, carried) = measured(ours(), 1_000, link, seed);
            let lost = watched.share(|done| done.lost);
            assert!(lost > 0.01, "seed {seed}: {lost:.3} lost");
            carried
        });
        let shares: Vec<f64> = shares.collect();
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        assert!(mean > least, "{bad} of {good} ms: {shares:.2?} of the path");
    }
}

/// Of packets of four and seven datagrams a fifth and a third are lost where one datagram in twenty is: the
/// path is no worse for that than for small ones. To clients of other make long messages go in such packets.
#[test]
fn what_several_datagrams_lose_together_is_no_heavy_loss() {
    for (size, least) in [(4_000, 0.4), (7_000, 0.25)] {
        let link = Conditions {
            loss: 0.05,
            ..fast()
        };
        let (carried, _) = carried(size, link);
        assert!(carried > least, "{size} bytes: {carried:.2} of the path");
    }
}

/// Between two tidegates each datagram of a long message is lost by itself, and goes again by itself.
#[test]
fn long_messages_lose_no_more_than_short_ones() {
    let bad = |loss, bursts| Conditions {
        loss,
        bursts,
        ..fast()
    };
    let outages = (Duration::from_millis(20), Duration::from_millis(480));
    for (link, least) in [(bad(0.1, None), 0.6), (bad(0.0, Some(outages)), 0.65)] {
        for size in [1_000, 4_000, 7_000] {
            let (watched, carried) = measured(ours(), size, link, 43);
            let lost = watched.share(|done| done.lost);
            assert!(lost > 0.01, "{lost:.3} lost");
            assert!(carried > least, "{size} bytes: {carried:.2} of {link:?}");
        }
    }
}

/// A packet of seven datagrams arrives one time in twelve where three in ten are lost, and what follows it
/// waits: for longer than a session waits for a gap.
#[test]
fn three_in_ten_lost_end_no_session() {
    let link = Conditions {
        delay: Duration::from_millis(5),
        loss: 0.3,
        mtu: 1_500,
        ..Conditions::default()
    };
    let up = Traffic {
        messages: 300,
        sizes: 1_000..=7_000,
        burst: 64,
        ..without_end(0)
    };
    for seed in 0..3 {
        let mut scenario = upload(ours(), seed, 1, link, &up);
        scenario.deliver_all_within(Duration::from_secs(60));
        let stats = scenario.client_stats(0);
        assert!(stats.packets_lost > stats.packets_sent / 5, "{stats:?}");
        assert!(stats.messages_resent > 300, "{stats:?}");
    }
}

/// Acknowledgements reach 32 packets back, and what a link holds back for 10 ms is passed by three times as
/// many. It arrived, and who takes it for lost sends a third of everything twice.
#[test]
fn what_arrives_late_is_not_lost() {
    let link = Conditions {
        reorder: (0.3, Duration::from_millis(10)),
        ..fast()
    };
    for size in [1_000, 60_000] {
        let (watched, carried) = measured(ours(), size, link, 41);
        let reordered = watched.share(|done| done.reordered);
        assert!(
            reordered > 0.25,
            "{reordered:.2} of the datagrams came late"
        );
        assert!(carried > 0.8, "{size} bytes: {carried:.2} of the path");
    }
}

/// Eight who share 10 Mbit/s and a queue of 10 ms cannot tell, each by himself, that what is lost is their
/// doing: whoever takes it for the path's own goes on, and of all that they send a quarter gets lost.
#[test]
fn many_lose_little_to_each_other() {
    let link = Conditions {
        jitter: Duration::from_millis(1),
        ..path(25, 10_000_000, 12_500)
    };
    let mut scenario = upload(stock(), 47, 8, link, &without_end(1_000));
    scenario.run_for(Duration::from_secs(10));
    let watched = watch(&mut scenario, 20);
    let overflowed = watched.share(|done| done.overflowed);
    let carried = watched.carried(1_000, link);
    let what = format!("{overflowed:.3} run over, {carried:.2} carried");
    assert!(overflowed < 0.12 && carried > 0.8, "{what}");
}

/// A policer drops what is too much and delays nothing. Whoever takes that for what the path loses anyway keeps his rate,
/// and the others, who do not, lose theirs to him.
#[test]
fn those_behind_a_policer_get_alike() {
    for (rate, seed) in [(10_000_000, 48), (50_000_000, 49)] {
        let link = Conditions {
            jitter: Duration::from_millis(1),
            polices: true,
            ..path(25, rate, rate as usize / 800)
        };
        let mut scenario = upload(stock(), seed, 8, link, &without_end(1_000));
        scenario.run_for(Duration::from_secs(10));
        let watched = watch(&mut scenario, 20);
        let (fairness, carried) = (watched.fairness(), watched.carried(1_000, link));
        let heard = watched.heard;
        let what = format!("{heard:?}: {fairness:.2}, {carried:.2} carried, seed {seed}");
        assert!(fairness > 0.75 && carried > 0.8, "{what}");
    }
}

/// A radio that loses a fifth of everything loses it at any rate. Who takes that for the path's end has a hundredth of it
/// left.
#[test]
fn heavy_loss_that_is_the_paths_own_leaves_most_of_it() {
    for seed in 51..55 {
        let link = Conditions {
            loss: 0.2,
            ..radio(25, 50_000_000)
        };
        heavy_loss_leaves_most(link, seed);
    }
}

/// One of four is always the first of two packets, or always the second, unless something comes between them. Whatever the
/// turn is, it takes no part in a queue that slow start makes: that one has an end, and says nothing of pairs.
#[test]
fn heavy_loss_in_turn_leaves_most_of_a_path() {
    for of in 4..=6 {
        for which in 1..=of {
            let link = Conditions {
                nth: (of, which),
                ..radio(25, 50_000_000)
            };
            heavy_loss_leaves_most(link, 56);
        }
    }
}

/// More than is learned as usual, and less than 15 %: where little is under way, it was taken for the losses of many, and
/// hardly a datagram a round trip was left.
#[test]
fn loss_that_is_not_quite_heavy_leaves_most_of_a_path() {
    for seed in 61..64 {
        let link = Conditions {
            loss: 0.125,
            ..radio(10, 10_000_000)
        };
        heavy_loss_leaves_most(link, seed);
    }
}

/// What the first packets lose is luck. Who heard of no loss among them took a loss of one in twenty for the path's end, again
/// and again.
#[test]
fn a_lucky_beginning_costs_no_path() {
    // Those of 91 to 310 who were left with half of the path, or less.
    for seed in [142, 178, 254, 273, 303, 310] {
        let link = Conditions {
            loss: 0.05,
            ..radio(60, 4_000_000)
        };
        let mut scenario = upload(stock(), seed, 1, link, &without_end(1_000));
        scenario.run_for(Duration::from_secs(5));
        let watched = watch(&mut scenario, 20);
        let lost = watched.share(|done| done.lost);
        let carried = watched.carried(1_000, link);
        let what = format!("seed {seed}: {lost:.3} lost, {carried:.3} carried");
        assert!(lost > 0.04, "{what}");
        assert!(carried > 0.65, "{what}");
    }
}

fn heavy_loss_leaves_most(link: Conditions, seed: u64) {
    let mut scenario = upload(ours(), seed, 1, link, &without_end(1_000));
    scenario.run_for(Duration::from_secs(30));
    let watched = watch(&mut scenario, 5);
    let lost = watched.share(|done| done.lost);
    let carried = watched.carried(1_000, link);
    let what = format!("seed {seed}, {link:?}: {lost:.3} lost, {carried:.3} carried");
    let meant = match link.nth.0 {
        0 => link.loss,
        of => 1.0 / f64::from(of),
    };
    assert!(lost > 0.9 * meant, "{what}");
    assert!(carried > 0.3, "{what}");
}

/// Who finds out late that a radio loses a fifth of everything finds it full of those who did before.
#[test]
fn several_share_a_path_with_heavy_loss() {
    let link = Conditions {
        jitter: Duration::from_millis(1),
        loss: 0.2,
        ..radio(25, 50_000_000)
    };
    let least = [71, 72, 73, 74].map(|seed| {
        let mut scenario = upload(stock(), seed, 4, link, &without_end(1_000));
        scenario.run_for(Duration::from_secs(60));
        let heard = watch(&mut scenario, 10).heard;
        let least = heard.into_iter().min().unwrap_or(0);
        least as f64 * 800.0 / link.rate as f64
    });
    let mean = least.iter().sum::<f64>() / 4.0;
    assert!(
        mean > 0.03,
        "the least of four, seeds 71 to 74: {least:.4?}"
    );
}

/// Where the delay swings, packets close to each other are as late as the latest, and single ones are not. Who goes slowly
/// beside others must not take that for their queue, nor who goes fast their queue for that.
#[test]
fn four_share_a_path_whose_delay_swings() {
    let link = Conditions {
        jitter: Duration::from_millis(15),
        ..path(25, 10_000_000, 125_000)
    };
    let fairness = [81, 82, 83, 84].map(|seed| {
        let mut scenario = upload(stock(), seed, 4, link, &without_end(1_000));
        scenario.run_for(Duration::from_secs(15));
        watch(&mut scenario, 25).fairness()
    });
    let mean = fairness.iter().sum::<f64>() / 4.0;
    assert!(mean > 0.6, "seeds 81 to 84: {fairness:.3?}");
}

/// Many at a policer make each other lose much, and none of them can change that alone. Nobody may take it for the path's
/// own and go on.
#[test]
fn sixteen_at_a_policer_do_not_take_their_losses_for_the_paths() {
    let link = Conditions {
        polices: true,
        ..path(25, 10_000_000, 12_500)
    };
    for seed in [61, 62] {
        let mut scenario = upload(stock(), seed, 16, link, &without_end(1_000));
        scenario.run_for(Duration::from_secs(10));
        let overflowed = watch(&mut scenario, 20).share(|done| done.overflowed);
        let what = format!("seed {seed}: {overflowed:.3} dropped");
        assert!((0.05..0.14).contains(&overflowed), "{what}");
    }
}

/// Another route that takes longer is no queue. Bulk was cut to its floor for it, and followed loss for ten seconds and more:
/// of 10 Mbit/s, 0.6 were carried five seconds later, on each of these paths.
#[test]
fn another_route_takes_little_from_bulk() {
    let mut slow = Vec::new();
    for (rate, from, to) in [
        (10_000_000, 10, 35),
        (10_000_000, 10, 150),
        (50_000_000, 20, 25),
        (50_000_000, 20, 32),
        (2_000_000, 10, 60),
    ] {
        for (loss, jitter) in [(0.0, 0), (0.0, 5), (0.01, 5)] {
            for seed in 0..2 {
                let near = Conditions {
                    loss,
                    jitter: Duration::from_millis(jitter),
                    ..path(from, rate, rate as usize / 80)
                };
                let far = Conditions {
                    delay: Duration::from_millis(to),
                    ..near
                };
                let mut scenario = upload(ours(), seed, 1, near, &without_end(1_000));
                scenario.run_for(Duration::from_secs(10));
                scenario.set_weather(far, far);
                let first = watch(&mut scenario, 2).carried(1_000, far);
                let then = watch(&mut scenario, 8).carried(1_000, far);
                if first < 0.45 || then < 0.7 {
                    slow.push((rate, from, to, loss, jitter, seed, first, then));
                }
            }
        }
    }
    assert!(slow.len() <= 3, "{slow:#?}");
}

/// The last acknowledgements of a block prove nothing, as the peer held them back until the next one. They were taken for
/// the end of the queue that the longer way looks like, and bad mode ended and began with each block: a sixth of the path.
#[test]
fn another_route_takes_little_from_blocks() {
    let mut slow = Vec::new();
    for longer in [15, 25] {
        for seed in 0..3 {
            let near = path(30, 10_000_000, 125_000);
            let far = Conditions {
                delay: near.delay + Duration::from_millis(longer),
                ..near
            };
            let mut scenario = upload(stock(), seed, 1, near, &without_end(262_144));
            scenario.run_for(Duration::from_secs(20));
            scenario.set_weather(far, far);
            let carried = watch(&mut scenario, 10).carried(262_144, far);
            if carried < 0.5 {
                slow.push((longer, seed, carried));
            }
        }
    }
    assert_eq!(slow, []);
}

/// A block waits for each of its fragments, and the next one for the block. What was lost twice took a third round trip:
/// blocks carried a seventh of such a path at 10 % loss, and a tenth at 16.
#[test]
fn blocks_wait_little_for_what_is_lost() {
    for (loss, least) in [(0.1, 0.19), (0.16, 0.14)] {
        let link = Conditions {
            loss,
            ..radio(25, 50_000_000)
        };
        let carried = [92, 93, 94].map(|seed| {
            let mut scenario = upload(stock(), seed, 1, link, &without_end(262_144));
            scenario.run_for(Duration::from_secs(20));
            let watched = watch(&mut scenario, 20);
            assert!(watched.share(|done| done.lost) > 0.9 * loss, "seed {seed}");
            watched.carried(262_144, link)
        });
        let mean = carried.iter().sum::<f64>() / 3.0;
        assert!(
            mean > least,
            "{loss} lost, seeds 92 to 94: {carried:.3?} carried"
        );
    }
}
