//! What a layout says, refuses, and promises of its packets.

use super::*;

#[test]
fn layouts_that_cannot_work_say_what_to_change() {
    let reliable = ChannelLayout::new(Delivery::ReliableOrdered);
    let frame = MessageType::Bytes { min: 0, max: 7000 };
    let limits = Limits::default();
    let cases = [
        (vec![], vec![frame], limits, "configure 1 to 64"),
        (vec![reliable; 65], vec![frame], limits, "configure 1 to 64"),
        (vec![reliable], vec![], limits, "configure 1 to 256"),
        (
            vec![reliable],
            vec![MessageType::Bytes { min: 0, max: 8188 }],
            limits,
            "make packets larger or the message shorter",
        ),
        (
            vec![reliable],
            vec![MessageType::Bytes { min: 2, max: 1 }],
            limits,
            "not above the maximum",
        ),
        (
            vec![reliable],
            vec![MessageType::Bits(0)],
            limits,
            "from 1 to 2048",
        ),
        (
            vec![ChannelLayout {
                receive_window: 1000,
                ..reliable
            }],
            vec![frame],
            limits,
            "a power of two",
        ),
        (
            vec![ChannelLayout {
                block_fragment_size: 0,
                ..reliable
            }],
            vec![frame],
            limits,
            "disable blocks",
        ),
        (
            vec![ChannelLayout {
                block_fragment_size: 8192,
                ..reliable
            }],
            vec![frame],
            limits,
            "fragments smaller",
        ),
        (
            vec![ChannelLayout {
                messages_per_packet_max: 0,
                ..reliable
            }],
            vec![frame],
            limits,
            "messages per packet",
        ),
        (
            vec![reliable],
            vec![frame],
            Limits {
                packet_bytes_max: 8193,
                ..limits
            },
            "up to what the fragments hold",
        ),
    ];
    for (channels, messages, limits, advice) in cases {
        let error = Layout::new(channels, messages, limits).expect_err(advice);
        assert!(error.to_string().contains(advice), "{error}");
    }
    // The nearest that does work.
    let longest = vec![MessageType::Bytes { min: 0, max: 8187 }];
    assert!(Layout::new(vec![reliable], longest, limits).is_ok());
}

#[test]
fn the_default_layout_is_what_its_page_says() {
    let layout = Layout::default();
    let same = Layout::new(
        layout.channels().to_vec(),
        layout.messages().to_vec(),
        *layout.limits(),
    );
    assert_eq!(
        same.as_ref(),
        Ok(&layout),
        "the default passes its own checks"
    );
    assert_eq!(
        layout.describe(),
        "packets: up to 8192 bytes, in up to 8 fragments of 1024 bytes\n\
         channel 0: reliable-ordered, up to 256 messages a packet, blocks up to 262144 bytes in \
         fragments of 1024, receive window 1024\n\
         channel 1: unreliable-unordered, up to 256 messages a packet, no blocks, no ids\n\
         message 0: 0 to 7000 bytes\n\
         message 1: a block\n"
    );
    // Changes when and only when two sides would misread each other: then tell every client.
    assert_eq!(
        layout.fingerprint(),
        0x0e50_498d_f5e8_0817,
        "{:#x}",
        layout.fingerprint()
    );
    assert_eq!(layout.payload_bytes_max(0), Some(262_144));
    assert_eq!(layout.payload_bytes_max(1), Some(7000));
    assert_eq!(layout.payload_bytes_max(2), None);
    for (channel, length, carriage) in [
        (0, 0, Some(Carriage::Message(FRAME))),
        (0, 7000, Some(Carriage::Message(FRAME))),
        (0, 7001, Some(Carriage::Block(BLOCK))),
        (0, 262_145, None),
        (1, 7000, Some(Carriage::Message(FRAME))),
        (1, 7001, None),
        (2, 1, None),
    ] {
        assert_eq!(
            layout.carriage(channel, (&vec![0; length], &[])),
            carriage,
            "{channel} {length}"
        );
    }
}

proptest! {
    /// The byte bounds for senders that do not count bits really are bounds.
    #[test]
    fn overheads_cover_any_packet(
        first: u16,
        steps in prop::collection::vec((1u16..40, 0usize..50), 1..25),
        unreliable in prop::collection::vec(0usize..50, 0..5),
    ) {
        let layout = Layout::default();
        let overhead = layout.overhead();
        let mut size = PacketSize::new(&layout).with_list(&layout, 0);
        let mut bound = overhead.packet + overhead.list;
        let mut id = first;
        for (step, length) in steps {
            size = size.with_message(&layout, id, FRAME, length);
            bound += overhead.message + length as u16;
            id = id.wrapping_add(step);
        }
        if !unreliable.is_empty() {
            size = size.with_list(&layout, 1);
            bound += overhead.list;
        }
        for length in unreliable {
            size = size.with_message(&layout, 0, FRAME, length);
            bound += overhead.message + length as u16;
        }
        prop_assert!(size.bytes() <= usize::from(bound), "{} > {}", size.bytes(), bound);
    }
}

