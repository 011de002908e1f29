//! Which messages leave, which are answered, and what the peer is known to have.

use super::*;

/// How long an answer takes.
const UNKNOWN: Duration = Duration::ZERO;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn outgoing(history_messages: usize) -> Outgoing {
    let limits = Limits {
        queue_messages: 8,
        queue_bytes: 1000,
        history_messages,
        history_bytes: 1000,
        history_kept: Duration::from_millis(50),
    };
    Outgoing::new(at(0), limits)
}

fn send_all(outgoing: &mut Outgoing, now: Timestamp) -> Vec<u64> {
    let mut ids = Vec::new();
    while let Some(id) = outgoing.next_unsent() {
        outgoing.on_sent(now);
        ids.push(id);
    }
    ids
}

#[test]
fn requests_are_answered_once_in_order_and_only_for_what_was_sent() {
    let mut outgoing = outgoing(100);
    for _ in 0..4 {
        outgoing.queue(b"x");
    }
    assert_eq!(
        outgoing.on_request(at(0), 0, UNKNOWN),
        Requested::NeverSent,
        "queued only"
    );
    assert_eq!(send_all(&mut outgoing, at(0)), [0, 1, 2, 3]);
    for id in [3, 1, 3] {
        assert_eq!(outgoing.on_request(at(0), id, UNKNOWN), Requested::Sent);
    }
    assert_eq!(outgoing.on_request(at(0), 4, UNKNOWN), Requested::NeverSent);
    assert_eq!(
        outgoing.on_request(at(0), 65535, UNKNOWN),
        Requested::NeverSent
    );
    let mut answers = Vec::new();
    while let Some(answer) = outgoing.next_answer() {
        answers.push(answer);
        outgoing.on_answered(at(0));
    }
    assert_eq!(answers, [Answer::Message(1), Answer::Message(3)]);
    outgoing.expire(at(60));
    outgoing.expire(at(120));
    outgoing.on_request(at(0), 1, UNKNOWN);
    assert_eq!(outgoing.next_answer(), Some(Answer::Missing(1)));
}

/// The reference asks on every tick, and forged requests come as often as somebody likes.
#[test]
fn a_message_that_is_asked_for_all_the_time_goes_ever_more_rarely() {
    let mut outgoing = outgoing(100);
    outgoing.queue(b"x");
    send_all(&mut outgoing, at(0));
    let mut answered = Vec::new();
    for millis in (0..1500).step_by(10) {
        assert_eq!(outgoing.on_request(at(millis), 0, UNKNOWN), Requested::Sent);
        if outgoing.next_answer().is_some() {
            outgoing.on_answered(at(millis));
            answered.push(millis);
        }
    }
    let at_once = [0, 10, 20, 30, 40, 50, 60, 70];
    let later = [90, 130, 210, 370, 690, 1010, 1330];
    assert_eq!(answered, [&at_once[..], &later].concat());
}

/// How often a message of 1000 bytes goes to a peer that asks for it on each tick for half a second.
fn copies_of_a_message(answer_time: u64) -> usize {
    let mut outgoing = Outgoing::new(at(0), crate::rudp::Params::default().limits());
    outgoing.queue(&[0; 1_000]);
    send_all(&mut outgoing, at(0));
    let answer_time = Duration::from_millis(answer_time);
    let mut answers = 0;
    for millis in (100..600).step_by(10) {
        outgoing.on_request(at(millis), 0, answer_time);
        while outgoing.next_answer().is_some() {
            outgoing.on_answered(at(millis));
            answers += 1;
        }
    }
    answers
}

/// What it asks for in that time it asked for before the answer came. Small messages may go twice, and large ones fill a
/// thin line.
#[test]
fn an_answer_that_is_under_way_is_seldom_repeated() {
    assert_eq!([0, 20, 400].map(copies_of_a_message), [12, 10, 4]);
}

