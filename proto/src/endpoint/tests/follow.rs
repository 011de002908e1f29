//! Peers whom a NAT gives another address.

use super::*;

#[test]
fn a_session_follows_its_peer_only_with_a_proof_and_after_silence() {
    let mut endpoint = endpoint(None, Params::default());
    let peer = accept(&mut endpoint, 1);
    let mut from = |port, text, millis| hear(&mut endpoint, port, text, millis);
    assert_eq!(
        from(2, "+moved", 100),
        Handled::Rejected(Reject::UnknownPeer),
        "not silent yet"
    );
    assert_eq!(
        from(2, "-moved", 400),
        Handled::Rejected(Reject::UnknownPeer),
        "no proof"
    );
    assert_eq!(from(2, "+moved", 400), Handled::Moved(peer));
    assert_eq!(from(2, "again", 401), Handled::Peer(peer));
    assert_eq!(
        from(1, "old", 402),
        Handled::Rejected(Reject::UnknownPeer),
        "the old address is free"
    );
    assert_eq!(endpoint.address(peer), Some(address(2)));
}

/// Goodbyes are said in one instant: the one from a new address is heard although the old one has just spoken,
/// and forged ones use up no tries of those who go on.
#[test]
fn a_goodbye_from_a_new_address_is_heard_at_once() {
    let params = Params {
        follow_tries_per_sec: 3,
        ..Params::default()
    };
    let mut endpoint = endpoint(None, params);
    let (peer, other) = (accept(&mut endpoint, 1), accept(&mut endpoint, 4));
    let mut from = |port, text, millis| hear(&mut endpoint, port, text, millis);
    assert_eq!(from(2, "!goodbye", 100), Handled::Moved(peer));
    for _ in 0..5 {
        assert_eq!(
            from(3, "?forged", 400),
            Handled::Rejected(Reject::UnknownPeer)
        );
    }
    assert_eq!(from(3, "+moved", 400), Handled::Moved(other));
}

/// Whoever speaks at its address keeps it, and what comes from there is tried with nobody else. One that is silent makes
/// way, and is found again wherever it is.
#[test]
fn a_silent_peer_makes_way_for_one_that_a_nat_gave_its_port() {
    let mut endpoint = endpoint(None, Params::default());
    let [one, two] = [1, 2].map(|port| accept(&mut endpoint, port));
    let mut from = |port, text, millis| hear(&mut endpoint, port, text, millis);
    let refused = |id| Handled::PeerRejected(id, Reject::DecryptFailed);
    assert_eq!(from(2, "@1", 100), refused(two), "not silent yet");
    assert_eq!(from(2, "@2", 300), Handled::Peer(two));
    assert_eq!(from(2, "@1", 500), refused(two), "it has just spoken");
    assert_eq!(from(2, "@7", 900), refused(two), "nobody's");
    assert_eq!(from(2, "@1", 900), Handled::Moved(one));
    assert_eq!(
        from(1, "@2", 901),
        Handled::Peer(two),
        "they changed places"
    );
    assert_eq!(from(2, "@1", 902), Handled::Peer(one));
    assert_eq!(from(1, "@1", 1_300), Handled::Moved(one));
    assert_eq!(from(2, "@2", 1_300), Handled::Peer(two), "they did again");
    assert_eq!(from(3, "@2", 1_600), Handled::Moved(two), "it is elsewhere");
    assert_eq!(endpoint.address(one), Some(address(1)));
    assert_eq!(endpoint.address(two), Some(address(3)));
    assert_eq!(endpoint.find(address(2)), None);
}

/// What a session refuses for another reason is its own, and no search is worth it; what it refused as another's is not
/// shown to it again.
#[test]
fn only_what_may_be_anothers_is_looked_for_elsewhere() {
    let mut endpoint = endpoint(None, Params::default());
    let [one, _] = [1, 2].map(|port| accept(&mut endpoint, port));
    let refused = |reject| Handled::PeerRejected(one, reject);
    let handled = hear(&mut endpoint, 1, "%", 900);
    assert_eq!(handled, refused(Reject::Malformed));
    assert!(!endpoint.may_be_elsewhere(at(900), one, Reject::Malformed));
    assert_eq!(endpoint.tries_in_vain(), 0);
    let handled = hear(&mut endpoint, 1, "@7", 900);
    assert_eq!(handled, refused(Reject::DecryptFailed));
    assert!(endpoint.may_be_elsewhere(at(900), one, Reject::DecryptFailed));
    assert_eq!(endpoint.tries_in_vain(), 1, "the other's");
}

