//! Every metric, in the order of the page and of `docs/METRICS.md`.

use tidegate_proto::{CloseReason, Reject};

use super::Family;
use super::Kind::{Counter, Gauge, Histogram as Distribution};
use super::series::{
    each_direction, each_distribution, each_listener, each_listener_by, each_target,
    each_target_by, each_worker,
};
use crate::board::{LOG_LEVELS, State};
use crate::counters::{ClosedBy, ConnectFailure, Direction, DropReason, Histogram, buckets};
use crate::udp::UdpError;

/// The whole catalogue.
pub const FAMILIES: &[Family] = &[
    // -- the process
    Family {
        name: "tidegate_build_info",
        kind: Gauge,
        labels: &["version", "revision"],
        help: "Constant 1; the labels say what runs.",
        read: |_, out| out.add(&[env!("CARGO_PKG_VERSION"), REVISION], 1.0),
    },
    Family {
        name: "tidegate_state",
        kind: Gauge,
        labels: &["state"],
        help: "1 for the present state, 0 for the others.",
        read: |source, out| {
            let now = source.snapshot.process.state;
            for state in State::ALL {
                out.add(&[state.label()], f64::from(state == now));
            }
        },
    },
    Family {
        name: "tidegate_config_last_reload_successful",
        kind: Gauge,
        labels: &[],
        help: "0 after a refused reload: the old configuration is still in force.",
        read: |source, out| out.add(&[], f64::from(source.snapshot.process.last_reload_ok)),
    },
    Family {
        name: "tidegate_config_last_reload_timestamp_seconds",
        kind: Gauge,
        labels: &[],
        help: "When the configuration in force was loaded, in seconds since 1970.",
        read: |source, out| out.add(&[], source.snapshot.process.loaded_unix as f64),
    },
    Family {
        name: "tidegate_config_reloads_total",
        kind: Counter,
        labels: &["result"],
        help: "Reload attempts.",
        read: |source, out| {
            let process = &source.snapshot.process;
            out.add(&["ok"], process.reloads_ok as f64);
            out.add(&["refused"], process.reloads_refused as f64);
        },
    },
    Family {
        name: "tidegate_config_needs_restart",
        kind: Gauge,
        labels: &[],
        help: "Changed values that the last reload found and that need a restart to take effect.",
        read: |source, out| out.add(&[], source.snapshot.process.needs_restart.len() as f64),
    },
    Family {
        name: "tidegate_drain_deadline_timestamp_seconds",
        kind: Gauge,
        labels: &[],
        help: "When the drain under way ends whatever is left, in seconds since 1970; 0 when it ends nothing, or nothing is left.",
        read: |source, out| {
            let deadline = source.snapshot.process.drain_deadline_unix;
            out.add(&[], deadline.unwrap_or(0) as f64);
        },
    },
    Family {
        name: "tidegate_log_lines_suppressed_total",
        kind: Counter,
        labels: &["level"],
        help: "Log lines held back because they repeat.",
        read: |source, out| {
            let suppressed = source.snapshot.process.log_lines_suppressed;
            for (level, lines) in LOG_LEVELS.iter().zip(suppressed) {
                out.add(&[level], lines as f64);
            }
        },
    },
    Family {
        name: "tidegate_log_lines_dropped_total",
        kind: Counter,
        labels: &[],
        help: "Log lines lost because standard error took them too slowly, or not at all.",
        read: |source, out| out.add(&[], source.snapshot.process.log_lines_dropped as f64),
    },
    Family {
        name: "tidegate_token_history_failures_total",
        kind: Counter,
        labels: &[],
        help: "Times the file of used tokens could not be read, or was given up because it could not be written.",
        read: |source, out| out.add(&[], source.snapshot.process.token_history_failures as f64),
    },
    Family {
        name: "tidegate_invariant_violations_total",
        kind: Counter,
        labels: &[],
        help: "Checks of the sums of datagrams, messages or sessions that failed. Anything but 0 is a bug in tidegate.",
        read: |source, out| {
            let listeners = source.snapshot.listeners.iter();
            let sum: u64 = listeners.map(|l| l.counters.invariant_violations).sum();
            out.add(&[], sum as f64);
        },
    },
    // -- the socket
    Family {
        name: "tidegate_udp_received_packets_total",
        kind: Counter,
        labels: LISTENER,
        help: "Datagrams read from the socket.",
        read: |source, out| each_listener(source, out, |c| c.datagrams_received),
    },
    Family {
        name: "tidegate_udp_received_bytes_total",
        kind: Counter,
        labels: LISTENER,
        help: "UDP payload bytes of those datagrams.",
        read: |source, out| each_listener(source, out, |c| c.datagram_bytes_received),
    },
    Family {
        name: "tidegate_udp_sent_packets_total",
        kind: Counter,
        labels: LISTENER,
        help: "Datagrams handed to the kernel.",
        read: |source, out| each_listener(source, out, |c| c.datagrams_sent),
    },
    Family {
        name: "tidegate_udp_sent_bytes_total",
        kind: Counter,
        labels: LISTENER,
        help: "UDP payload bytes of those datagrams.",
        read: |source, out| each_listener(source, out, |c| c.datagram_bytes_sent),
    },
    Family {
        name: "tidegate_udp_receive_calls_total",
        kind: Counter,
        labels: LISTENER,
        help: "Receive system calls that returned data; packets / calls is the size of a batch.",
        read: |source, out| each_listener(source, out, |c| c.receive_calls),
    },
    Family {
        name: "tidegate_udp_send_calls_total",
        kind: Counter,
        labels: LISTENER,
        help: "Send system calls.",
        read: |source, out| each_listener(source, out, |c| c.send_calls),
    },
    Family {
        name: "tidegate_udp_send_errors_total",
        kind: Counter,
        labels: &["listener", "kind"],
        help: "Datagrams the kernel did not take.",
        read: |source, out| {
            let kinds = UdpError::ALL.map(UdpError::label);
            each_listener_by(source, out, &kinds, |c| c.send_errors);
        },
    },
    Family {
        name: "tidegate_udp_rejected_packets_total",
        kind: Counter,
        labels: &["listener", "reason"],
        help: "Datagrams that changed nothing, other than handshakes (see tidegate_handshakes_total).",
        read: |source, out| {
            for listener in &source.snapshot.listeners {
                for reject in Reject::ALL.into_iter().filter(|r| !ends_handshake(*r)) {
                    let count = listener.counters.rejects[reject as usize];
                    out.add(&[&listener.about.name, reject.label()], count as f64);
                }
            }
        },
    },
    Family {
        name: "tidegate_udp_socket_dropped_packets_total",
        kind: Counter,
        labels: LISTENER,
        help: "Datagrams the kernel dropped because the socket's receive queue was full.",
        read: |source, out| each_listener(source, out, |c| c.kernel_drops),
    },
    Family {
        name: "tidegate_udp_socket_buffer_bytes",
        kind: Gauge,
        labels: &["listener", "direction"],
        help: "Socket buffers the kernel granted, over all workers.",
        read: |source, out| {
            each_listener_by(source, out, &["in", "out"], |c| {
                [c.receive_buffer_bytes, c.send_buffer_bytes]
            });
        },
    },
    // -- peers
    Family {
        name: "tidegate_handshakes_total",
        kind: Counter,
        labels: &["listener", "result"],
        help: "Handshakes that ended, by result. Peers repeat a refused request, and each repetition counts.",
        read: |source, out| {
            for listener in &source.snapshot.listeners {
                let name = listener.about.name.as_str();
                let accepted = listener.counters.handshakes_accepted;
                out.add(&[name, "accepted"], accepted as f64);
                for reject in Reject::ALL.into_iter().filter(|r| ends_handshake(*r)) {
                    let count = listener.counters.rejects[reject as usize];
                    out.add(&[name, reject.label()], count as f64);
                }
            }
        },
    },
    Family {
        name: "tidegate_handshakes_pending",
        kind: Gauge,
        labels: LISTENER,
        help: "Handshakes under way.",
        read: |source, out| each_listener(source, out, |c| c.handshakes_pending),
    },
    Family {
        name: "tidegate_handshake_duration_seconds",
        kind: Distribution,
        labels: LISTENER,
        help: "Time from the proof of a peer's address until it is told that it is connected: the wait for the backend, without network round trips.",
        read: |source, out| each_distribution(source, out, |c| &c.handshake_duration),
    },
    Family {
        name: "tidegate_peers",
        kind: Gauge,
        labels: LISTENER,
        help: "Sessions now, and those that have ended but still deliver to their backend.",
        read: |source, out| each_listener(source, out, |c| c.peers),
    },
    Family {
        name: "tidegate_peers_limit",
        kind: Gauge,
        labels: LISTENER,
        help: "Sessions at most, without those that have ended.",
        read: |source, out| {
            for listener in &source.snapshot.listeners {
                out.add(&[&listener.about.name], listener.about.peers_max as f64);
            }
        },
    },
    Family {
        name: "tidegate_process_peers_limit",
        kind: Gauge,
        labels: &[],
        help: "Sessions at most over all listeners: the smaller of their limits together and runtime.max_peers, which counts those too that have ended but still deliver.",
        read: |source, out| out.add(&[], source.snapshot.peers_limit() as f64),
    },
    Family {
        name: "tidegate_peer_sessions_total",
        kind: Counter,
        labels: LISTENER,
        help: "Sessions begun.",
        read: |source, out| each_listener(source, out, |c| c.sessions_opened),
    },
    Family {
        name: "tidegate_peer_disconnects_total",
        kind: Counter,
        labels: &["listener", "reason"],
        help: "Sessions ended, by reason.",
        read: |source, out| {
            for listener in &source.snapshot.listeners {
                for reason in CloseReason::ALL.into_iter().filter(|r| !is_for_dialers(*r)) {
                    let count = listener.counters.sessions_closed[reason as usize];
                    out.add(&[&listener.about.name, reason.label()], count as f64);
                }
            }
        },
    },
    Family {
        name: "tidegate_peer_session_duration_seconds",
        kind: Distribution,
        labels: LISTENER,
        help: "How long sessions lasted, counted when they end.",
        read: |source, out| each_distribution(source, out, |c| &c.session_duration),
    },
    Family {
        name: "tidegate_peer_address_changes_total",
        kind: Counter,
        labels: LISTENER,
        help: "Sessions that followed their peer to another address.",
        read: |source, out| each_listener(source, out, |c| c.address_moves),
    },
    Family {
        name: "tidegate_peer_rtt_seconds",
        kind: Distribution,
        labels: LISTENER,
        help: "Smoothed round trip, one sample per peer and second.",
        read: |source, out| each_distribution(source, out, |c| &c.rtt),
    },
    Family {
        name: "tidegate_peer_jitter_seconds",
        kind: Distribution,
        labels: LISTENER,
        help: "Mean deviation of the time until an acknowledgement comes, what the peer holds back included, one sample per peer and second.",
        read: |source, out| each_distribution(source, out, |c| &c.jitter),
    },
    Family {
        name: "tidegate_peer_loss_ratio",
        kind: Distribution,
        labels: LISTENER,
        help: "Share of own packets that get lost, 0 to 1, one sample per peer and second.",
        read: |source, out| each_distribution(source, out, |c| &c.loss),
    },
    Family {
        name: "tidegate_peers_in_mode",
        kind: Gauge,
        labels: &["listener", "mode"],
        help: "Peers by the rate they are sent at.",
        read: |source, out| {
            each_listener_by(source, out, MODES, |c| {
                [
                    c.peers.saturating_sub(c.peers_in_bad_mode),
                    c.peers_in_bad_mode,
                ]
            });
        },
    },
    Family {
        name: "tidegate_mode_changes_total",
        kind: Counter,
        labels: &["listener", "to"],
        help: "Switches between good and bad mode.",
        read: |source, out| {
            each_listener_by(source, out, MODES, |c| {
                [c.sessions.mode_to_good, c.sessions.mode_to_bad]
            });
        },
    },
    // -- packets and messages
    Family {
        name: "tidegate_packets_acked_total",
        kind: Counter,
        labels: LISTENER,
        help: "Own packets known to have arrived.",
        read: |source, out| each_listener(source, out, |c| c.sessions.packets_acked),
    },
    Family {
        name: "tidegate_packets_lost_total",
        kind: Counter,
        labels: LISTENER,
        help: "Own packets counted as lost.",
        read: |source, out| each_listener(source, out, |c| c.sessions.packets_lost),
    },
    Family {
        name: "tidegate_packets_late_total",
        kind: Counter,
        labels: &["listener", "kind"],
        help: "Packets received twice, or after a newer one. Duplicates from a yojimbo peer count as \
               rejected datagrams instead, reason replayed.",
        read: |source, out| {
            each_listener_by(source, out, &["duplicate", "out_of_order"], |c| {
                [
                    c.sessions.packets_duplicate,
                    c.sessions.packets_out_of_order,
                ]
            });
        },
    },
    Family {
        name: "tidegate_fragments_received_total",
        kind: Counter,
        labels: LISTENER,
        help: "Fragments received.",
        read: |source, out| each_listener(source, out, |c| c.sessions.fragments_received),
    },
    Family {
        name: "tidegate_reassembly_failures_total",
        kind: Counter,
        labels: LISTENER,
        help: "Packets or blocks whose fragments never became whole.",
        read: |source, out| each_listener(source, out, |c| c.sessions.reassembly_failures),
    },
    Family {
        name: "tidegate_messages_sent_total",
        kind: Counter,
        labels: &["listener", "reliability"],
        help: "Messages first put into a packet.",
        read: |source, out| {
            each_listener_by(source, out, &["reliable", "unreliable"], |c| {
                [
                    c.sessions.messages_sent_reliable,
                    c.sessions.messages_sent_unreliable,
                ]
            });
        },
    },
    Family {
        name: "tidegate_messages_resent_total",
        kind: Counter,
        labels: &["listener", "why"],
        help: "Reliable messages, and fragments of long ones, put into a packet again: after a loss, or ahead of one.",
        read: |source, out| {
            each_listener_by(source, out, &["loss", "ahead"], |c| {
                [c.sessions.messages_resent, c.sessions.messages_repeated]
            });
        },
    },
    Family {
        name: "tidegate_messages_forwarded_total",
        kind: Counter,
        labels: DIRECTION,
        help: "Messages handed to the other side.",
        read: |source, out| each_direction(source, out, |c| c.messages_forwarded),
    },
    Family {
        name: "tidegate_message_bytes_forwarded_total",
        kind: Counter,
        labels: DIRECTION,
        help: "Payload bytes of those messages.",
        read: |source, out| each_direction(source, out, |c| c.message_bytes_forwarded),
    },
    Family {
        name: "tidegate_messages_dropped_total",
        kind: Counter,
        labels: &["listener", "direction", "reason"],
        help: "Messages that went no further. Reliable ones only because their session ended.",
        read: |source, out| {
            for listener in &source.snapshot.listeners {
                for direction in Direction::ALL {
                    for reason in DropReason::ALL {
                        let dropped = &listener.counters.messages_dropped;
                        let count = dropped[direction as usize][reason as usize];
                        let name = listener.about.name.as_str();
                        out.add(&[name, direction.label(), reason.label()], count as f64);
                    }
                }
            }
        },
    },
    Family {
        name: "tidegate_unreliable_messages_dropped_total",
        kind: Counter,
        labels: LISTENER,
        help: "Unreliable messages that a protocol's own queue dropped.",
        read: |source, out| each_listener(source, out, |c| c.sessions.unreliable_dropped),
    },
    Family {
        name: "tidegate_messages_skipped_total",
        kind: Counter,
        labels: LISTENER,
        help: "Messages that a rudp peer forgot before they arrived, with on_missing = \"skip\".",
        read: |source, out| each_listener(source, out, |c| c.sessions.messages_skipped),
    },
    Family {
        name: "tidegate_forward_duration_seconds",
        kind: Distribution,
        labels: DIRECTION,
        help: "Time from reading a message to writing it, without time in queues: one sample per message, the length of the worker's whole turn, which is an upper bound.",
        read: |source, out| {
            for listener in &source.snapshot.listeners {
                for direction in Direction::ALL {
                    let labels = [listener.about.name.as_str(), direction.label()];
                    let duration = &listener.counters.forward_duration[direction as usize];
                    out.add_histogram(&labels, duration);
                }
            }
        },
    },
    // -- queues
    Family {
        name: "tidegate_peers_blocked",
        kind: Gauge,
        labels: DIRECTION,
        help: "Peers whose queue in this direction is full now.",
        read: |source, out| each_direction(source, out, |c| c.peers_blocked),
    },
    Family {
        name: "tidegate_backpressure_seconds_total",
        kind: Counter,
        labels: DIRECTION,
        help: "Peer-seconds spent with a full queue.",
        read: |source, out| {
            for listener in &source.snapshot.listeners {
                for direction in Direction::ALL {
                    let spent = listener.counters.backpressure[direction as usize];
                    let labels = [listener.about.name.as_str(), direction.label()];
                    out.add(&labels, spent.as_secs_f64());
                }
            }
        },
    },
    Family {
        name: "tidegate_queued_bytes",
        kind: Gauge,
        labels: DIRECTION,
        help: "Bytes waiting in queues.",
        read: |source, out| each_direction(source, out, |c| c.queued_bytes),
    },
    Family {
        name: "tidegate_queued_bytes_most",
        kind: Gauge,
        labels: &[],
        help: "Most bytes that all queues together have held since the start.",
        read: |source, out| out.add(&[], source.snapshot.most_queued_bytes as f64),
    },
    Family {
        name: "tidegate_peers_held_back",
        kind: Gauge,
        labels: LISTENER,
        help: "Peers with a queue at its share of the remaining queue memory: it may not grow.",
        read: |source, out| each_listener(source, out, |c| c.peers_held_back),
    },
    Family {
        name: "tidegate_queued_bytes_limit",
        kind: Gauge,
        labels: &[],
        help: "Bytes that all queues together may hold.",
        read: |source, out| out.add(&[], source.snapshot.queue_memory_bytes as f64),
    },
    // -- backends
    Family {
        name: "tidegate_backend_up",
        kind: Gauge,
        labels: TARGET,
        help: "1 while the target takes connections, by the health checks; without them, 0 after five connects in a row that failed.",
        read: |source, out| {
            // Nobody asks any more whether one is there that a reload removed.
            for backend in &source.snapshot.backends {
                for target in backend.in_use() {
                    out.add(&[&backend.name, &target.name], f64::from(target.state.up));
                }
            }
        },
    },
    Family {
        name: "tidegate_backend_addresses",
        kind: Gauge,
        labels: &["backend", "target", "state"],
        help: "Addresses that the target resolves to, by whether they take connections; the target is up while one does.",
        read: |source, out| {
            each_target_by(source, out, &["up", "down"], |t| {
                let (all, up) = (t.state.addresses, t.state.addresses_up);
                [up as u64, (all - up) as u64]
            });
        },
    },
    Family {
        name: "tidegate_backend_draining",
        kind: Gauge,
        labels: TARGET,
        help: "1 while the target is taken out of rotation by hand.",
        read: |source, out| each_target(source, out, |t| u64::from(t.state.draining)),
    },
    Family {
        name: "tidegate_backend_connections",
        kind: Gauge,
        labels: TARGET,
        help: "Connections open now.",
        read: |source, out| each_target(source, out, |t| t.counters.connections),
    },
    Family {
        name: "tidegate_backend_connections_total",
        kind: Counter,
        labels: TARGET,
        help: "Connections made.",
        read: |source, out| each_target(source, out, |t| t.counters.connects),
    },
    Family {
        name: "tidegate_backend_connect_failures_total",
        kind: Counter,
        labels: &["backend", "target", "reason"],
        help: "Connections that were not made.",
        read: |source, out| {
            let reasons = ConnectFailure::ALL.map(ConnectFailure::label);
            each_target_by(source, out, &reasons, |t| t.counters.connect_failures);
        },
    },
    Family {
        name: "tidegate_backend_connect_duration_seconds",
        kind: Distribution,
        labels: &["backend"],
        help: "How long successful connects took.",
        read: |source, out| {
            for backend in &source.snapshot.backends {
                out.add_histogram(&[&backend.name], &backend.connect_duration);
            }
        },
    },
    Family {
        name: "tidegate_backend_closes_total",
        kind: Counter,
        labels: &["backend", "target", "by"],
        help: "Connections ended, by whom.",
        read: |source, out| {
            let by = ClosedBy::ALL.map(ClosedBy::label);
            each_target_by(source, out, &by, |t| t.counters.closes);
        },
    },
    Family {
        name: "tidegate_backend_received_bytes_total",
        kind: Counter,
        labels: TARGET,
        help: "Stream bytes from the backend, framing included.",
        read: |source, out| each_target(source, out, |t| t.counters.bytes_received),
    },
    Family {
        name: "tidegate_backend_sent_bytes_total",
        kind: Counter,
        labels: TARGET,
        help: "Stream bytes to the backend, framing included.",
        read: |source, out| each_target(source, out, |t| t.counters.bytes_sent),
    },
    Family {
        name: "tidegate_backend_health_checks_total",
        kind: Counter,
        labels: &["backend", "target", "result"],
        help: "Health checks run.",
        read: |source, out| {
            each_target_by(source, out, &["ok", "failed"], |t| {
                [t.state.checks_ok, t.state.checks_failed]
            });
        },
    },
    // -- strangers
    Family {
        name: "tidegate_limiter_keys",
        kind: Gauge,
        labels: LISTENER,
        help: "Buckets of the address table that are not full again yet, over all workers.",
        read: |source, out| each_listener(source, out, |c| c.admission.buckets_used),
    },
    Family {
        name: "tidegate_limiter_capacity",
        kind: Gauge,
        labels: LISTENER,
        help: "Buckets of the address table, over all workers.",
        read: |source, out| each_listener(source, out, |c| c.admission.buckets),
    },
    Family {
        name: "tidegate_limiter_shared_total",
        kind: Counter,
        labels: LISTENER,
        help: "Strangers that share a bucket with another address prefix.",
        read: |source, out| each_listener(source, out, |c| c.admission.buckets_shared),
    },
    Family {
        name: "tidegate_bans",
        kind: Gauge,
        labels: LISTENER,
        help: "Bans in force at this listener; a manual one is in force at every listener.",
        read: |source, out| each_listener(source, out, |c| c.admission.bans),
    },
    Family {
        name: "tidegate_bans_total",
        kind: Counter,
        labels: &["listener", "source"],
        help: "Bans issued at this listener; a manual one counts once at every listener.",
        read: |source, out| {
            each_listener_by(source, out, &["operator", "strikes"], |c| {
                [c.admission.bans_by_operator, c.admission.bans_by_strikes]
            });
        },
    },
    // -- workers
    Family {
        name: "tidegate_worker_busy_seconds_total",
        kind: Counter,
        labels: WORKER,
        help: "Time the worker was busy. A worker serves its share of every listener.",
        read: |source, out| each_worker(source, out, |w| w.busy.as_secs_f64()),
    },
    Family {
        name: "tidegate_worker_peers",
        kind: Gauge,
        labels: WORKER,
        help: "Sessions of each worker.",
        read: |source, out| each_worker(source, out, |w| w.peers as f64),
    },
    Family {
        name: "tidegate_worker_tick_lag_seconds",
        kind: Distribution,
        labels: &[],
        help: "How late timers fire, all workers.",
        read: |source, out| {
            let mut sum = Histogram::new(buckets::TICK_LAG);
            for listener in &source.snapshot.listeners {
                sum.merge(&listener.counters.tick_lag);
            }
            out.add_histogram(&[], &sum);
        },
    },
    Family {
        name: "process_cpu_seconds_total",
        kind: Counter,
        labels: &[],
        help: "CPU time, user and system.",
        read: |source, out| out.add_known(source.usage.cpu_seconds),
    },
    Family {
        name: "process_resident_memory_bytes",
        kind: Gauge,
        labels: &[],
        help: "Memory in RAM.",
        read: |source, out| out.add_known(source.usage.resident_bytes.map(|it| it as f64)),
    },
    Family {
        name: "process_open_fds",
        kind: Gauge,
        labels: &[],
        help: "Open file descriptors.",
        read: |source, out| out.add_known(source.usage.open_fds.map(|it| it as f64)),
    },
    Family {
        name: "process_max_fds",
        kind: Gauge,
        labels: &[],
        help: "Open file descriptors at most.",
        read: |source, out| out.add_known(source.usage.max_fds.map(|it| it as f64)),
    },
    Family {
        name: "process_threads",
        kind: Gauge,
        labels: &[],
        help: "Threads.",
        read: |source, out| out.add_known(source.usage.threads.map(|it| it as f64)),
    },
    Family {
        name: "process_start_time_seconds",
        kind: Gauge,
        labels: &[],
        help: "When the process started, in seconds since 1970.",
        read: |source, out| {
            out.add(&[], source.snapshot.started_unix as f64);
        },
    },
];

