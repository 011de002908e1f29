use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use super::super::place::BREAKER_FAILURES;
use super::*;

const HEALTH: Health = Health {
    interval: Duration::from_secs(5),
    timeout: Duration::from_secs(1),
    up_after: 2,
    down_after: 3,
};

impl Pool {
    /// `tcp://127.0.0.1:7000` and `unix:/run/game.sock`, checked.
    pub(crate) fn with_two_targets() -> Self {
        let tcp = Target::Tcp {
            host: "127.0.0.1".into(),
            port: 7000,
        };
        let unix = Target::Unix("/run/game.sock".into());
        let pool = Self::new(Balance::First, &[tcp, unix]);
        pool.set_checked(true);
        pool
    }

    pub(crate) fn set_checked(&self, checked: bool) {
        self.lock().set_checked(checked);
    }

    /// Its first check fails.
    pub(crate) fn take_down(&self, target: usize) {
        check(self, target, |_| false);
    }

    /// A check succeeds.
    pub(crate) fn find_up(&self, target: usize) {
        check(self, target, |_| true);
    }

    /// As many as open the breaker.
    pub(crate) fn fail_connects(&self, target: usize) {
        for (pick, _) in self.addresses(target) {
            for _ in 0..BREAKER_FAILURES {
                self.on_failed(at(0), pick);
            }
        }
    }
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn targets(ports: std::ops::Range<u16>) -> Vec<Target> {
    let host = "127.0.0.1".to_owned();
    let target = |port| Target::Tcp {
        host: host.clone(),
        port,
    };
    ports.map(target).collect()
}

fn pool(balance: Balance, count: u16) -> Pool {
    Pool::new(balance, &targets(7000..7000 + count))
}

/// Counters are kept of all that ever were targets; one that comes back is no new one.
#[test]
fn a_backend_has_had_so_many_targets_at_most() {
    let pool = pool(Balance::First, 2);
    assert!(pool.check_room(&targets(7002..8024)).is_ok());
    assert!(pool.check_room(&targets(7000..8024)).is_ok());
    let refused = pool.check_room(&targets(7002..8025)).unwrap_err();
    assert!(refused.to_string().contains("has had 1025"), "{refused}");
}

/// One target, whose name stands for these.
fn named(balance: Balance, addresses: &[&str]) -> Pool {
    let target = Target::Tcp {
        host: "game.test".into(),
        port: 7000,
    };
    let pool = Pool::new(balance, &[target]);
    set(&pool, addresses);
    pool
}

fn set(pool: &Pool, addresses: &[&str]) {
    let addresses: Vec<_> = addresses.iter().map(|it| it.parse().unwrap()).collect();
    pool.set_addresses(0, &addresses);
}

fn picks(pool: &Pool, count: usize) -> Vec<usize> {
    let picks = (0..count).map(|_| pool.pick(at(0), None, None).unwrap().0.target);
    picks.collect()
}

fn address(pool: &Pool, tried: Option<Pick>) -> (Pick, String) {
    let (pick, address) = pool.pick(at(0), None, tried).unwrap();
    (pick, address.unwrap().to_string())
}

fn addresses(pool: &Pool, count: usize) -> Vec<String> {
    (0..count).map(|_| address(pool, None).1).collect()
}

/// The answer of one check of each of its addresses.
fn check(pool: &Pool, target: usize, well: impl Fn(&str) -> bool) {
    for (pick, address) in pool.addresses(target) {
        pool.on_checked(pick, well(&address.unwrap().to_string()), &HEALTH);
    }
}

/// Whether somebody who waits for it would go on.
fn was_told(notify: &Notify) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    pin!(notify.notified()).poll(&mut context).is_ready()
}

/// Before a planned restart a game server is drained, and those who are left go with it.
#[test]
fn a_target_that_ends_many_streams_is_suspected_unless_it_drains() {
    for (draining, suspected) in [(false, true), (true, false)] {
        let pool = pool(Balance::First, 1);
        pool.set_checked(true);
        check(&pool, 0, |_| true);
        let (pick, _) = pool.pick(at(0), None, None).unwrap();
        assert!(pool.set_draining("tcp://127.0.0.1:7000", draining));
        (0..11).for_each(|_| pool.on_ended(pick));
        assert_eq!(pool.take_suspicion(pick), suspected);
    }
}

