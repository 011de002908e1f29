use std::collections::HashSet;
use std::net::Ipv4Addr;

use super::*;

mod bans;

fn rate(rate: u32, burst: u32) -> Bucket {
    Bucket { rate, burst }
}

fn params() -> Params {
    Params {
        per_prefix: rate(10, 20),
        listener: rate(1_000_000, 1_000_000),
        table_size: 65_536,
        strikes: None,
        rules: SourceRules::default(),
    }
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn source(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn allow(admission: &mut Admission, now: Timestamp, from: SocketAddr) -> Result<(), Reject> {
    admission.check(now, from)?;
    admission.charge(now, from, StrangerClass::Unproven)
}

fn allowed(admission: &mut Admission, now: Timestamp, from: SocketAddr, tries: u32) -> u32 {
    (0..tries)
        .map(|_| u32::from(allow(admission, now, from).is_ok()))
        .sum()
}

/// Where a source falls is drawn anew for each table. Of hundreds of sources two share a bucket now and then; here
/// none of these do, in no lane.
fn without_shared_buckets(params: &Params, sources: &[SocketAddr]) -> Admission {
    let lanes = [Lane::Handshakes, Lane::Proven, Lane::Strays];
    for _ in 0..1_000 {
        let admission = Admission::new(params);
        let place = |from: &SocketAddr, lane| admission.places.place(prefix(from.ip()), lane);
        let buckets: HashSet<usize> = sources
            .iter()
            .flat_map(|from| lanes.map(|lane| place(from, lane).bucket))
            .collect();
        if buckets.len() == sources.len() * lanes.len() {
            return admission;
        }
    }
    panic!("the table is too small for these sources");
}

#[test]
fn sources_that_cannot_be_answered_are_refused() {
    let mut admission = Admission::new(&params());
    for bad in [
        "192.0.2.1:0",
        "0.0.0.0:5000",
        "255.255.255.255:5000",
        "224.0.0.1:5000",
        "[::]:5000",
        "[ff02::1]:5000",
        "[::ffff:224.0.0.1]:5000",
    ] {
        assert_eq!(
            allow(&mut admission, at(0), source(bad)),
            Err(Reject::BadSource),
            "{bad}"
        );
    }
    for good in ["192.0.2.1:1", "223.255.255.255:5000", "[2001:db8::1]:5000"] {
        assert_eq!(allow(&mut admission, at(0), source(good)), Ok(()), "{good}");
    }
}

#[test]
fn our_own_sockets_are_no_peers() {
    let mut params = params();
    params.rules.own = vec![source("0.0.0.0:40000"), source("203.0.113.7:40001")];
    let mut admission = Admission::new(&params);
    let mut judge = |text| allow(&mut admission, at(0), source(text));
    assert_eq!(judge("127.0.0.1:40000"), Err(Reject::BadSource));
    assert_eq!(judge("203.0.113.7:40001"), Err(Reject::BadSource));
    assert_eq!(judge("127.0.0.1:40001"), Ok(()));
    assert_eq!(judge("203.0.113.7:40002"), Ok(()));
}

#[test]
fn lists_decide_before_quotas_and_deny_wins() {
    let mut params = params();
    let [all, but, mapped] =
        ["10.0.0.0/8", "10.1.0.0/16", "::ffff:10.2.0.0/112"].map(|text| text.parse().unwrap());
    params.rules.allow = Networks::new(&[all]);
    params.rules.deny = Networks::new(&[but, mapped]);
    let mut admission = Admission::new(&params);
    let mut judge = |text| allow(&mut admission, at(0), source(text));
    assert_eq!(judge("10.0.0.1:5000"), Ok(()));
    assert_eq!(judge("10.1.0.1:5000"), Err(Reject::SourceDenied));
    assert_eq!(judge("10.2.0.1:5000"), Err(Reject::SourceDenied));
    assert_eq!(judge("11.0.0.1:5000"), Err(Reject::SourceDenied));
    assert_eq!(judge("[::ffff:10.0.0.1]:5000"), Ok(()), "the same address");
}

#[test]
fn a_prefix_has_its_burst_and_then_its_rate() {
    let mut admission = Admission::new(&params());
    let from = source("192.0.2.1:5000");
    assert_eq!(allowed(&mut admission, at(0), from, 50), 20);
    assert_eq!(
        allow(&mut admission, at(0), source("192.0.2.1:6000")),
        Err(Reject::SourceLimited),
        "another port is the same source"
    );
    assert_eq!(
        allow(&mut admission, at(0), source("192.0.2.2:5000")),
        Ok(())
    );
    assert_eq!(allowed(&mut admission, at(1_000), from, 50), 10);
}

#[test]
fn an_ipv6_host_cannot_roam_out_of_its_bucket() {
    let mut admission = Admission::new(&params());
    let passed: u32 = (0..100)
        .map(|host: u16| {
            let from = SocketAddr::from((
                Ipv6Addr::new(0x2001, 0xdb8, 0, 1, host, host, host, host),
                5000,
            ));
            allowed(&mut admission, at(0), from, 1)
        })
        .sum();
    assert_eq!(passed, 20);
    let neighbour = source("[2001:db8:0:2::1]:5000");
    assert_eq!(allow(&mut admission, at(0), neighbour), Ok(()));
}

#[test]
fn the_listener_has_a_limit_of_its_own() {
    let mut params = params();
    params.listener = rate(100, 50);
    let from = |host: u8| SocketAddr::from((Ipv4Addr::new(192, 0, 2, host), 5000));
    let sources: Vec<_> = (1..=202).map(from).collect();
    let mut admission = without_shared_buckets(&params, &sources);
    let passed: u32 = (1..=200)
        .map(|host| allowed(&mut admission, at(0), from(host), 1))
        .sum();
    assert_eq!(passed, 50);
    assert_eq!(
        allow(&mut admission, at(0), from(201)),
        Err(Reject::ListenerLimited)
    );
    for _ in 0..20 {
        let awaited = admission.charge(at(0), from(202), StrangerClass::Awaited);
        assert_eq!(awaited, Ok(()), "its handshake is under way");
    }
    assert_eq!(
        admission.charge(at(0), from(202), StrangerClass::Awaited),
        Err(Reject::SourceLimited),
        "it has a limit of its own"
    );
}

/// Forged requests that name a host spend what it has for requests, and not what those need who have shown a token.
#[test]
fn forged_requests_keep_no_answer_to_a_challenge_out() {
    let mut admission = Admission::new(&params());
    let from = source("192.0.2.7:5");
    let charge = |admission: &mut Admission, class| admission.charge(at(0), from, class);
    let limited = (0..1_000).any(|_| charge(&mut admission, StrangerClass::Unproven).is_err());
    assert!(limited, "the flood was too small");
    assert_eq!(charge(&mut admission, StrangerClass::Awaited), Ok(()));
}

/// Twenty players behind one router were in when the server was killed. Their clients go on sending to
/// it until they time out, some thousand packets a second, and one of them does not want to wait.
#[test]
fn packets_of_ended_sessions_keep_no_newcomer_out() {
    let mut params = params();
    params.listener = rate(100, 50);
    let others = |host: u8| SocketAddr::from((Ipv4Addr::new(198, 51, 100, host), 5000));
    let sources: Vec<_> = (0..=100)
        .map(others)
        .chain([source("192.0.2.1:5000")])
        .collect();
    let mut admission = without_shared_buckets(&params, &sources);
    let ghost = |port: u16| SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), port));
    let mut strays = |port| admission.charge(at(0), ghost(port), StrangerClass::Stray);
    let passed = (0..1_000).filter(|&port| strays(port).is_ok()).count();
    assert_eq!(passed, 20, "they have a limit too");
    let mut stray = |host| admission.charge(at(0), others(host), StrangerClass::Stray);
    assert_eq!((0..100).filter(|&host| stray(host).is_ok()).count(), 30);
    assert_eq!(stray(100), Err(Reject::ListenerLimited));
    assert_eq!(
        allowed(&mut admission, at(0), source("192.0.2.1:5000"), 50),
        20,
        "of a newcomer behind the same router"
    );
    assert_eq!(
        allowed(&mut admission, at(0), others(1), 1),
        1,
        "and anywhere else"
    );
}

