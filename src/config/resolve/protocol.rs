//! The protocol's own tables: `.netcode`, `.yojimbo`, `.gaffer`, `.rudp`.

use super::super::file;
use super::super::{
    ChannelKind, Gaffer, GafferMode, MessageBody, Netcode, OnMissing, Protocol, Rudp, Yojimbo,
    YojimboChannel, YojimboLayout, YojimboMessage,
};
use super::{Checker, DAY, KIB, MIB, MILLISECOND, SECOND};

impl Checker<'_> {
    pub(super) fn listener_protocol(
        &mut self,
        at: &str,
        typed: &mut file::Listener,
    ) -> Option<Protocol> {
        self.only_for(at, typed.protocol, "netcode", typed.netcode.is_some());
        self.only_for(at, typed.protocol, "yojimbo", typed.yojimbo.is_some());
        self.only_for(at, typed.protocol, "gaffer", typed.gaffer.is_some());
        self.only_for(at, typed.protocol, "rudp", typed.rudp.is_some());
        Some(match typed.protocol {
            file::Protocol::Yojimbo => {
                let netcode = typed.netcode.get_or_insert_default();
                let netcode = self.netcode(at, netcode);
                let layout = typed.yojimbo.get_or_insert_default();
                Protocol::Yojimbo(Yojimbo {
                    layout: self.layout(at, layout),
                    netcode: netcode?,
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

    /// A table of another protocol means that one of the two was not meant.
    pub(super) fn only_for(&mut self, at: &str, chosen: file::Protocol, table: &str, given: bool) {
        let chosen = match chosen {
            file::Protocol::Yojimbo => "yojimbo",
            file::Protocol::Gaffer => "gaffer",
            file::Protocol::Rudp => "rudp",
        };
        let owner = if table == "netcode" { "yojimbo" } else { table };
        if given && owner != chosen {
            self.mistake(
                &format!("{at}.{table}"),
                format!("[{at}.{table}] is for protocol \"{owner}\", and protocol = \"{chosen}\""),
                format!("set protocol = \"{owner}\" or delete the table"),
            );
        }
    }

    fn netcode(&mut self, at: &str, typed: &file::Netcode) -> Option<Netcode> {
        let at = format!("{at}.netcode");
        let first = self.key(&format!("{at}.key_file"), &typed.key_file, typed.insecure);
        let mut keys: Vec<_> = first.into_iter().collect();
        for (index, name) in typed.previous_key_files.iter().enumerate() {
            keys.extend(self.key(
                &format!("{at}.previous_key_files[{index}]"),
                name,
                typed.insecure,
            ));
        }
        let complete = keys.len() == 1 + typed.previous_key_files.len();
        let netcode = Netcode {
            protocol_id: self.id(&format!("{at}.protocol_id"), &typed.protocol_id, u64::MAX),
            keys,
            max_token_lifetime: self.span(
                &format!("{at}.max_token_lifetime"),
                &typed.max_token_lifetime,
                SECOND..=DAY,
            ),
            insecure: typed.insecure,
        };
        complete.then_some(netcode)
    }

    pub(super) fn layout(&mut self, at: &str, typed: &file::Yojimbo) -> YojimboLayout {
        let at = format!("{at}.yojimbo");
        let key = |key: &str| format!("{at}.{key}");
        // A fragment and its headers must fit the 1200 bytes of one netcode payload.
        let layout = YojimboLayout {
            max_packet_size: self.size(
                &key("max_packet_size"),
                &typed.max_packet_size,
                KIB..=64 * KIB,
            ),
            fragment_above: self.size(&key("fragment_above"), &typed.fragment_above, 64..=1191),
            packet_fragment_size: self.size(
                &key("packet_fragment_size"),
                &typed.packet_fragment_size,
                64..=1186,
            ),
            channels: (typed.channel.iter().enumerate())
                .map(|(index, typed)| self.channel(&format!("{at}.channel[{index}]"), typed))
                .collect(),
            messages: (typed.message.iter().enumerate())
                .map(|(index, typed)| self.message(&format!("{at}.message[{index}]"), typed))
                .collect(),
        };
        self.at_least_one(&key("channel"), layout.channels.len(), 64);
        self.at_least_one(&key("message"), layout.messages.len(), 1024);
        layout
    }

    fn at_least_one(&mut self, path: &str, count: usize, most: usize) {
        if count == 0 || count > most {
            self.mistake(
                path,
                format!("{count} tables [[{path}]]"),
                format!("accepted are 1 to {most}, the same and in the same order as the client's"),
            );
        }
    }

    fn channel(&mut self, at: &str, typed: &file::YojimboChannel) -> YojimboChannel {
        let key = |key: &str| format!("{at}.{key}");
        YojimboChannel {
            kind: match typed.kind {
                file::ChannelKind::ReliableOrdered => ChannelKind::ReliableOrdered,
                file::ChannelKind::UnreliableUnordered => ChannelKind::UnreliableUnordered,
            },
            max_messages_per_packet: self.count(
                &key("max_messages_per_packet"),
                typed.max_messages_per_packet,
                1..=1024,
            ) as u32,
            max_block_size: self.size(&key("max_block_size"), &typed.max_block_size, 1..=MIB),
            block_fragment_size: self.size(
                &key("block_fragment_size"),
                &typed.block_fragment_size,
                64..=8 * KIB,
            ),
            disable_blocks: typed.disable_blocks,
            receive_queue: self.count(&key("receive_queue"), typed.receive_queue, 1..=32_768)
                as u32,
        }
    }

    fn message(&mut self, at: &str, typed: &file::YojimboMessage) -> YojimboMessage {
        let path = format!("{at}.length");
        let body = match (typed.body, typed.length) {
            (file::MessageBody::Bytes, Some([min, max])) => {
                let min = self.count(&format!("{path}[0]"), min, 0..=65_535) as u32;
                let max = self.count(&format!("{path}[1]"), max, 1..=65_535) as u32;
                if min >= max {
                    self.mistake(
                        &path,
                        format!("{path} = [{min}, {max}]: the least is not below the most"),
                        "write the numbers of the client's serialize_int".to_owned(),
                    );
                }
                MessageBody::Bytes { min, max }
            }
            (file::MessageBody::Bytes, None) => {
                self.mistake(
                    &path,
                    format!("{path} is missing: the client's serialize_int has a least and a most"),
                    "write length = [0, 7000], with the client's numbers".to_owned(),
                );
                MessageBody::Block
            }
            (file::MessageBody::Block, given) => {
                if given.is_some() {
                    self.mistake(
                        &path,
                        format!("{path}: a block message has no length of its own"),
                        "delete the line".to_owned(),
                    );
                }
                MessageBody::Block
            }
        };
        YojimboMessage {
            name: typed.name.clone(),
            body,
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
            mode: match typed.mode {
                file::GafferMode::Raw => GafferMode::Raw,
                file::GafferMode::Reliable => GafferMode::Reliable,
            },
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
            on_missing: match typed.on_missing {
                file::OnMissing::Close => OnMissing::Close,
                file::OnMissing::Skip => OnMissing::Skip,
            },
            probe: typed.probe,
        }
    }
}