/// Three bytes ask for a whole message, and anybody can forge them.
#[test]
fn who_asks_for_everything_all_the_time_draws_a_multiple_of_what_was_said() {
    let mut outgoing = Outgoing::new(at(0), crate::rudp::Params::default().limits());
    outgoing.on_reference();
    let [mut said, mut drawn] = [0; 2];
    for _ in 0..1_000 {
        outgoing.queue(&[0; 1_000]);
        said += outgoing.record_bytes(outgoing.store.unsent_id());
    }
    send_all(&mut outgoing, at(0));
    for millis in (0..3_000).step_by(10) {
        for id in 0..1_000 {
            outgoing.on_request(at(millis), id, UNKNOWN);
        }
        while let Some(Answer::Message(id)) = outgoing.next_answer() {
            drawn += outgoing.record_bytes(id);
            outgoing.on_answered(at(millis));
        }
    }
    assert!(drawn > said, "each is answered once: {drawn}");
    assert!(drawn < said + said / 3, "{drawn} for {said}");
}

/// By messages and by bytes; the last one in may go beyond the bytes. History counts as held, not as queued.
#[test]
fn what_is_held_is_counted_and_the_queue_is_bounded() {
    let mut outgoing = outgoing(100);
    for _ in 0..8 {
        assert!(outgoing.has_room());
        outgoing.queue(&[0; 10]);
    }
    assert!(!outgoing.has_room(), "8 messages");
    assert_eq!(outgoing.held(), 8 * (10 + MESSAGE_OVERHEAD));
    send_all(&mut outgoing, at(0));
    assert_eq!((outgoing.unsent(), outgoing.queued_bytes()), (0, 0));
    outgoing.queue(&[0; 999]);
    assert!(outgoing.has_room());
    outgoing.queue(&[0; 1]);
    assert!(!outgoing.has_room(), "1000 bytes");
    assert_eq!(outgoing.held(), 80 + 1000 + 10 * MESSAGE_OVERHEAD);
    assert_eq!((outgoing.unsent(), outgoing.queued_bytes()), (2, 1000));
    outgoing.release();
    assert_eq!((outgoing.unsent(), outgoing.held()), (2, 0));
    assert!(outgoing.has_room());
}

/// What a peer asks for beyond that it has to ask for again.
#[test]
fn requests_are_bounded() {
    let mut outgoing = Outgoing::new(at(0), crate::rudp::Params::default().limits());
    outgoing.on_reference();
    for id in 0..ASKED_MAX as u16 + 100 {
        outgoing.queue(b"");
        send_all(&mut outgoing, at(0));
        assert_eq!(outgoing.on_request(at(0), id, UNKNOWN), Requested::Sent);
    }
    assert_eq!(outgoing.asked.len(), ASKED_MAX);
    assert_eq!(outgoing.next_answer(), Some(Answer::Message(0)));
}

#[test]
fn a_full_history_holds_back_until_the_peer_is_known_to_have_it() {
    let mut outgoing = outgoing(3);
    for _ in 0..6 {
        outgoing.queue(b"x");
    }
    assert_eq!(send_all(&mut outgoing, at(0)), [0, 1, 2]);
    assert_eq!(outgoing.on_received_below(2), 2);
    assert_eq!(send_all(&mut outgoing, at(0)), [3, 4]);
    assert_eq!(outgoing.on_received_below(1), 0, "old news");
    assert_eq!(
        outgoing.on_received_below(99),
        3,
        "never more than was sent"
    );
}

/// Bytes are a limit as well. Of what the peer is known to have no more goes than must.
#[test]
fn a_history_full_of_bytes_holds_back_as_well() {
    let mut outgoing = outgoing(100);
    for _ in 0..6 {
        outgoing.queue(&[0; 300]);
    }
    assert_eq!(send_all(&mut outgoing, at(0)), [0, 1, 2]);
    assert_eq!(outgoing.on_received_below(2), 2);
    assert_eq!(outgoing.next_unsent(), Some(3));
    outgoing.on_sent(at(0));
    assert_eq!((outgoing.store.first_id(), outgoing.store.sent()), (1, 3));
    assert_eq!(send_all(&mut outgoing, at(0)), [4]);
    assert_eq!((outgoing.store.first_id(), outgoing.store.sent()), (2, 3));
}