/// A NAT of hundreds of players was restarted. Each proves which one it is, and is not held against the next; what proves
/// nothing is bounded as ever, and nobody gets more than was taken.
#[test]
fn strays_that_were_peers_take_nothing() {
    let mut admission = Admission::new(&params());
    let from = |port: u16| SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), port));
    for port in 1..=500 {
        let charged = admission.charge(at(0), from(port), StrangerClass::Stray);
        assert_eq!(charged, Ok(()), "player {port}");
        admission.refund_stray(from(port));
    }
    (0..100).for_each(|_| admission.refund_stray(from(1)));
    let mut stray = |millis| admission.charge(at(millis), from(1), StrangerClass::Stray);
    assert_eq!((0..50).filter(|_| stray(0).is_ok()).count(), 20);
    assert_eq!((0..50).filter(|_| stray(1_000).is_ok()).count(), 10);
}

/// A million forged sources cost no memory, and honest sources still get in.
/// Who shares a bucket with a source may not fill it.
#[test]
fn what_a_peer_gets_back_is_nobody_elses() {
    let mut admission = Admission::new(&Params {
        table_size: 1,
        ..params()
    });
    let flooder = source("192.0.2.1:5000");
    let place = |from: &SocketAddr| admission.places.place(prefix(from.ip()), Lane::Strays);
    let mut others = (1..=9).map(|host| SocketAddr::from(([198, 51, 100, host], 5000)));
    let peer = others.find(|other| place(other) != place(&flooder));
    let stray = |admission: &mut Admission| {
        let charged = admission.charge(at(0), flooder, StrangerClass::Stray);
        charged.is_ok()
    };
    assert!((0..20).all(|_| stray(&mut admission)));
    admission.refund_stray(peer.unwrap());
    assert!(!stray(&mut admission));
    admission.refund_stray(flooder);
    assert!(stray(&mut admission));
}

