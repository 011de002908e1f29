//! The dashboard's rows and panels.

/// A row of the dashboard, and its panels.
pub(crate) type Row = (&'static str, &'static [Panel]);

pub(crate) struct Panel {
    pub(crate) title: &'static str,
    /// What it shows and what to do with it.
    pub(crate) about: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) look: Look,
    /// Queries and how their series are called.
    pub(crate) queries: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Look {
    Lines,
    Stacked,
    Heat,
    /// A row per target; the legend of each query is the name of its column.
    Table,
    /// A row per alert.
    Alerts,
    /// Lines, with a mark where it gets bad.
    Marked(f64),
    /// What the instances do, as a word.
    State,
    /// One figure, yellow from the first value on and red from the second.
    Figure(Option<(f64, f64)>),
    /// As a figure, but low is bad: red below the first value, yellow below the second.
    Reserve(f64, f64),
}

use Look::{Alerts, Figure, Heat, Lines, Marked, Reserve, Stacked, State, Table};

pub(crate) const ROWS: &[Row] = &[
    (
        "Now",
        &[
            Panel {
                title: "State",
                about: "0 serving, 1 draining, 2 starting, 3 not scraped: then the other figures are the last that were known. Several instances: that of the one furthest from serving.",
                unit: "none",
                look: State,
                queries: &[(
                    "max(max by (instance) (tidegate_state{state=\"draining\",$i}) + on (instance) 2 * max by (instance) (tidegate_state{state=\"starting\",$i}) or on (instance) 3 * (up{$i} == bool 0))",
                    "state",
                )],
            },
            Panel {
                title: "Peers",
                about: "Sessions now, over the selected listeners.",
                unit: "none",
                look: Figure(None),
                queries: &[("sum(tidegate_peers{$l})", "peers")],
            },
            Panel {
                title: "Slots used",
                about: "Peers over slots, where it is fullest: of an instance or of one of its listeners. Beyond 90 % newcomers are about to be refused there.",
                unit: "percentunit",
                look: Figure(Some((0.8, 0.9))),
                queries: &[(
                    "max(sum by (instance) (tidegate_peers{$i}) / sum by (instance) (tidegate_process_peers_limit{$i}) or sum by (instance, listener) (tidegate_peers{$l}) / sum by (instance, listener) (tidegate_peers_limit{$l}))",
                    "used",
                )],
            },
            Panel {
                title: "Refused handshakes",
                about: "Handshakes that ended badly, per second; one client that is refused comes again ten times a second. The row below says how they ended, and an alert when they are more than those who get in.",
                unit: "suffix:/s",
                look: Figure(None),
                queries: &[(
                    "sum(rate(tidegate_handshakes_total{result!=\"accepted\",$l}[$__rate_interval]))",
                    "refused",
                )],
            },
            Panel {
                title: "Backends up",
                about: "Share of targets that take connections, without those that are drained by hand; below 0 where all of them are.",
                unit: "percentunit",
                look: Reserve(0.5, 1.0),
                queries: &[(
                    "avg(tidegate_backend_up{$b} and on (instance, backend, target) tidegate_backend_draining{$b} == 0) or 0 * count(tidegate_backend_up{$b}) - 1",
                    "up",
                )],
            },
            Panel {
                title: "RTT, 95 %",
                about: "19 of 20 samples are below this. One sample per peer and second.",
                unit: "s",
                look: Figure(Some((0.2, 0.35))),
                queries: &[(
                    "histogram_quantile(0.95, sum by (le) (rate(tidegate_peer_rtt_seconds_bucket{$l}[$__rate_interval])))",
                    "rtt",
                )],
            },
            Panel {
                title: "Peers in bad mode",
                about: "Share of peers that are sent at the low rate. Many at once: suspect this site's network.",
                unit: "percentunit",
                look: Figure(Some((0.15, 0.3))),
                queries: &[(
                    "sum(tidegate_peers_in_mode{mode=\"bad\",$l}) / clamp_min(sum(tidegate_peers_in_mode{$l}), 1)",
                    "bad",
                )],
            },
            Panel {
                title: "Forwarding, 99 %",
                about: "From reading a message to writing it on the other side.",
                unit: "s",
                look: Figure(Some((0.005, 0.01))),
                queries: &[(
                    "histogram_quantile(0.99, sum by (le) (rate(tidegate_forward_duration_seconds_bucket{$l}[$__rate_interval])))",
                    "forwarding",
                )],
            },
            Panel {
                title: "Alerts",
                about: "What fires now. The runbook has an entry for each. Without the rules of grafana/alerts.yaml nothing would, and that is said.",
                unit: "none",
                look: Alerts,
                queries: &[(
                    "ALERTS{alertname=~\"Tidegate.*\",alertstate=\"firing\"} or label_replace(label_replace(absent(tidegate:rules_loaded), \"alertname\", \"grafana/alerts.yaml is not loaded\", \"\", \"\"), \"severity\", \"critical\", \"\", \"\")",
                    "alert",
                )],
            },
        ],
    ),
    (
        "Players",
        &[
            Panel {
                title: "Peers",
                about: "Sessions by listener, and their limit. One that has ended counts until what it said is with its game server.",
                unit: "none",
                look: Lines,
                queries: &[
                    ("sum by (listener) (tidegate_peers{$l})", "{{listener}}"),
                    (
                        "sum by (listener) (tidegate_peers_limit{$l})",
                        "{{listener}} limit",
                    ),
                ],
            },
            Panel {
                title: "Slots used by instance",
                about: "Peers over slots of each instance. Where one is far above the others, look at who sends players there.",
                unit: "percentunit",
                look: Marked(0.9),
                queries: &[(
                    "sum by (instance) (tidegate_peers{$i}) / sum by (instance) (tidegate_process_peers_limit{$i})",
                    "{{instance}}",
                )],
            },
            Panel {
                title: "Sessions begun",
                about: "New sessions per second.",
                unit: "suffix:/s",
                look: Lines,
                queries: &[(
                    "sum by (listener) (rate(tidegate_peer_sessions_total{$l}[$__rate_interval]))",
                    "{{listener}}",
                )],
            },
            Panel {
                title: "Sessions ended",
                about: "By reason. docs/RUNBOOK.md says what each means.",
                unit: "suffix:/s",
                look: Stacked,
                queries: &[(
                    "sum by (reason) (rate(tidegate_peer_disconnects_total{$l}[$__rate_interval])) > 0",
                    "{{reason}}",
                )],
            },
            Panel {
                title: "Session length, median",
                about: "Of sessions that ended in the last hour.",
                unit: "s",
                look: Lines,
                queries: &[(
                    "histogram_quantile(0.5, sum by (le, listener) (rate(tidegate_peer_session_duration_seconds_bucket{$l}[1h])))",
                    "{{listener}}",
                )],
            },
            Panel {
                title: "Handshakes",
                about: "By result. Peers repeat a refused request several times a second.",
                unit: "suffix:/s",
                look: Stacked,
                queries: &[(
                    "sum by (result) (rate(tidegate_handshakes_total{$l}[$__rate_interval])) > 0",
                    "{{result}}",
                )],
            },
            Panel {
                title: "Wait for the backend at a join, 95 %",
                about: "From the moment a session began until the peer was told it is connected; the network's round trips before that are not in it.",
                unit: "s",
                look: Lines,
                queries: &[(
                    "histogram_quantile(0.95, sum by (le, listener) (rate(tidegate_handshake_duration_seconds_bucket{$l}[$__rate_interval])))",
                    "{{listener}}",
                )],
            },
        ],
    ),
    (
        "Network quality",
        &[
            Panel {
                title: "RTT",
                about: "Quantiles over peers and time.",
                unit: "s",
                look: Lines,
                queries: &[
                    (
                        "histogram_quantile(0.5, sum by (le) (rate(tidegate_peer_rtt_seconds_bucket{$l}[$__rate_interval])))",
                        "50 %",
                    ),
                    (
                        "histogram_quantile(0.95, sum by (le) (rate(tidegate_peer_rtt_seconds_bucket{$l}[$__rate_interval])))",
                        "95 %",
                    ),
                    (
                        "histogram_quantile(0.99, sum by (le) (rate(tidegate_peer_rtt_seconds_bucket{$l}[$__rate_interval])))",
                        "99 %",
                    ),
                ],
            },
            Panel {
                title: "RTT, distribution",
                about: "Samples per bucket. Two bands are two kinds of players, or two routes.",
                unit: "s",
                look: Heat,
                queries: &[(
                    "sum by (le) (increase(tidegate_peer_rtt_seconds_bucket{$l}[$__rate_interval]))",
                    "{{le}}",
                )],
            },
            Panel {
                title: "Jitter, 95 %",
                about: "Mean deviation of the time until an acknowledgement comes. Peers that hold acknowledgements back make it longer than the path does.",
                unit: "s",
                look: Lines,
                queries: &[(
                    "histogram_quantile(0.95, sum by (le, listener) (rate(tidegate_peer_jitter_seconds_bucket{$l}[$__rate_interval])))",
                    "{{listener}}",
                )],
            },
            Panel {
                title: "Loss, 95 %",
                about: "Share of our own packets that get lost on the way to a peer.",
                unit: "percentunit",
                look: Lines,
                queries: &[(
                    "histogram_quantile(0.95, sum by (le, listener) (rate(tidegate_peer_loss_ratio_bucket{$l}[$__rate_interval])))",
                    "{{listener}}",
                )],
            },
            Panel {
                title: "Late packets",
                about: "Received twice, or after a newer one.",
                unit: "pps",
                look: Lines,
                queries: &[(
                    "sum by (kind) (rate(tidegate_packets_late_total{$l}[$__rate_interval]))",
                    "{{kind}}",
                )],
            },
            Panel {
                title: "Address changes",
                about: "Sessions that followed their peer through a NAT.",
                unit: "suffix:/s",
                look: Lines,
                queries: &[(
                    "sum by (listener) (rate(tidegate_peer_address_changes_total{$l}[$__rate_interval]))",
                    "{{listener}}",
                )],
            },
        ],
    ),
    (
        "Reliability and congestion",
        &[
            Panel {
                title: "Peers by mode",
                about: "Bad mode sends at the low rate until the network has been good for a while.",
                unit: "none",
                look: Stacked,
                queries: &[("sum by (mode) (tidegate_peers_in_mode{$l})", "{{mode}}")],
            },
            Panel {
                title: "Mode changes",
                about: "Switches per second.",
                unit: "suffix:/s",
                look: Lines,
                queries: &[(
                    "sum by (to) (rate(tidegate_mode_changes_total{$l}[$__rate_interval]))",
                    "to {{to}}",
                )],
            },
            Panel {
                title: "Messages sent again",
                about: "Over messages sent. \"ahead\" is redundancy spent before any loss is known; \"loss\" counts each fragment of a long message, so it can pass 100 %.",
                unit: "percentunit",
                look: Lines,
                queries: &[(
                    "sum by (why) (rate(tidegate_messages_resent_total{$l}[$__rate_interval])) / ignoring (why) group_left clamp_min(sum(rate(tidegate_messages_sent_total{$l}[$__rate_interval])), 1)",
                    "{{why}}",
                )],
            },
            Panel {
                title: "Packets acknowledged and lost",
                about: "Our own packets, by what became of them.",
                unit: "pps",
                look: Lines,
                queries: &[
                    (
                        "sum(rate(tidegate_packets_acked_total{$l}[$__rate_interval]))",
                        "acknowledged",
                    ),
                    (
                        "sum(rate(tidegate_packets_lost_total{$l}[$__rate_interval]))",
                        "lost",
                    ),
                ],
            },
            Panel {
                title: "Fragments",
                about: "Fragments read, and packets or blocks that never became whole.",
                unit: "suffix:/s",
                look: Lines,
                queries: &[
                    (
                        "sum(rate(tidegate_fragments_received_total{$l}[$__rate_interval]))",
                        "read",
                    ),
                    (
                        "sum(rate(tidegate_reassembly_failures_total{$l}[$__rate_interval]))",
                        "never whole",
                    ),
                ],
            },
        ],
    ),
    (
        "Traffic",
        &[
            Panel {
                title: "Messages",
                about: "Handed to the other side, per second. Both directions of an echo lie on each other.",
                unit: "suffix:/s",
                look: Lines,
                queries: &[(
                    "sum by (direction) (rate(tidegate_messages_forwarded_total{$l}[$__rate_interval]))",
                    "{{direction}}",
                )],
            },
            Panel {
                title: "Payload",
                about: "Bytes of those messages.",
                unit: "Bps",
                look: Lines,
                queries: &[(
                    "sum by (direction) (rate(tidegate_message_bytes_forwarded_total{$l}[$__rate_interval]))",
                    "{{direction}}",
                )],
            },
            Panel {
                title: "Messages dropped",
                about: "Messages that went no further, by direction and reason; reliable ones only because their session ended. A rudp peer may forget a message before it arrives.",
                unit: "suffix:/s",
                look: Stacked,
                queries: &[
                    (
                        "sum by (direction, reason) (rate(tidegate_messages_dropped_total{$l}[$__rate_interval])) > 0",
                        "{{direction}}, {{reason}}",
                    ),
                    (
                        "sum(rate(tidegate_unreliable_messages_dropped_total{$l}[$__rate_interval])) > 0",
                        "unreliable, in the protocol's queue",
                    ),
                    (
                        "sum(rate(tidegate_messages_skipped_total{$l}[$__rate_interval])) > 0",
                        "forgotten by a rudp peer",
                    ),
                ],
            },
            Panel {
                title: "Datagrams",
                about: "On the UDP side.",
                unit: "pps",
                look: Lines,
                queries: &[
                    (
                        "sum(rate(tidegate_udp_received_packets_total{$l}[$__rate_interval]))",
                        "in",
                    ),
                    (
                        "sum(rate(tidegate_udp_sent_packets_total{$l}[$__rate_interval]))",
                        "out",
                    ),
                ],
            },
            Panel {
                title: "UDP payload",
                about: "On the UDP side.",
                unit: "Bps",
                look: Lines,
                queries: &[
                    (
                        "sum(rate(tidegate_udp_received_bytes_total{$l}[$__rate_interval]))",
                        "in",
                    ),
                    (
                        "sum(rate(tidegate_udp_sent_bytes_total{$l}[$__rate_interval]))",
                        "out",
                    ),
                ],
            },
            Panel {
                title: "Datagrams per system call",
                about: "Batching: grows with load, and saves CPU.",
                unit: "none",
                look: Lines,
                queries: &[
                    (
                        "sum(rate(tidegate_udp_received_packets_total{$l}[$__rate_interval])) / clamp_min(sum(rate(tidegate_udp_receive_calls_total{$l}[$__rate_interval])), 1)",
                        "in",
                    ),
                    (
                        "sum(rate(tidegate_udp_sent_packets_total{$l}[$__rate_interval])) / clamp_min(sum(rate(tidegate_udp_send_calls_total{$l}[$__rate_interval])), 1)",
                        "out",
                    ),
                ],
            },
        ],
    ),
    (
        "Backends",
        &[
            Panel {
                title: "Targets",
                about: "Whether each takes connections, whether it is drained by hand, and sessions on it.",
                unit: "none",
                look: Table,
                queries: &[
                    (
                        "max by (instance, backend, target) (tidegate_backend_up{$b})",
                        "state",
                    ),
                    (
                        "max by (instance, backend, target) (tidegate_backend_draining{$b})",
                        "rotation",
                    ),
                    (
                        "sum by (instance, backend, target) (tidegate_backend_connections{$b})",
                        "sessions",
                    ),
                ],
            },
            Panel {
                title: "Addresses",
                about: "How many servers the name of each target stands for, by whether they take connections.",
                unit: "none",
                look: Lines,
                queries: &[(
                    "sum by (instance, target, state) (tidegate_backend_addresses{$b})",
                    "{{instance}} {{target}} {{state}}",
                )],
            },
            Panel {
                title: "Connections",
                about: "Open now, one per session.",
                unit: "none",
                look: Lines,
                queries: &[(
                    "sum by (backend, target) (tidegate_backend_connections{$b})",
                    "{{backend}} {{target}}",
                )],
            },
            Panel {
                title: "Connects and failures",
                about: "Per second, failures by reason.",
                unit: "suffix:/s",
                look: Lines,
                queries: &[
                    (
                        "sum by (target) (rate(tidegate_backend_connections_total{$b}[$__rate_interval]))",
                        "{{target}} made",
                    ),
                    (
                        "sum by (target, reason) (rate(tidegate_backend_connect_failures_total{$b}[$__rate_interval])) > 0",
                        "{{target}} {{reason}}",
                    ),
                    (
                        "sum by (target) (rate(tidegate_backend_health_checks_total{result=\"failed\",$b}[$__rate_interval])) > 0",
                        "{{target}} check failed",
                    ),
                ],
            },
            Panel {
                title: "Connect duration, 95 %",
                about: "Of successful connects.",
                unit: "s",
                look: Lines,
                queries: &[(
                    "histogram_quantile(0.95, sum by (le, backend) (rate(tidegate_backend_connect_duration_seconds_bucket{$b}[$__rate_interval])))",
                    "{{backend}}",
                )],
            },
            Panel {
                title: "Stream bytes",
                about: "Framing included. A target that is sent bytes and writes none may stand still.",
                unit: "Bps",
                look: Lines,
                queries: &[
                    (
                        "sum by (instance, target) (rate(tidegate_backend_sent_bytes_total{$b}[$__rate_interval]))",
                        "{{instance}} to {{target}}",
                    ),
                    (
                        "sum by (instance, target) (rate(tidegate_backend_received_bytes_total{$b}[$__rate_interval]))",
                        "{{instance}} from {{target}}",
                    ),
                ],
            },
            Panel {
                title: "Connections ended",
                about: "By who ended them.",
                unit: "suffix:/s",
                look: Stacked,
                queries: &[(
                    "sum by (by) (rate(tidegate_backend_closes_total{$b}[$__rate_interval]))",
                    "{{by}}",
                )],
            },
        ],
    ),
    (
        "Saturation",
        &[
            Panel {
                title: "Workers busy",
                about: "Share of its time each worker does something. Beyond 85 %: more workers, or more machines.",
                unit: "percentunit",
                look: Marked(0.85),
                queries: &[(
                    "max by (instance, worker) (rate(tidegate_worker_busy_seconds_total{$l}[$__rate_interval]))",
                    "{{instance}} {{worker}}",
                )],
            },
            Panel {
                title: "Peers per worker",
                about: "The kernel spreads peers over workers by their address.",
                unit: "none",
                look: Lines,
                queries: &[(
                    "sum by (instance, worker) (tidegate_worker_peers{$l})",
                    "{{instance}} {{worker}}",
                )],
            },
            Panel {
                title: "Forwarding, 99 %",
                about: "From reading a message to writing it on the other side, where no queue is in the way. Beyond 10 ms: workers are late.",
                unit: "s",
                look: Marked(0.01),
                queries: &[(
                    "histogram_quantile(0.99, sum by (le, direction) (rate(tidegate_forward_duration_seconds_bucket{$l}[$__rate_interval])))",
                    "{{direction}}",
                )],
            },
            Panel {
                title: "Timers late, 99 %",
                about: "How late timers fire. Grows before anything else when the CPU is short.",
                unit: "s",
                look: Lines,
                queries: &[(
                    "histogram_quantile(0.99, sum by (le) (rate(tidegate_worker_tick_lag_seconds_bucket{$i}[$__rate_interval])))",
                    "late",
                )],
            },
            Panel {
                title: "Peers blocked",
                about: "Peers whose queue is full now: to_backend means a slow backend, to_peer a slow peer.",
                unit: "none",
                look: Lines,
                queries: &[(
                    "sum by (direction) (tidegate_peers_blocked{$l})",
                    "{{direction}}",
                )],
            },
            Panel {
                title: "Backpressure",
                about: "Peer-seconds per second spent with a full queue.",
                unit: "none",
                look: Lines,
                queries: &[(
                    "sum by (direction) (rate(tidegate_backpressure_seconds_total{$l}[$__rate_interval]))",
                    "{{direction}}",
                )],
            },
            Panel {
                title: "Queues",
                about: "Bytes waiting, the most since the start, and what they may be. From a quarter of that in one direction on, those who hold most are held back.",
                unit: "bytes",
                look: Lines,
                queries: &[
                    (
                        "sum by (direction) (tidegate_queued_bytes{$l})",
                        "{{direction}}",
                    ),
                    (
                        "sum(tidegate_queued_bytes_most{$i})",
                        "most since the start",
                    ),
                    ("sum(tidegate_queued_bytes_limit{$i})", "limit"),
                ],
            },
            Panel {
                title: "Held back",
                about: "Peers with a queue that holds its share of what memory is left: refused, or their backend not read. More than 0: memory for queues is short.",
                unit: "none",
                look: Lines,
                queries: &[(
                    "sum by (listener) (tidegate_peers_held_back{$l})",
                    "{{listener}}",
                )],
            },
            Panel {
                title: "Dropped by the kernel",
                about: "The receive buffer was full: raise net.core.rmem_max and udp_recv_buffer, or add workers.",
                unit: "pps",
                look: Lines,
                queries: &[
                    (
                        "sum by (listener) (rate(tidegate_udp_socket_dropped_packets_total{$l}[$__rate_interval]))",
                        "{{listener}}",
                    ),
                    (
                        "sum by (kind) (rate(tidegate_udp_send_errors_total{$l}[$__rate_interval])) > 0",
                        "not sent: {{kind}}",
                    ),
                ],
            },
            Panel {
                title: "Socket buffers",
                about: "What the kernel granted, all workers together. Under 1 MiB a worker: set net.core.rmem_max, see the runbook.",
                unit: "bytes",
                look: Lines,
                queries: &[(
                    "sum by (listener, direction) (tidegate_udp_socket_buffer_bytes{$l})",
                    "{{listener}} {{direction}}",
                )],
            },
            Panel {
                title: "Descriptors",
                about: "Open over the limit; one per session and a few.",
                unit: "percentunit",
                look: Marked(0.9),
                queries: &[("process_open_fds{$i} / process_max_fds{$i}", "{{instance}}")],
            },
            Panel {
                title: "CPU",
                about: "Cores used.",
                unit: "none",
                look: Lines,
                queries: &[(
                    "rate(process_cpu_seconds_total{$i}[$__rate_interval])",
                    "{{instance}}",
                )],
            },
            Panel {
                title: "Stopped by the CPU limit",
                about: "Periods a second, of 100 ms mostly, in which the control group's limit stopped the process, and \
                        everybody who plays. Above 1 is an alert; without a limit it is 0.",
                unit: "none",
                look: Lines,
                queries: &[(
                    "rate(tidegate_cpu_throttled_periods_total{$i}[$__rate_interval])",
                    "{{instance}}",
                )],
            },
            Panel {
                title: "Memory of the limit",
                about: "Resident, over what the control group has; beyond that the kernel ends the process. Empty where \
                        there is no limit.",
                unit: "percentunit",
                look: Marked(0.9),
                queries: &[(
                    "process_resident_memory_bytes{$i} / tidegate_memory_limit_bytes{$i}",
                    "{{instance}}",
                )],
            },
            Panel {
                title: "Memory",
                about: "Resident. A slope under steady load is a bug.",
                unit: "bytes",
                look: Lines,
                queries: &[("process_resident_memory_bytes{$i}", "{{instance}}")],
            },
            Panel {
                title: "Restarts and reloads",
                about: "In the last hour, and new values that wait for a restart.",
                unit: "none",
                look: Lines,
                queries: &[
                    (
                        "changes(process_start_time_seconds{$i}[1h])",
                        "{{instance}} restarts",
                    ),
                    (
                        "round(sum by (instance, result) (increase(tidegate_config_reloads_total{$i}[1h])))",
                        "{{instance}} reloads {{result}}",
                    ),
                    (
                        "tidegate_config_needs_restart{$i}",
                        "{{instance}} waiting for a restart",
                    ),
                ],
            },
        ],
    ),
    (
        "Abuse",
        &[
            Panel {
                title: "Rejected datagrams",
                about: "By reason, handshakes apart. docs/RUNBOOK.md says what each means.",
                unit: "pps",
                look: Stacked,
                queries: &[(
                    "sum by (reason) (rate(tidegate_udp_rejected_packets_total{$l}[$__rate_interval])) > 0",
                    "{{reason}}",
                )],
            },
            Panel {
                title: "Address table",
                about: "Buckets of the handshake limiter in use. A full one is a flood from many addresses.",
                unit: "percentunit",
                look: Marked(0.9),
                queries: &[(
                    "sum by (listener) (tidegate_limiter_keys{$l}) / sum by (listener) (tidegate_limiter_capacity{$l})",
                    "{{listener}}",
                )],
            },
            Panel {
                title: "Shared buckets",
                about: "Strangers who met a bucket that another address holds: they share its allowance.",
                unit: "suffix:/s",
                look: Lines,
                queries: &[(
                    "sum by (listener) (rate(tidegate_limiter_shared_total{$l}[$__rate_interval]))",
                    "{{listener}}",
                )],
            },
            Panel {
                title: "Bans",
                about: "In force, and issued per hour. One by hand counts at each listener.",
                unit: "none",
                look: Lines,
                queries: &[
                    (
                        "sum by (listener) (tidegate_bans{$l})",
                        "{{listener}} in force",
                    ),
                    (
                        "round(sum by (listener, source) (increase(tidegate_bans_total{$l}[1h])))",
                        "{{listener}} issued by {{source}}",
                    ),
                ],
            },
            Panel {
                title: "Log lines held back",
                about: "Lines that would have repeated.",
                unit: "suffix:/s",
                look: Lines,
                queries: &[(
                    "sum by (level) (rate(tidegate_log_lines_suppressed_total{$i}[$__rate_interval]))",
                    "{{level}}",
                )],
            },
        ],
    ),
];