/// The bytes are those of yojimbo 1.2.1, for nothing and for its first frame.
#[test]
fn a_check_word_is_behind_each_packet_where_the_layout_has_it() {
    let layout = Layout::default().with_check_word().unwrap();
    let word = [0x78, 0x56, 0x34, 0x12];
    let same = |written: &[u8], body: &[u8]| assert_eq!(written, [body, &word].concat());
    same(&frames(&layout, 0, &[]), &[0]);
    same(
        &frames(&layout, 0, &[(0, b"RQ")]),
        &[0x11, 0, 0, 0x80, 0, 0, b'R', b'Q'],
    );
    let size = PacketSize::new(&layout)
        .with_list(&layout, 0)
        .with_message(&layout, 0, FRAME, 2);
    assert_eq!(size.bytes(), 12);
    assert!(layout.overhead().packet >= Layout::default().overhead().packet + 4);
    assert!(layout.describe().starts_with(
        "packets: up to 8192 bytes, in up to 8 fragments of 1024 bytes, each with a check word\n"
    ));
    assert_ne!(layout.fingerprint(), Layout::default().fingerprint());
    // A message that was just short enough without is too long with it.
    let longest = |max| {
        let frame = MessageType::Bytes { min: 0, max };
        let reliable = ChannelLayout::new(Delivery::ReliableOrdered);
        Layout::new(vec![reliable], vec![frame], Limits::default())?.with_check_word()
    };
    assert!(longest(8183).is_ok());
    assert!(longest(8184).is_err());
}

/// Who reads what the other side did not write says so at the first packet: an acknowledgement alone, mostly.
#[test]
fn who_has_a_check_word_and_who_has_none_notice_each_other() {
    let (without, with) = (
        Layout::default(),
        Layout::default().with_check_word().unwrap(),
    );
    let parse = |packet: &[u8], layout: &Layout| {
        ConnectionPacket::parse(packet, layout, &mut Items::default())
            .map(|packet| packet.is_misread())
    };
    for messages in [&[][..], &[(0, &b"hello"[..])]] {
        let packet = frames(&with, 0, messages);
        assert_eq!(parse(&packet, &with), Ok(false));
        assert_eq!(parse(&packet, &without), Ok(messages.is_empty()));
        let packet = frames(&without, 0, messages);
        assert!(parse(&packet, &with).is_err());
        assert_eq!(parse(&packet, &without), Ok(false));
        let mut wrong = frames(&with, 0, messages);
        *wrong.last_mut().unwrap() ^= 1;
        assert_eq!(parse(&wrong, &with), Err(PacketError::CheckWord));
    }
    // Nobody's check word: what tidegates have behind packets without entries, and others may.
    for rest in [&[1, 2, 3][..], &[0x78, 0x56, 0x34, 0x12, 0], &[0x78, 0x56]] {
        assert_eq!(parse(&[&[0], rest].concat(), &without), Ok(false));
    }
}

/// A limit that takes as many bits is not noticed before a packet has more messages; one that takes others, at once.
#[test]
fn another_limit_of_messages_a_packet_is_noticed_by_its_width_or_when_it_is_passed() {
    let with_limit = |messages_per_packet_max| {
        let reliable = ChannelLayout {
            messages_per_packet_max,
            ..ChannelLayout::new(Delivery::ReliableOrdered)
        };
        let frame = MessageType::Bytes { min: 0, max: 7000 };
        Layout::new(vec![reliable], vec![frame], Limits::default()).expect("a good layout")
    };
    let written_with = with_limit(256);
    let is_read_with = |limit, count| {
        let messages: Vec<_> = (0..count).map(|id| (id, &b"hello"[..])).collect();
        let packet = frames(&written_with, 0, &messages);
        ConnectionPacket::parse(&packet, &with_limit(limit), &mut Items::default())
            .is_ok_and(|packet| !packet.is_misread())
    };
    assert!(is_read_with(150, 1) && is_read_with(150, 150));
    assert!(!is_read_with(150, 151));
    assert!(!is_read_with(128, 1) && !is_read_with(257, 1));
}