/// A carrier puts hundreds of players behind one address, and when its NAT is restarted all of them have new ports. Of what
/// they say, admission lets through two hundred datagrams a second.
#[test]
fn a_crowd_behind_one_address_is_found_again_in_time() {
    const CROWD: u16 = 200;
    let mut endpoint = endpoint(None, Params::default());
    for port in 1..=CROWD {
        accept(&mut endpoint, port);
    }
    let mut lost: VecDeque<u16> = (1..=CROWD).rev().collect();
    let mut millis = 1_000;
    while let Some(port) = lost.pop_front() {
        match hear(&mut endpoint, 1_000 + port, &format!("@{port}"), millis) {
            Handled::Moved(_) => {}
            Handled::Rejected(Reject::UnknownPeer) => lost.push_back(port),
            other => panic!("{other:?}"),
        }
        millis += 5;
        assert!(millis < 8_000, "{} are still lost", lost.len());
    }
}

/// A thousand players lose their ports at once, and a search among them takes more tries than a second has for what is
/// forged: whoever speaks is found by the first that is heard of it.
#[test]
fn a_proof_is_worth_its_search() {
    const CROWD: u16 = 1_000;
    let params = Params {
        follow_tries_per_sec: 4 * u32::from(CROWD),
        ..Params::default()
    };
    let mut endpoint = endpoint(None, params);
    for port in 1..=CROWD {
        accept(&mut endpoint, port);
    }
    for (port, millis) in (1..=CROWD).rev().zip(1_000..) {
        let handled = hear(&mut endpoint, 2_000 + port, &format!("@{port}"), millis);
        assert!(matches!(handled, Handled::Moved(_)), "{port}: {handled:?}");
    }
}

/// However many of those behind an address go on speaking, one that lost its port is found: each search goes on where the
/// last one ended.
#[test]
fn those_who_speak_hide_nobody() {
    const CROWD: u16 = 3_000;
    let mut endpoint = endpoint(None, Params::default());
    for port in 1..=CROWD {
        accept(&mut endpoint, port);
    }
    for port in 1..CROWD {
        hear(&mut endpoint, port, "speaks", 1_000);
    }
    let says = format!("@{CROWD}");
    let mut tries = (0..3).map(|_| hear(&mut endpoint, 5_000, &says, 1_000));
    let found = tries.position(|handled| matches!(handled, Handled::Moved(_)));
    assert_eq!(found, Some(2), "a thousand are looked at for each");
}

/// Of forged datagrams, the first few are tried with everybody behind their address, and then each with a few, so that
/// more of them are needed to use up a second. What another endpoint found is given back.
#[test]
fn what_was_tried_in_vain_counts() {
    const CROWD: u16 = 200;
    let params = Params {
        follow_tries_per_sec: 1_000,
        ..Params::default()
    };
    let mut endpoint = endpoint(None, params);
    for port in 1..=CROWD {
        accept(&mut endpoint, port);
    }
    let in_vain = |endpoint: &mut Endpoint| {
        let handled = hear(endpoint, 5_000, "-forged", 1_000);
        assert_eq!(handled, Handled::Rejected(Reject::UnknownPeer));
        endpoint.tries_in_vain()
    };
    let tries: Vec<u32> = (0..10).map(|_| in_vain(&mut endpoint)).collect();
    assert_eq!(tries, [200, 200, 200, 64, 64, 64, 64, 64, 64, 16]);
    let moved = |endpoint: &mut Endpoint| hear(endpoint, 5_000, "@7", 1_000);
    let lost = Handled::Rejected(Reject::UnknownPeer);
    assert_eq!(moved(&mut endpoint), lost, "the second is used up");
    endpoint.give_back_tries(600);
    assert!(matches!(moved(&mut endpoint), Handled::Moved(_)));
}

#[test]
fn proofs_of_new_addresses_have_a_budget() {
    let params = Params {
        follow_tries_per_sec: 3,
        ..Params::default()
    };
    let mut endpoint = endpoint(None, params);
    accept(&mut endpoint, 1);
    let mut from = |text| hear(&mut endpoint, 2, text, 500);
    for _ in 0..3 {
        from("-forged");
    }
    assert_eq!(
        from("+genuine"),
        Handled::Rejected(Reject::UnknownPeer),
        "the budget of this second is gone"
    );
}

/// What is forged in one instant costs a turn of the loop no more than a part of that, and the next turn tries again.
#[test]
fn proofs_of_new_addresses_are_spread_over_turns() {
    let mut endpoint = endpoint(None, Params::default());
    for port in 1..=64 {
        accept(&mut endpoint, port);
    }
    let mut from = |text, millis| hear(&mut endpoint, 100, text, millis);
    for _ in 0..32 {
        from("-forged", 500);
    }
    let unknown = Handled::Rejected(Reject::UnknownPeer);
    assert_eq!(from("+genuine", 500), unknown, "32 by 64 are enough");
    let moved = from("+genuine", 501);
    assert!(matches!(moved, Handled::Moved(_)), "{moved:?}");
}
