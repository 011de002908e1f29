//! The protocol's own tables: `.netcode`, `.yojimbo`, `.gaffer`, `.rudp`.

use std::time::Duration;

use tidegate_proto::yojimbo::channels::{
    ChannelLayout, Delivery, FIXED_BITS_MAX, Layout, MessageType,
};
use tidegate_proto::yojimbo::reliable;

use super::super::file;
use super::super::secret::KeyFileError;
use super::super::{Gaffer, Netcode, Protocol, Rudp, Yojimbo};
use super::{Checker, KIB, MIB, MILLISECOND, SECOND};
use crate::framing::Framing;
use crate::protocol::piece_bytes;

impl Checker<'_> {
    pub(super) fn listener_protocol(
        &mut self,
        at: &str,
        typed: &mut file::Listener,
    ) -> Option<Protocol> {
        self.only_its_own(
            at,
            typed.protocol,
            [
                typed.netcode.is_some(),
                typed.yojimbo.is_some(),
                typed.gaffer.is_some(),
                typed.rudp.is_some(),
            ],
        );
        Some(match typed.protocol {
            file::Protocol::Yojimbo => {
                let netcode = typed.netcode.get_or_insert_default();
                let netcode = self.netcode(at, netcode);
                let own = typed.yojimbo.get_or_insert_default();
                let layout = self.layout(at, own);
                Protocol::Yojimbo(Yojimbo {
                    netcode: netcode?,
                    layout: layout?,
                    path_mtu_max: self.path_mtu_max(at, own),
                })
            }
            file::Protocol::Gaffer => {
                Protocol::Gaffer(self.gaffer(at, typed.gaffer.get_or_insert_default()))
            }
            file::Protocol::Rudp => {
                Protocol::Rudp(self.rudp(at, typed.rudp.get_or_insert_default()))
            }
        })
    }

    /// A table of another protocol means that one of the two was not meant. `given`: whether there is a table for
    /// netcode, yojimbo, gaffer and rudp.
    pub(super) fn only_its_own(&mut self, at: &str, chosen: file::Protocol, given: [bool; 4]) {
        let chosen = chosen.label();
        let tables = [
            ("netcode", "yojimbo"),
            ("yojimbo", "yojimbo"),
            ("gaffer", "gaffer"),
            ("rudp", "rudp"),
        ];
        for ((table, owner), is_given) in tables.into_iter().zip(given) {
            if is_given && owner != chosen {
                self.mistake(
                    &format!("{at}.{table}"),
                    format!(
                        "[{at}.{table}] is for protocol \"{owner}\", and protocol = \"{chosen}\""
                    ),
                    format!("set protocol = \"{owner}\" or delete the table"),
                );
            }
        }
    }

    /// A stream without frames is bytes in order: a hole in it would go unnoticed. And it is cut where
    /// reads end, so the pieces have any length.
    pub(super) fn raw_needs_a_stream(&mut self, path: &str, framing: Framing, protocol: &Protocol) {
        if framing != Framing::Raw {
            return;
        }
        let Some(channel) = protocol.reliable_channel() else {
            self.mistake(
                path,
                format!("{path}: framing = \"raw\" over messages that may be lost or overtake each other"),
                "choose a framing with frames, or speak something reliable: a reliable-ordered channel, \
                 or gaffer with mode = \"reliable\""
                    .to_owned(),
            );
            return;
        };
        let Protocol::Yojimbo(own) = protocol else {
            return;
        };
        let piece = vec![0xff; piece_bytes(protocol)];
        let is_lacking = |length: &usize| {
            let payload = (&piece[..*length], &[][..]);
            own.layout.carriage(channel, payload).is_none()
        };
        if let Some(length) = (1..=piece.len()).find(is_lacking) {
            self.mistake(
                path,
                format!(
                    "{path}: framing = \"raw\" makes messages of any length, and none of {length} bytes \
                     fits channel {channel}"
                ),
                "choose a framing with frames, or give the layout a message with length = [0, ...], or a \
                 block that the channel does not disable"
                    .to_owned(),
            );
        }
    }

    fn netcode(&mut self, at: &str, typed: &file::Netcode) -> Option<Netcode> {
        let at = format!("{at}.netcode");
        let first = self.key(
            &format!("{at}.key_file"),
            &typed.key_file,
            typed.insecure,
            KeyFileError::help,
        );
        let mut keys: Vec<_> = first.into_iter().collect();
        for (index, name) in typed.previous_key_files.iter().enumerate() {
            keys.extend(self.key(
                &format!("{at}.previous_key_files[{index}]"),
                name,
                typed.insecure,
                |error| error.help_unless_made(PREVIOUS_IS_MISSING),
            ));
        }
        let complete = keys.len() == 1 + typed.previous_key_files.len();
        let netcode = Netcode {
            protocol_id: self.id(&format!("{at}.protocol_id"), &typed.protocol_id, u64::MAX),
            keys,
            max_token_lifetime: self.span(
                &format!("{at}.max_token_lifetime"),
                &typed.max_token_lifetime,
                Netcode::LIFETIMES,
            ),
            clock_skew: self.span(
                &format!("{at}.clock_skew"),
                &typed.clock_skew,
                Duration::ZERO..=60 * SECOND,
            ),
            insecure: typed.insecure,
        };
        complete.then_some(netcode)
    }

    pub(super) fn layout(&mut self, at: &str, typed: &file::Yojimbo) -> Option<Layout> {
        let at = format!("{at}.yojimbo");
        let key = |key: &str| format!("{at}.{key}");
        let sound = self.found;
        let packet_bytes_max = self.size(
            &key("max_packet_size"),
            &typed.max_packet_size,
            KIB..=64 * KIB,
        );
        let fragment_size = self.size(
            &key("packet_fragment_size"),
            &typed.packet_fragment_size,
            64..=1160,
        );
        let limits = reliable::Limits {
            packet_bytes_max,
            fragment_size,
            // As yojimbo computes it.
            fragments_max: packet_bytes_max.div_ceil(fragment_size),
            fragment_above: self.size(&key("fragment_above"), &typed.fragment_above, 64..=1160),
        };
        let channels = (typed.channel.iter().enumerate())
            .map(|(index, typed)| self.channel(&format!("{at}.channel[{index}]"), typed))
            .collect();
        let messages: Vec<_> = (typed.message.iter().enumerate())
            .filter_map(|(index, typed)| self.message(&format!("{at}.message[{index}]"), typed))
            .collect();
        // What stands in for a bad value may fit nothing else.
        if self.found > sound {
            return None;
        }
        let layout = Layout::new(channels, messages, limits);
        let layout = match typed.check_word {
            true => layout.and_then(Layout::with_check_word),
            false => layout,
        };
        match layout {
            Ok(layout) => Some(layout),
            Err(problem) => {
                self.mistake(
                    &at,
                    format!("{at}: {problem}"),
                    "channels, messages and sizes must be those of the client's code".to_owned(),
                );
                None
            }
        }
    }

    /// The least that IPv6 allows, which is never looked beyond, to the most that IP can say.
    pub(super) fn path_mtu_max(&mut self, at: &str, typed: &file::Yojimbo) -> u16 {
        let key = format!("{at}.yojimbo.path_mtu_max");
        self.size(&key, &typed.path_mtu_max, 1280..=u64::from(u16::MAX)) as u16
    }

    fn channel(&mut self, at: &str, typed: &file::YojimboChannel) -> ChannelLayout {
        let key = |key: &str| format!("{at}.{key}");
        let messages = typed.max_messages_per_packet;
        ChannelLayout {
            delivery: match typed.kind {
                file::ChannelKind::ReliableOrdered => Delivery::ReliableOrdered,
                file::ChannelKind::UnreliableUnordered => Delivery::UnreliableUnordered,
            },
            messages_per_packet_max: self.count(&key("max_messages_per_packet"), messages, 1..=4096)
                as u16,
            block_bytes_max: self.size(&key("max_block_size"), &typed.max_block_size, 1..=4 * MIB)
                as u32,
            block_fragment_size: self.size(
                &key("block_fragment_size"),
                &typed.block_fragment_size,
                64..=8 * KIB,
            ) as u16,
            disable_blocks: typed.disable_blocks,
            receive_window: self.count(&key("receive_queue"), typed.receive_queue, 1..=16_384)
                as u16,
        }
    }

    fn message(&mut self, at: &str, typed: &file::YojimboMessage) -> Option<MessageType> {
        let (length, bits) = (format!("{at}.length"), format!("{at}.bits"));
        match (typed.body, typed.length, typed.bits) {
            (file::MessageBody::Bytes, Some([min, max]), None) => Some(MessageType::Bytes {
                min: self.count(&format!("{length}[0]"), min, 0..=65_535) as u16,
                max: self.count(&format!("{length}[1]"), max, 1..=65_535) as u16,
            }),
            (file::MessageBody::Block, None, None) => Some(MessageType::Block),
            (file::MessageBody::Bits, None, Some(count)) => {
                let most = i64::from(FIXED_BITS_MAX);
                Some(MessageType::Bits(self.count(&bits, count, 1..=most) as u16))
            }
            (file::MessageBody::Bytes, ..) => {
                self.mistake(
                    at,
                    format!("{at}: body = \"bytes\" needs a length, and no bits"),
                    "write length = [0, 7000], with the numbers of the client's serialize_int"
                        .to_owned(),
                );
                None
            }
            (file::MessageBody::Block, ..) => {
                self.mistake(
                    at,
                    format!("{at}: body = \"block\" has no length and no bits of its own"),
                    "delete the line; channels limit blocks with max_block_size".to_owned(),
                );
                None
            }
            (file::MessageBody::Bits, ..) => {
                self.mistake(
                    at,
                    format!("{at}: body = \"bits\" needs a number of bits, and no length"),
                    "write bits = 96, with the sum of what the client serializes".to_owned(),
                );
                None
            }
        }
    }

    pub(super) fn gaffer(&mut self, at: &str, typed: &file::Gaffer) -> Gaffer {
        let at = format!("{at}.gaffer");
        let id = self.id(
            &format!("{at}.protocol_id"),
            &typed.protocol_id,
            u32::MAX.into(),
        );
        Gaffer {
            protocol_id: id as u32,
            mode: typed.mode,
            max_message: self.size(
                &format!("{at}.max_message"),
                &typed.max_message,
                1..=64 * KIB,
            ),
        }
    }

    pub(super) fn rudp(&mut self, at: &str, typed: &file::Rudp) -> Rudp {
        let at = format!("{at}.rudp");
        let key = |key: &str| format!("{at}.{key}");
        Rudp {
            mtu: self.size(&key("mtu"), &typed.mtu, 64..=1472),
            // What the length field of a record can say.
            max_message: self.size(&key("max_message"), &typed.max_message, 1..=32_763),
            send_delay: self.span(&key("send_delay"), &typed.send_delay, MILLISECOND..=SECOND),
            expired_time: self.span(
                &key("expired_time"),
                &typed.expired_time,
                SECOND..=600 * SECOND,
            ),
            on_missing: typed.on_missing,
            probe: typed.probe,
        }
    }
}

/// What to do about a key that tokens were made with, or will be.
const PREVIOUS_IS_MISSING: &str = "copy the key from another server, or from where tokens are made with it: a new one \
                                   opens none of them; or take it out of the list, if none of its tokens can be in use";
