//! Who is banned, for how long, and by whose order.

use super::*;

#[test]
fn bans_end() {
    let mut admission = Admission::new(&params());
    let from = source("192.0.2.1:5000");
    let range = "192.0.2.0/24".parse().unwrap();
    admission.ban(at(0), range, Some(at(60_000))).unwrap();
    assert_eq!(allow(&mut admission, at(59_999), from), Err(Reject::Banned));
    assert_eq!(admission.counters(at(59_999)).bans, 1);
    assert_eq!(allow(&mut admission, at(60_000), from), Ok(()));
    assert_eq!(admission.counters(at(60_000)).bans, 0);
    admission.ban(at(0), range, None).unwrap();
    admission.ban_client(at(0), 7, None).unwrap();
    assert_eq!(admission.counters(at(0)).bans_by_operator, 3, "as ordered");
    assert_eq!(
        allow(&mut admission, at(1 << 40), from),
        Err(Reject::Banned)
    );
    assert!(admission.unban(range));
    assert!(!admission.unban(range));
    assert_eq!(allow(&mut admission, at(1 << 40), from), Ok(()));
}

#[test]
fn a_ban_reaches_mapped_addresses_and_spares_the_neighbour() {
    let mut bans = Bans::default();
    bans.ban(at(0), "192.0.2.1/32".parse().unwrap(), None)
        .unwrap();
    bans.ban(at(0), "2001:db8::/48".parse().unwrap(), None)
        .unwrap();
    let covers = |text: &str| bans.covers(at(0), text.parse().unwrap());
    assert!(covers("192.0.2.1") && covers("::ffff:192.0.2.1"));
    assert!(covers("2001:db8:0:ffff::1"));
    assert!(!covers("192.0.2.2") && !covers("2001:db8:1::1"));
}

#[test]
fn bans_are_bounded_and_expired_ones_make_room() {
    let mut bans = Bans::default();
    let range = |index: u32| IpNet::from(IpAddr::from(Ipv4Addr::from(0x0b00_0000 + index)));
    for index in 0..65_536 {
        bans.ban(at(0), range(index), Some(at(1_000))).unwrap();
    }
    assert_eq!(bans.ban(at(500), range(70_000), None), Err(BanError::Full));
    assert_eq!(bans.ban_client(at(500), 7, None), Err(BanError::Full));
    let later = Some(at(1_001));
    bans.ban(at(500), range(7), later)
        .expect("it takes no more room than before");
    bans.ban(at(1_000), range(70_000), None).unwrap();
    assert_eq!(bans.ranges(), [(range(7), later), (range(70_000), None)]);
    for client in 2..65_536 {
        bans.ban_client(at(1_000), client, None).unwrap();
    }
    assert_eq!(bans.ban_client(at(1_000), 1, None), Err(BanError::Full));
    assert_eq!(bans.ban_client(at(1_000), 2, None), Ok(()), "as before");
}

#[test]
fn a_ban_of_a_continent_is_refused() {
    let mut bans = Bans::default();
    for (widest, wider) in [("10.0.0.0/8", "10.0.0.0/7"), ("2001::/16", "2000::/15")] {
        assert_eq!(bans.ban(at(0), widest.parse().unwrap(), None), Ok(()));
        let refused = bans.ban(at(0), wider.parse().unwrap(), None);
        assert_eq!(refused, Err(BanError::TooWide), "{wider}");
    }
}