/// A C peer that misses nothing requests nothing, so nobody says what it has.
#[test]
fn nothing_waits_for_who_never_requests_anything() {
    let mut outgoing = Outgoing::new(at(0), crate::rudp::Params::default().limits());
    outgoing.on_reference();
    for millis in 0..60_000 {
        outgoing.expire(at(millis));
        for _ in 0..(millis % 2 + 1) {
            outgoing.queue(&[0; 200]);
        }
        send_all(&mut outgoing, at(millis));
        assert_eq!(outgoing.queued(), 0, "after {millis} ms");
    }
    assert!(outgoing.store.sent() > 8_192, "a lower limit would do");
}

/// A tidegate has no room for more than a window behind what it lacks. Who never asks keeps what it gets.
#[test]
fn a_peer_that_shows_what_it_has_is_not_left_behind() {
    for (size, most) in [(0, LEAD_MAX as usize), (400, STORED_BYTES_MAX / 464)] {
        let mut outgoing = Outgoing::new(at(0), crate::rudp::Params::default().limits());
        for _ in 0..5_000 {
            outgoing.queue(&vec![0; size]);
        }
        assert_eq!(send_all(&mut outgoing, at(0)).len(), most, "{size} bytes");
        assert_eq!(outgoing.on_oldest_gap(at(10), 100), 100);
        assert_eq!(send_all(&mut outgoing, at(10)).len(), 100, "{size} bytes");
        for millis in (10..=3_500).step_by(10) {
            assert_eq!(send_all(&mut outgoing, at(millis)), [], "at {millis} ms");
            outgoing.on_oldest_gap(at(millis), 100);
            outgoing.on_heard(at(millis));
        }
        for millis in (3_500..=6_500).step_by(10) {
            outgoing.on_heard(at(millis));
        }
        assert!(
            !send_all(&mut outgoing, at(6_500)).is_empty(),
            "it never asks"
        );
    }
}

/// Whether or not it ever showed what it has: one that was always behind did not.
#[test]
fn who_asks_for_what_is_gone_gets_the_last_message_with_the_answer() {
    let mut outgoing = outgoing(100);
    for _ in 0..3 {
        outgoing.queue(b"x");
    }
    send_all(&mut outgoing, at(0));
    for millis in [60, 120, 180] {
        outgoing.expire(at(millis));
    }
    outgoing.on_request(at(200), 0, UNKNOWN);
    assert_eq!(outgoing.next_answer(), Some(Answer::Missing(0)));
    assert_eq!((outgoing.tail_at(), outgoing.tail()), (Some(at(200)), 2));
}

/// When the last message is repeated to a peer that answers this repeat, of those that ask something, and when all is
/// settled.
fn repeats(asks: bool, answered: Option<usize>) -> (Vec<u64>, u64) {
    let mut outgoing = outgoing(3);
    outgoing.queue(b"x");
    send_all(&mut outgoing, at(0));
    let mut repeats = Vec::new();
    for millis in 0..10_000 {
        if outgoing.tail_at().is_some_and(|due| at(millis) >= due) {
            repeats.push(millis);
            let question = asks.then_some(0x2000 + repeats.len() as u16);
            outgoing.on_tail_repeated(at(millis), question);
        }
        if answered == Some(repeats.len()) {
            outgoing.on_pong(0x2000 + repeats.len() as u16);
        }
        if outgoing.is_settled(at(millis)) {
            return (repeats, millis);
        }
    }
    panic!("never settled");
}

#[test]
fn the_last_message_is_repeated_a_few_times() {
    let expected = vec![100, 300, 700, 1500, 3100];
    assert_eq!(repeats(false, None), (expected, 3100));
}

/// The answer shows that the datagram arrived which asked, and the message is in it. What came before may be missing
/// still, and is asked for.
#[test]
fn the_last_message_is_repeated_until_a_peer_that_answers_has_it() {
    assert_eq!(repeats(true, Some(1)), (vec![100], 3100));
    assert_eq!(repeats(true, Some(3)), (vec![100, 300, 700], 3100));
    let (all, settled) = repeats(true, None);
    assert_eq!((all.len(), settled), (14, all[13]));
    assert!(
        (4_000..5_000).contains(&settled),
        "it is kept for five seconds: {all:?}"
    );
}