/// Players come and go all the time, and a match that is over sends some home. Once is enough for one check.
#[test]
fn streams_that_end_are_many_when_they_are_over_ten_and_a_third_of_all() {
    for (streams, just_enough) in [(3, 11), (30, 11), (90, 31)] {
        let pool = pool(Balance::First, 1);
        pool.set_checked(true);
        check(&pool, 0, |_| true);
        let picks = (0..streams).map(|_| pool.pick(at(0), None, None).unwrap().0);
        let pick = picks.last().unwrap();
        let suspected = |ended: u32| {
            (0..ended).for_each(|_| pool.on_ended(pick));
            let was_told = was_told(&pool.suspect(0));
            (was_told, pool.take_suspicion(pick))
        };
        let answers = [just_enough - 1, just_enough - 1, just_enough].map(suspected);
        let [no, yes] = [(false, false), (true, true)];
        assert_eq!(answers, [no, no, yes], "of {streams}");
        // It may still have been about to close what it listens on.
        let again = (false, true);
        assert_eq!([0; 3].map(suspected), [again, again, no], "told once");
        (0..just_enough).for_each(|_| pool.on_ended(pick));
        pool.set_checked(false);
        pool.set_checked(true);
        assert!(!pool.take_suspicion(pick), "nobody was there to be asked");
    }
}

/// Only answers in a row turn a target, but for the first: nobody was there before, or nobody has looked again.
#[test]
fn a_target_turns_after_answers_in_a_row() {
    let pool = pool(Balance::First, 1);
    pool.set_checked(true);
    let ups = |answers: &[bool]| -> Vec<bool> {
        let up = |well: &bool| {
            check(&pool, 0, |_| *well);
            pool.states()[0].up
        };
        answers.iter().map(up).collect()
    };
    assert_eq!(ups(&[false, true]), [false, true], "each the first");
    let (well, ill) = (true, false);
    assert_eq!(ups(&[ill, well, ill, ill]), [true; 4]);
    assert_eq!(ups(&[ill]), [false]);
    assert_eq!(ups(&[well, ill, well, well]), [false, false, false, true]);
    pool.fail_connects(0);
    assert!(
        pool.states()[0].up,
        "a target that is checked is judged by checks"
    );
    pool.set_checked(false);
    pool.set_checked(true);
    assert_eq!(ups(&[ill]), [false], "what was found before says nothing");
    pool.set_checked(true);
    assert!(!pool.states()[0].up, "checks that go on are not forgotten");
}

#[test]
fn balances_differ() {
    assert_eq!(picks(&pool(Balance::First, 3), 4), [0, 0, 0, 0]);
    assert_eq!(picks(&pool(Balance::RoundRobin, 3), 4), [0, 1, 2, 0]);
    let least = pool(Balance::LeastPeers, 3);
    let second = (0..3).map(|_| least.pick(at(0), None, None).unwrap().0);
    let second = second.collect::<Vec<_>>()[1];
    assert_eq!(second.target, 1);
    least.on_closed(second);
    assert_eq!(picks(&least, 1), [1]);
}

/// Otherwise newcomers would be sent elsewhere for ever.
#[test]
fn who_could_not_connect_is_no_stream() {
    let least = pool(Balance::LeastPeers, 2);
    let (first, _) = least.pick(at(0), None, None).unwrap();
    least.on_failed(at(0), first);
    assert_eq!(picks(&least, 2), [0, 1]);
}

/// Name servers turn the order of their answers, and may give an address twice.
#[test]
fn the_order_of_an_answer_moves_nobody() {
    let pool = named(Balance::First, &["10.0.0.2:7000", "10.0.0.1:7000"]);
    assert_eq!(addresses(&pool, 1), ["10.0.0.1:7000"]);
    let turned = ["10.0.0.2:7000", "10.0.0.1:7000", "10.0.0.2:7000"];
    set(&pool, &turned);
    assert_eq!(addresses(&pool, 1), ["10.0.0.1:7000"]);
    assert_eq!(pool.choices(), 2);
}

#[test]
fn one_client_id_keeps_its_target() {
    let pool = pool(Balance::HashClientId, 4);
    let targets = || -> Vec<usize> {
        let target = |id| pool.pick(at(0), Some(id), None).unwrap().0.target;
        (0..64).map(target).collect()
    };
    let first = targets();
    assert_eq!(first, targets());
    for wanted in 0..4 {
        assert!(first.contains(&wanted), "target {wanted} gets nobody");
    }
    check(&pool, 2, |_| false);
    let moved = first.iter().zip(targets()).filter(|(a, b)| **a != *b);
    let moved: Vec<usize> = moved.map(|(from, _)| *from).collect();
    assert!(
        moved.iter().all(|from| *from == 2),
        "others moved: {moved:?}"
    );
}