const LISTENER: &[&str] = &["listener"];
const DIRECTION: &[&str] = &["listener", "direction"];
const TARGET: &[&str] = &["backend", "target"];
const WORKER: &[&str] = &["listener", "worker"];
const MODES: &[&str] = &["good", "bad"];

/// Given by whoever builds a release; a build from a source tree does not know.
const REVISION: &str = match option_env!("TIDEGATE_REVISION") {
    Some(revision) => revision,
    None => "unknown",
};

/// Whether a reject is the end of a handshake: such are results of `tidegate_handshakes_total`, all
/// others reasons of `tidegate_udp_rejected_packets_total`, and none is both, so that the two add up
/// to the datagrams that changed nothing.
const fn ends_handshake(reject: Reject) -> bool {
    match reject {
        Reject::BadSource
        | Reject::SourceDenied
        | Reject::Banned
        | Reject::SourceLimited
        | Reject::ListenerLimited
        | Reject::PeerLimited
        | Reject::Malformed
        | Reject::WrongProtocol
        | Reject::UnknownPeer
        | Reject::Unexpected
        | Reject::DecryptFailed
        | Reject::Replayed
        | Reject::Stale
        | Reject::Refused
        | Reject::ProtocolError
        | Reject::BadAck
        | Reject::BadFragment => false,
        Reject::TokenExpired
        | Reject::TokenFuture
        | Reject::TokenBeforeStart
        | Reject::TokenKey
        | Reject::TokenAddress
        | Reject::TokenReused
        | Reject::TokenOtherAddress
        | Reject::TokenHistoryFull
        | Reject::TokenInvalid
        | Reject::ClientIdInUse
        | Reject::ChallengeFailed
        | Reject::HandshakesFull
        | Reject::Full
        | Reject::Draining
        | Reject::Unproven => true,
    }
}

/// Whether only `tidegate connect` can see this reason; a listener's sessions are never dialled.
const fn is_for_dialers(reason: CloseReason) -> bool {
    matches!(
        reason,
        CloseReason::Denied | CloseReason::ConnectTimeout | CloseReason::TokenExpired
    )
}
