//! Who gets a session, and what a new one says before it has heard.

use std::time::Duration;

use tidegate_proto::rudp::wire::{self, Record};
use tidegate_proto::rudp::{Acceptor, Params};
use tidegate_proto::{Acceptor as _, Event, Reject, Verdict};

use super::accepted;
use crate::link::{CLIENT, START, judge, refusal};

/// Asking the address first costs one round trip, no state, and fewer bytes than headers hide.
#[test]
fn a_stranger_gets_a_session_only_by_repeating_the_probe() {
    let mut acceptor = Acceptor::new(Params::default(), [7; 16]);
    let empty = acceptor.classify(START, CLIENT, &[]);
    assert_eq!(empty, Err(Reject::Unexpected), "legal, and no question");
    let mut judge = |now, datagram: &[u8]| judge(&mut acceptor, now, datagram);
    for nothing in [&[][..], &[1], &[0x80], &[9, 0], &[2, 0x40, 0, 2, 0x50, 0]] {
        let (verdict, reply) = judge(START, nothing);
        assert!(matches!(verdict, Verdict::Reject(_)), "{nothing:?}");
        assert!(reply.is_empty(), "{nothing:?}");
    }
    let (verdict, probe) = judge(START, &[0]);
    assert!(matches!(verdict, Verdict::Reply));
    assert!((28 + probe.len()) * 10 <= 29 * 12, "1.2 times with headers");
    let (verdict, _) = judge(START, &[0]);
    assert!(
        matches!(verdict, Verdict::Reject(Reject::Unproven)),
        "asked a moment ago"
    );

    let mut answer = Vec::new();
    for record in wire::parse(&probe).unwrap() {
        let Record::Request(id) = record else {
            panic!("{record:?}")
        };
        wire::emit_missing(&mut answer, id);
    }
    let later = START.after(Duration::from_millis(300));
    let mut wrong = answer.clone();
    wrong[5] ^= 1;
    assert!(
        matches!(judge(later, &wrong).0, Verdict::Reply),
        "asked again"
    );
    wire::emit_message_header(&mut answer, 0, 2);
    answer.extend_from_slice(b"hi");
    let (Verdict::Accept(mut session), _) = judge(later, &answer) else {
        panic!("the probe was answered");
    };
    assert_eq!(session.poll_event(), Some(Event::Authenticated));
    session.admit(later);
    assert_eq!(session.poll_event(), Some(Event::Connected));
    assert_eq!(
        session.poll_message().unwrap().payload,
        b"hi",
        "the first message counts"
    );
    assert_eq!(session.stats().messages_skipped, 0, "the echo is no loss");
}

/// While nobody is taken: who would be let in, or asked, is refused; the rest is no newcomer.
#[test]
fn only_who_wants_in_is_refused() {
    let later = START.after(Duration::from_secs(1));
    for probe in [true, false] {
        let params = Params {
            probe,
            ..Params::default()
        };
        let mut acceptor = Acceptor::new(params, [7; 16]);
        let again = if probe {
            Reject::Unproven
        } else {
            Reject::Full
        };
        for (now, datagram, expected) in [
            (START, &[0][..], Reject::Full),
            (START, &[0], again),
            (START, &[9, 0], Reject::Malformed),
            (START, &[], Reject::Unexpected),
            (later, &[0], Reject::Full),
        ] {
            let (reject, _) = refusal(&mut acceptor, now, datagram);
            assert_eq!(reject, expected, "{datagram:?}");
        }
    }
}

/// What a reference peer sent before it was accepted is fetched before anything is sent to it: once
/// it has received more than it sent, it would ignore the request.
#[test]
fn a_new_session_fetches_before_it_speaks() {
    let params = Params::default();
    let mut acceptor = Acceptor::new(params, [7; 16]);
    let mut judge = |datagram: &[u8]| judge(&mut acceptor, START, datagram);
    let (_, probe) = judge(&[0]);
    let answer = [3, probe[1], probe[2], 3, probe[4], probe[5]];
    for (then, releases) in [
        (&[5u8, 0, 0, b'a'][..], true),
        (&[3, 0, 0], true),
        (&[0], false),
        (&[5, 0, 1, b'b'], false),
    ] {
        let (Verdict::Accept(mut session), _) = judge(&answer) else {
            panic!("the probe was answered");
        };
        session.admit(START);
        session.send(START, 0, b"greeting").unwrap();
        let mut out = Vec::new();
        let soon = START.after(Duration::from_millis(20));
        while session.poll_transmit(soon, &mut out) {}
        assert_eq!(out, [2, 0, 0], "a question and no message");
        out.clear();
        let later = START.after(Duration::from_millis(60));
        session.handle_datagram(later, &mut then.to_vec()).unwrap();
        while session.poll_transmit(later, &mut out) {}
        assert_eq!(out.ends_with(b"greeting"), releases, "{then:?}");
        let at_last = START.after(Duration::from_millis(1100));
        session.handle_timeout(at_last);
        while session.poll_transmit(at_last, &mut out) {}
        assert!(out.ends_with(b"greeting"), "{then:?}: held for ever");
    }
}

/// A C client whose first messages get lost would wait a second for its first echo, although it repeats what it said as
/// long as it has received no more than that. Rule: docs/wire/rudp.md, section 6 (rule 2).
#[test]
fn a_new_session_speaks_as_often_as_it_was_spoken_to() {
    let mut session = accepted();
    for greeting in [b"one", b"two", b"six"] {
        session.send(START, 0, greeting).unwrap();
    }
    let says = |session: &mut Box<dyn tidegate_proto::Session>, millis, heard: &[u8]| {
        let now = START.after(Duration::from_millis(millis));
        session.handle_datagram(now, &mut heard.to_vec()).unwrap();
        let mut out = Vec::new();
        while session.poll_transmit(now, &mut out) {}
        let messages = wire::parse(&out).expect("datagrams of ours");
        messages
            .into_iter()
            .filter(|record| matches!(record, Record::Message { .. }))
            .count()
    };
    let session = &mut session;
    assert_eq!(says(session, 20, &[5, 0, 3, b'd']), 0, "0 to 2 are missing");
    assert_eq!(says(session, 40, &[5, 0, 0, b'a']), 1);
    assert_eq!(says(session, 60, &[5, 0, 2, b'c']), 0, "1 is missing");
    assert_eq!(says(session, 80, &[5, 0, 1, b'b']), 2, "all is there");
}