#[test]
fn a_failed_connect_tries_elsewhere_first() {
    let pool = pool(Balance::First, 2);
    let (first, _) = pool.pick(at(0), None, None).unwrap();
    let again = || pool.pick(at(0), None, Some(first)).unwrap().0.target;
    assert_eq!(again(), 1);
    check(&pool, 1, |_| false);
    assert_eq!(again(), 0);
}

/// Health checks take seconds to find that a server is back; a player's attempt finds it at once.
#[test]
fn a_target_that_is_down_is_tried_once_a_rest_and_open_when_it_answers() {
    let pool = pool(Balance::First, 2);
    let target = |millis| Some(pool.pick(at(millis), None, None)?.0.target);
    check(&pool, 0, |_| false);
    assert_eq!(target(0), Some(1), "it is up");
    check(&pool, 1, |_| false);
    for (millis, expected) in [(0, Some(0)), (0, Some(1)), (999, None)] {
        assert_eq!(target(millis), expected, "after {millis} ms");
    }
    let (first, _) = pool.pick(at(1_000), None, None).unwrap();
    assert_eq!(first.target, 0);
    pool.on_failed(at(1_000), first);
    let (second, _) = pool.pick(at(1_001), None, None).unwrap();
    assert_eq!(second.target, 1);
    assert_eq!(target(1_002), None);
    pool.on_connected(second);
    for _ in 0..3 {
        assert_eq!(target(1_003), Some(1));
        pool.on_connected(second);
    }
    assert!(pool.set_draining("tcp://127.0.0.1:7000", true));
    assert!(pool.set_draining("tcp://127.0.0.1:7001", true));
    assert!(!pool.set_draining("tcp://127.0.0.1:7002", true));
    assert_eq!(target(9_000), None, "the operator's word counts");
}

#[test]
fn a_dead_target_gets_a_trickle() {
    let pool = pool(Balance::First, 1);
    for _ in 0..BREAKER_FAILURES {
        let (pick, _) = pool.pick(at(0), None, None).unwrap();
        pool.on_failed(at(0), pick);
    }
    let mut tries = 0;
    for millis in 0..10_000 {
        if let Some((pick, _)) = pool.pick(at(millis), None, None) {
            pool.on_failed(at(millis), pick);
            tries += 1;
        }
    }
    assert_eq!(tries, 9);
    let (pick, _) = pool.pick(at(11_000), None, None).unwrap();
    pool.on_connected(pick);
    assert!(pool.pick(at(11_000), None, None).is_some());
}

/// Each is a server of its own.
#[test]
fn sessions_spread_over_the_addresses_of_a_name() {
    let both = ["10.0.0.1:7000", "10.0.0.2:7000"];
    let turns = [both[0], both[1], both[0]];
    assert_eq!(addresses(&named(Balance::RoundRobin, &both), 3), turns);
    let least = named(Balance::LeastPeers, &both);
    assert_eq!(addresses(&least, 3), turns);
    // A name server turns them, and which one is first means nothing.
    set(&least, &[both[1], both[0]]);
    assert_eq!(addresses(&least, 1), [both[1]]);
    assert_eq!(least.choices(), 2);
    let spare = named(Balance::First, &both);
    let (first, _) = address(&spare, None);
    assert_eq!(address(&spare, Some(first)).1, both[1]);
}

#[test]
fn a_dead_address_costs_its_part_alone() {
    let pool = named(Balance::RoundRobin, &["10.0.0.1:7000", "10.0.0.2:7000"]);
    pool.set_checked(true);
    check(&pool, 0, |address| address == "10.0.0.2:7000");
    assert_eq!(addresses(&pool, 2), ["10.0.0.2:7000", "10.0.0.2:7000"]);
    let state = pool.states()[0];
    assert_eq!(
        (state.up, state.addresses, state.addresses_up),
        (true, 2, 1)
    );
    for _ in 0..3 {
        check(&pool, 0, |_| false);
    }
    assert!(!pool.states()[0].up);
    // What is new has to be found first, since nothing speaks for the name.
    set(&pool, &["10.0.0.3:7000"]);
    assert!(!pool.states()[0].up);
    check(&pool, 0, |_| true);
    assert!(pool.states()[0].up);
    assert_eq!(addresses(&pool, 1), ["10.0.0.3:7000"]);
}

/// Both families of a name lead to one server, most of the time.
#[test]
fn the_other_family_is_a_spare() {
    let pool = named(Balance::RoundRobin, &["[::1]:7000", "127.0.0.1:7000"]);
    assert_eq!(addresses(&pool, 2), ["[::1]:7000", "[::1]:7000"]);
    let (pick, _) = address(&pool, None);
    assert_eq!(address(&pool, Some(pick)).1, "127.0.0.1:7000");
    check(&pool, 0, |address| address == "127.0.0.1:7000");
    assert_eq!(addresses(&pool, 1), ["127.0.0.1:7000"]);
    assert!(pool.states()[0].up);
}

