//! What can be typed: every key, and its default with the reason for it.
//!
//! Only `resolve.rs` looks at these types. Whole numbers are `i64` so that a negative one gets an
//! answer with the accepted range; quantities stay text until then for the same reason. An
//! `Option` here is a key whose default depends on others, or that has none.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::units::{Size, Span};

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct File {
    pub(super) version: Option<i64>,
    pub(super) runtime: Runtime,
    pub(super) admin: Admin,
    pub(super) log: Log,
    pub(super) drain: Drain,
    pub(super) listener: BTreeMap<String, Listener>,
    pub(super) backend: BTreeMap<String, Backend>,
    pub(super) tunnel: BTreeMap<String, Tunnel>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Runtime {
    pub(super) workers: i64,
    pub(super) max_peers: i64,
    pub(super) queue_memory: Size,
    pub(super) udp_recv_buffer: Size,
    pub(super) udp_send_buffer: Size,
}

impl Default for Runtime {
    fn default() -> Self {
        Self {
            // One loop per usable core; sessions follow their peers from one to another.
            workers: 0,
            // At most 2 MiB a peer in the worst case, and a few KiB in the usual one.
            max_peers: 4096,
            // What that worst case may really use, all peers together.
            queue_memory: Size::of("256MiB"),
            // The kernel's 208 KiB hold 92 datagrams: one late wake-up. 4 MiB hold 1 800.
            udp_recv_buffer: Size::of("4MiB"),
            udp_send_buffer: Size::of("4MiB"),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Admin {
    pub(super) listen: String,
    pub(super) control_socket: String,
    pub(super) control_mode: String,
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            // Loopback: what is read there is nobody else's business.
            listen: "127.0.0.1:9477".to_owned(),
            // control.sock in $RUNTIME_DIRECTORY, which systemd makes; off where there is none.
            control_socket: "auto".to_owned(),
            // The file mode is the whole access control, so it starts with the owner alone.
            control_mode: "0600".to_owned(),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Log {
    pub(super) format: LogFormat,
    pub(super) level: String,
    pub(super) repeat_window: Span,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            format: LogFormat::Auto,
            level: "info".to_owned(),
            // Six lines a minute of one kind are enough to see that it goes on.
            repeat_window: Span::of("10s"),
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum LogFormat {
    Auto,
    Text,
    Json,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Drain {
    pub(super) grace: Span,
    pub(super) ready_delay: Span,
}

impl Default for Drain {
    fn default() -> Self {
        Self {
            // Below the 30 s after which Kubernetes kills, and systemd's 90 s.
            grace: Span::of("25s"),
            // Load balancers that need time to notice get it here.
            ready_delay: Span::of("0s"),
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Protocol {
    Yojimbo,
    Gaffer,
    Rudp,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Listener {
    pub(super) protocol: Protocol,
    pub(super) bind: Vec<String>,
    pub(super) public_addresses: Vec<String>,
    pub(super) backend: Option<String>,
    pub(super) max_peers: i64,
    pub(super) idle_timeout: Span,
    pub(super) ack: Ack,
    pub(super) follow_address_change: FollowAddress,
    pub(super) limits: Limits,
    pub(super) rate: Rate,
    pub(super) netcode: Option<Netcode>,
    pub(super) yojimbo: Option<Yojimbo>,
    pub(super) gaffer: Option<Gaffer>,
    pub(super) rudp: Option<Rudp>,
}

impl Default for Listener {
    fn default() -> Self {
        Self {
            // The only one with authentication and encryption.
            protocol: Protocol::Yojimbo,
            bind: Vec::new(),
            public_addresses: Vec::new(),
            backend: None,
            // What the reference server holds at most.
            max_peers: 256,
            // Long enough for a phone to change cells, short enough to free the seat.
            idle_timeout: Span::of("10s"),
            ack: Ack::Queued,
            // What home routers do; the peer proves itself under its key.
            follow_address_change: FollowAddress::Port,
            limits: Limits::default(),
            rate: Rate::default(),
            netcode: None,
            yojimbo: None,
            gaffer: None,
            rudp: None,
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Ack {
    Queued,
    Strict,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FollowAddress {
    Off,
    Port,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Limits {
    pub(super) peer_packets: Bucket,
    pub(super) peer_bytes: ByteBucket,
    pub(super) peer_messages: Bucket,
    pub(super) ip_handshakes: Bucket,
    pub(super) handshakes: Bucket,
    pub(super) table_size: i64,
    pub(super) strikes: Strikes,
    pub(super) allow: Vec<String>,
    pub(super) allow_any_source: bool,
    pub(super) deny: Vec<String>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // A client that fills eight fragments 90 times a second sends 720 datagrams.
            peer_packets: Bucket {
                rate: 1000,
                burst: 2000,
            },
            // The same in bytes, with room for a level download.
            peer_bytes: ByteBucket {
                rate: Size::of("2MiB"),
                burst: Size::of("4MiB"),
            },
            // A message costs a queue entry however short it is.
            peer_messages: Bucket {
                rate: 10_000,
                burst: 20_000,
            },
            // Ten datagrams a second for each handshake: a LAN behind one address can start at once.
            ip_handshakes: Bucket {
                rate: 200,
                burst: 400,
            },
            // What token decryption may cost: a few per cent of one core.
            handshakes: Bucket {
                rate: 10_000,
                burst: 20_000,
            },
            // Half a mebibyte, whatever addresses are forged.
            table_size: 65_536,
            strikes: Strikes::default(),
            // Empty is everybody with yojimbo, which knows its peers by their tokens; gaffer and
            // rudp get the private networks instead.
            allow: Vec::new(),
            allow_any_source: false,
            deny: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Bucket {
    pub(super) rate: i64,
    pub(super) burst: i64,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ByteBucket {
    pub(super) rate: Size,
    pub(super) burst: Size,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Rate {
    pub(super) profile: RateProfile,
    pub(super) good_rate: Option<i64>,
    pub(super) bad_rate: Option<i64>,
    pub(super) burst: Option<i64>,
    pub(super) penalty: Penalty,
    pub(super) redundancy: Option<bool>,
    pub(super) queue_max: Option<QueueMax>,
    pub(super) base_window: Option<Span>,
    pub(super) loss_max: Option<f64>,
    pub(super) bulk: Option<Bulk>,
    pub(super) rtt_max: Option<Span>,
    pub(super) resend_after: Option<Span>,
}

impl Default for Rate {
    fn default() -> Self {
        Self {
            profile: RateProfile::Adaptive,
            good_rate: None,
            bad_rate: None,
            burst: None,
            penalty: Penalty::default(),
            redundancy: None,
            queue_max: None,
            base_window: None,
            loss_max: None,
            bulk: None,
            rtt_max: None,
            resend_after: None,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct QueueMax {
    pub(super) bulk: Span,
    pub(super) messages: Span,
}

impl Default for QueueMax {
    fn default() -> Self {
        Self {
            // What a player does not notice.
            bulk: Span::of("20ms"),
            // Messages are not what fills a queue: doubt is in their favour.
            messages: Span::of("40ms"),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Bulk {
    pub(super) start: Size,
    pub(super) min: Size,
    pub(super) max: Size,
}

impl Default for Bulk {
    fn default() -> Self {
        Self {
            // Half a megabit until the path is known, never nothing, 100 Mbit/s for one peer.
            start: Size::of("64KiB"),
            min: Size::of("8KiB"),
            max: Size::of("12MiB"),
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum RateProfile {
    Adaptive,
    Article,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Strikes {
    pub(super) limit: i64,
    pub(super) window: Span,
    pub(super) ban: Span,
}

impl Default for Strikes {
    fn default() -> Self {
        Self {
            // An honest client breaks the protocol never; a broken build, behind one address with
            // honest ones, once a session.
            limit: 20,
            window: Span::of("1m"),
            ban: Span::of("1m"),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Penalty {
    pub(super) min: Span,
    pub(super) max: Span,
    pub(super) relapse: Span,
}

impl Default for Penalty {
    fn default() -> Self {
        Self {
            // The article's.
            min: Span::of("1s"),
            max: Span::of("60s"),
            relapse: Span::of("10s"),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Netcode {
    pub(super) protocol_id: String,
    pub(super) key_file: String,
    pub(super) previous_key_files: Vec<String>,
    pub(super) max_token_lifetime: Span,
    pub(super) clock_skew: Span,
    pub(super) insecure: bool,
}

impl Default for Netcode {
    fn default() -> Self {
        Self {
            // "tidegat1": the layout that stands in the defaults of [listener.*.yojimbo].
            protocol_id: "0x3174616765646974".to_owned(),
            key_file: "netcode.key".to_owned(),
            previous_key_files: Vec::new(),
            // netcode's own default. What a restart costs: older tokens are refused that long.
            max_token_lifetime: Span::of("30s"),
            // Between machines that keep their time, with room for one that keeps it badly.
            clock_skew: Span::of("5s"),
            insecure: false,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Yojimbo {
    pub(super) max_packet_size: Size,
    pub(super) fragment_above: Size,
    pub(super) packet_fragment_size: Size,
    pub(super) channel: Vec<YojimboChannel>,
    pub(super) message: Vec<YojimboMessage>,
}

impl Default for Yojimbo {
    fn default() -> Self {
        Self {
            // The library's.
            max_packet_size: Size::of("8KiB"),
            // The library's 1024 cuts every full block fragment in two.
            fragment_above: Size::of("1152B"),
            // The library's; another size is dropped in silence.
            packet_fragment_size: Size::of("1KiB"),
            channel: vec![
                YojimboChannel::default(),
                YojimboChannel {
                    kind: ChannelKind::UnreliableUnordered,
                    disable_blocks: true,
                    ..YojimboChannel::default()
                },
            ],
            message: vec![
                YojimboMessage {
                    name: "Frame".to_owned(),
                    body: MessageBody::Bytes,
                    // The longest that always fits a packet beside everything else.
                    length: Some([0, 7000]),
                    bits: None,
                },
                YojimboMessage {
                    name: "BlockFrame".to_owned(),
                    body: MessageBody::Block,
                    length: None,
                    bits: None,
                },
            ],
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct YojimboChannel {
    #[serde(rename = "type")]
    pub(super) kind: ChannelKind,
    pub(super) max_messages_per_packet: i64,
    pub(super) max_block_size: Size,
    pub(super) block_fragment_size: Size,
    pub(super) disable_blocks: bool,
    pub(super) receive_queue: i64,
}

/// All of it the library's.
impl Default for YojimboChannel {
    fn default() -> Self {
        Self {
            kind: ChannelKind::ReliableOrdered,
            max_messages_per_packet: 256,
            max_block_size: Size::of("256KiB"),
            block_fragment_size: Size::of("1KiB"),
            disable_blocks: false,
            receive_queue: 1024,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ChannelKind {
    ReliableOrdered,
    UnreliableUnordered,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct YojimboMessage {
    pub(super) name: String,
    pub(super) body: MessageBody,
    pub(super) length: Option<[i64; 2]>,
    pub(super) bits: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum MessageBody {
    Bytes,
    Block,
    Bits,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Gaffer {
    pub(super) protocol_id: String,
    pub(super) mode: GafferMode,
    pub(super) max_message: Size,
}

impl Default for Gaffer {
    fn default() -> Self {
        Self {
            // "tide".
            protocol_id: "0x74696465".to_owned(),
            mode: GafferMode::Reliable,
            max_message: Size::of("16KiB"),
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum GafferMode {
    Raw,
    Reliable,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Rudp {
    pub(super) mtu: Size,
    pub(super) max_message: Size,
    pub(super) send_delay: Span,
    pub(super) expired_time: Span,
    pub(super) on_missing: OnMissing,
    pub(super) probe: bool,
}

impl Default for Rudp {
    fn default() -> Self {
        Self {
            // Four times the library's: fewer datagrams, and still far from any fragmentation.
            mtu: Size::of("512B"),
            // Longer ones depend on IP fragments.
            max_message: Size::of("1468B"),
            // The library's users tick every 10 ms.
            send_delay: Span::of("10ms"),
            // Half of what a peer may be silent; a message lives for one to two of these.
            expired_time: Span::of("5s"),
            // A reliable stream with a hole is not one.
            on_missing: OnMissing::Close,
            // A forged source gets one small datagram, and never a seat.
            probe: true,
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum OnMissing {
    Close,
    Skip,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Framing {
    U16be,
    U16le,
    U32be,
    U32le,
    Varint,
    Line,
    Raw,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Backend {
    pub(super) targets: Vec<String>,
    pub(super) balance: Balance,
    pub(super) framing: Option<Framing>,
    pub(super) length_includes_header: bool,
    pub(super) max_message: Size,
    pub(super) unreliable: Unreliable,
    pub(super) channel_byte: bool,
    pub(super) proxy_protocol: ProxyVersion,
    pub(super) proxy_transport: ProxyTransport,
    pub(super) proxy_tlvs: Vec<ProxyTlv>,
    pub(super) connect_timeout: Span,
    pub(super) connect_attempts: i64,
    pub(super) retry_backoff: [Span; 2],
    pub(super) queue_to_backend: Size,
    pub(super) queue_to_peer: Size,
    pub(super) stall: Span,
    pub(super) tcp_nodelay: bool,
    pub(super) tcp_keepalive: Span,
    pub(super) linger: Span,
    pub(super) dns_refresh: Span,
    pub(super) health: Health,
}

impl Default for Backend {
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            balance: Balance::LeastPeers,
            framing: None,
            length_includes_header: false,
            // The longest message that any of the protocols carries.
            max_message: Size::of("256KiB"),
            // The newest state of a game is worth more than the oldest.
            unreliable: Unreliable::DropOldest,
            channel_byte: false,
            // A backend that does not expect the header takes it for a message.
            proxy_protocol: ProxyVersion::Off,
            // Most readers refuse the other one.
            proxy_transport: ProxyTransport::Stream,
            proxy_tlvs: vec![
                ProxyTlv::UniqueId,
                ProxyTlv::Listener,
                ProxyTlv::ClientId,
                ProxyTlv::UserData,
                ProxyTlv::Protocol,
            ],
            // A peer waits in front of the door this long, and its handshake gives up after 5 s.
            connect_timeout: Span::of("2s"),
            connect_attempts: 3,
            retry_backoff: [Span::of("100ms"), Span::of("2s")],
            // Twice the bandwidth-delay product of 1 MiB/s over 100 ms; what a slow backend costs.
            queue_to_backend: Size::of("256KiB"),
            // Four of the largest messages.
            queue_to_peer: Size::of("1MiB"),
            // A server that takes nothing for so long is not slow, it hangs.
            stall: Span::of("10s"),
            // Messages are small and wanted now.
            tcp_nodelay: true,
            tcp_keepalive: Span::of("30s"),
            // Closing with unread input destroys data in flight.
            linger: Span::of("2s"),
            dns_refresh: Span::of("30s"),
            health: Health::default(),
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Balance {
    LeastPeers,
    RoundRobin,
    First,
    HashClientId,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Unreliable {
    DropOldest,
    DropNewest,
    Refuse,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ProxyVersion {
    Off,
    V1,
    V2,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ProxyTransport {
    Stream,
    Dgram,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ProxyTlv {
    UniqueId,
    Listener,
    ClientId,
    UserData,
    Protocol,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Health {
    pub(super) kind: HealthKind,
    pub(super) interval: Span,
    pub(super) timeout: Span,
    pub(super) up_after: i64,
    pub(super) down_after: i64,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            kind: HealthKind::Connect,
            interval: Span::of("5s"),
            timeout: Span::of("1s"),
            up_after: 2,
            down_after: 3,
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum HealthKind {
    Off,
    Connect,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Tunnel {
    pub(super) listen: Vec<String>,
    pub(super) remote: Option<String>,
    pub(super) protocol: Protocol,
    pub(super) framing: Option<Framing>,
    pub(super) length_includes_header: bool,
    pub(super) max_message: Size,
    pub(super) channel_byte: bool,
    pub(super) max_streams: i64,
    pub(super) connect_timeout: Span,
    pub(super) idle_timeout: Span,
    pub(super) queue_to_stream: Size,
    pub(super) queue_to_remote: Size,
    pub(super) linger: Span,
    pub(super) rate: Rate,
    pub(super) netcode: Option<TunnelNetcode>,
    pub(super) yojimbo: Option<Yojimbo>,
    pub(super) gaffer: Option<Gaffer>,
    pub(super) rudp: Option<Rudp>,
}

impl Default for Tunnel {
    fn default() -> Self {
        let backend = Backend::default();
        Self {
            listen: Vec::new(),
            remote: None,
            protocol: Protocol::Yojimbo,
            framing: None,
            length_includes_header: false,
            max_message: backend.max_message,
            channel_byte: false,
            // Each is a UDP socket and a session of its own.
            max_streams: 256,
            connect_timeout: Span::of("5s"),
            idle_timeout: Span::of("10s"),
            queue_to_stream: backend.queue_to_backend,
            queue_to_remote: backend.queue_to_peer,
            linger: backend.linger,
            rate: Rate::default(),
            netcode: None,
            yojimbo: None,
            gaffer: None,
            rudp: None,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TunnelNetcode {
    pub(super) protocol_id: String,
    pub(super) key_file: Option<String>,
    pub(super) token_file: Option<String>,
    pub(super) token_command: Option<String>,
    pub(super) token_lifetime: Span,
    pub(super) client_id: Option<String>,
    pub(super) server_addresses: Vec<String>,
    pub(super) insecure: bool,
}

impl Default for TunnelNetcode {
    fn default() -> Self {
        let server = Netcode::default();
        Self {
            protocol_id: server.protocol_id,
            key_file: None,
            token_file: None,
            token_command: None,
            token_lifetime: server.max_token_lifetime,
            client_id: None,
            server_addresses: Vec::new(),
            insecure: false,
        }
    }
}
