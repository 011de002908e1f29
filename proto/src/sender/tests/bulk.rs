//! How fast bulk goes: as the path lets it, and as an operator does.

use super::*;

/// What one sender brings across in a second when there is always more of it, over a path that is as
/// fast as it is asked to be.
fn carried(size: usize) -> usize {
    let path = Conditions {
        delay: Duration::from_millis(1),
        ..Conditions::default()
    };
    let mut pair = Pair::new(Params::default(), path, 1);
    let begin = pair.now;
    let payload = vec![7; size];
    for millis in 1..=1_000 {
        while pair.peers[0].sender.has_room() {
            pair.peers[0].sender.push(pair.now, 0, &payload).unwrap();
        }
        pair.run_until(begin + Duration::from_millis(millis));
    }
    pair.got[1].iter().map(|(_, payload)| payload.len()).sum()
}

/// Large packets count as what they are in the bound of acknowledgements, and blocks do not wait for an
/// acknowledgement that nobody hurries to send.
#[test]
fn no_size_is_slow_on_a_fast_path() {
    for size in [1_000, 7_000, 33_000, 250_000] {
        let carried = carried(size);
        assert!(carried > 4_000_000, "{carried} bytes in pieces of {size}");
    }
}

/// A processor that was away while the rate was still low looks like the path's end. It is not, and
/// what says so is a rate of some times that without any sign of a queue.
#[test]
fn an_end_that_was_none_is_soon_forgotten() {
    let path = |delay| Conditions {
        delay: Duration::from_millis(delay),
        rate: 400_000_000,
        ..Conditions::default()
    };
    let carried = |away: &[(u64, u64)]| {
        let mut pair = Pair::new(Params::default(), path(1), 1);
        let begin = pair.now;
        let after = |millis| {
            if let Some((_, delay)) = away.iter().find(|(at, _)| *at == millis) {
                pair.links[0].set_conditions(path(*delay));
            }
            while pair.peers[0].sender.has_room() {
                pair.peers[0].sender.push(pair.now, 0, &[7; 1_000]).unwrap();
            }
            pair.run_until(begin + Duration::from_millis(millis));
            pair.got[1].len()
        };
        (0..1_500).map(after).collect::<Vec<_>>()
    };
    let free = carried(&[]);
    let met = carried(&[(60, 16), (120, 1)]);
    assert!(
        4 * met[130] < 3 * free[130],
        "the end was met early: {} kB of {} until then",
        met[130],
        free[130]
    );
    let late = met[1_499] - met[999];
    assert!(
        late > 8_000,
        "{late} kB in the last half second, of 25,000 there are"
    );
}

/// An operator's `bulk.max` holds from the first volley on, whatever that says of the path.
#[test]
fn bulk_is_no_faster_than_its_most() {
    let params = Params {
        bulk: BulkRates {
            max: 100_000.0,
            ..BulkRates::default()
        },
        ..Params::default()
    };
    let path = Conditions {
        delay: Duration::from_millis(25),
        ..Conditions::default()
    };
    let mut pair = Pair::new(params, path, 1);
    for _ in 0..2_000 {
        while pair.peers[0].sender.has_room() {
            pair.peers[0].sender.push(pair.now, 0, &[7; 1_000]).unwrap();
        }
        pair.run_for(1);
    }
    let heard = 1_000 * pair.got[1].len();
    assert!(heard > 150_000, "{heard} bytes in two seconds");
    assert!(heard <= 12_000 + 200_000, "{heard} bytes in two seconds");
}

/// What a game says at once now and then, such as where everybody is, waits for no rate as long as nobody has
/// met the path's end; and for one that makes no queue to be felt from then on.
#[test]
fn what_is_said_after_a_pause_leaves_at_once() {
    // 2 Mbit/s, with a queue of a second.
    let path = Conditions {
        delay: Duration::from_millis(25),
        rate: 2_000_000,
        queue: 250_000,
        ..Conditions::default()
    };
    let leaves_at_once = |pair: &mut Pair| {
        let before = pair.packets[0];
        for _ in 0..11 {
            pair.peers[0].sender.push(pair.now, 0, &[7; 1_000]).unwrap();
        }
        pair.run_for(1);
        pair.packets[0] - before
    };
    let mut pair = Pair::new(Params::default(), path, 1);
    pair.run_for(500);
    assert_eq!(leaves_at_once(&mut pair), 11);
    pair.run_for(3_000);
    assert_eq!(leaves_at_once(&mut pair), 11);
    for _ in 0..5_000 {
        while pair.peers[0].sender.has_room() {
            pair.peers[0].sender.push(pair.now, 0, &[7; 1_000]).unwrap();
        }
        pair.run_for(1);
    }
    pair.run_for(20_000);
    assert!(pair.peers[0].sender.is_drained());
    let packets = leaves_at_once(&mut pair);
    // 5 kB are 20 ms.
    assert!((3..=6).contains(&packets), "{packets}");
}