#[test]
fn streams_of_an_address_that_left_are_counted_until_they_end() {
    let pool = named(Balance::LeastPeers, &["10.0.0.1:7000", "10.0.0.2:7000"]);
    let (left, _) = address(&pool, None);
    set(&pool, &["10.0.0.2:7000"]);
    assert_eq!(addresses(&pool, 1), ["10.0.0.2:7000"]);
    assert_eq!(pool.states()[0].addresses, 1);
    // It is back, with that one stream.
    set(&pool, &["10.0.0.1:7000", "10.0.0.2:7000"]);
    assert_eq!(addresses(&pool, 2), ["10.0.0.1:7000", "10.0.0.2:7000"]);
    set(&pool, &["10.0.0.2:7000"]);
    pool.on_closed(left);
    assert_eq!(pool.lock().targets[0].places.len(), 2);
    pool.on_closed(left);
    assert_eq!(pool.lock().targets[0].places.len(), 1);
    pool.on_closed(left);
}

/// Nor does it stay in the way of those who look.
#[test]
fn an_address_that_left_without_a_stream_is_forgotten() {
    let pool = named(Balance::First, &["10.0.0.1:7000", "10.0.0.2:7000"]);
    set(&pool, &["10.0.0.2:7000"]);
    assert_eq!(pool.lock().targets[0].places.len(), 1);
}

/// A server that was drained, taken out of the file and put back is to be used.
#[test]
fn an_order_to_drain_ends_with_its_target() {
    let pool = pool(Balance::First, 2);
    assert!(pool.set_draining("tcp://127.0.0.1:7000", true));
    let drains = |targets: &[Target]| {
        pool.lock().set_targets(targets);
        pool.states()[0].draining
    };
    assert!(drains(&targets(7000..7002)), "a reload that keeps it");
    drains(&targets(7001..7002));
    assert!(!drains(&targets(7000..7002)));
}

/// A page that says since when a server is down must not begin anew with each check.
#[test]
fn a_target_fails_since_the_first_check_that_did() {
    let pool = pool(Balance::First, 1);
    let (pick, _) = pool.addresses(0)[0];
    let note = |millis, why| {
        pool.note_failure(at(millis), pick, why);
        let failing = pool.states()[0].failing;
        failing.map(|failing| (failing.since, failing.why))
    };
    use ConnectFailure::{Refused, Timeout};
    assert_eq!(note(1, Some(Timeout)), Some((at(1), Timeout)));
    assert_eq!(note(2, Some(Refused)), Some((at(1), Refused)));
    assert_eq!(note(3, None), None);
    assert_eq!(note(4, Some(Timeout)), Some((at(4), Timeout)));
}

/// Its name may stand for another address by now, and is looked up.
#[test]
fn whoever_cannot_connect_has_the_name_looked_up() {
    let pool = named(Balance::First, &["10.0.0.1:7000"]);
    let is_told = || was_told(&pool.failed(0));
    let (pick, _) = address(&pool, None);
    pool.on_connected(pick);
    assert!(!is_told());
    pool.on_failed(at(0), pick);
    assert!(is_told());
    pool.on_checked(pick, true, &HEALTH);
    assert!(!is_told());
    pool.on_checked(pick, false, &HEALTH);
    assert!(is_told());
}

#[test]
fn whoever_has_failed_is_told_of_once_and_so_is_the_target() {
    let pool = named(Balance::First, &["10.0.0.1:7000", "10.0.0.2:7000"]);
    let fail = |pick| {
        let turned = (1..=9).map(|nth| (nth, pool.on_failed(at(0), pick)));
        let mut turned = turned.filter_map(|(nth, turned)| Some((nth, turned?)));
        let (nth, one) = turned.next().unwrap();
        assert_eq!((nth, turned.next()), (BREAKER_FAILURES, None));
        one
    };
    let (one, _) = address(&pool, None);
    let (other, _) = address(&pool, Some(one));
    let turned = fail(one);
    assert_eq!((turned.up, turned.whole), (false, false));
    let turned = fail(other);
    assert_eq!((turned.up, turned.whole), (false, true));
    let turned = pool.on_connected(one).unwrap();
    assert_eq!((turned.up, turned.whole), (true, true));
    assert_eq!(turned.address.unwrap().to_string(), "10.0.0.1:7000");
}
