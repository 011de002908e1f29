//! Peers who go from one endpoint of a listener to another.

use super::*;

#[test]
fn each_endpoint_counts_what_was_said_to_it() {
    let mut endpoints = [0, 1].map(|_| endpoint(None, Params::default()));
    let [one, other] = &mut endpoints;
    let peer = accept(one, 1);
    for _ in 0..3 {
        hear(one, 1, "x", 1);
    }
    let (session, before) = one.take_out(peer).unwrap();
    other.adopt(at(2), address(2), session, before);
    hear(other, 2, "x", 3);
    let counted = endpoints.map(|mut endpoint| {
        endpoint.begin_survey();
        let sum = endpoint.survey(usize::MAX, |_, _, _, _| {});
        sum.unwrap().packets_received
    });
    assert_eq!(counted, [3, 1]);
}

/// A peer that has just spoken has its address, whatever comes to another endpoint.
#[test]
fn only_a_silent_peer_makes_way() {
    let mut endpoint = endpoint(None, Params::default());
    let peer = accept(&mut endpoint, 1);
    let mut make_way = |millis| endpoint.make_way(at(millis), address(1), address(7));
    assert_eq!(make_way(249), None);
    assert_eq!(make_way(250), Some(peer));
    assert_eq!(make_way(250), None, "nobody is there any more");
    assert_eq!(endpoint.find(address(7)), Some(peer));
}