/// What an answer was paid for brings behind itself.
#[test]
fn who_speaks_behind_its_answer_pays_no_more() {
    let mut admission = Admission::new(&params());
    let from = source("192.0.2.1:5000");
    assert_eq!(allowed(&mut admission, at(0), from, 30), 20);
    assert_eq!(admission.charge(at(0), from, StrangerClass::Early), Ok(()));
}

#[test]
fn a_flood_of_sources_finds_a_table_of_constant_size() {
    let mut admission = Admission::new(&params());
    let before = admission.places.memory();
    assert!(before < 700 * 1024, "{before} bytes");
    for index in 0..1_000_000_u32 {
        let from = SocketAddr::from((Ipv4Addr::from(0x0b00_0000 + index), 5000));
        // The table's memory is its two arrays; neither can grow. What is proved here is that the
        // flood goes through them.
        let _judged = allow(&mut admission, at(u64::from(index) / 1_000), from);
    }
    let now = at(1_000);
    let counters = admission.counters(now);
    assert_eq!(admission.places.memory(), before);
    assert_eq!(counters.buckets, 65_536);
    assert!(
        counters.buckets_shared > 100_000,
        "the flood did not fill the table: {counters:?}"
    );
    assert_eq!(allow(&mut admission, now, source("192.0.2.1:5000")), Ok(()));
}

#[test]
fn buckets_are_used_until_they_are_full_again() {
    let mut admission = Admission::new(&params());
    allowed(&mut admission, at(0), source("192.0.2.1:5000"), 20);
    assert_eq!(admission.counters(at(1_999)).buckets_used, 1);
    assert_eq!(admission.counters(at(2_000)).buckets_used, 0);
}

/// How often it happens tells an operator that the table is too small.
#[test]
fn who_meets_the_bucket_of_another_is_counted() {
    let [one, other] = ["192.0.2.1:5000", "198.51.100.1:5000"].map(source);
    let params = Params {
        table_size: 1,
        ..params()
    };
    let mut admission = Admission::new(&params);
    let mut shared = |now, from| {
        allow(&mut admission, at(now), from).ok();
        admission.counters(at(now)).buckets_shared
    };
    assert_eq!([shared(0, one), shared(0, one)], [0, 0], "its own");
    assert_eq!([shared(0, other), shared(0, other)], [1, 1]);
    assert_eq!(shared(60_000, one), 1, "it is full again: nobody's");
}

#[test]
fn shares_add_up_to_at_least_the_whole() {
    let whole = rate(5, 20);
    assert_eq!(whole.share_of(2), rate(3, 10));
    assert_eq!(whole.share_of(64), rate(1, 1));
    assert_eq!(whole.share_of(0), whole);
}

/// Who falls on one bucket here falls on another elsewhere: nobody can look for collisions at home.
#[test]
fn where_a_source_falls_is_known_to_one_process_alone() {
    let places = || BucketTable::new(65_536, TurnClock::default());
    let (here, there) = (places(), places());
    let falls_alike = |host: &u32| {
        let prefix = IpNet::from(IpAddr::from(Ipv4Addr::from(0x0b00_0000 + host)));
        here.place(prefix, Lane::Handshakes) == there.place(prefix, Lane::Handshakes)
    };
    assert_eq!((0..100).filter(falls_alike).count(), 0);
}

/// What was counted has happened, and who is banned stays it, whatever a new file says of newcomers.
#[test]
fn a_reload_keeps_bans_and_counts() {
    let small = Params {
        table_size: 1,
        ..params()
    };
    let mut admission = Admission::new(&small);
    for host in 1..=3 {
        let from = SocketAddr::from(([192, 0, 2, host], 5000));
        allow(&mut admission, at(0), from).unwrap();
    }
    let banned = source("198.51.100.7:5000");
    let range = IpNet::from(banned.ip());
    admission.ban(at(0), range, None).unwrap();
    admission.ban_client(at(0), 77, None).unwrap();
    let before = admission.counters(at(0));
    assert!(before.buckets_shared > 0, "one bucket for all: {before:?}");
    assert_eq!(before.bans, 2);

    admission.set_params(&params());
    let after = admission.counters(at(0));
    assert_eq!((after.buckets, after.buckets_used), (65_536, 0));
    let kept = AdmissionCounters {
        buckets: before.buckets,
        buckets_used: before.buckets_used,
        ..after
    };
    assert_eq!(kept, before);
    assert_eq!(admission.check(at(0), banned), Err(Reject::Banned));
    assert!(admission.bans().covers_client(at(0), 77));
}