/// Ranges of one length are looked up together.
#[test]
fn the_end_of_one_ban_leaves_the_others() {
    let mut bans = Bans::default();
    let lifted = "192.0.2.0/24".parse().unwrap();
    bans.ban(at(0), lifted, None).unwrap();
    let short = "203.0.113.0/24".parse().unwrap();
    bans.ban(at(0), short, Some(at(10))).unwrap();
    let lasting = ["100.64.0.0/24", "198.51.100.0/24"].map(|range| range.parse().unwrap());
    for range in lasting {
        bans.ban(at(0), range, None).unwrap();
    }
    bans.ban_client(at(0), 7, Some(at(10))).unwrap();
    bans.ban_client(at(0), 8, None).unwrap();
    assert_eq!(bans.len(), 6);
    assert!(bans.unban(lifted));
    for now in [10, 11] {
        bans.expire(at(now));
    }
    assert_eq!(bans.ranges(), lasting.map(|range| (range, None)));
    assert_eq!(bans.clients(), [(8, None)]);
    let covers = |text: &str| bans.covers(at(0), text.parse().unwrap());
    assert!(covers("198.51.100.1") && !covers("192.0.2.1") && !covers("203.0.113.1"));
}

#[test]
fn clients_are_banned_by_id() {
    let mut bans = Bans::default();
    bans.ban_client(at(0), 7, Some(at(10))).unwrap();
    assert!(bans.covers_client(at(9), 7) && !bans.covers_client(at(9), 8));
    assert!(!bans.covers_client(at(10), 7));
    for until in [30, 20] {
        bans.ban_client(at(0), 7, Some(at(until))).unwrap();
    }
    bans.ban_client(at(0), 6, None).unwrap();
    let both = [(6, None), (7, Some(at(30)))];
    assert_eq!(bans.clients(), both, "the later end counts");
    bans.expire(at(29));
    assert!(bans.unban_client(7) && bans.unban_client(6) && bans.is_empty());
    assert!(!bans.unban_client(7));
}

#[test]
fn strikes_in_a_window_become_a_ban() {
    let mut params = params();
    let rule = Strikes {
        limit: 5,
        window: Duration::from_secs(10),
        ban: Duration::from_secs(60),
    };
    params.strikes = Some(rule);
    let mut admission = Admission::new(&params);
    let from = source("192.0.2.1:5000");
    // One every two seconds is what the bucket refills.
    for turn in 0..100 {
        assert_eq!(admission.on_strike(at(turn * 2_000), from), None);
    }
    let start = at(1_000_000);
    let mut strike = |_| admission.on_strike(start, from).is_some();
    let bans: Vec<bool> = (0..6).map(&mut strike).collect();
    assert_eq!(bans, [false, false, false, false, false, true]);
    assert_eq!(allow(&mut admission, start, from), Err(Reject::Banned));
    assert_eq!(admission.counters(start).bans_by_strikes, 1);
    assert_eq!(
        allow(&mut admission, start + Duration::from_secs(60), from),
        Ok(())
    );
}

/// Another listener takes over what the operator ordered. What its own peers never did keeps nobody out of it.
#[test]
fn bans_for_strikes_are_no_orders() {
    let mut bans = Bans::default();
    let [struck, ordered, both] =
        ["192.0.2.1/32", "198.51.100.0/24", "203.0.113.1/32"].map(|it| it.parse().unwrap());
    bans.strike_out(at(0), struck, at(60)).unwrap();
    bans.ban(at(0), ordered, None).unwrap();
    bans.ban(at(0), both, Some(at(10))).unwrap();
    for until in [at(90), at(80)] {
        bans.strike_out(at(0), both, until).unwrap();
    }
    bans.ban_client(at(0), 7, Some(at(20))).unwrap();
    let ends = [
        (struck, Some(at(60))),
        (ordered, None),
        (both, Some(at(90))),
    ];
    assert_eq!(bans.ranges(), ends);

    let mut elsewhere = bans.ordered();
    assert_eq!(elsewhere.ranges(), [(ordered, None), (both, Some(at(10)))]);
    assert_eq!(elsewhere.clients(), bans.clients());
    assert!(!elsewhere.covers(at(1), "192.0.2.1".parse().unwrap()));
    assert!(elsewhere.unban(ordered) && elsewhere.unban(both));
    assert!(!elsewhere.covers(at(1), "198.51.100.1".parse().unwrap()));
    assert_eq!(bans.len(), 4, "it is a copy");
}
